//! Tests of the reference against loops, and of the bound against correct and wrong results.

use super::{
    rounding::{ErrorUnit, probabilistic_growth},
    *,
};
use crate::{Dtype, Statistic};

fn sum(values: Vec<f32>) -> Expected {
    Expected::of(Op::Sum, &Data::F32(values)).unwrap()
}

#[test]
fn integers_wrap_around() {
    let data = Data::I64(vec![i64::MAX, 1, 1]);
    assert_eq!(Expected::of(Op::Sum, &data).unwrap().value, Value::I64(i64::MIN + 1));
}

#[test]
fn prefixes_of_the_elements_are_reduced() {
    let data = Data::I8(vec![3, -1, 3, -1, 7]);
    let of = |op, n| Expected::of_first(op, &data, n).unwrap().value.to_f64();
    assert_eq!(
        [of(Op::ArgMin, 5), of(Op::ArgMax, 4), of(Op::Sum, 4), of(Op::Max, 1)],
        [1.0, 0.0, 4.0, 3.0]
    );
    assert!(Expected::of_first(Op::Min, &data, 0).is_err());
}

#[test]
fn squares_are_summed() {
    let of = |data: Data| Expected::of(Op::SumOfSquares, &data).unwrap().value;
    assert_eq!(of(Data::I32(vec![3, -4, 1 << 16])), Value::I64((1 << 32) + 25));
    assert_eq!(of(Data::F32(vec![0.5, -1.5])), Value::F32(2.5));
    // The compensation holds the square's rounding error, which the final rounding discards again.
    let x: f64 = 1e100 + 1e85;
    assert_eq!(of(Data::F64(vec![x])), Value::F64(x * x));
    assert_eq!(of(Data::F32(vec![])), Value::F32(0.0));
}

#[test]
fn compensation_keeps_what_a_plain_sum_loses() {
    let data = Data::F64(vec![1e100, 1.0, -1e100]);
    assert_eq!(Expected::of(Op::Sum, &data).unwrap().value, Value::F64(1.0));
}

#[test]
fn empty_input_has_a_sum_but_no_minimum() {
    let none = Data::F32(Vec::new());
    assert_eq!(Expected::of(Op::Sum, &none).unwrap().value, Value::F32(0.0));
    assert!(matches!(
        Expected::of(Op::Min, &none),
        Err(Error::NoValue { statistic: Statistic::Of(Op::Min) })
    ));
}

#[test]
fn nan_propagates_and_only_nan_passes() {
    let expected = Expected::of(Op::Min, &Data::F32(vec![1.0, f32::NAN, -1.0])).unwrap();
    assert!(expected.check(Value::F32(f32::NAN), 1).ok);
    assert!(!expected.check(Value::F32(-1.0), 1).ok);
    let expected = Expected::of(Op::Max, &Data::F32(vec![1.0])).unwrap();
    assert!(!expected.check(Value::F32(f32::NAN), 1).ok);
}

#[test]
fn infinite_sum_accepts_only_infinity() {
    let expected = sum(vec![f32::INFINITY, 1.0]);
    assert!(expected.check(Value::F32(f32::INFINITY), 4).ok);
    assert!(!expected.check(Value::F32(f32::MAX), 4).ok);
    assert!(!expected.check(Value::F32(f32::NAN), 4).ok);
}

#[test]
fn small_integers_leave_no_room_for_error() {
    let expected = sum(vec![3.0; 1000]);
    assert!(expected.check(Value::F32(3000.0), 1000).ok);
    assert!(!expected.check(Value::F32(2999.9998), 1000).ok);
}

fn extreme_by_loop(values: &[f64], greatest: bool) -> usize {
    if let Some(first) = values.iter().position(|x| x.is_nan()) {
        return first;
    }
    let beaten =
        |i: &usize| values.iter().any(|&x| if greatest { x > values[*i] } else { x < values[*i] });
    (0..values.len()).find(|i| !beaten(i)).expect("one is not beaten")
}

fn doubles(data: &Data) -> Vec<f64> {
    let size = data.dtype().size();
    data.as_bytes().chunks(size).map(|x| Value::from_bytes(data.dtype(), x).to_f64()).collect()
}

