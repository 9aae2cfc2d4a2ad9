//! Injected driver errors at every call that the suite makes, always on the simulator, because faults
//! cannot be injected into a GPU.
//!
//! Proves that an error is only an error: nothing panics, and no memory of pending work is freed, even
//! if a failed wait leaves unknown what is pending. The library has the same tests of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use warpfold_driver::sys;
use warpfold_sim_driver::{
    Fault, Injected, NoFindings, inject, memory_in_use, record_calls, take_findings,
};
use warpfold_suite::{
    Buffer, Data, Device, Dtype, Error, Op, Reducer, Reduction, Request, Result, Selection, Stream,
    Tuning, Value,
    catalogue::{self, Path},
    device::Graph,
    measure::{Rotation, time_runs},
    memory::{Movement, Pattern},
    reducer::Measured,
    reference::Expected,
    transfer::{Transfer, TransferRequest},
};
use warpfold_tests::{on_gpu, small_integers, store};

/// Returns a simulated device in its own context; `None` if a GPU's driver provides the symbols.
fn simulated() -> Option<Device> {
    (!on_gpu()).then(|| Device::isolated(Selection::Sim).unwrap())
}

fn context(device: &Device) -> sys::CUcontext {
    device.raw_context().unwrap().cast()
}

fn finish(context: sys::CUcontext) {
    let driver = warpfold_sim_driver::driver();
    // SAFETY: the context was made by a test, which does not destroy it before this function returns.
    unsafe { driver.ctx_set_current(Some(warpfold_driver::Context::from_raw(context))) }.unwrap();
    driver.ctx_synchronize().unwrap();
}

fn fails(function: &str, call: u64) -> Injected {
    inject(Fault { function, call, code: sys::CUDA_ERROR_UNKNOWN, sticky: false })
}

struct Run {
    device: Device,
    data: Data,
    sum: Value,
    input: Buffer,
    reductions: Vec<Reduction>,
    movement: Movement,
    reducer: Reducer,
    stream: Stream,
}

impl Run {
    fn new(device: &Device) -> Result<Self> {
        let data = small_integers(Op::Sum, Dtype::I32, 3001, 1);
        let sum = Expected::of(Op::Sum, &data)?.of_type(Dtype::I32).value;
        let reduction = |id| {
            let request = Request { block: 128, ..Request::new(catalogue::find(id)?, Op::Sum, &data) };
            Reduction::new(device, store(), &request)
        };
        let ids = ["sequential", "atomic_blocks", "single_pass_last_block", "cooperative"];
        let (pattern, copy) =
            (Pattern::Strided { n: 1000, stride: 3 }, catalogue::find("copy_strided")?);
        Ok(Self {
            device: device.clone(),
            sum,
            input: device.upload(&data)?,
            reductions: ids.into_iter().map(reduction).collect::<Result<_>>()?,
            movement: Movement::new(device, store(), copy, Dtype::F32, pattern, 64)?,
            reducer: Reducer::with(device, store(), Tuning::generic())?,
            stream: device.stream()?,
            data,
        })
    }

    fn all(&mut self) -> Result<()> {
        for reduction in &self.reductions {
            self.reduce(reduction)?;
        }
        let elements = Data::random(Dtype::F32, 2998, 1);
        let moved = self.movement.run(&self.device.upload(&elements)?)?;
        assert_eq!(moved.output, self.movement.pattern().expected(&elements));
        self.transfer(Path::Pageable)?;
        self.transfer(Path::Overlapped)?;
        let answer = self.reducer.reduce(Op::Sum, &self.input)?.expect("there are elements");
        assert_eq!(answer.value, Expected::of(Op::Sum, &self.data)?.value);
        self.measured()?;
        self.record()
    }

