//! Injects driver errors at every driver call of the library.
//!
//! A run of the whole library is repeated once per driver call, and each time another call fails: once
//! with a transient error, once with one that loses the device. In every case nothing panics, nothing is
//! freed that pending work uses, and the error names the device and keeps the driver's message. After a
//! transient error all resources are released at the end, and an existing reducer returns right results
//! again.
//!
//! Only the simulator can inject errors, so these tests always run on it.

use std::{error::Error as _, sync::Arc, thread};

use crate::{
    common::{Sample, says},
    devices::in_own_context,
    everything::Run,
    given_back::GivenBack,
};
use warpfold::{Buffer, Device, Error, Reducer, Result, Selection, Within, op};
use warpfold_driver::{CallError, PtxError, sys};
use warpfold_sim_driver::{
    Fault, Injected, NoFindings, inject, memory_in_use, record_calls, take_findings,
};

fn own_context() -> Device {
    in_own_context(warpfold_sim_driver::driver())
}

fn calls(run: impl FnOnce()) -> Vec<(&'static str, u64)> {
    let log = record_calls();
    run();
    log.calls()
}

fn fault(function: &str, call: u64, code: i32, sticky: bool) -> Fault<'_> {
    Fault { function, call, code, sticky }
}

fn driver_error(error: &Error) -> &CallError {
    let source = error.source().unwrap_or_else(|| panic!("{error:?} has no source"));
    let ptx = source.downcast_ref::<PtxError>().map(|error| &error.error);
    source.downcast_ref().or(ptx).unwrap_or_else(|| panic!("{error:?} is not the driver's"))
}

/// Returns whether an error of this call may go unreported: it releases or queries something, or is made
/// during a drop.
fn is_harmless(function: &str) -> bool {
    let given_back = ["Free", "Destroy", "Unload", "Release", "PopCurrent"];
    // The context is entered before each release.
    let others = ["cuEventSynchronize", "cuCtxGetCurrent", "cuCtxPushCurrent_v2"];
    given_back.iter().any(|part| function.contains(part))
        || function.ends_with("Query")
        || others.contains(&function)
}

/// Prevents results from being observed before their launch has completed: after a failed query the
/// caller waits.
fn unseen(query: &str) -> Injected {
    inject(fault(query, 1, sys::CUDA_ERROR_UNKNOWN, false))
}

#[test]
fn library_recovers_from_any_transient_error() {
    let device = own_context();
    let run = Run::new(&device).unwrap();
    // Fills the caches; the next test covers their creation. A run also releases what the previous one
    // left pending, so runs are alike from the second on.
    run.all_and_by_key().unwrap();
    run.all_and_by_key().unwrap();
    assert!(each_call_fails(&device, || run.all_and_by_key()) > 100);
    let context = device.as_raw_context().cast();
    drop(run);
    assert_eq!(take_findings(context), []);
}

#[test]
fn pairs_recover_from_any_transient_error() {
    let device = own_context();
    let (a, b) = (device.upload(&[1_u8, 2, 3]).unwrap(), device.upload(&[4_u8, 5, 6, 7]).unwrap());
    let (reducer, stream) = (Reducer::new(&device).unwrap(), device.stream().unwrap());
    let mut recorder = reducer.record();
    let recorded = recorder.reduce(op::Dot, (&a, &a)).unwrap();
    let mut recording = recorder.finish().unwrap();
    let mut output = device.output().unwrap();
    let mut run = || {
        let b = b.slice(1..)?;
        assert_eq!(reducer.dot(&a, &b)?, 38);
        assert_eq!(reducer.on(&stream).reduce(op::SquaredDistance, (&a, &b))?.wait()?, 48);
        reducer.on(&stream).reduce_into(op::Dot, (&a, &a), &mut output)?;
        assert_eq!(output.read()?, 14);
        assert_eq!(recording.run()?.get(&recorded), 14);
        Ok(())
    };
    run().unwrap();
    run().unwrap();
    assert!(each_call_fails(&device, run) > 10);
}

