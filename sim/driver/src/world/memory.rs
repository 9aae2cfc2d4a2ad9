//! Finding memory by address, and the host memory that kernels reach.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpfold_driver::sys::*;
use warpfold_sim::GlobalMemory;

use super::{End, State};
use crate::failure::{Outcome, fail_with};
use crate::ffi::ContextId;
use crate::host_memory;
use crate::pages::Registered;
use crate::watch::Watcher;

/// Addresses from here on are those of devices.
const FIRST_DEVICE_ADDRESS: u64 = 1 << 48;

/// Host memory that kernels reach, in all contexts.
pub(crate) struct HostTable {
    pub(crate) memory: GlobalMemory,
    /// Allocations by their first address.
    pub(crate) allocations: BTreeMap<u64, HostAllocation>,
}

impl Default for HostTable {
    fn default() -> Self {
        Self { memory: GlobalMemory::of_lent_cells(), allocations: BTreeMap::new() }
    }
}

/// A range of such memory.
#[derive(Debug)]
pub(crate) struct HostAllocation {
    pub(crate) bytes: u64,
    pub(crate) context: ContextId,
    pub(crate) flags: c_uint,
    pub(crate) kind: HostKind,
    /// Where the memory has it: a registered range starts with a whole cell.
    pub(crate) lent_at: u64,
}

/// Where it comes from.
#[derive(Debug)]
pub(crate) enum HostKind {
    PageLocked,
    Managed,
    Registered(Arc<Registered>),
}

impl HostTable {
    /// The range that an address lies in, and where it starts.
    pub(crate) fn holder(&self, address: u64) -> Option<(u64, &HostAllocation)> {
        let (&base, allocation) = self.allocations.range(..=address).next_back()?;
        (address - base < allocation.bytes).then_some((base, allocation))
    }
}

impl State {
    /// The memory that an address lies in: of a context or of the host.
    pub(crate) fn memory_of(&self, address: u64) -> Option<GlobalMemory> {
        if address < FIRST_DEVICE_ADDRESS {
            return self.host.holder(address).map(|_| self.host.memory.clone());
        }
        self.owner_of(address).map(|(_, memory)| memory)
    }

    /// The context that has allocated device memory, and its memory.
    pub(crate) fn owner_of(&self, address: u64) -> Option<(ContextId, GlobalMemory)> {
        let found = self.contexts.iter().find_map(|(&id, context)| {
            let memory = context.gpu.memory();
            memory.allocation_of(address).map(|_| (id, memory.clone()))
        });
        // Memory of a graph may be named before it is there.
        found.or_else(|| {
            let id = self.reserved_at(address)?.context;
            Some((id, self.contexts.get(&id)?.gpu.memory().clone()))
        })
    }

    /// Who watches the context that has allocated what an address lies in, and how many bytes there are
    /// from there on.
    pub(crate) fn watcher_of(&self, address: u64) -> Option<(Arc<dyn Watcher>, u64)> {
        let owner = if address < FIRST_DEVICE_ADDRESS {
            self.host.holder(address)?.1.context
        } else {
            self.owner_of(address)?.0
        };
        let (base, bytes) = self.allocation_of(address)?;
        Some((self.contexts.get(&owner)?.watcher.clone()?, bytes - (address - base)))
    }

    /// First address and bytes of the allocation that an address lies in.
    pub(crate) fn allocation_of(&self, address: u64) -> Option<(u64, u64)> {
        if address < FIRST_DEVICE_ADDRESS {
            return self.host.holder(address).map(|(base, allocation)| (base, allocation.bytes));
        }
        let contexts = self.contexts.values();
        let found = { contexts }.find_map(|context| context.gpu.memory().allocation_of(address));
        found.or_else(|| self.reserved_at(address).map(|range| (range.address, range.bytes)))
    }

    /// Bytes that the host has for more memory, of devices or page-locked, beside what launches of
    /// graphs are going to take.
    pub(crate) fn room(&self) -> u64 {
        let of_devices = self.devices.iter().map(|device| device.addresses.budget().used());
        let given = |allocation: &&HostAllocation| !matches!(allocation.kind, HostKind::Registered(_));
        let of_host = self.host.allocations.values().filter(given).map(|allocation| allocation.bytes);
        let given = of_devices.chain(of_host).fold(self.promised_bytes(), u64::saturating_add);
        host_memory::room(given)
    }

    /// Refuses what the host has not got: it would give the addresses, and end the process when they are
    /// used. What is small is not worth the look.
    pub(crate) fn require_room(&self, bytes: usize) -> Outcome {
        const SMALL: usize = 1 << 20;
        if bytes < SMALL {
            return Ok(());
        }
        let room = self.room();
        if bytes as u64 <= room {
            return Ok(());
        }
        fail_with(CUDA_ERROR_OUT_OF_MEMORY, format!("{bytes} bytes; the host has {room} left"))
    }

    /// An end of a copy or memset on memory that kernels reach; all bytes must lie in one allocation.
    pub(crate) fn device_range(&self, what: &str, address: u64, bytes: u64) -> Outcome<End> {
        match self.allocation_of(address) {
            _ if bytes == 0 => Ok(End::Memory(address)),
            Some((base, size)) if bytes <= size - (address - base) => Ok(End::Memory(address)),
            Some((base, size)) => fail_with(
                CUDA_ERROR_INVALID_VALUE,
                format!("{what} of {bytes} bytes at {address:#x} leaves the {size} bytes at {base:#x}"),
            ),
            None => fail_with(
                CUDA_ERROR_INVALID_VALUE,
                format!("{what} of {bytes} bytes at {address:#x}, where no memory is allocated"),
            ),
        }
    }

    /// An end of a copy at any address: memory that kernels reach, else any of the host's.
    pub(crate) fn any_range(&self, what: &str, address: u64, bytes: u64) -> Outcome<End> {
        if address >= FIRST_DEVICE_ADDRESS || self.host.holder(address).is_some() {
            return self.device_range(what, address, bytes);
        }
        if address == 0 && bytes != 0 {
            return fail_with(CUDA_ERROR_INVALID_VALUE, format!("{what} of {bytes} bytes at null"));
        }
        Ok(End::Host(address))
    }

    /// Frees the host memory of a context.
    pub(super) fn free_host_memory_of(&mut self, id: ContextId) {
        let memory = &self.host.memory;
        self.host.allocations.retain(|_, allocation| {
            if allocation.context == id {
                // It is there: both tables change together.
                let _was_live = memory.free(allocation.lent_at);
            }
            allocation.context != id
        });
    }
}
