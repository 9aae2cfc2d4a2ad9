//! Reductions of the elements inside an interval.

use std::ops::{
    Bound::{self, Excluded, Included, Unbounded},
    RangeBounds,
};

use warpfold::{
    Buffer, Element, Error, Output, Reducer, Within, bf16, cpu, f16,
    internal::{Blocks, Choice, KernelKind, PtxSource, Tuning, reducer as reducer_with},
    op,
};

use crate::{
    common::{Sample, device, no_findings, reducer, says, small, splitmix},
    devices::own_context,
};

trait Bounded: Sample {
    /// The extremes of the type, their neighbours and those of zero, in ascending order.
    const SPECIAL: &'static [Self];
    /// A value that is in no interval, if there is one.
    const NAN: Option<Self>;
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
        impl Bounded for $ty {
            const SPECIAL: &'static [Self] = &[
                Self::MIN, Self::MIN + 1, Self::MAX / 2, Self::MAX / 2 + 1, Self::MAX - 1, Self::MAX,
            ];
            const NAN: Option<Self> = None;
        }
    )*};
}

macro_rules! floats {
    ($($ty:ident: $bits:ident;)*) => {$(
        impl Bounded for $ty {
            /// Includes the smallest subnormal numbers and one more.
            const SPECIAL: &'static [Self] = {
                const SIGN: $bits = 1 << ($bits::BITS - 1);
                &[
                    Self::NEG_INFINITY, Self::MIN, Self::from_bits(SIGN | 3), Self::from_bits(SIGN | 1),
                    Self::from_bits(SIGN), Self::from_bits(0), Self::from_bits(1), Self::from_bits(3),
                    Self::MAX, Self::INFINITY,
                ]
            };
            const NAN: Option<Self> = Some(Self::NAN);
        }
    )*};
}

integers! { i8 u8 i16 u16 i32 u32 i64 u64 }
floats! { f16: u16; bf16: u16; f32: u32; f64: u64; }

/// Returns whether a range contains an element; NaN is excluded, even from an unbounded range.
fn contains<T: Sample>(range: &impl RangeBounds<T>, value: &T) -> bool {
    !value.is_nan() && range.contains(value)
}

fn expected<T: Sample>(range: &impl RangeBounds<T>, values: &[T]) -> Within<T::Sum> {
    let inside: Vec<T> = values.iter().copied().filter(|value| contains(range, value)).collect();
    Within::new(inside.len() as u64, T::total(&inside, false))
}

#[track_caller]
fn same<S: Sample>(found: Within<S>, expected: Within<S>, what: &str) {
    assert_eq!(found.count, expected.count, "count of {what}");
    let nan = found.sum.is_nan() && expected.sum.is_nan();
    assert!(nan || found.sum == expected.sum, "{:?}, not {:?}: {what}", found.sum, expected.sum);
}

#[track_caller]
fn check<T: Sample<Sum: Sample>>(
    reducer: &Reducer,
    range: (Bound<T>, Bound<T>),
    values: &[T],
    buffer: &Buffer<T>,
) {
    let what = format!("{range:?} of {} {}", values.len(), std::any::type_name::<T>());
    let expected = expected(&range, values);
    same(reducer.reduce(op::Sum, buffer.filter(range)).unwrap(), expected, &what);
    same(cpu::reduce_within(range, values).unwrap(), expected, &format!("{what} on the CPU"));
}

fn mixed<T: Bounded>(n: usize, seed: u64) -> Vec<T> {
    let mut values = small::<T>(n, seed);
    for (index, value) in values.iter_mut().enumerate() {
        let bits = splitmix(seed + 7 * index as u64);
        match (bits % 16, T::NAN) {
            (0, Some(nan)) => *value = nan,
            (0 | 1, _) => *value = T::of(0),
            _ => {}
        }
    }
    values
}

/// Returns a reducer with few threads, which the simulator runs fast.
fn small_blocks(blocks: u32) -> Reducer {
    let choice = Choice { kernel: KernelKind::Grid, block: 128, blocks: Blocks::Total(blocks) };
    reducer_with(device(), PtxSource::from_environment(), Tuning::fixed(choice).unwrap(), 2)
}

