//! Element types of the operations on the CPU.

use std::ops::{Mul, Sub};

use half::{bf16, f16};
use warpfold_abi::{
    binned::{Float, Sums},
    moments::{Moments, OfBfloats, OfDoubles, OfHalves, OfSingles},
};

use super::lanes::{LEAF, in_lanes};

pub(super) trait Item: bytemuck::Pod + Send + Sync + PartialOrd {
    /// An integer type with the order of the elements, in which −0 is below +0.
    type Key: Copy + Ord + Send;
    const LEAST: Self::Key;
    const GREATEST: Self::Key;
    /// The NaN that kernels write as a minimum or maximum; unused for integers.
    const NAN: Self;
    fn key(self) -> Self::Key;
    fn of_key(key: Self::Key) -> Self;
    fn is_nan(self) -> bool;
    fn is_nonzero(self) -> bool;
    fn double(self) -> f64;
}

pub(super) trait Integer: Item {
    /// Extends the element to 64 bits, preserving its sign.
    fn wide(self) -> u64;
    fn widest(self) -> u128;
    fn magnitude(self) -> u64;
}

pub(super) trait Real: Item {
    type Sum: Binned + bytemuck::Pod;
    type Moments: Moments<Term = Self::Sum, Digits: Send>;
    /// Converts to the type of the sum, exactly.
    fn term(self) -> Self::Sum;
    fn nearest(sum: f64) -> Self::Sum;
}

pub(super) trait Number: Copy {
    fn magnitude(self) -> Self;
    fn square(self) -> Self;
    /// Returns 4 divided by the number, and +∞ for a zero of either sign or if the quotient overflows.
    fn four_over(self) -> Self;
}

pub(super) trait Binned:
    Float<Digits: Send> + Number + Mul<Output = Self> + Sub<Output = Self> + Send
{
    /// Returns the largest magnitude of the terms of a nonempty slice, or NaN if any is NaN.
    fn largest<T: Copy>(values: &[T], term: impl Fn(T) -> Self) -> Self;
    /// Adds the [`Digits`](Float::Digits) of at most [`LEAF`] scaled terms, without overflow.
    fn digits_of<T: Copy>(values: &[T], scaled: impl Fn(T) -> Self) -> Self::Digits;
}

