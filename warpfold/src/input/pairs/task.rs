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
    reducer::{Kernels, Layout, Places, launch_with},
};

impl PairsTask {
    fn file(&self) -> KernelFile {
        KernelFile::Pairs(self.op, self.dtype)
    }
}

impl Task for PairsTask {
    fn is_empty(&self) -> bool {
        self.n == 0
    }

    fn layout(&self) -> Layout {
        Layout::of_one(self.op.result_bytes(self.dtype))
    }

    fn seen_at_end(&self) -> Option<u64> {
        // More bytes are copied of a part than its kernel writes.
        (!self.op.is_part()).then(|| self.bytes())
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        kernels.file(self.file()).map(drop)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, places: &Places) -> Result<()> {
        let kernel = if self.is_aligned() { PairKernel::Aligned } else { PairKernel::Shifted };
        let entry = kernels.file(self.file())?.entry(kernel as usize);
        let (choice, room) = choose_as_sum(kernels, entry, self.dtype, self.bytes());
        let extent = self.extent();
        let launch = Launch::of_pairs(extent, choice, room);
        let shape = places.shape([launch.blocks, launch.block], entry.overlaps);
        let [first, second] = self.addresses;
        let arguments = ReducePair::<u8> {
            first: ptr::without_provenance(first as usize),
            second: ptr::without_provenance(second as usize),
            head: extent.head(),
            groups: extent.groups(),
            singles: extent.singles(),
            tile: launch.tile.into(),
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        kernels.device().call("launching a reduction of pairs", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - Both inputs are cut at the first one's 16-byte boundaries; it is the kernel for where
            //   the second one's groups lie, and what `shifted` reads around them is inside of the
            //   input.
            // - The block has a size of the kernel's own, no fewer threads than there are single
            //   elements, and a tile no more groups than its threads load at once.
            // - There are no more blocks than slots, and the slots are zero.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, entry.function, &shape, places.stream, &arguments) }
        })
    }
}
