//! The launch of the kernels for an axis other than the last.

use std::ptr;

use warpfold_abi::arguments::ReduceAxis;

use super::{AxisLaunch, AxisTask};
use crate::{
    Result,
    input::Task,
    kernel_file::Family,
    reducer::{Code, Entry, Kernels, LaunchContext, launch_with},
};

impl AxisTask {
    fn planned<'k>(&'k self, kernels: &'k Kernels) -> Result<(&'k Entry, AxisLaunch)> {
        let launch = AxisLaunch::new(self, kernels.device().info().shape());
        Ok((kernels.entry_of(Family::Axis, &self.code, launch.kernel as usize)?, launch))
    }
}

impl Task for AxisTask {
    fn is_empty(&self) -> bool {
        self.matrices == 0 || self.width == 0
    }

    fn code(&self) -> Option<&Code> {
        Some(&self.code)
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        self.planned(kernels).map(drop)
    }

    fn used_slot_bytes(&self, kernels: &Kernels) -> Result<Option<u64>> {
        let (_, launch) = self.planned(kernels)?;
        Ok(if launch.share > 1 { None } else { Some(0) })
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let (entry, launch) = self.planned(kernels)?;
        let shape = context.shape([launch.blocks, launch.block], entry.overlaps);
        let arguments = ReduceAxis::<u8> {
            input: ptr::without_provenance(self.address as usize),
            matrices: self.matrices,
            apart: self.apart,
            len: self.len,
            pitch: self.pitch,
            width: self.width,
            share: launch.share.into(),
            across: launch.across.into(),
            slots: ptr::without_provenance_mut(context.slots as usize),
            output: ptr::without_provenance_mut(context.output as usize),
            form: self.code.form().code,
            ddof: self.code.form().ddof,
        };
        kernels.device().call("launching a reduction along an axis", |driver| {
            // SAFETY: the launch meets the kernel's contract:
            // - It reads the elements and writes the results of the matrices, and nothing else.
            // - If several blocks share columns, each block has a zeroed slot for each of its columns.
            // - The `packs` kernel gets aligned rows only, and blocks fit the kernel's shared memory.
            // - The kernel's parameters were checked at load, and the caller keeps the memory valid.
            unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
        })
    }
}
