//! Reductions of pairs: the elements of two buffers that have the same index.

use warpfold::{
    Buffer, Element, Error, Reducer, bf16, cpu, f16,
    internal::{Blocks, Choice, KernelKind},
    op,
};

use crate::{
    common::{Sample, device, no_findings, reducer, reducer_of, says, small},
    devices::own_context,
};

trait Paired: Sample {
    fn expected(a: &[Self], b: &[Self]) -> [Self::Sum; 2];
}

macro_rules! paired {
    ($($ty:ty => $wide:ty, $sum:ty;)*) => {$(
        impl Paired for $ty {
            fn expected(a: &[Self], b: &[Self]) -> [$sum; 2] {
                let (mut dot, mut distance) = (0 as $wide, 0 as $wide);
                for (&a, &b) in a.iter().zip(b) {
                    let (a, b) = (<$wide>::from(a), <$wide>::from(b));
                    dot += a * b;
                    distance += (a - b) * (a - b);
                }
                // Truncates integers, since sums wrap around.
                [dot as $sum, distance as $sum]
            }
        }
    )*};
}

paired! {
    i8 => i128, i64;
    u8 => i128, u64;
    i16 => i128, i64;
    u16 => i128, u64;
    i32 => i128, i64;
    u32 => i128, u64;
    f16 => f64, f32;
    bf16 => f64, f32;
    f32 => f64, f32;
    f64 => f64, f64;
}

/// Squares of 64-bit integers can exceed 128 bits, so the reference wraps around as well.
macro_rules! paired_in_64_bits {
    ($($ty:ty)*) => {$(
        impl Paired for $ty {
            fn expected(a: &[Self], b: &[Self]) -> [$ty; 2] {
                let product = |(&a, &b): (&$ty, &$ty)| a.wrapping_mul(b);
                let square = |(&a, &b): (&$ty, &$ty)| a.wrapping_sub(b).wrapping_pow(2);
                let both = || a.iter().zip(b);
                [both().map(product).fold(0, <$ty>::wrapping_add), both().map(square).fold(0, <$ty>::wrapping_add)]
            }
        }
    )*};
}

paired_in_64_bits! { i64 u64 }

#[track_caller]
fn check<T: Paired>(reducer: &Reducer, [(a, of_a), (b, of_b)]: [(&[T], &Buffer<T>); 2], what: &str) {
    let [dot, distance] = T::expected(a, b);
    let what = format!("{} {} {what}", a.len(), std::any::type_name::<T>());
    assert_eq!(reducer.dot(of_a, of_b).unwrap(), dot, "dot product of {what}");
    assert_eq!(
        reducer.reduce(op::SquaredDistance, (of_a, of_b)).unwrap(),
        distance,
        "distance of {what}"
    );
    assert_eq!(cpu::reduce_pair(op::Dot, a, b).unwrap(), dot, "on the CPU, of {what}");
    assert_eq!(cpu::reduce_pair(op::SquaredDistance, a, b).unwrap(), distance, "on the CPU, of {what}");
}

/// Checks `n` pairs that begin at `first` and `second` in two buffers.
#[track_caller]
fn check_small<T: Paired>(reducer: &Reducer, n: usize, [first, second]: [usize; 2]) {
    let (a, b) = (small::<T>(first + n, 1), small::<T>(second + n, 2));
    let of_a = device().upload(&a).unwrap().slice(first..).unwrap();
    let of_b = device().upload(&b).unwrap().slice(second..).unwrap();
    let both = [(&a[first..], &of_a), (&b[second..], &of_b)];
    check(reducer, both, &format!("from {first} and {second}"));
}

/// Returns a reducer with few threads, which the simulator runs fast.
fn small_blocks(blocks: u32) -> Reducer {
    reducer_of(Choice { kernel: KernelKind::Grid, block: 128, blocks: Blocks::Total(blocks) })
}