fn of_any_length<T: Bounded<Sum: Sample>>() {
    let ranges = [
        (Unbounded, Unbounded),
        (Included(T::of(2)), Included(T::of(5))),
        (Excluded(T::of(2)), Excluded(T::of(5))),
        (Included(T::of(0)), Included(T::of(0))),
        (Included(T::of(1)), Unbounded),
        (Unbounded, Excluded(T::of(1))),
    ];
    for n in [0, 1, 31, 1000] {
        for start in [0, 1, 16 / size_of::<T>() - 1] {
            let values = mixed::<T>(start + n, 3);
            let buffer = device().upload(&values).unwrap().slice(start..).unwrap();
            for range in ranges {
                check(reducer(), range, &values[start..], &buffer);
            }
        }
    }
}

#[test]
fn every_type_and_length_is_right() {
    let _checked = no_findings();
    for_every_type!(of_any_length());
}

fn of_many<T: Bounded<Sum: Sample>>(reducer: &Reducer) {
    let values = mixed::<T>(65_537, 5);
    let buffer = device().upload(&values).unwrap();
    check(reducer, (Included(T::of(1)), Included(T::of(6))), &values, &buffer);
    let buffer = buffer.slice(3..).unwrap();
    check(reducer, (Unbounded, Excluded(T::of(3))), &values[3..], &buffer);
}

#[test]
fn long_buffers_are_right() {
    let few = small_blocks(7);
    for_every_type!(of_many(reducer()));
    of_many::<u8>(&few);
    of_many::<f32>(&few);
    of_many::<i64>(&few);
}

/// Each special value occurs at every position of a vector, before the vectors and after them.
fn at_the_ends<T: Bounded<Sum: Sample>>() {
    let special: Vec<T> = T::SPECIAL.iter().copied().chain(T::NAN).collect();
    let values: Vec<T> = special.iter().copied().cycle().take(16 * special.len() + 5).collect();
    let buffer = device().upload(&values).unwrap().slice(1..).unwrap();
    let values = &values[1..];
    for (at, &low) in T::SPECIAL.iter().enumerate() {
        for &high in &T::SPECIAL[at..] {
            for range in [
                (Included(low), Included(high)),
                (Excluded(low), Excluded(high)),
                (Excluded(low), Unbounded),
                (Unbounded, Excluded(high)),
            ] {
                check_counts(range, values, &buffer);
            }
        }
    }
}

/// Checks counts like [`check`]. For floats it omits sums, which round or overflow with the largest
/// elements.
#[track_caller]
fn check_counts<T: Bounded<Sum: Sample>>(range: (Bound<T>, Bound<T>), values: &[T], buffer: &Buffer<T>) {
    let what = format!("{range:?} of {} {}", values.len(), std::any::type_name::<T>());
    if T::NAN.is_none() {
        return check(reducer(), range, values, buffer);
    }
    let (found, here) = (
        reducer().reduce(op::Sum, buffer.filter(range)).unwrap(),
        cpu::reduce_within(range, values).unwrap(),
    );
    let inside = values.iter().filter(|&value| contains(&range, value)).count() as u64;
    assert_eq!((found.count, here.count), (inside, inside), "{what}");
}

#[test]
fn intervals_at_the_limits_of_a_type_are_exact() {
    let _checked = no_findings();
    for_every_type!(at_the_ends());
}

#[test]
fn bytes_are_right_in_every_interval() {
    fn check_all<T: Bounded<Sum: Sample>>(of: fn(u8) -> T) {
        let values: Vec<T> = (0..=u8::MAX).map(of).collect();
        let buffer = device().upload(&values).unwrap();
        for low in (0..=u8::MAX).step_by(15) {
            for high in (0..=u8::MAX).step_by(17) {
                check(reducer(), (Included(of(low)), Included(of(high))), &values, &buffer);
            }
        }
    }
    check_all::<u8>(|byte| byte);
    check_all::<i8>(|byte| byte.cast_signed());
}

