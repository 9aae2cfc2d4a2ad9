//! The launch of the kernels for an axis that is not the last.

use std::ptr;

use warpfold_abi::arguments::ReduceAxis;

use super::{AxisLaunch, AxisTask};
use crate::{
    Result,
    input::Task,
    kernel_file::Family,
    reducer::{Code, Kernels, Places, launch_with},
};

impl Task for AxisTask {
    fn is_empty(&self) -> bool {
        self.matrices == 0 || self.width == 0
    }

    fn code(&self) -> Option<&Code> {
        Some(&self.code)
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        kernels.family(Family::Axis, &self.code).map(drop)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, places: &Places) -> Result<()> {
        let launch = AxisLaunch::new(self, kernels.device().info().shape());
        let entry = kernels.family(Family::Axis, &self.code)?.entry(launch.kernel as usize);
        let shape = places.shape([launch.blocks, launch.block], entry.overlaps);
        let arguments = ReduceAxis::<u8> {
            input: ptr::without_provenance(self.address as usize),
            matrices: self.matrices,
            apart: self.apart,
            len: self.len,
            pitch: self.pitch,
            width: self.width,
            share: launch.share.into(),
            across: launch.across.into(),
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        kernels.device().call("launching a reduction along an axis", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - It reads and writes what the matrices are, and no more.
            // - Where strips have several blocks, their columns have no more slots than there are, which
            //   are zero.
            // - Packs are given aligned rows alone, and blocks are no larger than the kernel's scratch.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, entry.function, &shape, places.stream, &arguments) }
        })
    }
}