fn at_every_alignment<T: Paired>(reducer: &Reducer) {
    let lanes = 16 / size_of::<T>();
    let (a, b) = (small::<T>(9 * lanes, 3), small::<T>(9 * lanes, 4));
    let (of_a, of_b) = (device().upload(&a).unwrap(), device().upload(&b).unwrap());
    for (first, second) in (0..lanes).flat_map(|first| (0..lanes).map(move |second| (first, second))) {
        // The pairs reach to the end of one buffer, so that a read past its end is an error.
        let n = 9 * lanes - first.max(second);
        let (a, b) = (&a[first..first + n], &b[second..second + n]);
        let of_a = of_a.slice(first..first + n).unwrap();
        let of_b = of_b.slice(second..second + n).unwrap();
        let what = format!("{n} {} from {first} and {second}", std::any::type_name::<T>());
        let [dot, distance] = T::expected(a, b);
        assert_eq!(reducer.dot(&of_a, &of_b).unwrap(), dot, "{what}");
        // Both operations load alike, so one in seven suffices.
        if (first + second).is_multiple_of(7) {
            assert_eq!(reducer.reduce(op::SquaredDistance, (&of_a, &of_b)).unwrap(), distance, "{what}");
        }
    }
}

#[test]
fn pairs_of_any_alignment_are_correct() {
    let _checked = no_findings();
    let reducer = small_blocks(1);
    at_every_alignment::<u8>(&reducer);
    at_every_alignment::<i8>(&reducer);
    at_every_alignment::<i16>(&reducer);
    at_every_alignment::<u16>(&reducer);
    at_every_alignment::<bf16>(&reducer);
    at_every_alignment::<f16>(&reducer);
    at_every_alignment::<i32>(&reducer);
    at_every_alignment::<f32>(&reducer);
    at_every_alignment::<u64>(&reducer);
    at_every_alignment::<f64>(&reducer);
}

fn of_any_length<T: Paired>() {
    let lanes = 16 / size_of::<T>();
    for n in [0, 1, 31, 1000] {
        for starts in [[0, 0], [1, 1], [0, 1], [lanes - 1, 0]] {
            check_small::<T>(reducer(), n, starts);
        }
    }
}

#[test]
fn every_type_and_length_is_right_by_either_kernel() {
    let _checked = no_findings();
    for_every_type!(of_any_length());
}

/// Each of several blocks has several tiles, and the last tile is partial.
#[test]
fn long_buffers_are_right_by_either_kernel() {
    let reducer = small_blocks(7);
    for starts in [[0, 0], [1, 2]] {
        check_small::<i8>(&reducer, 65_537, starts);
        check_small::<f16>(&reducer, 65_537, starts);
        check_small::<u32>(&reducer, 30_011, starts);
        check_small::<f32>(&reducer, 30_011, starts);
        check_small::<f64>(&reducer, 30_011, [starts[0], starts[1] + 1]);
    }
    check_small::<u8>(crate::common::reducer(), 1_000_003, [0, 0]);
    check_small::<u8>(crate::common::reducer(), 1_000_003, [3, 0]);
}

#[track_caller]
fn of_repeated<T: Paired>(a: T, b: T, n: usize) {
    let (a, b) = (vec![a; n], vec![b; n]);
    let (of_a, of_b) = (device().upload(&a).unwrap(), device().upload(&b).unwrap());
    check(reducer(), [(&a, &of_a), (&b, &of_b)], "extremes");
    let (of_a, of_b) = (of_a.slice(1..).unwrap(), of_b.slice(..n - 1).unwrap());
    check(reducer(), [(&a[1..], &of_a), (&b[1..], &of_b)], "extremes");
}