#[test]
fn infinities_and_nan_outside_are_ignored() {
    const INF: f32 = f32::INFINITY;
    let mut values = vec![0.5_f32; 1003];
    for (at, value) in [(0, f32::NAN), (500, INF), (700, -INF), (1002, f32::NAN)] {
        values[at] = value;
    }
    let buffer = device().upload(&values).unwrap();
    let of = |range: (Bound<f32>, Bound<f32>)| reducer().reduce(op::Sum, buffer.filter(range)).unwrap();
    let finite = of((Excluded(-INF), Excluded(INF)));
    assert_eq!(finite, Within::new(999, 499.5));
    assert_eq!(of((Excluded(-INF), Unbounded)), Within::new(1000, INF));
    assert_eq!(of((Unbounded, Excluded(INF))), Within::new(1000, -INF));
    let all = of((Unbounded, Unbounded));
    assert!(all.count == 1001 && all.sum.is_nan());
    assert_eq!(finite.mean(), Some(0.5));
    assert_eq!(of((Included(1.0), Included(2.0))).mean(), None);
}

#[test]
fn integers_wrap_around_in_64_bits_alone() {
    fn of_repeated<T: Bounded<Sum: Sample>>(value: T) {
        let values = vec![value; 70_001];
        let buffer = device().upload(&values).unwrap();
        check(reducer(), (Included(value), Included(value)), &values, &buffer);
        check(reducer(), (Unbounded, Unbounded), &values[1..], &buffer.slice(1..).unwrap());
    }
    of_repeated(i8::MIN);
    of_repeated(u8::MAX);
    of_repeated(i32::MIN);
    of_repeated(u32::MAX);
    of_repeated(i64::MIN);
    of_repeated(u64::MAX);
}

#[test]
fn ranges_of_every_kind_are_taken() {
    let buffer = device().upload(&[5_i32, 1, -3, 8, 2]).unwrap();
    let (reducer, within) = (reducer(), |count, sum| Within::new(count, sum));
    assert_eq!(reducer.reduce(op::Sum, buffer.filter(..)).unwrap(), within(5, 13));
    assert_eq!(reducer.reduce(op::Sum, buffer.filter(1..5)).unwrap(), within(2, 3));
    assert_eq!(reducer.reduce(op::Sum, buffer.filter(1..=5)).unwrap(), within(3, 8));
    assert_eq!(reducer.reduce(op::Sum, buffer.filter(2..)).unwrap(), within(3, 15));
    assert_eq!(reducer.reduce(op::Sum, buffer.filter(..2)).unwrap(), within(2, -2));
    assert_eq!(reducer.reduce(op::Sum, buffer.filter(..=2)).unwrap(), within(3, 0));
    assert_eq!(reducer.reduce(op::Sum, buffer.filter((Excluded(1), Unbounded))).unwrap(), within(3, 15));
    let (start, end) = (5, 1);
    assert_eq!(reducer.reduce(op::Sum, buffer.filter(start..end)).unwrap(), within(0, 0));
}

#[test]
fn float_results_are_accurate_and_repeatable() {
    let values: Vec<f32> = (0..40_003).map(|i| (i as f32 * 0.7).sin()).collect();
    let buffer = device().upload(&values).unwrap();
    let inside = || values.iter().filter(|value| (-0.25..0.75).contains(*value)).map(|&v| f64::from(v));
    let found = reducer().reduce(op::Sum, buffer.filter(-0.25..0.75)).unwrap();
    let off = (f64::from(found.sum) - inside().sum::<f64>()).abs();
    assert!(
        off <= reducer().error_bound(op::Sum, &buffer).unwrap() * inside().map(f64::abs).sum::<f64>()
    );
    let again = reducer().reduce(op::Sum, buffer.filter(-0.25..0.75)).unwrap();
    assert_eq!((again.count, again.sum.to_bits()), (found.count, found.sum.to_bits()));
    let here = cpu::reduce_within(-0.25..0.75, &values).unwrap();
    assert_eq!(here, Within::new(found.count, inside().sum::<f64>() as f32));
}

