//! The kernels for intervals: loaded at first use, and launched.

use std::ptr;

use warpfold_abi::{Arguments, arguments::ReduceWithin};

use super::{
    kernels::{Entry, Kernels, Places, launch_with},
    module::Module,
};
use crate::{
    Result,
    geometry::Launch,
    names::{Dtype, KernelKind, WithinOp},
    ptx::within_file,
    signature,
    within::WithinJob,
};

/// The kernel for a sum of intervals of a type.
pub(super) struct LoadedWithin {
    grid: Entry,
    /// What it is of.
    _module: Module,
}

impl Kernels {
    /// Loads the kernel for a sum of intervals of a type, unless it is.
    pub(crate) fn prepare_within(&self, op: WithinOp, dtype: Dtype) -> Result<()> {
        self.find_within(op, dtype).map(drop)
    }

    fn find_within(&self, op: WithinOp, dtype: Dtype) -> Result<&LoadedWithin> {
        self.found_or(&self.loaded.within[op as usize][dtype as usize], || {
            let file = within_file(op, dtype);
            let (ptx, name) = (self.ptx(&file)?, format!("{file}_{}", KernelKind::Grid));
            signature::check(&ptx, &name, ReduceWithin::<()>::PARAMETERS)?;
            let module = Module::load(self.device(), &ptx)?;
            let grid = Entry::new(&module, &name, KernelKind::Grid, module.overlaps())?;
            Ok(LoadedWithin { grid, _module: module })
        })
    }

    /// Enqueues a reduction of what lies in an interval, with some elements to be looked at.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_within(&self, job: &WithinJob, places: &Places) -> Result<()> {
        let entry = &self.find_within(job.op, job.dtype)?.grid;
        let (choice, room) = self.chosen_as_sum(entry, job.dtype, job.bytes());
        let extent = job.extent();
        let launch = Launch::new(extent, choice, room);
        let shape = places.shape([launch.blocks, launch.block], entry.overlaps);
        let arguments = ReduceWithin::<u8> {
            input: ptr::without_provenance(job.address as usize),
            low: job.interval.low,
            high: job.interval.high,
            head: extent.head(),
            groups: extent.groups(),
            singles: extent.singles(),
            tile: launch.tile.into(),
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        self.device().call("launching a reduction of an interval", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - The input is cut at its 16-byte boundaries, and has no more elements than a buffer may.
            // - The ends are elements of the type, of which the first is not above the second.
            // - The block has a size of the kernel's own, and a tile no more groups than its threads
            //   load at once, and no fewer than a warp has threads.
            // - There are no more blocks than slots, and the slots are zero.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, entry.function, &shape, places.stream, &arguments) }
        })
    }
}
