//! More elements than 32 bits can count, on a GPU. The simulator would take hours, so there the same
//! calls have fewer elements.

use std::collections::BTreeMap;

use warpfold::{Buffer, Located, op};

use crate::common::{device, on_gpu, reducer};

fn many() -> usize {
    if on_gpu() { (1 << 32) + 12_345 } else { (1 << 15) + 12_345 }
}

/// Returns the nonzero elements: the first two, one on each side of the index 2^32, and the last. Their
/// values differ, and the largest is past that index.
fn places(n: usize) -> [(usize, i8); 5] {
    let middle = n - 12_345;
    [(0, -3), (1, 5), (middle - 1, -128), (middle + 7, 127), (n - 1, 1)]
}

fn sparse(n: usize) -> Buffer<i8> {
    let mut values = vec![0; n];
    for (at, value) in places(n) {
        values[at] = value;
    }
    device().upload(&values).unwrap()
}

/// Checks sums of pieces, which may be too many to compare each on the host. `piece_of(at)` is the piece
/// that contains the element at `at`, if any.
#[track_caller]
fn check_sums(sums: &Buffer<i64>, what: &str, piece_of: impl Fn(usize) -> Option<usize>) {
    let mut expected = BTreeMap::<usize, i64>::new();
    for (at, value) in places(many()) {
        if let Some(piece) = piece_of(at) {
            *expected.entry(piece).or_default() += i64::from(value);
        }
    }
    for (&piece, &sum) in &expected {
        assert_eq!(sums.slice(piece..=piece).unwrap().download().unwrap(), [sum], "{what}: {piece}");
    }
    let others = expected.values().filter(|&&sum| sum != 0).count() as u64;
    assert_eq!(reducer().reduce(op::CountNonZero, sums).unwrap(), others, "{what}");
}

#[test]
fn a_buffer_has_its_results() {
    let n = many();
    let [.., (least, _), (largest, _), (last, _)] = places(n);
    let buffer = sparse(n);
    let reducer = reducer();
    assert_eq!(reducer.sum(&buffer).unwrap(), 2);
    assert_eq!(
        reducer.reduce(op::ArgMin, &buffer).unwrap(),
        Some(Located { value: -128, index: least as u64 })
    );
    assert_eq!(
        reducer.reduce(op::ArgMax, &buffer).unwrap(),
        Some(Located { value: 127, index: largest as u64 })
    );
    assert_eq!(reducer.reduce(op::CountNonZero, &buffer).unwrap(), 5);
    let spread = reducer.reduce(op::MeanAndVariance, &buffer).unwrap().unwrap();
    // Threads keep means of bytes in `f32`, so the error is relative to the magnitudes.
    let off = (spread.mean * n as f64 - 2.0).abs();
    assert!(off < 264.0 * f64::from(f32::EPSILON), "{spread:?}");
    let behind = buffer.slice(least + 1..).unwrap();
    assert_eq!(reducer.reduce(op::ArgMax, &behind).unwrap().unwrap().index, 7);
    let (stream, mut count) = (device().stream().unwrap(), device().output::<u64>().unwrap());
    let ends = device().upload(&[last as u64 - 1, 1]).unwrap();
    reducer.on(&stream).reduce_into(op::Sum, &ends, &mut count).unwrap();
    let counted = reducer.on(&stream).reduce(op::Sum, buffer.counted(&count.as_count())).unwrap();
    assert_eq!(counted.wait().unwrap(), 1, "all but the last");
}

#[test]
fn rows_have_their_results() {
    let n = many();
    let (buffer, stream) = (sparse(n), device().stream().unwrap());
    let largest = places(n)[3].0;
    for len in [n, n / 2, n / 100, 1000, 48, 5, 4] {
        let (count, first) = (n / len, n % len);
        let matrix = buffer.slice(first..).unwrap();
        let rows = matrix.rows(len).unwrap();
        let mut sums = device().outputs::<i64>(count).unwrap();
        reducer().on(&stream).reduce_into(op::Sum, &rows, &mut sums).unwrap();
        let row_of = |at: usize| Some(at.checked_sub(first)? / len);
        check_sums(&sums.into_buffer(), &format!("rows of {len}"), row_of);
        if count < 10 {
            let found = reducer().reduce(op::ArgMax, &rows).unwrap()[row_of(largest).unwrap()];
            assert_eq!(found, Located { value: 127, index: ((largest - first) % len) as u64 });
        }
    }
}

