//! The launches of the kernels for top-k.

use std::ptr;

use warpfold_abi::{
    Arguments,
    arguments::{ReduceTop, SelectTop, SortTop},
    reducer::OUTPUT_BYTES,
    top::{KeyOrder, SELECT_BLOCK, STAGED},
};
use warpfold_driver::LaunchShape;

use super::{TopTask, launch::SelectLaunch};
use crate::{
    Result,
    input::{Task, rows::RowsLaunch},
    kernel_file::{AnyTopKernel, KernelFile},
    names::{Dtype, TopOp},
    reducer::{Entry, Kernels, LaunchContext, Layout, launch_with, scratch_of},
};

/// Blocks of a launch that sorts, at most; with more work, a block takes more of it.
const MOST_SORT_BLOCKS: u64 = 1 << 16;

impl TopTask {
    fn planned<'k>(&self, kernels: &'k Kernels) -> Result<(&'k Entry, RowsLaunch)> {
        let launch = RowsLaunch::of_top(self, kernels.device().info().shape());
        let file = KernelFile::Top(self.op, self.dtype);
        Ok((kernels.entry(file, launch.kernel as usize)?, launch))
    }

    fn any_entry<'k>(&self, kernels: &'k Kernels, kernel: AnyTopKernel) -> Result<&'k Entry> {
        kernels.entry(KernelFile::of_any_top(self.dtype.size() as u32), kernel as usize)
    }

    fn selection<'k>(&self, kernels: &'k Kernels) -> Result<(&'k Entry, SelectLaunch)> {
        let large = self.any_entry(kernels, AnyTopKernel::Select)?;
        let launch = SelectLaunch::of(self, large.resident_of(0));
        Ok((self.any_entry(kernels, launch.kernel)?, launch))
    }

    fn key_order(&self) -> KeyOrder {
        let (bytes, is_largest) = (self.dtype.size() as u32, self.op == TopOp::Largest);
        let of_floats = |infinity| KeyOrder::of_floats(bytes, infinity, is_largest);
        match self.dtype {
            Dtype::F16 => of_floats(0x7c00),
            Dtype::Bf16 => of_floats(0x7f80),
            Dtype::F32 => of_floats(f32::INFINITY.to_bits().into()),
            Dtype::F64 => of_floats(f64::INFINITY.to_bits()),
            integer => KeyOrder::of_integers(bytes, !integer.is_unsigned(), is_largest),
        }
    }

    /// Enqueues the selection, and the launches that sort its results if they are many.
    ///
    /// # Safety
    /// The conditions of [`Task::enqueue`].
    unsafe fn enqueue_any(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let (entry, selection) = self.selection(kernels)?;
        let SelectLaunch { kernel, blocks, share, samples, rank, room, ranked } = selection;
        let KeyOrder { fold, toggle, lowest, nan, zero, unit } = self.key_order();
        let shape = context.shape([blocks, kernel.block()], false);
        let shape = LaunchShape { cooperative: share > 1, ..shape };
        let arguments = SelectTop::<u8> {
            input: ptr::without_provenance(self.address as usize),
            rows: self.rows,
            len: self.len,
            k: self.k,
            share: share.into(),
            samples,
            rank,
            slots: ptr::without_provenance_mut(context.slots as usize),
            scratch: ptr::without_provenance_mut(scratch_of(context.slots, kernels.device()) as usize),
            room,
            ranked,
            output: ptr::without_provenance_mut(context.output as usize),
            fold,
            toggle,
            lowest,
            nan,
            zero,
            unit,
        };
        // SAFETY: the launch meets the kernel's contract: it reads the rows, which have at least k
        // elements, and writes k results for each. If rows have several blocks, all are resident at
        // once, the slots are zero and have room for the control words of each row, and the memory that
        // follows them has room for the candidates and results.
        unsafe { launch(kernels, entry, &shape, context, &arguments) }?;
        if selection.sorts(self.k) {
            return Ok(());
        }
        // SAFETY: the results were written by the launch before.
        unsafe { self.enqueue_sort(kernels, context) }
    }

    /// Enqueues the launches that sort the results of rows.
    ///
    /// # Safety
    /// The conditions of [`Task::enqueue`]; earlier work of the stream writes the results.
    unsafe fn enqueue_sort(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let &Self { rows, k, .. } = self;
        let chunk = u64::from(STAGED);
        let sort = self.any_entry(kernels, AnyTopKernel::Sort)?;
        let merge = self.any_entry(kernels, AnyTopKernel::Merge)?;
        let KeyOrder { fold, toggle, lowest, nan, zero, unit } = self.key_order();
        let step = |entry: &Entry, blocks: u64, size: u64, distance: u64| {
            let results = ptr::without_provenance_mut(context.output as usize);
            let arguments =
                SortTop { results, rows, k, size, distance, fold, toggle, lowest, nan, zero, unit };
            let shape = context.shape([blocks.min(MOST_SORT_BLOCKS) as u32, SELECT_BLOCK], false);
            // SAFETY: the kernels access the results of the rows and nothing else.
            unsafe { launch(kernels, entry, &shape, context, &arguments) }
        };
        let chunks = rows * k.div_ceil(chunk);
        let pairs = (rows * (k.next_power_of_two() / 2)).div_ceil(SELECT_BLOCK.into());
        step(sort, chunks, 0, 0)?;
        let mut size = 2 * chunk;
        while size / 2 < k {
            step(merge, pairs, size, 0)?;
            let mut distance = size / 4;
            while distance >= chunk {
                step(merge, pairs, 2 * distance, distance)?;
                distance /= 2;
            }
            step(sort, chunks, size, 0)?;
            size *= 2;
        }
        Ok(())
    }
}

