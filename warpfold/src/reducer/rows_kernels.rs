//! The launch of the kernels for rows.

use std::ptr;

use warpfold_abi::arguments::ReduceRows;

use super::kernels::{Kernels, Places, launch_with};
use crate::{
    Result,
    ptx::PiecesForm,
    rows::{RowsJob, RowsLaunch},
};

impl Kernels {
    /// Enqueues a reduction of rows, of which there are some.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_rows(&self, job: &RowsJob, places: &Places) -> Result<()> {
        let loaded = self.pieces(PiecesForm::Rows, &job.code)?;
        let launch = RowsLaunch::new(job, self.device().info().shape());
        let shape = places.shape([launch.blocks, launch.block], loaded.overlaps());
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
        let function = loaded.function(launch.kernel as usize);
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