#[test]
fn every_operation_and_type_matches_a_loop() {
    for &dtype in Dtype::ALL {
        for (n, bound) in [(1, 10), (2, 2), (257, 3), (1000, 10)] {
            // Small integers, which fit any type and have many ties.
            let data = Data::random_below(dtype, n, n as u64, bound);
            let elements = doubles(&data);
            let of = |op| Expected::of(op, &data).unwrap();
            for &op in Op::ALL {
                let expected: f64 = match op {
                    Op::Sum => elements.iter().sum(),
                    Op::SumOfSquares => elements.iter().map(|x| x * x).sum(),
                    Op::Min => elements.iter().copied().fold(f64::INFINITY, f64::min),
                    Op::Max => elements.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                    Op::ArgMin => extreme_by_loop(&elements, false) as f64,
                    Op::ArgMax => extreme_by_loop(&elements, true) as f64,
                };
                let value = of(op).value;
                assert_eq!(value.dtype(), op.result(dtype), "{op} {dtype}");
                assert_eq!(value.to_f64(), expected, "{op} of {n} {dtype}");
                let check = of(op).check(value, 1 << 10);
                assert!(check.ok && check.allowed == 0.0, "{op} of {n} {dtype}: {check:?}");
            }
        }
    }
}

#[test]
fn random_elements_are_reduced_as_by_a_loop() {
    // Several pieces. The last one is partial.
    let n = 3 * PIECE + 17;
    for &dtype in Dtype::ALL {
        let data = Data::random(dtype, n, 3);
        let elements = doubles(&data);
        for op in [Op::Sum, Op::SumOfSquares] {
            let expected = Expected::of(op, &data).unwrap();
            if dtype.is_float() {
                let term = |x: &f64| if op == Op::SumOfSquares { x * x } else { *x };
                let sum: f64 = elements.iter().map(term).sum();
                assert!((expected.exact - sum).abs() < 1e-6, "{op} {dtype}: {}", expected.exact - sum);
            } else if dtype.size() == 1 {
                let term = |x: &f64| if op == Op::SumOfSquares { x * x } else { *x };
                assert_eq!(expected.value.to_f64(), elements.iter().map(term).sum::<f64>());
            }
            // The result must not depend on the number of threads.
            for threads in [1, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                assert_eq!(pool.install(|| Expected::of(op, &data).unwrap()), expected);
            }
        }
        // 64-bit integers are not all exact as doubles.
        if !matches!(dtype, Dtype::I64 | Dtype::U64) {
            let first = |greatest: bool| {
                let pick = |a: f64, b: f64| if greatest { a.max(b) } else { a.min(b) };
                let extreme = elements.iter().copied().reduce(pick).unwrap();
                elements.iter().position(|&x| x == extreme).unwrap() as u64
            };
            let index = |op| Expected::of(op, &data).unwrap().value;
            assert_eq!(index(Op::ArgMin), Value::U64(first(false)), "{dtype}");
            assert_eq!(index(Op::ArgMax), Value::U64(first(true)), "{dtype}");
        }
    }
}

#[test]
fn integers_of_64_bits_are_compared_as_such() {
    // These are equal as doubles.
    let data = Data::U64(vec![u64::MAX - 2, u64::MAX, u64::MAX - 1]);
    let of = |op| Expected::of(op, &data).unwrap().value;
    assert_eq!((of(Op::Min), of(Op::ArgMin)), (Value::U64(u64::MAX - 2), Value::U64(0)));
    assert_eq!((of(Op::Max), of(Op::ArgMax)), (Value::U64(u64::MAX), Value::U64(1)));
    let data = Data::I64(vec![0, i64::MIN + 1, i64::MIN]);
    assert_eq!(Expected::of(Op::ArgMin, &data).unwrap().value, Value::U64(2));
}

#[test]
fn narrow_sums_do_not_wrap_and_wide_ones_do() {
    let of = |op, data: &Data| Expected::of(op, data).unwrap().value;
    let signed = Data::I8(vec![i8::MIN; 300]);
    assert_eq!(of(Op::Sum, &signed), Value::I64(-128 * 300));
    assert_eq!(of(Op::SumOfSquares, &signed), Value::I64(128 * 128 * 300));
    let unsigned = Data::U8(vec![u8::MAX; 300]);
    assert_eq!(of(Op::Sum, &unsigned), Value::U64(255 * 300));
    assert_eq!(of(Op::SumOfSquares, &unsigned), Value::U64(255 * 255 * 300));
    assert_eq!(of(Op::Sum, &Data::U32(vec![u32::MAX, 2])), Value::U64((1 << 32) + 1));
    assert_eq!(of(Op::SumOfSquares, &Data::U64(vec![1 << 32, 3])), Value::U64(9));
    assert_eq!(of(Op::Sum, &Data::I64(vec![i64::MIN, -1])), Value::I64(i64::MAX));
    assert_eq!(of(Op::SumOfSquares, &Data::I64(vec![i64::MIN, 5])), Value::I64(25));
    for &dtype in Dtype::ALL {
        let none = Data::from_bytes(dtype, &[]);
        for op in [Op::Sum, Op::SumOfSquares] {
            let value = of(op, &none);
            assert_eq!((value.dtype(), value.to_f64()), (op.result(dtype), 0.0));
        }
    }
}

