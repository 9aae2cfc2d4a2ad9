//! The operations and what they need of an element type.

use crate::gpu::{Atomic, Shuffle, Word, max_nan_f32, max_nan_f64, min_nan_f32, min_nan_f64};

/// A type that can be reduced.
pub trait Element: Word + Shuffle + Atomic {
    /// The neutral element of addition.
    const ZERO: Self;
    /// Nothing is larger: the neutral element of the minimum.
    const LARGEST: Self;
    /// Nothing is smaller: the neutral element of the maximum.
    const SMALLEST: Self;
    /// Sum; integers wrap around, floats round to nearest.
    fn add(self, other: Self) -> Self;
    /// The smaller one; NaN if either is NaN, as numpy's `minimum`.
    fn least(self, other: Self) -> Self;
    /// The larger one; NaN if either is NaN, as numpy's `maximum`.
    fn greatest(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Element for $ty {
            const ZERO: Self = 0;
            const LARGEST: Self = <$ty>::MAX;
            const SMALLEST: Self = <$ty>::MIN;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn least(self, other: Self) -> Self {
                Ord::min(self, other)
            }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                Ord::max(self, other)
            }
        }
    )*};
}

macro_rules! floats {
    ($($ty:ty: $min:ident, $max:ident;)*) => {$(
        impl Element for $ty {
            const ZERO: Self = 0.0;
            const LARGEST: Self = <$ty>::INFINITY;
            const SMALLEST: Self = <$ty>::NEG_INFINITY;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn least(self, other: Self) -> Self {
                $min(self, other)
            }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                $max(self, other)
            }
        }
    )*};
}

integers!(i32 u32 i64 u64);
floats! {
    f32: min_nan_f32, max_nan_f32;
    f64: min_nan_f64, max_nan_f64;
}

/// An associative, commutative operation with a neutral element.
pub trait Reduction<T> {
    /// Changes nothing when combined: what a thread without an element contributes.
    const IDENTITY: T;
    /// Two partial results into one.
    fn combine(a: T, b: T) -> T;
}

/// Addition.
pub struct Sum;
/// The smallest element.
pub struct Min;
/// The largest element.
pub struct Max;

impl<T: Element> Reduction<T> for Sum {
    const IDENTITY: T = T::ZERO;
    #[inline(always)]
    fn combine(a: T, b: T) -> T {
        a.add(b)
    }
}

impl<T: Element> Reduction<T> for Min {
    const IDENTITY: T = T::LARGEST;
    #[inline(always)]
    fn combine(a: T, b: T) -> T {
        a.least(b)
    }
}

impl<T: Element> Reduction<T> for Max {
    const IDENTITY: T = T::SMALLEST;
    #[inline(always)]
    fn combine(a: T, b: T) -> T {
        a.greatest(b)
    }
}
