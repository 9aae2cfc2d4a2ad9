//! Memory in which the launches of a group's reduction combine their partial results.

use std::sync::{Arc, PoisonError};

use warpfold_abi::meeting::{CELL_BYTES, HEAD_BYTES, bytes, cell};

use super::{Group, Way};
use crate::{
    Device, Result,
    element::RESULT_WORDS,
    memory::{HostWords, Memory},
    reducer::{HostResults, host_results::Layout, job::Place},
};

/// The memory that the launches of one reduction share; see [`warpfold_abi::meeting`].
pub(super) struct Meeting {
    /// Memory for the partial results of all launches, on the first device; for [`Way::Nccl`], on each.
    all: Vec<Memory>,
    /// Memory on each device for its own partial result, followed by a result; empty for [`Way::Peers`].
    local: Vec<Memory>,
    pub(super) results: HostWords,
}

const RESULT_BYTES: u64 = (RESULT_WORDS * size_of::<u64>()) as u64;

const _: () = assert!(bytes(1) == HEAD_BYTES + CELL_BYTES);

impl Meeting {
    pub(super) fn new(devices: &[&Device], way: Way, members: u32) -> Result<Self> {
        let cleared = |device: &Device, bytes| {
            let memory = Memory::new(device, bytes)?;
            device.clear(&memory)?;
            Ok(memory)
        };
        let local = match way {
            Way::Peers => Ok(Vec::new()),
            Way::Nccl | Way::Copies => {
                devices.iter().map(|device| cleared(device, bytes(1) + RESULT_BYTES)).collect()
            }
        };
        let places = if way == Way::Nccl { devices } else { &devices[..1] };
        let all = places.iter().map(|device| cleared(device, bytes(members + 1)));
        Ok(Self {
            all: all.collect::<Result<_>>()?,
            local: local?,
            results: HostWords::new(devices[0], Layout::MOST_WORDS)?,
        })
    }

    pub(super) fn peer_place(&self, rank: u32, members: u32) -> Place {
        let arrivals = members.into();
        Place { meeting: self.all[0].address(), rank, members, arrivals, ..Place::NONE }
    }

    /// Returns the place of a launch that stores its partial result on its own device.
    pub(super) fn local_place(&self, member: usize) -> Place {
        let meeting = self.local[member].address();
        Place { meeting, members: 1, arrivals: 1, result: meeting + bytes(1), ..Place::NONE }
    }

    /// Returns the source and destination of a copy of a local partial result to the cell of `rank`.
    pub(super) fn copy_addresses(&self, member: usize, rank: u32) -> (u64, u64) {
        (self.local[member].address() + cell(0), self.all[0].address() + cell(rank))
    }

    #[cfg(feature = "world")]
    pub(super) fn local_value(&self, member: usize) -> Result<Vec<u8>> {
        let (device, (from, _)) = (self.local[member].device(), self.copy_addresses(member, 0));
        // SAFETY: the memory has `CELL_BYTES` bytes at `from`; the launch that wrote them has finished.
        unsafe { device.copy_out(from, CELL_BYTES as usize) }
    }

    #[cfg(feature = "world")]
    pub(super) fn put_local(&self, value: &[u8]) -> Result<()> {
        // The counter is zero while no launch runs, so it is overwritten with zero.
        let memory = &self.local[0];
        memory.device().copy_in(memory, &[&vec![0; cell(0) as usize], value].concat())
    }

    #[cfg(feature = "world")]
    pub(super) fn gathered_values(&self, ranks: u32) -> Result<Vec<u8>> {
        let memory = &self.all[0];
        let bytes = ranks as usize * CELL_BYTES as usize;
        // SAFETY: the memory has cells for all ranks, and the exchange that wrote them has finished.
        unsafe { memory.device().copy_out(memory.address() + cell(1), bytes) }
    }

    pub(super) fn put(&self, values: &[&[u8]]) -> Result<()> {
        // Zeros: the counter is zero while no launch runs; the combining launch writes the first cell.
        let mut cells = vec![0; cell(1) as usize];
        cells.extend(values.concat());
        self.all[0].device().copy_in(&self.all[0], &cells)
    }

    /// Returns the place of the combining launch, which writes the identity to the first cell.
    pub(super) fn combine_place(&self, copies: u32) -> Place {
        Place { arrivals: 1, ..self.peer_place(0, copies + 1) }
    }

    /// Returns the addresses that NCCL reads from and gathers to on a device.
    pub(super) fn gather_addresses(&self, member: usize) -> (u64, u64) {
        (self.local[member].address() + cell(0), self.all[member].address() + cell(1))
    }

    pub(super) fn combine_gathered_place(&self, member: usize, members: u32) -> Place {
        Place { meeting: self.all[member].address(), ..self.combine_place(members) }
    }

    pub(super) fn take(&self, layout: Layout) -> HostResults<'_> {
        HostResults::new(&self.results, 0, layout).take()
    }
}

impl Group {
    /// Returns a free meeting. It is in use until the returned `Arc` and its clones are dropped.
    pub(super) fn meeting(&self) -> Result<Arc<Meeting>> {
        let mut meetings = self.0.meetings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(free) = meetings.iter_mut().find_map(|meeting| {
            Arc::get_mut(meeting)?;
            Some(meeting.clone())
        }) {
            return Ok(free);
        }
        let devices: Vec<&Device> = self.devices().collect();
        let made = Arc::new(Meeting::new(&devices, self.way(), devices.len() as u32)?);
        meetings.push(made.clone());
        Ok(made)
    }

    /// Removes the meeting of a failed reduction: its counter may have any value.
    pub(super) fn discard_meeting(&self, failed: &Arc<Meeting>) {
        let mut meetings = self.0.meetings.lock().unwrap_or_else(PoisonError::into_inner);
        meetings.retain(|meeting| !Arc::ptr_eq(meeting, failed));
    }
}
