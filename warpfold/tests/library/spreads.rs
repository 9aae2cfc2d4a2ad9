//! Reproducible means and variances against exact arithmetic by their definition: of floats, of floats
//! other than NaN, and of integers.

use warpfold::{
    Integer, Reducer, Spread, bf16, cpu, f16,
    op::{MeanAndVariance, Reproducible, RowsOperation, SkipNan},
};
use warpfold_abi::{
    binned::Running,
    moments::{Moments, OfBfloats, OfDoubles, OfHalves, OfSingles, product},
};

use crate::{
    common::{device, no_findings, reducer, reducer_of, small},
    counted::count_of,
    everywhere::{
        Float, bits, for_every_float, in_any_launch, in_parts, launches, same, sets, shuffled, specials,
        unruly,
    },
    everywhere_others::holed,
    exact::{spread_everywhere, spread_of_integers},
    segments::Bounded,
};

fn expected<T: Float>(values: &[T], skips: bool) -> [f64; 2] {
    let all = values.iter().map(|value| value.double());
    let taken: Vec<f64> = all.filter(|value| !skips || !value.is_nan()).collect();
    spread_everywhere(&taken, T::FORMAT)
}

/// Maps an empty result to NaN.
fn fields(spread: Option<Spread>) -> [f64; 2] {
    spread.map_or([f64::NAN; 2], |Spread { mean, variance }| [mean, variance])
}

fn on_cpu<T: Float>(values: &[T], skips: bool) -> [f64; 2] {
    fields(if skips {
        cpu::reduce(Reproducible(SkipNan(MeanAndVariance)), values).unwrap()
    } else {
        cpu::reduce(Reproducible(MeanAndVariance), values).unwrap()
    })
}

fn on_device<T: Float>(reducer: &Reducer, values: &[T], start: usize, skips: bool) -> [f64; 2] {
    let all = [&vec![T::near(1e3); start][..], values].concat();
    let buffer = device().upload(&all).unwrap().slice(start..).unwrap();
    fields(if skips {
        reducer.reduce(SkipNan(Reproducible(MeanAndVariance)), &buffer).unwrap()
    } else {
        reducer.reduce(Reproducible(MeanAndVariance), &buffer).unwrap()
    })
}

fn narrow<T: Float>() -> Vec<(&'static str, Vec<T>)> {
    let next = |value: f64, steps: u64| T::of_bits(T::near(value).bits() + steps);
    let near = |value: f64| (0..999).map(|at| next(value, at % 3)).collect::<Vec<T>>();
    vec![
        ("a constant", vec![T::near(0.1); 777]),
        ("a constant below 0", vec![T::near(-1e4 / 3.0); 1001]),
        ("next to each other", near(0.7)),
        ("next to each other, below a bin", near(2_f64.powi(22) * 0.999)),
        ("next to each other, from a bin on", near(0.5)),
        ("one that is far away", [&near(1.0)[..], &[T::near(6e4)]].concat()),
        ("with zeros", near(0.7).into_iter().flat_map(|value| [value, T::near(-0.0)]).collect()),
        // Only a few bits of the small elements overlap those of the others.
        ("with small ones", near(0.7).into_iter().chain(near(2_f64.powi(-18))).collect()),
    ]
}

fn defined<T: Float>() {
    for (name, values) in sets::<T>().into_iter().chain(narrow()).chain(specials()) {
        let holed = holed(&values);
        for (values, skips) in [(&values, false), (&holed, true)] {
            let what = format!("{name} of {}", std::any::type_name::<T>());
            let expected = expected(values, skips);
            // If infinities make the mean NaN, the host gets no result.
            let expected = if skips && expected[0].is_nan() { [f64::NAN; 2] } else { expected };
            same(on_cpu(values, skips), expected, &format!("{what} on the CPU"));
            same(on_device(reducer(), values, 0, skips), expected, &what);
            let values = shuffled(values, 61);
            same(on_cpu(&values, skips), expected, &format!("{what}, shuffled, on the CPU"));
            same(on_device(reducer(), &values, 1, skips), expected, &format!("{what}, shuffled"));
        }
    }
}

