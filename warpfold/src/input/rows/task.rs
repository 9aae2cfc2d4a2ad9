//! The launch of the kernels for rows.

use std::ptr;

use warpfold_abi::arguments::ReduceRows;

use super::{RowsLaunch, RowsTask};
use crate::{
    Result,
    input::Task,
    kernel_file::Family,
    names::RowsKernel,
    reducer::{Code, Entry, Kernels, LaunchContext, launch_with},
};

impl RowsTask {
    fn planned<'k>(&'k self, kernels: &'k Kernels) -> Result<(&'k Entry, RowsLaunch)> {
        let launch = RowsLaunch::new(self, kernels.device().info().shape());
        Ok((kernels.entry_of(Family::Rows, &self.code, launch.kernel as usize)?, launch))
    }

    pub(crate) fn arguments(&self, share: u32, tile: u32, context: &LaunchContext) -> ReduceRows<u8> {
        ReduceRows {
            input: ptr::without_provenance(self.address as usize),
            rows: self.rows,
            len: self.len,
            pitch: self.pitch,
            share: share.into(),
            tile: tile.into(),
            slots: ptr::without_provenance_mut(context.slots as usize),
            output: ptr::without_provenance_mut(context.output as usize),
            form: self.code.form().code,
            ddof: self.code.form().ddof,
        }
    }
}

impl Task for RowsTask {
    fn is_empty(&self) -> bool {
        self.rows == 0
    }

    fn code(&self) -> Option<&Code> {
        Some(&self.code)
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        self.planned(kernels).map(drop)
    }

    fn used_slot_bytes(&self, kernels: &Kernels) -> Result<Option<u64>> {
        let (_, RowsLaunch { kernel, share, blocks, .. }) = self.planned(kernels)?;
        let is_shared = kernel == RowsKernel::Grid && share > 1;
        Ok(Some(if is_shared { u64::from(blocks) * self.code.slot_bytes() } else { 0 }))
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let (entry, launch) = self.planned(kernels)?;
        let shape = context.shape([launch.blocks, launch.block], entry.overlaps);
        let arguments = self.arguments(launch.share, launch.tile, context);
        kernels.device().call("launching a reduction of rows", |driver| {
            // SAFETY: the launch meets the kernel's contract:
            // - It reads the elements and writes the results of the rows, and nothing else.
            // - If rows have several blocks, there are no more blocks than slots, which are zero.
            // - Kernels that load groups get aligned rows only. The `warp` kernel of tuples has enough
            //   lanes for the elements outside of groups, or a tile of zero and less than 2^31 elements
            //   per row.
            // - The kernel's parameters were checked at load, and the caller keeps the memory valid.
            unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
        })
    }
}
