//! Float element types, and the types that their statistics are computed in.

use warpfold_device::{
    op::{Number, max_number_f32, max_number_f64, min_number_f32, min_number_f64},
    reduction::Vector,
    thread::Few,
    value,
};

use super::{
    item::{Item, Ordered, Unpacked},
    moments::{About, Centered, Moments},
    sums::{DOWN, InThreeScales, InTwoScales, SquareSum, WideSum, power_of_two},
};

pub(super) trait Real: Number {
    type Moments: Moments;
    type Sums: WideSum;
    type Squares: SquareSum;
}

impl Real for f32 {
    type Moments = About;
    type Sums = f64;
    type Squares = f64;
}

impl Real for f64 {
    type Moments = Centered;
    type Sums = InTwoScales;
    type Squares = InThreeScales;
}

value! {
    /// A mean of `f64` elements: the unrounded sum of both fields.
    pub(super) struct Offset {
        pivot: f64,
        offset: f64,
    }
}

impl Offset {
    /// The largest distance whose square is not stored scaled.
    pub(super) const NEAR: f64 = power_of_two(480);
    pub(super) const NONE: Self = Self { pivot: 0.0, offset: 0.0 };

    /// Returns the mean `pivot + offset`.
    #[inline(always)]
    pub(super) fn at(pivot: f64, offset: f64) -> Self {
        Self { pivot, offset }
    }

    #[inline(always)]
    pub(super) fn value(self) -> f64 {
        self.pivot + self.offset
    }

    /// Returns `other` minus this mean.
    #[inline(always)]
    pub(super) fn distance(self, other: Self) -> f64 {
        (other.pivot - self.pivot) + (other.offset - self.offset)
    }

    /// Returns the distance times [`DOWN`], for distances that may overflow.
    #[inline(always)]
    pub(super) fn far_distance(self, other: Self) -> f64 {
        (other.pivot * DOWN - self.pivot * DOWN) + (other.offset * DOWN - self.offset * DOWN)
    }

    /// Returns this mean plus a finite distance.
    #[inline(always)]
    pub(super) fn moved(self, distance: f64) -> Self {
        Self { offset: self.offset + distance, ..self }
    }
}

pub(super) trait MaybeNan: Real + Ordered {
    const NAN: Self;
    fn is_nan(self) -> bool;
    /// Converts an integer below 2^32; any other value gives an arbitrary result.
    fn to_count(self) -> u32;
    /// Returns the smaller number; NaN only if both are NaN.
    fn least_number(self, other: Self) -> Self;
    /// Returns the larger number; NaN only if both are NaN.
    fn greatest_number(self, other: Self) -> Self;
}

macro_rules! maybe_nan {
    ($($ty:ident: $least:ident, $greatest:ident;)*) => {$(
        impl MaybeNan for $ty {
            const NAN: Self = Self::NAN;
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn to_count(self) -> u32 {
                self as u32
            }
            #[inline(always)]
            fn least_number(self, other: Self) -> Self {
                $least(self, other)
            }
            #[inline(always)]
            fn greatest_number(self, other: Self) -> Self {
                $greatest(self, other)
            }
        }
    )*};
}

maybe_nan! {
    f32: min_number_f32, max_number_f32;
    f64: min_number_f64, max_number_f64;
}

pub(super) trait Floats:
    Unpacked<Wide = Self::In, Total = Self::In> + Item<Wide = Self::In, Total = Self::In>
{
    type In: MaybeNan;

    #[inline(always)]
    fn count_numbers(group: Vector) -> u32 {
        let one_or_zero =
            |element: Self::In| if element.is_nan() { Self::In::ZERO } else { Self::In::ONE };
        Self::terms(group, one_or_zero).tree_reduce(Number::add).to_count()
    }
}

impl<T, R: MaybeNan> Floats for T
where
    T: Unpacked<Wide = R, Total = R> + Item<Wide = R, Total = R>,
{
    type In = R;
}
