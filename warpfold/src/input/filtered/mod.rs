//! The number and the sum of the elements in an interval.

mod task;

use std::{
    fmt,
    ops::{self, Bound, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive},
};

use half::{bf16, f16};

use crate::{
    Buffer, Device, Element, Error, Output, Result,
    element::sealed::Outcome as _,
    element::word_of,
    geometry::Extent,
    input::{
        Enqueue, Input, by_plan,
        pairs::{PART_WORDS, sum_of_parts},
    },
    names::{Dtype, WithinOp},
    op::{Reproducible, Sum, kind, sealed::Sealed},
    reducer::{HostResults, Plan, require_few},
};

/// The number of [`Filtered`] elements and their sum, both 0 if there are none. Two values are equal if
/// number and sum are.
///
/// In device memory it has 32 bytes: the number as a `u64` at offset 0, the sum at offset 8, and the
/// mean as `f64` at offset 24.
#[derive(Debug, Clone, Copy)]
pub struct Within<S> {
    /// The number of elements in the interval.
    pub count: u64,
    /// Their sum, in the type [`Element::Sum`]; sums of integers wrap around.
    pub sum: S,
    /// The part of the sum that does not fit into `S`: the upper half for integers; for floats the bits
    /// of the sum as `f64`, scaled by 2^-64 if the elements are `f64`.
    pub(crate) rest: u64,
}

impl<S: PartialEq> PartialEq for Within<S> {
    fn eq(&self, other: &Self) -> bool {
        (self.count, &self.sum) == (other.count, &other.sum)
    }
}

impl<S: Element> Within<S> {
    /// Creates a value from the number of elements and their sum.
    pub fn new(count: u64, sum: S) -> Self {
        let rest = match S::DTYPE {
            Dtype::I64 => (word_of(sum).cast_signed() >> 63).cast_unsigned(),
            Dtype::U64 => 0,
            _ => (S::TO_F64(sum) * 2_f64.powi(-Self::HEADROOM)).to_bits(),
        };
        Self { count, sum, rest }
    }

    /// For floats, `self.rest` is the sum times 2^-`HEADROOM`, to avoid overflow.
    const HEADROOM: i32 = if size_of::<S>() == size_of::<f64>() { 64 } else { 0 };

    /// Returns the arithmetic mean of the elements in the interval, as [`op::Mean`](crate::op::Mean)
    /// computes it: its sum neither overflows nor wraps around. Returns `None` if there are no elements.
    pub fn mean(&self) -> Option<f64> {
        let (n, sum) = (self.count as f64, S::TO_F64(self.sum));
        let mean = match S::DTYPE {
            Dtype::I64 | Dtype::U64 => self.whole() as f64 / n,
            Dtype::F64 if sum.is_finite() => sum / n,
            _ => f64::from_bits(self.rest) / n * 2_f64.powi(Self::HEADROOM),
        };
        (self.count > 0).then_some(mean)
    }

    /// Returns the exact sum of integers.
    fn whole(&self) -> i128 {
        i128::from(self.rest.cast_signed()) << 64 | i128::from(word_of(self.sum))
    }

    pub(crate) fn none() -> Self {
        Self::new(0, S::zeroed())
    }

    /// Combines the counts and sums of two parts of the elements.
    pub(crate) fn and(self, other: Self) -> Self {
        let rest = match S::DTYPE {
            Dtype::I64 | Dtype::U64 => (self.whole().wrapping_add(other.whole()) >> 64) as u64,
            _ => (f64::from_bits(self.rest) + f64::from_bits(other.rest)).to_bits(),
        };
        let count = self.count.saturating_add(other.count);
        Self { count, sum: S::ADD(self.sum, other.sum), rest }
    }

    pub(crate) fn of_parts(parts: &[WithinPart]) -> Self {
        let (sum, wide) = sum_of_parts(parts.iter().map(|&[_, ref sum @ ..]| *sum));
        let count = parts.iter().fold(0_u64, |all, [count, ..]| all.saturating_add(*count));
        Self { count, sum, rest: f64::to_bits(wide) }
    }
}

