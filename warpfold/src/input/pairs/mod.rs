//! Pairs of elements with the same index in two buffers.

mod task;

use warpfold_abi::{
    binned::{Float, Partial},
    reducer::{GROUP_BYTES, PART_BYTES},
};

use crate::{
    Buffer, Device, Element, Error, Output, Result,
    element::{element_of, word_of},
    geometry::Extent,
    input::{self, Enqueue, Input, Recordable, by_plan},
    names::{Dtype, PairOp},
    op::PairOperation,
    reducer::{Plan, require_few},
};

/// One device's part of a sum: the words of a [`Partial`], followed by zeros.
pub(crate) type PartWords = [u64; PART_WORDS];

pub(crate) const PART_WORDS: usize = PART_BYTES as usize / size_of::<u64>();

#[derive(Debug, Clone)]
pub(crate) struct PairsTask {
    pub(crate) op: PairOp,
    pub(crate) dtype: Dtype,
    pub(crate) n: u64,
    /// Multiples of an element's size.
    pub(crate) addresses: [u64; 2],
}

impl PairsTask {
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

    pub(crate) fn extent(&self) -> Extent {
        Extent::of_pairs(self.addresses, self.n, self.dtype.size() as u64)
    }

    pub(crate) fn bytes(&self) -> u64 {
        2 * self.n * self.dtype.size() as u64
    }

    /// Returns whether both inputs have the same offset from a 16-byte boundary.
    pub(crate) fn is_aligned(&self) -> bool {
        let [first, second] = self.addresses;
        first % u64::from(GROUP_BYTES) == second % u64::from(GROUP_BYTES)
    }
}

pub(crate) fn check(first: usize, second: usize) -> Result<u64> {
    if first != second {
        let reason = format!(
            "the buffers have {first} and {second} elements; give as many of both, such as the first {}",
            first.min(second)
        );
        return Err(Error::Pairs { reason });
    }
    require_few(first as u64)?;
    Ok(first as u64)
}

/// Adds the parts of several devices. Returns the sum rounded to `S`, a float, and the sum as returned
/// by [`Partial::wide`].
pub(crate) fn sum_of_parts<S: Element>(parts: impl Iterator<Item = PartWords>) -> (S, f64) {
    fn add<F: Float>(parts: impl Iterator<Item = PartWords>) -> (F, f64) {
        let sum = parts.map(part_of::<F>).fold(Partial::ZERO, Partial::plus);
        (sum.sum(), sum.wide())
    }
    let (word, wide) = match S::DTYPE {
        Dtype::F32 => {
            let (sum, wide) = add::<f32>(parts);
            (word_of(sum), wide)
        }
        Dtype::F64 => {
            let (sum, wide) = add::<f64>(parts);
            (word_of(sum), wide)
        }
        dtype => unreachable!("sums in {dtype} have no parts"),
    };
    (element_of(word), wide)
}

fn part_of<F: Float>(words: PartWords) -> Partial<F> {
    let mut words = bytemuck::cast_slice::<u64, u32>(&words).iter().copied();
    Partial::<F>::ZERO.map_words(&mut |_| words.next().expect("there are words for any part"))
}

/// Returns whether received words are valid [`Partial`] sums, and adding them does not exceed the digits
/// of a sum of 2^35 terms.
#[cfg(feature = "world")]
pub(crate) fn are_parts<S: Element>(parts: impl Iterator<Item = PartWords>) -> bool {
    use warpfold_abi::binned::Each;

    struct Largest(u64);

    impl Each for Largest {
        fn double(&mut self, digit: i64) -> i64 {
            self.0 = self.0.max(digit.unsigned_abs());
            digit
        }

        fn single(&mut self, digit: i32) -> i32 {
            digit
        }
    }

    fn are<F: Float>(mut parts: impl Iterator<Item = PartWords>) -> bool {
        // Each of up to 2^35 terms adds at most 2^(WIDTH - 1) to a digit.
        let most = 1_u64 << (35 + F::WIDTH - 1);
        let mut all = 0_u64;
        parts.all(|words| {
            let Partial { digits, bin, specials } = part_of::<F>(words);
            let mut largest = Largest(0);
            F::map(digits, &mut largest);
            all = all.saturating_add(largest.0);
            bin <= 2 * F::LOWEST.unsigned_abs() && specials <= 3 && all <= most
        })
    }
    match S::DTYPE {
        Dtype::F32 => are::<f32>(parts),
        Dtype::F64 => are::<f64>(parts),
        dtype => unreachable!("sums in {dtype} have no parts"),
    }
}

impl<T: Element, O: PairOperation> Input<O> for (&Buffer<T>, &Buffer<T>) {
    type Output = T::Sum;

    by_plan!(O);
}

impl<T: Element, O: PairOperation> Enqueue<O> for (&Buffer<T>, &Buffer<T>) {
    type Left = Output<T::Sum>;

    fn plan<'p>(self, _op: O, device: &Device) -> Result<Plan<'p, T::Sum>>
    where
        Self: 'p,
    {
        Plan::of_pairs(O::op(T::DTYPE), [self.0, self.1], device)
    }
}

impl<T> input::sealed::Input for (&Buffer<T>, &Buffer<T>) {}
impl<T> Recordable for (&Buffer<T>, &Buffer<T>) {}

#[cfg(all(test, feature = "world"))]
mod tests {
    use super::*;

    fn part(digits: [i64; 4], bin: u64, specials: u64) -> PartWords {
        let mut words = PartWords::default();
        words[..4].copy_from_slice(&digits.map(i64::cast_unsigned));
        words[4] = bin | specials << 16;
        words
    }

    #[test]
    fn are_parts_rejects_impossible_sums() {
        let are = |parts: &[PartWords]| are_parts::<f64>(parts.iter().copied());
        let (most, half) = (1 << 62, 1 << 61);
        for parts in [
            &[][..],
            &[part([0; 4], 0, 0)],
            &[part([most, -most, most, -most], 72, 3)],
            &[part([half, 0, 0, 0], 72, 1), part([0, -half, 0, 0], 3, 2)],
        ] {
            assert!(are(parts), "{parts:?}");
            let _ = sum_of_parts::<f64>(parts.iter().copied());
        }
        for parts in [
            &[part([0; 4], 73, 0)][..],
            &[part([0; 4], 0, 4)],
            &[part([0, 0, 0, most + 1], 0, 0)],
            &[part([i64::MIN, 0, 0, 0], 0, 0)],
            &[part([half, 0, 0, 0], 0, 0), part([0, half + 1, 0, 0], 0, 0)],
        ] {
            assert!(!are(parts), "{parts:?}");
        }
    }
}
