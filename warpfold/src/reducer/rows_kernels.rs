//! The kernels for rows: loaded at first use, and launched.

use std::ptr;

use warpfold_abi::{Arguments, arguments::ReduceRows};
use warpfold_driver::{Function, LaunchShape};

use super::{
    kernels::{Kernels, Places, launch_with},
    module::Module,
};
use crate::{
    Result,
    names::{Dtype, Op, RowsKernel},
    ptx::rows_file,
    rows::{RowsJob, RowsLaunch},
    signature,
};

/// The kernels for rows of an operation and type.
pub(super) struct LoadedRows {
    /// By the kernel's number.
    functions: Box<[Function]>,
    /// What they are of.
    _module: Module,
}

impl Kernels {
    /// Loads the kernels for rows of an operation and type, unless they are.
    pub(crate) fn prepare_rows(&self, op: Op, dtype: Dtype) -> Result<()> {
        self.find_rows(op, dtype).map(drop)
    }

    fn find_rows(&self, op: Op, dtype: Dtype) -> Result<&LoadedRows> {
        self.found_or(self.loaded.rows.get(op, dtype), || {
            let name = rows_file(op, dtype);
            let ptx = self.ptx(&name)?;
            let entries = RowsKernel::ALL.iter().map(|kernel| format!("{name}_{kernel}"));
            let check = |entry: String| signature::check(&ptx, &entry, ReduceRows::<()>::PARAMETERS);
            entries.clone().try_for_each(check)?;
            let module = Module::load(self.device(), &ptx)?;
            let functions = entries.map(|entry| module.function(&entry)).collect::<Result<_>>()?;
            Ok(LoadedRows { functions, _module: module })
        })
    }

    /// Enqueues a reduction of rows, of which there are some.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_rows(&self, job: &RowsJob, places: &Places) -> Result<()> {
        let loaded = self.find_rows(job.op, job.dtype)?;
        let launch = RowsLaunch::new(job, self.device().info().shape());
        let shape = LaunchShape::new([launch.blocks, 1, 1], [launch.block, 1, 1]);
        let arguments = ReduceRows::<u8> {
            input: ptr::without_provenance(job.address as usize),
            rows: job.rows,
            len: job.len,
            share: launch.share.into(),
            tile: launch.tile.into(),
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        let function = loaded.functions[launch.kernel as usize];
        self.device().call("launching a reduction of rows", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - It reads and writes what the rows are, and no more.
            // - Where rows have several blocks, these are no more than there are slots, which are zero.
            // - Groups are given aligned rows alone.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, function, &shape, places.stream, &arguments) }
        })
    }
}
