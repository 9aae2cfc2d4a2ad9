//! Reproducible results: sums of floats against exact arithmetic by their definition, on any device and
//! in any order, and operations that are independent of the order anyway.

use std::fmt::Debug;

use warpfold::{
    Element, Integer, Located, Reducer, Within, bf16, cpu, f16,
    internal::{Blocks, Choice, KernelKind},
    op::{self, Operation, Reproducible},
};

use warpfold_abi::binned::{self, Partial, Running, Sums};

use crate::{
    common::{Sample, device, reducer, reducer_of, small},
    counted::count_of,
    exact::{DOUBLE, Exact, Format, SINGLE, everywhere},
};

pub(crate) trait Float: Sample {
    const FORMAT: Format;
    fn near(value: f64) -> Self;
    fn of_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn double(self) -> f64;
    /// Returns the square as a term, rounded to the type of the sum.
    fn square(self) -> f64;
    /// Returns the product with another element and the square of their difference, as terms.
    fn paired(self, other: Self) -> [f64; 2];
    fn sum(sum: Self::Sum) -> f64;
}

macro_rules! floats {
    ($($ty:ident as $bits:ident in $sum:ident, $format:ident: $near:expr;)*) => {$(
        impl Float for $ty {
            const FORMAT: Format = $format;

            fn near(value: f64) -> Self {
                $near(value)
            }

            fn of_bits(bits: u64) -> Self {
                Self::from_bits(bits as $bits)
            }

            fn bits(self) -> u64 {
                self.to_bits().into()
            }

            fn double(self) -> f64 {
                self.into()
            }

            fn square(self) -> f64 {
                let term = self.double() as $sum;
                (term * term).into()
            }

            fn paired(self, other: Self) -> [f64; 2] {
                let [first, second] = [self, other].map(|element| element.double() as $sum);
                let distance = first - second;
                [(first * second).into(), (distance * distance).into()]
            }

            fn sum(sum: $sum) -> f64 {
                sum.into()
            }
        }
    )*};
}

floats! {
    f16 as u16 in f32, SINGLE: f16::from_f64;
    bf16 as u16 in f32, SINGLE: bf16::from_f64;
    f32 as u32 in f32, SINGLE: |value| value as f32;
    f64 as u64 in f64, DOUBLE: f64::from;
}

macro_rules! for_every_float {
    ($function:ident($($argument:expr),*)) => {
        $function::<f16>($($argument),*);
        $function::<bf16>($($argument),*);
        $function::<f32>($($argument),*);
        $function::<f64>($($argument),*);
    };
}

pub(crate) use for_every_float;

pub(crate) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) ^ (*state << 20)
}

pub(crate) fn shuffled<T: Copy>(values: &[T], mut seed: u64) -> Vec<T> {
    let mut values = values.to_vec();
    for at in (1..values.len()).rev() {
        values.swap(at, random(&mut seed) as usize % (at + 1));
    }
    values
}

fn any<T: Float>(n: usize, mut seed: u64) -> Vec<T> {
    let mut one = || T::of_bits(random(&mut seed));
    (0..).map(|_| one()).filter(|value| value.double().is_finite()).take(n).collect()
}

pub(crate) fn even<T: Float>(n: usize, mut seed: u64) -> Vec<T> {
    let mut one = || random(&mut seed) as i32 as f64 * 2_f64.powi(-31);
    (0..n).map(|_| T::near(one())).collect()
}

