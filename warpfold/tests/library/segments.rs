//! Reductions of every segment that offsets describe.

use std::fmt::Debug;

use warpfold::{
    Buffer, Ends, Error, Located, Offset, Outputs, Segments, bf16, f16, op, op::RowsOperation,
};
use warpfold_abi::segments::{MOST_TILES, tile_items};

use crate::{
    common::{Sample, device, extreme, no_findings, reducer, says, small},
    operations::{Number, ends, non_zero, spread, with_zeros},
};

/// Returns segment lengths that cover how tiles and segments can overlap. `tile` is the number of
/// elements and segment ends in a tile.
fn shapes(tile: usize) -> Vec<(&'static str, Vec<usize>)> {
    let (half, most) = (tile / 2, tile - 1);
    vec![
        ("one", vec![100]),
        ("one that is empty", vec![0]),
        ("two", vec![1, 2]),
        ("as many elements in each", vec![5; 200]),
        ("all empty", vec![0; 300]),
        ("a tile of empty ones", vec![0; tile]),
        ("more empty ones than a tile has", vec![0; 2 * tile + 5]),
        ("empty ones at both ends and between", vec![0, 0, 5, 0, 0, 0, 40, 1, 0, 700, 0, 0]),
        ("an element in each but one", [vec![1; 1000], vec![2; 1]].concat()),
        ("few elements each", (0..2000).map(|i| i * 7 % 11).collect()),
        ("a tile without an end, exactly", vec![most + 1, 3]),
        ("a tile and its end", vec![most, most, most, 2]),
        ("an end that opens a tile", vec![tile, 0, tile - 1, 0, 5]),
        ("one over few tiles", vec![3, 2 * tile + 17, 3, tile + 1, 0, half]),
        ("one over many tiles", vec![half, 9 * tile + 5, 7, 0]),
        ("many behind one over many tiles", [vec![half, 9 * tile + 5], vec![2; 50]].concat()),
        ("ragged", ragged(40, 5 * tile)),
    ]
}

/// Returns lengths of a few long and many short segments, unsorted, about `elements` in total.
fn ragged(segments: usize, elements: usize) -> Vec<usize> {
    let share = |rank: usize| (elements as f64 / 4.0 / rank as f64) as usize;
    (0..segments).map(|at| share(at * 17 % segments + 1)).collect()
}

fn offsets(first: usize, lens: &[usize]) -> Vec<usize> {
    let ends = lens.iter().scan(first, |end, len| {
        *end += len;
        Some(*end)
    });
    std::iter::once(first).chain(ends).collect()
}

struct Case<T> {
    values: Vec<T>,
    offsets: Vec<usize>,
    segments: Segments<T>,
}

impl<T: Sample> Case<T> {
    /// Creates segments of the lengths `lens`, starting at the element `first` of a buffer that begins
    /// `start` elements past an aligned address and has elements after the last segment.
    fn new(start: usize, first: usize, lens: &[usize]) -> Self {
        let behind = 3;
        let n = start + first + lens.iter().sum::<usize>() + behind;
        Self::of(small(n, lens.len() as u64), start, first, lens)
    }

    fn of(values: Vec<T>, start: usize, first: usize, lens: &[usize]) -> Self {
        let offsets = offsets(first, lens);
        let buffer = device().upload(&values).unwrap().slice(start..).unwrap();
        let given: Vec<u32> = offsets.iter().map(|&offset| offset as u32).collect();
        let segments = reducer().segments(&buffer, &device().upload(&given).unwrap()).unwrap();
        assert_eq!(segments.count(), lens.len());
        assert_eq!(segments.elements() as usize, lens.iter().sum::<usize>());
        Self { values: values[start..].to_vec(), offsets, segments }
    }
}

impl<T: Sample> Pieces<T> for Case<T> {
    fn expected<R>(&self, of: impl Fn(&[T]) -> R) -> Vec<R> {
        self.offsets.windows(2).map(|ends| of(&self.values[ends[0]..ends[1]])).collect()
    }

