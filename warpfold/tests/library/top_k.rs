//! Top-k: the elements that come first in an order, with their places.

use std::{cmp::Ordering, iter};

use warpfold::{
    Buffer, Error, Located, Outputs, Reducer, bf16, cpu, f16,
    op::{self, Largest, Smallest, TopK},
};

use crate::{
    common::{Sample, device, no_findings, reducer, says, small},
    devices::own_context,
};

const KS: [usize; 5] = [1, 2, 5, 31, 32];

/// Returns the first k places of a stable sort.
fn expected<T: Sample>(values: &[T], k: usize, largest: bool) -> Vec<u64> {
    let order = |a: T, b: T| match (a.is_nan(), b.is_nan()) {
        (false, false) if largest => b.partial_cmp(&a).unwrap(),
        (false, false) => a.partial_cmp(&b).unwrap(),
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    };
    let mut places: Vec<usize> = (0..values.len()).collect();
    places.sort_by(|&a, &b| order(values[a], values[b]));
    places.into_iter().take(k).map(|place| place as u64).collect()
}

#[track_caller]
fn same<T: Sample>(found: &[Located<T>], values: &[T], expected: &[u64], what: &str) {
    let places: Vec<u64> = found.iter().map(|one| one.index).collect();
    assert_eq!(places, expected, "{what}");
    for one in found {
        let (found, there) = (one.value, values[one.index as usize]);
        assert_eq!(bytemuck::bytes_of(&found), bytemuck::bytes_of(&there), "{what}: {found:?}");
    }
}

#[track_caller]
fn check<T: Sample>(values: &[T], buffer: &Buffer<T>, k: usize, what: &str) {
    let what = format!("{k} of {} {} {what}", values.len(), std::any::type_name::<T>());
    let largest = expected(values, k, true);
    same(&reducer().reduce(op::Largest(k), buffer).unwrap(), values, &largest, &what);
    same(&cpu::top_k(Largest(k), values).unwrap(), values, &largest, &what);
    let smallest = expected(values, k, false);
    same(&reducer().reduce(op::Smallest(k), buffer).unwrap(), values, &smallest, &what);
    same(&cpu::top_k(Smallest(k), values).unwrap(), values, &smallest, &what);
}

#[track_caller]
fn check_values<T: Sample>(values: &[T], k: usize, what: &str) {
    check(values, &device().upload(values).unwrap(), k, what);
}

/// Returns pseudorandom numbers over the range of 16 bits.
fn random<T: Sample>(n: usize, seed: u64) -> Vec<T> {
    let mut bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    iter::repeat_with(|| {
        bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        T::of(((bits >> 48) as i16).into())
    })
    .take(n)
    .collect()
}

