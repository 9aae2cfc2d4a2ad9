//! Random programs in mostly safe code: objects of every kind are created, used, dropped and leaked in
//! random order, on several streams, while driver calls fail. Results are right or errors, and nothing
//! is freed that the device still uses.
//!
//! `WARPFOLD_TEST_PROGRAMS` sets the number of programs. A failure names the number of its program.

use std::{env, mem, ops::Range};

use warpfold::{
    Buffer, Device, Output, Pending, Reducer, Result, Stream,
    internal::{PtxSource, Tuning, reducer as reducer_with},
    op,
};
use warpfold_driver::sys;
use warpfold_sim_driver::{Fault, Injected, NoFindings, inject};

use crate::{
    common::{Sample, extreme, small},
    devices::in_own_context,
};

const PROGRAMS: u64 = 60;
const STEPS: usize = 120;

struct Program {
    random: Random,
    device: Device,
    buffers: Vec<(Buffer<i32>, Vec<i32>)>,
    streams: Vec<Stream>,
    reducers: Vec<Reducer>,
    pending: Vec<(Pending<i64>, i64)>,
    outputs: Vec<(Output<i64>, i64)>,
    faults: Vec<Injected>,
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    fn range(&mut self, len: usize) -> Range<usize> {
        let (a, b) = (self.below(len + 1), self.below(len + 1));
        a.min(b)..a.max(b)
    }

    fn take<T>(&mut self, list: &mut Vec<T>) -> Option<T> {
        (!list.is_empty()).then(|| list.swap_remove(self.below(list.len())))
    }
}

fn total(values: &[i32]) -> i64 {
    i32::total(values, false)
}

impl Program {
    fn new(device: &Device, seed: u64) -> Self {
        let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (buffers, outputs) = (Vec::new(), Vec::new());
        let (streams, reducers, pending) = (Vec::new(), Vec::new(), Vec::new());
        let device = device.clone();
        Self { random, device, buffers, streams, reducers, pending, outputs, faults: Vec::new() }
    }

    fn provide(&mut self) -> Result<()> {
        if self.buffers.is_empty() {
            self.upload()?;
        }
        if self.streams.is_empty() {
            self.streams.push(self.device.stream()?);
        }
        if self.reducers.is_empty() {
            let workspaces = 1 + self.random.below(2);
            let source = PtxSource::Embedded;
            self.reducers.push(reducer_with(&self.device, source, Tuning::generic(), workspaces));
        }
        Ok(())
    }

    fn upload(&mut self) -> Result<()> {
        let values = small::<i32>(self.random.below(3000), self.random.0);
        self.buffers.push((self.device.upload(&values)?, values));
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        self.provide()?;
        let Self { random, pending, buffers, streams, .. } = self;
        match random.below(19) {
            0 => self.upload(),
            1 => self.slice(),
            2 => self.borrow_memory(),
            3 => self.device.stream().map(|stream| self.streams.push(stream)),
            4 => self.wait_for_each_other(),
            5 | 6 => self.reduce(),
            7..=9 => self.enqueue(),
            10 => self.wait(),
            11 => {
                drop(random.take(pending));
                Ok(())
            }
            12 => {
                mem::forget(random.take(pending));
                Ok(())
            }
            13 | 14 => self.leave_on_the_device(),
            15 => self.read(),
            16 => self.record(),
            17 => {
                let _gone = (random.take(buffers), random.take(streams));
                Ok(())
            }
            _ => {
                let _gone = (self.random.take(&mut self.reducers), self.random.take(&mut self.outputs));
                Ok(())
            }
        }
    }

    fn slice(&mut self) -> Result<()> {
        let (buffer, values) = self.random.of(&self.buffers);
        let range = self.random.range(values.len());
        let part = (buffer.slice(range.clone())?, values[range].to_vec());
        self.buffers.push(part);
        Ok(())
    }

    fn borrow_memory(&mut self) -> Result<()> {
        let (buffer, values) = self.random.of(&self.buffers).clone();
        let (address, len) = (buffer.as_device_ptr(), buffer.len());
        // SAFETY: the owner keeps the elements alive, and nothing writes them.
        let foreign = unsafe { Buffer::from_raw_parts(&self.device, address, len, buffer) }?;
        self.buffers.push((foreign, values));
        Ok(())
    }

    fn wait_for_each_other(&mut self) -> Result<()> {
        let (one, other) = (self.random.below(self.streams.len()), self.random.of(&self.streams));
        self.streams[one].wait_for(other)?;
        if self.random.below(2) == 0 { other.synchronize() } else { Ok(()) }
    }

    fn reduce(&mut self) -> Result<()> {
        let reducer = self.random.of(&self.reducers);
        let (buffer, values) = self.random.of(&self.buffers);
        assert_eq!(reducer.sum(buffer)?, total(values));
        let together = reducer.reduce((op::Sum, op::ArgMax), buffer)?;
        assert_eq!(together, (total(values), extreme(values, true)));
        Ok(())
    }

