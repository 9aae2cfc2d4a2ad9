//! The kernels that find first elements: loaded at first use, and launched.

use std::ptr;

use warpfold_abi::{Arguments, arguments::ReduceTop};
use warpfold_driver::Function;

use super::{
    kernels::{Kernels, Places, launch_with},
    module::Module,
};
use crate::{
    Result,
    names::{Dtype, RowsKernel, TopOp},
    ptx::top_file,
    rows::RowsLaunch,
    top::TopJob,
};

/// The kernels of an order and type.
pub(super) struct LoadedTop {
    grid: Function,
    warp: Function,
    /// What they are of.
    module: Module,
}

impl Kernels {
    /// Loads the kernels of an order and type, unless they are.
    pub(crate) fn prepare_top(&self, op: TopOp, dtype: Dtype) -> Result<()> {
        self.find_top(op, dtype).map(drop)
    }

    fn find_top(&self, op: TopOp, dtype: Dtype) -> Result<&LoadedTop> {
        self.found_or(&self.loaded.top[op as usize][dtype as usize], || {
            let kernel = |kernel: RowsKernel| (kernel.name(), ReduceTop::<()>::PARAMETERS);
            let kernels = [RowsKernel::Grid, RowsKernel::Warp].map(kernel);
            let ([grid, warp], module) = self.load_file(&top_file(op, dtype), kernels)?;
            Ok(LoadedTop { grid, warp, module })
        })
    }

    /// Enqueues a search for first elements, of which there are some.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_top(&self, job: &TopJob, places: &Places) -> Result<()> {
        let loaded = self.find_top(job.op, job.dtype)?;
        let launch = RowsLaunch::of_top(job, self.device().info().shape());
        let function = if launch.kernel == RowsKernel::Grid { loaded.grid } else { loaded.warp };
        let shape = places.shape([launch.blocks, launch.block], loaded.module.overlaps());
        let arguments = ReduceTop::<u8> {
            input: ptr::without_provenance(job.address as usize),
            rows: job.rows,
            len: job.len,
            k: job.k,
            share: launch.share.into(),
            tile: launch.tile.into(),
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        self.device().call("launching a search for first elements", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - It reads what the rows are, each of which has k elements, and writes k results of each.
            // - Blocks have no more threads than there are queues for, and a tile no more groups than
            //   these load at once; a row has no more single elements than a block has threads.
            // - Where rows have several blocks, there are slots for all of them, which are zero.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, function, &shape, places.stream, &arguments) }
        })
    }
}
