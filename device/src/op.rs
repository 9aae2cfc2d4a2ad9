//! Operations that combine two values.

use core::{arch::asm, convert::identity};

use crate::{Value, gpu};

/// An associative and commutative operation with an identity.
///
/// Scans combine in thread order and need associativity only; reductions also exchange operands.
/// (Floating-point addition is not associative. Collectives combine in an order that depends only on the
/// number of threads, so that equal launches give equal bits.)
///
/// Implement it for user-defined operations.
pub trait Operation<T: Value>: Copy {
    /// Value that leaves any other value unchanged when combined with it.
    const IDENTITY: T;

    /// Combines two values.
    fn combine(a: T, b: T) -> T;

    /// Reduces a warp's values faster than pair by pair, as with a hardware instruction; the result is
    /// valid in every lane. Returns `None` if there is no such way; the caller then uses shuffles.
    ///
    /// # Safety
    /// All lanes named in `members` call it together, the calling lane among them.
    #[inline(always)]
    unsafe fn combine_warp(_value: T, _members: u32) -> Option<T> {
        None
    }
}

/// Numbers, with the operations of [`Sum`], [`Product`], [`Min`] and [`Max`].
pub trait Number: Value {
    /// Identity of addition.
    const ZERO: Self;
    /// Identity of multiplication.
    const ONE: Self;
    /// Largest value, the identity of the minimum.
    const LARGEST: Self;
    /// Smallest value, the identity of the maximum.
    const SMALLEST: Self;
    /// Adds; integers wrap around, floats round to nearest.
    fn add(self, other: Self) -> Self;
    /// Subtracts; integers wrap around, floats round to nearest.
    fn subtract(self, other: Self) -> Self;
    /// Multiplies; integers wrap around, floats round to nearest.
    fn multiply(self, other: Self) -> Self;
    /// Returns the value times itself.
    #[inline(always)]
    fn square(self) -> Self {
        self.multiply(self)
    }
    /// Returns the nearest `f64`.
    fn to_f64(self) -> f64;
    /// Returns the absolute value; the smallest integer of a signed type, which has none, is unchanged.
    fn magnitude(self) -> Self;
    /// Returns the smaller number; NaN if either is NaN, like numpy's `minimum`.
    fn least(self, other: Self) -> Self;
    /// Returns the larger number; NaN if either is NaN, like numpy's `maximum`.
    fn greatest(self, other: Self) -> Self;

    /// # Safety
    /// Same as [`Operation::combine_warp`].
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn sum_of_warp(self, _members: u32) -> Option<Self> {
        None
    }

    /// # Safety
    /// Same as [`Operation::combine_warp`].
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn least_of_warp(self, _members: u32) -> Option<Self> {
        None
    }

    /// # Safety
    /// Same as [`Operation::combine_warp`].
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn greatest_of_warp(self, _members: u32) -> Option<Self> {
        None
    }
}

macro_rules! integers {
    ($($ty:ty = $magnitude:expr $(, $add:ident, $min:ident, $max:ident)? $(=> $in_pieces:ident)?;)*) => {$(
        impl Number for $ty {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LARGEST: Self = <$ty>::MAX;
            const SMALLEST: Self = <$ty>::MIN;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn subtract(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                $magnitude(self)
            }
            #[inline(always)]
            fn least(self, other: Self) -> Self {
                Ord::min(self, other)
            }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                Ord::max(self, other)
            }
            $(integers!(@hardware sum_of_warp, $add);
            integers!(@hardware least_of_warp, $min);
            integers!(@hardware greatest_of_warp, $max);)?
            $(#[inline(always)]
            unsafe fn sum_of_warp(self, members: u32) -> Option<Self> {
                // SAFETY: all lanes in `members` call it together, as the caller guarantees.
                Some(unsafe { $in_pieces(self as u64, members) } as Self)
            })?
        }
    )*};
    (@hardware $name:ident, $instruction:ident) => {
        #[inline(always)]
        unsafe fn $name(self, members: u32) -> Option<Self> {
            // SAFETY: all lanes in `members` call it together, as the caller guarantees.
            Some(unsafe { gpu::$instruction(members, self as u32) } as Self)
        }
    };
}

integers! {
    i32 = i32::wrapping_abs, redux_add, redux_min, redux_max;
    u32 = identity, redux_add, redux_umin, redux_umax;
    i64 = i64::wrapping_abs => sum_in_pieces;
    u64 = identity => sum_in_pieces;
    i128 = i128::wrapping_abs;
    u128 = identity;
    i16 = i16::wrapping_abs;
    u16 = identity;
    i8 = i8::wrapping_abs;
    u8 = identity;
}

/// Sums 64-bit values as three 22-bit pieces: the hardware's 32-bit sum adds 32 such pieces without
/// overflow. The three sums are independent, whereas five shuffles would wait for each other.
///
/// # Safety
/// Same as [`Operation::combine_warp`].
#[inline(always)]
unsafe fn sum_in_pieces(value: u64, members: u32) -> u64 {
    const BITS: u32 = 22;
    // SAFETY: all lanes in `members` call it together, as the caller guarantees.
    let piece = |at: u32| unsafe {
        u64::from(gpu::redux_add(members, (value >> at) as u32 & ((1 << BITS) - 1))) << at
    };
    piece(0).wrapping_add(piece(BITS)).wrapping_add(piece(2 * BITS))
}