    fn enqueue(&mut self) -> Result<()> {
        let (reducer, stream) = (self.random.of(&self.reducers), self.random.of(&self.streams));
        let (buffer, values) = self.random.of(&self.buffers);
        self.pending.push((reducer.on(stream).reduce(op::Sum, buffer)?, total(values)));
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        let Some((pending, expected)) = self.random.take(&mut self.pending) else { return Ok(()) };
        let _ready = pending.is_ready()?;
        assert_eq!(pending.wait()?, expected);
        Ok(())
    }

    fn leave_on_the_device(&mut self) -> Result<()> {
        let (reducer, stream) = (self.random.of(&self.reducers), self.random.of(&self.streams));
        let (buffer, values) = self.random.of(&self.buffers);
        let (mut output, _) = match self.random.take(&mut self.outputs) {
            Some(output) => output,
            None => (self.device.output()?, 0),
        };
        reducer.on(stream).reduce_into(op::Sum, buffer, &mut output)?;
        self.outputs.push((output, total(values)));
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        if let Some((output, expected)) = self.outputs.last() {
            assert_eq!(output.read()?, *expected);
        }
        Ok(())
    }

    /// Records several reductions as one launch, which is waited for, dropped or leaked, and launched
    /// again.
    fn record(&mut self) -> Result<()> {
        let mut recorder = self.random.of(&self.reducers).record();
        let (mut sums, mut left) = (Vec::new(), Vec::new());
        for _ in 0..self.random.below(4) {
            let (buffer, values) = self.random.of(&self.buffers);
            sums.push((recorder.reduce(op::Sum, buffer)?, total(values)));
            if let Ok(row) = buffer.rows(buffer.len()) {
                let outputs = self.device.outputs(1)?;
                left.push((recorder.reduce_into(op::Sum, &row, outputs)?, total(values)));
            }
        }
        let mut recording = recorder.finish()?;
        for _ in 0..self.random.below(4) {
            let replay = recording.launch(self.random.of(&self.streams))?;
            match self.random.below(3) {
                0 => drop(replay),
                1 => mem::forget(replay),
                _ => {
                    let results = replay.wait()?;
                    for (sum, expected) in &sums {
                        assert_eq!(results.get(sum), *expected);
                    }
                    for (sum, expected) in &left {
                        assert_eq!(results.outputs(sum).read()?, [*expected]);
                    }
                }
            }
        }
        Ok(())
    }

    /// Injects a failure into one of the next calls of a frequent function. Waits may fail twice in a
    /// row, which leaves the state of the pending work unknown.
    fn fail_soon(&mut self) {
        let function = *self.random.of(&[
            "cuLaunchKernel",
            "cuStreamSynchronize",
            "cuEventSynchronize",
            "cuEventRecord",
            "cuEventQuery",
            "cuStreamWaitEvent",
            "cuCtxPushCurrent_v2",
            "cuCtxPopCurrent_v2",
            "cuMemAlloc_v2",
            "cuMemFree_v2",
            "cuGraphLaunch",
            "cuStreamEndCapture",
        ]);
        let (first, again) = (1 + self.random.below(3) as u64, self.random.below(2) as u64);
        let count = if function.ends_with("Synchronize") { 1 + again } else { 1 };
        let fault = |call| Fault { function, call, code: sys::CUDA_ERROR_UNKNOWN, sticky: false };
        self.faults.extend((first..first + count).map(|call| inject(fault(call))));
    }

    fn run(mut self) {
        for _ in 0..STEPS {
            if self.faults.is_empty() && self.random.below(12) == 0 {
                self.fail_soon();
            }
            if let Err(error) = self.step() {
                assert!(self.faults.iter().any(Injected::has_struck), "{error:?}");
            }
            self.faults.retain(|fault| !fault.has_struck());
        }
        self.faults.clear();
        let mut rest: Vec<Box<dyn FnOnce()>> = Vec::new();
        let Self { mut random, buffers, streams, reducers, pending, outputs, .. } = self;
        rest.extend(buffers.into_iter().map(later));
        rest.extend(streams.into_iter().map(later));
        rest.extend(reducers.into_iter().map(later));
        rest.extend(pending.into_iter().map(later));
        rest.extend(outputs.into_iter().map(later));
        while let Some(gone) = random.take(&mut rest) {
            gone();
        }
    }
}

fn later<T: 'static>(thing: T) -> Box<dyn FnOnce()> {
    Box::new(|| drop(thing))
}

#[test]
fn random_programs_are_right_and_free_nothing_too_early() {
    let programs = env::var("WARPFOLD_TEST_PROGRAMS").map_or(PROGRAMS, |n| n.parse().unwrap());
    for number in 0..programs {
        let device = in_own_context(warpfold_sim_driver::driver());
        let _no_findings = NoFindings::in_context(device.as_raw_context().cast());
        println!("program {number}");
        Program::new(&device, number + 1).run();
    }
}