    fn results<O: RowsOperation<T>>(&self, op: O) -> Vec<O::Left> {
        reducer().reduce(op, &self.segments).unwrap()
    }
}

/// Elements in pieces with one result each.
pub(crate) trait Pieces<T: Sample> {
    fn expected<R>(&self, of: impl Fn(&[T]) -> R) -> Vec<R>;

    fn results<O: RowsOperation<T>>(&self, op: O) -> Vec<O::Left>;

    #[track_caller]
    fn check<O: RowsOperation<T> + Debug>(&self, op: O, what: &str, of: impl Fn(&[T]) -> O::Left)
    where
        O::Left: PartialEq,
    {
        let (found, expected) = (self.results(op), self.expected(of));
        assert_eq!(found.len(), expected.len());
        for (at, (found, expected)) in found.into_iter().zip(expected).enumerate() {
            assert_eq!(found, expected, "{op:?} of piece {at} of {what}");
        }
    }
}

/// Returns the first of the smallest or largest elements, or the result of an empty segment.
pub(crate) fn place<T: Bounded>(values: &[T], largest: bool) -> Located<T> {
    let none = Located { value: if largest { T::LOWEST } else { T::HIGHEST }, index: u64::MAX };
    extreme(values, largest).unwrap_or(none)
}

/// Identities of the extremes.
pub(crate) trait Bounded: Number {
    const LOWEST: Self;
    const HIGHEST: Self;
}

macro_rules! bounded {
    ($($ty:ty: $lowest:ident $highest:ident;)*) => {$(
        impl Bounded for $ty {
            const LOWEST: Self = <$ty>::$lowest;
            const HIGHEST: Self = <$ty>::$highest;
        }
    )*};
}

bounded! {
    i8: MIN MAX;
    u8: MIN MAX;
    i16: MIN MAX;
    u16: MIN MAX;
    i32: MIN MAX;
    u32: MIN MAX;
    i64: MIN MAX;
    u64: MIN MAX;
    f16: NEG_INFINITY INFINITY;
    bf16: NEG_INFINITY INFINITY;
    f32: NEG_INFINITY INFINITY;
    f64: NEG_INFINITY INFINITY;
}

fn tile_of<T>() -> usize {
    tile_items(size_of::<T>() as u32) as usize
}

fn check_shapes<T: Bounded>(start: usize, first: usize) {
    for (shape, lens) in shapes(tile_of::<T>()) {
        let what = format!("{shape} {} from {start} and {first}", std::any::type_name::<T>());
        let case = Case::<T>::new(start, first, &lens);
        case.check(op::Sum, &what, |segment| T::total(segment, false));
        case.check(op::ArgMax, &what, |segment| place(segment, true));
    }
}

#[test]
fn sums_and_maxima_of_every_type_are_correct() {
    let _checked = no_findings();
    for_every_type!(check_shapes(0, 0));
}

#[test]
fn segments_may_begin_anywhere() {
    let _checked = no_findings();
    check_shapes::<u8>(5, 12);
    check_shapes::<bf16>(7, 0);
    check_shapes::<f32>(1, 5);
    check_shapes::<u64>(1, 1);
}

fn mixed<T>() -> Vec<usize> {
    let tile = tile_of::<T>();
    [(0..300).map(|at| at * 5 % 9).collect(), vec![tile + 40, 3 * tile, 0, 9]].concat()
}

fn operations<T: Bounded>() {
    let lens = mixed::<T>();
    check_operations(lens.iter().sum(), |values| Case::<T>::of(values, 0, 0, &lens));
}

