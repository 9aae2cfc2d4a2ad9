//! Segments: pieces of a buffer whose lengths differ, described by offsets in device memory.

mod check;
mod task;

use std::{fmt, sync::Arc};

use warpfold_abi::segments::{MOST_TILES, REPORT_WORDS, tile_items};

use crate::{
    Buffer, Device, Error, Integer, Outputs, Plain, Result,
    geometry::MAX_ELEMENTS,
    input::{self, AnyTask, Enqueue, Input, Recordable, by_plan, rows::RowsTask},
    memory::Memory,
    op::RowsOperation,
    reducer::{Code, Plan, Span},
    tuning::Shape,
};

/// A type of offsets: `u32`, `u64`, `i32` or `i64`. The trait is sealed.
pub trait Offset: Integer + sealed::Offset {}

mod sealed {
    /// What the library knows of an offset's type.
    pub trait Offset {
        /// The largest offset of the type.
        const LARGEST: u64;
    }
}

macro_rules! offsets {
    ($($ty:ty)*) => {$(
        impl Offset for $ty {}

        impl sealed::Offset for $ty {
            const LARGEST: u64 = <$ty>::MAX as u64;
        }
    )*};
}

offsets!(u32 u64 i32 i64);

/// Pieces of a buffer, each of any length, one behind the other, from
/// [`Reducer::segments`](crate::Reducer::segments).
///
/// [Reduced](crate::Reducer::reduce), every segment has a result of its own, all of them by one launch.
/// It shares the memory of the elements and of the offsets, and has some
/// of its own: 8 bytes for each 4 to 24 KiB of elements. Clones are the same segments.
#[derive(Clone)]
pub struct Segments<T> {
    values: Buffer<T>,
    count: usize,
    /// Elements of all segments.
    len: u64,
    /// The first of them.
    first: u64,
    /// Whether all segments have as many.
    equal: bool,
    offsets: Arc<Offsets>,
}

/// What a kernel finds segments by.
pub(crate) struct Offsets {
    /// Of the offsets themselves.
    _memory: Arc<Memory>,
    address: u64,
    /// Words of 32 bits of an offset.
    words: u64,
    /// A report on the offsets, and behind it where tiles begin.
    report: Memory,
}

/// A look at offsets in device memory, which is never of none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffsetsTask {
    pub(crate) address: u64,
    pub(crate) words: u64,
    pub(crate) segments: u64,
    /// The largest offset that may be.
    pub(crate) most: u64,
    /// Elements and ends of a tile.
    pub(crate) tile: u64,
}

impl OffsetsTask {
    /// That of a buffer of elements, which has one offset more than there are segments.
    ///
    /// # Errors
    /// [`Error::Segments`] for no offsets, and for too many.
    pub(crate) fn of<T: Plain, I: Offset>(values: &Buffer<T>, offsets: &Buffer<I>) -> Result<Self> {
        let segments = match (offsets.len() as u64).checked_sub(1) {
            Some(segments) if segments <= MAX_ELEMENTS => segments,
            Some(segments) => {
                let reason = format!(
                    "{segments} segments; there may be {MAX_ELEMENTS}; give a part of the offsets"
                );
                return Err(Error::Segments { reason });
            }
            None => {
                let reason = "0 offsets; give one more than there are segments".to_owned();
                return Err(Error::Segments { reason });
            }
        };
        Ok(Self {
            address: offsets.as_device_ptr(),
            words: size_of::<I>() as u64 / 4,
            segments,
            most: I::LARGEST.min(values.len() as u64),
            tile: tile_of(size_of::<T>() as u64),
        })
    }

    /// Places of which the kernel says where tiles begin there: as many as the longest path has, and its
    /// end.
    pub(crate) fn tiles(&self) -> u64 {
        (self.segments + self.most).div_ceil(self.tile) + 1
    }

    /// Bytes of the report, and where tiles begin.
    pub(crate) fn bytes(&self) -> u64 {
        (REPORT_WORDS + self.tiles()) * size_of::<u64>() as u64
    }
}

/// Blocks of a multiprocessor, which its shared memory limits: those of sums of `f32` on an H200.
const RESIDENT_BLOCKS: u64 = 8;
/// Rounds of blocks, if there is more than one.
const FEWEST_ROUNDS: u64 = 4;

/// Elements and ends of a tile, for elements of `element_bytes` bytes.
fn tile_of(element_bytes: u64) -> u64 {
    tile_items(element_bytes as u32).into()
}

impl<T: Plain> Segments<T> {
    /// Segments whose offsets were looked at.
    ///
    /// # Errors
    /// [`Error::Segments`] for offsets that descend, or are not all inside, and [`Error::Driver`] when
    /// they cannot be copied.
    pub(crate) fn checked<I: Offset>(
        values: &Buffer<T>,
        offsets: &Buffer<I>,
        job: OffsetsTask,
        report: Memory,
    ) -> Result<Self> {
        let words = REPORT_WORDS as usize;
        // SAFETY: the report begins with `words` words, and the kernel that writes it is done.
        let found = unsafe { values.device().copy_out::<u64>(report.address(), words) }?;
        let (wrong, first, last, differs) = (found[0], found[1], found[2], found[3]);
        if wrong != 0 {
            let segment = !wrong as usize;
            let ends = offsets.slice(segment..segment + 2)?.download()?;
            let len = values.len();
            let reason = format!(
                "segment {segment} is from {:?} to {:?} of {len} elements; give offsets that never \
                 descend, from 0 to {len} at most",
                ends[0], ends[1]
            );
            return Err(Error::Segments { reason });
        }
        let segments = Self::new(values, offsets, job, report, [first, last]);
        Ok(Self { equal: differs == 0, ..segments })
    }

