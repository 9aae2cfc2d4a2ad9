//! Reproducible sums of the pairs of two buffers and of elements other than NaN, against their
//! definition in exact arithmetic.

use warpfold::{
    Reducer, bf16, cpu, f16,
    internal::{Blocks, Choice, KernelKind},
    op::{
        self, Dot, Operation, PairOperation, Reproducible, RowsOperation, SkipNan, SquaredDistance, Sum,
        SumOfMagnitudes, SumOfSquares,
    },
};

use crate::{
    common::{device, no_findings, reducer, reducer_of},
    everywhere::{
        Float, bits, for_every_float, in_any_launch, random, same, sets, shuffled, specials, unruly,
    },
    exact::everywhere,
};

fn of_pairs<T: Float>(a: &[T], b: &[T]) -> [f64; 2] {
    let terms = || a.iter().zip(b).map(|(&a, &b)| a.paired(b));
    [0, 1].map(|which| everywhere(&terms().map(|both| both[which]).collect::<Vec<_>>(), T::FORMAT))
}

fn pairs_on_cpu<T: Float>(a: &[T], b: &[T]) -> [f64; 2] {
    [
        T::sum(cpu::reduce_pair(Reproducible(Dot), a, b).unwrap()),
        T::sum(cpu::reduce_pair(Reproducible(SquaredDistance), a, b).unwrap()),
    ]
}

fn pairs_on_device<T: Float>(reducer: &Reducer, a: &[T], b: &[T], starts: [usize; 2]) -> [f64; 2] {
    let behind = |values: &[T], start: usize| {
        let all = [&vec![T::near(1e3); start][..], values].concat();
        device().upload(&all).unwrap().slice(start..).unwrap()
    };
    let (a, b) = (behind(a, starts[0]), behind(b, starts[1]));
    [
        T::sum(reducer.reduce(Reproducible(Dot), (&a, &b)).unwrap()),
        T::sum(reducer.reduce(Reproducible(SquaredDistance), (&a, &b)).unwrap()),
    ]
}

/// Returns pairs of hard sets: each set with its elements in another order, and with factors that make
/// some products and distances large, some small and some cancel.
fn paired<T: Float>() -> Vec<(&'static str, [Vec<T>; 2])> {
    let mut seed = 41;
    let mut all = Vec::new();
    for (name, values) in sets::<T>().into_iter().chain(specials()) {
        let factors =
            |_| T::near([1.0, -1.0, 0.3, 2_f64.powi(-9), 96.0][random(&mut seed) as usize % 5]);
        let others = (0..values.len()).map(factors).collect();
        all.push((name, [values.clone(), others]));
        all.push((name, [values.clone(), shuffled(&values, 42)]));
    }
    all
}

fn pairs_as_defined<T: Float>() {
    for (name, [a, b]) in paired::<T>() {
        let what = format!("{name} of {}", std::any::type_name::<T>());
        let expected = of_pairs(&a, &b);
        same(pairs_on_cpu(&a, &b), expected, &format!("{what} on the CPU"));
        same(pairs_on_device(reducer(), &a, &b, [0, 0]), expected, &what);
        // Both are shuffled alike, so that the pairs stay the same.
        let (a, b) = (shuffled(&a, 43), shuffled(&b, 43));
        same(pairs_on_cpu(&a, &b), expected, &format!("{what}, shuffled, on the CPU"));
        for starts in [[1, 1], [0, 1]] {
            let what = format!("{what}, shuffled, from {starts:?}");
            same(pairs_on_device(reducer(), &a, &b, starts), expected, &what);
        }
    }
}

#[test]
fn sums_of_pairs_match_their_definition() {
    let _checked = no_findings();
    for_every_float!(pairs_as_defined());
}

fn pairs_launched<T: Float>() {
    let n = 20_000 / size_of::<T>() + 3;
    let (a, b) = (unruly::<T>(n), shuffled(&unruly::<T>(n), 44));
    let expected = of_pairs(&a, &b);
    same(pairs_on_cpu(&a, &b), expected, "the CPU");
    let upload = |values| device().upload(values).unwrap();
    let ordinary = |reducer: &Reducer| T::sum(reducer.dot(&upload(&a), &upload(&b)).unwrap());
    let everywhere = |reducer: &Reducer, at| pairs_on_device(reducer, &a, &b, [at, at / 2]);
    in_any_launch::<T, 2>(expected, everywhere, ordinary);
}

#[test]
fn sums_of_pairs_are_the_same_in_any_launch() {
    for_every_float!(pairs_launched());
}

/// Each thread adds more terms with the largest digits than 32-bit sums can hold.
#[test]
fn no_thread_runs_out_of_room_for_pairs() {
    let values = vec![f32::from_bits(4_194_304_f32.to_bits() - 1); 128 * 560];
    let ones = vec![1.0; values.len()];
    let one_block = Choice { kernel: KernelKind::Grid, block: 128, blocks: Blocks::Total(1) };
    let found = pairs_on_device(&reducer_of(one_block), &values, &ones, [0, 0]);
    same(found, of_pairs(&values, &ones), "many large digits");
}

