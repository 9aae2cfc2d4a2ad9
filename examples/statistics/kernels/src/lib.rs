//! Reductions that `warpfold` does not have: of elements and to results that are structs.
//!
//! Each is a type with a [`Reduction`], and a line of `reducer!`, which makes the kernels of it that
//! `warpfold::Reducer` launches.
#![no_std]
#![feature(abi_ptx, asm_experimental_arch, macro_metavar_expr_concat)]

mod checksum;

use warpfold_device::{
    op::{Max, Min, Operation},
    reducer,
    reduction::Reduction,
    value,
};

value! {
    /// A complex number, which is element, partial result and output of its sum.
    #[repr(C)]
    pub struct Complex {
        /// The real part of it.
        pub re: f32,
        /// The imaginary part of it.
        pub im: f32,
    }
}

/// The sum of complex numbers.
pub struct ComplexSum;

impl Reduction for ComplexSum {
    type Element = Complex;
    type Partial = Complex;
    type Output = Complex;
    const IDENTITY: Complex = Complex { re: 0.0, im: 0.0 };
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: Complex, _index: u64) -> Complex {
        element
    }

    #[inline(always)]
    fn combine(a: Complex, b: Complex) -> Complex {
        Complex { re: a.re + b.re, im: a.im + b.im }
    }

    #[inline(always)]
    fn finish(sum: Complex) -> Complex {
        sum
    }
}

value! {
    /// What is kept of some numbers: six words of the nine that a partial result may have.
    pub struct Moments {
        /// How many there are.
        pub count: u64,
        /// Their mean; of none 0.
        pub mean: f32,
        /// The sum of the squared distances from it.
        pub squares: f32,
        /// The smallest; of none +∞.
        pub min: f32,
        /// The largest; of none −∞.
        pub max: f32,
    }
}

/// How numbers are spread, in one pass.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Statistics {
    /// How many there are.
    pub count: u64,
    /// Their mean; of none 0.
    pub mean: f32,
    /// The mean of the squared distances from it; of none NaN.
    pub variance: f32,
    /// The smallest, or NaN if any is NaN; of none +∞.
    pub min: f32,
    /// The largest, or NaN if any is NaN; of none −∞.
    pub max: f32,
}

/// Count, mean, variance and extremes, by merging the moments of parts: no difference of large sums is
/// taken, so that a large mean costs the variance no digits.
pub struct RunningStatistics;

impl Reduction for RunningStatistics {
    type Element = f32;
    type Partial = Moments;
    type Output = Statistics;
    const IDENTITY: Moments =
        Moments { count: 0, mean: 0.0, squares: 0.0, min: f32::INFINITY, max: f32::NEG_INFINITY };
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: f32, _index: u64) -> Moments {
        Moments { count: 1, mean: element, squares: 0.0, min: element, max: element }
    }

    #[inline(always)]
    fn combine(a: Moments, b: Moments) -> Moments {
        let count = a.count + b.count;
        // Of none, too, there is a number to divide by.
        let share = b.count as f32 / Ord::max(count, 1) as f32;
        let distance = b.mean - a.mean;
        Moments {
            count,
            mean: a.mean + distance * share,
            squares: a.squares + b.squares + distance * distance * (a.count as f32 * share),
            min: Min::combine(a.min, b.min),
            max: Max::combine(a.max, b.max),
        }
    }

    #[inline(always)]
    fn finish(Moments { count, mean, squares, min, max }: Moments) -> Statistics {
        Statistics { count, mean, variance: squares / count as f32, min, max }
    }
}

/// A point in space: 12 bytes, of which no 16 hold a whole number.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Point {
    /// Along the first axis.
    pub x: f32,
    /// Along the second axis.
    pub y: f32,
    /// Along the third axis.
    pub z: f32,
}

value! {
    /// The smallest box that has some points in it; of no points +∞ to −∞.
    #[repr(C)]
    pub struct Bounds {
        /// The lowest corner of the box.
        pub low: (f32, f32, f32),
        /// The highest corner of the box.
        pub high: (f32, f32, f32),
    }
}

/// The smallest box around points.
pub struct BoundingBox;

/// The operation of each coordinate.
type Lowest = (Min, Min, Min);
/// The operation of each coordinate.
type Highest = (Max, Max, Max);

impl Reduction for BoundingBox {
    type Element = Point;
    type Partial = Bounds;
    type Output = [f32; 6];
    const IDENTITY: Bounds = Bounds {
        low: (f32::INFINITY, f32::INFINITY, f32::INFINITY),
        high: (f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY),
    };
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(Point { x, y, z }: Point, _index: u64) -> Bounds {
        Bounds { low: (x, y, z), high: (x, y, z) }
    }

    #[inline(always)]
    fn combine(a: Bounds, b: Bounds) -> Bounds {
        Bounds { low: Lowest::combine(a.low, b.low), high: Highest::combine(a.high, b.high) }
    }

    #[inline(always)]
    fn finish(Bounds { low, high }: Bounds) -> [f32; 6] {
        [low.0, low.1, low.2, high.0, high.1, high.2]
    }
}

value! {
    /// Digits of 128 bits, which are element, partial result and output of their parity.
    #[repr(C)]
    pub struct Digits {
        /// The lowest 32 of them.
        pub a: u32,
        /// The next 32 of them.
        pub b: u32,
        /// The next 32 behind those.
        pub c: u32,
        /// The highest 32 of them.
        pub d: u32,
    }
}

/// Of each digit, whether an odd number of elements have it.
pub struct Parity;

impl Reduction for Parity {
    type Element = Digits;
    type Partial = Digits;
    type Output = Digits;
    const IDENTITY: Digits = Digits { a: 0, b: 0, c: 0, d: 0 };
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: Digits, _index: u64) -> Digits {
        element
    }

    #[inline(always)]
    fn combine(one: Digits, other: Digits) -> Digits {
        Digits { a: one.a ^ other.a, b: one.b ^ other.b, c: one.c ^ other.c, d: one.d ^ other.d }
    }

    #[inline(always)]
    fn finish(parity: Digits) -> Digits {
        parity
    }
}

reducer! {
    parity = Parity;
    complex_sum = ComplexSum;
    running_statistics = RunningStatistics;
    bounding_box = BoundingBox;
}