    /// Segments between two offsets, which are in order if the report says so.
    pub(crate) fn new<I: Offset>(
        values: &Buffer<T>,
        offsets: &Buffer<I>,
        job: OffsetsTask,
        report: Memory,
        [first, last]: [u64; 2],
    ) -> Self {
        let OffsetsTask { address, words, segments, .. } = job;
        let offsets = Offsets { _memory: offsets.memory().clone(), address, words, report };
        Self {
            values: values.clone(),
            count: segments as usize,
            len: last - first,
            first,
            equal: false,
            offsets: Arc::new(offsets),
        }
    }

    /// All of a buffer, in segments by offsets that are yet to be written, as those of runs of keys are.
    pub(crate) fn of_runs<I: Offset>(values: &Buffer<T>, offsets: &Buffer<I>) -> Result<Self> {
        let (job, device) = (OffsetsTask::of(values, offsets)?, values.device());
        let report = Memory::new(device, job.bytes())?;
        let len = values.len() as u64;
        // No run is empty.
        let equal = job.segments == 1 || job.segments == len;
        Ok(Self { equal, ..Self::new(values, offsets, job, report, [0, len]) })
    }

    /// How many segments there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Elements of all segments together: fewer than the buffer has where the first offset is not 0 or
    /// the last one not the buffer's end.
    pub fn elements(&self) -> u64 {
        self.len
    }

    /// Returns the buffer with the elements.
    pub fn buffer(&self) -> &Buffer<T> {
        &self.values
    }

    pub(crate) fn offsets(&self) -> &Arc<Offsets> {
        &self.offsets
    }

    /// A reduction of them.
    pub(crate) fn task(&self, code: Code) -> SegmentsTask {
        let Offsets { address, words, ref report, .. } = *self.offsets;
        SegmentsTask {
            code,
            segments: self.count as u64,
            n: self.len,
            address: self.values.as_device_ptr() + self.first * size_of::<T>() as u64,
            first: self.first,
            offsets: address,
            offset_words: words,
            starts: report.address() + REPORT_WORDS * size_of::<u64>() as u64,
            equal: self.equal,
        }
    }
}

impl<T: Plain> fmt::Debug for Segments<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { values, count, len, .. } = self;
        let mut shown = f.debug_struct("Segments");
        shown.field("buffer", values).field("count", count).field("elements", len).finish()
    }
}

/// An operation on segments in device memory.
#[derive(Debug, Clone)]
pub(crate) struct SegmentsTask {
    pub(crate) code: Code,
    /// How many segments there are.
    pub(crate) segments: u64,
    /// Elements of all segments together.
    pub(crate) n: u64,
    /// Where the first one is: a multiple of their size.
    pub(crate) address: u64,
    /// The first of the offsets.
    pub(crate) first: u64,
    /// The address of the offsets.
    pub(crate) offsets: u64,
    /// Words of 32 bits of an offset.
    pub(crate) offset_words: u64,
    /// Where the kernel finds the tiles' beginnings.
    pub(crate) starts: u64,
    /// Whether all have the same length.
    pub(crate) equal: bool,
}

impl SegmentsTask {
    /// Elements and ends of a tile.
    pub(crate) fn tile(&self) -> u64 {
        tile_of(self.code.element_bytes())
    }

    /// Blocks of the launch: one for each tile.
    pub(crate) fn tiles(&self) -> u64 {
        (self.segments + self.n).div_ceil(self.tile())
    }

    /// How many tiles a block takes one after the other: a tile is brought while the one before is
    /// worked on, which the first one of a block has to go without. All blocks are resident at once
    /// where that is enough; else there are several rounds of them, so that the last one leaves little
    /// without work.
    pub(crate) fn tiles_per_block(&self, shape: Shape) -> u64 {
        let resident = u64::from(shape.multiprocessors) * RESIDENT_BLOCKS;
        let rounds = match self.tiles().div_ceil(resident * u64::from(MOST_TILES)) {
            0 | 1 => 1,
            rounds => rounds.max(FEWEST_ROUNDS),
        };
        self.tiles().div_ceil(resident * rounds).max(1)
    }

    /// Returns the task: segments of one length are rows, whose kernels do without offsets.
    pub(crate) fn task(self) -> AnyTask {
        let Self { segments, n, address, equal, .. } = self;
        if !equal || n == 0 {
            return AnyTask::Segments(self);
        }
        RowsTask::contiguous(Span { code: self.code, n, address }, n / segments).task()
    }
}

impl<T: Plain, O: RowsOperation<T>> Input<O> for &Segments<T> {
    type Output = Vec<O::Left>;

    by_plan!(O);
}

impl<T: Plain, O: RowsOperation<T>> Enqueue<O> for &Segments<T> {
    type Left = Outputs<O::Left>;

    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
    where
        Self: 'p,
    {
        device.require("buffer", self.buffer().device())?;
        let code = op.code();
        code.require_device(device)?;
        let task = self.task(code).task();
        let what = ("segments", (|reason| Error::Segments { reason }) as fn(String) -> Error);
        let plan = Plan::of_several(task, self.buffer(), self.count(), what);
        Ok(plan.between(self.offsets()))
    }
}

impl<T> input::sealed::Input for &Segments<T> {}
impl<T> Recordable for &Segments<T> {}