/// Checks every operation except sums, `ArgMax` and bitwise operations, on `n` elements in pieces.
pub(crate) fn check_operations<T: Bounded, P: Pieces<T>>(n: usize, of: impl Fn(Vec<T>) -> P) {
    let (what, case) = (std::any::type_name::<T>(), of(with_zeros(small(n, 5))));
    case.check(op::SumOfSquares, what, |piece| T::total(piece, true));
    case.check(op::SumOfMagnitudes, what, |piece| T::magnitudes(piece));
    case.check(op::CountNonZero, what, non_zero);
    case.check(op::Min, what, |piece| place(piece, false).value);
    case.check(op::Max, what, |piece| place(piece, true).value);
    case.check(op::ArgMin, what, |piece| place(piece, false));
    case.check(op::MinMax, what, |piece| {
        ends(piece).unwrap_or(Ends { min: T::HIGHEST, max: T::LOWEST })
    });
    for (found, expected) in case.results(op::MeanAndVariance).into_iter().zip(case.expected(spread)) {
        let Some(expected) = expected else {
            assert!(found.mean.is_nan() && found.variance.is_nan(), "{found:?} of nothing");
            continue;
        };
        let near = |found: f64, expected: f64| (found - expected).abs() <= 100.0 * T::roundoff();
        assert!(near(found.mean, expected.mean), "{found:?}, not {expected:?}");
        assert!(near(found.variance, expected.variance), "{found:?}, not {expected:?}");
    }
    of(T::factors(n)).check(op::Product, what, |piece| T::product(piece));
}

#[test]
fn every_operation_has_its_result_of_every_segment() {
    let _checked = no_findings();
    operations::<i32>();
    operations::<u8>();
    operations::<f32>();
    operations::<f16>();
    operations::<f64>();
    let case = Case::<u8>::new(1, 0, &mixed::<u8>());
    case.check(op::BitAnd, "u8", |segment| segment.iter().fold(!0, |bits, one| bits & one));
    case.check(op::BitOr, "u8", |segment| segment.iter().fold(0, |bits, one| bits | one));
    case.check(op::BitXor, "u8", |segment| segment.iter().fold(0, |bits, one| bits ^ one));
    let case = Case::<i64>::new(0, 0, &mixed::<i64>());
    case.check(op::BitXor, "i64", |segment| segment.iter().fold(0, |bits, one| bits ^ one));
}

#[test]
fn the_first_nan_or_zero_of_a_segment_is_found() {
    let _checked = no_findings();
    let lens = [3, 4 * tile_of::<f32>(), 0, 50, 2 * tile_of::<f32>() + 9, 7];
    let offsets = offsets(0, &lens);
    let mut values = vec![-1.0_f32; offsets[lens.len()]];
    (values[1], values[2]) = (-0.0, 0.0);
    values[offsets[1] + 5000] = f32::from_bits(0x7fc0_1234);
    values[offsets[1] + 6000] = f32::NAN;
    (values[offsets[3] + 13], values[offsets[4] + 3001], values[offsets[5] + 6]) = (0.0, -0.0, 8.0);
    let case = Case::of(values, 0, 0, &lens);
    let found = reducer().reduce(op::ArgMax, &case.segments).unwrap();
    let found: Vec<(u64, u32)> =
        found.into_iter().map(|place| (place.index, place.value.to_bits())).collect();
    let (zero, minus) = (0.0_f32.to_bits(), (-0.0_f32).to_bits());
    let none = (u64::MAX, f32::NEG_INFINITY.to_bits());
    let nan = (5000, 0x7fc0_1234);
    assert_eq!(found, [(1, minus), nan, none, (13, zero), (3001, minus), (6, 8.0_f32.to_bits())]);
}

/// There are more blocks than slots, so blocks reuse slots, which may still be in use.
#[test]
fn segments_over_more_blocks_than_there_are_slots_are_joined() {
    let _checked = no_findings();
    let tile = tile_of::<u64>();
    // There are half as many resident blocks as slots. With more than `MOST_TILES` tiles for each, the
    // grid has several rounds of blocks, and more blocks than slots.
    let slots = device().info().multiprocessors as usize * 16;
    let tiles = MOST_TILES as usize * slots / 2 * 17 / 16;
    let case = Case::<u64>::new(0, 0, &[5, tile * tiles, 0, 3 * tile, 100]);
    case.check(op::Sum, "u64", |segment| u64::total(segment, false));
    case.check(op::ArgMax, "u64", |segment| place(segment, true));
    let len = tiles / 2 * tile_of::<i32>() + tile_of::<i32>() / 3;
    for lens in [[len, len, 7], [len + 1, len + 9, 0]] {
        let case = Case::<i32>::new(0, 0, &lens);
        case.check(op::Sum, "i32", |segment| i32::total(segment, false));
    }
}