    fn measured(&self) -> Result<()> {
        let expected = Expected::of(Op::Sum, &self.data)?;
        let job = (Op::Sum, Dtype::I32, self.data.len() as u64);
        let mut measured = Measured::new(&self.reducer, job, None, expected)?;
        let inputs = Rotation::of(&self.input, 8, 3, 1)?;
        let input = inputs.slot(1).input();
        // SAFETY: the slot holds the elements, and `time_runs` waits before `inputs` is dropped.
        let launch = |_| unsafe { measured.launch(&self.stream, input) };
        time_runs(&self.stream, 2, || Ok(()), launch)?;
        assert!(measured.check(input)?);
        Ok(())
    }

    fn reduce(&self, reduction: &Reduction) -> Result<()> {
        let mut workspace = reduction.workspace()?;
        assert_eq!(reduction.run(&self.input, &mut workspace)?.value, self.sum);
        let own = self.device.upload(&self.data)?;
        let pending = reduction.enqueue(&self.stream, &own, workspace)?;
        drop(own);
        let (outcome, workspace) = pending.wait()?;
        assert_eq!(outcome.value, self.sum);
        drop(reduction.enqueue(&self.stream, &self.device.upload(&self.data)?, workspace)?);
        Ok(())
    }

    fn transfer(&self, path: Path) -> Result<()> {
        let (op, dtype, n) = (Op::Sum, Dtype::I32, self.data.len() as u64);
        let chunk = (path == Path::Overlapped).then_some(700);
        let variant = catalogue::find("transfer_pageable")?;
        let request = TransferRequest { variant, path, op, dtype, n, chunk };
        let value = Transfer::new(&self.device, store(), &request, &self.data)?.run()?.value;
        assert_eq!(value, self.sum);
        Ok(())
    }

    fn record(&mut self) -> Result<()> {
        let Self { stream, reductions, input, sum, .. } = self;
        let reduction = &reductions[0];
        let rotation = Rotation::of(input, 8, 3, 1)?;
        let mut workspace = reduction.workspace()?;
        // SAFETY: a capture runs nothing, and the slot and workspace outlive the graph's runs.
        let graph = Graph::capture(stream, |stream| unsafe {
            reduction.launch(stream, rotation.slot(0).input(), &mut workspace).map(drop)
        })?;
        // SAFETY: `time_runs` waits before the slot and the workspace are dropped.
        time_runs(stream, 2, || Ok(()), |_| unsafe { graph.launch(stream) })?;
        assert_eq!(workspace.value(Dtype::I32)?, *sum);
        Ok(())
    }
}

#[test]
fn transient_errors_are_returned_and_recovered_from() {
    let Some(device) = simulated() else { return };
    let mut run = Run::new(&device).unwrap();
    // The first run creates the objects that later runs reuse.
    run.all().unwrap();
    let log = record_calls();
    run.all().unwrap();
    let counted = log.calls();
    drop(log);
    assert!(counted.iter().map(|(_, count)| count).sum::<u64>() > 300, "{counted:?}");
    for (function, count) in counted {
        for call in 1..=count {
            let fault = fails(function, call);
            let _what_failed = run.all();
            assert!(fault.has_struck(), "call {call} of {function} was never made");
            drop(fault);
            assert_eq!(take_findings(context(&device)), [], "call {call} of {function}");
            run.all().unwrap_or_else(|error| panic!("after call {call} of {function}: {error}"));
        }
    }
}

#[test]
fn errors_during_construction_are_returned_without_leaks() {
    let Some(device) = simulated() else { return };
    let log = record_calls();
    Run::new(&device).unwrap().all().unwrap();
    let counted = log.calls();
    drop(log);
    for (function, count) in counted {
        for call in (1..=count).step_by(5) {
            let device = simulated().unwrap();
            let fault = fails(function, call);
            let _what_failed = Run::new(&device).and_then(|mut run| run.all());
            assert!(fault.has_struck(), "call {call} of {function} was never made");
            assert_eq!(take_findings(context(&device)), [], "call {call} of {function}");
        }
    }
}