#[test]
fn sums_of_pairs_are_equal_for_every_destination() {
    fn goes<O: PairOperation>(op: O, a: &[f32], b: &[f32], expected: f64) {
        let upload = |values| device().upload(values).unwrap();
        let (a, b, stream) = (upload(a), upload(b), device().stream().unwrap());
        let pending = reducer().on(&stream).reduce(op, (&a, &b)).unwrap();
        assert_eq!(f64::from(pending.wait().unwrap()), expected);
        let mut output = device().output::<f32>().unwrap();
        reducer().on(&stream).reduce_into(op, (&a, &b), &mut output).unwrap();
        assert_eq!(f64::from(output.read().unwrap()), expected);
        let mut recorder = reducer().record();
        let recorded = recorder.reduce(op, (&a, &b)).unwrap();
        let found = recorder.finish().unwrap().run().unwrap().get(&recorded);
        assert_eq!(f64::from(found), expected);
        let none = a.slice(..0).unwrap();
        assert_eq!(reducer().reduce(op, (&none, &none)).unwrap().to_bits(), 0);
    }
    let (a, b) = (unruly::<f32>(3000), shuffled(&unruly::<f32>(3000), 45));
    let [dot, distance] = of_pairs(&a, &b);
    goes(Reproducible(Dot), &a, &b, dot);
    goes(Reproducible(Reproducible(Dot)), &a, &b, dot);
    goes(Reproducible(SquaredDistance), &a, &b, distance);
}

#[test]
fn reproducible_integer_pair_sums_equal_plain_sums() {
    let upload = |values: &[i32]| device().upload(values).unwrap();
    let (a, b) = (upload(&[3, -5, i32::MAX]), upload(&[7, 11, i32::MIN]));
    let dot = reducer().dot(&a, &b).unwrap();
    assert_eq!(reducer().reduce(Reproducible(Dot), (&a, &b)).unwrap(), dot);
    let distance = reducer().reduce(op::SquaredDistance, (&a, &b)).unwrap();
    assert_eq!(reducer().reduce(Reproducible(SquaredDistance), (&a, &b)).unwrap(), distance);
}

/// Inserts a NaN as every third element, including the first and the last one.
pub(crate) fn holed<T: Float>(values: &[T]) -> Vec<T> {
    let nan = T::near(f64::NAN);
    values.chunks(2).flat_map(|two| [&[nan][..], two].concat()).chain([nan]).collect()
}

fn of_numbers<T: Float>(values: &[T]) -> [f64; 3] {
    let numbers = || values.iter().copied().filter(|value| !value.double().is_nan());
    let of = |term: fn(T) -> f64| everywhere(&numbers().map(term).collect::<Vec<_>>(), T::FORMAT);
    [of(T::double), of(T::square), of(|value| value.double().abs())]
}

fn numbers_on_cpu<T: Float>(values: &[T]) -> [f64; 3] {
    [
        T::sum(cpu::reduce(Reproducible(SkipNan(Sum)), values).unwrap()),
        T::sum(cpu::reduce(SkipNan(Reproducible(SumOfSquares)), values).unwrap()),
        T::sum(cpu::reduce(Reproducible(SkipNan(SumOfMagnitudes)), values).unwrap()),
    ]
}

fn numbers_on_device<T: Float>(reducer: &Reducer, values: &[T], start: usize) -> [f64; 3] {
    let all = [&vec![T::near(1e3); start][..], values].concat();
    let buffer = device().upload(&all).unwrap().slice(start..).unwrap();
    [
        T::sum(reducer.reduce(Reproducible(SkipNan(Sum)), &buffer).unwrap()),
        T::sum(reducer.reduce(SkipNan(Reproducible(SumOfSquares)), &buffer).unwrap()),
        T::sum(reducer.reduce(Reproducible(SkipNan(SumOfMagnitudes)), &buffer).unwrap()),
    ]
}

fn numbers_as_defined<T: Float>() {
    for (name, values) in sets::<T>().into_iter().chain(specials()) {
        let what = format!("{name} of {}", std::any::type_name::<T>());
        let values = holed(&values);
        let expected = of_numbers(&values);
        same(numbers_on_cpu(&values), expected, &format!("{what} on the CPU"));
        same(numbers_on_device(reducer(), &values, 0), expected, &what);
        let values = shuffled(&values, 51);
        same(numbers_on_cpu(&values), expected, &format!("{what}, shuffled, on the CPU"));
        same(numbers_on_device(reducer(), &values, 1), expected, &format!("{what}, shuffled"));
    }
}

#[test]
fn skip_nan_sums_match_their_definition() {
    let _checked = no_findings();
    for_every_float!(numbers_as_defined());
}

