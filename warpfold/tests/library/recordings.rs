//! Recordings: replays of every operation and type, and misuse.

use std::{fmt::Debug, mem};

use warpfold::{
    Buffer, Ends, Error, Located, Outputs, Recorded, RecordedOutputs, Recorder, Reducer, Segments,
    Spread, Stream, bf16, f16,
    op::{self, RowsOperation},
};
use warpfold_driver::{Context, Stream as RawStream};

use crate::{
    common::{Sample, device, driver, extreme, no_findings, reducer, says, small},
    devices::{in_own_context, own_context},
};

fn recorded<T: Sample>() {
    let values = small::<T>(10_007, 4);
    let buffer = device().upload(&values).unwrap();
    let odd = buffer.slice(3..9000).unwrap();
    let nothing = buffer.slice(5..5).unwrap();
    let mut recorder = reducer().record();
    let sum = recorder.reduce(op::Sum, &buffer).unwrap();
    let squares = recorder.reduce(op::SumOfSquares, &odd).unwrap();
    let (min, max) =
        (recorder.reduce(op::Min, &buffer).unwrap(), recorder.reduce(op::Max, &odd).unwrap());
    let (arg_min, arg_max) =
        (recorder.reduce(op::ArgMin, &odd).unwrap(), recorder.reduce(op::ArgMax, &buffer).unwrap());
    let (no_sum, no_min) =
        (recorder.reduce(op::Sum, &nothing).unwrap(), recorder.reduce(op::Min, &nothing).unwrap());
    let mut recording = recorder.finish().unwrap();
    assert_eq!(recording.len(), 8);
    // The recording keeps the elements alive.
    drop((buffer, odd, nothing));
    let stream = device().stream().unwrap();
    for turn in 0..3 {
        let results = if turn == 1 {
            recording.launch(&stream).unwrap().wait().unwrap()
        } else {
            recording.run().unwrap()
        };
        let part = &values[3..9000];
        assert_eq!(results.get(&sum), T::total(&values, false));
        assert_eq!(results.get(&squares), T::total(part, true));
        assert_eq!(results.get(&min), extreme(&values, false).map(|one| one.value));
        assert_eq!(results.get(&max), extreme(part, true).map(|one| one.value));
        assert_eq!(results.get(&arg_min), extreme(part, false));
        assert_eq!(results.get(&arg_max), extreme(&values, true));
        assert_eq!((results.get(&no_sum), results.get(&no_min)), (T::total(&[], false), None));
    }
}

#[test]
fn every_operation_of_every_type_may_be_recorded() {
    let _checked = no_findings();
    for_every_type!(recorded());
}

/// Elements as rows, along an axis that is not the last, and in segments.
struct Cut<T> {
    buffer: Buffer<T>,
    segments: Segments<T>,
}

/// A recorded operation's results on the host and in device memory.
struct OfCut<R> {
    found: [Recorded<Vec<R>>; 4],
    left: [RecordedOutputs<Outputs<R>>; 3],
    expected: [Vec<R>; 4],
}

impl<T: Sample> Cut<T> {
    fn new() -> Self {
        let buffer = device().upload(&small::<T>(3001, 4)).unwrap().slice(1..).unwrap();
        let offsets = device().upload(&[0_u32, 0, 40, 40, 2000, 2999]).unwrap();
        let segments = reducer().segments(&buffer, &offsets).unwrap();
        Self { buffer, segments }
    }

    fn record<O: RowsOperation<T>>(&self, op: O, recorder: &mut Recorder) -> OfCut<O::Left> {
        let Self { buffer, segments } = self;
        let (rows, one) = (buffer.rows(30).unwrap(), buffer.rows(3000).unwrap());
        let axis = buffer.axis(&[10, 30, 10], 1).unwrap();
        let outputs = |count| device().outputs(count).unwrap();
        OfCut {
            found: [
                recorder.reduce(op, &rows).unwrap(),
                recorder.reduce(op, &one).unwrap(),
                recorder.reduce(op, &axis).unwrap(),
                recorder.reduce(op, segments).unwrap(),
            ],
            left: [
                recorder.reduce_into(op, &rows, outputs(100)).unwrap(),
                recorder.reduce_into(op, &axis, outputs(100)).unwrap(),
                recorder.reduce_into(op, segments, outputs(5)).unwrap(),
            ],
            expected: [
                reducer().reduce(op, &rows).unwrap(),
                reducer().reduce(op, &one).unwrap(),
                reducer().reduce(op, &axis).unwrap(),
                reducer().reduce(op, segments).unwrap(),
            ],
        }
    }
}

