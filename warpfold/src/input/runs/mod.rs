//! Runs: neighbouring keys that are equal.

mod reduce;
mod task;

pub use reduce::{Keyed, KeyedInto};

use std::fmt;

use crate::{Buffer, Offset, Outcome, Outputs, Plain, input::segments::SegmentsTask};

/// A type of keys: an integer of 8, 16, 32 or 64 bits, with a sign or without. The trait is sealed.
///
/// Floats are none, because whether two of them are equal has more than one answer:
///
/// ```compile_fail,E0277
/// # use warpfold::{Device, Reducer, Selection, op};
/// # let device = Device::open(Selection::Sim)?;
/// # let reducer = Reducer::new(&device)?;
/// let keys = device.upload(&[0.0_f32, -0.0])?;
/// reducer.runs::<_, u32>(&keys)?;
/// # Ok::<(), warpfold::Error>(())
/// ```
pub trait Key: Plain + Eq + sealed::Key {}

mod sealed {
    /// What has no more types than those of this module.
    pub trait Key {}
}

macro_rules! keys {
    ($($ty:ty)*) => {$(
        impl Key for $ty {}
        impl sealed::Key for $ty {}
    )*};
}

keys!(i8 u8 i16 u16 i32 u32 i64 u64);

/// Runs of equal neighbouring keys, in device memory, from [`Reducer::runs`](crate::Reducer::runs).
pub struct Runs<K, I> {
    keys: Buffer<K>,
    offsets: Buffer<I>,
}

impl<K: Key, I: Offset> Runs<K, I> {
    pub(crate) fn new(keys: Buffer<K>, offsets: Buffer<I>) -> Self {
        Self { keys, offsets }
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none, because there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key of each run, in the order of the runs. A key that comes again behind others is there
    /// again.
    pub fn keys(&self) -> &Buffer<K> {
        &self.keys
    }

    /// Where runs begin, and behind them how many keys there are: run `i` has the keys from `offsets[i]`
    /// to before `offsets[i + 1]`. It is what [`Reducer::segments`](crate::Reducer::segments) takes.
    pub fn offsets(&self) -> &Buffer<I> {
        &self.offsets
    }
}

impl<K: Key, I: Offset> fmt::Debug for Runs<K, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keys, offsets } = self;
        f.debug_struct("Runs").field("keys", keys).field("offsets", offsets).finish()
    }
}

/// A result for each run of equal keys, in device memory, from
/// [`Reducer::reduce`](crate::Reducer::reduce) of a [`Keyed`] input.
pub struct ByKey<K, R> {
    /// The key of each run, in the order of the runs.
    pub keys: Buffer<K>,
    /// The result of each run.
    pub results: Outputs<R>,
}

impl<K: Key, R: Outcome> ByKey<K, R> {
    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none, because there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

impl<K: Key, R: Outcome> fmt::Debug for ByKey<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keys, results } = self;
        f.debug_struct("ByKey").field("keys", keys).field("results", results).finish()
    }
}

/// Keys in device memory of which the runs are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunsTask {
    /// Where the first key is: a multiple of its size.
    pub(crate) address: u64,
    /// How many there are.
    pub(crate) n: u64,
    /// Bytes of a key: 1, 2, 4 or 8.
    pub(crate) key_bytes: u32,
    /// Blocks of the launch that counts, and of that which writes.
    pub(crate) blocks: u32,
    /// Where the counts of the blocks go, a word each.
    pub(crate) counts: u64,
}

/// Runs that were counted, and where they go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteRunsTask {
    pub(crate) runs: RunsTask,
    /// Where the runs' keys go.
    pub(crate) heads: u64,
    /// Where their offsets go.
    pub(crate) offsets: u64,
    /// Words of 32 bits of an offset.
    pub(crate) offset_words: u64,
}

/// Runs that were counted, and the reduction of the values that they have.
#[derive(Debug, Clone)]
pub(crate) struct ByKeyTask {
    pub(crate) write: WriteRunsTask,
    /// By the offsets that are written.
    pub(crate) segments: SegmentsTask,
}