#[test]
fn integers_have_room_in_64_bits_and_wrap_around_there() {
    of_repeated(i8::MIN, i8::MAX, 70_001);
    of_repeated(i8::MIN, i8::MIN, 999);
    // The sum exceeds 2^32.
    of_repeated(u8::MAX, u8::MAX, 70_001);
    of_repeated(u8::MIN, u8::MAX, 999);
    of_repeated(i16::MIN, i16::MAX, 9_999);
    of_repeated(i16::MIN, i16::MIN, 999);
    of_repeated(u16::MAX, u16::MAX, 65_538);
    of_repeated(u16::MAX, u16::MIN, 999);
    of_repeated(u16::MIN, u16::MAX, 999);
    of_repeated(i32::MIN, i32::MAX, 999);
    of_repeated(i32::MIN, i32::MIN, 999);
    of_repeated(u32::MIN, u32::MAX, 999);
    of_repeated(u32::MAX, u32::MAX, 999);
    of_repeated(i64::MIN, i64::MAX, 999);
    of_repeated(u64::MAX, 3, 999);
    of_repeated(3_u64, 5, 999);
}

#[test]
fn a_buffer_can_be_paired_with_itself() {
    let values = small::<i8>(3001, 5);
    let buffer = device().upload(&values).unwrap();
    let squares = i8::total(&values, true);
    assert_eq!(reducer().dot(&buffer, &buffer).unwrap(), squares);
    assert_eq!(reducer().reduce(op::SquaredDistance, (&buffer, &buffer)).unwrap(), 0);
    let (a, b) = (buffer.slice(..3000).unwrap(), buffer.slice(1..).unwrap());
    check(reducer(), [(&values[..3000], &a), (&values[1..], &b)], "and the next ones");
}

/// The special elements are inside the vectors, before them and after them.
#[test]
fn infinities_and_nan_propagate() {
    let ones = vec![1.0_f32; 1003];
    for at in [0, 500, 1002] {
        for starts in [[0, 0], [1, 1], [1, 0]] {
            let results = |a: f32, b: f32| {
                let with = |value: f32, start: usize| {
                    let mut values = [vec![9.0; start], ones.clone()].concat();
                    values[start + at] = value;
                    device().upload(&values).unwrap().slice(start..).unwrap()
                };
                let (a, b) = (with(a, starts[0]), with(b, starts[1]));
                [
                    reducer().dot(&a, &b).unwrap(),
                    reducer().reduce(op::SquaredDistance, (&a, &b)).unwrap(),
                ]
            };
            const INF: f32 = f32::INFINITY;
            assert_eq!(results(INF, 2.0), [INF, INF]);
            assert_eq!(results(-INF, 2.0), [-INF, INF]);
            let [dot, distance] = results(INF, INF);
            assert!(dot == INF && distance.is_nan());
            let [dot, distance] = results(0.0, INF);
            assert!(dot.is_nan() && distance == INF);
            assert!(results(f32::NAN, 1.0).iter().all(|result| result.is_nan()));
            assert!(results(1.0, f32::NAN).iter().all(|result| result.is_nan()));
        }
    }
}

#[test]
fn float_results_are_accurate_and_repeatable() {
    let values = |seed: f32| (0..40_003).map(|i| (i as f32 * seed).sin()).collect::<Vec<f32>>();
    let (a, b) = (values(0.7), values(1.3));
    let (of_a, of_b) = (device().upload(&a).unwrap(), device().upload(&b).unwrap());
    for start in [0, 1] {
        let (a, b) = (&a[start..40_000 + start], &b[..40_000]);
        let (of_a, of_b) = (of_a.slice(start..40_000 + start).unwrap(), of_b.slice(..40_000).unwrap());
        let terms = || a.iter().zip(b).map(|(&a, &b)| (f64::from(a), f64::from(b)));
        let magnitudes: f64 = terms().map(|(a, b)| (a * b).abs()).sum();
        for (found, expected, most) in [
            (reducer().dot(&of_a, &of_b).unwrap(), terms().map(|(a, b)| a * b).sum::<f64>(), magnitudes),
            (
                reducer().reduce(op::SquaredDistance, (&of_a, &of_b)).unwrap(),
                terms().map(|(a, b)| (a - b) * (a - b)).sum(),
                terms().map(|(a, b)| (a - b) * (a - b)).sum(),
            ),
        ] {
            let off = (f64::from(found) - expected).abs();
            assert!(off <= most * 64.0 * f64::from(f32::EPSILON), "{found} is {off} from {expected}");
        }
        let bits = || reducer().dot(&of_a, &of_b).unwrap().to_bits();
        assert_eq!([bits(), bits()], [bits(); 2]);
        let here = cpu::reduce_pair(op::Dot, a, b).unwrap();
        assert_eq!(here, terms().map(|(a, b)| a * b).sum::<f64>() as f32);
    }
}

