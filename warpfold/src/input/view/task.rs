//! The launch of the kernels for views.

use std::ptr;

use warpfold_abi::arguments::ReduceView;

use super::{ViewLaunch, ViewTask};
use crate::{
    Result,
    input::Task,
    kernel_file::Family,
    reducer::{Code, Kernels, Places, launch_with},
};

impl Task for ViewTask {
    fn is_empty(&self) -> bool {
        // A view without elements is made another task.
        false
    }

    fn code(&self) -> Option<&Code> {
        Some(&self.code)
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        kernels.family(Family::View, &self.code).map(drop)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, places: &Places) -> Result<()> {
        let launch = ViewLaunch::new(self, kernels.device().info().shape());
        let entry = kernels.family(Family::View, &self.code)?.entry(launch.kernel as usize);
        let shape = places.shape([launch.blocks, launch.block], entry.overlaps);
        let unit = launch.unit(self);
        let [kept_0, kept_1, kept_outer] = self.kept.wheels(1);
        let [reduced_0, reduced_1, reduced_outer] = self.reduced.wheels(unit);
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
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        kernels.device().call("launching a reduction along axes of a view", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - It reads and writes what the view's positions are, and no more.
            // - Where results have several blocks, there are slots for each block's, which are zero.
            // - Groups are whole, and begin at multiples of 16, where they are given; blocks are a power
            //   of two, and no larger than the kernel's scratch.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, entry.function, &shape, places.stream, &arguments) }
        })
    }
}