macro_rules! integers {
    ($($ty:ty: $wide:ty, $magnitude:expr;)*) => {$(
        impl Item for $ty {
            type Key = Self;
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;
            const NAN: Self = 0;
            #[inline(always)]
            fn key(self) -> Self {
                self
            }
            #[inline(always)]
            fn of_key(key: Self) -> Self {
                key
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn is_nonzero(self) -> bool {
                self != 0
            }
            #[inline(always)]
            fn double(self) -> f64 {
                self as f64
            }
        }

        impl Integer for $ty {
            #[inline(always)]
            fn wide(self) -> u64 {
                self as $wide as u64
            }
            #[inline(always)]
            fn widest(self) -> u128 {
                self as i128 as u128
            }
            #[inline(always)]
            fn magnitude(self) -> u64 {
                let magnitude: fn($wide) -> $wide = $magnitude;
                magnitude(self as $wide) as u64
            }
        }
    )*};
}

integers! {
    i8: i64, i64::wrapping_abs;
    u8: u64, std::convert::identity;
    i16: i64, i64::wrapping_abs;
    u16: u64, std::convert::identity;
    i32: i64, i64::wrapping_abs;
    u32: u64, std::convert::identity;
    i64: i64, i64::wrapping_abs;
    u64: u64, std::convert::identity;
}

macro_rules! floats {
    ($(
        $ty:ty as $bits:ident, $signed:ident: nan $nan:expr, |$value:ident| $term:expr, $sum:ty,
        of |$total:ident| $of:expr, moments $moments:ident;
    )*) => {$(
        impl Item for $ty {
            type Key = $signed;
            const LEAST: $signed = $signed::MIN;
            const GREATEST: $signed = $signed::MAX;
            const NAN: Self = <$ty>::from_bits($nan);
            /// Flips all bits of negative numbers except the sign, so that keys are in order.
            #[inline(always)]
            fn key(self) -> $signed {
                let bits = self.to_bits().cast_signed();
                bits ^ (bits >> ($bits::BITS - 1)) & $signed::MAX
            }
            #[inline(always)]
            fn of_key(key: $signed) -> Self {
                Self::from_bits((key ^ (key >> ($bits::BITS - 1)) & $signed::MAX).cast_unsigned())
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.to_bits() & $bits::MAX >> 1 > Self::INFINITY.to_bits()
            }
            #[inline(always)]
            fn is_nonzero(self) -> bool {
                self.to_bits() << 1 != 0
            }
            #[inline(always)]
            fn double(self) -> f64 {
                self.term().into()
            }
        }

        impl Real for $ty {
            type Sum = $sum;
            type Moments = $moments;
            #[inline(always)]
            fn term(self) -> $sum {
                let $value = self;
                $term
            }
            #[inline(always)]
            fn nearest($total: f64) -> $sum {
                $of
            }
        }
    )*};
}

floats! {
    f16 as u16, i16: nan 0x7fff, |value| widened(value), f32, of |sum| sum as f32, moments OfHalves;
    bf16 as u16, i16: nan 0x7fff, |value| f32::from_bits(u32::from(value.to_bits()) << 16), f32,
        of |sum| sum as f32, moments OfBfloats;
    f32 as u32, i32: nan 0x7fff_ffff, |value| value, f32, of |sum| sum as f32, moments OfSingles;
    f64 as u64, i64: nan f64::NAN.to_bits(), |value| value, f64, of |sum| sum, moments OfDoubles;
}

/// Converts exactly, by operations that vectorise.
#[inline(always)]
fn widened(value: f16) -> f32 {
    // Adds the difference of the exponent biases. Subnormal numbers become normal, exactly.
    const UP: f32 = f32::from_bits((127 + 127 - 15) << 23);
    let bits = u32::from(value.to_bits());
    let magnitude = (f32::from_bits((bits & 0x7fff) << 13) * UP).to_bits();
    // Infinity and NaN have the largest exponent in both formats.
    let special =
        if bits & 0x7fff >= f16::INFINITY.to_bits().into() { f32::INFINITY.to_bits() } else { 0 };
    f32::from_bits(magnitude | special | (bits & 0x8000) << 16)
}

macro_rules! sums {
    ($($ty:ty as $bits:ident, digits in $near:ident;)*) => {$(
        impl Number for $ty {
            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn square(self) -> Self {
                self * self
            }
            #[inline(always)]
            fn four_over(self) -> Self {
                let quotient = 4.0 / self;
                if quotient.is_infinite() { Self::INFINITY } else { quotient }
            }
        }

        impl Binned for $ty {
            #[inline(always)]
            fn largest<T: Copy>(values: &[T], term: impl Fn(T) -> Self) -> Self {
                // Compares the bits as integers: NaN is above all numbers.
                let bits = |value| term(value).abs().to_bits().cast_signed();
                let largest = in_lanes(values, 0, |most: $bits, value| most.max(bits(value)), Ord::max);
                Self::from_bits(largest.cast_unsigned())
            }

            #[inline(always)]
            fn digits_of<T: Copy>(values: &[T], scaled: impl Fn(T) -> Self) -> Self::Digits {
                const LANES: usize = 16;
                const PLACES: usize = <$ty as Float>::PLACES as usize;
                const { assert!(LEAF / LANES < <$ty as Sums>::CAPACITY as usize) };
                let mut sums = [[0 as $near; LANES]; PLACES];
                let mut deposit = |chunk: &[T]| {
                    for (lane, &value) in chunk.iter().enumerate() {
                        let digits = <$ty as Sums>::digits(scaled(value));
                        for place in 0..PLACES {
                            sums[place][lane] += digits[place];
                        }
                    }
                };
                let (chunks, rest) = values.as_chunks::<LANES>();
                chunks.iter().for_each(|chunk| deposit(chunk));
                deposit(rest);
                sums.map(|lanes| lanes.into_iter().map(i64::from).sum())
            }
        }
    )*};
}

sums! {
    f32 as i32, digits in i32;
    f64 as i64, digits in i64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widened_matches_the_half_crate_for_every_f16() {
        for bits in 0..=u16::MAX {
            let value = f16::from_bits(bits);
            let (found, expected) = (widened(value), value.to_f32());
            assert!(
                found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                "{bits:x}"
            );
            assert_eq!(Item::is_nan(value), value.to_f32().is_nan(), "{bits:x}");
            assert_eq!(value.is_nonzero(), value.to_f32() != 0.0, "{bits:x}");
        }
    }

    #[test]
    fn keys_are_in_the_order_of_the_numbers() {
        let ordered = [f32::NEG_INFINITY, -2.5, -1e-45, -0.0, 0.0, 1e-45, 1.0, f32::MAX, f32::INFINITY];
        assert!(ordered.is_sorted_by(|a, b| a.key() < b.key()));
        assert!(ordered.iter().all(|&value| f32::of_key(value.key()).to_bits() == value.to_bits()));
    }
}