/// Compares printed results, because those of an empty segment may be NaN.
fn check<R: warpfold::Outcome>(results: &warpfold::Results<'_>, of: &OfCut<R>) {
    let OfCut { found, left, expected } = of;
    let same = |found: &dyn Debug, expected: &dyn Debug| {
        assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    };
    for (found, expected) in found.iter().zip(expected) {
        same(&results.get(found), expected);
    }
    for (left, expected) in left.iter().zip([&expected[0], &expected[2], &expected[3]]) {
        same(&results.outputs(left).read().unwrap(), expected);
    }
}

fn recorded_in_pieces<T: Sample>() {
    let (cut, mut recorder) = (Cut::<T>::new(), reducer().record());
    let sums: OfCut<T::Sum> = cut.record(op::Sum, &mut recorder);
    let places: OfCut<Located<T>> = cut.record(op::ArgMin, &mut recorder);
    let ends: OfCut<Ends<T>> = cut.record(op::MinMax, &mut recorder);
    let mut recording = recorder.finish().unwrap();
    drop(cut);
    let stream = device().stream().unwrap();
    for turn in 0..3 {
        let results = if turn == 1 {
            recording.launch(&stream).unwrap().wait().unwrap()
        } else {
            recording.run().unwrap()
        };
        check(&results, &sums);
        check(&results, &places);
        check(&results, &ends);
    }
}

#[test]
fn rows_axes_and_segments_may_be_recorded() {
    let _checked = no_findings();
    recorded_in_pieces::<i8>();
    recorded_in_pieces::<u16>();
    recorded_in_pieces::<bf16>();
    recorded_in_pieces::<f64>();
}

#[test]
fn every_operation_on_rows_may_be_recorded() {
    let _checked = no_findings();
    let (cut, mut recorder) = (Cut::<f32>::new(), reducer().record());
    let (squares, magnitudes) =
        (cut.record(op::SumOfSquares, &mut recorder), cut.record(op::SumOfMagnitudes, &mut recorder));
    let (product, log) =
        (cut.record(op::Product, &mut recorder), cut.record(op::LogSumExp, &mut recorder));
    let (min, max) = (cut.record(op::Min, &mut recorder), cut.record(op::Max, &mut recorder));
    let place = cut.record(op::ArgMax, &mut recorder);
    let spread: OfCut<Spread> = cut.record(op::MeanAndVariance, &mut recorder);
    let (non_zero, everywhere) =
        (cut.record(op::CountNonZero, &mut recorder), cut.record(op::Sum.reproducible(), &mut recorder));
    let cut = Cut::<u32>::new();
    let bits = [
        cut.record(op::BitAnd, &mut recorder),
        cut.record(op::BitOr, &mut recorder),
        cut.record(op::BitXor, &mut recorder),
    ];
    let mut recording = recorder.finish().unwrap();
    let results = recording.run().unwrap();
    for of_sums in [&squares, &magnitudes, &product, &log, &min, &max, &everywhere] {
        check(&results, of_sums);
    }
    check(&results, &place);
    check(&results, &spread);
    check(&results, &non_zero);
    bits.iter().for_each(|bits| check(&results, bits));
}

#[test]
fn no_rows_are_recorded_as_no_results() {
    let nothing = device().upload::<f16>(&[]).unwrap();
    let (rows, outputs) = (nothing.rows(3).unwrap(), device().outputs(0).unwrap());
    let mut recorder = reducer().record();
    let found = recorder.reduce(op::Max, &rows).unwrap();
    let left = recorder.reduce_into(op::Sum, &rows, outputs).unwrap();
    let mut recording = recorder.finish().unwrap();
    let results = recording.run().unwrap();
    assert!(results.get(&found).is_empty() && results.outputs(&left).is_empty());
}

/// Pending writes to outputs are finished before the outputs are handed over.
#[test]
fn given_outputs_hold_the_results_of_the_last_replay() {
    let _checked = no_findings();
    let (values, stream) = (small::<i32>(300, 4), device().stream().unwrap());
    let buffer = device().upload(&values).unwrap();
    let mut outputs = device().outputs(3).unwrap();
    let address = outputs.as_device_ptr();
    // A separate reducer, because querying pending work would run it.
    let other = Reducer::new(device()).unwrap();
    other.on(&stream).reduce_into(op::SumOfSquares, buffer.rows(100).unwrap(), &mut outputs).unwrap();
    let mut recorder = reducer().record();
    let sums = recorder.reduce_into(op::Sum, buffer.rows(100).unwrap(), outputs).unwrap();
    let mut recording = recorder.finish().unwrap();
    let results = recording.run().unwrap();
    stream.synchronize().unwrap();
    let outputs = results.outputs(&sums);
    let expected: Vec<i64> = values.chunks(100).map(|row| i32::total(row, false)).collect();
    assert_eq!((outputs.as_device_ptr(), outputs.read().unwrap()), (address, expected));
}

