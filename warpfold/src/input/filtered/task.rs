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
    reducer::{Entry, Kernels, LaunchContext, Layout, launch_with},
};

impl WithinTask {
    fn entry<'k>(&self, kernels: &'k Kernels) -> Result<&'k Entry> {
        kernels.entry(KernelFile::Within(self.op, self.dtype), KernelKind::Grid as usize)
    }
}

impl Task for WithinTask {
    fn is_empty(&self) -> bool {
        self.n == 0
    }

    fn layout(&self) -> Layout {
        Layout::of_one(self.op.result_bytes())
    }

    fn pollable_bytes(&self) -> Option<u64> {
        // A kernel that computes one device's part of a result may write fewer bytes than the layout
        // has. Polling for the missing bytes would not end.
        (!self.op.is_part()).then(|| self.bytes())
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        self.entry(kernels).map(drop)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let entry = self.entry(kernels)?;
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
            // - The input is cut at its 16-byte boundaries, and has at most 2^35 elements.
            // - `low` and `high` are elements of the type and not NaN; `low` is at most `high`.
            // - The block has one of the kernel's sizes. A tile has at least as many groups as a warp
            //   has threads, and no more than the block's threads load at once.
            // - There are no more blocks than slots, and the slots are zero.
            // - The kernel's parameters were checked at load, and the caller keeps the memory valid.
            unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
        })
    }
}
