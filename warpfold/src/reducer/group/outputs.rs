//! A group's result on each of its devices.

use std::{fmt, sync::Arc};

use super::{Group, MOST, Member, Way};
use crate::{Error, Outcome, Output, Result, memory::Memory, stream::LastWrite};

/// Device memory for a group's result on each of its devices, which work that is enqueued behind it can
/// read there.
pub struct GroupOutputs<R> {
    group: Group,
    each: Vec<Output<R>>,
    places: Arc<Places>,
    /// The devices that took part in what writes them last, a bit of each.
    written_by: u32,
}

const _: () = assert!(MOST <= u32::BITS as usize, "a device has a bit");

/// What a launch that writes them needs.
pub(super) struct Places {
    /// The memory of each.
    pub(super) memories: Vec<Arc<Memory>>,
    /// Bytes of a result.
    pub(super) bytes: usize,
    /// How far each but the first is behind that, on the first device.
    distances: Memory,
}

impl Group {
    /// Device memory for a result on each device. Its bytes are zero until the first one comes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Driver`].
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
        let places = Arc::new(Places { memories, bytes: R::BYTES as usize, distances });
        Ok(GroupOutputs { group: self.clone(), each, places, written_by: 0 })
    }
}

impl<R: Outcome> GroupOutputs<R> {
    /// The result on each device, in their order.
    pub fn each(&self) -> &[Output<R>] {
        &self.each
    }

    /// Refuses those of another group.
    pub(super) fn require(&self, group: &Group) -> Result<()> {
        if Arc::ptr_eq(&self.group.0, &group.0) {
            return Ok(());
        }
        Err(Error::Group { reason: "outputs of another group; make them by this one".to_owned() })
    }

    /// Makes the group's launches wait for what uses them now, on the devices `ranks`, a bit of each,
    /// which are to write them next.
    pub(super) fn precede(&self, ranks: u32) -> Result<()> {
        // Where launches meet by themselves, the last of them to arrive writes. One that takes part
        // comes behind its device's launch before, so that what that has written is written by then: it
        // need not wait for the others.
        let meet = self.group.way() == Way::Peers && self.written_by & !ranks == 0;
        for Member { stream, .. } in self.group.members() {
            if !meet {
                // All are written by the same.
                self.each[0].precede_reads(stream)?;
            }
            self.each.iter().try_for_each(|output| output.precede_behind_readers(stream))?;
        }
        Ok(())
    }

    /// Says what has been enqueued on the devices `ranks`, a bit of each, to write them.
    pub(super) fn written(&mut self, last: LastWrite, ranks: u32) {
        self.each.iter_mut().for_each(|output| output.written(last.clone()));
        self.written_by = ranks;
    }

    pub(super) fn places(&self) -> &Arc<Places> {
        &self.places
    }
}

impl Places {
    /// Where the first of them is.
    pub(super) fn first(&self) -> u64 {
        self.memories[0].address()
    }

    /// Where the distances of the others are, and how many.
    pub(super) fn others(&self) -> (u64, u32) {
        (self.distances.address(), self.memories.len() as u32 - 1)
    }
}

impl<R> fmt::Debug for GroupOutputs<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupOutputs").field("group", &self.group).finish_non_exhaustive()
    }
}