#[test]
fn filters_recover_from_any_transient_error() {
    let device = own_context();
    let values = device.upload(&[1_u8, 2, 3, 9]).unwrap();
    let (reducer, stream) = (Reducer::new(&device).unwrap(), device.stream().unwrap());
    let mut recorder = reducer.record();
    let recorded = recorder.reduce(op::Sum, values.filter(2..)).unwrap();
    let mut recording = recorder.finish().unwrap();
    let mut output = device.output().unwrap();
    let mut run = || {
        assert_eq!(reducer.reduce(op::Sum, values.filter(2..9))?, Within::new(2, 5));
        assert_eq!(reducer.on(&stream).reduce(op::Sum, values.filter(..3))?.wait()?, Within::new(2, 3));
        reducer.on(&stream).reduce_into(op::Sum, values.filter(3..=9), &mut output)?;
        assert_eq!(output.read()?, Within::new(2, 12));
        assert_eq!(recording.run()?.get(&recorded), Within::new(3, 14));
        Ok(())
    };
    run().unwrap();
    run().unwrap();
    assert!(each_call_fails(&device, run) > 10);
}

/// Repeats a run, each time with another driver call failing, and without a failure in between. Returns
/// the number of calls in a run.
fn each_call_fails(device: &Device, mut run: impl FnMut() -> Result<()>) -> u64 {
    let counted = calls(|| run().unwrap());
    for &(function, count) in &counted {
        for call in 1..=count {
            fails_with(device, function, call, &mut run);
            run().unwrap_or_else(|error| panic!("after call {call} of {function}: {error:?}"));
        }
    }
    counted.iter().map(|(_, count)| count).sum()
}

#[test]
fn errors_during_construction_are_returned_without_leaks() {
    let device = own_context();
    let cold = || Run::new(&device)?.all();
    for (function, count) in calls(|| cold().unwrap()) {
        for call in 1..=count {
            let given_back = GivenBack::after_a_failure_of(function);
            fails_with(&device, function, call, cold);
            given_back.check();
        }
    }
    cold().unwrap();
}

#[test]
fn any_missing_kernel_is_an_error() {
    let device = own_context();
    let values = device.upload(&[1_i32; 100]).unwrap();
    let cold = || Reducer::new(&device)?.sum(&values).map(drop);
    let counted = calls(|| cold().unwrap());
    let (function, count) =
        counted.into_iter().find(|(function, _)| *function == "cuModuleGetFunction").unwrap();
    assert_eq!(count, 1, "only the kernel that is launched");
    for call in 1..=count {
        fails_with(&device, function, call, cold);
    }
}

#[test]
fn failed_open_returns_its_error_without_leaks() {
    let open = || Device::open(Selection::Sim).map(drop);
    // Does the initializations that happen once per process. Other threads may hold the device open, so
    // the calls of the final release are not counted.
    open().unwrap();
    let made = ["cuInit", "cuDevicePrimaryCtxRetain", "cuDeviceGetName", "cuStreamCreate"];
    let counted = calls(|| open().unwrap());
    assert!(made.iter().all(|made| counted.iter().any(|(name, _)| name == made)), "{counted:?}");
    for (function, count) in counted {
        for call in 1..=count {
            let given_back = GivenBack::after_a_failure_of(function);
            let _fault = inject(fault(function, call, sys::CUDA_ERROR_UNKNOWN, false));
            match open() {
                Ok(()) => assert!(is_harmless(function), "nobody noticed call {call} of {function}"),
                Err(error) => assert_eq!(driver_error(&error).code, sys::CUDA_ERROR_UNKNOWN),
            }
            given_back.check();
        }
    }
    open().unwrap();
}

/// Runs with a transient error, which must be reported unless it is harmless.
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
    // The number of queries depends on the pending work.
    assert!(fault.has_struck() || is_harmless(function), "{what} was never made");
    assert_eq!(take_findings(device.as_raw_context().cast()), [], "{what}");
}