#[test]
fn columns_have_their_results() {
    let n = many();
    let (buffer, stream) = (sparse(n), device().stream().unwrap());
    let largest = places(n)[3].0;
    for width in [1, 2, 3, 16, 1000, n / 5, n / 2] {
        let (len, first) = (n / width, n % width);
        let matrix = buffer.slice(first..).unwrap();
        let columns = matrix.columns(width).unwrap();
        let mut sums = device().outputs::<i64>(width).unwrap();
        reducer().on(&stream).reduce_into(op::Sum, &columns, &mut sums).unwrap();
        let column_of = |at: usize| Some(at.checked_sub(first)? % width);
        check_sums(&sums.into_buffer(), &format!("{len} rows of {width}"), column_of);
        if width <= 1000 {
            let found = reducer().reduce(op::ArgMax, &columns).unwrap();
            let index = ((largest - first) / width) as u64;
            assert_eq!(found[column_of(largest).unwrap()], Located { value: 127, index }, "{width}");
        }
    }
    for (outer, inner) in [(3, 64), (n / 4000, 4), (2, n / 40)] {
        let len = n / (outer * inner);
        let first = n - outer * len * inner;
        let array = buffer.slice(first..).unwrap();
        let axis = array.axis(&[outer, len, inner], 1).unwrap();
        let mut sums = device().outputs::<i64>(outer * inner).unwrap();
        reducer().on(&stream).reduce_into(op::Sum, &axis, &mut sums).unwrap();
        check_sums(&sums.into_buffer(), &format!("{axis:?}"), |at| {
            let at = at.checked_sub(first)?;
            Some(at / (len * inner) * inner + at % inner)
        });
    }
}

#[test]
fn segments_have_their_results() {
    let n = many();
    let (buffer, stream) = (sparse(n), device().stream().unwrap());
    // One segment of all elements; short and empty segments; and short ones around a long one.
    let short =
        |from: usize, to: usize| (from..to).step_by(43).flat_map(move |at| [at, Ord::min(at + 9, to)]);
    let around: Vec<usize> =
        short(0, 5000).chain(short(n - 20_000, n)).chain(std::iter::once(n)).collect();
    for offsets in [vec![0, n], short(0, n).chain([n]).collect(), around] {
        let given: Vec<u64> = offsets.iter().map(|&offset| offset as u64).collect();
        let segments = reducer().segments(&buffer, &device().upload(&given).unwrap()).unwrap();
        let mut sums = device().outputs::<i64>(offsets.len() - 1).unwrap();
        reducer().on(&stream).reduce_into(op::Sum, &segments, &mut sums).unwrap();
        let segment_of = |at: usize| offsets.partition_point(|&offset| offset <= at).checked_sub(1);
        check_sums(&sums.into_buffer(), &format!("{} segments", offsets.len() - 1), segment_of);
    }
}

#[test]
fn runs_of_equal_keys_have_their_results() {
    const RUN: usize = 50;
    let n = many();
    let buffer = sparse(n);
    for run in [n, RUN] {
        let keys: Vec<i8> = (0..n).map(|at| (at / run) as i8).collect();
        let keys = device().upload(&keys).unwrap();
        let runs = reducer().reduce(op::Sum, buffer.by_key(&keys)).unwrap();
        assert_eq!(runs.keys.len(), n.div_ceil(run));
        let last = runs.keys.slice(runs.keys.len() - 1..).unwrap().download().unwrap();
        assert_eq!(last, [((n - 1) / run) as i8]);
        check_sums(&runs.results.into_buffer(), &format!("runs of {run}"), |at| Some(at / run));
    }
}
