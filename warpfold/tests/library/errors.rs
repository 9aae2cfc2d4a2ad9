//! Every error that the driver may answer, at every call that the library makes of it.
//!
//! A run of the whole library is repeated as often as it makes driver calls, and each time another call
//! fails: once with an error that passes, once with one that loses the device. Whatever happens,
//! nothing panics, nothing is freed that pending work names, the error names the device and keeps the
//! driver's own words, and after one that passes the same reducer gives right results again.
//!
//! The simulator answers as it is told; a GPU does not, so that these are on the simulator wherever they
//! run.

use std::{error::Error as _, thread};

use crate::{
    common::{Sample, says, small},
    devices::in_own_context,
};
use warpfold::{Buffer, Device, Error, Located, Reducer, Result, Selection, Stream};
use warpfold_driver::{CallError, PtxError, sys};
use warpfold_sim_driver::{Fault, NoFindings, inject, memory_in_use, record_calls, take_findings};

fn own_context() -> Device {
    in_own_context(warpfold_sim_driver::driver())
}

/// A run of everything: what comes out must be right, or an error.
struct Run {
    reducer: Reducer,
    values: Vec<i32>,
    buffer: Buffer<i32>,
}

impl Run {
    fn new(device: &Device) -> Result<Self> {
        let values = small::<i32>(3001, 1);
        let buffer = device.upload(&values)?;
        Ok(Self { reducer: Reducer::new(device)?, values, buffer })
    }

    fn sum(&self) -> i64 {
        i32::total(&self.values, false)
    }

    fn all(&self) -> Result<()> {
        let device = self.buffer.device();
        assert_eq!(self.buffer.download()?, self.values);
        let stream = device.stream()?;
        self.waiting()?;
        self.enqueued(&stream)?;
        self.left_on_the_device(&stream)?;
        self.counted(&stream)?;
        self.rows(&stream)?;
        self.recorded(&stream)?;
        stream.synchronize()
    }

    fn waiting(&self) -> Result<()> {
        assert_eq!(self.reducer.sum(&self.buffer)?, self.sum());
        let largest = self.reducer.arg_max(&self.buffer)?;
        assert_eq!(largest, crate::common::extreme(&self.values, true));
        Ok(())
    }

    fn enqueued(&self, stream: &Stream) -> Result<()> {
        let (first, second) =
            (self.reducer.on(stream).sum(&self.buffer)?, self.reducer.on(stream).min(&self.buffer)?);
        let _ = first.is_ready()?;
        let third = self.reducer.on(stream).sum(&self.buffer.slice(1..)?)?;
        drop(second);
        assert_eq!(third.wait()?, self.sum() - i64::from(self.values[0]));
        assert_eq!(first.wait()?, self.sum());
        Ok(())
    }

    fn left_on_the_device(&self, stream: &Stream) -> Result<()> {
        let device = self.buffer.device();
        let mut located = device.output::<Located<i32>>()?;
        let copy = device.upload(&self.values)?;
        self.reducer.on(stream).arg_min_into(&copy, &mut located)?;
        drop(copy);
        let other = device.stream()?;
        self.reducer.on(&other).arg_max_into(&self.buffer, &mut located)?;
        other.wait_for(stream)?;
        assert_eq!(Some(located.read()?), crate::common::extreme(&self.values, true));
        let mut sum = device.output::<i64>()?;
        self.reducer.on(&other).sum_into(&self.buffer.slice(..0)?, &mut sum)?;
        assert_eq!(sum.read()?, 0);
        Ok(())
    }

    fn counted(&self, stream: &Stream) -> Result<()> {
        let device = self.buffer.device();
        let mut kept = device.output::<u64>()?;
        self.reducer.on(&device.stream()?).sum_into(&device.upload(&[1_u8; 77])?, &mut kept)?;
        let sum = self.reducer.on(stream).counted(&kept.as_count()).sum(&self.buffer)?;
        self.reducer.on(&device.stream()?).sum_into(&device.upload(&[1_u8; 78])?, &mut kept)?;
        assert_eq!(sum.wait()?, i32::total(&self.values[..77], false));
        assert_eq!(kept.read()?, 78);
        Ok(())
    }

