//! Reductions that `warpfold` does not have, with structs as elements and results.
//!
//! Each is a type that implements [`Reduction`], and a line of `reducer!`, which generates the kernels
//! that `warpfold::Reducer` launches.
#![no_std]
#![feature(abi_ptx, asm_experimental_arch, macro_metavar_expr_concat)]

mod checksum;

use warpfold_device::{
    op::{Max, Min, Operation, Sum},
    reducer,
    reduction::{Compare, FirstBy, Function, Mapped, Reduction},
    value,
};

value! {
    /// A complex number: element, partial result and output of its sum.
    #[repr(C)]
    pub struct Complex {
        pub re: f32,
        pub im: f32,
    }
}

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
    /// A partial result of six 32-bit words; the maximum is nine.
    pub struct Moments {
        pub count: u64,
        /// Mean; 0 for an empty input.
        pub mean: f32,
        /// Sum of the squared distances from the mean.
        pub squares: f32,
        /// Minimum; +∞ for an empty input.
        pub min: f32,
        /// Maximum; −∞ for an empty input.
        pub max: f32,
    }
}

/// Statistics of numbers, computed in one pass.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Statistics {
    pub count: u64,
    /// Mean; 0 for an empty input.
    pub mean: f32,
    /// Mean of the squared distances from the mean; NaN for an empty input.
    pub variance: f32,
    /// Minimum, or NaN if any element is NaN; +∞ for an empty input.
    pub min: f32,
    /// Maximum, or NaN if any element is NaN; −∞ for an empty input.
    pub max: f32,
}

/// Count, mean, variance and extremes, by merging the moments of parts. No difference of large sums is
/// taken, so a large mean costs the variance no digits.
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
        // Avoids a division by zero if both are empty.
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

value! {
    /// A point in space: 12 bytes, so 16 bytes never consist of whole points.
    #[repr(C)]
    pub struct Point {
        pub x: f32,
        pub y: f32,
        pub z: f32,
    }
}

value! {
    /// The smallest box around some points; from +∞ to −∞ for no points.
    #[repr(C)]
    pub struct Bounds {
        pub low: (f32, f32, f32),
        pub high: (f32, f32, f32),
    }
}

/// The smallest box around points.
pub struct BoundingBox;

type Lowest = (Min, Min, Min);
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

/// The order of points by their distance from the origin, the farthest first.
pub struct Farther;

impl Compare for Farther {
    type Element = Point;

    #[inline(always)]
    fn precedes(a: Point, b: Point) -> bool {
        let square = |Point { x, y, z }: Point| x * x + y * y + z * z;
        square(a) > square(b)
    }
}

/// The cube of a number.
pub struct Cube;

impl Function for Cube {
    type Element = f32;
    type Value = f64;

    #[inline(always)]
    fn call(element: f32) -> f64 {
        let element = f64::from(element);
        element * element * element
    }
}

value! {
    /// 128 bits: element, partial result and output of their parity.
    #[repr(C)]
    pub struct Digits {
        /// The lowest 32 bits.
        pub a: u32,
        /// Bits 32 to 63.
        pub b: u32,
        /// Bits 64 to 95.
        pub c: u32,
        /// The highest 32 bits.
        pub d: u32,
    }
}

/// For each bit, the parity of the number of elements in which it is set.
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
    farthest = FirstBy<Farther>;
    sum_of_cubes = Mapped<Cube, Sum>;
}