/// A stopped kernel leaves its counter in an arbitrary state; the next launch needs it at zero.
#[test]
fn after_a_failed_launch_the_counter_is_cleared_once() {
    let Some(device) = simulated() else { return };
    let run = Run::new(&device).unwrap();
    let reduction = &run.reductions[2];
    let mut workspace = reduction.workspace().unwrap();
    let mut clears = |failing: Option<&str>| {
        let fault = failing.map(|function| fails(function, 1));
        let log = record_calls();
        let outcome = reduction.run(&run.input, &mut workspace);
        assert_eq!(outcome.is_err(), fault.is_some());
        log.count("cuMemsetD8Async")
    };
    assert_eq!([clears(None), clears(None)], [1, 0], "what is new is cleared");
    for function in ["cuLaunchKernel", "cuStreamSynchronize"] {
        assert_eq!(clears(Some(function)), 0);
        assert_eq!([clears(None), clears(None)], [1, 0], "after {function}");
    }
}

/// A wait that fails twice leaves the pending work unknown: nothing is freed or used any more.
#[test]
fn device_is_abandoned_after_a_wait_fails_twice() {
    let Some(device) = simulated() else { return };
    let waits = {
        let mut run = Run::new(&device).unwrap();
        let log = record_calls();
        run.all().unwrap();
        log.count("cuStreamSynchronize")
    };
    assert!(waits > 20, "{waits}");
    let mut abandoned = 0;
    for wait in 1..waits {
        let device = simulated().unwrap();
        let mut run = Run::new(&device).unwrap();
        let context = context(&device);
        let before = memory_in_use(context);
        let faults = [wait, wait + 1].map(|call| fails("cuStreamSynchronize", call));
        let error = run.all().expect_err("a wait failed");
        assert!(faults.iter().all(Injected::has_struck));
        drop(faults);
        let refused = |error: &Error| matches!(error, Error::Abandoned { .. });
        assert!(matches!(error, Error::Driver { .. }) || refused(&error), "wait {wait}: {error}");
        // A failed wait in the library leaks only the memory that the unfinished work uses.
        if let Err(later) = run.all() {
            abandoned += 1;
            for later in [later, device.stream().map(drop).unwrap_err()] {
                assert!(refused(&later), "wait {wait}: {later}");
                assert!(later.to_string().contains("restart the program"), "{later}");
            }
            drop((run, device));
            assert!(memory_in_use(context) >= before, "wait {wait}: something was freed");
        }
        finish(context);
        assert_eq!(take_findings(context), [], "wait {wait}");
    }
    assert!(abandoned > waits - 5, "{abandoned} of {waits}");
}

#[test]
fn failed_copy_wait_does_not_touch_host_memory() {
    let Some(device) = simulated() else { return };
    let memory = device.allocate(1000).unwrap();
    memory.fill(0, 7, 1000).unwrap();
    let context = context(&device);
    let faults = [1, 2].map(|call| fails("cuStreamSynchronize", call));
    let mut bytes = vec![1; 1000];
    assert!(memory.read(0, &mut bytes).is_err());
    drop(faults);
    finish(context);
    assert_eq!(bytes, [1; 1000]);
}

/// After a caller's panic, no work is pending that uses the dropped objects, and no stream is capturing.
#[test]
fn panic_leaves_no_pending_work_or_capture() {
    let Some(device) = simulated() else { return };
    let _no_findings = NoFindings::in_context(context(&device));
    let mut run = Run::new(&device).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let (reduction, stream) = (&run.reductions[0], device.stream().unwrap());
        let mut workspace = reduction.workspace().unwrap();
        let input = device.upload(&run.data).unwrap();
        let inputs = Rotation::of(&input, 8, 3, 1).unwrap();
        let launch = |at| {
            assert_eq!(at, 0, "the second run panics");
            // SAFETY: `time_runs` waits before the input, the workspace and the reduction are dropped.
            unsafe { reduction.launch(&stream, inputs.slot(0).input(), &mut workspace) }.map(drop)
        };
        time_runs(&stream, 2, || Ok(()), launch)
    }));
    assert!(panicked.is_err());
    let Run { stream, .. } = &mut run;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        Graph::capture(stream, |_| panic!("while it records")).map(drop)
    }));
    assert!(panicked.is_err());
    run.all().unwrap();
}
