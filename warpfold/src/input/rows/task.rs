//! The launch of the kernels for rows.

use std::ptr;

use warpfold_abi::arguments::ReduceRows;

use super::{RowsLaunch, RowsTask};
use crate::{
    Result,
    input::Task,
    kernel_file::Family,
    reducer::{Code, Kernels, Places, launch_with},
};

impl Task for RowsTask {
    fn is_empty(&self) -> bool {
        self.rows == 0
    }

    fn code(&self) -> Option<&Code> {
        Some(&self.code)
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        kernels.family(Family::Rows, &self.code).map(drop)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, places: &Places) -> Result<()> {
        let launch = RowsLaunch::new(self, kernels.device().info().shape());
        let entry = kernels.family(Family::Rows, &self.code)?.entry(launch.kernel as usize);
        let shape = places.shape([launch.blocks, launch.block], entry.overlaps);
        let arguments = ReduceRows::<u8> {
            input: ptr::without_provenance(self.address as usize),
            rows: self.rows,
            len: self.len,
            pitch: self.pitch,
            share: launch.share.into(),
            tile: launch.tile.into(),
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        kernels.device().call("launching a reduction of rows", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - It reads and writes what the rows are, and no more.
            // - Where rows have several blocks, these are no more than there are slots, which are zero.
            // - Groups are given aligned rows alone.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, entry.function, &shape, places.stream, &arguments) }
        })
    }
}
