//! The operations and what they need of an element type.

use crate::gpu::{
    Atomic, Shuffle, Word,
    atomic::{Device, Relaxed},
    max_nan_f32, max_nan_f64, min_nan_f32, min_nan_f64,
};

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
    /// The value times itself; integers wrap around, floats round to nearest.
    fn square(self) -> Self;
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
            fn square(self) -> Self {
                self.wrapping_mul(self)
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
            fn square(self) -> Self {
                self * self
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

/// What is done to each element as it is loaded, and how results are combined: an associative,
/// commutative operation with a neutral element.
pub trait Reduction<T> {
    /// Changes nothing when combined: what a thread without an element contributes.
    const IDENTITY: T;
    /// What an element contributes. Partial results are combined as they are.
    fn map(element: T) -> T;
    /// Two partial results into one.
    fn combine(a: T, b: T) -> T;
    /// Combines a partial result into memory that other threads combine into at the same time.
    ///
    /// # Safety
    /// `address` must point to live global memory that is accessed only atomically.
    unsafe fn combine_atomically(address: *mut T, value: T);
}

/// Addition.
pub struct Sum;
/// The smallest element.
pub struct Min;
/// The largest element.
pub struct Max;
/// Addition of the elements' squares.
pub struct SumSq;

macro_rules! reductions {
    ($($name:ident: $identity:ident, $map:expr, $combine:ident, $atomic:ident;)*) => {$(
        impl<T: Element> Reduction<T> for $name {
            const IDENTITY: T = T::$identity;
            #[inline(always)]
            fn map(element: T) -> T {
                $map(element)
            }
            #[inline(always)]
            fn combine(a: T, b: T) -> T {
                a.$combine(b)
            }
            #[inline(always)]
            unsafe fn combine_atomically(address: *mut T, value: T) {
                // SAFETY: the caller's contract.
                unsafe { T::$atomic::<Relaxed, Device>(address, value) };
            }
        }
    )*};
}

reductions! {
    Sum: ZERO, core::convert::identity, add, fetch_add;
    Min: LARGEST, core::convert::identity, least, fetch_min;
    Max: SMALLEST, core::convert::identity, greatest, fetch_max;
    SumSq: ZERO, T::square, add, fetch_add;
}