fn of_offsets<I: Offset>(convert: impl Fn(usize) -> I) {
    let lens = mixed::<i32>();
    let offsets = offsets(2, &lens);
    let values = small::<i32>(offsets[lens.len()], 8);
    let (behind, first) = (vec![convert(0); 1], offsets.iter().map(|&offset| convert(offset)));
    // A slice, not aligned to 16 bytes.
    let given = device().upload(&[behind, first.collect()].concat()).unwrap().slice(1..).unwrap();
    let segments = reducer().segments(&device().upload(&values).unwrap(), &given).unwrap();
    let sums = offsets.windows(2).map(|ends| i32::total(&values[ends[0]..ends[1]], false));
    let found = reducer().reduce(op::Sum, &segments).unwrap();
    assert_eq!(found, sums.collect::<Vec<_>>(), "{}", std::any::type_name::<I>());
}

#[test]
fn offsets_are_of_any_integer_type_that_has_32_bits_or_more() {
    let _checked = no_findings();
    of_offsets(|offset| offset as u32);
    of_offsets(|offset| offset as i32);
    of_offsets(|offset| offset as u64);
    of_offsets(|offset| offset as i64);
}

#[test]
fn the_same_segments_give_the_same_bits() {
    let lens = mixed::<f32>();
    let n = lens.iter().sum();
    let values: Vec<f32> = small::<f32>(n, 3).into_iter().map(|value| value / 3.0).collect();
    let case = Case::of(values, 0, 0, &lens);
    let bits = || -> Vec<u32> {
        let sums = reducer().reduce(op::Sum, &case.segments).unwrap();
        sums.into_iter().map(f32::to_bits).collect()
    };
    assert_eq!(bits(), bits());
}

#[track_caller]
fn refused<R: Debug>(result: Result<R, Error>, words: &[&str]) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Segments { .. }), "{error:?}");
    assert_eq!(error.to_string().lines().count(), 1);
    says(&error, words);
}

fn checked<I: Offset>(len: usize, offsets: &[I]) -> Result<Segments<i8>, Error> {
    let values = device().upload(&small::<i8>(len, 1)).unwrap();
    reducer().segments(&values, &device().upload(offsets).unwrap())
}

#[test]
fn invalid_offsets_are_rejected_with_the_first_bad_segment() {
    let _checked = no_findings();
    refused(checked::<u32>(10, &[]), &["0 offsets", "one more than"]);
    refused(checked(10, &[0_u32, 3, 2, 1, 5]), &["segment 1 is from 3 to 2 of 10", "0 to 10"]);
    refused(checked(10, &[0_u32, 3, 11, 11]), &["segment 1 is from 3 to 11 of 10"]);
    refused(checked(10, &[11_u64, 11]), &["segment 0 is from 11 to 11"]);
    refused(checked(10, &[0_u64, u64::MAX, 5]), &["segment 0", "18446744073709551615"]);
    refused(checked(10, &[0, -1]), &["segment 0 is from 0 to -1"]);
    refused(checked(10, &[-2_i64, 5]), &["segment 0 is from -2 to 5"]);
    let mut many: Vec<u32> = (0..10_000).collect();
    many[7001] = 3;
    many[9000] = 4;
    refused(checked(10_000, &many), &["segment 7000 is from 7000 to 3 of 10000"]);
    assert_eq!(checked(10, &[10_u32, 10]).unwrap().elements(), 0);
}