#[test]
fn halves_are_added_in_single_precision() {
    // In f16 the first sum would be infinite, and the second 1.
    let of = |op, data: &Data| Expected::of(op, data).unwrap();
    let large = Data::F16(vec![half::f16::MAX; 3]);
    assert_eq!(of(Op::Sum, &large).value, Value::F32(3.0 * 65504.0));
    assert_eq!(of(Op::Max, &large).value, Value::F16(half::f16::MAX));
    let uneven = of(Op::Sum, &Data::Bf16([1.0, 1e-3].map(half::bf16::from_f32).to_vec()));
    let Value::F32(sum) = uneven.value else { panic!("{uneven:?}") };
    assert!((1.0009..1.0011).contains(&sum), "{sum}");
    // The bound is that of single precision, far below half precision's.
    let check = uneven.check(Value::F32(1.0), 2);
    assert!(!check.ok && check.allowed < 1e-6, "{check:?}");
    assert!(uneven.check(Value::F32(sum + f32::EPSILON), 2).ok);
}

#[test]
fn a_square_may_underflow() {
    let expected = |x: f32| Expected::of(Op::SumOfSquares, &Data::F32(vec![x; 1000])).unwrap();
    // In single precision each square underflows to 0.
    let check = expected(1e-30).check(Value::F32(0.0), 20);
    assert!(check.ok && check.allowed < 1e-41, "{check:?}");
    assert!(!expected(1e-10).check(Value::F32(0.0), 20).ok);
    let tiny = Data::Bf16(vec![half::bf16::from_f32(1e-30); 1000]);
    assert!(Expected::of(Op::SumOfSquares, &tiny).unwrap().check(Value::F32(0.0), 20).ok);
    let sum = Expected::of(Op::Sum, &Data::F32(vec![1e-40; 1000])).unwrap();
    assert!(!sum.check(Value::F32(0.0), 20).ok);
}

#[test]
fn squares_that_only_look_whole_may_be_rounded() {
    // A non-integer root whose square rounds to an integer.
    let root = |k: u32| (f64::from(k), f64::from(k).sqrt());
    let rounded = |(square, x): &(f64, f64)| x * x == *square && x.fract() != 0.0;
    let (square, x) = (2..100).map(root).find(rounded).expect("17 is one");
    let expected = Expected::of(Op::SumOfSquares, &Data::F64(vec![x; 10])).unwrap();
    let check = expected.check(Value::F64(10.0 * square), 10);
    assert!(check.ok && check.allowed > 0.0, "{check:?}");
}

#[test]
fn the_first_extreme_and_the_first_nan_have_the_index() {
    let nan = f32::NAN;
    for (values, least, greatest) in [
        (vec![1.0], 0, 0),
        (vec![2.0, 1.0, 2.0, 1.0], 1, 0),
        (vec![0.0, -0.0, 0.0], 0, 0),
        (vec![-0.0, 0.0], 0, 0),
        (vec![f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY], 1, 0),
        (vec![f32::INFINITY, f32::INFINITY], 0, 0),
        (vec![1.0, nan, f32::NEG_INFINITY, nan], 1, 1),
        (vec![nan, nan], 0, 0),
        (vec![nan, 1.0], 0, 0),
    ] {
        let of = |op, data: &Data| Expected::of(op, data).unwrap();
        let index = |op, data: &Data| of(op, data).value;
        let half = |x: &f32| half::f16::from_f32(*x);
        for data in [
            Data::F16(values.iter().map(half).collect()),
            Data::F64(values.iter().copied().map(f64::from).collect()),
            Data::F32(values.clone()),
        ] {
            let is = (index(Op::ArgMin, &data), index(Op::ArgMax, &data));
            assert_eq!(is, (Value::U64(least), Value::U64(greatest)), "{data:?}");
            for (op, at) in [(Op::Min, least), (Op::Max, greatest)] {
                let element = data.get(at as usize);
                assert!(of(op, &data).check(element, 1).ok, "{op} {data:?}");
            }
        }
    }
    // These indices are outside the first piece.
    let mut values = vec![0.0_f32; 5 * PIECE];
    for index in [2 * PIECE + 5, 4 * PIECE] {
        values[index] = -1.0;
    }
    let index = |op, values: &[f32]| Expected::of(op, &Data::F32(values.to_vec())).unwrap().value;
    assert_eq!(index(Op::ArgMin, &values), Value::U64(2 * PIECE as u64 + 5));
    assert_eq!(index(Op::ArgMax, &values), Value::U64(0));
    values[3 * PIECE + 1] = nan;
    values[4 * PIECE + 1] = nan;
    for op in [Op::ArgMin, Op::ArgMax] {
        assert_eq!(index(op, &values), Value::U64(3 * PIECE as u64 + 1));
    }
}