#[test]
fn pairs_reduce_on_streams_and_into_device_memory() {
    let _checked = no_findings();
    let stream = device().stream().unwrap();
    let (a, b) = (small::<i32>(1003, 1), small::<i32>(1003, 2));
    let [dot, distance] = i32::expected(&a, &b);
    let upload = || (device().upload(&a).unwrap(), device().upload(&b).unwrap());
    let (of_a, of_b) = upload();
    let pending = reducer().on(&stream).reduce(op::Dot, (&of_a, &of_b)).unwrap();
    let other = reducer().on(&stream).reduce(op::SquaredDistance, (&of_a, &of_b)).unwrap();
    // Pending reductions keep their elements alive.
    drop((of_a, of_b));
    assert_eq!((pending.wait().unwrap(), other.wait().unwrap()), (dot, distance));

    let (mut first, mut second) = (device().output().unwrap(), device().output().unwrap());
    let (of_a, of_b) = upload();
    reducer().on(&stream).reduce_into(op::Dot, (&of_a, &of_b), &mut first).unwrap();
    reducer().on(&stream).reduce_into(op::SquaredDistance, (&of_a, &of_b), &mut second).unwrap();
    let none = of_a.slice(..0).unwrap();
    drop((of_a, of_b));
    assert_eq!((first.read().unwrap(), second.read().unwrap()), (dot, distance));
    reducer().on(&stream).reduce_into(op::Dot, (&none, &none), &mut first).unwrap();
    assert_eq!(first.read().unwrap(), 0);
    assert_eq!(reducer().on(&stream).reduce(op::Dot, (&none, &none)).unwrap().wait().unwrap(), 0);
}

/// Covers pending results as the first and as the second operand.
#[test]
fn pairs_wait_for_pending_operands() {
    let (stream, other) = (device().stream().unwrap(), device().stream().unwrap());
    let values = small::<i32>(64, 9);
    let matrix = device().upload(&values).unwrap();
    // A separate reducer, because a shared workspace would serialize the two.
    let theirs = Reducer::new(device()).unwrap();
    let squares = values.chunks(8).map(|row| i32::total(row, false).pow(2)).sum::<i64>();
    let sums = |stream| {
        let mut sums = device().outputs::<i64>(8).unwrap();
        theirs.on(stream).reduce_into(op::Sum, matrix.rows(8).unwrap(), &mut sums).unwrap();
        sums.into_buffer()
    };
    let there = device().upload(&values.chunks(8).map(|row| i32::total(row, false)).collect::<Vec<_>>());
    let there = there.unwrap();
    let on = reducer().on(&other);
    assert_eq!(on.reduce(op::Dot, (&sums(&stream), &there)).unwrap().wait().unwrap(), squares);
    assert_eq!(on.reduce(op::Dot, (&there, &sums(&stream))).unwrap().wait().unwrap(), squares);
    let mut output = device().output().unwrap();
    on.reduce_into(op::Dot, (&sums(&stream), &there), &mut output).unwrap();
    assert_eq!(output.read().unwrap(), squares);
    on.reduce_into(op::Dot, (&there, &sums(&stream)), &mut output).unwrap();
    assert_eq!(output.read().unwrap(), squares);
    assert_eq!(reducer().dot(&sums(&stream), &there).unwrap(), squares);
    assert_eq!(reducer().dot(&there, &sums(&stream)).unwrap(), squares);
}