/// A negative offset stays invalid in a buffer with more elements than an `i32` counts.
#[test]
fn negative_offsets_are_rejected_in_huge_buffers() {
    // SAFETY: the call is refused before it reads anything.
    let buffer = unsafe { Buffer::<i8>::from_raw_parts(device(), 0x1000, (1 << 31) + 100, ()) }.unwrap();
    let offsets = device().upload(&[0, i32::MIN + 5]).unwrap();
    refused(reducer().segments(&buffer, &offsets), &["segment 0 is from 0 to -2147483643"]);
}

#[test]
fn wrong_output_counts_and_huge_buffers_are_rejected() {
    let case = Case::<i32>::new(0, 0, &[4, 0, 6]);
    let stream = device().stream().unwrap();
    for len in [0, 2, 4] {
        let mut outputs = device().outputs::<i64>(len).unwrap();
        let words = [&format!("{len} results"), "3 segments", "outputs for 3"];
        let on = reducer().on(&stream);
        refused(on.reduce_into(op::Sum, &case.segments, &mut outputs), &words);
        assert_eq!(outputs.read().unwrap(), vec![0; len]);
    }
    // SAFETY: the call is refused before it reads anything.
    let buffer = unsafe { Buffer::<i8>::from_raw_parts(device(), 0x1000, (1 << 35) + 1, ()) }.unwrap();
    let error = reducer().segments(&buffer, &device().upload(&[0_u32, 1]).unwrap()).unwrap_err();
    assert!(matches!(error, Error::TooManyElements { .. }), "{error:?}");
}

#[test]
fn no_segments_have_no_results_and_no_launch() {
    #[cfg(feature = "simulator")]
    let log = warpfold_sim_driver::record_calls();
    let segments = checked(10, &[7_u32]).unwrap();
    assert_eq!(reducer().reduce(op::ArgMin, &segments).unwrap(), []);
    let (stream, mut outputs) = (device().stream().unwrap(), device().outputs::<i8>(0).unwrap());
    reducer().on(&stream).reduce_into(op::Max, &segments, &mut outputs).unwrap();
    #[cfg(feature = "simulator")]
    assert_eq!(log.count("cuLaunchKernel"), 0);
}

#[test]
fn pending_results_are_valid_inputs_on_any_stream() {
    let _checked = no_findings();
    let streams = [(); 2].map(|()| device().stream().unwrap());
    let case = Case::<i32>::new(0, 0, &mixed::<i32>());
    let expected = case.expected(|segment| i32::total(segment, false));
    let mut outputs: Outputs<i64> = device().outputs(expected.len()).unwrap();
    reducer().on(&streams[0]).reduce_into(op::Sum, &case.segments, &mut outputs).unwrap();
    drop(case);
    let largest = reducer().on(&streams[1]).reduce(op::Max, &outputs.into_buffer()).unwrap();
    assert_eq!(largest.wait().unwrap(), expected.iter().copied().max());
    let matrix = device().upload(&[1_i64, 1, 2, 2, 3, 3, 4, 4]).unwrap();
    let sums = || {
        let mut sums = device().outputs::<i64>(4).unwrap();
        reducer().on(&streams[0]).reduce_into(op::Sum, matrix.rows(2).unwrap(), &mut sums).unwrap();
        sums.into_buffer()
    };
    let values = device().upload(&small::<u8>(8, 1)).unwrap();
    let segments = reducer().segments(&values, &sums()).unwrap();
    assert_eq!((segments.count(), segments.elements()), (3, 6));
    let offsets = device().upload(&[0_u32, 1, 4]).unwrap();
    let segments = reducer().segments(&sums(), &offsets).unwrap();
    assert_eq!(reducer().reduce(op::Sum, &segments).unwrap(), [2, 18]);
}

