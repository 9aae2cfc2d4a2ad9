//! Exponentials, logarithms and the instructions that they are built on.

use core::{arch::asm, f32::consts};

macro_rules! instructions {
    ($($(#[$attr:meta])* $name:ident($($argument:ident),+) $reg:ident $ty:ty = $instruction:literal;)*) => {$(
        $(#[$attr])*
        #[inline(always)]
        pub fn $name($($argument: $ty),+) -> $ty {
            let result;
            // SAFETY: the instruction only computes on registers.
            unsafe {
                asm!(
                    concat!($instruction, instructions!(@operands $($argument)+)),
                    out($reg) result, $(in($reg) $argument),+,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            result
        }
    )*};
    (@operands $a:ident) => { " {0}, {1};" };
    (@operands $a:ident $b:ident $c:ident) => { " {0}, {1}, {2}, {3};" };
}

instructions! {
    /// Returns 2^`x`, within 2 units in the last place; results below 2^−126 are 0. `exp2(0)` is exactly
    /// 1.
    exp2(x) reg32 f32 = "ex2.approx.ftz.f32";
    /// Returns the binary logarithm, with an absolute error of at most 2^−22 between 0.5 and 2, and a
    /// relative error of at most 2^−22 elsewhere. Magnitudes below 2^−126 count as 0, whose logarithm is
    /// −∞; other negative numbers give NaN.
    log2(x) reg32 f32 = "lg2.approx.ftz.f32";
    /// Returns `a * b + c`, rounded once.
    fma(a, b, c) reg64 f64 = "fma.rn.f64";
    /// Returns the square root, rounded to nearest.
    sqrt(x) reg64 f64 = "sqrt.rn.f64";
}

/// Numbers with an exponential and a logarithm.
pub trait Exponential: Sized {
    /// Returns e^`self` for a number that is not positive; 0 for −∞, exactly 1 for 0.
    ///
    /// The relative error is at most 2^−22 + |x|·2^−23 in `f32` and 2^−51 in `f64`. Results below 2^−126
    /// in `f32`, and those of numbers below −708 in `f64`, are 0.
    fn exp(self) -> Self;
    /// Returns the natural logarithm of a number between 1 and `f32::MAX`. The error is at most 2^−22 in
    /// `f32` and 2^−51 in `f64`, relative to the larger of the logarithm and 1.
    fn ln(self) -> Self;
    /// Returns whether the number is neither infinite nor NaN.
    fn is_finite(self) -> bool;
}

impl Exponential for f32 {
    #[inline(always)]
    fn exp(self) -> Self {
        exp2(self * consts::LOG2_E)
    }

    #[inline(always)]
    fn ln(self) -> Self {
        log2(self) * consts::LN_2
    }

    #[inline(always)]
    fn is_finite(self) -> bool {
        self.is_finite()
    }
}

/// Adding this constant rounds a number to an integer in the sum's lowest bits; subtracting it again
/// returns that integer.
const ROUNDER: f64 = 1.5 * (1u64 << 52) as f64;

/// ln 2 without its low 32 bits, so that products with 11-bit integers are exact.
const LN_2_HIGH: f64 = f64::from_bits(core::f64::consts::LN_2.to_bits() & !0xffff_ffff);

/// ln 2 minus [`LN_2_HIGH`], to 53 bits. 0x1.abc9e3b39803fp-56 is ln 2 minus the nearest `f64`.
const LN_2_LOW: f64 = (core::f64::consts::LN_2 - LN_2_HIGH) + f64::from_bits(0x3c7a_bc9e_3b39_803f);

/// `exp` returns 0 for numbers below this; e^−708.4 is about the least normal `f64`.
const LEAST: f64 = -708.0;

impl Exponential for f64 {
    /// Computes 2^k e^r, where k is the integer nearest to x / ln 2, and r is x − k ln 2. e^r is the sum
    /// of the first 14 terms of its series: |r| is at most ln 2 / 2, so the 15th term is below 2^−57.
    #[inline(always)]
    fn exp(self) -> Self {
        let rounded = fma(self, core::f64::consts::LOG2_E, ROUNDER);
        let k = rounded - ROUNDER;
        let r = fma(k, -LN_2_LOW, fma(k, -LN_2_HIGH, self));
        let mut series = 1.0 / 6_227_020_800.0;
        // From 1/12! to 1/1! and 1/0!. Not a loop, because an array would be placed in local memory.
        series = fma(series, r, 1.0 / 479_001_600.0);
        series = fma(series, r, 1.0 / 39_916_800.0);
        series = fma(series, r, 1.0 / 3_628_800.0);
        series = fma(series, r, 1.0 / 362_880.0);
        series = fma(series, r, 1.0 / 40_320.0);
        series = fma(series, r, 1.0 / 5_040.0);
        series = fma(series, r, 1.0 / 720.0);
        series = fma(series, r, 1.0 / 120.0);
        series = fma(series, r, 1.0 / 24.0);
        series = fma(series, r, 1.0 / 6.0);
        series = fma(series, r, 0.5);
        series = fma(series, r, 1.0);
        series = fma(series, r, 1.0);
        // Adds k, the lowest bits of `rounded`, to the exponent.
        let scaled = f64::from_bits(series.to_bits().wrapping_add(rounded.to_bits() << 52));
        if self >= LEAST {
            scaled
        } else if self < LEAST {
            0.0
        } else {
            self
        }
    }

    /// Computes y + ln(x e^−y), where y is the logarithm in `f32`. x e^−y is near 1, so that a short
    /// series suffices.
    #[inline(always)]
    fn ln(self) -> Self {
        // `self` is in the range of `f32`: callers pass sums of up to 2^35 numbers, each at most 1.
        let near = f64::from((self as f32).ln());
        let rest = fma(self, (-near).exp(), -1.0);
        near + rest * fma(rest, fma(rest, 1.0 / 3.0, -0.5), 1.0)
    }

    #[inline(always)]
    fn is_finite(self) -> bool {
        self.is_finite()
    }
}
