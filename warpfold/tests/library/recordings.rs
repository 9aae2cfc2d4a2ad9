//! Recordings: results of every operation and type, as often as wanted, and what may be done wrong.

use std::mem;

use warpfold::{Buffer, Reducer, Stream};
use warpfold_driver::{Context, Stream as RawStream};

use crate::{
    common::{Sample, device, driver, extreme, no_findings, reducer, small},
    devices::in_own_context,
};

fn recorded<T: Sample>() {
    let values = small::<T>(10_007, 4);
    let buffer = device().upload(&values).unwrap();
    let odd = buffer.slice(3..9000).unwrap();
    let nothing = buffer.slice(5..5).unwrap();
    let mut recorder = reducer().record();
    let sum = recorder.sum(&buffer).unwrap();
    let squares = recorder.sum_of_squares(&odd).unwrap();
    let (min, max) = (recorder.min(&buffer).unwrap(), recorder.max(&odd).unwrap());
    let (arg_min, arg_max) = (recorder.arg_min(&odd).unwrap(), recorder.arg_max(&buffer).unwrap());
    let (no_sum, no_min) = (recorder.sum(&nothing).unwrap(), recorder.min(&nothing).unwrap());
    let mut recording = recorder.finish().unwrap();
    assert_eq!(recording.len(), 8);
    // What was recorded holds the elements.
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

#[test]
fn a_recording_runs_on_after_replays_were_dropped_and_leaked() {
    let _checked = no_findings();
    let values = small::<i32>(100_003, 7);
    let mut recorder = reducer().record();
    let sum = recorder.sum(&device().upload(&values).unwrap()).unwrap();
    let mut recording = recorder.finish().unwrap();
    let streams = [device().stream().unwrap(), device().stream().unwrap()];
    drop(recording.launch(&streams[0]).unwrap());
    for stream in &streams {
        mem::forget(recording.launch(stream).unwrap());
    }
    assert_eq!(recording.run().unwrap().get(&sum), i32::total(&values, false));
    // The leaked replays were over when this one began.
    assert!(streams.iter().all(is_done));
    let pending = recording.launch(&streams[1]).unwrap();
    while !pending.is_ready().unwrap() {}
    assert_eq!(pending.wait().unwrap().get(&sum), i32::total(&values, false));
}

/// Whether all that was enqueued on a stream is over; it is not waited for.
fn is_done(stream: &Stream) -> bool {
    let context = Context::from_raw(stream.device().as_raw_context().cast());
    // SAFETY: both are alive.
    unsafe {
        driver().ctx_push_current(context).unwrap();
        let done = driver().stream_query(RawStream::from_raw(stream.as_raw().cast())).unwrap();
        driver().ctx_pop_current().unwrap();
        done
    }
}

#[test]
fn a_replay_that_is_dropped_is_over_before_its_recording_goes() {
    let _checked = no_findings();
    let mut recorder = reducer().record();
    let _ = recorder.sum(&device().upload(&small::<i32>(1000, 7)).unwrap()).unwrap();
    let mut recording = recorder.finish().unwrap();
    let stream = device().stream().unwrap();
    drop(recording.launch(&stream).unwrap());
    drop(recording);
    stream.synchronize().unwrap();
}

#[test]
fn nothing_may_be_recorded() {
    let recorder = reducer().record();
    assert!(recorder.is_empty());
    let mut recording = recorder.finish().unwrap();
    assert!(recording.is_empty() && recording.run().unwrap().is_empty());
}

#[test]
fn a_recording_has_as_many_results_as_reductions() {
    let buffer = device().upload(&[200_u8, 100]).unwrap();
    let mut recorder = reducer().record();
    let sums = [(); 3].map(|()| recorder.wrapping_sum(&buffer).unwrap());
    assert!(recorder.len() == 3 && !recorder.is_empty());
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
        let sums: Vec<_> = buffers.iter().map(|buffer| recorder.sum(buffer).unwrap()).collect();
        let mut recording = recorder.finish().unwrap();
        let results = recording.run().unwrap();
        assert_eq!(sums.iter().map(|sum| results.get(sum)).sum::<u64>(), expected);
    };
    assert_eq!(made(&|| recorded(&[&none, &none], 0)), (0, 0, 0));
    let all_ways = || {
        let stream = device.stream().unwrap();
        assert_eq!((reducer.sum(&none).unwrap(), reducer.min(&none).unwrap()), (0, None));
        assert_eq!(reducer.on(&stream).arg_max(&none).unwrap().wait().unwrap(), None);
    };
    assert_eq!(made(&all_ways), (0, 0, 0));
    // The kernels of one type and a recording, the launch that is recorded, and the launch of that.
    assert_eq!(made(&|| recorded(&[&none, &some, &none], 7)), (2, 1, 1));
}

#[test]
#[should_panic(expected = "of another recording")]
fn a_result_of_another_recording_is_none_of_this_one() {
    let buffer = device().upload(&[1_u8, 2]).unwrap();
    let record = || {
        let mut recorder = reducer().record();
        let sum = recorder.sum(&buffer).unwrap();
        (recorder.finish().unwrap(), sum)
    };
    let ((mut one, _), (_, other)) = (record(), record());
    let _ = one.run().unwrap().get(&other);
}
