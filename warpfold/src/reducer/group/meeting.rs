//! Where the launches of a group's reduction meet.

use std::sync::{Arc, PoisonError};

use warpfold_abi::meeting::{CELL_BYTES, HEAD_BYTES, bytes, cell};

use super::{Group, Way};
use crate::{
    Device, Result,
    element::RESULT_WORDS,
    memory::{HostWords, Memory},
    reducer::{host_results::Layout, job::Place},
};

/// What one reduction of a group uses at a time.
pub(super) struct Meeting {
    /// The cells of all, on the first device; of [`Way::Nccl`] on each.
    all: Vec<Memory>,
    /// Of other ways than [`Way::Peers`] a cell for each device, on it, and behind it room for a result.
    own: Vec<Memory>,
    /// Results of a call that waits.
    pub(super) results: HostWords,
}

/// Bytes of a result behind the only cell of a meeting.
const RESULT_BYTES: u64 = (RESULT_WORDS * size_of::<u64>()) as u64;

const _: () = assert!(bytes(1) == HEAD_BYTES + CELL_BYTES);

impl Meeting {
    /// For launches on these devices; `members` of the launches meet on the first device.
    pub(super) fn new(devices: &[&Device], way: Way, members: u32) -> Result<Self> {
        let cleared = |device: &Device, bytes| {
            let memory = Memory::new(device, bytes)?;
            device.clear(&memory)?;
            Ok(memory)
        };
        let own = match way {
            Way::Peers => Ok(Vec::new()),
            Way::Nccl | Way::Copies => {
                devices.iter().map(|device| cleared(device, bytes(1) + RESULT_BYTES)).collect()
            }
        };
        let places = if way == Way::Nccl { devices } else { &devices[..1] };
        let all = places.iter().map(|device| cleared(device, bytes(members + 1)));
        Ok(Self {
            all: all.collect::<Result<_>>()?,
            own: own?,
            results: HostWords::new(devices[0], Layout::MOST_WORDS)?,
        })
    }

    /// The place of the launch `rank` among `members` launches that meet by themselves.
    pub(super) fn among(&self, rank: u32, members: u32) -> Place {
        let arrivals = members.into();
        Place { meeting: self.all[0].address(), rank, members, arrivals, ..Place::NONE }
    }

    /// The place of a launch by itself, whose value is to be copied.
    pub(super) fn alone(&self, member: usize) -> Place {
        let meeting = self.own[member].address();
        Place { meeting, members: 1, arrivals: 1, result: meeting + bytes(1), ..Place::NONE }
    }

    /// Where such a value is, and where it is to be as that of a rank.
    pub(super) fn copy(&self, member: usize, rank: u32) -> (u64, u64) {
        (self.own[member].address() + cell(0), self.all[0].address() + cell(rank))
    }

    /// The value of the launch by itself on a device, which has ended.
    #[cfg(feature = "world")]
    pub(super) fn value(&self, member: usize) -> Result<Vec<u8>> {
        let (device, (from, _)) = (self.own[member].device(), self.copy(member, 0));
        // SAFETY: `CELL_BYTES` bytes are there, of which any are a value; nothing writes them now.
        unsafe { device.copy_out(from, CELL_BYTES as usize) }
    }

    /// Puts a value where that of the launch by itself on the first device would be.
    #[cfg(feature = "world")]
    pub(super) fn put_own(&self, value: &[u8]) -> Result<()> {
        // The counter is zero whenever nothing runs.
        let memory = &self.own[0];
        memory.device().copy_in(memory, &[&vec![0; cell(0) as usize], value].concat())
    }

    /// The values of `ranks` ranks, which NCCL has put on the first device, one after the other.
    #[cfg(feature = "world")]
    pub(super) fn values(&self, ranks: u32) -> Result<Vec<u8>> {
        let memory = &self.all[0];
        let bytes = ranks as usize * CELL_BYTES as usize;
        // SAFETY: `bytes` bytes are there, of which any are a value; nothing writes them now.
        unsafe { memory.device().copy_out(memory.address() + cell(1), bytes) }
    }

    /// Puts values of launches by themselves where the launch that brings them together finds them.
    pub(super) fn put(&self, values: &[&[u8]]) -> Result<()> {
        // The counter is zero whenever nothing runs, and the first cell is the launch's own.
        let mut cells = vec![0; cell(1) as usize];
        cells.extend(values.concat());
        self.all[0].device().copy_in(&self.all[0], &cells)
    }

    /// The place of the launch that brings `copies` copies together: its own value is that of no
    /// elements, and comes before them.
    pub(super) fn over_copies(&self, copies: u32) -> Place {
        Place { arrivals: 1, ..self.among(0, copies + 1) }
    }

    /// Where NCCL takes a device's value, and where it puts those of all on that device.
    pub(super) fn passage(&self, member: usize) -> (u64, u64) {
        (self.own[member].address() + cell(0), self.all[member].address() + cell(1))
    }

    /// The place of the launch on a device that brings together what NCCL has put there.
    pub(super) fn over_passed(&self, member: usize, members: u32) -> Place {
        Place { meeting: self.all[member].address(), ..self.over_copies(members) }
    }
}

impl Group {
    /// A meeting that nothing uses, which stays the caller's as long as there are clones of it.
    pub(super) fn meeting(&self) -> Result<Arc<Meeting>> {
        let mut meetings = self.0.meetings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(free) = meetings.iter_mut().find_map(|meeting| {
            // Whoever used it has let go of it.
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

    /// Has nobody use a meeting again, whose counter may be anything.
    pub(super) fn spoil(&self, spoilt: &Arc<Meeting>) {
        let mut meetings = self.0.meetings.lock().unwrap_or_else(PoisonError::into_inner);
        meetings.retain(|meeting| !Arc::ptr_eq(meeting, spoilt));
    }
}