#[test]
fn an_index_is_equal_or_wrong() {
    let expected = Expected::of(Op::ArgMin, &Data::U8(vec![3, 1, 1])).unwrap();
    assert!(expected.check(Value::U64(1), 10).ok);
    let check = expected.check(Value::U64(2), 10);
    assert!(!check.ok && (check.error, check.allowed) == (1.0, 0.0), "{check:?}");
    for op in [Op::ArgMin, Op::ArgMax] {
        assert!(matches!(Expected::of(op, &Data::U8(vec![])), Err(Error::NoValue { .. })));
    }
}

#[test]
fn pieces_are_compensated_as_one_sum() {
    // 1e16 is in one piece and its negative in another. A double cannot add the elements between them to
    // 1e16.
    let mut values = vec![0.25; 4 * PIECE];
    (values[0], values[3 * PIECE]) = (1e16, -1e16);
    let expected = Expected::of(Op::Sum, &Data::F64(values)).unwrap();
    assert_eq!(expected.value, Value::F64(0.25 * (4 * PIECE - 2) as f64));
}

#[test]
fn a_float_may_be_off_by_rounding_and_no_more() {
    let expected = sum(vec![0.1; 1024]);
    let check = expected.check(Value::F32(102.4), 10);
    assert!(check.ok && check.allowed > 0.0 && check.allowed < 1e-4, "{check:?}");
    assert!(!expected.check(Value::F32(102.3), 10).ok, "a dropped element is found");
    assert!(!expected.check(Value::F32(f32::NAN), 10).ok);
}

#[test]
fn integers_are_equal_or_wrong() {
    let expected = Expected::of(Op::Sum, &Data::I64(vec![i64::MAX])).unwrap();
    // `i64::MAX` and `i64::MAX - 1` are equal as doubles.
    assert!(!expected.check(Value::I64(i64::MAX - 1), 1).ok);
}

const FLOATS: [Dtype; 4] = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64];

#[test]
fn the_bound_for_drawn_elements_is_never_wider_than_the_worst_case() {
    for roundoff in [2.0_f64.powi(-24), 2.0_f64.powi(-53)] {
        for depth in (0..62).map(|shift| 1_u64 << shift).chain([0, 3, 63, 64, 65]) {
            let unit = ErrorUnit { roundoff, absolute_sum: 3.0, underflow: 0.0 };
            let (drawn, worst) = (unit.bound(depth, true), unit.bound(depth, false));
            assert!(drawn <= worst, "{depth}: {drawn} {worst}");
            // With few additions the worst case is the smaller bound.
            let few = depth < 64 || drawn.is_infinite();
            assert!(depth == 64 || (drawn == worst) == few, "{depth}: {drawn} {worst}");
        }
    }
    let single = |depth| probabilistic_growth(depth, 2.0_f64.powi(-24));
    // 8 · 2¹² · 2⁻²⁴ at 2²⁴ additions, plus higher-order terms. More additions have no bound.
    assert!((0.001953..0.001956).contains(&single(1 << 24)), "{}", single(1 << 24));
    assert!(single((1 << 24) + 1).is_infinite());
}

#[test]
fn infinity_is_never_within_a_bound() {
    // At this depth there is no bound, whether or not the elements were drawn.
    let data = Data::F32(vec![0.1; 1000]);
    for expected in
        [Expected::of(Op::Sum, &data).unwrap(), Expected::of(Op::Sum, &data).unwrap().drawn()]
    {
        for infinity in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            assert!(!expected.check(Value::F32(infinity), 1 << 40).ok);
        }
        assert!(expected.blind_to(1 << 40).is_some());
    }
}