    fn rows(&self, stream: &Stream) -> Result<()> {
        let device = self.buffer.device();
        let matrix = self.buffer.slice(1..)?;
        let rows = matrix.rows(30)?;
        let sums: Vec<i64> = self.values[1..].chunks(30).map(|row| i32::total(row, false)).collect();
        assert_eq!(self.reducer.sum_rows(&rows)?, sums);
        let mut outputs = device.outputs::<i64>(100)?;
        self.reducer.on(&device.stream()?).sum_rows_into(&rows, &mut outputs)?;
        self.reducer.on(stream).sum_rows_into(&rows, &mut outputs)?;
        assert_eq!(outputs.read()?, sums);
        let sums = outputs.into_buffer();
        let sum = self.reducer.on(&device.stream()?).sum(&sums)?;
        assert_eq!(sum.wait()?, self.sum() - i64::from(self.values[0]));
        let mut located = device.outputs::<Located<i32>>(1)?;
        self.reducer.on(stream).arg_max_rows_into(&self.buffer.rows(3001)?, &mut located)?;
        assert_eq!(
            located.read()?,
            [crate::common::extreme(&self.values, true).expect("there are some")]
        );
        Ok(())
    }

    fn recorded(&self, stream: &Stream) -> Result<()> {
        let mut recorder = self.reducer.record();
        let (sum, max) = (recorder.sum(&self.buffer)?, recorder.max(&self.buffer)?);
        let mut recording = recorder.finish()?;
        let results = recording.run()?;
        assert_eq!((results.get(&sum), results.get(&max)), (self.sum(), Some(7)));
        drop(recording.launch(stream)?);
        let results = recording.launch(stream)?.wait()?;
        assert_eq!(results.get(&sum), self.sum());
        Ok(())
    }
}

/// Every call of the driver that a run makes, by function and how often.
fn calls(run: impl FnOnce()) -> Vec<(&'static str, u64)> {
    let log = record_calls();
    run();
    log.calls()
}

fn fault(function: &str, call: u64, code: i32, sticky: bool) -> Fault<'_> {
    Fault { function, call, code, sticky }
}

/// The driver's own words, that an error keeps.
fn driver_error(error: &Error) -> &CallError {
    let source = error.source().unwrap_or_else(|| panic!("{error:?} has no source"));
    let ptx = source.downcast_ref::<PtxError>().map(|error| &error.error);
    source.downcast_ref().or(ptx).unwrap_or_else(|| panic!("{error:?} is not the driver's"))
}

/// Where an error need not be told: something was only given back or asked, or waited for by a drop.
fn is_harmless(function: &str) -> bool {
    let given_back = ["Free", "Destroy", "Unload", "Release", "PopCurrent"];
    // Before each of those its context is entered.
    let others = ["cuEventQuery", "cuEventSynchronize", "cuCtxGetCurrent", "cuCtxPushCurrent_v2"];
    given_back.iter().any(|part| function.contains(part)) || others.contains(&function)
}

#[test]
fn after_an_error_that_passes_all_is_as_before() {
    let device = own_context();
    let run = Run::new(&device).unwrap();
    // What is made once is there from here on; the next test is about the making.
    run.all().unwrap();
    let counted = calls(|| run.all().unwrap());
    assert!(counted.iter().map(|(_, count)| count).sum::<u64>() > 100, "{counted:?}");
    for (function, count) in counted {
        for call in 1..=count {
            let what = format!("call {call} of {function}");
            fails_with(&device, function, call, || run.all());
            run.all().unwrap_or_else(|error| panic!("after {what}: {error:?}"));
        }
    }
    let context = device.as_raw_context().cast();
    drop(run);
    assert_eq!(take_findings(context), []);
}

#[test]
fn an_error_while_things_are_made_is_an_error_and_no_more() {
    let device = own_context();
    let cold = || Run::new(&device)?.all();
    for (function, count) in calls(|| cold().unwrap()) {
        for call in 1..=count {
            fails_with(&device, function, call, cold);
        }
    }
    cold().unwrap();
}

#[test]
fn an_error_while_a_device_is_opened_is_an_error_and_no_more() {
    let open = || Device::open(Selection::Sim).map(drop);
    // What is asked once in a process is asked now. It may be open already, on other threads: what is
    // given back at last is not counted on.
    open().unwrap();
    let made = ["cuInit", "cuDevicePrimaryCtxRetain", "cuDeviceGetName", "cuStreamCreate"];
    let counted = calls(|| open().unwrap());
    assert!(made.iter().all(|made| counted.iter().any(|(name, _)| name == made)), "{counted:?}");
    for (function, count) in counted {
        for call in 1..=count {
            let _fault = inject(fault(function, call, sys::CUDA_ERROR_UNKNOWN, false));
            match open() {
                Ok(()) => assert!(is_harmless(function), "nobody noticed call {call} of {function}"),
                Err(error) => assert_eq!(driver_error(&error).code, sys::CUDA_ERROR_UNKNOWN),
            }
        }
    }
    open().unwrap();
}

