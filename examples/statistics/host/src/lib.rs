//! The host side of the operations of `statistics-kernels`, each with a simple reference.

use bytemuck::{Pod, Zeroable};
use warpfold::{
    Device, Result,
    custom::{Module, Reduction},
};

#[derive(Debug, Clone, Copy, PartialEq, Zeroable, Pod)]
#[repr(C)]
pub struct Complex {
    pub re: f32,
    pub im: f32,
}

pub struct ComplexSum;

impl Reduction for ComplexSum {
    const NAME: &'static str = "complex_sum";
    type Element = Complex;
    type Output = Complex;
}

#[derive(Debug, Clone, Copy, PartialEq, Zeroable, Pod)]
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

/// Count, mean, variance and extremes of numbers, in one pass.
pub struct RunningStatistics;

impl Reduction for RunningStatistics {
    const NAME: &'static str = "running_statistics";
    type Element = f32;
    type Output = Statistics;
}

#[derive(Debug, Clone, Copy, PartialEq, Zeroable, Pod)]
#[repr(C)]
pub struct Point {
    pub x: f32,
    pub y: f32,
    pub z: f32,
}

/// The smallest box around points: its lowest corner and its highest one.
pub struct BoundingBox;

impl Reduction for BoundingBox {
    const NAME: &'static str = "bounding_box";
    type Element = Point;
    type Output = [f32; 6];
}

/// The index of the point that is farthest from the origin, the first one if there are several.
pub struct Farthest;

impl Reduction for Farthest {
    const NAME: &'static str = "farthest";
    type Element = Point;
    type Output = u64;
}

pub struct SumOfCubes;

impl Reduction for SumOfCubes {
    const NAME: &'static str = "sum_of_cubes";
    type Element = f32;
    type Output = f64;
}

/// 128 bits, the lowest 32 first.
#[derive(Debug, Clone, Copy, PartialEq, Zeroable, Pod)]
#[repr(C)]
pub struct Digits([u32; 4]);

/// For each bit, the parity of the number of elements in which it is set.
pub struct Parity;

impl Reduction for Parity {
    const NAME: &'static str = "parity";
    type Element = Digits;
    type Output = Digits;
}

/// An operation with a reference implementation.
pub trait Known: Reduction<Element: PartialEq, Output: PartialEq> {
    /// Returns the result, computed in the simplest way.
    fn reference(elements: &[Self::Element]) -> Self::Output;

    /// Returns whether a result equals the reference, except for rounding.
    fn is_close(result: &Self::Output, reference: &Self::Output) -> bool {
        result == reference
    }

    /// Returns elements without a repeating pattern.
    fn sample(len: usize) -> Vec<Self::Element>;
}

/// Returns the PTX of `statistics-kernels` for a device.
pub fn ptx(device: &Device) -> &'static str {
    match device.info().capability {
        (9.., _) => include_str!(env!("KERNELS_SM_90")),
        _ => include_str!(env!("KERNELS_SM_80")),
    }
}

/// Loads the operations of `statistics-kernels`.
pub fn load(device: &Device) -> Result<Module> {
    // SAFETY: a compiler has written the PTX of our kernels, which accept elements of any bit pattern.
    unsafe { Module::load(device, ptx(device)) }
}

