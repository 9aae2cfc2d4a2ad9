//! A run of the whole library, for the tests of error handling and of resource leaks.

use warpfold::{
    Buffer, Device, Group, Located, Reducer, Result, Stream, Way, internal::reducer_of_ptx, op,
};

use crate::common::{Sample, extreme, kept_ptx, small};

pub(crate) struct Run {
    pub(crate) reducer: Reducer,
    pub(crate) values: Vec<i32>,
    pub(crate) buffer: Buffer<i32>,
}

impl Run {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let values = small::<i32>(3001, 1);
        let buffer = device.upload(&values)?;
        Ok(Self { reducer: reducer_of_ptx(device, kept_ptx()), values, buffer })
    }

    pub(crate) fn sum(&self) -> i64 {
        i32::total(&self.values, false)
    }

    pub(crate) fn all(&self) -> Result<()> {
        let device = self.buffer.device();
        assert_eq!(self.buffer.download()?, self.values);
        let stream = device.stream()?;
        self.waiting()?;
        self.enqueued(&stream)?;
        self.left_on_the_device(&stream)?;
        self.counted(&stream)?;
        self.running(&stream)?;
        self.streamed()?;
        self.grouped()?;
        self.rows(&stream)?;
        self.segments(&stream)?;
        self.recorded(&stream)?;
        stream.synchronize()
    }

    /// Runs [`all`](Self::all) and reductions by key, for tests that load these kernels only once.
    pub(crate) fn all_and_by_key(&self) -> Result<()> {
        self.all()?;
        let stream = self.buffer.device().stream()?;
        self.by_key(&stream)?;
        stream.synchronize()
    }

    fn waiting(&self) -> Result<()> {
        assert_eq!(self.reducer.sum(&self.buffer)?, self.sum());
        let together = self.reducer.reduce((op::ArgMax, op::Sum), &self.buffer)?;
        assert_eq!(together, (extreme(&self.values, true), self.sum()));
        Ok(())
    }

    fn enqueued(&self, stream: &Stream) -> Result<()> {
        let first = self.reducer.on(stream).reduce(op::Sum, &self.buffer)?;
        let second = self.reducer.on(stream).reduce((op::Min, op::Sum), &self.buffer)?;
        let _ = first.is_ready()?;
        let third = self.reducer.on(stream).reduce(op::Sum, &self.buffer.slice(1..)?)?;
        drop(second);
        assert_eq!(third.wait()?, self.sum() - i64::from(self.values[0]));
        assert_eq!(first.wait()?, self.sum());
        Ok(())
    }

    fn left_on_the_device(&self, stream: &Stream) -> Result<()> {
        let device = self.buffer.device();
        let mut located = device.output::<Located<i32>>()?;
        let copy = device.upload(&self.values)?;
        self.reducer.on(stream).reduce_into(op::ArgMin, &copy, &mut located)?;
        drop(copy);
        let other = device.stream()?;
        self.reducer.on(&other).reduce_into(op::ArgMax, &self.buffer, &mut located)?;
        other.wait_for(stream)?;
        assert_eq!(Some(located.read()?), extreme(&self.values, true));
        let mut sum = device.output::<i64>()?;
        self.reducer.on(&other).reduce_into(op::Sum, &self.buffer.slice(..0)?, &mut sum)?;
        assert_eq!(sum.read()?, 0);
        Ok(())
    }

    fn counted(&self, stream: &Stream) -> Result<()> {
        let device = self.buffer.device();
        let mut kept = device.output::<u64>()?;
        self.reducer.on(&device.stream()?).reduce_into(
            op::Sum,
            &device.upload(&[1_u8; 77])?,
            &mut kept,
        )?;
        let sum = self.reducer.on(stream).reduce(op::Sum, self.buffer.counted(&kept.as_count()))?;
        self.reducer.on(&device.stream()?).reduce_into(
            op::Sum,
            &device.upload(&[1_u8; 78])?,
            &mut kept,
        )?;
        assert_eq!(sum.wait()?, i32::total(&self.values[..77], false));
        assert_eq!(kept.read()?, 78);
        Ok(())
    }

    fn running(&self, stream: &Stream) -> Result<()> {
        let mut largest = self.reducer.running(op::ArgMax)?;
        largest.push(stream, &self.buffer.slice(..2000)?)?;
        largest.push(&self.buffer.device().stream()?, &self.buffer.slice(2000..)?)?;
        assert_eq!(largest.result()?, extreme(&self.values, true));
        Ok(())
    }

    fn streamed(&self) -> Result<()> {
        let largest = self.reducer.stream(&self.values).buffers(3, 2000).reduce(op::ArgMax)?;
        assert_eq!(largest, extreme(&self.values, true));
        Ok(())
    }

    fn grouped(&self) -> Result<()> {
        for way in [Way::Peers, Way::Copies] {
            let group = Group::by(way, std::slice::from_ref(&self.reducer))?;
            let values = group.sharded(vec![self.buffer.clone()])?;
            assert_eq!(group.reduce(op::ArgMax, &values)?, extreme(&self.values, true));
            let mut outputs = group.outputs::<Located<i32>>()?;
            group.reduce_into(op::ArgMin, &values, &mut outputs)?;
            group.reduce_into(op::ArgMax, &values, &mut outputs)?;
            drop((group, values));
            assert_eq!(Some(outputs.each()[0].read()?), extreme(&self.values, true));
        }
        Ok(())
    }

    fn rows(&self, stream: &Stream) -> Result<()> {
        let device = self.buffer.device();
        let matrix = self.buffer.slice(1..)?;
        let rows = matrix.rows(30)?;
        let sums: Vec<i64> = self.values[1..].chunks(30).map(|row| i32::total(row, false)).collect();
        assert_eq!(self.reducer.reduce(op::Sum, &rows)?, sums);
        let mut outputs = device.outputs::<i64>(100)?;
        self.reducer.on(&device.stream()?).reduce_into(op::Sum, &rows, &mut outputs)?;
        self.reducer.on(stream).reduce_into(op::Sum, &rows, &mut outputs)?;
        assert_eq!(outputs.read()?, sums);
        let sums = outputs.into_buffer();
        let sum = self.reducer.on(&device.stream()?).reduce(op::Sum, &sums)?;
        assert_eq!(sum.wait()?, self.sum() - i64::from(self.values[0]));
        let mut located = device.outputs::<Located<i32>>(1)?;
        self.reducer.on(stream).reduce_into(op::ArgMax, self.buffer.rows(3001)?, &mut located)?;
        assert_eq!(located.read()?, [extreme(&self.values, true).expect("there are some")]);
        Ok(())
    }

    fn segments(&self, stream: &Stream) -> Result<()> {
        let device = self.buffer.device();
        let offsets = [0_u32, 0, 40, 40, 2000, 3001];
        let segments = self.reducer.segments(&self.buffer, &device.upload(&offsets)?)?;
        let segment = |ends: &[u32]| &self.values[ends[0] as usize..ends[1] as usize];
        let sums: Vec<i64> = offsets.windows(2).map(|ends| i32::total(segment(ends), false)).collect();
        assert_eq!(self.reducer.reduce(op::Sum, &segments)?, sums);
        let mut outputs = device.outputs::<i64>(5)?;
        self.reducer.on(stream).reduce_into(op::Sum, &segments, &mut outputs)?;
        drop(segments);
        assert_eq!(outputs.read()?, sums);
        Ok(())
    }

    fn by_key(&self, stream: &Stream) -> Result<()> {
        let device = self.buffer.device();
        let keys = device.upload(&(0..3001).map(|index| index / 100).collect::<Vec<i16>>())?;
        let sums: Vec<i64> = self.values.chunks(100).map(|run| i32::total(run, false)).collect();
        let runs = self.reducer.reduce(op::Sum, self.buffer.by_key(&keys))?;
        assert_eq!((runs.keys.download()?, runs.results.read()?), ((0..31).collect(), sums.clone()));
        let (mut of, mut results) = (device.outputs(32)?, device.outputs(32)?);
        // The reduction by key must follow a pending write to its results.
        let rows = self.buffer.slice(..32)?;
        self.reducer.on(stream).reduce_into(op::Sum, rows.rows(1)?, &mut results)?;
        let found = self
            .reducer
            .reduce(op::Sum, self.buffer.by_key(&keys).into_outputs(&mut of, &mut results))?;
        assert_eq!((found, &results.read()?[..31]), (31, &*sums));
        Ok(())
    }

    fn recorded(&self, stream: &Stream) -> Result<()> {
        let mut recorder = self.reducer.record();
        let matrix = self.buffer.slice(..3000)?;
        let rows = matrix.rows(30)?;
        let (sum, found) = (recorder.reduce(op::Sum, &self.buffer)?, recorder.reduce(op::Sum, &rows)?);
        let outputs = self.buffer.device().outputs(100)?;
        let left = recorder.reduce_into(op::Sum, &rows, outputs)?;
        let mut recording = recorder.finish()?;
        let results = recording.run()?;
        let sums: Vec<i64> = self.values[..3000].chunks(30).map(|row| i32::total(row, false)).collect();
        assert_eq!((results.get(&sum), results.get(&found)), (self.sum(), sums.clone()));
        assert_eq!(results.outputs(&left).read()?, sums);
        drop(recording.launch(stream)?);
        let results = recording.launch(stream)?.wait()?;
        assert_eq!(results.get(&sum), self.sum());
        Ok(())
    }
}