/// Tiles with and without segment ends exchange carries with few and with many other tiles.
#[test]
#[cfg(feature = "simulator")]
fn no_launch_has_a_hazard() {
    let (device, watch) = crate::results::watched();
    let reducer = warpfold::Reducer::new(&device).unwrap();
    let lens = [mixed::<i32>(), vec![9 * tile_of::<i32>()], vec![3; 100]].concat();
    let offsets: Vec<u32> = offsets(0, &lens).into_iter().map(|offset| offset as u32).collect();
    let values = small::<i32>(lens.iter().sum(), 1);
    let buffer = device.upload(&values).unwrap();
    let segments = reducer.segments(&buffer, &device.upload(&offsets).unwrap()).unwrap();
    let found = reducer.reduce(op::Sum, &segments).unwrap();
    assert_eq!(found.iter().sum::<i64>(), i32::total(&values, false));
    assert_eq!(watch.hazards.findings().len(), 0, "{:?}", watch.hazards.findings());
}

#[test]
fn kernels_for_segments_are_loaded_ahead() {
    let reducer = warpfold::Reducer::new(device()).unwrap();
    let (values, offsets) =
        (device().upload(&[3_u8; 8]).unwrap(), device().upload(&[0_u32, 2, 8]).unwrap());
    let segments = reducer.segments(&values, &offsets).unwrap();
    reducer.prepare(op::Sum, &segments).unwrap();
    #[cfg(feature = "simulator")]
    {
        let log = warpfold_sim_driver::record_calls();
        assert_eq!(reducer.reduce(op::Sum, &segments).unwrap(), [6, 18]);
        assert_eq!(log.count("cuModuleLoadDataEx"), 0);
    }
}

#[test]
fn segments_of_one_length_are_the_rows_of_a_matrix() {
    let reducer = warpfold::Reducer::new(device()).unwrap();
    let values: Vec<f32> = small::<f32>(3001, 3).into_iter().map(|value| value / 3.0).collect();
    let buffer = device().upload(&values).unwrap();
    let offsets: Vec<u32> = (0..=100).map(|at| 1 + at * 30).collect();
    let segments = reducer.segments(&buffer, &device().upload(&offsets).unwrap()).unwrap();
    let rows = buffer.slice(1..).unwrap();
    reducer.prepare(op::Sum, rows.rows(30).unwrap()).unwrap();
    #[cfg(feature = "simulator")]
    let log = warpfold_sim_driver::record_calls();
    let sums = reducer.reduce(op::Sum, &segments).unwrap();
    #[cfg(feature = "simulator")]
    assert_eq!(log.count("cuModuleLoadDataEx"), 0);
    assert_eq!(sums, reducer.reduce(op::Sum, rows.rows(30).unwrap()).unwrap());
}

#[test]
#[cfg(feature = "simulator")]
fn arguments_of_another_device_are_refused() {
    let other = crate::devices::in_own_context(warpfold_sim_driver::driver());
    let both = [device(), &other];
    let [here, there] = both.map(|device| device.upload(&[1, 2, 3, 4]).unwrap());
    let [near, far] = both.map(|device| device.upload(&[0_u32, 4]).unwrap());
    let is_other = |error: Error, expected: &str| {
        assert!(matches!(error, Error::OtherDevice { what, .. } if what == expected), "{error:?}");
    };
    is_other(reducer().segments(&there, &near).unwrap_err(), "buffer");
    is_other(reducer().segments(&here, &far).unwrap_err(), "offsets");
    let theirs = warpfold::Reducer::new(&other).unwrap().segments(&there, &far).unwrap();
    is_other(reducer().reduce(op::Sum, &theirs).unwrap_err(), "buffer");
    let ours = reducer().segments(&here, &near).unwrap();
    let (stream, mut outputs) = (other.stream().unwrap(), device().outputs::<i64>(1).unwrap());
    let on = reducer().on(&stream);
    is_other(on.reduce_into(op::Sum, &ours, &mut outputs).unwrap_err(), "stream");
    let (stream, mut outputs) = (device().stream().unwrap(), other.outputs::<i64>(1).unwrap());
    let on = reducer().on(&stream);
    is_other(on.reduce_into(op::Sum, &ours, &mut outputs).unwrap_err(), "outputs");
}