macro_rules! floats {
    ($($ty:ty: $min:ident, $max:ident;)*) => {$(
        impl Number for $ty {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LARGEST: Self = <$ty>::INFINITY;
            const SMALLEST: Self = <$ty>::NEG_INFINITY;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn subtract(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                <$ty>::from_bits(self.to_bits() & !(-0.0 as $ty).to_bits())
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

floats! {
    f32: min_nan_f32, max_nan_f32;
    f64: min_nan_f64, max_nan_f64;
}

/// Addition.
#[derive(Debug, Clone, Copy)]
pub struct Sum;
/// Multiplication.
#[derive(Debug, Clone, Copy)]
pub struct Product;
/// Minimum.
#[derive(Debug, Clone, Copy)]
pub struct Min;
/// Maximum.
#[derive(Debug, Clone, Copy)]
pub struct Max;
/// Bitwise and of integers, logical and of `bool`.
#[derive(Debug, Clone, Copy)]
pub struct And;
/// Bitwise or of integers, logical or of `bool`.
#[derive(Debug, Clone, Copy)]
pub struct Or;
/// Bitwise exclusive or of integers, parity of `bool`.
#[derive(Debug, Clone, Copy)]
pub struct Xor;

macro_rules! of_numbers {
    ($($name:ident: $identity:ident, $combine:ident $(, $hardware:ident)?;)*) => {$(
        impl<T: Number> Operation<T> for $name {
            const IDENTITY: T = T::$identity;
            #[inline(always)]
            fn combine(a: T, b: T) -> T {
                a.$combine(b)
            }
            $(#[inline(always)]
            unsafe fn combine_warp(value: T, members: u32) -> Option<T> {
                // SAFETY: all lanes in `members` call it together, as the caller guarantees.
                unsafe { value.$hardware(members) }
            })?
        }
    )*};
}

of_numbers! {
    Sum: ZERO, add, sum_of_warp;
    Product: ONE, multiply;
    Min: LARGEST, least, least_of_warp;
    Max: SMALLEST, greatest, greatest_of_warp;
}

macro_rules! bitwise {
    ($($name:ident $operator:tt $instruction:ident: $($ty:ty = $identity:expr),*; words: $($word:ty),*;)*) => {$(
        $(impl Operation<$ty> for $name {
            const IDENTITY: $ty = $identity;
            #[inline(always)]
            fn combine(a: $ty, b: $ty) -> $ty {
                a $operator b
            }
        })*
        $(impl Operation<$word> for $name {
            const IDENTITY: $word = <Self as Operation<u64>>::IDENTITY as $word;
            #[inline(always)]
            fn combine(a: $word, b: $word) -> $word {
                a $operator b
            }
            #[inline(always)]
            unsafe fn combine_warp(value: $word, members: u32) -> Option<$word> {
                // SAFETY: all lanes in `members` call it together, as the caller guarantees.
                Some(unsafe { gpu::$instruction(members, value as u32) } as $word)
            }
        })*
    )*};
}

bitwise! {
    And & redux_and: u64 = !0, i64 = !0, u16 = !0, i16 = !0, u8 = !0, i8 = !0, bool = true; words: u32, i32;
    Or | redux_or: u64 = 0, i64 = 0, u16 = 0, i16 = 0, u8 = 0, i8 = 0, bool = false; words: u32, i32;
    Xor ^ redux_xor: u64 = 0, i64 = 0, u16 = 0, i16 = 0, u8 = 0, i8 = 0, bool = false; words: u32, i32;
}

macro_rules! tuples {
    ($(($($Op:ident: $T:ident . $at:tt),*);)*) => {$(
        /// Tuples of values, each combined by its own operation.
        impl<$($T: Value, $Op: Operation<$T>),*> Operation<($($T,)*)> for ($($Op,)*) {
            const IDENTITY: ($($T,)*) = ($($Op::IDENTITY,)*);
            #[inline(always)]
            fn combine(a: ($($T,)*), b: ($($T,)*)) -> ($($T,)*) {
                ($($Op::combine(a.$at, b.$at),)*)
            }
        }
    )*};
}

tuples! {
    (O: A.0, P: B.1);
    (O: A.0, P: B.1, Q: C.2);
    (O: A.0, P: B.1, Q: C.2, R: D.3);
}

macro_rules! extremes {
    ($($(#[$attr:meta])* $name:ident($reg:ident $ty:ident) = $instruction:literal;)*) => {$(
        $(#[$attr])*
        #[inline(always)]
        pub fn $name(a: $ty, b: $ty) -> $ty {
            let value;
            // SAFETY: the instruction only computes on registers.
            unsafe {
                asm!(
                    concat!($instruction, " {0}, {1}, {2};"),
                    out($reg) value, in($reg) a, in($reg) b,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            value
        }
    )*};
}

extremes! {
    /// Returns the smaller number, NaN if either is NaN; -0 is below +0. One instruction from sm_80 on.
    min_nan_f32(reg32 f32) = "min.NaN.f32";
    /// Returns the larger number, NaN if either is NaN; +0 is above -0. One instruction from sm_80 on.
    max_nan_f32(reg32 f32) = "max.NaN.f32";
    /// Returns the smaller number, NaN only if both are NaN; -0 is smaller than +0.
    min_number_f32(reg32 f32) = "min.f32";
    /// Returns the larger number, NaN only if both are NaN; +0 is larger than -0.
    max_number_f32(reg32 f32) = "max.f32";
    /// Returns the smaller number, NaN only if both are NaN; -0 is smaller than +0.
    min_number_f64(reg64 f64) = "min.f64";
    /// Returns the larger number, NaN only if both are NaN; +0 is larger than -0.
    max_number_f64(reg64 f64) = "max.f64";
}

/// Returns the smaller number, NaN if either is NaN; -0 is below +0. PTX's own `min.f64` drops NaN.
#[inline(always)]
pub fn min_nan_f64(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { min_number_f64(a, b) }
}

/// Returns the larger number, NaN if either is NaN; +0 is larger than -0.
#[inline(always)]
pub fn max_nan_f64(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { max_number_f64(a, b) }
}
