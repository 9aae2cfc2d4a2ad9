//! Records of the reducer's runs.

use super::Record;
use crate::{
    Answer, Buffer, Data, Device, Error, Kind, Op, PtxStore, Reducer, Result, Spread, Stream, Value,
    catalogue,
    device::{Counters, ResultMemory},
    measure::{self, Options},
    reducer::Measured,
    reference::{Expected, POISON},
};

#[derive(Clone, Copy)]
struct ReduceRequest<'a> {
    op: Op,
    data: &'a Data,
    expected: &'a Expected,
}

impl Record {
    /// Calls the reducer and checks the result. On a GPU, times launches if the result is correct, and
    /// checks the result of the last one as well. On the simulator, counts the instructions of one more
    /// launch. `store` must be the reducer's.
    pub fn of_reducer(
        reducer: &Reducer,
        store: &PtxStore,
        op: Op,
        data: &Data,
        expected: &Expected,
        options: Options,
    ) -> Result<Self> {
        let asked = ReduceRequest { op, data, expected };
        let device = reducer.device();
        let ptx = store.find(&catalogue::reducer_ptx(op, data.dtype()), device.info())?;
        let mut record = Self::on_device(catalogue::find("reducer")?, data, device, &ptx);
        let mut runs = (!data.is_empty()).then(|| Runs::new(reducer, asked)).transpose()?;
        // The buffer of this call is freed before the elements are uploaded again for the timing.
        let depth = record.call(reducer, asked, runs.as_mut())?;
        if let Some(runs) = &mut runs
            && record.ok
            && let Some(timing) = runs.time(data, options)?
        {
            record.judge_answer(asked, runs.answer(asked), depth)?;
            record.time(timing, data.as_bytes().len() as u64);
            record.of_peak(device);
        }
        Ok(record)
    }

    /// Calls the reducer, counts the instructions of a launch, and returns the depth of the additions.
    fn call(
        &mut self,
        reducer: &Reducer,
        asked: ReduceRequest<'_>,
        runs: Option<&mut Runs>,
    ) -> Result<u64> {
        let ReduceRequest { op, data, .. } = asked;
        let buffer = reducer.device().upload(data)?;
        if let Some(launch) = reducer.plan(op, &buffer)? {
            (self.block, self.grid) = (Some(launch.block), Some(launch.blocks.into()));
            self.extent.kernel = Some(launch.kernel);
        }
        let depth = reducer.depth(op, &buffer)?;
        let none = Error::NoValue { statistic: op.into() };
        self.judge_answer(asked, reducer.reduce(op, &buffer)?.ok_or(none)?, depth)?;
        if let Some(runs) = runs
            && self.ok
            && let Some(counters) = runs.count(&buffer)?
        {
            self.judge_answer(asked, runs.answer(asked), depth)?;
            self.counters = Some(counters);
        }
        Ok(depth)
    }

    /// Judges the result. An index must also refer to the element that was returned with it.
    fn judge_answer(&mut self, asked: ReduceRequest<'_>, answer: Answer, depth: u64) -> Result<()> {
        let ReduceRequest { op, data, expected } = asked;
        let Some(index) = answer.index else {
            return self.judge(op, answer.value, expected, depth);
        };
        self.judge(op, Value::U64(index), expected, depth)?;
        self.extent.element = Some(answer.value);
        self.ok &= element(data, index) == Some(&answer.value.to_bytes()[..]);
        Ok(())
    }
}

fn element(data: &Data, index: u64) -> Option<&[u8]> {
    data.as_bytes().chunks(data.dtype().size()).nth(usize::try_from(index).ok()?)
}

struct Runs {
    device: Device,
    measured: Measured,
    result: ResultMemory,
}

impl Runs {
    fn new(reducer: &Reducer, asked: ReduceRequest<'_>) -> Result<Self> {
        let ReduceRequest { op, data, expected } = asked;
        let n = data.len() as u64;
        let measured = Measured::new(reducer, (op, data.dtype(), n), None, *expected)?;
        let device = reducer.device().clone();
        Ok(Self { measured, result: device.results(2)?, device })
    }

    fn count(&mut self, buffer: &Buffer) -> Result<Option<Counters>> {
        if self.device.info().kind == Kind::Cuda {
            return Ok(None);
        }
        self.result.poison(POISON);
        let stream = self.device.stream()?;
        let output = self.result.address(0);
        // SAFETY: the buffer holds the elements and the result has two words. Both, and `self`, are
        // borrowed until after the wait. After an error, no caller uses `measured` again.
        let launched = unsafe { self.measured.launch_into(&stream, buffer.address(), output) };
        let waited = stream.synchronize();
        let launched = launched?;
        waited.map(|()| launched.counters())
    }

    fn time(&mut self, data: &Data, options: Options) -> Result<Option<Spread>> {
        self.result.poison(POISON);
        let Self { device, measured, result } = self;
        let output = result.address(0);
        let run = |stream: &Stream, input| {
            // SAFETY: every slot of the rotation holds the elements. The stream is idle when `times`
            // returns, and runs on one stream are ordered. After an error, `measured` is not used again.
            unsafe { measured.launch_into(stream, input, output) }.map(drop)
        };
        measure::times(device, data.as_bytes(), 0, options, run)
    }

    /// Returns the result of the last launch, which must be complete.
    fn answer(&self, ReduceRequest { op, data, .. }: ReduceRequest<'_>) -> Answer {
        let dtype = data.dtype();
        Answer::from_words(op, dtype, self.result.take(0, Answer::bytes(op, dtype)))
    }
}