/// For elements that the suite draws, a check that cannot detect wrong kernels is an error.
#[test]
fn judge_fails_if_a_planted_result_would_pass() {
    let data = Data::F32(vec![0.25; 1 << 16].into_iter().chain([0.1]).collect());
    let expected = Expected::of(Op::Sum, &data).unwrap();
    let depth = 1 << 20;
    assert_eq!(expected.blind_to(depth).unwrap().what, "drops the last element");
    assert!(expected.judge(expected.value, depth).unwrap().ok);
    let error = expected.drawn().judge(expected.value, depth).unwrap_err();
    assert!(matches!(error, Error::Blind { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("drops the last element") && message.lines().count() == 1, "{message}");
    // With fewer additions the allowed error is small enough to detect the dropped element.
    assert!(expected.drawn().judge(expected.value, 16).unwrap().ok);
}

#[test]
fn dropped_element_must_exceed_twice_the_allowed_error() {
    // The last element is 1.5 times the allowed error; 2 times are required.
    let mut values = vec![0.1_f32; 1000];
    let allowed =
        Expected::of(Op::Sum, &Data::F32(values.clone())).unwrap().check(Value::F32(0.0), 60).allowed;
    values.push((1.5 * allowed) as f32);
    let expected = Expected::of(Op::Sum, &Data::F32(values)).unwrap();
    let dropped = *expected.planted().last().unwrap();
    assert!(!expected.check(dropped.value, 60).ok);
    assert_eq!(expected.blind_to(60), Some(dropped));
    assert_eq!(expected.blind_to(30), None);
}

#[test]
fn a_marker_makes_every_planted_kernel_wrong() {
    for &dtype in Dtype::ALL {
        for n in [1, 2, 3, 127, 128, 129, 1000, 70_001] {
            for &op in Op::ALL {
                let drawn = Data::drawn(op, dtype, n, 5);
                let mut data = drawn.clone();
                let expected = Expected::mark(op, &mut data, n).unwrap();
                assert_eq!(expected, Expected::of(op, &data).unwrap().drawn());
                for depth in [0, 1, n as u64, 1 << 16] {
                    let blind = expected.blind_to(depth);
                    assert_eq!(blind, None, "{op} of {n} {dtype} at {depth}: {expected:?}");
                }
                let index = matches!(op, Op::ArgMin | Op::ArgMax);
                let dropped = n > 1 || op.has_empty_value();
                assert_eq!(expected.planted().len(), 5 - usize::from(index) + usize::from(dropped));
                // The elements before the marker are unchanged.
                data.set(n - 1, drawn.get(n - 1));
                assert_eq!(data, drawn);
            }
        }
        // An empty input has nothing to drop.
        let expected = Expected::mark(Op::Sum, &mut Data::drawn(Op::Sum, dtype, 0, 1), 0).unwrap();
        let unsigned = expected.value == Value::U64(0) || expected.value == Value::U32(0);
        assert_eq!(expected.planted().len(), if unsigned { 3 } else { 4 });
        assert_eq!(expected.blind_to(10), None);
        assert!(Expected::mark(Op::Max, &mut Data::drawn(Op::Max, dtype, 0, 1), 0).is_err());
    }
}

/// A sum of integers that equals a wrong kernel's result must get another marker.
#[test]
fn a_marker_avoids_the_sums_of_planted_kernels() {
    let poison = |byte| i32::from_ne_bytes([byte; 4]);
    for avoided in POISONS.map(poison).into_iter().chain([i32::MIN, i32::MAX]) {
        for turn in 0..3 {
            // The marker of this turn gives the sum `avoided`, which `mark` must not accept. If
            // `avoided` is an end of the type, the marker of a neighbouring turn gives the other end.
            let mut data = Data::I32(vec![avoided.wrapping_sub(1 + turn), 0]);
            let expected = Expected::mark(Op::Sum, &mut data, 2).unwrap();
            assert_ne!(expected.value, Value::I32(avoided));
            assert_eq!(expected.blind_to(0), None);
        }
    }
}

/// Compares [`Expected::extremes_of_marked`], a closed form for any size, with generated elements.
#[test]
fn the_closed_form_holds_of_real_elements() {
    for dtype in FLOATS {
        for n in [1, 2, 129, 1000, 100_003] {
            for op in [Op::Sum, Op::SumOfSquares] {
                let real = Expected::mark(op, &mut Data::drawn(op, dtype, n, 2), n).unwrap();
                let extremes = Expected::extremes_of_marked(op, dtype, n as u64);
                let [least, greatest] = extremes[..] else { panic!("{extremes:?}") };
                let what = format!("{op} of {n} {dtype}: {real:?}, {extremes:?}");
                assert!(least.exact <= real.exact && real.exact <= greatest.exact, "{what}");
                assert!(real.allowed(1000) <= least.allowed(1000), "{what}");
                let marker = |of: &Expected| of.exact - of.rest.unwrap().exact;
                let marker = [&real, &least, &greatest].map(marker);
                assert!(marker.iter().all(|one| (one / marker[1] - 1.0).abs() < 1e-6), "{what}");
            }
        }
    }
    for &dtype in Dtype::ALL {
        for op in [Op::Min, Op::Max, Op::ArgMin, Op::ArgMax] {
            let real = Expected::mark(op, &mut Data::drawn(op, dtype, 1000, 2), 1000).unwrap();
            let said = Expected::extremes_of_marked(op, dtype, 1000);
            assert_eq!(
                said.iter().map(|one| one.value).collect::<Vec<_>>(),
                [real.value],
                "{op} {dtype}"
            );
        }
    }
}

/// Prints the largest fraction of the allowed error that correct kernels reach, over three seeds. A
/// single accumulator over all elements is the deepest possible chain.
#[test]
fn serial_sums_stay_within_a_quarter_of_the_bound() {
    let mut worst = 0.0_f64;
    for seed in 1..=3 {
        for exponent in 10..=24 {
            // The greatest depth with a bound: one addition per element, and one for the square.
            let n = (1_usize << exponent) - 1;
            for op in [Op::Sum, Op::SumOfSquares] {
                let mut data = Data::drawn(op, Dtype::F32, n, seed);
                let expected = Expected::mark(op, &mut data, n).unwrap();
                let Data::F32(values) = &data else { unreachable!("asked for f32") };
                let term = |x: f32| if op == Op::SumOfSquares { x * x } else { x };
                let sum = values.iter().fold(0.0_f32, |sum, &x| sum + term(x));
                let check = expected.judge(Value::F32(sum), n as u64 + 1).unwrap();
                let ratio = check.error / check.allowed;
                assert!(ratio < 0.25, "{op} of 2^{exponent}, seed {seed}: {ratio} of the bound");
                worst = worst.max(ratio);
            }
        }
    }
    println!("serial f32 sums take up at most {worst:.3} of the bound");
}

#[test]
fn a_sum_in_32_bits_is_right_when_it_is_the_lower_half() {
    let expected = |op, data: Data| Expected::of(op, &data).unwrap();
    let agrees = |expected: &Expected, value| expected.check(value, 1).ok;
    // 2^18 squares of -128 are 2^32.
    let signed = expected(Op::SumOfSquares, Data::I8([vec![-128; 1 << 18], vec![3]].concat()));
    assert!(agrees(&signed, Value::I32(9)) && !agrees(&signed, Value::I32(8)));
    assert!(agrees(&signed, Value::I64((1 << 32) + 9)) && !agrees(&signed, Value::I64(9)));
    let unsigned = expected(Op::SumOfSquares, Data::U8([vec![128; 1 << 18], vec![3]].concat()));
    assert!(agrees(&unsigned, Value::U32(9)) && !agrees(&unsigned, Value::U32(10)));
    let negative = expected(Op::Sum, Data::I32(vec![i32::MIN, -1]));
    assert!(agrees(&negative, Value::I32(i32::MAX)) && !agrees(&negative, Value::I32(i32::MIN)));
    assert!(agrees(&negative, Value::I64(i64::from(i32::MIN) - 1)));
    assert_eq!(negative.of_type(Dtype::I32).value, Value::I32(i32::MAX));
    // The results of wrong kernels are converted to the same type.
    let planted = |dtype| negative.of_type(dtype).planted()[0].value.dtype();
    assert_eq!((planted(Dtype::I32), planted(Dtype::I64)), (Dtype::I32, Dtype::I64));
    // An index must be equal, not only in its low bits.
    let index = expected(Op::ArgMin, Data::I8(vec![1, -1, -1]));
    assert!(agrees(&index, Value::U64(1)) && !agrees(&index, Value::U64((1 << 32) + 1)));
    assert!(!agrees(&index, Value::U32(1)));
}
