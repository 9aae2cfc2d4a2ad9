//! A group's result on each of its devices.

use std::{fmt, sync::Arc};

use super::{Group, MAX_MEMBERS, Member, Way};
use crate::{Error, Outcome, Output, Result, memory::Memory, stream::LastWrite};

/// Device memory for a group's result on each of its devices, where work that is enqueued later can read
/// it.
pub struct GroupOutputs<R> {
    group: Group,
    each: Vec<Output<R>>,
    memory: Arc<ResultMemory>,
    /// The devices that took part in the last write, one bit each.
    written_by: u32,
}

const _: () = assert!(MAX_MEMBERS <= u32::BITS as usize, "a device has a bit");

pub(super) struct ResultMemory {
    pub(super) memories: Vec<Arc<Memory>>,
    pub(super) bytes: usize,
    /// Byte offsets, in the first device's memory, from its result to the results of the other devices.
    distances: Memory,
}

impl Group {
    /// Allocates memory for a result on each device. Its bytes are zero before the first result.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or [`Error::Driver`].
    pub fn outputs<R: Outcome>(&self) -> Result<GroupOutputs<R>> {
        let each: Vec<Output<R>> = self.devices().map(Output::new).collect::<Result<_>>()?;
        let first = each[0].as_device_ptr();
        let behind: Vec<u64> =
            each[1..].iter().map(|output| output.as_device_ptr().wrapping_sub(first)).collect();
        let device = self.members()[0].reducer.device();
        let distances = Memory::new(device, size_of_val(&*behind) as u64)?;
        if !behind.is_empty() {
            device.copy_in(&distances, bytemuck::cast_slice(&behind))?;
        }
        let memories = each.iter().map(|output| output.memory().clone()).collect();
        let memory = Arc::new(ResultMemory { memories, bytes: R::BYTES as usize, distances });
        Ok(GroupOutputs { group: self.clone(), each, memory, written_by: 0 })
    }
}

impl<R: Outcome> GroupOutputs<R> {
    /// Returns the result on each device, in the order of the devices.
    pub fn each(&self) -> &[Output<R>] {
        &self.each
    }

    pub(super) fn require(&self, group: &Group) -> Result<()> {
        if Arc::ptr_eq(&self.group.0, &group.0) {
            return Ok(());
        }
        Err(Error::Group {
            reason: "the outputs belong to another group; make them by this one".to_owned(),
        })
    }

    /// Makes the next write wait for the previous write and its readers. `ranks` has a bit for each
    /// device that takes part in the next write.
    pub(super) fn precede(&self, ranks: u32) -> Result<()> {
        // With peer access, the launch that arrives last writes the results. If every device of the
        // previous reduction takes part again, each of its launches precedes a launch of the next
        // reduction on the same stream. So the next write follows the previous one, and no launch has to
        // wait for other devices.
        let meet = self.group.way() == Way::Peers && self.written_by & !ranks == 0;
        for Member { stream, .. } in self.group.members() {
            if !meet {
                // All outputs have the same last write.
                self.each[0].precede_reads(stream)?;
            }
            self.each.iter().try_for_each(|output| output.wait_for_reads_on(stream))?;
        }
        Ok(())
    }

    pub(super) fn written(&mut self, last: LastWrite, ranks: u32) {
        self.each.iter_mut().for_each(|output| output.written(last.clone()));
        self.written_by = ranks;
    }

    pub(super) fn memory(&self) -> &Arc<ResultMemory> {
        &self.memory
    }
}

impl ResultMemory {
    pub(super) fn first(&self) -> u64 {
        self.memories[0].address()
    }

    pub(super) fn others(&self) -> (u64, u32) {
        (self.distances.address(), self.memories.len() as u32 - 1)
    }
}

impl<R> fmt::Debug for GroupOutputs<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupOutputs").field("group", &self.group).finish_non_exhaustive()
    }
}
