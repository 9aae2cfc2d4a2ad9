//! Batch invariance: a reproducible result of a row has the bits of that of the row alone, whatever is
//! reduced beside it, wherever it is in memory, and whichever launch reduces it.

use warpfold::{
    Buffer, Buffers,
    op::{self, RowsOperation},
};

use crate::{
    common::{device, no_findings, reducer},
    counted::count_of,
    everywhere::{Float, even},
};

/// Checks the results of one row among others, as a buffer, a row, a column, part of a view, a segment,
/// a run of equal keys, several buffers, and the first elements of a longer buffer.
fn check<T: Float, O: RowsOperation<T>>(op: O, len: usize, counts: &[usize]) {
    let text = |result: &O::Left| format!("{result:?}");
    let first = |results: Vec<O::Left>| text(&results[0]);
    let what = std::any::type_name::<(T, O)>();
    let row = even::<T>(len, 7);
    let (device, reducer) = (device(), reducer());
    let buffer = device.upload(&row).unwrap();
    let alone = first(reducer.reduce(op, buffer.rows(len).unwrap()).unwrap());
    // At each distance from a 16-byte boundary.
    for before in 1..16 / size_of::<T>() + 1 {
        let moved = device.upload(&[&even::<T>(before, 3)[..], &row].concat()).unwrap();
        let moved = moved.slice(before..).unwrap();
        assert_eq!(first(reducer.reduce(op, moved.rows(len).unwrap()).unwrap()), alone, "{what}");
    }
    for &count in counts {
        let what = format!("{what} of {len} elements, among {count}");
        let place = count / 2;
        let mut rows = even::<T>(count * len, 5);
        rows[place * len..][..len].copy_from_slice(&row);
        let buffer = device.upload(&rows).unwrap();
        let found = reducer.reduce(op, buffer.rows(len).unwrap()).unwrap();
        assert_eq!(text(&found[place]), alone, "{what} rows");
        let found = reducer.reduce(op, buffer.view(&[count, 1, len]).unwrap().along(&[2]).unwrap());
        assert_eq!(text(&found.unwrap()[place]), alone, "{what} parts of a view");
        let offsets: Vec<u64> = (0..=count).map(|row| (row * len) as u64).collect();
        let segments = reducer.segments(&buffer, &device.upload(&offsets).unwrap()).unwrap();
        assert_eq!(text(&reducer.reduce(op, &segments).unwrap()[place]), alone, "{what} segments");
        let keys: Vec<u32> = (0..count * len).map(|at| (at / len) as u32).collect();
        let keys = device.upload(&keys).unwrap();
        let found = reducer.reduce(op, buffer.by_key(&keys)).unwrap();
        assert_eq!(text(&found.results.read().unwrap()[place]), alone, "{what} runs of keys");
        let columns: Vec<T> = (0..count * len).map(|at| rows[at % count * len + at / count]).collect();
        let columns = device.upload(&columns).unwrap();
        let found = reducer.reduce(op, columns.axis(&[len, count], 0).unwrap()).unwrap();
        assert_eq!(text(&found[place]), alone, "{what} columns");
    }
}

/// Checks the single result of a row against that of a row among others.
fn check_single<T: Float, O: RowsOperation<T>>(op: O, bits: impl Fn(O::Output) -> String, len: usize) {
    let what = std::any::type_name::<(T, O)>();
    let row = even::<T>(len, 7);
    let buffer = device().upload(&row).unwrap();
    let alone = bits(reducer().reduce(op, &buffer).unwrap());
    let longer = device().upload(&[&row[..], &even::<T>(99, 1)].concat()).unwrap();
    let count = count_of(len as u64);
    let stream = device().stream().unwrap();
    let counted = reducer().on(&stream).reduce(op, longer.counted(&count)).unwrap().wait().unwrap();
    assert_eq!(bits(counted), alone, "{what} of the first elements");
    let parts: Vec<Buffer<T>> = [0..len / 3, len / 3..len / 3, len / 3..len / 2 + 1, len / 2 + 1..len]
        .map(|part| buffer.slice(part).unwrap())
        .into();
    let several = Buffers::new(device(), &parts).unwrap();
    assert_eq!(bits(reducer().reduce(op, &several).unwrap()), alone, "{what} of several buffers");
    let mut running = reducer().running(op).unwrap();
    parts.iter().for_each(|part| running.push(&stream, part).unwrap());
    assert_eq!(bits(running.result().unwrap()), alone, "{what} of pieces");
}

fn of_type<T: Float + warpfold::Float>() {
    macro_rules! ops {
        ($($op:expr),*) => {$(
            check::<T, _>($op, 1003, &[2, 7]);
            check::<T, _>($op, 37, &[1000]);
            check_single::<T, _>($op, |result| format!("{result:?}"), 1003);
            check_single::<T, _>($op, |result| format!("{result:?}"), 70_001);
        )*};
    }
    ops!(
        op::Sum.reproducible(),
        op::SumOfSquares.reproducible(),
        op::SumOfMagnitudes.skip_nan().reproducible(),
        op::MeanAndVariance.reproducible(),
        op::HarmonicMean.reproducible()
    );
    check::<T, _>(op::Sum.reproducible(), 10, &[100_000]);
}

#[test]
fn a_row_has_the_same_bits_in_any_batch() {
    let _checked = no_findings();
    of_type::<warpfold::f16>();
    of_type::<warpfold::bf16>();
    of_type::<f32>();
    of_type::<f64>();
}