pub(crate) fn sets<T: Float>() -> Vec<(&'static str, Vec<T>)> {
    let near = |values: &[f64]| values.iter().map(|&value| T::near(value)).collect::<Vec<T>>();
    let finite =
        |values: Vec<T>| values.into_iter().filter(|value| value.double().is_finite()).collect();
    let powers = |exponents: std::ops::Range<i32>| exponents.map(|exponent| 2_f64.powi(exponent));
    // All elements cancel, except for 3 * 2^-7.
    let mut cancelling = any::<T>(300, 4);
    cancelling
        .extend(cancelling.clone().iter().map(|value| T::of_bits(value.bits() ^ T::near(-0.0).bits())));
    cancelling.extend(near(&[2_f64.powi(-6), 2_f64.powi(-7)]));
    // Ties: half units next to an element that determines the unit, and numbers close to them.
    let ties = powers(-140..120).flat_map(|half| [half, 3.0 * half, -5.0 * half, 1.01 * half]);
    // Numbers on both sides of every power of two, and therefore of every bin's limit.
    let edges = powers(-1074..1023).flat_map(|edge| [edge, -edge * (1.0 - f64::EPSILON / 2.0)]);
    let subnormal = (0..400).map(|at| T::of_bits(at * 37 % 1000)).collect();
    let largest = T::of_bits(T::near(f64::INFINITY).bits() - 1);
    vec![
        ("none", vec![]),
        ("a zero below 0", near(&[-0.0])),
        ("zeros", near(&[0.0, -0.0, -0.0])),
        ("one", near(&[-0.3])),
        ("1e30", finite(near(&[1e30, 1.0, -1e30, 0.1]))),
        ("1e4", near(&[1e4, 1e-3, -1e4, 1e-4])),
        ("any", any(600, 1)),
        ("even", even(1500, 2)),
        ("cancelling", shuffled(&cancelling, 5)),
        ("ties", finite(near(&ties.collect::<Vec<_>>()))),
        ("ties below 2^20", finite(near(&powers(-60..20).map(|half| half * 3.0).collect::<Vec<_>>()))),
        // A one in the last place decides a tie across more than 64 bits.
        ("a tie but for one", finite(near(&[21, -3, -46].map(|power| 2_f64.powi(power))))),
        ("a tie of doubles but for one", finite(near(&[26, -27, -84].map(|power| 2_f64.powi(power))))),
        ("edges", finite(near(&edges.collect::<Vec<_>>()))),
        ("subnormal", subnormal),
        ("the largest", vec![largest; 3]),
        ("the largest of both signs", [largest, T::near(-largest.double())].repeat(30)),
        ("digits as large as can be", vec![T::near(2_f64.powi(22) - 0.75); 700]),
    ]
}

pub(crate) fn specials<T: Float>() -> Vec<(&'static str, Vec<T>)> {
    let (infinity, negative) = (T::near(f64::INFINITY), T::near(f64::NEG_INFINITY));
    let with = |others: &[T]| [&even::<T>(100, 6)[..], others, &even::<T>(100, 7)[..]].concat();
    vec![
        ("infinity", with(&[infinity])),
        ("infinity below 0", with(&[negative, negative])),
        ("both infinities", with(&[infinity, negative])),
        ("NaN", with(&[T::near(f64::NAN)])),
        ("NaN and infinity", with(&[infinity, T::near(f64::NAN)])),
    ]
}

fn expected<T: Float>(values: &[T]) -> [f64; 3] {
    let of = |term: fn(T) -> f64| {
        everywhere(&values.iter().map(|&value| term(value)).collect::<Vec<_>>(), T::FORMAT)
    };
    [of(T::double), of(T::square), of(|value| value.double().abs())]
}

/// Returns the bits of a result with a canonical NaN.
pub(crate) fn bits(sum: f64) -> u64 {
    if sum.is_nan() { f64::NAN } else { sum }.to_bits()
}

#[track_caller]
pub(crate) fn same<const N: usize>(found: [f64; N], expected: [f64; N], what: &str) {
    assert_eq!(found.map(bits), expected.map(bits), "{what}: {found:?}, not {expected:?}");
}

fn on_cpu<T: Float>(values: &[T]) -> [f64; 3] {
    [
        T::sum(cpu::reduce(op::Sum.reproducible(), values).unwrap()),
        T::sum(cpu::reduce(op::SumOfSquares.reproducible(), values).unwrap()),
        T::sum(cpu::reduce(op::SumOfMagnitudes.reproducible(), values).unwrap()),
    ]
}

