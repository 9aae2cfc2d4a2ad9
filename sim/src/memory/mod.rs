//! State spaces and their places in the generic address space.

mod heap;

use std::fmt;

pub(crate) use heap::{Allocation, Heap, View};

/// A state space of PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Device memory, shared by all blocks.
    Global,
    /// Memory of one block.
    Shared,
    /// Memory of one thread.
    Local,
    /// Read-only variables of the module.
    Const,
    /// Parameters of the entry.
    Param,
    /// An address of any space, told apart by windows.
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

/// Windows of the generic address space take 256 MiB each; everything else in
/// it is global memory, at the same address.
const WINDOW_BITS: u32 = 28;

/// First address of a space's window; global memory is at its own addresses.
pub(crate) const fn window(space: Space) -> u64 {
    match space {
        Space::Shared => 0x10 << WINDOW_BITS,
        Space::Local => 0x11 << WINDOW_BITS,
        Space::Const => 0x12 << WINDOW_BITS,
        Space::Param => 0x13 << WINDOW_BITS,
        Space::Global | Space::Generic => 0,
    }
}

/// The space that a generic address lies in.
pub(crate) const fn classify(address: u64) -> Space {
    match address >> WINDOW_BITS {
        0x10 => Space::Shared,
        0x11 => Space::Local,
        0x12 => Space::Const,
        0x13 => Space::Param,
        _ => Space::Global,
    }
}

#[cfg(test)]
mod tests {
    use super::{Space, classify, window};

    #[test]
    fn windows_are_told_apart() {
        for space in [Space::Shared, Space::Local, Space::Const, Space::Param] {
            assert_eq!(classify(window(space)), space);
            assert_eq!(classify(window(space) + (1 << 28) - 1), space);
        }
        assert_eq!(classify(super::heap::FIRST_ADDRESS), Space::Global);
        assert_eq!(classify(0), Space::Global);
    }
}