fn numbers_launched<T: Float>() {
    let values = holed(&unruly::<T>(20_000 / size_of::<T>() + 3));
    let expected = of_numbers(&values);
    same(numbers_on_cpu(&values), expected, "the CPU");
    let buffer = device().upload(&values).unwrap();
    let ordinary = |reducer: &Reducer| T::sum(reducer.reduce(SkipNan(Sum), &buffer).unwrap());
    in_any_launch::<T, 3>(expected, |reducer, at| numbers_on_device(reducer, &values, at), ordinary);
}

#[test]
fn skip_nan_sums_are_the_same_in_any_launch() {
    for_every_float!(numbers_launched());
}

#[test]
fn sums_of_numbers_are_those_of_the_elements_in_every_shape() {
    let _checked = no_findings();
    fn in_shapes<O: RowsOperation<f32, Output = f32, Left = f32>>(op: O, which: usize) {
        let (rows, len) = (60, 50);
        let values = &holed(&unruly::<f32>(2 * rows * len))[..rows * len];
        let buffer = device().upload(values).unwrap();
        let expected = |part: &[f32]| bits(of_numbers(part)[which]);
        let found = |sums: Vec<f32>| sums.into_iter().map(|sum| bits(sum.into())).collect::<Vec<_>>();
        let of_rows: Vec<u64> = values.chunks(len).map(expected).collect();
        assert_eq!(found(reducer().reduce(op, buffer.rows(len).unwrap()).unwrap()), of_rows);
        assert_eq!(found(cpu::reduce_rows(op, values, len).unwrap()), of_rows);
        let columns =
            (0..len).map(|at| values.iter().skip(at).step_by(len).copied().collect::<Vec<_>>());
        let of_columns: Vec<u64> = columns.map(|column| expected(&column)).collect();
        let axis = buffer.axis(&[rows, len], 0).unwrap();
        assert_eq!(found(reducer().reduce(op, &axis).unwrap()), of_columns);
        let view = buffer.view(&[rows / 2, 2, len]).unwrap();
        assert_eq!(found(reducer().reduce(op, view.along(&[0, 1]).unwrap()).unwrap()), of_columns);
        let offsets = [0_u32, 1, 1, 700, 2999, 3000];
        let of_segments: Vec<u64> = offsets
            .windows(2)
            .map(|ends| expected(&values[ends[0] as usize..ends[1] as usize]))
            .collect();
        let offsets = device().upload(&offsets).unwrap();
        let segments = reducer().segments(&buffer, &offsets).unwrap();
        assert_eq!(found(reducer().reduce(op, &segments).unwrap()), of_segments);
        let keys: Vec<u16> = (0..3000).map(|at| at / 750).collect();
        let keys = device().upload(&keys).unwrap();
        let by_key = reducer().reduce(op, buffer.by_key(&keys)).unwrap();
        let of_keys: Vec<u64> = values.chunks(750).map(expected).collect();
        assert_eq!(found(by_key.results.read().unwrap()), of_keys);
    }
    in_shapes(Reproducible(SkipNan(Sum)), 0);
    in_shapes(SkipNan(Reproducible(SumOfSquares)), 1);
    in_shapes(Reproducible(SkipNan(SumOfMagnitudes)), 2);
}

#[test]
fn skip_nan_and_reproducible_commute() {
    fn check_equal<A, B>(one: A, other: B, values: &[f32])
    where
        A: Operation<f32>,
        B: Operation<f32, Output = A::Output>,
        A::Output: PartialEq + std::fmt::Debug,
    {
        let buffer = device().upload(values).unwrap();
        let expected = cpu::reduce(one, values).unwrap();
        assert_eq!(cpu::reduce(other, values).unwrap(), expected);
        assert_eq!(reducer().reduce(one, &buffer).unwrap(), expected);
        assert_eq!(reducer().reduce(other, &buffer).unwrap(), expected);
    }
    let values = holed(&unruly::<f32>(500));
    check_equal(op::Min.skip_nan().reproducible(), SkipNan(op::Min.reproducible()), &values);
    check_equal(op::ArgMax.skip_nan().reproducible(), SkipNan(op::ArgMax.reproducible()), &values);
    check_equal(op::MinMax.skip_nan().reproducible(), SkipNan(op::MinMax.reproducible()), &values);
}

#[test]
fn zeros_and_subnormals_make_the_harmonic_mean_zero() {
    let mean = op::HarmonicMean.reproducible();
    for values in [&[0.0_f32, -1e-40][..], &[1e-40, -1e-40], &[-1e-40], &[-0.0, 3.0], &[2e-39; 9]] {
        let buffer = device().upload(values).unwrap();
        let found = reducer().reduce(mean, &buffer).unwrap().map(f64::to_bits);
        assert_eq!(found, Some(0), "{values:?}");
        assert_eq!(cpu::reduce(mean, values).unwrap().map(f64::to_bits), found, "{values:?}");
    }
}
