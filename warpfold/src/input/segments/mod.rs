//! Segments: pieces of a buffer, of any lengths, described by offsets in device memory.

mod check;
mod task;

use std::{fmt, sync::Arc};

pub(crate) use task::prepare_tiles;

use warpfold_abi::segments::{MOST_TILES, REPORT_WORDS, tile_items};

use crate::{
    Buffer, Device, Error, Integer, Outputs, Plain, Result,
    geometry::MAX_ELEMENTS,
    input::{self, AnyTask, Enqueue, Input, Recordable, by_plan, rows::RowsTask},
    memory::Memory,
    op::RowsOperation,
    reducer::{Code, ElementRange, Plan},
    tuning::Shape,
};

/// A type of offsets: `u32`, `u64`, `i32` or `i64`. The trait is sealed.
pub trait Offset: Integer + sealed::Offset {}

mod sealed {
    pub trait Offset {
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

/// Consecutive pieces of a buffer, each of any length, from
/// [`Reducer::segments`](crate::Reducer::segments).
///
/// [`Reducer::reduce`](crate::Reducer::reduce) returns one result for each segment, from one launch. The
/// segments share the memory of the elements and of the offsets, and own 8 bytes of device memory for
/// each 4 to 24 KiB of elements. Clones are the same segments.
#[derive(Clone)]
pub struct Segments<T> {
    values: Buffer<T>,
    count: usize,
    /// Number of elements in all segments.
    len: u64,
    first: u64,
    /// True if all segments are known to have the same length.
    equal: bool,
    offsets: Arc<Offsets>,
}

/// The offsets of segments, and the starts of tiles that a kernel has computed from them.
pub(crate) struct Offsets {
    _memory: Arc<Memory>,
    address: u64,
    /// 32-bit words per offset.
    words: u64,
    /// The result of the check of the offsets, followed by the starts of tiles.
    report: Memory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffsetsTask {
    pub(crate) address: u64,
    pub(crate) words: u64,
    pub(crate) segments: u64,
    /// The largest valid offset.
    pub(crate) most: u64,
    /// Number of elements plus segment ends per tile.
    pub(crate) tile: u64,
}

impl OffsetsTask {
    pub(crate) fn of<T: Plain, I: Offset>(values: &Buffer<T>, offsets: &Buffer<I>) -> Result<Self> {
        let refused = |reason| Err(Error::Segments { reason });
        let Some(segments) = (offsets.len() as u64).checked_sub(1) else {
            return refused("0 offsets; give one more than there are segments".to_owned());
        };
        if segments > MAX_ELEMENTS {
            return refused(format!(
                "there are {segments} segments; allowed are {MAX_ELEMENTS}; give a part of the offsets"
            ));
        }
        Ok(Self {
            address: offsets.as_device_ptr(),
            words: size_of::<I>() as u64 / 4,
            segments,
            most: I::LARGEST.min(values.len() as u64),
            tile: tile_of(size_of::<T>() as u64),
        })
    }

    /// Returns the number of tile starts that the kernel writes: one for each tile of the longest
    /// possible input, and the end of the last one.
    pub(crate) fn tiles(&self) -> u64 {
        (self.segments + self.most).div_ceil(self.tile) + 1
    }

    /// Returns the bytes of the report and the tile starts.
    pub(crate) fn bytes(&self) -> u64 {
        (REPORT_WORDS + self.tiles()) * size_of::<u64>() as u64
    }
}

/// Resident blocks per multiprocessor when summing `f32` on an H200, where shared memory is the limit.
const RESIDENT_BLOCKS: u64 = 8;
/// The minimum number of rounds of blocks, if there is more than one.
const FEWEST_ROUNDS: u64 = 4;

fn tile_of(element_bytes: u64) -> u64 {
    tile_items(element_bytes as u32).into()
}

impl<T: Plain> Segments<T> {
    /// Returns the segments if the completed check, whose result is in `report`, accepted the offsets,
    /// or an error for offsets that descend or are not inside the buffer.
    pub(crate) fn checked<I: Offset>(
        values: &Buffer<T>,
        offsets: &Buffer<I>,
        task: OffsetsTask,
        report: Memory,
    ) -> Result<Self> {
        let words = REPORT_WORDS as usize;
        // SAFETY: the report begins with `words` words, and the kernel that writes it has completed.
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
        let segments = Self::new(values, offsets, task, report, [first, last]);
        Ok(Self { equal: differs == 0, ..segments })
    }

