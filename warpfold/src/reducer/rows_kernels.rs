//! The kernels for rows: loaded at first use, and launched.

use std::{ptr, sync::Arc};

use warpfold_abi::{Arguments, arguments::ReduceRows};
use warpfold_driver::Function;

use super::{
    job::Code,
    kernels::{Kernels, Places, launch_with},
    module::Module,
};
use crate::{
    Result,
    names::{Dtype, Op, RowsKernel},
    ptx::{Family, Ptx},
    rows::{GRID_BLOCKS, RowsJob, RowsLaunch},
    signature,
};

/// The kernels for rows of an operation and type.
pub(super) struct LoadedRows {
    /// By the kernel's number.
    functions: Box<[Function]>,
    /// Most threads of a block of the grid kernel, as far as a launch would give it.
    pub(super) largest_block: u32,
    /// Whether they may overlap with the launch before.
    overlaps: bool,
    /// What they are of.
    _module: Arc<Module>,
}

impl LoadedRows {
    /// The kernels whose names begin with `name`, of a module that was made of this PTX, which may
    /// overlap with the launch before if so.
    pub(super) fn new(ptx: &Ptx, module: &Arc<Module>, name: &str, overlaps: bool) -> Result<Self> {
        check(ptx, name)?;
        let functions = entries(name).map(|entry| module.function(&entry));
        let functions = functions.collect::<Result<Box<[_]>>>()?;
        let grid = functions[RowsKernel::Grid as usize];
        let largest_block = module.device().call("preparing a kernel", |driver| {
            for &block in GRID_BLOCKS {
                // SAFETY: the function is there as long as the module.
                if unsafe { driver.occupancy_max_active_blocks(grid, block, 0) }? > 0 {
                    return Ok(block);
                }
            }
            Ok(GRID_BLOCKS[GRID_BLOCKS.len() - 1])
        })?;
        Ok(Self { functions, largest_block, overlaps, _module: module.clone() })
    }
}

/// The kernels for rows whose names begin with `name`, in the order of their numbers.
fn entries(name: &str) -> impl Iterator<Item = String> {
    RowsKernel::ALL.iter().map(move |kernel| format!("{name}_{kernel}"))
}

/// Compares their parameters with what a launch passes.
fn check(ptx: &Ptx, name: &str) -> Result<()> {
    let parameters = ReduceRows::<()>::PARAMETERS;
    entries(name).try_for_each(|entry| signature::check(ptx, &entry, parameters))
}

impl Kernels {
    /// Loads the kernels for rows of an operation and type, unless they are.
    pub(crate) fn prepare_rows(&self, op: Op, dtype: Dtype) -> Result<()> {
        self.find_rows(op, dtype).map(drop)
    }

    fn find_rows(&self, op: Op, dtype: Dtype) -> Result<&LoadedRows> {
        self.found_or(self.loaded.rows.get(op, dtype), || {
            let name = Family::Rows.file(op, dtype);
            let ptx = self.ptx(&name)?;
            check(&ptx, &name)?;
            let module = Arc::new(Module::load(self.device(), &ptx)?);
            LoadedRows::new(&ptx, &module, &name, module.overlaps())
        })
    }

    /// Enqueues a reduction of rows, of which there are some.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_rows(&self, job: &RowsJob, places: &Places) -> Result<()> {
        let loaded = match &job.code {
            &Code::BuiltIn(op, dtype) => self.find_rows(op, dtype)?,
            Code::Custom(custom) => custom.rows(),
        };
        let launch = RowsLaunch::new(job, self.device().info().shape());
        let shape = places.shape([launch.blocks, launch.block], loaded.overlaps);
        let arguments = ReduceRows::<u8> {
            input: ptr::without_provenance(job.address as usize),
            rows: job.rows,
            len: job.len,
            pitch: job.pitch,
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
