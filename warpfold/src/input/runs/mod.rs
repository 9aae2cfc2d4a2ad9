//! Runs of equal neighbouring keys.

mod reduce;
mod task;

pub use reduce::{Keyed, KeyedInto};

use std::fmt;

use crate::{Buffer, Offset, Outcome, Outputs, Plain, input::segments::SegmentsTask};

/// A type of keys: plain data of 1, 2, 4 or 8 bytes with [`Eq`]. Integers are, arrays such as `[u32; 2]`
/// for the keys of two columns or `[u8; 8]` for short texts, and structs of a program. Two keys are
/// equal if their bytes are, whatever [`Eq`] says. A key of another size is an error when the program is
/// built.
///
/// ```
/// # use warpfold::{Device, Reducer, Selection, op};
/// # let device = Device::open(Selection::Sim)?;
/// # let reducer = Reducer::new(&device)?;
/// let keys = device.upload(&[[2026, 1], [2026, 1], [2026, 2], [2027, 2]])?;
/// let values = device.upload(&[1.0_f32, 2.0, 4.0, 8.0])?;
/// let sums = reducer.reduce(op::Sum, values.by_key(&keys))?;
/// assert_eq!(sums.keys.download()?, [[2026, 1], [2026, 2], [2027, 2]]);
/// assert_eq!(sums.results.read()?, [3.0, 4.0, 8.0]);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// Floats are not keys, because there is more than one definition of their equality; a
/// [cast](Buffer::cast) to the unsigned integer of their size compares their bits. Replace longer keys
/// by numbers first, as an Arrow dictionary does.
///
/// ```compile_fail,E0277
/// # use warpfold::{Device, Reducer, Selection, op};
/// # let device = Device::open(Selection::Sim)?;
/// # let reducer = Reducer::new(&device)?;
/// let keys = device.upload(&[0.0_f32, -0.0])?;
/// reducer.runs::<_, u32>(&keys)?;
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// ```compile_fail,E0080
/// # use warpfold::{Device, Reducer, Selection, op};
/// # let device = Device::open(Selection::Sim)?;
/// # let reducer = Reducer::new(&device)?;
/// let keys = device.upload(&[[1_u8, 2, 3]])?;
/// reducer.runs::<_, u32>(&keys)?;
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// Equal keys that are not neighbours form several runs: sort the keys and the values first.
pub trait Key: Plain + Eq {
    #[doc(hidden)]
    const BYTES: u32 = {
        assert!(matches!(size_of::<Self>(), 1 | 2 | 4 | 8), "a key has 1, 2, 4 or 8 bytes");
        size_of::<Self>() as u32
    };
}

impl<K: Plain + Eq> Key for K {}

/// Runs of equal neighbouring keys in device memory, from [`Reducer::runs`](crate::Reducer::runs).
pub struct Runs<K, I> {
    keys: Buffer<K>,
    offsets: Buffer<I>,
}

impl<K: Key, I: Offset> Runs<K, I> {
    pub(crate) fn new(keys: Buffer<K>, offsets: Buffer<I>) -> Self {
        Self { keys, offsets }
    }

    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether the input had no keys, and thus no runs.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the key of each run, in the order of the runs. A key that occurs again after others is
    /// repeated.
    pub fn keys(&self) -> &Buffer<K> {
        &self.keys
    }

    /// Returns the start of each run, followed by the number of keys: run `i` has the keys from
    /// `offsets[i]` up to, but not including, `offsets[i + 1]`.
    /// [`Reducer::segments`](crate::Reducer::segments) takes these offsets.
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
    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there are no runs, because there are no keys.
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

#[derive(Debug, Clone, Copy)]
pub(crate) struct RunsTask {
    /// The address of the first key; a multiple of a key's size.
    pub(crate) address: u64,
    pub(crate) n: u64,
    /// Size of a key: 1, 2, 4 or 8.
    pub(crate) key_bytes: u32,
    /// Blocks per launch, both for counting and for writing.
    pub(crate) blocks: u32,
    /// The address of the counts, one word per block.
    pub(crate) counts: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteRunsTask {
    pub(crate) runs: RunsTask,
    /// The address to which the runs' keys are written.
    pub(crate) heads: u64,
    pub(crate) offsets: u64,
    /// 32-bit words per offset.
    pub(crate) offset_words: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct ByKeyTask {
    pub(crate) write: WriteRunsTask,
    /// The segments between the offsets that `write` writes.
    pub(crate) segments: SegmentsTask,
}