#[test]
fn means_and_variances_match_their_definition() {
    let _checked = no_findings();
    for_every_float!(defined());
}

#[test]
fn a_constant_has_no_variance() {
    fn check<T: Float>() {
        for (_, values) in &narrow::<T>()[..2] {
            let [mean, variance] = on_cpu(values, false);
            assert_eq!((mean.to_bits(), variance.to_bits()), (values[0].double().to_bits(), 0));
        }
    }
    for_every_float!(check());
}

#[test]
fn variance_is_exact_with_a_large_mean() {
    let values: Vec<f64> = (0..1000_u32).map(|at| 1e9 + f64::from(at * 37 % 101)).collect();
    let integers: Vec<i128> = values.iter().map(|&value| value as i128).collect();
    same(on_device(reducer(), &values, 0, false), spread_of_integers(&integers), "near 1e9");
    let values: Vec<f32> = (0..1000_u16).map(|at| 1e6 + f32::from(at * 37 % 101)).collect();
    let integers: Vec<i128> = values.iter().map(|&value| value as i128).collect();
    same(on_device(reducer(), &values, 0, false), spread_of_integers(&integers), "near 1e6");
}

fn moments_in_parts<T: Float, S: Moments>(term: fn(T) -> S::Term) {
    let mut seed = 62;
    for (name, values) in sets::<T>().into_iter().chain(narrow()).chain(specials()) {
        let expected = expected(&values, false);
        for _ in 0..20 {
            let found = in_parts::<T, S>(&values, term, &mut seed).moments(values.len() as u64);
            same([found.mean, found.variance], expected, &format!("{name} in parts"));
        }
    }
}

#[test]
fn partial_moments_combine_in_any_order() {
    moments_in_parts::<f16, OfHalves>(f32::from);
    moments_in_parts::<bf16, OfBfloats>(f32::from);
    moments_in_parts::<f32, OfSingles>(f32::from);
    moments_in_parts::<f64, OfDoubles>(f64::from);
}

/// Checks that terms of NaN, and only these, are skipped.
fn moments_of_numbers<T: Float, S: Moments>(term: fn(T) -> S::Term) {
    for (name, values) in sets::<T>().into_iter().chain(narrow()).chain(specials()) {
        for every in [2, 3, 50] {
            let mut values = values.clone();
            values.iter_mut().step_by(every).for_each(|value| *value = T::near(f64::NAN));
            let (mut sums, mut count) = (Running::<S>::new(), 0);
            let (fours, ones) = values.as_chunks::<4>();
            fours.iter().for_each(|four| count += sums.add_numbers(four.map(term)));
            ones.iter().for_each(|&one| count += sums.add_numbers([term(one)]));
            let numbers = values.iter().filter(|value| !value.double().is_nan()).count();
            assert_eq!(count as usize, numbers, "{name}");
            if count > 0 {
                let found = sums.close().moments(count.into());
                let what = format!("{name}, every {every}th is NaN");
                same([found.mean, found.variance], expected(&values, true), &what);
            }
        }
    }
}

#[test]
fn moments_skip_nan_terms() {
    moments_of_numbers::<f16, OfHalves>(f32::from);
    moments_of_numbers::<bf16, OfBfloats>(f32::from);
    moments_of_numbers::<f32, OfSingles>(f32::from);
    moments_of_numbers::<f64, OfDoubles>(f64::from);
}

fn launched<T: Float>() {
    let values = unruly::<T>(40_000 / size_of::<T>() + 3);
    for (values, skips) in [(&values, false), (&holed(&values), true)] {
        let expected = expected(values, skips);
        same(on_cpu(values, skips), expected, "the CPU");
        let buffer = device().upload(values).unwrap();
        let ordinary = |reducer: &Reducer| {
            reducer.reduce(SkipNan(MeanAndVariance), &buffer).unwrap().unwrap().variance
        };
        let everywhere = |reducer: &Reducer, at| on_device(reducer, values, at, skips);
        in_any_launch::<T, 2>(expected, everywhere, ordinary);
    }
}

#[test]
fn means_and_variances_are_the_same_in_any_launch() {
    for_every_float!(launched());
}