#[test]
fn lost_device_fails_later_calls() {
    let device = own_context();
    let counted = calls(|| Run::new(&device).unwrap().all().unwrap());
    for (function, count) in counted {
        // No context has been entered yet, so the device cannot be lost.
        if ["cuCtxGetCurrent", "cuCtxPushCurrent_v2"].contains(&function) {
            continue;
        }
        for call in (1..=count).step_by(3) {
            // A separate thread, because a thread that was recording when the device was lost is
            // unusable afterwards.
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
fn failed_wait_leaks_memory_of_pending_work() {
    let device = own_context();
    let context = device.as_raw_context().cast();
    let run = Run::new(&device).unwrap();
    run.all().unwrap();
    let stream = device.stream().unwrap();
    let pending = run.reducer.on(&stream).reduce(op::Sum, &device.upload(&run.values).unwrap()).unwrap();
    let before = memory_in_use(context);
    {
        let _unseen = unseen("cuEventQuery");
        let _faults =
            [1, 2].map(|call| inject(fault("cuEventSynchronize", call, sys::CUDA_ERROR_UNKNOWN, false)));
        let error = pending.wait().unwrap_err();
        says(&error, &["CUDA_ERROR_UNKNOWN", "a reduction"]);
    }
    // The elements' only owner was dropped, but the pending launch keeps them alive.
    assert_eq!(memory_in_use(context), before);
    stream.synchronize().unwrap();
    assert_eq!(take_findings(context), []);
    run.all().unwrap();
}

/// A reducer is dropped while a reduction may still run: its kernels, slots and elements are leaked.
#[test]
fn reducer_drop_leaks_resources_if_waiting_fails() {
    let device = own_context();
    let context = device.as_raw_context().cast();
    let (stream, mut sum) = (device.stream().unwrap(), device.output::<i64>().unwrap());
    let run = Run::new(&device).unwrap();
    run.reducer.on(&stream).reduce_into(op::Sum, &run.buffer, &mut sum).unwrap();
    let before = memory_in_use(context);
    let log = record_calls();
    {
        let _faults =
            [1, 2].map(|call| inject(fault("cuEventSynchronize", call, sys::CUDA_ERROR_UNKNOWN, false)));
        drop((run.reducer, run.buffer));
    }
    let unloaded = log.count("cuModuleUnload");
    assert_eq!((unloaded, memory_in_use(context)), (0, before));
    stream.synchronize().unwrap();
    assert_eq!(sum.read().unwrap(), i32::total(&run.values, false));
    assert_eq!(take_findings(context), []);
}

/// A lost device runs nothing more, so enqueued work is released without a wait.
#[test]
fn lost_device_releases_elements_without_waiting() {
    let device = own_context();
    let (stream, mut sum) = (device.stream().unwrap(), device.output::<i64>().unwrap());
    let run = Run::new(&device).unwrap();
    let owner = Arc::new(());
    let address = run.buffer.as_device_ptr();
    // SAFETY: the elements belong to a buffer that stays alive.
    let foreign = unsafe { Buffer::<i32>::from_raw_parts(&device, address, 3001, owner.clone()) };
    run.reducer.on(&stream).reduce_into(op::Sum, &foreign.unwrap(), &mut sum).unwrap();
    let _fault = inject(fault("cuMemAlloc_v2", 1, sys::CUDA_ERROR_ILLEGAL_ADDRESS, true));
    assert!(device.upload(&[1]).is_err() && Arc::strong_count(&owner) == 2);
    assert!(run.reducer.sum(&run.buffer).is_err());
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn failed_copy_wait_leaks_its_memory() {
    let device = own_context();
    let context = device.as_raw_context().cast();
    let before = memory_in_use(context);
    {
        let _faults = [1, 2]
            .map(|call| inject(fault("cuStreamSynchronize", call, sys::CUDA_ERROR_UNKNOWN, false)));
        says(&device.upload(&[1_u64; 1000]).unwrap_err(), &["CUDA_ERROR_UNKNOWN", "copying to it"]);
    }
    assert!(memory_in_use(context) >= before + 8000, "it was freed");
    // The next wait on that stream runs the copy, whose memory must still be there.
    assert_eq!(device.upload(&[2]).unwrap().download().unwrap(), [2]);
    assert_eq!(take_findings(context), []);
}

#[test]
fn failed_wait_is_retried_once() {
    let device = own_context();
    let context = device.as_raw_context().cast();
    let run = Run::new(&device).unwrap();
    let stream = device.stream().unwrap();
    let before = memory_in_use(context);
    let pending = run.reducer.on(&stream).reduce(op::Sum, &device.upload(&run.values).unwrap()).unwrap();
    let unseen = unseen("cuEventQuery");
    let fault = inject(fault("cuEventSynchronize", 1, sys::CUDA_ERROR_UNKNOWN, false));
    assert!(pending.wait().is_err() && fault.has_struck() && unseen.has_struck());
    assert_eq!(take_findings(context), []);
    drop(fault);
    run.all().unwrap();
    drop((run, stream));
    assert!(memory_in_use(context) < before, "nothing was kept");
}

#[test]
fn recording_with_unknown_replay_state_is_unusable() {
    let device = own_context();
    let run = Run::new(&device).unwrap();
    let mut recorder = run.reducer.record();
    let sum = recorder.reduce(op::Sum, &run.buffer).unwrap();
    let mut recording = recorder.finish().unwrap();
    let stream = device.stream().unwrap();
    {
        // The launch is pending, no event marks its end, and waiting fails.
        let _faults = [("cuEventRecord", 1), ("cuStreamSynchronize", 1), ("cuStreamSynchronize", 2)]
            .map(|(function, call)| inject(fault(function, call, sys::CUDA_ERROR_UNKNOWN, false)));
        assert!(recording.launch(&stream).is_err());
    }
    let error = recording.run().unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    says(&error, &["may still run", "record again"]);
    drop(recording);
    stream.synchronize().unwrap();
    assert_eq!(take_findings(device.as_raw_context().cast()), []);
    // A transient error leaves the recording intact.
    let mut recorder = run.reducer.record();
    let again = recorder.reduce(op::Sum, &run.buffer).unwrap();
    let mut recording = recorder.finish().unwrap();
    let fault = inject(fault("cuEventRecord", 1, sys::CUDA_ERROR_UNKNOWN, false));
    assert!(recording.launch(&stream).is_err() && fault.has_struck());
    drop((fault, sum));
    assert_eq!(recording.run().unwrap().get(&again), run.sum());
}

/// A stopped kernel leaves nonzero slots; the next launch needs them at zero.
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
        let _unseen = unseen("cuStreamQuery");
        let fault = inject(fault(function, 1, sys::CUDA_ERROR_UNKNOWN, false));
        assert!(run.reducer.sum(&run.buffer).is_err() && fault.has_struck());
        drop(fault);
        assert_eq!([clears(), clears()], [1, 0], "after {function}");
    }
    let stream = device.stream().unwrap();
    let fault = inject(fault("cuEventRecord", 1, sys::CUDA_ERROR_UNKNOWN, false));
    assert!(run.reducer.on(&stream).reduce(op::Sum, &run.buffer).is_err() && fault.has_struck());
    drop(fault);
    assert_eq!([clears(), clears()], [1, 0]);
}

#[test]
fn after_a_failed_replay_its_slots_are_cleared_once() {
    let device = own_context();
    let run = Run::new(&device).unwrap();
    let mut recorder = run.reducer.record();
    let sum = recorder.reduce(op::Sum, &run.buffer).unwrap();
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
fn out_of_memory_error_names_the_size() {
    let device = own_context();
    let _fault = inject(fault("cuMemAlloc_v2", 1, sys::CUDA_ERROR_OUT_OF_MEMORY, false));
    let error = device.upload(&[0_u64; 1000]).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { bytes: 8000, .. }), "{error:?}");
    says(&error, &["8000 bytes", &device.info().name]);
    assert_eq!(driver_error(&error).code, sys::CUDA_ERROR_OUT_OF_MEMORY);
}

#[test]
fn missing_device_is_reported() {
    let error = Device::open(Selection::SimOrdinal(1000)).unwrap_err();
    says(&error, &["sim:1000", "devices"]);
    let fault = inject(fault("cuInit", 1, sys::CUDA_ERROR_NO_DEVICE, false));
    let error = Device::open(Selection::Sim).unwrap_err();
    assert!(matches!(error, Error::NoDevice { .. }) && fault.has_struck(), "{error:?}");
    drop(fault);
    Device::open(Selection::Sim).unwrap();
}