    /// Returns the segments between the first and the last offset. Their lengths may differ.
    pub(crate) fn new<I: Offset>(
        values: &Buffer<T>,
        offsets: &Buffer<I>,
        task: OffsetsTask,
        report: Memory,
        [first, last]: [u64; 2],
    ) -> Self {
        let OffsetsTask { address, words, segments, .. } = task;
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

    /// Returns all elements of a buffer as segments, one per run of keys. A kernel has yet to write the
    /// offsets.
    pub(crate) fn of_runs<I: Offset>(values: &Buffer<T>, offsets: &Buffer<I>) -> Result<Self> {
        let (task, device) = (OffsetsTask::of(values, offsets)?, values.device());
        let report = Memory::new(device, task.bytes())?;
        let len = values.len() as u64;
        // Lengths are known to be equal if there is one run, or if there are as many runs as elements,
        // because no run is empty.
        let equal = task.segments == 1 || task.segments == len;
        Ok(Self { equal, ..Self::new(values, offsets, task, report, [0, len]) })
    }

    /// Returns the number of segments.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of elements of all segments: fewer than the buffer has if the first offset is
    /// not 0 or the last one not the buffer's length.
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

#[derive(Debug, Clone)]
pub(crate) struct SegmentsTask {
    pub(crate) code: Code,
    pub(crate) segments: u64,
    pub(crate) n: u64,
    /// The address of the first element of the first segment; a multiple of an element's size.
    pub(crate) address: u64,
    pub(crate) first: u64,
    pub(crate) offsets: u64,
    /// 32-bit words per offset.
    pub(crate) offset_words: u64,
    /// The address of the starts of tiles.
    pub(crate) starts: u64,
    pub(crate) equal: bool,
}

impl SegmentsTask {
    pub(crate) fn tile(&self) -> u64 {
        tile_of(self.code.element_bytes())
    }

    pub(crate) fn tiles(&self) -> u64 {
        (self.segments + self.n).div_ceil(self.tile())
    }

    /// Returns the number of consecutive tiles per block. A block loads each tile but its first while it
    /// reduces the previous one. If all blocks can be resident at once, there is one round of blocks;
    /// otherwise there are several, so that the last round leaves little of the device idle.
    pub(crate) fn tiles_per_block(&self, shape: Shape) -> u64 {
        let resident = u64::from(shape.multiprocessors) * RESIDENT_BLOCKS;
        let rounds = match self.tiles().div_ceil(resident * u64::from(MOST_TILES)) {
            0 | 1 => 1,
            rounds => rounds.max(FEWEST_ROUNDS),
        };
        self.tiles().div_ceil(resident * rounds).max(1)
    }

    /// Returns the task. Segments of equal length are reduced as rows, whose kernels need no offsets.
    pub(crate) fn task(self) -> AnyTask {
        let Self { segments, n, address, equal, .. } = self;
        if !equal || n == 0 {
            return AnyTask::Segments(self);
        }
        RowsTask::contiguous(ElementRange { code: self.code, n, address }, n / segments).task()
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
        let refused = |reason| Error::Segments { reason };
        let plan = Plan::of_several(task, self.buffer(), self.count(), ("segments", refused));
        Ok(plan.between(self.offsets()))
    }
}

impl<T> input::sealed::Input for &Segments<T> {}
impl<T> Recordable for &Segments<T> {}