/// The elements of a buffer that are in an interval, from [`Buffer::filter`]. A [`Sum`] counts and adds
/// them in one launch, and returns a [`Within`].
///
/// The interval is any range of the standard library or a pair of [`Bound`]s. A range whose end precedes
/// its start is empty. NaN is in no interval, and zeros of both signs are equal. Counts, and sums of
/// integers, have the same bits on every device; floats are added as by a [`Sum`], in the order of the
/// launch or [reproducibly](Reproducible).
///
/// ```
/// # use warpfold::{Device, Reducer, Selection, Within, op::Sum};
/// # let device = Device::open(Selection::Sim)?;
/// # let reducer = Reducer::new(&device)?;
/// let values = device.upload(&[1e8_f32, 0.25, -1e8, f32::NAN, 2e8])?;
/// let within = reducer.reduce(Sum.reproducible(), values.filter(-1e8..=1e8))?;
/// assert_eq!(within, Within::new(3, 0.25));
/// assert_eq!((within.count, within.sum, within.mean()), (3, 0.25, Some(0.25 / 3.0)));
/// // All but NaN.
/// assert_eq!(reducer.reduce(Sum, values.filter(..))?.count, 4);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// For a condition of another kind, define an [operation of your own](crate::custom).
///
/// `V` is a buffer, or the elements of a [`Group`](crate::Group) or `World`.
pub struct Filtered<'a, T, V = Buffer<T>> {
    pub(crate) values: &'a V,
    pub(crate) bounds: (Bound<T>, Bound<T>),
}

impl<'a, T: Copy, V> Filtered<'a, T, V> {
    pub(crate) fn new(values: &'a V, range: impl RangeBounds<T>) -> Self {
        Self { values, bounds: (range.start_bound().cloned(), range.end_bound().cloned()) }
    }
}

impl<T: Copy, V> Clone for Filtered<'_, T, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Copy, V> Copy for Filtered<'_, T, V> {}

impl<T: fmt::Debug, V: fmt::Debug> fmt::Debug for Filtered<'_, T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { values, bounds } = self;
        f.debug_struct("Filtered").field("values", values).field("bounds", bounds).finish()
    }
}

/// One device's part of a result: its count, and its part of the sum in words.
pub(crate) type WithinPart = [u64; 1 + PART_WORDS];

/// An interval for [`cpu::reduce_within`](crate::cpu::reduce_within): a range of the standard library, a
/// pair of [`Bound`]s, or [`Reproducible`] around either, for a sum with the same bits everywhere. The
/// trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an interval of elements of type `{T}`",
    note = "use a range of them, a pair of `Bound`s, or `Reproducible` around one"
)]
pub trait Interval<T: Element>: Sealed {
    #[doc(hidden)]
    fn bounds(&self) -> (Bound<T>, Bound<T>);

    #[doc(hidden)]
    fn op(&self) -> WithinOp {
        WithinOp::Sum
    }
}

macro_rules! intervals {
    ($([$($T:ident)?] $Range:ty;)*) => {$(
        impl$(<$T>)? Sealed for $Range {
            type Kind = kind::Interval;
        }

        impl<T: Element> Interval<T> for $Range {
            fn bounds(&self) -> (Bound<T>, Bound<T>) {
                (self.start_bound().cloned(), self.end_bound().cloned())
            }
        }
    )*};
}

intervals! {
    [] RangeFull;
    [T] ops::Range<T>;
    [T] RangeInclusive<T>;
    [T] RangeFrom<T>;
    [T] RangeTo<T>;
    [T] RangeToInclusive<T>;
    [T] (Bound<T>, Bound<T>);
}

impl<T: Element, R: Interval<T>> Interval<T> for Reproducible<R> {
    fn bounds(&self) -> (Bound<T>, Bound<T>) {
        self.0.bounds()
    }

    fn op(&self) -> WithinOp {
        self.0.op().reproducible(T::DTYPE)
    }
}