fn close(a: f32, b: f32, scale: f32) -> bool {
    (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= a.abs().max(b.abs()).max(scale) / 65_536.0
}

fn numbers(len: usize, seed: u64) -> impl Iterator<Item = f32> {
    (0..len as u64).map(move |i| {
        let mixed =
            (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed >> 40) as f32 / (1 << 23) as f32 - 1.0
    })
}

impl Known for ComplexSum {
    fn reference(elements: &[Complex]) -> Complex {
        let sum = |part: fn(&Complex) -> f32| elements.iter().map(|z| f64::from(part(z))).sum::<f64>();
        Complex { re: sum(|z| z.re) as f32, im: sum(|z| z.im) as f32 }
    }

    fn is_close(result: &Complex, reference: &Complex) -> bool {
        close(result.re, reference.re, 1.0) && close(result.im, reference.im, 1.0)
    }

    fn sample(len: usize) -> Vec<Complex> {
        numbers(len, 1).zip(numbers(len, 2)).map(|(re, im)| Complex { re: re + 1.0, im }).collect()
    }
}

impl Known for RunningStatistics {
    fn reference(elements: &[f32]) -> Statistics {
        let (n, wide) = (elements.len() as f64, || elements.iter().map(|&x| f64::from(x)));
        let mean = if elements.is_empty() { 0.0 } else { wide().sum::<f64>() / n };
        let squares: f64 = wide().map(|x| (x - mean) * (x - mean)).sum();
        Statistics {
            count: elements.len() as u64,
            mean: mean as f32,
            variance: (squares / n) as f32,
            min: elements.iter().copied().fold(f32::INFINITY, f32::min),
            max: elements.iter().copied().fold(f32::NEG_INFINITY, f32::max),
        }
    }

    fn is_close(result: &Statistics, reference: &Statistics) -> bool {
        let exact = |of: &Statistics| (of.count, of.min, of.max);
        // The error of a distance from the mean includes the mean's rounding.
        let Statistics { mean, variance, .. } = reference;
        let scale = mean.abs() * (variance.sqrt() + mean.abs() / 1e6) / 8.0;
        exact(result) == exact(reference)
            && close(result.mean, *mean, 0.0)
            && close(result.variance, *variance, scale)
    }

    /// Returns numbers far from 0: for these, a difference of large sums would be inaccurate.
    fn sample(len: usize) -> Vec<f32> {
        numbers(len, 3).map(|x| x + 100.0).collect()
    }
}

impl Known for BoundingBox {
    fn reference(elements: &[Point]) -> [f32; 6] {
        let mut bounds = [[f32::INFINITY; 3], [f32::NEG_INFINITY; 3]];
        for point in elements {
            for (axis, coordinate) in [point.x, point.y, point.z].into_iter().enumerate() {
                bounds[0][axis] = bounds[0][axis].min(coordinate);
                bounds[1][axis] = bounds[1][axis].max(coordinate);
            }
        }
        bytemuck::cast(bounds)
    }

    fn sample(len: usize) -> Vec<Point> {
        let (x, y, z) = (numbers(len, 4), numbers(len, 5), numbers(len, 6));
        x.zip(y).zip(z).map(|((x, y), z)| Point { x, y, z }).collect()
    }
}

impl Known for Farthest {
    fn reference(points: &[Point]) -> u64 {
        let square = |&Point { x, y, z }: &Point| x * x + y * y + z * z;
        let farther = |first: usize, at: usize| match square(&points[at]) > square(&points[first]) {
            true => at,
            false => first,
        };
        (0..points.len()).reduce(farther).map_or(u64::MAX, |first| first as u64)
    }

    fn sample(len: usize) -> Vec<Point> {
        let on_grid = |x: f32| (x * 4.0).round() / 4.0;
        let points = BoundingBox::sample(len).into_iter();
        // Many are equally far.
        points.map(|Point { x, y, z }| Point { x: on_grid(x), y: on_grid(y), z: on_grid(z) }).collect()
    }
}

impl Known for SumOfCubes {
    fn reference(numbers: &[f32]) -> f64 {
        numbers.iter().map(|&x| f64::from(x).powi(3)).sum()
    }

    fn is_close(result: &f64, reference: &f64) -> bool {
        (result - reference).abs() <= 1e-9
    }

    fn sample(len: usize) -> Vec<f32> {
        numbers(len, 9).collect()
    }
}

impl Known for Parity {
    fn reference(elements: &[Digits]) -> Digits {
        let digits = |at: usize| elements.iter().fold(0, |parity, Digits(words)| parity ^ words[at]);
        Digits([0, 1, 2, 3].map(digits))
    }

    fn sample(len: usize) -> Vec<Digits> {
        let words: Vec<u32> = numbers(4 * len, 8).map(f32::to_bits).collect();
        words.chunks_exact(4).map(|words| Digits([words[0], words[1], words[2], words[3]])).collect()
    }
}

macro_rules! records {
    ($($name:literal: $Record:ident of $len:literal $ty:ty => $Output:ty, $finish:expr;)*) => {$(
        #[doc = concat!("The records of `", $name, "`, and their checksum.")]
        #[derive(Debug, Clone, Copy, PartialEq, Zeroable, Pod)]
        #[repr(C)]
        pub struct $Record([$ty; $len]);

        impl Reduction for $Record {
            const NAME: &'static str = $name;
            type Element = Self;
            type Output = $Output;
        }

        impl Known for $Record {
            fn reference(records: &[Self]) -> $Output {
                let words = records.iter().flat_map(|record| record.0.map(u64::from));
                let terms = (0..).zip(words).map(|(place, word)| term(word, place));
                $finish(terms.fold(0, u64::wrapping_add))
            }

            fn sample(len: usize) -> Vec<Self> {
                let mut numbers = numbers(len * $len, 7).map(|x| u64::from(x.to_bits()));
                // The numbers are mixed once more, so that words of few bits differ too.
                let mut word = || term(numbers.next().unwrap_or(0), 0) as $ty;
                (0..len).map(|_| Self(std::array::from_fn(|_| word()))).collect()
            }
        }
    )*};
}

fn in_three(sum: u64) -> [u32; 3] {
    let (low, high) = (sum as u32, (sum >> 32) as u32);
    [low, high, low ^ high]
}

records! {
    "checksum_1": Record1 of 1 u8 => u64, u64::from;
    "checksum_2": Record2 of 1 u16 => u64, u64::from;
    "checksum_3": Record3 of 3 u8 => [u32; 3], in_three;
    "checksum_16": Record16 of 2 u64 => u64, u64::from;
    "checksum_64": Record64 of 8 u64 => u64, u64::from;
}

/// Returns a word's term of a checksum, which depends on the word's position.
fn term(word: u64, place: u64) -> u64 {
    let mixed = (word ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}
