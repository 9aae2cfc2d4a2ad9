//! The launch of the kernels for intervals.

use std::ptr;

use warpfold_abi::arguments::ReduceWithin;

use super::WithinTask;
use crate::{
    Result,
    geometry::Launch,
    input::{Task, buffer::choose_as_sum},
    kernel_file::KernelFile,
    names::KernelKind,
    reducer::{Kernels, LaunchContext, Layout, launch_with},
};

impl WithinTask {
    fn file(&self) -> KernelFile {
        KernelFile::Within(self.op, self.dtype)
    }
}

impl Task for WithinTask {
    fn is_empty(&self) -> bool {
        self.n == 0
    }

    fn layout(&self) -> Layout {
        Layout::of_one(self.op.result_bytes())
    }

    fn seen_at_end(&self) -> Option<u64> {
        // A part is copied with zeros after it that its kernel does not write.
        (!self.op.is_part()).then(|| self.bytes())
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        kernels.file(self.file()).map(drop)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let entry = kernels.file(self.file())?.entry(KernelKind::Grid as usize);
        let (choice, room) = choose_as_sum(kernels, entry, self.dtype, self.bytes());
        let extent = self.extent();
        let launch = Launch::new(extent, choice, room);
        let shape = context.shape([launch.blocks, launch.block], entry.overlaps);
        let arguments = ReduceWithin::<u8> {
            input: ptr::without_provenance(self.address as usize),
            low: self.interval.low,
            high: self.interval.high,
            head: extent.head(),
            groups: extent.groups(),
            singles: extent.singles(),
            tile: launch.tile.into(),
            slots: ptr::without_provenance_mut(context.slots as usize),
            output: ptr::without_provenance_mut(context.output as usize),
        };
        kernels.device().call("launching a reduction of an interval", |driver| {
            // SAFETY: the launch meets the kernel's contract:
            // - The input is cut at its 16-byte boundaries, and has no more elements than a buffer may.
            // - The ends are elements of the type, the first not above the second.
            // - The block has one of the kernel's sizes, and a tile no more groups than its threads load
            //   at once, and no fewer than a warp has threads.
            // - There are no more blocks than slots, and the slots are zero.
            // - Its parameters were checked at load; the caller is responsible for the memory.
            unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
        })
    }
}