fn on_device<T: Float>(reducer: &Reducer, values: &[T], start: usize) -> [f64; 3] {
    let all = [&vec![T::near(1e3); start][..], values].concat();
    let buffer = device().upload(&all).unwrap().slice(start..).unwrap();
    [
        T::sum(reducer.reduce(op::Sum.reproducible(), &buffer).unwrap()),
        T::sum(reducer.reduce(op::SumOfSquares.reproducible(), &buffer).unwrap()),
        T::sum(reducer.reduce(op::SumOfMagnitudes.reproducible(), &buffer).unwrap()),
    ]
}

fn defined<T: Float>() {
    for (name, values) in sets::<T>().into_iter().chain(specials()) {
        let what = format!("{name} of {}", std::any::type_name::<T>());
        let expected = expected(&values);
        same(on_cpu(&values), expected, &format!("{what} on the CPU"));
        same(on_cpu(&shuffled(&values, 11)), expected, &format!("{what}, shuffled, on the CPU"));
        same(on_device(reducer(), &values, 0), expected, &what);
        same(on_device(reducer(), &shuffled(&values, 12), 1), expected, &format!("{what}, shuffled"));
    }
}

#[test]
fn sums_match_their_definition() {
    for_every_float!(defined());
}

/// Sums elements in parts of random lengths, one or four at a time, and combines the parts in random
/// order.
pub(crate) fn in_parts<T: Copy, S: Sums>(
    values: &[T],
    term: fn(T) -> S::Term,
    seed: &mut u64,
) -> Partial<S> {
    let values = shuffled(values, random(seed));
    let mut parts = vec![Partial::ZERO];
    let mut rest = &values[..];
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(random(seed) as usize % rest.len() + 1);
        let mut sum = Running::<S>::new();
        let (fours, ones) = part.as_chunks::<4>();
        fours.iter().for_each(|four| sum.add(four.map(term)));
        // Adds the last elements to the closed partial sum, instead of to a running one.
        let (ones, last) = ones.split_at(ones.len() / 2);
        ones.iter().for_each(|&one| sum.add([term(one)]));
        let mut sum = sum.close();
        last.iter().for_each(|&one| sum.add(term(one)));
        parts.push(sum);
        rest = behind;
    }
    while parts.len() > 1 {
        let one = parts.swap_remove(random(seed) as usize % parts.len());
        let at = random(seed) as usize % parts.len();
        parts[at] = parts[at].plus(one);
    }
    parts[0]
}

fn sums_in_parts<T: Float<Sum: binned::Float>>(term: fn(T) -> T::Sum) {
    let mut seed = 13;
    for (name, values) in sets::<T>().into_iter().chain(specials()) {
        let [expected, ..] = expected(&values);
        for _ in 0..20 {
            let found = T::sum(in_parts::<T, T::Sum>(&values, term, &mut seed).sum());
            same([found; 3], [expected; 3], &format!("{name} in parts"));
        }
    }
}

#[test]
fn partials_combine_in_any_order() {
    sums_in_parts::<bf16>(f32::from);
    sums_in_parts::<f32>(f32::from);
    sums_in_parts::<f64>(f64::from);
}

/// Checks the bounds of `op::Reproducible`; for halves only the result is rounded.
fn bounded<T: Float>(places: i32, roundoff: f64) {
    for (name, values) in sets::<T>() {
        let numbers = || values.iter().map(|value| value.double());
        let largest = numbers().map(f64::abs).fold(0.0, f64::max);
        let [found, ..] = on_cpu(&values);
        if found.is_infinite() {
            assert_eq!(Exact::sum(numbers()).nearest(T::FORMAT), found, "{name}");
            continue;
        }
        let off = Exact::sum(numbers().map(|value| -value).chain([found])).nearest(DOUBLE).abs();
        let bound = values.len() as f64 * largest * 2_f64.powi(-places) + found.abs() * roundoff;
        assert!(off <= bound, "{name}: {off} above {bound}");
        assert!(places < 1000 || off <= found.abs() * roundoff, "{name}: {off}");
    }
}

