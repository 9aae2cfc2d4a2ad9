//! Pairs: the elements of two buffers that have the same index.

use warpfold_abi::{
    binned::{Float, Partial},
    reducer::{GROUP_BYTES, PART_BYTES},
};

use crate::{
    Buffer, Device, Element, Error, Result,
    element::{element_of, word_of},
    geometry::{Extent, MAX_ELEMENTS},
    names::{Dtype, PairOp},
};

/// What one of several devices has of a sum: the words of a [`Partial`], and zeros behind them.
pub(crate) type PartWords = [u64; PART_WORDS];

/// How many words that are.
pub(crate) const PART_WORDS: usize = PART_BYTES as usize / size_of::<u64>();

/// Pairs in device memory, and what reduces them.
#[derive(Debug, Clone)]
pub(crate) struct PairsJob {
    pub(crate) op: PairOp,
    pub(crate) dtype: Dtype,
    /// How many there are.
    pub(crate) n: u64,
    /// Where the first one's elements are: multiples of an element's size.
    pub(crate) addresses: [u64; 2],
}

impl PairsJob {
    /// The pairs of two buffers, which must be on `device` and of the same length.
    pub(crate) fn of<T: Element>(
        op: PairOp,
        [first, second]: [&Buffer<T>; 2],
        device: &Device,
    ) -> Result<Self> {
        device.require("first buffer", first.device())?;
        device.require("second buffer", second.device())?;
        let n = check(first.len(), second.len())?;
        let addresses = [first.as_device_ptr(), second.as_device_ptr()];
        Ok(Self { op, dtype: T::DTYPE, n, addresses })
    }

    /// How both buffers are cut.
    pub(crate) fn extent(&self) -> Extent {
        Extent::of_pairs(self.addresses, self.n, self.dtype.size() as u64)
    }

    /// Bytes of both buffers.
    pub(crate) fn bytes(&self) -> u64 {
        2 * self.n * self.dtype.size() as u64
    }

    /// Whether both begin equally far from a 16-byte boundary.
    pub(crate) fn is_aligned(&self) -> bool {
        let [first, second] = self.addresses;
        first % u64::from(GROUP_BYTES) == second % u64::from(GROUP_BYTES)
    }
}

/// How many pairs two inputs make that have `first` and `second` elements.
pub(crate) fn check(first: usize, second: usize) -> Result<u64> {
    if first != second {
        let reason = format!(
            "{first} elements and {second}; give as many of both, such as the first {}",
            first.min(second)
        );
        return Err(Error::Pairs { reason });
    }
    let n = first as u64;
    if n > MAX_ELEMENTS { Err(Error::TooManyElements { n, most: MAX_ELEMENTS }) } else { Ok(n) }
}

/// The sum of what several devices have of it, in the type of the sum, which is a float.
pub(crate) fn sum_of_parts<S: Element>(parts: impl Iterator<Item = PartWords>) -> S {
    fn of<F: Float>(parts: impl Iterator<Item = PartWords>) -> F {
        let part = |words: PartWords| {
            let mut words = bytemuck::cast_slice::<u64, u32>(&words).iter().copied();
            Partial::<F>::ZERO.map_words(&mut |_| words.next().expect("there are words for any part"))
        };
        parts.map(part).fold(Partial::ZERO, Partial::plus).sum()
    }
    let word = match S::DTYPE {
        Dtype::F32 => word_of(of::<f32>(parts)),
        Dtype::F64 => word_of(of::<f64>(parts)),
        dtype => unreachable!("sums in {dtype} have no parts"),
    };
    element_of(word)
}