/// Runs with an error that passes, which is noticed unless it does no harm.
fn fails_with(device: &Device, function: &str, call: u64, run: impl FnOnce() -> Result<()>) {
    let what = format!("call {call} of {function}");
    let fault = inject(fault(function, call, sys::CUDA_ERROR_UNKNOWN, false));
    match run() {
        Ok(()) => assert!(is_harmless(function), "nobody noticed {what}"),
        Err(error) => {
            assert_eq!(driver_error(&error).code, sys::CUDA_ERROR_UNKNOWN, "{what}");
            assert_eq!(error.to_string().lines().count(), 1, "{what}: {error}");
        }
    }
    assert!(fault.has_struck(), "{what} was never made");
    assert_eq!(take_findings(device.as_raw_context().cast()), [], "{what}");
}

#[test]
fn an_error_that_loses_the_device_is_an_error_everywhere() {
    let device = own_context();
    let counted = calls(|| Run::new(&device).unwrap().all().unwrap());
    for (function, count) in counted {
        // Before a context is entered, nothing that fails can lose it.
        if ["cuCtxGetCurrent", "cuCtxPushCurrent_v2"].contains(&function) {
            continue;
        }
        for call in (1..=count).step_by(3) {
            // On a thread of its own: one that was recording when the device was lost is lost as well.
            thread::scope(|scope| {
                scope.spawn(|| lose_device_at(function, call)).join().expect("it has said why");
            });
        }
    }
}

fn lose_device_at(function: &str, call: u64) {
    let device = own_context();
    let _no_findings = NoFindings::in_context(device.as_raw_context().cast());
    let _fault = inject(fault(function, call, sys::CUDA_ERROR_ILLEGAL_ADDRESS, true));
    let Err(error) = Run::new(&device).and_then(|run| run.all()) else { return };
    let what = format!("call {call} of {function}");
    assert!(driver_error(&error).is_sticky(), "{what}: {error:?}");
    let again = device.upload(&[1, 2]).expect_err(&what);
    assert!(driver_error(&again).is_sticky(), "{what}: {again:?}");
}

#[test]
fn a_wait_that_fails_for_good_leaves_the_memory_where_it_is() {
    let device = own_context();
    let context = device.as_raw_context().cast();
    let run = Run::new(&device).unwrap();
    run.all().unwrap();
    let stream = device.stream().unwrap();
    let pending = run.reducer.on(&stream).sum(&device.upload(&run.values).unwrap()).unwrap();
    let before = memory_in_use(context);
    {
        let _faults =
            [1, 2].map(|call| inject(fault("cuEventSynchronize", call, sys::CUDA_ERROR_UNKNOWN, false)));
        let error = pending.wait().unwrap_err();
        says(&error, &["CUDA_ERROR_UNKNOWN", "a reduction"]);
    }
    // The elements' only owner is gone, and yet they are there, because the launch still names them.
    assert_eq!(memory_in_use(context), before);
    stream.synchronize().unwrap();
    assert_eq!(take_findings(context), []);
    run.all().unwrap();
}

/// A copy of which it is not known whether it has ended keeps what it names.
#[test]
fn a_copy_whose_wait_fails_for_good_leaves_the_memory_where_it_is() {
    let device = own_context();
    let context = device.as_raw_context().cast();
    let before = memory_in_use(context);
    {
        let _faults = [1, 2]
            .map(|call| inject(fault("cuStreamSynchronize", call, sys::CUDA_ERROR_UNKNOWN, false)));
        says(&device.upload(&[1_u64; 1000]).unwrap_err(), &["CUDA_ERROR_UNKNOWN", "copying to it"]);
    }
    assert!(memory_in_use(context) >= before + 8000, "it was freed");
    // The next wait on that stream runs the copy, which finds its memory.
    assert_eq!(device.upload(&[2]).unwrap().download().unwrap(), [2]);
    assert_eq!(take_findings(context), []);
}

#[test]
fn a_wait_that_fails_once_is_made_again() {
    let device = own_context();
    let context = device.as_raw_context().cast();
    let run = Run::new(&device).unwrap();
    let stream = device.stream().unwrap();
    let before = memory_in_use(context);
    let pending = run.reducer.on(&stream).sum(&device.upload(&run.values).unwrap()).unwrap();
    let fault = inject(fault("cuEventSynchronize", 1, sys::CUDA_ERROR_UNKNOWN, false));
    assert!(pending.wait().is_err() && fault.has_struck());
    assert_eq!(take_findings(context), []);
    drop(fault);
    run.all().unwrap();
    drop((run, stream));
    assert!(memory_in_use(context) < before, "nothing was kept");
}