/// Each thread adds more terms with the largest digits than its sums can hold.
#[test]
fn no_thread_runs_out_of_room_for_squares() {
    let reducer = reducer_of(launches()[0]);
    let values = vec![f32::from_bits(4_194_304_f32.to_bits() - 1); 128 * 560];
    same(on_device(&reducer, &values, 0, false), expected(&values, false), "many large digits");
    let large = bf16::from_bits(bf16::from_f32(4_194_304.0).to_bits() - 1);
    for small in [large, bf16::from_f32(-2_f32.powi(-17))] {
        let values = [large, large, large, small].repeat(128 * 8 * 80 / 4);
        same(on_device(&reducer, &values, 0, false), expected(&values, false), "many large digits");
        same(on_cpu(&values, false), expected(&values, false), "many large digits on the CPU");
    }
    let values = vec![f64::from_bits((2_f64.powi(27)).to_bits() - 1); 128 * 520];
    same(on_device(&reducer, &values, 0, false), expected(&values, false), "many large digits");
    // Adds as many terms in the host's sums of halves, and of the exact parts of their squares.
    let mut running = Running::<OfHalves>::new();
    for pair in [[65_504.0, -65_504.0], [32_752.0, 2_f32.powi(-24)]] {
        (0..10_000).for_each(|_| running.add(pair));
    }
    let (large, small) = (2_i128.pow(24), 1);
    let integers = [65_504 * large, -65_504 * large, 32_752 * large, small].repeat(10_000);
    let [mean, variance] = spread_of_integers(&integers);
    let found = running.close().moments(40_000);
    let unit = 2_f64.powi(-24);
    same([found.mean, found.variance], [mean * unit, variance * unit * unit], "many large halves");
}

/// Checks rows by every kernel, columns, views, segments, runs of keys, pieces and counted elements.
fn in_shapes<T: Float, O>(op: O, skips: bool)
where
    O: RowsOperation<T, Output = Option<Spread>, Left = Spread>,
{
    let fields = |spread: &Spread| [bits(spread.mean), bits(spread.variance)];
    let found = |spreads: Vec<Spread>| spreads.iter().map(fields).collect::<Vec<_>>();
    let expected = |part: &[T]| expected(part, skips).map(bits);
    for (rows, len, start) in
        [(129, 5, 0), (65, 16, 0), (65, 16, 1), (31, 160, 0), (7, 500, 1), (3, 2048, 0), (2, 9001, 1)]
    {
        let all = unruly::<T>(rows * len + start);
        let all = if skips { holed(&all)[..all.len()].to_vec() } else { all };
        let values = &all[start..];
        let buffer = device().upload(&all).unwrap().slice(start..).unwrap();
        let what = format!("{rows} rows of {len} {} from {start}", std::any::type_name::<T>());
        let of_rows: Vec<_> = values.chunks(len).map(expected).collect();
        let by_rows = reducer().reduce(op, buffer.rows(len).unwrap()).unwrap();
        assert_eq!(found(by_rows), of_rows, "{what}");
        assert_eq!(found(cpu::reduce_rows(op, values, len).unwrap()), of_rows, "{what} on the CPU");
    }
    let (rows, len) = (600, 50);
    let all = unruly::<T>(rows * len);
    let values = &if skips { holed(&all) } else { all }[..rows * len];
    let buffer = device().upload(values).unwrap();
    let columns = (0..len).map(|at| values.iter().skip(at).step_by(len).copied().collect::<Vec<_>>());
    let of_columns: Vec<_> = columns.map(|column| expected(&column)).collect();
    let axis = buffer.axis(&[rows, len], 0).unwrap();
    assert_eq!(found(reducer().reduce(op, &axis).unwrap()), of_columns);
    let view = buffer.view(&[rows / 2, 2, len]).unwrap();
    assert_eq!(found(reducer().reduce(op, view.along(&[0, 1]).unwrap()).unwrap()), of_columns);
    let offsets = [0_u32, 1, 1, 700, 2999, 29_999, 30_000];
    let of_segments: Vec<_> =
        offsets.windows(2).map(|ends| expected(&values[ends[0] as usize..ends[1] as usize])).collect();
    let segments = reducer().segments(&buffer, &device().upload(&offsets).unwrap()).unwrap();
    assert_eq!(found(reducer().reduce(op, &segments).unwrap()), of_segments);
    let keys: Vec<u16> = (0..30_000).map(|at| at / 7500).collect();
    let keys = device().upload(&keys).unwrap();
    let by_key = reducer().reduce(op, buffer.by_key(&keys)).unwrap();
    let of_keys: Vec<_> = values.chunks(7500).map(expected).collect();
    assert_eq!(found(by_key.results.read().unwrap()), of_keys);
    let all = expected(values);
    let stream = device().stream().unwrap();
    let more = device().upload(&[values, &[T::near(1e3); 50]].concat()).unwrap();
    let count = count_of(values.len() as u64);
    let counted = reducer().on(&stream).reduce(op, more.counted(&count)).unwrap().wait().unwrap();
    assert_eq!(counted.as_ref().map(fields), Some(all));
    let mut running = reducer().running(op).unwrap();
    for piece in values.chunks(7001) {
        running.push(&stream, &device().upload(piece).unwrap()).unwrap();
    }
    assert_eq!(running.result().unwrap().as_ref().map(fields), Some(all));
}