fn patterns<T: Sample>(n: usize) -> [(&'static str, Vec<T>); 5] {
    let count = n as i64;
    [
        ("that are equal", vec![T::of(3); n]),
        ("that ascend", (0..count).map(|value| T::of(value * 100 / count.max(1))).collect()),
        ("that descend", (0..count).rev().map(|value| T::of(value * 100 / count.max(1))).collect()),
        ("in no order", random(n, 1)),
        ("of few kinds", small(n, 2)),
    ]
}

fn of_any_length<T: Sample>() {
    // Across all types, each combination of length, order and k occurs.
    let mut ks = KS.iter().cycle().skip(size_of::<T>());
    for n in [0, 1, 31, 1000] {
        for (what, values) in patterns::<T>(n) {
            check_values(&values, *ks.next().unwrap(), what);
        }
        ks.next();
    }
}

#[test]
fn every_type_and_length_is_right() {
    let _checked = no_findings();
    for_every_type!(of_any_length());
}

fn at_every_alignment<T: Sample>() {
    let values = random::<T>(600, 7);
    let buffer = device().upload(&values).unwrap();
    for first in 0..16 / size_of::<T>() {
        let part = buffer.slice(first..600 - first).unwrap();
        check(&values[first..600 - first], &part, KS[first % 5], &format!("from {first}"));
    }
}

#[test]
fn inputs_of_any_alignment_are_correct() {
    let _checked = no_findings();
    at_every_alignment::<u8>();
    at_every_alignment::<bf16>();
    at_every_alignment::<f32>();
    at_every_alignment::<i64>();
}

/// There are several blocks, each with fewer than k of the first elements, or one with all of them.
#[test]
fn long_buffers_are_right() {
    for (at, (what, values)) in patterns::<f32>(65_537).iter().enumerate() {
        check_values(values, KS[4 - at % 2], what);
    }
    let strictly = |step: i32| (0..30_000).map(|at| at * step).collect::<Vec<i32>>();
    check_values(&strictly(1), 32, "of which each is above the last");
    check_values(&strictly(-1), 5, "of which each is below the last");
    check_values(&random::<f64>(40_003, 3), 31, "in no order");
    check_values(&random::<f16>(65_537, 4), 32, "in no order");
    check_values(&random::<i8>(1_000_003, 5), 32, "in no order");
    // The blocks' shared slots are clean for the next launch.
    let values = small::<i32>(65_537, 6);
    let buffer = device().upload(&values).unwrap();
    assert_eq!(reducer().sum(&buffer).unwrap(), i32::total(&values, false));
    check(&values, &buffer, 2, "of few kinds");
}

/// The numbers of elements for which other kernels are used.
const MANY: [usize; 5] = [33, 100, 1000, 2048, 4096];

fn many_of_any_length<T: Sample>() {
    let mut ks = MANY.iter().cycle().skip(size_of::<T>());
    for n in [33, 2048, 2049, 5000] {
        for (what, values) in patterns::<T>(n) {
            check_values(&values, *ks.next().unwrap(), what);
        }
        ks.next();
        // All of them, and more than there are.
        check_values(&random::<T>(n, 21), n, "in no order");
    }
    check_values(&random::<T>(40, 22), 100, "in no order");
}

#[test]
fn many_elements_of_every_type_are_found() {
    let _checked = no_findings();
    for_every_type!(many_of_any_length());
}

fn many_at_every_alignment<T: Sample>() {
    let values = random::<T>(2600, 23);
    let buffer = device().upload(&values).unwrap();
    for first in 0..16 / size_of::<T>() {
        let part = buffer.slice(first..2600 - first).unwrap();
        check(&values[first..2600 - first], &part, MANY[first % 5], &format!("from {first}"));
    }
}

#[test]
fn many_elements_of_any_alignment_are_found() {
    let _checked = no_findings();
    many_at_every_alignment::<i8>();
    many_at_every_alignment::<f16>();
    many_at_every_alignment::<u32>();
    many_at_every_alignment::<f64>();
}

/// Several blocks select together: from a sample of a row first, or, for equal elements and for many
/// results, from the whole row.
#[test]
fn many_elements_of_long_buffers_are_found() {
    let _checked = no_findings();
    for (at, (what, values)) in patterns::<f32>(300_001).iter().enumerate() {
        check_values(values, MANY[at], what);
    }
    check_values(&random::<i8>(1_000_003, 24), 1000, "in no order");
    check_values(&random::<f16>(400_001, 25), 100, "in no order");
    check_values(&random::<u64>(100_003, 26), 4096, "in no order");
    check_values(&small::<f64>(80_001, 27), 5000, "of few kinds");
    check_values(&random::<u16>(100_000, 28), 100_000, "in no order");
    let strictly = |step: i32| (0..200_000).map(|at| at * step).collect::<Vec<i32>>();
    check_values(&strictly(1), 100, "of which each is above the last");
    check_values(&strictly(-1), 1000, "of which each is below the last");
    // The blocks' shared slots are clean for the next launch.
    let values = small::<i32>(300_000, 29);
    let buffer = device().upload(&values).unwrap();
    assert_eq!(reducer().sum(&buffer).unwrap(), i32::total(&values, false));
    check(&values, &buffer, 2, "of few kinds");
}

/// The bound from a sample of a row includes too few elements if the sample has all of the first ones,
/// and too many if it has none. The whole row is searched then.
#[test]
fn a_sample_that_misleads_does_not_change_the_result() {
    let _checked = no_findings();
    // As many blocks as the simulator's device runs at once, and their threads' samples: see `sampled`
    // of the kernel.
    let n = 1 << 20;
    for samples in [16 * 512, 32 * 512] {
        let part = n / samples;
        let is_sampled = |at: usize| {
            let place = ((at / part) as u32).wrapping_mul(0x9e37_79b1) >> 8;
            at % part == (place as usize * part) >> 24
        };
        for (sampled, other) in [(1000, 0), (0, 1000)] {
            let value = |at: usize| (if is_sampled(at) { sampled } else { other } + at % 7) as f64;
            let values: Vec<f64> = (0..n).map(value).collect();
            check_values(&values, 100, "with a sample that misleads");
        }
    }
    for k in [100, 5000, 9000] {
        check_values(&random::<f64>(n, 31), k, "in no order");
    }
    // Nearly equal elements, which a bound of some digits does not separate.
    let values: Vec<f64> = (0..100_000).map(|at| 1.0 + (at % 5) as f64 * f64::EPSILON).collect();
    check_values(&values, 100, "that are nearly equal");
    check_values(&values[..3000], 100, "that are nearly equal");
}

#[test]
fn first_result_matches_argmax_and_argmin() {
    for values in [random::<f32>(5000, 8), vec![f32::NEG_INFINITY; 70], vec![1.0, f32::NAN, 2.0]] {
        let buffer = device().upload(&values).unwrap();
        let bits = |one: Option<Located<f32>>| one.map(|one| (one.value.to_bits(), one.index));
        let first = |found: Vec<Located<f32>>| bits(found.first().copied());
        let largest = bits(reducer().reduce(op::ArgMax, &buffer).unwrap());
        assert_eq!(first(reducer().reduce(op::Largest(1), &buffer).unwrap()), largest);
        let smallest = bits(reducer().reduce(op::ArgMin, &buffer).unwrap());
        assert_eq!(first(reducer().reduce(op::Smallest(1), &buffer).unwrap()), smallest);
    }
}

#[test]
fn infinities_nan_and_zeros_are_ordered() {
    fn of<T: Sample>(nan: [T; 2], infinity: T, negative: T, zeros: [T; 2]) {
        // There are two NaN, two infinities and zeros of both signs, among few and among many numbers.
        for n in [40, 700] {
            let mut values = small::<T>(n, 9);
            check_values(&vec![nan[0]; n], 31, "all of them NaN");
            check_values(&vec![negative; n], 32, "all of them -inf");
            check_values(&vec![infinity; n], 2, "all of them inf");
            let alternating: Vec<T> = (0..n).map(|at| zeros[at % 3 / 2]).collect();
            check_values(&alternating, 5, "all of them zeros");
            let specials = [infinity, nan[0], negative, zeros[1], zeros[0], nan[1], infinity];
            for (special, at) in specials.into_iter().zip([n - 1, 0, 17, 18, 19, n / 2, 3]) {
                values[at] = special;
            }
            for k in [3, 32, 40] {
                check_values(&values, k, "with infinities, NaN and zeros");
            }
            check_values(&alternating, 39, "all of them zeros");
        }
    }
    let nans = [f32::NAN, f32::from_bits(0xff80_0001)];
    of(nans, f32::INFINITY, f32::NEG_INFINITY, [0.0, -0.0]);
    let nans = [f64::NAN, f64::from_bits(0xfff0_0000_0000_0001)];
    of(nans, f64::INFINITY, f64::NEG_INFINITY, [0.0, -0.0]);
    let nans = [f16::NAN, f16::from_bits(0xfc01)];
    of(nans, f16::INFINITY, f16::NEG_INFINITY, [f16::ZERO, f16::NEG_ZERO]);
    let nans = [bf16::NAN, bf16::from_bits(0xff81)];
    of(nans, bf16::INFINITY, bf16::NEG_INFINITY, [bf16::ZERO, bf16::NEG_ZERO]);
}

/// A NaN occurs after a warp has already found k numbers.
#[test]
fn nan_after_many_numbers_is_found() {
    fn of<T: Sample>(nan: T) {
        // Enough rows for one warp each, with several iterations per row.
        let (rows, len) = (16 * device().info().multiprocessors as usize + 1, 1301);
        let mut values = small::<T>(rows * len, 14);
        for (row, values) in values.chunks_mut(len).enumerate() {
            values[(row * 61 + 1290) % len] = nan;
        }
        let buffer = device().upload(&values).unwrap();
        let found = reducer().reduce(Smallest(2), buffer.rows(len).unwrap()).unwrap();
        for (row, found) in values.chunks(len).zip(found.chunks(2)) {
            same(found, row, &expected(row, 2, false), "with a NaN");
        }
    }
    of(f16::NAN);
    of(bf16::NAN);
    of(f32::NAN);
    of(f64::NAN);
}

/// The extremes are ordinary elements, although their keys equal the sentinels.
#[test]
fn the_extremes_of_integers_are_found() {
    fn of<T: Sample>(least: T, greatest: T) {
        check_values(&[least; 40], 31, "all of them the least");
        check_values(&[greatest; 40], 31, "all of them the greatest");
        check_values(&[greatest; 3000], 33, "all of them the greatest");
        check_values(&[least; 3000], 33, "all of them the least");
        let mut values = small::<T>(300, 10);
        (values[299], values[140], values[7]) = (least, greatest, least);
        check_values(&values, 5, "with both extremes");
    }
    of(i8::MIN, i8::MAX);
    of(u8::MIN, u8::MAX);
    of(i16::MIN, i16::MAX);
    of(u16::MIN, u16::MAX);
    of(i32::MIN, i32::MAX);
    of(u32::MIN, u32::MAX);
    of(i64::MIN, i64::MAX);
    of(u64::MIN, u64::MAX);
}

#[track_caller]
fn check_rows<T: Sample>(rows: usize, len: usize, k: usize, first: usize) {
    let values = [random::<T>(first, 1), random(rows * len, 11)].concat();
    let buffer = device().upload(&values).unwrap().slice(first..).unwrap();
    let values = &values[first..];
    let what = format!("{k} of {rows} rows of {len} {}", std::any::type_name::<T>());
    let same = |found: Vec<Located<T>>, largest: bool| {
        assert_eq!(found.len(), rows * k, "{what}");
        for (found, row) in found.chunks(k).zip(values.chunks(len)) {
            same(found, row, &expected(row, k, largest), &what);
        }
    };
    let matrix = buffer.rows(len).unwrap();
    same(reducer().reduce(Largest(k), &matrix).unwrap(), true);
    same(cpu::top_k_rows(Largest(k), values, len).unwrap(), true);
    same(reducer().reduce(Smallest(k), &matrix).unwrap(), false);
    same(cpu::top_k_rows(Smallest(k), values, len).unwrap(), false);
}

#[test]
fn every_row_is_right() {
    let _checked = no_findings();
    // One warp per row, for rows that begin anywhere.
    check_rows::<f32>(50, 3, 2, 0);
    check_rows::<i8>(37, 33, 32, 1);
    check_rows::<f16>(20, 257, 5, 3);
    check_rows::<f64>(300, 40, 31, 0);
    // One block per row, and several.
    check_rows::<i32>(9, 3000, 31, 1);
    check_rows::<u8>(2, 100_001, 32, 0);
    check_rows::<f32>(2, 20_000, 8, 0);
    check_rows::<u64>(1, 5000, 5, 0);
    check_rows::<i64>(0, 4, 2, 0);
}

#[test]
fn many_elements_of_every_row_are_found() {
    let _checked = no_findings();
    // Rows that fit into shared memory, and others, with and without a sample, at any alignment.
    check_rows::<f32>(70, 33, 33, 0);
    check_rows::<i8>(37, 257, 100, 1);
    check_rows::<f16>(5, 2048, 2000, 3);
    check_rows::<u16>(20, 9001, 50, 1);
    check_rows::<f64>(9, 5000, 33, 0);
    check_rows::<i32>(9, 5000, 4999, 1);
    check_rows::<u8>(3, 70_001, 300, 5);
    // Small blocks, each with some of the rows.
    check_rows::<f32>(200, 1500, 100, 1);
    check_rows::<i16>(100, 1024, 500, 0);
    check_rows::<f64>(90, 600, 400, 1);
    check_rows::<bf16>(40, 8000, 40, 3);
    // Several blocks for each row.
    check_rows::<f32>(2, 100_003, 100, 1);
    check_rows::<u64>(3, 40_000, 1000, 1);
    check_rows::<bf16>(2, 150_000, 2500, 0);
    check_rows::<i64>(0, 40, 33, 0);
}

/// Reads of other threads' data are ordered after the writes, in queues, between warps and between
/// blocks; and each result is written once.
#[cfg(feature = "simulator")]
#[test]
fn no_kernel_has_a_hazard() {
    crate::results::without_hazards(|device| {
        let (reducer, stream) = (Reducer::new(device).unwrap(), device.stream().unwrap());
        let values = random::<f32>(40_003, 15);
        let buffer = device.upload(&values).unwrap();
        for k in [32, 3, 100, 3000] {
            same(
                &reducer.reduce(op::Largest(k), &buffer).unwrap(),
                &values,
                &expected(&values, k, true),
                "watched",
            );
        }
        let mut outputs = device.outputs(40 * 5).unwrap();
        let rows = buffer.slice(3..).unwrap();
        reducer.on(&stream).reduce_into(Smallest(5), rows.rows(1000).unwrap(), &mut outputs).unwrap();
        assert_eq!(outputs.read().unwrap()[0].index, expected(&values[3..1003], 1, false)[0]);
    });
}

#[test]
fn top_k_runs_on_streams_and_into_device_memory() {
    let _checked = no_findings();
    let stream = device().stream().unwrap();
    let values = random::<i32>(5003, 12);
    let upload = || device().upload(&values).unwrap();
    let (largest, smallest) = (expected(&values, 32, true), expected(&values, 7, false));
    let buffer = upload();
    let first = reducer().on(&stream).reduce(Largest(32), &buffer).unwrap();
    let second = reducer().on(&stream).reduce(Smallest(7), &buffer).unwrap();
    let none = reducer().on(&stream).reduce(Smallest(7), &buffer.slice(..0).unwrap()).unwrap();
    let few = reducer().on(&stream).reduce(Largest(32), &buffer.slice(..3).unwrap()).unwrap();
    // Pending reductions keep their elements alive.
    drop(buffer);
    same(&first.wait().unwrap(), &values, &largest, "on a stream");
    same(&second.wait().unwrap(), &values, &smallest, "on a stream");
    assert!(none.wait().unwrap().is_empty());
    same(&few.wait().unwrap(), &values, &expected(&values[..3], 3, true), "of three, on a stream");

    let mut outputs = device().outputs(32).unwrap();
    reducer().on(&stream).reduce_into(Largest(32), &upload(), &mut outputs).unwrap();
    same(&outputs.read().unwrap(), &values, &largest, "in device memory");
    let mut outputs = device().outputs(2 * 7).unwrap();
    let (front, back) = values[..5000].split_at(2500);
    let buffer = upload().slice(..5000).unwrap();
    let rows = buffer.rows(2500).unwrap();
    reducer().on(&stream).reduce_into(Smallest(7), &rows, &mut outputs).unwrap();
    let found = outputs.read().unwrap();
    same(&found[..7], front, &expected(front, 7, false), "the first row");
    same(&found[7..], back, &expected(back, 7, false), "the second row");
    let none = buffer.slice(..0).unwrap();
    let mut outputs = device().outputs(0).unwrap();
    reducer().on(&stream).reduce_into(Smallest(7), &none, &mut outputs).unwrap();
    reducer().on(&stream).reduce_into(Smallest(7), none.rows(9).unwrap(), &mut outputs).unwrap();
    assert!(outputs.read().unwrap().is_empty());
}

/// Launches that select, and those that sort their results, follow each other on a stream and in a
/// recording, and leave the slots clean.
#[test]
fn many_elements_are_found_on_streams_and_in_recordings() {
    let _checked = no_findings();
    let stream = device().stream().unwrap();
    let values = random::<i32>(120_007, 16);
    let buffer = device().upload(&values).unwrap();
    let (few, many) = (expected(&values, 300, true), expected(&values, 5000, false));
    let on = reducer().on(&stream);
    let (first, second) =
        (on.reduce(Largest(300), &buffer).unwrap(), on.reduce(Smallest(5000), &buffer).unwrap());
    let mut outputs = device().outputs(300).unwrap();
    on.reduce_into(Smallest(300), &buffer, &mut outputs).unwrap();
    // Written again, in the order of the stream.
    on.reduce_into(Largest(300), &buffer, &mut outputs).unwrap();
    same(&first.wait().unwrap(), &values, &few, "on a stream");
    same(&second.wait().unwrap(), &values, &many, "on a stream");
    same(&outputs.read().unwrap(), &values, &few, "in device memory");

    let row_len = 30_000;
    let rows = buffer.slice(7..7 + 4 * row_len).unwrap();
    let rows = rows.rows(row_len).unwrap();
    let mut recorder = reducer().record();
    let first = recorder.reduce(Largest(300), &buffer).unwrap();
    let outputs = device().outputs(5000).unwrap();
    let second = recorder.reduce_into(Smallest(5000), &buffer, outputs).unwrap();
    let sum = recorder.reduce(op::Sum, &buffer).unwrap();
    let third = recorder.reduce(Smallest(40), &rows).unwrap();
    let mut recording = recorder.finish().unwrap();
    for _ in 0..2 {
        let results = recording.run().unwrap();
        same(&results.get(&first), &values, &few, "recorded");
        same(&results.outputs(&second).read().unwrap(), &values, &many, "recorded");
        assert_eq!(results.get(&sum), i32::total(&values, false));
        for (found, row) in results.get(&third).chunks(40).zip(values[7..].chunks(row_len)) {
            same(found, row, &expected(row, 40, false), "recorded rows");
        }
    }
}

#[test]
fn results_are_waited_for_before_they_are_ranked() {
    let (stream, other) = (device().stream().unwrap(), device().stream().unwrap());
    let values = small::<i32>(64, 9);
    let matrix = device().upload(&values).unwrap();
    // A separate reducer, because a shared workspace would serialize the two.
    let theirs = Reducer::new(device()).unwrap();
    let sums: Vec<i64> = values.chunks(4).map(|row| i32::total(row, false)).collect();
    let left = || {
        let mut sums = device().outputs::<i64>(16).unwrap();
        theirs.on(&stream).reduce_into(op::Sum, matrix.rows(4).unwrap(), &mut sums).unwrap();
        sums.into_buffer()
    };
    let largest = expected(&sums, 3, true);
    let on = reducer().on(&other);
    same(&on.reduce(Largest(3), &left()).unwrap().wait().unwrap(), &sums, &largest, "pending");
    let mut outputs = device().outputs(3).unwrap();
    on.reduce_into(Largest(3), &left(), &mut outputs).unwrap();
    same(&outputs.read().unwrap(), &sums, &largest, "in device memory");
    same(&reducer().reduce(op::Largest(3), &left()).unwrap(), &sums, &largest, "waited for");
    same(&reducer().reduce(Largest(3), left().rows(16).unwrap()).unwrap(), &sums, &largest, "a row");
}

#[test]
fn top_k_is_recorded() {
    let _checked = no_findings();
    let values = random::<f16>(20_000, 13);
    let buffer = device().upload(&values).unwrap();
    let mut recorder = reducer().record();
    let sum = recorder.reduce(op::ArgMax, &buffer).unwrap();
    let first = recorder.reduce(Largest(32), &buffer).unwrap();
    let none = recorder.reduce(Largest(32), &buffer.slice(..0).unwrap()).unwrap();
    let outputs = device().outputs(5).unwrap();
    let second = recorder.reduce_into(Smallest(5), &buffer, outputs).unwrap();
    let rows = buffer.slice(..300).unwrap();
    let rows = rows.rows(100).unwrap();
    let third = recorder.reduce(Smallest(2), &rows).unwrap();
    let outputs = device().outputs(9).unwrap();
    let fourth = recorder.reduce_into(Largest(3), &rows, outputs).unwrap();
    let mut recording = recorder.finish().unwrap();
    drop(buffer.clone());
    for _ in 0..2 {
        let results = recording.run().unwrap();
        assert_eq!(results.get(&sum).unwrap().index, expected(&values, 1, true)[0]);
        same(&results.get(&first), &values, &expected(&values, 32, true), "recorded");
        assert!(results.get(&none).is_empty());
        let found = results.outputs(&second).read().unwrap();
        same(&found, &values, &expected(&values, 5, false), "recorded, in device memory");
        let (third, fourth) = (results.get(&third), results.outputs(&fourth).read().unwrap());
        for (at, row) in values[..300].chunks(100).enumerate() {
            same(&third[2 * at..][..2], row, &expected(row, 2, false), "recorded rows");
            same(&fourth[3 * at..][..3], row, &expected(row, 3, true), "recorded rows");
        }
    }
}

#[test]
fn invalid_requests_are_refused_without_writes() {
    let values = [5_i32, 1, 9, 3, 7, 2];
    let buffer = device().upload(&values).unwrap();
    let rows = buffer.rows(3).unwrap();
    let stream = device().stream().unwrap();
    let mut outputs: Outputs<Located<i32>> = device().outputs(2).unwrap();
    reducer().on(&stream).reduce_into(Largest(2), &buffer, &mut outputs).unwrap();
    let refused = |error: Error, words: &[&str]| {
        assert!(matches!(error, Error::TopK { .. }), "{error:?}");
        says(&error, words);
    };
    fn every<O: TopK>(op: O, buffer: &Buffer<i32>, outputs: &mut Outputs<Located<i32>>) -> Vec<Error> {
        let (stream, rows) = (device().stream().unwrap(), buffer.rows(3).unwrap());
        let own = || device().outputs(2).unwrap();
        let on = reducer().on(&stream);
        vec![
            reducer().reduce(op, buffer).unwrap_err(),
            reducer().reduce(op, &rows).unwrap_err(),
            on.reduce(op, buffer).unwrap_err(),
            on.reduce_into(op, buffer, outputs).unwrap_err(),
            on.reduce_into(op, &rows, outputs).unwrap_err(),
            reducer().record().reduce(op, buffer).unwrap_err(),
            reducer().record().reduce(op, &rows).unwrap_err(),
            reducer().record().reduce_into(op, buffer, own()).unwrap_err(),
            reducer().record().reduce_into(op, &rows, own()).unwrap_err(),
            cpu::top_k(op, &[1, 2]).unwrap_err(),
            cpu::top_k_rows(op, &[1, 2], 2).unwrap_err(),
        ]
    }
    for error in every(Largest(0), &buffer, &mut outputs) {
        refused(error, &["the largest 0 elements", "give 1 or more"]);
    }
    let long = &["the largest 4 elements of rows of 3", "at most 3"];
    refused(reducer().reduce(Largest(4), &rows).unwrap_err(), long);
    refused(cpu::top_k_rows(Largest(4), &values, 3).unwrap_err(), long);
    // SAFETY: nothing is launched, so nothing is read.
    let many = unsafe { Buffer::<i8>::from_raw_parts(device(), 0x1000, 1 << 33, ()) }.unwrap();
    let error = reducer().reduce(Largest(1), many.rows(1).unwrap()).unwrap_err();
    refused(error, &["8589934592 rows", "at most 4294967296"]);
    let on = reducer().on(&stream);
    let room = &["room for 2 results, but there are 3 elements to find", "outputs for 3"];
    refused(on.reduce_into(Largest(3), &buffer, &mut outputs).unwrap_err(), room);
    let room = &["room for 2 results, but there are 4 elements to find", "outputs for 4"];
    refused(on.reduce_into(Largest(2), &rows, &mut outputs).unwrap_err(), room);
    let own = || device().outputs(2).unwrap();
    refused(reducer().record().reduce_into(Largest(1), &buffer, own()).unwrap_err(), &["1 elements"]);
    refused(reducer().record().reduce_into(Largest(2), &rows, own()).unwrap_err(), room);
    same(&outputs.read().unwrap(), &values, &[2, 4], "untouched");
}

#[test]
fn arguments_of_another_device_are_refused() {
    let other = own_context();
    let theirs = other.upload(&[1_i32, 2, 3]).unwrap();
    let ours = device().upload(&[1_i32, 2, 3]).unwrap();
    let refused = |error: Error, words: &[&str]| {
        assert!(matches!(error, Error::OtherDevice { .. }), "{error:?}");
        says(&error, words);
    };
    refused(reducer().reduce(op::Largest(1), &theirs).unwrap_err(), &["expected the buffer on "]);
    let rows = theirs.rows(3).unwrap();
    refused(reducer().reduce(Largest(1), &rows).unwrap_err(), &["expected the buffer on "]);
    let stream = other.stream().unwrap();
    let on = reducer().on(&stream);
    refused(on.reduce(Largest(1), &ours).unwrap_err(), &["expected the stream on "]);
    let stream = device().stream().unwrap();
    let mut outputs = other.outputs(1).unwrap();
    let on = reducer().on(&stream);
    refused(on.reduce_into(Largest(1), &ours, &mut outputs).unwrap_err(), &["expected the outputs on "]);
    let recorded = reducer().record().reduce_into(Largest(1), &ours, outputs);
    refused(recorded.unwrap_err(), &["expected the outputs on "]);
}