#[test]
fn a_recording_whose_replay_may_still_run_is_used_no_more() {
    let device = own_context();
    let run = Run::new(&device).unwrap();
    let mut recorder = run.reducer.record();
    let sum = recorder.sum(&run.buffer).unwrap();
    let mut recording = recorder.finish().unwrap();
    let stream = device.stream().unwrap();
    {
        // The launch is on its way, its end is marked by nothing, and nobody can wait for it.
        let _faults = [("cuEventRecord", 1), ("cuStreamSynchronize", 1), ("cuStreamSynchronize", 2)]
            .map(|(function, call)| inject(fault(function, call, sys::CUDA_ERROR_UNKNOWN, false)));
        assert!(recording.launch(&stream).is_err());
    }
    let error = recording.run().unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    says(&error, &["may still run", "record anew"]);
    drop(recording);
    stream.synchronize().unwrap();
    assert_eq!(take_findings(device.as_raw_context().cast()), []);
    // One that passes leaves the recording as it was.
    let mut recorder = run.reducer.record();
    let again = recorder.sum(&run.buffer).unwrap();
    let mut recording = recorder.finish().unwrap();
    let fault = inject(fault("cuEventRecord", 1, sys::CUDA_ERROR_UNKNOWN, false));
    assert!(recording.launch(&stream).is_err() && fault.has_struck());
    drop((fault, sum));
    assert_eq!(recording.run().unwrap().get(&again), run.sum());
}

/// A kernel that was stopped leaves its slots as they were then; the next launch needs them at zero.
#[test]
fn after_a_failed_launch_the_slots_are_cleared_once() {
    let device = own_context();
    let run = Run::new(&device).unwrap();
    let clears = || {
        let log = record_calls();
        assert_eq!(run.reducer.sum(&run.buffer).unwrap(), run.sum());
        log.count("cuMemsetD8Async")
    };
    clears();
    assert_eq!(clears(), 0);
    for function in ["cuLaunchKernel", "cuStreamSynchronize"] {
        let fault = inject(fault(function, 1, sys::CUDA_ERROR_UNKNOWN, false));
        assert!(run.reducer.sum(&run.buffer).is_err() && fault.has_struck());
        drop(fault);
        assert_eq!([clears(), clears()], [1, 0], "after {function}");
    }
    let stream = device.stream().unwrap();
    let fault = inject(fault("cuEventRecord", 1, sys::CUDA_ERROR_UNKNOWN, false));
    assert!(run.reducer.on(&stream).sum(&run.buffer).is_err() && fault.has_struck());
    drop(fault);
    assert_eq!([clears(), clears()], [1, 0]);
}

#[test]
fn after_a_failed_replay_its_slots_are_cleared_once() {
    let device = own_context();
    let run = Run::new(&device).unwrap();
    let mut recorder = run.reducer.record();
    let sum = recorder.sum(&run.buffer).unwrap();
    let mut recording = recorder.finish().unwrap();
    let mut clears = |failing: Option<&str>| {
        let fails = |function| inject(fault(function, 1, sys::CUDA_ERROR_UNKNOWN, false));
        let (fault, log) = (failing.map(fails), record_calls());
        match (recording.run(), fault) {
            (Ok(results), None) => assert_eq!(results.get(&sum), run.sum()),
            (Err(_), Some(fault)) => assert!(fault.has_struck()),
            (outcome, _) => panic!("{failing:?}: {outcome:?}"),
        }
        log.count("cuMemsetD8Async")
    };
    assert_eq!([clears(None), clears(None)], [0, 0]);
    for function in ["cuGraphLaunch", "cuEventRecord", "cuEventSynchronize"] {
        assert_eq!(clears(Some(function)), 0);
        assert_eq!([clears(None), clears(None)], [1, 0], "after {function}");
    }
}

#[test]
fn what_there_is_no_room_for_is_said_with_its_size() {
    let device = own_context();
    let _fault = inject(fault("cuMemAlloc_v2", 1, sys::CUDA_ERROR_OUT_OF_MEMORY, false));
    let error = device.upload(&[0_u64; 1000]).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { bytes: 8000, .. }), "{error:?}");
    says(&error, &["8000 bytes", &device.info().name]);
    assert_eq!(driver_error(&error).code, sys::CUDA_ERROR_OUT_OF_MEMORY);
}

#[test]
fn a_device_that_is_not_there_is_said_to_be_not() {
    let error = Device::open(Selection::SimOrdinal(1000)).unwrap_err();
    says(&error, &["sim:1000", "devices"]);
    let fault = inject(fault("cuInit", 1, sys::CUDA_ERROR_NO_DEVICE, false));
    let error = Device::open(Selection::Sim).unwrap_err();
    assert!(matches!(error, Error::NoDevice { .. }) && fault.has_struck(), "{error:?}");
    drop(fault);
    Device::open(Selection::Sim).unwrap();
}