/// Neighbours in the order of a type's values, without NaN.
pub trait NextAfter: Copy {
    const LEAST: Self;
    const GREATEST: Self;
    /// Returns the next greater element, never NaN, if there is one.
    fn above(element: Self) -> Option<Self>;
    /// Returns the next smaller element, never NaN, if there is one.
    fn below(element: Self) -> Option<Self>;
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl NextAfter for $ty {
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;
            fn above(element: Self) -> Option<Self> {
                element.checked_add(1)
            }
            fn below(element: Self) -> Option<Self> {
                element.checked_sub(1)
            }
        }
    )*};
}

integers!(i8 u8 i16 u16 i32 u32 i64 u64);

macro_rules! floats {
    ($($ty:ty as $bits:ty;)*) => {$(
        impl NextAfter for $ty {
            const LEAST: Self = Self::NEG_INFINITY;
            const GREATEST: Self = Self::INFINITY;
            fn above(element: Self) -> Option<Self> {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits = element.to_bits();
                match bits {
                    _ if element == Self::INFINITY => None,
                    0 | SIGN => Some(Self::from_bits(1)),
                    _ if bits & SIGN == 0 => Some(Self::from_bits(bits + 1)),
                    _ => Some(Self::from_bits(bits - 1)),
                }
            }
            fn below(element: Self) -> Option<Self> {
                Self::above(-element).map(|above| -above)
            }
        }
    )*};
}

floats! {
    f16 as u16;
    bf16 as u16;
    f32 as u32;
    f64 as u64;
}

/// The bits of the least and the greatest element of a non-empty interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl Ends {
    /// Returns the ends of the interval between two bounds; `None` if it has no elements.
    pub(crate) fn of<T: Element>((start, end): (Bound<T>, Bound<T>)) -> Result<Option<Self>> {
        for (bound, end) in [(start, "lower"), (end, "upper")] {
            if let Bound::Included(bound) | Bound::Excluded(bound) = bound
                && bound.partial_cmp(&bound).is_none()
            {
                let reason =
                    format!("the {end} end of the interval is NaN; give a number, or leave it open");
                return Err(Error::Interval { reason });
            }
        }
        let low = match start {
            Bound::Included(low) => Some(low),
            Bound::Excluded(below) => T::above(below),
            Bound::Unbounded => Some(T::LEAST),
        };
        let high = match end {
            Bound::Included(high) => Some(high),
            Bound::Excluded(above) => T::below(above),
            Bound::Unbounded => Some(T::GREATEST),
        };
        let ends = low.zip(high).filter(|(low, high)| low <= high);
        Ok(ends.map(|(low, high)| Self { low: word_of(low), high: word_of(high) }))
    }

    #[cfg(feature = "cpu")]
    pub(crate) fn elements<T: bytemuck::Pod>(self) -> [T; 2] {
        [self.low, self.high].map(crate::element::element_of)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct WithinTask {
    pub(crate) op: WithinOp,
    pub(crate) dtype: Dtype,
    pub(crate) interval: Ends,
    /// The length of the buffer; 0 if the interval is empty.
    pub(crate) n: u64,
    /// A multiple of an element's size.
    pub(crate) address: u64,
}

impl WithinTask {
    pub(crate) fn of<T: Element>(
        op: WithinOp,
        bounds: (Bound<T>, Bound<T>),
        values: &Buffer<T>,
        device: &Device,
    ) -> Result<Self> {
        device.require("buffer", values.device())?;
        let n = values.len() as u64;
        require_few(n)?;
        let (n, interval) = match Ends::of(bounds)? {
            Some(interval) => (n, interval),
            None => (0, Ends { low: 0, high: 0 }),
        };
        Ok(Self { op, dtype: T::DTYPE, interval, n, address: values.as_device_ptr() })
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent::of(self.address, self.n, self.dtype.size() as u64)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.n * self.dtype.size() as u64
    }
}

macro_rules! filtered {
    ($($O:ty: $op:expr;)*) => {$(
        impl<T: Element> Input<$O> for Filtered<'_, T> {
            type Output = Within<T::Sum>;

            by_plan!($O);
        }

        impl<T: Element> Enqueue<$O> for Filtered<'_, T> {
            type Left = Output<Within<T::Sum>>;

            fn plan<'p>(self, _op: $O, device: &Device) -> Result<Plan<'p, Self::Output>>
            where
                Self: 'p,
            {
                let task = WithinTask::of($op, self.bounds, self.values, device)?;
                let decode = |results: HostResults<'_>| match results.is_of_none() {
                    true => Within::none(),
                    false => Within::from_words(results.get(0)),
                };
                Ok(Plan::of_interval(task, self.values, decode, Within::none))
            }
        }
    )*};
}

