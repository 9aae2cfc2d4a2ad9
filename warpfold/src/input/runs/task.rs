//! The launches of the kernels that find runs of equal keys.

use std::ptr;

use warpfold_abi::{
    Arguments,
    arguments::{CountRuns, WriteRuns},
    runs::{BLOCK, most_tiles},
};
use warpfold_driver::LaunchShape;

use super::{ByKeyTask, RunsTask, WriteRunsTask};
use crate::{
    Result,
    input::{AnyTask, Task, segments::prepare_tiles},
    kernel_file::{Family, KernelFile},
    reducer::{Code, Kernels, LaunchContext, Layout, Workspace, launch_with},
};

/// Indices of the kernels of [`KernelFile::Runs`].
const COUNT: usize = 0;
const WRITE: usize = 1;

/// Loads all kernels of reductions by key.
pub(super) fn load(kernels: &Kernels, key_bytes: u32, code: &Code) -> Result<()> {
    for kernel in [COUNT, WRITE] {
        kernels.entry(KernelFile::of_runs(key_bytes), kernel)?;
    }
    prepare_tiles(kernels)?;
    kernels.entry_of(Family::Segments, code, 0).map(drop)
}

/// Returns the number of blocks for `n` keys, the same for the launches that count and write runs.
pub(super) fn blocks(kernels: &Kernels, key_bytes: u32, n: u64) -> Result<u32> {
    let file = KernelFile::of_runs(key_bytes);
    let [count, write] = [kernels.entry(file, COUNT)?, kernels.entry(file, WRITE)?];
    let resident = count.resident_of(0).min(write.resident_of(0));
    let tiles = u32::try_from(most_tiles(key_bytes, n)).unwrap_or(u32::MAX);
    Ok(tiles.min(resident).min(Workspace::most_blocks(kernels.device())))
}

impl RunsTask {
    /// # Safety
    /// The conditions of [`launch_with`] must hold, for a kernel of keys of the task's size.
    unsafe fn launch<A: Arguments>(
        &self,
        kernel: usize,
        kernels: &Kernels,
        context: &LaunchContext,
        arguments: &A,
    ) -> Result<()> {
        let function = kernels.entry(KernelFile::of_runs(self.key_bytes), kernel)?.function;
        let shape = LaunchShape::new([self.blocks, 1, 1], [BLOCK, 1, 1]);
        kernels.device().call("launching a search for runs", |driver| {
            // SAFETY: blocks have the size that the kernel requires, and its parameters were checked
            // when it was loaded. The caller meets the other conditions of `launch_with`.
            unsafe { launch_with(driver, function, &shape, context.stream, arguments) }
        })
    }
}

impl Task for RunsTask {
    fn is_empty(&self) -> bool {
        self.n == 0
    }

    fn layout(&self) -> Layout {
        Layout::of_one(size_of::<u64>())
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        kernels.entry(KernelFile::of_runs(self.key_bytes), COUNT).map(drop)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let arguments = CountRuns::<u8> {
            keys: ptr::without_provenance(self.address as usize),
            n: self.n,
            counts: ptr::without_provenance_mut(self.counts as usize),
            slots: ptr::without_provenance_mut(context.slots as usize),
            output: ptr::without_provenance_mut(context.output as usize),
        };
        // SAFETY: the kernel reads the keys, at least one, and writes a word for each block. There are
        // no more blocks than slots, which are zero, and the caller keeps the memory valid.
        unsafe { self.launch(COUNT, kernels, context, &arguments) }
    }
}

impl Task for WriteRunsTask {
    fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        kernels.entry(KernelFile::of_runs(self.runs.key_bytes), WRITE).map(drop)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let &Self { ref runs, heads, offsets, offset_words } = self;
        let arguments = WriteRuns::<u8> {
            keys: ptr::without_provenance(runs.address as usize),
            n: runs.n,
            counts: ptr::without_provenance(runs.counts as usize),
            heads: ptr::without_provenance_mut(heads as usize),
            offsets: ptr::without_provenance_mut(offsets as usize),
            offset_words,
        };
        // SAFETY: the kernel reads the keys and one count per block, and writes a key and an offset for
        // each run that was counted, and one more offset. The caller keeps the memory valid.
        unsafe { runs.launch(WRITE, kernels, context, &arguments) }
    }
}

impl Task for ByKeyTask {
    fn is_empty(&self) -> bool {
        self.write.is_empty()
    }

    fn code(&self) -> Option<&Code> {
        Some(&self.segments.code)
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        self.write.prepare(kernels)?;
        prepare_tiles(kernels)?;
        self.segments.clone().task().prepare(kernels)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let Self { write, segments } = self;
        let task = segments.clone().task();
        // SAFETY: the offsets that the first launch writes ascend, there is room for the starts of
        // tiles, and the caller keeps the memory valid.
        unsafe {
            write.enqueue(kernels, context)?;
            if let AnyTask::Segments(segments) = &task {
                segments.enqueue_tiles(kernels, context)?;
            }
            task.enqueue(kernels, context)
        }
    }
}
