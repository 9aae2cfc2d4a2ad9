//! Each primitive of the device crate, for each element type, against its expected result: coordinates,
//! shuffles, shared memory, 16-byte loads, atomics, counters, ordering.

use warpfold_suite::device::Geometry;
use warpfold_tests::{
    for_each_type,
    probing::{self, memory, poisoned, values},
};

fn launch<const N: usize>(entry: &str, geometry: Geometry, arguments: [u64; N]) {
    probing::launch("testing_probe", entry, geometry, arguments);
}

for_each_type!(shuffles shared_memory vector_loads atomics extremes);

/// Returns elements that differ in all bytes, so that a swapped half is detected.
fn elements<T: Scalar>(len: usize) -> Vec<T> {
    (0..len as u64).map(|i| T::random((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
}

fn entry<T: Scalar>(probe: &str) -> String {
    format!("testing_probe_{probe}_{}", T::DTYPE)
}

mod generic {
    use super::*;

    pub(super) fn shuffles<T: Scalar>() {
        let input = elements::<T>(64);
        let (from, to) = (memory(&input), poisoned::<T>(256));
        launch(&entry::<T>("shuffles"), Geometry::linear(1, 64, 0), [from.address(), to.address()]);
        let source: [fn(usize) -> usize; 4] = [
            |lane| if lane + 3 < 32 { lane + 3 } else { lane },
            |lane| if lane >= 5 { lane - 5 } else { lane },
            |lane| lane ^ 9,
            |_| 7,
        ];
        for (i, value) in values::<T>(&to).into_iter().enumerate() {
            let (kind, warp, lane) = (i / 64, i % 64 / 32, i % 32);
            assert_eq!(value, input[warp * 32 + source[kind](lane)], "{} {kind} {lane}", T::DTYPE);
        }
    }

    pub(super) fn shared_memory<T: Scalar>() {
        let input = elements::<T>(64);
        let (from, to) = (memory(&input), poisoned::<T>(128));
        let geometry = Geometry::linear(1, 64, 64 * size_of::<T>() as u32);
        launch(&entry::<T>("shared"), geometry, [from.address(), to.address()]);
        let backwards: Vec<T> = input.into_iter().rev().collect();
        assert_eq!(values::<T>(&to), backwards.repeat(2), "{}", T::DTYPE);
    }

    pub(super) fn vector_loads<T: Scalar>() {
        let input = elements::<T>(64 * 16 / size_of::<T>());
        let (from, to) = (memory(&input), poisoned::<T>(3 * input.len()));
        launch(&entry::<T>("load16s"), Geometry::linear(1, 64, 0), [from.address(), to.address()]);
        assert_eq!(values::<T>(&to), input.repeat(3), "{}", T::DTYPE);
    }

    pub(super) fn atomics<T: Scalar>() {
        const THREADS: u32 = 3 * 64;
        let small = |i: u32| T::from_small((i * 37 % 101) as i8 - if T::SIGNED { 50 } else { 0 });
        let input: Vec<T> = (0..THREADS).map(small).collect();
        let start = T::from_small(60);
        let cells = memory(&[start; 7]);
        let from = memory(&input);
        launch(&entry::<T>("atomics"), Geometry::linear(3, 64, 0), [from.address(), cells.address()]);
        let sum = |values: &[T]| values.iter().fold(60.0, |sum, v| sum + v.value().to_f64());
        let all = || input.iter().map(|v| v.value().to_f64()).chain([60.0]);
        let (least, greatest) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
        let expected = [sum(&input), sum(&input), sum(&input[..64]), least, least, greatest, greatest];
        let got: Vec<f64> = values::<T>(&cells).iter().map(|v| v.value().to_f64()).collect();
        assert_eq!(got, expected, "{}", T::DTYPE);
    }

    pub(super) fn extremes<T: Scalar>() {
        let input: [T; 8] = T::specials();
        let (from, to) = (memory(&input), poisoned::<T>(128));
        launch(&entry::<T>("extremes"), Geometry::linear(1, 64, 0), [from.address(), to.address()]);
        let got = values::<T>(&to);
        for i in 0..64 {
            let (a, b) = (input[i / 8], input[i % 8]);
            for (value, pick) in [(got[i], a.least(b)), (got[64 + i], a.greatest(b))] {
                let same = bytemuck::bytes_of(&value) == bytemuck::bytes_of(&pick)
                    || value.value().to_f64().is_nan() && pick.value().to_f64().is_nan();
                assert!(same, "{} of {a:?} and {b:?}: {value:?}, not {pick:?}", T::DTYPE);
            }
        }
    }
}

trait Scalar: warpfold_suite::Scalar {
    const SIGNED: bool;
    fn from_small(value: i8) -> Self;
    fn specials() -> [Self; 8];
    fn least(self, other: Self) -> Self;
    fn greatest(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Scalar for $ty {
            const SIGNED: bool = <$ty>::MIN != 0;
            fn from_small(value: i8) -> Self {
                value as $ty
            }
            fn specials() -> [Self; 8] {
                let half = <$ty>::MAX / 2;
                [0, 1, <$ty>::MIN, <$ty>::MAX, half, half + 1, <$ty>::MAX - 1, <$ty>::MIN + 1]
            }
            fn least(self, other: Self) -> Self {
                self.min(other)
            }
            fn greatest(self, other: Self) -> Self {
                self.max(other)
            }
        }
    )*};
}

/// Total order, in which -0 is less than +0; NaN is handled first.
macro_rules! floats {
    ($($ty:ty)*) => {$(
        impl Scalar for $ty {
            const SIGNED: bool = true;
            fn from_small(value: i8) -> Self {
                value.into()
            }
            fn specials() -> [Self; 8] {
                let subnormal = <$ty>::from_bits(1);
                [0.0, -0.0, 1.5, <$ty>::NAN, <$ty>::INFINITY, <$ty>::NEG_INFINITY, subnormal, -subnormal]
            }
            fn least(self, other: Self) -> Self {
                if self.is_nan() || other.is_nan() { <$ty>::NAN }
                else if self.total_cmp(&other).is_le() { self } else { other }
            }
            fn greatest(self, other: Self) -> Self {
                if self.is_nan() || other.is_nan() { <$ty>::NAN }
                else if self.total_cmp(&other).is_ge() { self } else { other }
            }
        }
    )*};
}

integers!(i32 u32 i64 u64);
floats!(f32 f64);

#[test]
fn coordinates() {
    let ([gx, gy], [bx, by]) = ([3_u32, 2_u32], [8_u32, 5_u32]);
    let output = poisoned::<u32>((gx * gy * bx * by * 8) as usize);
    let geometry = Geometry { grid: [gx, gy, 1], block: [bx, by, 1], ..Geometry::linear(1, 1, 0) };
    launch("testing_probe_coordinates", geometry, [output.address()]);
    let mut got = values::<[u32; 8]>(&output).into_iter();
    for (block_y, block_x) in (0..gy).flat_map(|y| (0..gx).map(move |x| (y, x))) {
        for (y, x) in (0..by).flat_map(|y| (0..bx).map(move |x| (y, x))) {
            assert_eq!(got.next(), Some([x, y, block_x, block_y, bx, by, gx, gy]));
        }
    }
}

#[test]
fn counter_wraps_around() {
    let (counter, seen) = (memory(&[0_u32]), poisoned::<u32>(4 * 64));
    launch("testing_probe_counter", Geometry::linear(4, 64, 0), [counter.address(), 63, seen.address()]);
    let mut seen = values::<u32>(&seen);
    seen.sort_unstable();
    let expected: Vec<u32> = (0..64).flat_map(|count| [count; 4]).collect();
    assert_eq!(seen, expected);
    assert_eq!(values::<u32>(&counter), [0]);
}

/// A waiting block observes another block's published value. On the simulator this also shows that a
/// kernel that spins on memory ends.
#[test]
fn fences_and_warp_barriers_order_memory() {
    const PAIRS: u32 = 20;
    let words = (PAIRS * 32) as usize;
    let (data, flags, output) =
        (poisoned::<u32>(words), memory(&vec![0_u32; words]), poisoned::<u32>(words));
    let geometry = Geometry::linear(2 * PAIRS, 32, 128);
    launch("testing_probe_ordering", geometry, [data.address(), flags.address(), output.address()]);
    for (i, value) in values::<u32>(&output).into_iter().enumerate() {
        assert_eq!(value as usize, i / 32 * 1000 + (i + 1) % 32);
    }
}
