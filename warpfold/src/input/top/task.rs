//! The launch of the kernels for top-k.

use std::ptr;

use warpfold_abi::{arguments::ReduceTop, reducer::OUTPUT_BYTES};

use super::TopTask;
use crate::{
    Result,
    input::{Task, rows::RowsLaunch},
    kernel_file::KernelFile,
    reducer::{Entry, Kernels, LaunchContext, Layout, launch_with},
};

impl TopTask {
    fn planned<'k>(&self, kernels: &'k Kernels) -> Result<(&'k Entry, RowsLaunch)> {
        let launch = RowsLaunch::of_top(self, kernels.device().info().shape());
        let file = KernelFile::Top(self.op, self.dtype);
        Ok((kernels.entry(file, launch.kernel as usize)?, launch))
    }
}

impl Task for TopTask {
    fn is_empty(&self) -> bool {
        self.count() == 0
    }

    fn layout(&self) -> Layout {
        Layout::of_pieces(self.count(), OUTPUT_BYTES as usize)
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        match self.of_one() {
            Some(task) => task.prepare(kernels),
            None => self.planned(kernels).map(drop),
        }
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        if let Some(task) = self.of_one() {
            // SAFETY: for k = 1 both tasks write one result of `OUTPUT_BYTES` for each row, and the
            // caller meets the conditions of `enqueue`.
            return unsafe { task.enqueue(kernels, context) };
        }
        let (entry, launch) = self.planned(kernels)?;
        let shape = context.shape([launch.blocks, launch.block], entry.overlaps);
        let arguments = ReduceTop::<u8> {
            input: ptr::without_provenance(self.address as usize),
            rows: self.rows,
            len: self.len,
            k: self.k,
            share: launch.share.into(),
            tile: launch.tile.into(),
            slots: ptr::without_provenance_mut(context.slots as usize),
            output: ptr::without_provenance_mut(context.output as usize),
        };
        kernels.device().call("launching a search for the largest or smallest elements", |driver| {
            // SAFETY: the launch meets the kernel's contract:
            // - It reads the rows, of k elements or more, and writes k results for each.
            // - The kernel has a queue for each thread of a block. A tile has no more groups than the
            //   block's threads load at once, and a row has no more single elements than threads.
            // - If rows have several blocks, each block has a slot, and the slots are zero.
            // - The kernel's parameters were checked at load, and the caller keeps the memory valid.
            unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
        })
    }
}