/// A leaked replay keeps its offsets and outputs alive, and the next one follows it.
#[test]
fn leaked_replay_keeps_its_offsets_and_outputs_alive() {
    let _checked = no_findings();
    let stream = device().stream().unwrap();
    let mut recorder = reducer().record();
    let _ = Cut::<i32>::new().record(op::Sum, &mut recorder);
    let mut recording = recorder.finish().unwrap();
    mem::forget(recording.launch(&stream).unwrap());
    drop(recording);
    stream.synchronize().unwrap();
}

#[test]
fn outputs_that_do_not_fit_are_refused() {
    let Cut { buffer, segments } = &Cut::<i32>::new();
    let mut recorder = reducer().record();
    let refused = |error: Error, words: &[&str]| {
        assert_eq!(error.to_string().lines().count(), 1);
        says(&error, words);
    };
    let outputs = |count| device().outputs::<i64>(count).unwrap();
    let rows = buffer.rows(30).unwrap();
    let error = recorder.reduce_into(op::Sum, &rows, outputs(99)).unwrap_err();
    refused(error, &["99 results", "100 rows", "outputs for 100"]);
    let axis = buffer.columns(3).unwrap();
    let error = recorder.reduce_into(op::Sum, &axis, outputs(4)).unwrap_err();
    refused(error, &["4 results", "3 results of an axis", "outputs for 3"]);
    let error = recorder.reduce_into(op::Sum, segments, outputs(6)).unwrap_err();
    refused(error, &["6 results", "5 segments", "outputs for 5"]);
    let elsewhere = own_context();
    let error = recorder.reduce_into(op::Sum, &rows, elsewhere.outputs(100).unwrap()).unwrap_err();
    refused(error, &["expected the outputs on ", "use one device"]);
    let there = elsewhere.upload(&[1_i32]).unwrap();
    let error = recorder.reduce(op::Sum, there.rows(1).unwrap()).unwrap_err();
    refused(error, &["expected the buffer on ", "use one device"]);
    assert!(recorder.finish().unwrap().is_empty());
}

#[test]
fn a_recording_runs_on_after_replays_were_dropped_and_leaked() {
    let _checked = no_findings();
    let values = small::<i32>(100_003, 7);
    let mut recorder = reducer().record();
    let sum = recorder.reduce(op::Sum, &device().upload(&values).unwrap()).unwrap();
    let mut recording = recorder.finish().unwrap();
    let streams = [device().stream().unwrap(), device().stream().unwrap()];
    drop(recording.launch(&streams[0]).unwrap());
    for stream in &streams {
        mem::forget(recording.launch(stream).unwrap());
    }
    assert_eq!(recording.run().unwrap().get(&sum), i32::total(&values, false));
    // The leaked replays had completed before this one began.
    assert!(streams.iter().all(is_done));
    let pending = recording.launch(&streams[1]).unwrap();
    while !pending.is_ready().unwrap() {}
    assert_eq!(pending.wait().unwrap().get(&sum), i32::total(&values, false));
}

fn is_done(stream: &Stream) -> bool {
    let context = Context::from_raw(stream.device().as_raw_context().cast());
    // SAFETY: the context and the stream are alive.
    unsafe {
        driver().ctx_push_current(context).unwrap();
        let done = driver().stream_query(RawStream::from_raw(stream.as_raw().cast())).unwrap();
        driver().ctx_pop_current().unwrap();
        done
    }
}

#[test]
fn recording_drop_waits_for_dropped_replays() {
    let _checked = no_findings();
    let mut recorder = reducer().record();
    let _ = recorder.reduce(op::Sum, &device().upload(&small::<i32>(1000, 7)).unwrap()).unwrap();
    let mut recording = recorder.finish().unwrap();
    let stream = device().stream().unwrap();
    drop(recording.launch(&stream).unwrap());
    drop(recording);
    stream.synchronize().unwrap();
}

#[test]
fn empty_recording_is_valid() {
    let recorder = reducer().record();
    let mut recording = recorder.finish().unwrap();
    assert!(recording.is_empty() && recording.run().unwrap().is_empty());
}

