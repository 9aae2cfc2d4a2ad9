//! The launch of the kernels for pairs.

use std::ptr;

use warpfold_abi::arguments::ReducePair;

use super::PairsTask;
use crate::{
    Result,
    geometry::Launch,
    input::{Task, buffer::choose_as_sum},
    kernel_file::KernelFile,
    names::PairKernel,
    reducer::{Entry, Kernels, LaunchContext, Layout, launch_with},
};

impl PairsTask {
    fn entry<'k>(&self, kernels: &'k Kernels) -> Result<&'k Entry> {
        let kernel = if self.is_aligned() { PairKernel::Aligned } else { PairKernel::Shifted };
        kernels.entry(KernelFile::Pairs(self.op, self.dtype), kernel as usize)
    }
}

impl Task for PairsTask {
    fn is_empty(&self) -> bool {
        self.n == 0
    }

    fn layout(&self) -> Layout {
        Layout::of_one(self.op.result_bytes(self.dtype))
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
        let launch = Launch::of_pairs(extent, choice, room);
        let shape = context.shape([launch.blocks, launch.block], entry.overlaps);
        let [first, second] = self.addresses;
        let arguments = ReducePair::<u8> {
            first: ptr::without_provenance(first as usize),
            second: ptr::without_provenance(second as usize),
            head: extent.head(),
            groups: extent.groups(),
            singles: extent.singles(),
            tile: launch.tile.into(),
            slots: ptr::without_provenance_mut(context.slots as usize),
            output: ptr::without_provenance_mut(context.output as usize),
        };
        kernels.device().call("launching a reduction of pairs", |driver| {
            // SAFETY: the launch meets the kernel's contract:
            // - Both inputs are cut at the 16-byte boundaries of the first. The kernel suits the
            //   alignment of the second, and all groups that `shifted` loads are inside the second.
            // - The block has one of the kernel's sizes, and a thread for each single element. A tile
            //   has no more groups than the block's threads load at once.
            // - There are no more blocks than slots, and the slots are zero.
            // - The kernel's parameters were checked at load, and the caller keeps the memory valid.
            unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
        })
    }
}