#[test]
fn reproducible_sums_meet_the_documented_bounds() {
    bounded::<f16>(2000, 2_f64.powi(-24));
    bounded::<bf16>(46, 2_f64.powi(-24));
    bounded::<f32>(46, 2_f64.powi(-24));
    bounded::<f64>(84, 2_f64.powi(-53));
}

pub(crate) fn launches() -> [Choice; 5] {
    let choice = |kernel, block, blocks| Choice { kernel, block, blocks: Blocks::Total(blocks) };
    [
        choice(KernelKind::Grid, 128, 1),
        choice(KernelKind::Grid, 1024, 1),
        choice(KernelKind::Grid, 256, 7),
        choice(KernelKind::Bulk, 256, 1),
        choice(KernelKind::Bulk, 512, 3),
    ]
}

/// Returns elements whose ordinary sums depend on the order.
pub(crate) fn unruly<T: Float>(n: usize) -> Vec<T> {
    let one = |(at, value): (usize, f64)| T::near(0.1 * value * 2_f64.powi(at as i32 * 7 % 21 - 10));
    even::<f64>(n, 8).into_iter().enumerate().map(one).collect()
}

/// Checks that reproducible results equal `expected` in any launch, given by its reducer and number, and
/// that ordinary sums of the same elements differ between launches.
pub(crate) fn in_any_launch<T: Float, const N: usize>(
    expected: [f64; N],
    everywhere: impl Fn(&Reducer, usize) -> [f64; N],
    ordinary: impl Fn(&Reducer) -> f64,
) {
    let mut all = Vec::new();
    for (at, choice) in launches().into_iter().enumerate() {
        let reducer = reducer_of(choice);
        let what = format!("{choice:?} of {}", std::any::type_name::<T>());
        same(everywhere(&reducer, at), expected, &what);
        all.push(ordinary(&reducer).to_bits());
    }
    all.sort_unstable();
    all.dedup();
    assert!(all.len() > 1, "ordinary results of {} are all the same", std::any::type_name::<T>());
}

fn launched<T: Float>() {
    let values = unruly::<T>(40_000 / size_of::<T>() + 3);
    let expected = expected(&values);
    same(on_cpu(&values), expected, "the CPU");
    let ordinary = |reducer: &Reducer| T::sum(reducer.sum(&device().upload(&values).unwrap()).unwrap());
    in_any_launch::<T, 3>(expected, |reducer, at| on_device(reducer, &values, at), ordinary);
}

#[test]
fn sums_are_the_same_in_any_launch() {
    for_every_float!(launched());
}

/// Each thread adds more terms with the largest digits than 32-bit sums can hold.
#[test]
fn bins_do_not_overflow_with_many_large_terms() {
    let values = vec![f32::from_bits(4_194_304_f32.to_bits() - 1); 128 * 560];
    let reducer = reducer_of(launches()[0]);
    same(on_device(&reducer, &values, 0), expected(&values), "many large digits");
}

#[test]
fn sums_of_rows_are_those_of_their_elements() {
    let of_shape = |rows: usize, len: usize, start: usize| {
        let all = unruly::<f32>(rows * len + start);
        let values = &all[start..];
        let buffer = device().upload(&all).unwrap().slice(start..).unwrap();
        let rows = buffer.rows(len).unwrap();
        let found = reducer().reduce(op::Sum.reproducible(), &rows).unwrap();
        let here = cpu::reduce_rows(op::Sum.reproducible(), values, len).unwrap();
        let bits = |sums: &[f32]| sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found), bits(&here), "rows of {len} from {start}");
        for (row, sum) in values.chunks(len).zip(found) {
            assert_eq!(f64::from(sum), expected(row)[0], "a row of {len} from {start}");
        }
    };
    for (rows, len) in [(129, 5), (65, 16), (31, 160), (7, 500), (3, 2048), (2, 9001)] {
        of_shape(rows, len, 0);
        of_shape(rows, len, 1);
    }
}

