//! Runs of the reducer as records.

use super::Record;
use crate::{
    Answer, Buffer, Data, Device, Error, Kind, Op, PtxStore, Reducer, Result, Spread, Stream, Value,
    catalogue,
    device::{Counters, ResultMemory},
    measure::{self, Options},
    reducer::Measured,
    reference::{Expected, POISON},
};

/// What the reducer is asked for, and what must come out.
#[derive(Clone, Copy)]
struct Asked<'a> {
    op: Op,
    data: &'a Data,
    expected: &'a Expected,
}

impl Record {
    /// Reduces elements by a call of the reducer, checks the result and, on a GPU where it is right,
    /// times launches and checks the last of them as well. On the simulator one more launch is counted.
    /// `store` is the reducer's.
    ///
    /// # Errors
    /// Those of [`Reducer::reduce`], of [`PtxStore::find`], of [`measure`](mod@crate::measure) and of
    /// [`Expected::judge`], and [`Error::NoValue`] for the extreme of no elements.
    pub fn of_reducer(
        reducer: &Reducer,
        store: &PtxStore,
        op: Op,
        data: &Data,
        expected: &Expected,
        options: Options,
    ) -> Result<Self> {
        let asked = Asked { op, data, expected };
        let device = reducer.device();
        let ptx = store.find(&catalogue::reducer_ptx(op, data.dtype()), device.info())?;
        let mut record = Self::on_device(catalogue::find("reducer")?, data, device, &ptx);
        let mut runs = (!data.is_empty()).then(|| Runs::new(reducer, asked)).transpose()?;
        // The elements leave the device before they are uploaded to be timed.
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

    /// Calls the reducer, and counts a launch; gives the depth of the additions.
    fn call(&mut self, reducer: &Reducer, asked: Asked<'_>, runs: Option<&mut Runs>) -> Result<u64> {
        let Asked { op, data, .. } = asked;
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

    /// As `judge`, and the element at an index must be that of the elements.
    fn judge_answer(&mut self, asked: Asked<'_>, answer: Answer, depth: u64) -> Result<()> {
        let Asked { op, data, expected } = asked;
        let Some(index) = answer.index else {
            return self.judge(op, answer.value, expected, depth);
        };
        self.judge(op, Value::U64(index), expected, depth)?;
        self.extent.element = Some(answer.value);
        self.ok &= element(data, index) == Some(&answer.value.to_bytes()[..]);
        Ok(())
    }
}

/// The bytes of the element at an index, if there is one.
fn element(data: &Data, index: u64) -> Option<&[u8]> {
    data.as_bytes().chunks(data.dtype().size()).nth(usize::try_from(index).ok()?)
}

/// Launches as the reducer makes them, whose result lands in memory that is poisoned before.
struct Runs {
    device: Device,
    measured: Measured,
    result: ResultMemory,
}

impl Runs {
    fn new(reducer: &Reducer, asked: Asked<'_>) -> Result<Self> {
        let Asked { op, data, expected } = asked;
        let n = data.len() as u64;
        let measured = Measured::new(reducer, (op, data.dtype(), n), None, *expected)?;
        let device = reducer.device().clone();
        Ok(Self { measured, result: device.results(2)?, device })
    }

    /// What the simulator counts of one launch; nothing is launched on a GPU.
    fn count(&mut self, buffer: &Buffer) -> Result<Option<Counters>> {
        if self.device.info().kind == Kind::Cuda {
            return Ok(None);
        }
        self.result.poison(POISON);
        let stream = self.device.stream()?;
        let output = self.result.address(0);
        // SAFETY: the buffer holds the elements and the result has two words; both, and `self`, are
        // borrowed until the wait is over. An error ends the record.
        let launched = unsafe { self.measured.launch_into(&stream, buffer.address(), output) };
        let waited = stream.synchronize();
        let launched = launched?;
        waited.map(|()| launched.counters())
    }

    /// Times of launches on rotated inputs; none on the simulator.
    fn time(&mut self, data: &Data, options: Options) -> Result<Option<Spread>> {
        self.result.poison(POISON);
        let Self { device, measured, result } = self;
        let output = result.address(0);
        let run = |stream: &Stream, input| {
            // SAFETY: every slot of the rotation holds the elements; the stream is idle when `times`
            // returns, and runs on one stream follow each other. An error ends the record.
            unsafe { measured.launch_into(stream, input, output) }.map(drop)
        };
        measure::times(device, data.as_bytes(), 0, options, run)
    }

    /// What the last launch left, which is over.
    fn answer(&self, Asked { op, data, .. }: Asked<'_>) -> Answer {
        let dtype = data.dtype();
        Answer::from_words(op, dtype, self.result.take(0, Answer::bytes(op, dtype)))
    }
}