#[test]
fn intervals_reduce_on_streams_and_into_device_memory() {
    let _checked = no_findings();
    let stream = device().stream().unwrap();
    let values = small::<i32>(1003, 1);
    let buffer = device().upload(&values).unwrap();
    let pending = reducer().on(&stream).reduce(op::Sum, buffer.filter(-2..=5)).unwrap();
    let none = reducer().on(&stream).reduce(op::Sum, buffer.filter(3..3)).unwrap();
    // Pending reductions keep their elements alive.
    drop(buffer);
    assert_eq!(pending.wait().unwrap(), expected(&(-2..=5), &values));
    assert_eq!(none.wait().unwrap(), Within::new(0, 0));

    let mut output: Output<Within<i64>> = device().output().unwrap();
    let buffer = device().upload(&values).unwrap();
    reducer().on(&stream).reduce_into(op::Sum, buffer.filter(1..), &mut output).unwrap();
    let empty = buffer.slice(..0).unwrap();
    drop(buffer);
    assert_eq!(output.read().unwrap(), expected(&(1..), &values));
    reducer().on(&stream).reduce_into(op::Sum, empty.filter(..), &mut output).unwrap();
    assert_eq!(output.read().unwrap(), Within::new(0, 0));
}

#[test]
fn results_are_waited_for_before_they_are_counted() {
    let (stream, other) = (device().stream().unwrap(), device().stream().unwrap());
    let values = small::<i32>(64, 9);
    let matrix = device().upload(&values).unwrap();
    // A separate reducer, because a shared workspace would serialize the two.
    let theirs = Reducer::new(device()).unwrap();
    let sums = || {
        let mut sums = device().outputs::<i64>(8).unwrap();
        theirs.on(&stream).reduce_into(op::Sum, matrix.rows(8).unwrap(), &mut sums).unwrap();
        sums.into_buffer()
    };
    let there: Vec<i64> = values.chunks(8).map(|row| i32::total(row, false)).collect();
    let expected = expected(&(-3..9), &there);
    let on = reducer().on(&other);
    assert_eq!(on.reduce(op::Sum, sums().filter(-3..9)).unwrap().wait().unwrap(), expected);
    let mut output = device().output().unwrap();
    on.reduce_into(op::Sum, sums().filter(-3..9), &mut output).unwrap();
    assert_eq!(output.read().unwrap(), expected);
    assert_eq!(reducer().reduce(op::Sum, sums().filter(-3..9)).unwrap(), expected);
}

#[test]
fn intervals_are_recorded() {
    let _checked = no_findings();
    let values = small::<u8>(5003, 1);
    let buffer = device().upload(&values).unwrap();
    let mut recorder = reducer().record();
    let sum = recorder.reduce(op::Sum, &buffer).unwrap();
    let within = recorder.reduce(op::Sum, buffer.filter(3..=6)).unwrap();
    let none = recorder.reduce(op::Sum, buffer.filter((Excluded(3), Excluded(4)))).unwrap();
    let mut recording = recorder.finish().unwrap();
    drop(buffer);
    for _ in 0..2 {
        let results = recording.run().unwrap();
        assert_eq!(results.get(&within), expected(&(3..=6), &values));
        assert_eq!(results.get(&none), Within::new(0, 0));
        assert_eq!(results.get(&sum), u8::total(&values, false));
    }
}

#[cfg(feature = "simulator")]
#[test]
fn host_reads_exactly_the_written_bytes() {
    fn check<T: Bounded>(device: &warpfold::Device, watch: &crate::results::Watch) {
        let (reducer, stream) = (Reducer::new(device).unwrap(), device.stream().unwrap());
        let values = device.upload(&small::<T>(1000, 3)).unwrap();
        // The count, the sum in two words, and the mean.
        let both = 32;
        reducer.reduce(op::Sum, values.filter(..)).unwrap();
        reducer.on(&stream).reduce(op::Sum, values.filter(..)).unwrap().wait().unwrap();
        let mut recorder = reducer.record();
        let _within = recorder.reduce(op::Sum, values.filter(..)).unwrap();
        recorder.finish().unwrap().run().unwrap();
        assert_eq!(watch.taken(), [both; 3], "{}", std::any::type_name::<T>());
    }
    let (device, watch) = crate::results::watched();
    check::<f16>(&device, &watch);
    check::<u8>(&device, &watch);
    check::<f64>(&device, &watch);
}

