//! The launch of the kernels that find the first k elements.

use std::ptr;

use warpfold_abi::{arguments::ReduceTop, reducer::OUTPUT_BYTES};

use super::TopTask;
use crate::{
    Result,
    input::{Task, rows::RowsLaunch},
    kernel_file::KernelFile,
    reducer::{Kernels, Layout, Places, launch_with},
};

impl TopTask {
    fn file(&self) -> KernelFile {
        KernelFile::Top(self.op, self.dtype)
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
            None => kernels.file(self.file()).map(drop),
        }
    }

    unsafe fn enqueue(&self, kernels: &Kernels, places: &Places) -> Result<()> {
        if let Some(task) = self.of_one() {
            // SAFETY: that task writes a result of `OUTPUT_BYTES` for each row, as this one does for k =
            // 1; the caller's contract.
            return unsafe { task.enqueue(kernels, places) };
        }
        let launch = RowsLaunch::of_top(self, kernels.device().info().shape());
        let entry = kernels.file(self.file())?.entry(launch.kernel as usize);
        let shape = places.shape([launch.blocks, launch.block], entry.overlaps);
        let arguments = ReduceTop::<u8> {
            input: ptr::without_provenance(self.address as usize),
            rows: self.rows,
            len: self.len,
            k: self.k,
            share: launch.share.into(),
            tile: launch.tile.into(),
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        kernels.device().call("launching a search for first elements", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - It reads what the rows are, each of which has k elements, and writes k results of each.
            // - Blocks have no more threads than there are queues for, and a tile no more groups than
            //   these load at once; a row has no more single elements than a block has threads.
            // - Where rows have several blocks, there are slots for all of them, which are zero.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, entry.function, &shape, places.stream, &arguments) }
        })
    }
}
