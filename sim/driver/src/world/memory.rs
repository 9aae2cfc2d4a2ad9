//! Lookup of memory by address, and host memory that kernels can access.

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

const FIRST_DEVICE_ADDRESS: u64 = 1 << 48;

/// Page-locked, registered and managed memory of all contexts.
pub(crate) struct HostTable {
    pub(crate) memory: GlobalMemory,
    pub(crate) allocations: BTreeMap<u64, HostAllocation>,
}

impl Default for HostTable {
    fn default() -> Self {
        Self { memory: GlobalMemory::of_lent_cells(), allocations: BTreeMap::new() }
    }
}

#[derive(Debug)]
pub(crate) struct HostAllocation {
    pub(crate) bytes: u64,
    pub(crate) context: ContextId,
    pub(crate) flags: c_uint,
    pub(crate) kind: HostKind,
    /// Address to free in [`HostTable::memory`]: the allocation's, rounded down to a multiple of 8.
    pub(crate) lent_at: u64,
}

#[derive(Debug)]
pub(crate) enum HostKind {
    PageLocked,
    Managed,
    Registered(Arc<Registered>),
}

impl HostTable {
    pub(crate) fn holder(&self, address: u64) -> Option<(u64, &HostAllocation)> {
        let (&base, allocation) = self.allocations.range(..=address).next_back()?;
        (address - base < allocation.bytes).then_some((base, allocation))
    }
}

impl State {
    pub(crate) fn memory_of(&self, address: u64) -> Option<GlobalMemory> {
        if address < FIRST_DEVICE_ADDRESS {
            return self.host.holder(address).map(|_| self.host.memory.clone());
        }
        self.owner_of(address).map(|(_, memory)| memory)
    }

    pub(crate) fn owner_of(&self, address: u64) -> Option<(ContextId, GlobalMemory)> {
        let found = self.contexts.iter().find_map(|(&id, context)| {
            let memory = context.gpu.memory();
            memory.allocation_of(address).map(|_| (id, memory.clone()))
        });
        // A call may name memory of a graph before a launch has allocated the memory.
        found.or_else(|| {
            let id = self.reserved_at(address)?.context;
            Some((id, self.contexts.get(&id)?.gpu.memory().clone()))
        })
    }

    /// Returns the watcher of the context that has allocated the memory at an address, and the bytes
    /// from there to the end of the allocation.
    pub(crate) fn watcher_of(&self, address: u64) -> Option<(Arc<dyn Watcher>, u64)> {
        let owner = if address < FIRST_DEVICE_ADDRESS {
            self.host.holder(address)?.1.context
        } else {
            self.owner_of(address)?.0
        };
        let (base, bytes) = self.allocation_of(address)?;
        Some((self.contexts.get(&owner)?.watcher.clone()?, bytes - (address - base)))
    }

    pub(crate) fn allocation_of(&self, address: u64) -> Option<(u64, u64)> {
        if address < FIRST_DEVICE_ADDRESS {
            return self.host.holder(address).map(|(base, allocation)| (base, allocation.bytes));
        }
        let contexts = self.contexts.values();
        let found = { contexts }.find_map(|context| context.gpu.memory().allocation_of(address));
        found.or_else(|| self.reserved_at(address).map(|range| (range.address, range.bytes)))
    }

    /// Returns the bytes that the host has left for devices and page-locked memory, less those promised
    /// to launches of graphs.
    pub(crate) fn room(&self) -> u64 {
        let of_devices = self.devices.iter().map(|device| device.addresses.budget().used());
        let given = |allocation: &&HostAllocation| !matches!(allocation.kind, HostKind::Registered(_));
        let of_host = self.host.allocations.values().filter(given).map(|allocation| allocation.bytes);
        let given = of_devices.chain(of_host).fold(self.promised_bytes(), u64::saturating_add);
        host_memory::room(given)
    }

    /// Returns an error if the host lacks this much memory. Otherwise the system would accept the
    /// allocation, and kill the process when it uses the memory. Small sizes are not worth the check.
    pub(crate) fn require_room(&self, bytes: usize) -> Outcome {
        const SMALL: usize = 1 << 20;
        if bytes < SMALL {
            return Ok(());
        }
        let room = self.room();
        if bytes as u64 <= room {
            return Ok(());
        }
        fail_with(
            CUDA_ERROR_OUT_OF_MEMORY,
            format!("{bytes} bytes are requested; the host has {room} left"),
        )
    }

    /// Returns the [`End`] of a copy or memset in memory that kernels can access. Fails unless all bytes
    /// are in one allocation.
    pub(crate) fn device_range(&self, what: &str, address: u64, bytes: u64) -> Outcome<End> {
        match self.allocation_of(address) {
            _ if bytes == 0 => Ok(End::Memory(address)),
            Some((base, size)) if bytes <= size - (address - base) => Ok(End::Memory(address)),
            Some((base, size)) => fail_with(
                CUDA_ERROR_INVALID_VALUE,
                format!(
                    "{what} of {bytes} bytes at {address:#x} reaches past the end of the {size} bytes \
                     at {base:#x}"
                ),
            ),
            None => fail_with(
                CUDA_ERROR_INVALID_VALUE,
                format!("{what} of {bytes} bytes at {address:#x}, where no memory is allocated"),
            ),
        }
    }

    /// Returns the [`End`] of a copy at any address: memory that kernels can access, otherwise any host
    /// memory.
    pub(crate) fn any_range(&self, what: &str, address: u64, bytes: u64) -> Outcome<End> {
        if address >= FIRST_DEVICE_ADDRESS || self.host.holder(address).is_some() {
            return self.device_range(what, address, bytes);
        }
        if address == 0 && bytes != 0 {
            return fail_with(CUDA_ERROR_INVALID_VALUE, format!("{what} of {bytes} bytes at null"));
        }
        Ok(End::Host(address))
    }

    pub(super) fn free_host_memory_of(&mut self, id: ContextId) {
        let memory = &self.host.memory;
        self.host.allocations.retain(|_, allocation| {
            if allocation.context == id {
                // The free succeeds, because `memory` and `allocations` change together.
                let _was_live = memory.free(allocation.lent_at);
            }
            allocation.context != id
        });
    }
}
