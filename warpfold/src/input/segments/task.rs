//! The launches of the kernels for segments and their offsets.

use std::ptr;

use warpfold_abi::{
    arguments::{CheckOffsets, FindTiles, ReduceSegments},
    segments::{BLOCK, REPORT_WORDS},
};
use warpfold_driver::LaunchShape;

use super::{OffsetsTask, SegmentsTask};
use crate::{
    Result,
    input::Task,
    kernel_file::{Family, KernelFile},
    reducer::{Code, Kernels, LaunchContext, Workspace, launch_with},
};

/// Indices of the kernels of [`KernelFile::Offsets`].
const CHECK: usize = 0;
const FIND_TILES: usize = 1;

/// Loads the kernel that [`SegmentsTask::enqueue_tiles`] launches.
pub(crate) fn prepare_tiles(kernels: &Kernels) -> Result<()> {
    kernels.entry(KernelFile::Offsets, FIND_TILES).map(drop)
}

impl Task for OffsetsTask {
    fn is_empty(&self) -> bool {
        self.segments == 0
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        kernels.entry(KernelFile::Offsets, CHECK).map(drop)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let entry = kernels.entry(KernelFile::Offsets, CHECK)?;
        let blocks = blocks_for(kernels, self.segments.max(self.tiles()));
        let starts = context.output + REPORT_WORDS * size_of::<u64>() as u64;
        let arguments = CheckOffsets {
            offsets: ptr::without_provenance(self.address as usize),
            offset_words: self.words,
            segments: self.segments,
            most: self.most,
            tile: self.tile,
            report: ptr::without_provenance_mut(context.output as usize),
            starts: ptr::without_provenance_mut(starts as usize),
            tiles: self.tiles(),
        };
        let shape = LaunchShape::new([blocks, 1, 1], [BLOCK, 1, 1]);
        kernels.device().call("checking segment offsets", |driver| {
            // SAFETY: the launch meets the kernel's contract:
            // - Offsets may have any values; the output has room for `report`, which is zero, and
            //   `starts`.
            // - The kernel's parameters were checked at load, and the caller keeps the memory valid.
            unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
        })
    }
}

impl SegmentsTask {
    /// Enqueues the search for the start of each tile, for segments whose offsets are in order.
    ///
    /// # Safety
    /// The conditions of [`Task::enqueue`] must hold, and there must be room for the starts of tiles.
    pub(crate) unsafe fn enqueue_tiles(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let entry = kernels.entry(KernelFile::Offsets, FIND_TILES)?;
        // One more for the end of the last tile.
        let tiles = self.tiles() + 1;
        let arguments = FindTiles {
            offsets: ptr::without_provenance(self.offsets as usize),
            offset_words: self.offset_words,
            segments: self.segments,
            tile: self.tile(),
            starts: ptr::without_provenance_mut(self.starts as usize),
            tiles,
        };
        let shape = LaunchShape::new([blocks_for(kernels, tiles), 1, 1], [BLOCK, 1, 1]);
        kernels.device().call("finding the first segment of each tile", |driver| {
            // SAFETY: the launch meets the kernel's contract:
            // - It reads the offsets and writes the starts of tiles.
            // - The kernel's parameters were checked at load, and the caller keeps the memory valid.
            unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
        })
    }
}

impl Task for SegmentsTask {
    fn is_empty(&self) -> bool {
        self.segments == 0
    }

    fn code(&self) -> Option<&Code> {
        Some(&self.code)
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        kernels.entry_of(Family::Segments, &self.code, 0).map(drop)
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let entry = kernels.entry_of(Family::Segments, &self.code, 0)?;
        let (tiles, per_block) = (self.tiles(), self.tiles_per_block(kernels.device().info().shape()));
        let blocks = u32::try_from(tiles.div_ceil(per_block));
        let blocks = blocks.expect("at most 2^36 elements and ends, 2^8 a tile or more");
        let arguments = ReduceSegments::<u8> {
            input: ptr::without_provenance(self.address as usize),
            n: self.n,
            segments: self.segments,
            offsets: ptr::without_provenance(self.offsets as usize),
            offset_words: self.offset_words,
            first: self.first,
            starts: ptr::without_provenance(self.starts as usize),
            tiles,
            per_block,
            slots: ptr::without_provenance_mut(context.slots as usize),
            ring: Workspace::most_blocks(kernels.device()).into(),
            output: ptr::without_provenance_mut(context.output as usize),
            form: self.code.form().code,
            ddof: self.code.form().ddof,
        };
        let shape = context.shape([blocks, BLOCK], entry.overlaps);
        kernels.device().call("launching a reduction of segments", |driver| {
            // SAFETY: the launch meets the kernel's contract:
            // - The offsets were checked: they ascend and are inside the buffer, and `starts` was
            //   computed from them.
            // - There are blocks for all tiles, and the kernel's ring consists of all slots, each zero.
            // - The kernel's parameters were checked at load, and the caller keeps the memory valid.
            unsafe { launch_with(driver, entry.function, &shape, context.stream, &arguments) }
        })
    }
}

/// Returns the number of blocks for `threads` threads, at most as many as are resident.
fn blocks_for(kernels: &Kernels, threads: u64) -> u32 {
    let resident = kernels.device().info().shape().resident_blocks(BLOCK);
    u32::try_from(threads.div_ceil(BLOCK.into())).unwrap_or(u32::MAX).min(resident)
}
