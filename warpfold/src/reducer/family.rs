//! The kernels that give many results: for rows and for axes, loaded at first use and launched.

use std::ptr;

use warpfold_abi::{
    Arguments, Parameter,
    arguments::{ReduceAxis, ReduceRows},
};
use warpfold_driver::{Function, LaunchShape};

use super::{
    kernels::{Kernels, Places, launch_with},
    module::Module,
};
use crate::{
    Result,
    axis::{AxisJob, AxisLaunch},
    names::{Dtype, Op},
    ptx::Family,
    rows::{RowsJob, RowsLaunch},
    signature,
};

/// The kernels of a file.
pub(super) struct LoadedFamily {
    /// By the kernel's number.
    functions: Box<[Function]>,
    /// What they are of.
    _module: Module,
}

impl Kernels {
    /// Loads the kernels for rows of an operation and type, unless they are.
    pub(crate) fn prepare_rows(&self, op: Op, dtype: Dtype) -> Result<()> {
        self.rows_of(op, dtype).map(drop)
    }

    /// Loads the kernels for axes of an operation and type, unless they are.
    pub(crate) fn prepare_axis(&self, op: Op, dtype: Dtype) -> Result<()> {
        self.axis_of(op, dtype).map(drop)
    }

    fn rows_of(&self, op: Op, dtype: Dtype) -> Result<&LoadedFamily> {
        let parameters = ReduceRows::<()>::PARAMETERS;
        self.found_or(self.loaded.rows.get(op, dtype), || {
            self.load_family(Family::Rows, op, dtype, parameters)
        })
    }

    fn axis_of(&self, op: Op, dtype: Dtype) -> Result<&LoadedFamily> {
        let parameters = ReduceAxis::<()>::PARAMETERS;
        self.found_or(self.loaded.axis.get(op, dtype), || {
            self.load_family(Family::Axis, op, dtype, parameters)
        })
    }

    fn load_family(
        &self,
        family: Family,
        op: Op,
        dtype: Dtype,
        parameters: &[Parameter],
    ) -> Result<LoadedFamily> {
        let name = family.file(op, dtype);
        let ptx = self.ptx(&name)?;
        let entries = family.kernels().into_iter().map(|kernel| format!("{name}_{kernel}"));
        let entries: Vec<String> = entries.collect();
        entries.iter().try_for_each(|entry| signature::check(&ptx, entry, parameters))?;
        let module = Module::load(self.device(), &ptx)?;
        let functions = entries.iter().map(|entry| module.function(entry)).collect::<Result<_>>()?;
        Ok(LoadedFamily { functions, _module: module })
    }

    /// Enqueues a reduction of rows, of which there are some.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_rows(&self, job: &RowsJob, places: &Places) -> Result<()> {
        let loaded = self.rows_of(job.op, job.dtype)?;
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

    /// Enqueues a reduction along an axis, which has results.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_axis(&self, job: &AxisJob, places: &Places) -> Result<()> {
        let loaded = self.axis_of(job.op, job.dtype)?;
        let launch = AxisLaunch::new(job, self.device().info().shape());
        let shape = LaunchShape::new([launch.blocks, 1, 1], [launch.block, 1, 1]);
        let arguments = ReduceAxis::<u8> {
            input: ptr::without_provenance(job.address as usize),
            matrices: job.matrices,
            len: job.len,
            width: job.width,
            share: launch.share.into(),
            across: launch.across.into(),
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        let function = loaded.functions[launch.kernel as usize];
        self.device().call("launching a reduction along an axis", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - It reads and writes what the matrices are, and no more.
            // - Where strips have several blocks, their columns have no more slots than there are, which
            //   are zero.
            // - Packs are given aligned rows alone, and blocks are no larger than the kernel's scratch.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, function, &shape, places.stream, &arguments) }
        })
    }
}
