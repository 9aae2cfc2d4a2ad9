//! The kernels for segments: loaded at first use, and launched.

use std::ptr;

use warpfold_abi::{
    Arguments,
    arguments::{CheckOffsets, ReduceSegments},
    segments::{BLOCK, REPORT_WORDS},
};
use warpfold_driver::{Function, LaunchShape};

use super::{
    job::Code,
    kernels::{Kernels, Places, launch_with},
    module::Module,
    pool::Workspace,
};
use crate::{
    Result,
    names::{Dtype, Op},
    ptx::{Family, OFFSETS_FILE},
    segments::{OffsetsJob, SegmentsJob},
    signature,
};

/// A file's only kernel.
pub(super) struct LoadedKernel {
    function: Function,
    /// What it is of.
    _module: Module,
}

impl Kernels {
    /// Loads the kernel for segments of an operation and type, unless it is.
    pub(crate) fn prepare_segments(&self, op: Op, dtype: Dtype) -> Result<()> {
        self.find_segments(op, dtype).map(drop)
    }

    /// Loads the kernel that looks at offsets, unless it is.
    pub(crate) fn prepare_offsets(&self) -> Result<()> {
        self.find_offsets().map(drop)
    }

    fn find_segments(&self, op: Op, dtype: Dtype) -> Result<&LoadedKernel> {
        let load = || self.load_only::<ReduceSegments<()>>(&Family::Segments.file(op, dtype), "path");
        self.found_or(self.loaded.segments.get(op, dtype), load)
    }

    fn find_offsets(&self) -> Result<&LoadedKernel> {
        let load = || self.load_only::<CheckOffsets>(OFFSETS_FILE, "check");
        self.found_or(&self.loaded.offsets, load)
    }

    fn load_only<A: Arguments>(&self, file: &str, kernel: &str) -> Result<LoadedKernel> {
        let (ptx, entry) = (self.ptx(file)?, format!("{file}_{kernel}"));
        signature::check(&ptx, &entry, A::PARAMETERS)?;
        let module = Module::load(self.device(), &ptx)?;
        Ok(LoadedKernel { function: module.function(&entry)?, _module: module })
    }

    /// Enqueues a look at offsets, of which there are two or more.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_offsets(&self, job: &OffsetsJob, places: &Places) -> Result<()> {
        let loaded = self.find_offsets()?;
        let resident = self.device().info().shape().resident_blocks(BLOCK);
        let wanted = job.segments.max(job.tiles()).div_ceil(BLOCK.into());
        let blocks = u32::try_from(wanted).unwrap_or(u32::MAX).min(resident);
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
            unsafe { launch_with(driver, loaded.function, &shape, places.stream, &arguments) }
        })
    }

    /// Enqueues a reduction of segments, of which there are some.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_segments(&self, job: &SegmentsJob, places: &Places) -> Result<()> {
        let &Code::BuiltIn(op, dtype) = &job.code else { unreachable!("segments refuse it before") };
        let loaded = self.find_segments(op, dtype)?;
        let tiles = u32::try_from(job.tiles()).expect("at most 2^36 elements and ends, 2^10 a tile");
        let arguments = ReduceSegments::<u8> {
            input: ptr::without_provenance(job.address as usize),
            n: job.n,
            segments: job.segments,
            offsets: ptr::without_provenance(job.offsets as usize),
            offset_words: job.offset_words,
            first: job.first,
            starts: ptr::without_provenance(job.starts as usize),
            slots: ptr::without_provenance_mut(places.slots as usize),
            ring: Workspace::most_blocks(self.device()).into(),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        let shape = LaunchShape::new([tiles, 1, 1], [BLOCK, 1, 1]);
        self.device().call("launching a reduction of segments", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - The offsets were looked at: they are in order and inside of the elements, and what says
            //   where tiles begin is of them.
            // - There is a block for each tile, and the ring has as many slots as there are, all zero.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, loaded.function, &shape, places.stream, &arguments) }
        })
    }
}