#[test]
fn a_recording_has_as_many_results_as_reductions() {
    let buffer = device().upload(&[200_u8, 100]).unwrap();
    let mut recorder = reducer().record();
    let sums = [(); 3].map(|()| recorder.reduce(op::WrappingSum, &buffer).unwrap());
    let mut recording = recorder.finish().unwrap();
    assert!(recording.len() == 3 && !recording.is_empty());
    let results = recording.run().unwrap();
    assert!(results.len() == 3 && !results.is_empty());
    assert_eq!(sums.map(|sum| results.get(&sum)), [44; 3]);
}

#[test]
fn for_no_elements_nothing_is_loaded_recorded_or_launched() {
    let device = in_own_context(warpfold_sim_driver::driver());
    let reducer = Reducer::new(&device).unwrap();
    let (some, none) = (device.upload(&[3_u8, 4]).unwrap(), device.upload::<u8>(&[]).unwrap());
    let made = |run: &dyn Fn()| {
        let log = warpfold_sim_driver::record_calls();
        run();
        let loading = log.count("cuModuleLoadDataEx") + log.count("cuStreamBeginCapture_v2");
        (
            loading,
            log.count("cuLaunchKernelEx") + log.count("cuLaunchKernel"),
            log.count("cuGraphLaunch"),
        )
    };
    let recorded = |buffers: &[&Buffer<u8>], expected: u64| {
        let mut recorder = reducer.record();
        let sums: Vec<_> =
            buffers.iter().map(|buffer| recorder.reduce(op::Sum, *buffer).unwrap()).collect();
        let mut recording = recorder.finish().unwrap();
        let results = recording.run().unwrap();
        assert_eq!(sums.iter().map(|sum| results.get(sum)).sum::<u64>(), expected);
    };
    assert_eq!(made(&|| recorded(&[&none, &none], 0)), (0, 0, 0));
    let all_ways = || {
        let stream = device.stream().unwrap();
        assert_eq!((reducer.sum(&none).unwrap(), reducer.min(&none).unwrap()), (0, None));
        assert_eq!(reducer.on(&stream).reduce(op::ArgMax, &none).unwrap().wait().unwrap(), None);
    };
    assert_eq!(made(&all_ways), (0, 0, 0));
    // Loads the kernels of one type, records once, launches the recorded kernel once, and replays once.
    assert_eq!(made(&|| recorded(&[&none, &some, &none], 7)), (2, 1, 1));
}

#[test]
#[should_panic(expected = "belongs to another recording")]
fn result_of_another_recording_panics() {
    let buffer = device().upload(&[1_u8, 2]).unwrap();
    let record = || {
        let mut recorder = reducer().record();
        let sum = recorder.reduce(op::Sum, &buffer).unwrap();
        (recorder.finish().unwrap(), sum)
    };
    let ((mut one, _), (_, other)) = (record(), record());
    let _ = one.run().unwrap().get(&other);
}

#[test]
#[should_panic(expected = "belongs to another recording")]
fn outputs_of_another_recording_panic() {
    let buffer = device().upload(&[1_u8, 2]).unwrap();
    let record = || {
        let mut recorder = reducer().record();
        let outputs = device().outputs(1).unwrap();
        let sum = recorder.reduce_into(op::Sum, buffer.rows(2).unwrap(), outputs).unwrap();
        (recorder.finish().unwrap(), sum)
    };
    let ((mut one, _), (_, other)) = (record(), record());
    let _ = one.run().unwrap().outputs(&other);
}

/// A launch reads its count from an output before a recording that took over the output writes it.
#[test]
fn recording_waits_for_readers_of_its_count() {
    let stream = device().stream().unwrap();
    let [two, seven] = [&[1_u8, 1][..], &[7]].map(|values| device().upload(values).unwrap());
    let mut count = device().output::<u64>().unwrap();
    reducer().on(&stream).reduce_into(op::Sum, &two, &mut count).unwrap();
    let values = device().upload(&[1_i32, 2, 4, 8]).unwrap();
    let sum = reducer().on(&stream).reduce(op::Sum, values.counted(&count.as_count())).unwrap();
    let mut recorder = reducer().record();
    let left = recorder.reduce_into(op::Sum, &seven, count).unwrap();
    let mut recording = recorder.finish().unwrap();
    let results = recording.run().unwrap();
    assert_eq!(results.outputs(&left).read().unwrap(), 7);
    assert_eq!(sum.wait().unwrap(), 3);
    // A replay's result is a count as well, and the next replay follows its reader.
    let outputs = results.outputs(&left);
    let counted = reducer().on(&stream).reduce(op::Sum, values.counted(&outputs.as_count())).unwrap();
    recording.run().unwrap();
    assert!(matches!(counted.wait().unwrap_err(), Error::CountTooLarge { count: 7, len: 4 }));
}