#[test]
fn means_and_variances_are_those_of_the_elements_in_every_shape() {
    let _checked = no_findings();
    in_shapes::<f32, _>(Reproducible(MeanAndVariance), false);
    in_shapes::<f32, _>(Reproducible(SkipNan(MeanAndVariance)), true);
    in_shapes::<f64, _>(Reproducible(MeanAndVariance), false);
    in_shapes::<f64, _>(SkipNan(Reproducible(MeanAndVariance)), true);
    in_shapes::<f16, _>(Reproducible(MeanAndVariance), false);
    in_shapes::<bf16, _>(Reproducible(SkipNan(MeanAndVariance)), true);
}

fn integers<T: Bounded + Integer + Into<i128>>() {
    let ends = [T::LOWEST, T::HIGHEST];
    let of_extremes = |n: usize| (0..n).map(|at| ends[at * 7 % 3 % 2]).collect::<Vec<T>>();
    for values in
        [small::<T>(1, 63), small(31, 64), small(5000, 65), vec![ends[0]; 300], of_extremes(4099)]
    {
        let exact: Vec<i128> = values.iter().map(|&value| value.into()).collect();
        let what = format!("{} of {}", values.len(), std::any::type_name::<T>());
        let expected = spread_of_integers(&exact);
        let check = |op: &dyn Fn() -> Option<Spread>| same(fields(op()), expected, &what);
        let buffer = device().upload(&values).unwrap();
        check(&|| cpu::reduce(MeanAndVariance, &values).unwrap());
        check(&|| cpu::reduce(Reproducible(MeanAndVariance), &values).unwrap());
        check(&|| reducer().reduce(MeanAndVariance, &buffer).unwrap());
        check(&|| reducer().reduce(Reproducible(SkipNan(MeanAndVariance)), &buffer).unwrap());
        let row = reducer().reduce(MeanAndVariance, buffer.rows(values.len()).unwrap()).unwrap();
        check(&|| Some(row[0]));
        let column = buffer.axis(&[values.len(), 1], 0).unwrap();
        check(&|| Some(reducer().reduce(MeanAndVariance, &column).unwrap()[0]));
        let offsets = device().upload(&[0_u32, values.len() as u32]).unwrap();
        let segments = reducer().segments(&buffer, &offsets).unwrap();
        check(&|| Some(reducer().reduce(MeanAndVariance, &segments).unwrap()[0]));
    }
}

#[test]
fn integer_moments_round_only_at_the_end() {
    let _checked = no_findings();
    for_every_integer!(integers());
}

#[test]
fn a_product_has_128_bits() {
    let numbers =
        [0, 1, 3, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 32) - 1, 1 << 32, 0x1234_5678_9abc_def1];
    for a in numbers {
        for b in numbers {
            let [low, high] = product(a, b);
            assert_eq!(u128::from(high) << 64 | u128::from(low), u128::from(a) * u128::from(b));
        }
    }
}
