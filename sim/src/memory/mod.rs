//! State spaces and their windows in the generic address space.

mod address_space;
mod allocation;
mod device_heap;
mod heap;
mod view;

use std::fmt;

pub use address_space::{AddressSpace, Budget};
pub(crate) use allocation::Allocation;
pub use allocation::Keeper;
pub(crate) use device_heap::DeviceHeap;
pub use heap::GlobalMemory;
pub(crate) use heap::{Merged, lock};
pub(crate) use view::{NEAR, View};

/// A state space of PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Device memory, shared by all blocks.
    Global,
    /// Memory of one block, accessible to the other blocks of its cluster.
    Shared,
    /// Memory of one thread.
    Local,
    /// Read-only variables of the module.
    Const,
    /// Parameters of the entry.
    Param,
    /// A generic address, whose window determines its space.
    Generic,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Global => "global",
            Self::Shared => "shared",
            Self::Local => "local",
            Self::Const => "const",
            Self::Param => "param",
            Self::Generic => "generic",
        })
    }
}

/// Base-2 logarithm of a window's size: 256 MiB. The windows of the generic address space are between
/// the possible addresses of the host and those of devices; any other generic address is also the global
/// address.
const WINDOW_BITS: u32 = 28;
/// Number of the first window, which is at 2^47.
const FIRST_WINDOW: u64 = 1 << (47 - WINDOW_BITS);

/// Returns the first address of a space's window. Global memory has none; its generic addresses are its
/// own.
pub(crate) const fn window(space: Space) -> u64 {
    match space {
        Space::Shared => FIRST_WINDOW << WINDOW_BITS,
        Space::Local => (FIRST_WINDOW + 1) << WINDOW_BITS,
        Space::Const => (FIRST_WINDOW + 2) << WINDOW_BITS,
        Space::Param => (FIRST_WINDOW + 3) << WINDOW_BITS,
        Space::Global | Space::Generic => 0,
    }
}

/// Number of the window after those of the state spaces. It contains the addresses of functions, which
/// are used for calls only; no memory is there.
const CODE_WINDOW: u64 = FIRST_WINDOW + 4;
const CODE_STEP: u64 = 16;

pub(crate) const fn code_address(function: usize) -> u64 {
    (CODE_WINDOW << WINDOW_BITS) + (function as u64 + 1) * CODE_STEP
}

pub(crate) const fn classify(address: u64) -> Space {
    match (address >> WINDOW_BITS).wrapping_sub(FIRST_WINDOW) {
        0 => Space::Shared,
        1 => Space::Local,
        2 => Space::Const,
        3 => Space::Param,
        _ => Space::Global,
    }
}

/// Number of low bits of a shared address that are the address within a block. The bits above are the
/// rank of a block of the cluster plus one, or 0 for the block's own memory.
const OWNER_BITS: u32 = 24;
/// Maximum rank in a shared address, which stands for all higher ranks; no cluster has it.
const MAX_RANK: u64 = 14;

/// Returns the address of the same location in the shared memory of the cluster's block `rank`. Ranks
/// that exceed every cluster become a rank that no cluster has.
pub(crate) const fn mapped(address: u64, rank: u32) -> u64 {
    let rank = if (rank as u64) < MAX_RANK { rank as u64 } else { MAX_RANK };
    address & !(0xf << OWNER_BITS) | (rank + 1) << OWNER_BITS
}

/// Returns the rank in a shared address, or `None` for the block's own memory, and the address within
/// that memory.
pub(crate) const fn owner(address: u64) -> (Option<u64>, u64) {
    let within = address & ((1 << OWNER_BITS) - 1);
    ((address >> OWNER_BITS).checked_sub(1), within)
}

/// Returns a number that identifies the memory of a generic address: its space and, if it is shared
/// memory, the owning block.
pub(crate) const fn region(address: u64) -> u64 {
    match classify(address) {
        Space::Shared => address >> OWNER_BITS,
        space => space as u64,
    }
}

#[inline(always)]
pub(crate) const fn is_global(address: u64) -> bool {
    // The four windows are adjacent and aligned.
    address >> (WINDOW_BITS + 2) != FIRST_WINDOW >> 2
}

#[inline(always)]
pub(crate) const fn is_own_shared(address: u64) -> bool {
    address >> OWNER_BITS == window(Space::Shared) >> OWNER_BITS
}

#[cfg(test)]
mod tests {
    use super::{Space, classify, is_global, is_own_shared, mapped, owner, region, window};

    #[test]
    fn classify_distinguishes_windows() {
        for space in [Space::Shared, Space::Local, Space::Const, Space::Param] {
            assert_eq!(classify(window(space)), space);
            assert_eq!(classify(window(space) + (1 << 28) - 1), space);
        }
        assert_eq!(classify(super::address_space::FIRST_ADDRESS), Space::Global);
        assert_eq!(classify(0), Space::Global);
        for address in
            [0, window(Space::Shared) - 1, window(Space::Param), window(Space::Param) + (1 << 28)]
        {
            assert_eq!(is_global(address), classify(address) == Space::Global);
        }
    }

    #[test]
    fn code_addresses_are_outside_the_windows() {
        assert_eq!(super::code_address(0) % 16, 0);
        assert_ne!(super::code_address(0), super::code_address(1));
        assert_eq!(classify(super::code_address(0)), Space::Global);
        assert!(super::code_address(1 << 20) < super::address_space::FIRST_ADDRESS);
    }

    #[test]
    fn shared_addresses_name_their_owner() {
        let generic = window(Space::Shared) + 0x40;
        assert_eq!(owner(0x40), (None, 0x40));
        assert_eq!(owner(mapped(0x40, 0)), (Some(0), 0x40));
        assert_eq!(owner(mapped(mapped(0x40, 3), 7)), (Some(7), 0x40));
        assert_eq!(owner(mapped(generic, 7) - window(Space::Shared)), (Some(7), 0x40));
        assert_eq!(classify(mapped(generic, u32::MAX)), Space::Shared);
        assert!(is_own_shared(generic) && !is_own_shared(mapped(generic, 0)));
        assert!(!is_own_shared(0x40));
        assert_ne!(region(generic), region(mapped(generic, 0)));
        assert_eq!(region(generic), region(generic + 4));
    }
}
