//! The launch of the kernels for views.

use std::ptr;

use warpfold_abi::arguments::ReduceView;

use super::{ViewLaunch, ViewTask};
use crate::{
    Result,
    input::Task,
    kernel_file::Family,
    reducer::{Code, Entry, Kernels, LaunchContext, launch_with},
};

impl ViewTask {
    fn planned<'k>(&'k self, kernels: &'k Kernels) -> Result<(&'k Entry, ViewLaunch)> {
        let launch = ViewLaunch::new(self, kernels.device().info().shape());
        Ok((kernels.entry_of(Family::View, &self.code, launch.kernel as usize)?, launch))
    }
}

impl Task for ViewTask {
    fn is_empty(&self) -> bool {
        // A view without elements becomes an empty task of rows.
        false
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
        let unit = launch.unit(self);
        let [kept_0, kept_1, kept_outer] = self.kept.digits(1);
        let [reduced_0, reduced_1, reduced_outer] = self.reduced.digits(unit);
        let (units, threads) = (self.len / unit, launch.threads_of_a_result());
        let arguments = ReduceView::<u8> {
            input: ptr::without_provenance(self.address as usize),
            results: self.results,
            kept_len_0: kept_0.len,
            kept_len_1: kept_1.len,
            kept_stride_0: kept_0.stride,
            kept_stride_1: kept_1.stride,
            kept_stride_outer: kept_outer.stride,
            output_stride_0: kept_0.output,
            output_stride_1: kept_1.output,
            output_stride_outer: kept_outer.output,
            reduced_len_0: reduced_0.len,
            reduced_len_1: reduced_1.len,
            reduced_stride_0: reduced_0.stride,
            reduced_stride_1: reduced_1.stride,
            reduced_stride_outer: reduced_outer.stride,
            units: units / threads,
            rest: units % threads,
            along: launch.along.into(),
            across: launch.across.into(),
            share: launch.share.into(),
            slots: ptr::without_provenance_mut(context.slots as usize),
            output: ptr::without_provenance_mut(context.output as usize),
            form: self.code.form().code,
            ddof: self.code.form().ddof,
        };
        kernels.device().call("launching a reduction along axes of a view", |driver| {
            // SAFETY: the launch meets the kernel's contract:
            // - It reads the positions of the view and writes its results, and nothing else.
            // - If several blocks share results, each block has a zeroed slot for each of its results.
            // - The `groups` kernel gets whole groups at multiples of 16; block sizes are powers of two
            //   and fit the kernel's shared memory.
            // - The kernel's parameters were checked at load, and the caller keeps the memory valid.
            unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
        })
    }
}
