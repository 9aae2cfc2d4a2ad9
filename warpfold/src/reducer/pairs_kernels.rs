//! The kernels for pairs: loaded at first use, and launched.

use std::ptr;

use warpfold_abi::{Arguments, arguments::ReducePair};

use super::{
    kernels::{Entry, Kernels, Places, launch_with},
    module::Module,
};
use crate::{
    Result,
    geometry::Launch,
    names::{Dtype, KernelKind, PairKernel, PairOp},
    pairs::PairsJob,
    ptx::pair_file,
    signature,
};

/// The kernels for pairs of an operation and type.
pub(super) struct LoadedPairs {
    aligned: Entry,
    shifted: Entry,
    /// What they are of.
    _module: Module,
}

impl Kernels {
    /// Loads the kernels for pairs of an operation and type, unless they are.
    pub(crate) fn prepare_pairs(&self, op: PairOp, dtype: Dtype) -> Result<()> {
        self.find_pairs(op, dtype).map(drop)
    }

    fn find_pairs(&self, op: PairOp, dtype: Dtype) -> Result<&LoadedPairs> {
        self.found_or(&self.loaded.pairs[op as usize][dtype as usize], || {
            let file = pair_file(op, dtype);
            let ptx = self.ptx(&file)?;
            let name = |kernel: PairKernel| format!("{file}_{kernel}");
            let check = |&kernel| signature::check(&ptx, &name(kernel), ReducePair::<()>::PARAMETERS);
            PairKernel::ALL.iter().try_for_each(check)?;
            let module = Module::load(self.device(), &ptx)?;
            // In the blocks of the grid kernel, which they are for two inputs.
            let entry = |kernel| Entry::new(&module, &name(kernel), KernelKind::Grid, module.overlaps());
            let (aligned, shifted) = (entry(PairKernel::Aligned)?, entry(PairKernel::Shifted)?);
            Ok(LoadedPairs { aligned, shifted, _module: module })
        })
    }

    /// Enqueues a reduction of pairs, of which there are some.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_pairs(&self, job: &PairsJob, places: &Places) -> Result<()> {
        let loaded = self.find_pairs(job.op, job.dtype)?;
        let entry = if job.is_aligned() { &loaded.aligned } else { &loaded.shifted };
        let (choice, room) = self.chosen_as_sum(entry, job.dtype, job.bytes());
        let extent = job.extent();
        let launch = Launch::of_pairs(extent, choice, room);
        let shape = places.shape([launch.blocks, launch.block], entry.overlaps);
        let [first, second] = job.addresses;
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
        self.device().call("launching a reduction of pairs", |driver| {
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
