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
    reducer::{Kernels, Layout, Places, launch_with},
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
        // More bytes are copied of a part than its kernel writes.
        (!self.op.is_part()).then(|| self.bytes())
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        kernels.file(self.file()).map(drop)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, places: &Places) -> Result<()> {
        let entry = kernels.file(self.file())?.entry(KernelKind::Grid as usize);
        let (choice, room) = choose_as_sum(kernels, entry, self.dtype, self.bytes());
        let extent = self.extent();
        let launch = Launch::new(extent, choice, room);
        let shape = places.shape([launch.blocks, launch.block], entry.overlaps);
        let arguments = ReduceWithin::<u8> {
            input: ptr::without_provenance(self.address as usize),
            low: self.interval.low,
            high: self.interval.high,
            head: extent.head(),
            groups: extent.groups(),
            singles: extent.singles(),
            tile: launch.tile.into(),
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        kernels.device().call("launching a reduction of an interval", |driver| {
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