#[test]
fn reproducible_sums_are_equal_for_every_destination() {
    let values = unruly::<f64>(3000);
    let [expected, ..] = expected(&values);
    let (buffer, stream) = (device().upload(&values).unwrap(), device().stream().unwrap());
    let on = || reducer().on(&stream);
    let op = op::Sum.reproducible();
    assert_eq!(on().reduce(op, &buffer).unwrap().wait().unwrap(), expected);
    let mut output = device().output::<f64>().unwrap();
    on().reduce_into(op, &buffer, &mut output).unwrap();
    assert_eq!(output.read().unwrap(), expected);
    let mut recorder = reducer().record();
    let recorded = recorder.reduce(op, &buffer).unwrap();
    assert_eq!(recorder.finish().unwrap().run().unwrap().get(&recorded), expected);
    let more = device().upload(&[&values[..], &[1e9; 50]].concat()).unwrap();
    let count = count_of(values.len() as u64);
    assert_eq!(on().reduce(op, more.counted(&count)).unwrap().wait().unwrap(), expected);
}

fn expected_within<T: Float>(values: &[T], (low, high): (T, T)) -> (u64, f64) {
    let inside = |value: &f64| (low.double()..=high.double()).contains(value);
    let inside: Vec<f64> = values.iter().map(|value| value.double()).filter(inside).collect();
    (inside.len() as u64, everywhere(&inside, T::FORMAT))
}

#[track_caller]
fn check_within<T: Float>(reducer: &Reducer, values: &[T], ends: (T, T), start: usize, what: &str) {
    let (count, sum) = expected_within(values, ends);
    let what = format!("{ends:?} of {what} of {}", std::any::type_name::<T>());
    let check = |found: Within<T::Sum>, where_| {
        same([T::sum(found.sum)], [sum], &format!("{what} {where_}"));
        assert_eq!(found.count, count, "{what} {where_}");
    };
    let range = ends.0..=ends.1;
    check(cpu::reduce_within(Reproducible(range.clone()), values).unwrap(), "on the CPU");
    let all = [&vec![T::near(1.5); start][..], values].concat();
    let buffer = device().upload(&all).unwrap().slice(start..).unwrap();
    check(reducer.reduce(op::Sum.reproducible(), buffer.filter(range)).unwrap(), "on the device");
}

fn within_defined<T: Float>() {
    let near = |low, high| (T::near(low), T::near(high));
    let ends = [
        near(f64::NEG_INFINITY, f64::INFINITY),
        near(-1.5, 0.25),
        near(0.0, f64::INFINITY),
        near(2_f64.powi(-8), 2_f64.powi(20)),
    ];
    for (at, (name, values)) in sets::<T>().into_iter().chain(specials()).enumerate() {
        for ends in ends {
            check_within(reducer(), &values, ends, at % 3, name);
        }
    }
}

#[test]
fn sums_of_intervals_match_their_definition() {
    for_every_float!(within_defined());
}

fn within_launched<T: Float>() {
    let values = unruly::<T>(40_000 / size_of::<T>() + 3);
    let ends = (T::near(-60.0), T::near(80.0));
    let (_, expected) = expected_within(&values, ends);
    let range = ends.0..=ends.1;
    let buffer = |start: usize| {
        let all = [&vec![T::near(1.5); start][..], &values].concat();
        device().upload(&all).unwrap().slice(start..).unwrap()
    };
    let everywhere = |reducer: &Reducer, start| {
        [T::sum(
            reducer.reduce(op::Sum.reproducible(), buffer(start).filter(range.clone())).unwrap().sum,
        )]
    };
    // Interval sums are computed in `f64`, in which sums of halves are independent of the order.
    let ordinary = |reducer: &Reducer| T::sum(reducer.sum(&buffer(0)).unwrap());
    in_any_launch::<T, 1>([expected], everywhere, ordinary);
}

