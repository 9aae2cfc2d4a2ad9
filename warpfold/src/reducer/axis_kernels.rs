//! The launch of the kernels for an axis that is not the last.

use std::ptr;

use warpfold_abi::arguments::ReduceAxis;

use super::kernels::{Kernels, Places, launch_with};
use crate::{
    Result,
    axis::{AxisJob, AxisLaunch},
    ptx::PiecesForm,
};

impl Kernels {
    /// Enqueues a reduction along an axis, which has results.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_axis(&self, job: &AxisJob, places: &Places) -> Result<()> {
        let loaded = self.pieces(PiecesForm::Axis, &job.code)?;
        let launch = AxisLaunch::new(job, self.device().info().shape());
        let shape = places.shape([launch.blocks, launch.block], loaded.overlaps());
        let arguments = ReduceAxis::<u8> {
            input: ptr::without_provenance(job.address as usize),
            matrices: job.matrices,
            apart: job.apart,
            len: job.len,
            pitch: job.pitch,
            width: job.width,
            share: launch.share.into(),
            across: launch.across.into(),
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        let function = loaded.function(launch.kernel as usize);
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