#[test]
fn pairs_are_recorded() {
    let _checked = no_findings();
    let (a, b) = (small::<u8>(5003, 1), small::<u8>(5004, 2));
    let of_a = device().upload(&a).unwrap();
    let of_b = device().upload(&b).unwrap().slice(1..).unwrap();
    let [dot, distance] = u8::expected(&a, &b[1..]);
    let mut recorder = reducer().record();
    let sum = recorder.reduce(op::Sum, &of_a).unwrap();
    let (first, second) = (
        recorder.reduce(op::Dot, (&of_a, &of_b)).unwrap(),
        recorder.reduce(op::SquaredDistance, (&of_a, &of_b)).unwrap(),
    );
    let none = recorder.reduce(op::Dot, (&of_a.slice(..0).unwrap(), &of_b.slice(..0).unwrap())).unwrap();
    let mut recording = recorder.finish().unwrap();
    drop((of_a, of_b));
    for _ in 0..2 {
        let results = recording.run().unwrap();
        let found = (results.get(&first), results.get(&second), results.get(&none));
        assert_eq!(found, (dot, distance, 0));
        assert_eq!(results.get(&sum), u8::total(&a, false));
    }
}

#[test]
fn unequal_lengths_are_rejected_without_writes() {
    let upload = |n| device().upload(&vec![1_i32; n]).unwrap();
    let (a, b) = (upload(7), upload(5));
    let stream = device().stream().unwrap();
    let mut output = device().output::<i64>().unwrap();
    reducer().on(&stream).reduce_into(op::Dot, (&a, &a), &mut output).unwrap();
    let refused = |error: Error, words: &[&str]| {
        assert!(matches!(error, Error::Pairs { .. }), "{error:?}");
        says(&error, words);
    };
    let lengths = &["7 and 5 elements", "the first 5"];
    refused(reducer().dot(&a, &b).unwrap_err(), lengths);
    refused(reducer().reduce(op::SquaredDistance, (&b, &a)).unwrap_err(), &["5 and 7 elements"]);
    refused(reducer().on(&stream).reduce(op::Dot, (&a, &b)).unwrap_err(), lengths);
    refused(reducer().on(&stream).reduce_into(op::Dot, (&a, &b), &mut output).unwrap_err(), lengths);
    refused(reducer().record().reduce(op::Dot, (&a, &b)).unwrap_err(), lengths);
    refused(cpu::reduce_pair(op::Dot, &[1; 7], &[1; 5]).unwrap_err(), lengths);
    assert_eq!(output.read().unwrap(), 7);
}

#[test]
fn pairs_of_another_device_are_refused() {
    let other = own_context();
    let (here, there) = (device().upload(&[1_u8]).unwrap(), other.upload(&[1_u8]).unwrap());
    let refused = |error: Error, what: &str| {
        assert!(matches!(error, Error::OtherDevice { .. }), "{error:?}");
        says(&error, &[what]);
    };
    refused(reducer().dot(&there, &here).unwrap_err(), "first buffer");
    refused(reducer().dot(&here, &there).unwrap_err(), "second buffer");
    refused(
        reducer().record().reduce(op::SquaredDistance, (&here, &there)).unwrap_err(),
        "second buffer",
    );
    let (stream, mut output) = (device().stream().unwrap(), other.output().unwrap());
    refused(
        reducer().on(&stream).reduce_into(op::Dot, (&here, &here), &mut output).unwrap_err(),
        "output",
    );
    let stream = other.stream().unwrap();
    refused(reducer().on(&stream).reduce(op::Dot, (&here, &here)).unwrap_err(), "stream");
}

#[test]
fn kernels_for_pairs_are_loaded_ahead() {
    let reducer = Reducer::new(device()).unwrap();
    let values = device().upload(&[bf16::ONE]).unwrap();
    reducer.prepare(op::Dot, (&values, &values)).unwrap();
    let _: <bf16 as Element>::Sum = reducer.dot(&values, &values).unwrap();
}