filtered! {
    Sum: WithinOp::Sum;
    Reproducible<Sum>: WithinOp::Sum.reproducible(T::DTYPE);
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    #[test]
    fn next_after_visits_all_half_values_in_order() {
        fn check<T: NextAfter + PartialOrd + Debug>(of_bits: fn(u16) -> T) {
            let is_number = |value: &T| value.partial_cmp(value).is_some();
            let mut all: Vec<T> = (0..=u16::MAX).map(of_bits).filter(is_number).collect();
            all.sort_by(|a, b| a.partial_cmp(b).unwrap());
            all.dedup_by(|a, b| a == b);
            for pair in all.windows(2) {
                assert_eq!(T::above(pair[0]).as_ref(), Some(&pair[1]));
                assert_eq!(T::below(pair[1]).as_ref(), Some(&pair[0]));
            }
            assert_eq!((T::below(all[0]), T::above(all[all.len() - 1])), (None, None));
            assert_eq!((all[0], all[all.len() - 1]), (T::LEAST, T::GREATEST));
        }
        check(f16::from_bits);
        check(bf16::from_bits);
    }

    #[test]
    fn next_after_matches_next_up_and_next_down() {
        for value in [0.0, -0.0, 1e-45, -1e-45, f32::MIN_POSITIVE, 1.0, -2.0, f32::MAX, f32::MIN] {
            assert_eq!(f32::above(value), Some(value.next_up()), "{value:e}");
            assert_eq!(f32::below(value), Some(value.next_down()), "{value:e}");
            let value = f64::from(value);
            assert_eq!(f64::above(value), Some(value.next_up()), "{value:e}");
            assert_eq!(f64::below(value), Some(value.next_down()), "{value:e}");
        }
        assert_eq!((f64::above(f64::INFINITY), f64::below(f64::INFINITY)), (None, Some(f64::MAX)));
        assert_eq!(
            (i8::above(127), i8::above(-1), u64::below(0), u64::below(9)),
            (None, Some(0), None, Some(8))
        );
    }

    #[test]
    fn an_interval_has_the_ends_of_its_range() {
        let of = |range: (Bound<i8>, Bound<i8>)| {
            Ends::of(range).unwrap().map(|Ends { low, high }| (low, high))
        };
        use Bound::{Excluded, Included, Unbounded};
        assert_eq!(of((Unbounded, Unbounded)), Some((0x80, 0x7f)));
        assert_eq!(of((Included(-1), Excluded(2))), Some((0xff, 1)));
        assert_eq!(of((Excluded(-2), Included(-1))), Some((0xff, 0xff)));
        for empty in [(Included(2), Included(1)), (Excluded(1), Excluded(2)), (Included(1), Excluded(1))]
        {
            assert_eq!(of(empty), None, "{empty:?}");
        }
        assert_eq!((of((Excluded(127), Unbounded)), of((Unbounded, Excluded(-128)))), (None, None));
        // Zeros of both signs are equal.
        assert!(Ends::of((0.0_f32..=-0.0).bounds()).unwrap().is_some());
        assert!(Ends::of((-0.0_f32..0.0).bounds()).unwrap().is_none());
        for (range, end) in [(f32::NAN..1.0, "lower"), (1.0..f32::NAN, "upper")] {
            let error = Ends::of(range.bounds()).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("the {end} end of the interval is NaN; give a number, or leave it open")
            );
        }
    }
}