#[test]
fn sums_of_intervals_are_the_same_in_any_launch() {
    for_every_float!(within_launched());
}

/// Each thread adds more terms than 32-bit sums can hold, next to elements outside the interval.
#[test]
fn no_thread_runs_out_of_room_for_an_interval() {
    let large = f32::from_bits(4_194_304_f32.to_bits() - 1);
    let values = [large, large, large, 1e30].repeat(32 * 760);
    check_within(&reducer_of(launches()[0]), &values, (0.0, large), 0, "many large digits");
}

#[test]
fn sums_of_intervals_are_equal_for_every_destination() {
    let values = unruly::<f64>(3000);
    let (count, sum) = expected_within(&values, (-0.5, 3.0));
    let expected = Within::new(count, sum);
    let range = -0.5..=3.0;
    let (buffer, stream) = (device().upload(&values).unwrap(), device().stream().unwrap());
    let on = || reducer().on(&stream);
    assert_eq!(
        on().reduce(op::Sum.reproducible(), buffer.filter(range.clone())).unwrap().wait().unwrap(),
        expected
    );
    let mut output = device().output().unwrap();
    on().reduce_into(op::Sum.reproducible(), buffer.filter(range.clone()), &mut output).unwrap();
    assert_eq!(output.read().unwrap(), expected);
    let mut recorder = reducer().record();
    let recorded = recorder.reduce(op::Sum.reproducible(), buffer.filter(range)).unwrap();
    assert_eq!(recorder.finish().unwrap().run().unwrap().get(&recorded), expected);
    // For an interval of integers, `reproducible` changes nothing.
    let integers = device().upload(&[3_u8, 200, 7]).unwrap();
    let within = reducer().reduce(op::Sum.reproducible(), integers.filter(4..)).unwrap();
    assert_eq!(within, Within::new(2, 207));
}

/// Checks that the CPU and the device agree, with and without `Reproducible`.
#[track_caller]
fn check_same_bits<T: Element, O>(op: O, values: &[T], bits: impl Fn(O::Output) -> String)
where
    O: Operation<T>,
    Reproducible<O>: Operation<T, Output = O::Output>,
{
    let buffer = device().upload(values).unwrap();
    let on_device = bits(reducer().reduce(Reproducible(op), &buffer).unwrap());
    let what = std::any::type_name::<(O, T)>();
    assert_eq!(bits(cpu::reduce(Reproducible(op), values).unwrap()), on_device, "{what}");
    assert_eq!(bits(cpu::reduce(op, values).unwrap()), on_device, "{what}, without it");
    assert_eq!(bits(reducer().reduce(op, &buffer).unwrap()), on_device, "{what}, without it");
}

fn text(value: impl Debug) -> String {
    format!("{value:?}")
}

fn ordered<T: Sample>(values: &[T], bits: impl Fn(T) -> u64 + Copy) {
    let located = |one: Option<Located<T>>| text(one.map(|one| (one.index, bits(one.value))));
    check_same_bits(op::Min, values, |one| text(one.map(bits)));
    check_same_bits(op::Max, values, |one| text(one.map(bits)));
    check_same_bits(op::MinMax, values, |ends| text(ends.map(|ends| (bits(ends.min), bits(ends.max)))));
    check_same_bits(op::ArgMin, values, located);
    check_same_bits(op::ArgMax, values, located);
    check_same_bits(op::CountNonZero, values, text);
}

fn integers<T: Sample + Integer + Into<i128>>() {
    for n in [1, 40, 5000] {
        let mut values = small::<T>(n, 21);
        values[n / 2] = T::of(0);
        ordered(&values, |value| value.into() as u64);
        values[n / 2] = T::of(3);
        check_same_bits(op::Sum, &values, text);
        check_same_bits(op::WrappingSum, &values, text);
        check_same_bits(op::SumOfSquares, &values, text);
        check_same_bits(op::SumOfMagnitudes, &values, text);
        check_same_bits(op::Product, &values, text);
        check_same_bits(op::BitAnd, &values, text);
        check_same_bits(op::BitOr, &values, text);
        check_same_bits(op::BitXor, &values, text);
        check_same_bits(op::MeanAndVariance, &values, text);
    }
}

