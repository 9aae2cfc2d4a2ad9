//! The kernels for segments, and those that look at their offsets: loaded at first use, and launched.

use std::ptr;

use warpfold_abi::{
    Arguments, Parameter,
    arguments::{CheckOffsets, FindTiles, ReduceSegments},
    segments::{BLOCK, REPORT_WORDS},
};
use warpfold_driver::{Function, LaunchShape};

use super::{
    kernels::{Kernels, Places, launch_with},
    module::Module,
    pool::Workspace,
};
use crate::{
    Result,
    ptx::{OFFSETS_FILE, PiecesForm},
    segments::{OffsetsJob, SegmentsJob},
    signature,
};

/// The kernels that read offsets before a reduction does.
pub(super) struct LoadedOffsets {
    check: Function,
    tiles: Function,
    /// What they are of.
    _module: Module,
}

impl Kernels {
    /// Loads the kernels that look at offsets, unless they are.
    pub(crate) fn prepare_offsets(&self) -> Result<()> {
        self.find_offsets().map(drop)
    }

    fn find_offsets(&self) -> Result<&LoadedOffsets> {
        self.found_or(&self.loaded.offsets, || {
            let kernels = [("check", CheckOffsets::PARAMETERS), ("tiles", FindTiles::PARAMETERS)];
            let ([check, tiles], module) = self.load_file(OFFSETS_FILE, kernels)?;
            Ok(LoadedOffsets { check, tiles, _module: module })
        })
    }

    /// The kernels of a file, each of which takes these parameters.
    pub(super) fn load_file<const N: usize>(
        &self,
        file: &str,
        kernels: [(&str, &[Parameter]); N],
    ) -> Result<([Function; N], Module)> {
        let ptx = self.ptx(file)?;
        let entries = kernels.map(|(kernel, parameters)| (format!("{file}_{kernel}"), parameters));
        for (entry, parameters) in &entries {
            signature::check(&ptx, entry, parameters)?;
        }
        let module = Module::load(self.device(), &ptx)?;
        let functions = entries.iter().map(|(entry, _)| module.function(entry));
        let functions = functions.collect::<Result<Vec<_>>>()?;
        let functions = functions.try_into().unwrap_or_else(|_| unreachable!("one for each kernel"));
        Ok((functions, module))
    }

    /// Enqueues a look at offsets, of which there are two or more.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_offsets(&self, job: &OffsetsJob, places: &Places) -> Result<()> {
        let loaded = self.find_offsets()?;
        let blocks = self.blocks_for(job.segments.max(job.tiles()));
        let starts = places.output + REPORT_WORDS * size_of::<u64>() as u64;
        let arguments = CheckOffsets {
            offsets: ptr::without_provenance(job.address as usize),
            offset_words: job.words,
            segments: job.segments,
            most: job.most,
            tile: job.tile,
            report: ptr::without_provenance_mut(places.output as usize),
            starts: ptr::without_provenance_mut(starts as usize),
            tiles: job.tiles(),
        };
        let shape = LaunchShape::new([blocks, 1, 1], [BLOCK, 1, 1]);
        self.device().call("launching a look at offsets", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - It reads the offsets, as many as there are, whatever they say, and writes the report and
            //   where tiles begin.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, loaded.check, &shape, places.stream, &arguments) }
        })
    }

    /// Enqueues what finds where tiles begin, for segments whose offsets are in order.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue), of the segments; there must be room for where tiles
    /// begin.
    pub(super) unsafe fn enqueue_tiles(&self, job: &SegmentsJob, places: &Places) -> Result<()> {
        let loaded = self.find_offsets()?;
        // And the end of the last one.
        let tiles = job.tiles() + 1;
        let arguments = FindTiles {
            offsets: ptr::without_provenance(job.offsets as usize),
            offset_words: job.offset_words,
            segments: job.segments,
            tile: job.tile(),
            starts: ptr::without_provenance_mut(job.starts as usize),
            tiles,
        };
        let shape = LaunchShape::new([self.blocks_for(tiles), 1, 1], [BLOCK, 1, 1]);
        self.device().call("launching a look at offsets", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - It reads the offsets, as many as there are, and writes where tiles begin.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, loaded.tiles, &shape, places.stream, &arguments) }
        })
    }

    /// Blocks that have `threads` threads together, or as many as the device has room for.
    fn blocks_for(&self, threads: u64) -> u32 {
        let resident = self.device().info().shape().resident_blocks(BLOCK);
        u32::try_from(threads.div_ceil(BLOCK.into())).unwrap_or(u32::MAX).min(resident)
    }

    /// Enqueues a reduction of segments, of which there are some.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_segments(&self, job: &SegmentsJob, places: &Places) -> Result<()> {
        let loaded = self.pieces(PiecesForm::Segments, &job.code)?;
        let (tiles, per_block) = (job.tiles(), job.tiles_per_block(self.device().info().shape()));
        let blocks = u32::try_from(tiles.div_ceil(per_block));
        let blocks = blocks.expect("at most 2^36 elements and ends, 2^8 a tile or more");
        let arguments = ReduceSegments::<u8> {
            input: ptr::without_provenance(job.address as usize),
            n: job.n,
            segments: job.segments,
            offsets: ptr::without_provenance(job.offsets as usize),
            offset_words: job.offset_words,
            first: job.first,
            starts: ptr::without_provenance(job.starts as usize),
            tiles,
            per_block,
            slots: ptr::without_provenance_mut(places.slots as usize),
            ring: Workspace::most_blocks(self.device()).into(),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        let shape = places.shape([blocks, BLOCK], loaded.overlaps());
        self.device().call("launching a reduction of segments", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - The offsets were looked at: they are in order and inside of the elements, and what says
            //   where tiles begin is of them.
            // - There are blocks for all tiles, and the ring has as many slots as there are, all zero.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, loaded.function(0), &shape, places.stream, &arguments) }
        })
    }
}
