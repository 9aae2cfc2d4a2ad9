//! Representations of sums in which no intermediate value overflows or vanishes unless the result does.

use warpfold_device::{
    Value,
    math::{fma, sqrt},
    op::{Number, Operation},
    value,
};

/// Returns 2^`exponent`, which must be a normal number.
pub(super) const fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// A factor for numbers whose squares would underflow; [`DOWN`] is one for numbers whose squares would
/// overflow. The squares are thereby multiplied by 2^1200 or 2^-1200.
pub(super) const UP: f64 = power_of_two(600);
pub(super) const DOWN: f64 = power_of_two(-600);

pub(super) trait Additive: Value {
    const NONE: Self;
    fn plus(self, other: Self) -> Self;
}

macro_rules! additive {
    ($($ty:ident)*) => {$(
        impl Additive for $ty {
            const NONE: Self = <Self as Number>::ZERO;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                Number::add(self, other)
            }
        }
    )*};
}

additive!(f64 i64 u64 i128 u128);

value! {
    /// A sum of integers in 96 bits, which holds 2^35 products of 16-bit integers or 2^35 elements of 32
    /// bits. With 128 bits, rust-cuda's compiler would place accumulators in local memory.
    pub(super) struct Sum96 {
        low: u64,
        high: i32,
    }
}

impl Additive for Sum96 {
    const NONE: Self = Self { low: 0, high: 0 };

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        let low = self.low.wrapping_add(other.low);
        let carry = i32::from(low < self.low);
        Self { low, high: self.high.wrapping_add(other.high).wrapping_add(carry) }
    }
}

impl From<u64> for Sum96 {
    #[inline(always)]
    fn from(low: u64) -> Self {
        Self { low, high: 0 }
    }
}

impl From<i64> for Sum96 {
    #[inline(always)]
    fn from(sum: i64) -> Self {
        Self { low: sum.cast_unsigned(), high: (sum >> 63) as i32 }
    }
}

impl From<Sum96> for u128 {
    #[inline(always)]
    fn from(sum: Sum96) -> Self {
        i128::from(sum).cast_unsigned()
    }
}

impl From<Sum96> for i128 {
    #[inline(always)]
    fn from(sum: Sum96) -> Self {
        Self::from(sum.high) << 64 | Self::from(sum.low)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Add;

impl<S: Additive> Operation<S> for Add {
    const IDENTITY: S = S::NONE;

    #[inline(always)]
    fn combine(a: S, b: S) -> S {
        a.plus(b)
    }
}

/// A sum of floats from which their mean can be computed without overflow.
pub(super) trait WideSum: Additive {
    /// The largest magnitude that is added unscaled.
    const NEAR: f64;
    /// Represents `sum`, whose magnitude must be at most [`NEAR`](Self::NEAR).
    fn of_near(sum: f64) -> Self;
    fn accumulate(&mut self, number: f64);
    fn rounded(self) -> f64;
    /// Returns the nearest `f64` to the sum times
    /// 2^-[`HEADROOM`](warpfold_abi::binned::Float::HEADROOM).
    fn wide(self) -> f64;
    fn over(self, count: f64) -> f64;
}

/// A sum of floats of up to 32 bits, which are added in double precision.
impl WideSum for f64 {
    const NEAR: f64 = f64::INFINITY;

    #[inline(always)]
    fn of_near(sum: f64) -> Self {
        sum
    }

    #[inline(always)]
    fn accumulate(&mut self, number: f64) {
        *self += number;
    }

    #[inline(always)]
    fn rounded(self) -> f64 {
        self
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }

    #[inline(always)]
    fn over(self, count: f64) -> f64 {
        self / count
    }
}

value! {
    /// A sum of `f64` in which magnitudes above [`NEAR`](WideSum::NEAR) are added separately, times
    /// 2^-64.
    pub(super) struct InTwoScales {
        near: f64,
        far: f64,
    }
}

impl Additive for InTwoScales {
    const NONE: Self = Self { near: 0.0, far: 0.0 };

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self { near: self.near + other.near, far: self.far + other.far }
    }
}

impl InTwoScales {
    #[inline(always)]
    fn scaled(self, over: f64) -> f64 {
        let is_near = self.far == 0.0;
        let (sum, unit) =
            if is_near { (self.near, 1.0) } else { (WideSum::wide(self), power_of_two(64)) };
        sum / over * unit
    }
}

impl WideSum for InTwoScales {
    const NEAR: f64 = power_of_two(960);

    #[inline(always)]
    fn of_near(near: f64) -> Self {
        Self { near, far: 0.0 }
    }

    #[inline(always)]
    fn accumulate(&mut self, number: f64) {
        if number.magnitude() <= Self::NEAR {
            self.near += number;
        } else {
            self.far += number * power_of_two(-64);
        }
    }

    #[inline(always)]
    fn rounded(self) -> f64 {
        self.scaled(1.0)
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        self.far + self.near * power_of_two(-64)
    }

    #[inline(always)]
    fn over(self, count: f64) -> f64 {
        self.scaled(count)
    }
}

pub(super) trait SquareSum: Additive {
    /// The least and the greatest sum of a vector's squares that are added unscaled.
    const MEDIUM: [f64; 2];
    /// Represents `sum`, which must be in the range [`MEDIUM`](Self::MEDIUM).
    fn of_medium(sum: f64) -> Self;
    /// Adds the square of a number of any magnitude.
    fn accumulate(&mut self, number: f64);
    fn root(self) -> f64;
}

/// A sum for floats of up to 32 bits, whose squares are in the range of `f64`.
impl SquareSum for f64 {
    const MEDIUM: [f64; 2] = [0.0, f64::INFINITY];

    #[inline(always)]
    fn of_medium(sum: f64) -> Self {
        sum
    }

    #[inline(always)]
    fn accumulate(&mut self, number: f64) {
        *self = fma(number, number, *self);
    }

    #[inline(always)]
    fn root(self) -> f64 {
        sqrt(self)
    }
}

value! {
    pub(super) struct InThreeScales {
        /// Sum of the squares of the numbers below 2^-450, each number scaled by 2^600.
        small: f64,
        medium: f64,
        /// Sum of the squares of the numbers above 2^480, each number scaled by 2^-600.
        large: f64,
    }
}

impl Additive for InThreeScales {
    const NONE: Self = Self { small: 0.0, medium: 0.0, large: 0.0 };

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self {
            small: self.small + other.small,
            medium: self.medium + other.medium,
            large: self.large + other.large,
        }
    }
}

impl SquareSum for InThreeScales {
    // A square that underflows is less than 2^-170 of a sum in this range.
    const MEDIUM: [f64; 2] = [power_of_two(-900), power_of_two(960)];

    #[inline(always)]
    fn of_medium(medium: f64) -> Self {
        Self { medium, ..Self::NONE }
    }

    #[inline(always)]
    fn accumulate(&mut self, number: f64) {
        let magnitude = number.magnitude();
        if magnitude < power_of_two(-450) {
            self.small = fma(number * UP, number * UP, self.small);
        } else if magnitude <= power_of_two(480) {
            self.medium = fma(number, number, self.medium);
        } else {
            self.large = fma(number * DOWN, number * DOWN, self.large);
        }
    }

    #[inline(always)]
    fn root(self) -> f64 {
        let Self { small, medium, large } = self;
        if large != 0.0 {
            sqrt(large + medium * DOWN * DOWN) * UP
        } else if medium != 0.0 {
            sqrt(medium + small * DOWN * DOWN)
        } else {
            sqrt(small) * DOWN
        }
    }
}