/// Reads of other threads' data are ordered after the writes, between warps and between blocks; and each
/// result is written once.
#[cfg(feature = "simulator")]
#[test]
fn no_kernel_has_a_hazard() {
    crate::results::without_hazards(|device| {
        fn check<T: Bounded<Sum: Sample>>(device: &warpfold::Device) {
            let reducer = Reducer::new(device).unwrap();
            let values = mixed::<T>(40_003, 15);
            let buffer = device.upload(&values).unwrap().slice(1..).unwrap();
            let range = (Included(T::of(2)), Excluded(T::of(6)));
            let found = reducer.reduce(op::Sum, buffer.filter(range)).unwrap();
            same(found, expected(&range, &values[1..]), "watched");
        }
        check::<i8>(device);
        check::<f16>(device);
        check::<f64>(device);
    });
}

#[test]
fn invalid_interval_is_refused_without_writes() {
    fn refused(error: Error, words: &[&str]) {
        assert!(matches!(error, Error::Interval { .. }), "{error:?}");
        says(&error, words);
    }
    let (stream, values) = (device().stream().unwrap(), device().upload(&[1.0_f32, 2.0]).unwrap());
    let mut output = device().output().unwrap();
    let on = reducer().on(&stream);
    on.reduce_into(op::Sum, values.filter(..), &mut output).unwrap();
    let nan = f32::NAN;
    refused(reducer().reduce(op::Sum, values.filter(nan..)).unwrap_err(), &["lower end", "NaN"]);
    refused(reducer().reduce(op::Sum, values.filter(..nan)).unwrap_err(), &["upper end", "NaN"]);
    refused(on.reduce(op::Sum, values.filter(1.0..=nan)).unwrap_err(), &["upper end"]);
    refused(on.reduce_into(op::Sum, values.filter(nan..1.0), &mut output).unwrap_err(), &["lower end"]);
    refused(reducer().record().reduce(op::Sum, values.filter(nan..)).unwrap_err(), &["lower end"]);
    refused(cpu::reduce_within(nan.., &[1.0_f32]).unwrap_err(), &["lower end"]);
    let halves = device().upload(&[f16::ONE]).unwrap();
    refused(reducer().reduce(op::Sum, halves.filter(f16::NAN..)).unwrap_err(), &["lower end"]);
    refused(
        reducer().reduce(op::Sum, values.slice(..0).unwrap().filter(nan..)).unwrap_err(),
        &["lower end"],
    );
    assert_eq!(output.read().unwrap(), Within::new(2, 3.0));
}

#[test]
fn intervals_of_another_device_are_refused() {
    fn refused(error: Error, what: &str) {
        assert!(matches!(error, Error::OtherDevice { .. }), "{error:?}");
        says(&error, &[what]);
    }
    let other = own_context();
    let (here, there) = (device().upload(&[1_u8]).unwrap(), other.upload(&[1_u8]).unwrap());
    refused(reducer().reduce(op::Sum, there.filter(..)).unwrap_err(), "buffer");
    refused(reducer().record().reduce(op::Sum, there.filter(..)).unwrap_err(), "buffer");
    let (stream, mut output) = (device().stream().unwrap(), other.output().unwrap());
    refused(
        reducer().on(&stream).reduce_into(op::Sum, here.filter(..), &mut output).unwrap_err(),
        "output",
    );
    let stream = other.stream().unwrap();
    refused(reducer().on(&stream).reduce(op::Sum, here.filter(..)).unwrap_err(), "stream");
}

#[test]
fn the_kernel_is_loaded_ahead() {
    let reducer = Reducer::new(device()).unwrap();
    let values = device().upload(&[bf16::ONE]).unwrap();
    reducer.prepare(op::Sum, values.filter(..)).unwrap();
    let found = reducer.reduce(op::Sum, values.filter(..)).unwrap();
    assert_eq!(found, Within::new(1, <bf16 as Element>::Sum::from(1_u8)));
}