/// # Safety
/// The conditions of [`launch_with`] must hold, but for the parameters, which were checked when the
/// kernel was loaded.
unsafe fn launch<A: Arguments>(
    kernels: &Kernels,
    entry: &Entry,
    shape: &LaunchShape,
    context: &LaunchContext,
    arguments: &A,
) -> Result<()> {
    kernels.device().call("launching a search for the largest or smallest elements", |driver| {
        // SAFETY: the caller meets the conditions of `launch_with`.
        unsafe { launch_with(driver, entry.function, shape, context.stream, arguments) }
    })
}

impl Task for TopTask {
    fn is_empty(&self) -> bool {
        self.count() == 0
    }

    fn layout(&self) -> Layout {
        Layout::of_pieces(self.count(), OUTPUT_BYTES as usize)
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        if let Some(task) = self.of_one() {
            return task.prepare(kernels);
        }
        if self.is_small() {
            return self.planned(kernels).map(drop);
        }
        if !self.selection(kernels)?.1.sorts(self.k) {
            self.any_entry(kernels, AnyTopKernel::Sort)?;
            self.any_entry(kernels, AnyTopKernel::Merge)?;
        }
        Ok(())
    }

    fn used_slot_bytes(&self, kernels: &Kernels) -> Result<Option<u64>> {
        if self.is_small() {
            return Ok(None);
        }
        Ok(Some(self.selection(kernels)?.1.slot_bytes()))
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        if let Some(task) = self.of_one() {
            // SAFETY: for k = 1 both tasks write one result of `OUTPUT_BYTES` for each row, and the
            // caller meets the conditions of `enqueue`.
            return unsafe { task.enqueue(kernels, context) };
        }
        if !self.is_small() {
            // SAFETY: the caller meets the conditions of `enqueue`.
            return unsafe { self.enqueue_any(kernels, context) };
        }
        let (entry, planned) = self.planned(kernels)?;
        let shape = context.shape([planned.blocks, planned.block], entry.overlaps);
        let arguments = ReduceTop::<u8> {
            input: ptr::without_provenance(self.address as usize),
            rows: self.rows,
            len: self.len,
            k: self.k,
            share: planned.share.into(),
            tile: planned.tile.into(),
            slots: ptr::without_provenance_mut(context.slots as usize),
            output: ptr::without_provenance_mut(context.output as usize),
        };
        // SAFETY: the launch meets the kernel's contract:
        // - It reads the rows, which have at least k elements, and writes k results for each.
        // - The kernel has a queue for each thread of a block. A tile has no more groups than the
        //   block's threads load at once, and a row has no more single elements than threads.
        // - If rows have several blocks, each block has a slot, and the slots are zero.
        // - The caller keeps the memory valid.
        unsafe { launch(kernels, entry, &shape, context, &arguments) }
    }
}