fn orders<T: Float>() {
    let nan = |sign: u64| T::of_bits((T::near(f64::INFINITY).bits() + 1) | sign);
    let sign = T::near(-0.0).bits();
    let zeros = |values: [f64; 5]| values.map(T::near).repeat(60);
    let mut sets = vec![even(5000, 22), any(700, 23), zeros([0.0, -0.0, 1.0, 0.0, 2.0])];
    sets.push(zeros([-0.0, 0.0, 0.0, -3.0, -3.0]));
    for at in [0, 77, 4999] {
        let mut values = even::<T>(5000, 24);
        values[at] = nan(if at > 0 { sign } else { 0 });
        values[4998] = T::near(f64::NEG_INFINITY);
        sets.push(values);
    }
    for values in sets {
        ordered(&values, T::bits);
    }
}

#[test]
fn order_independent_operations_match_on_the_cpu() {
    for_every_integer!(integers());
    for_every_float!(orders());
}

/// Checks sums of floats that are exact in any order, and products and moments within their bounds.
fn ordinary<T: Float>() {
    for n in [1, 33, 5000, 70_001] {
        let values = small::<T>(n, 31);
        let sums = [
            T::sum(cpu::reduce(op::Sum, &values).unwrap()),
            T::sum(cpu::reduce(op::SumOfSquares, &values).unwrap()),
            T::sum(cpu::reduce(op::SumOfMagnitudes, &values).unwrap()),
        ];
        same(sums, expected(&values), &format!("{n} of {}", std::any::type_name::<T>()));
        let numbers = || values.iter().map(|value| value.double());
        let spread = cpu::reduce(op::MeanAndVariance, &values).unwrap().unwrap();
        let mean = numbers().sum::<f64>() / n as f64;
        let variance = numbers().map(|value| (value - mean).powi(2)).sum::<f64>() / n as f64;
        assert!((spread.mean - mean).abs() < 1e-14, "{n}: {spread:?}, not {mean}");
        assert!((spread.variance - variance).abs() < 1e-12, "{n}: {spread:?}, not {variance}");
        let twos: Vec<T> = (0..n).map(|at| T::near([2.0, -0.5, 1.0][at % 3])).collect();
        let product = T::sum(cpu::reduce(op::Product, &twos).unwrap());
        let sign = if (n + 1) / 3 % 2 == 1 { -1.0 } else { 1.0 };
        assert_eq!(product, sign * [1.0, 2.0, 1.0][n % 3], "{n}");
    }
    // A sum in f32 would be off by far more.
    let values = vec![T::near(0.1); 70_000];
    let sum = T::sum(cpu::reduce(op::Sum, &values).unwrap());
    let exact = Exact::sum(values.iter().map(|value| value.double())).nearest(T::FORMAT);
    assert!((sum - exact).abs() <= exact * 160.0 * 2_f64.powi(-53), "{sum}, not {exact}");
}

#[test]
fn ordinary_sums_and_moments_are_near_on_the_cpu() {
    for_every_float!(ordinary());
}

#[test]
fn cpu_rejects_invalid_row_lengths() {
    for (len, said) in [(0, "give 1 or more"), (3, "a slice of 9 elements")] {
        let error = cpu::reduce_rows(op::Sum, &[1_i32; 10], len).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    assert_eq!(cpu::reduce_rows(op::Sum, &[0_i32; 0], 5).unwrap(), []);
    assert_eq!(cpu::reduce(op::Max, &[0_i32; 0]).unwrap(), None);
    assert_eq!(cpu::reduce(op::Sum.reproducible(), &[0_f32; 0]).unwrap().to_bits(), 0);
}
