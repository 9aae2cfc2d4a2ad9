//! Reductions by key: one result for each run of equal neighbouring keys.

use std::{mem, sync::Arc};

use super::{
    ByKeyTask, RunsTask, WriteRunsTask,
    task::{blocks, load},
};
use crate::{
    Buffer, ByKey, Device, Error, Input, Key, Offset, Outcome, Outputs, Plain, Result, Runs, Segments,
    input::{self, Task},
    memory::Memory,
    op::RowsOperation,
    reducer::{Code, Reducer, require_few},
    stream::LastWrite,
};

impl Reducer {
    /// Finds the runs of equal neighbouring keys: the key of each run, and its start. The offsets divide
    /// values in the same order into [segments](Self::segments), for any number of reductions:
    ///
    /// ```
    /// use warpfold::{Device, Reducer, Selection, op};
    ///
    /// let device = Device::open(Selection::Sim)?;
    /// let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
    /// let runs = reducer.runs::<_, u32>(&device.upload(&[3_i16, 3, 7, 7, 7, 3])?)?;
    /// assert_eq!(runs.keys().download()?, [3, 7, 3]);
    /// assert_eq!(runs.offsets().download()?, [0, 2, 5, 6]);
    /// let values = device.upload(&[1.0_f32, 2.0, 4.0, 8.0, 16.0, 32.0])?;
    /// let segments = reducer.segments(&values, runs.offsets())?;
    /// let mut sums = device.outputs(runs.len())?;
    /// reducer.on(&stream).reduce_into(op::Sum, &segments, &mut sums)?;
    /// assert_eq!(sums.read()?, [3.0, 28.0, 32.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// The call needs some KiB of device memory besides the result: 8 bytes for each block of a launch.
    ///
    /// # Errors
    /// - [`Error::OtherDevice`] for keys of another device, and [`Error::TooManyElements`] for more than
    ///   2^35;
    /// - [`Error::Runs`] for more keys than the type of the offsets can count;
    /// - the errors of [`prepare`](Self::prepare), at the first use, which also loads the kernels for an
    ///   input [by key](Buffer::by_key);
    /// - [`Error::OutOfMemory`], or [`Error::Driver`] if a launch, a wait or a copy fails.
    pub fn runs<K: Key, I: Offset>(&self, keys: &Buffer<K>) -> Result<Runs<K, I>> {
        self.device().require("keys", keys.device())?;
        if keys.len() as u64 > I::LARGEST {
            let (n, most) = (keys.len(), I::LARGEST);
            let reason = format!("{n} keys are given, but these offsets count up to {most}; take u64");
            return Err(Error::Runs { reason });
        }
        let counted = self.count_runs(keys)?;
        let heads = self.room_for::<K>(counted.runs)?;
        let (task, offsets) = self.to_write::<I>(&counted, &heads)?;
        if task.is_empty() {
            // Without keys, the only offset is 0.
            self.device().clear(offsets.memory())?;
        } else {
            let core = self.core();
            // SAFETY: the keys of a buffer never change, so that there is room for their runs, which
            // were counted. All memory is borrowed or owned until this returns, and leaked below if the
            // kernel may still run then.
            let written = unsafe { core.reduce_into(&task, offsets.as_device_ptr()) };
            written.map_err(|failed| {
                failed.or_keep(|| {
                    counted.counts.keep_for_good();
                    let written = (heads.clone(), offsets.memory().clone());
                    mem::forget((core.clone(), keys.memory().clone(), written));
                })
            })?;
        }
        Ok(Runs::new(Buffer::written(heads, counted.runs, LastWrite::default()), offsets))
    }

    fn count_runs<K: Key>(&self, keys: &Buffer<K>) -> Result<Counted> {
        let (device, n, key_bytes) = (self.device(), keys.len() as u64, K::BYTES);
        require_few(n)?;
        let core = self.core();
        let blocks = if n == 0 { 0 } else { blocks(core.kernels(), key_bytes, n)? };
        let counts = Memory::new(device, u64::from(blocks) * size_of::<u64>() as u64)?;
        let address = keys.as_device_ptr();
        let task = RunsTask { address, n, key_bytes, blocks, counts: counts.address() };
        if task.is_empty() {
            return Ok(Counted { task, counts, runs: 0 });
        }
        keys.wait_ready()?;
        core.reclaim_finished();
        // SAFETY: the buffer of the keys is borrowed until this returns, and there is a word for each
        // block. Both are leaked below if the kernel may still run then.
        let counted = unsafe { core.reduce(&task, |results| results.get(0)) };
        let words = counted.map_err(|failed| {
            failed.or_keep(|| {
                counts.keep_for_good();
                mem::forget((core.clone(), keys.memory().clone()));
            })
        })?;
        Ok(Counted { task, counts, runs: words[0] as usize })
    }

    fn room_for<K: Key>(&self, runs: usize) -> Result<Arc<Memory>> {
        Ok(Arc::new(Memory::new(self.device(), (runs * size_of::<K>()) as u64)?))
    }

    /// Allocates the offsets, and returns the task that writes offsets and keys.
    fn to_write<I: Offset>(
        &self,
        counted: &Counted,
        heads: &Memory,
    ) -> Result<(WriteRunsTask, Buffer<I>)> {
        let offsets = counted.runs as u64 + 1;
        let offset_bytes = size_of::<I>() as u64;
        let memory = Arc::new(Memory::new(self.device(), offsets * offset_bytes)?);
        let task = WriteRunsTask {
            runs: counted.task,
            heads: heads.address(),
            offsets: memory.address(),
            offset_words: offset_bytes / 4,
        };
        Ok((task, Buffer::written(memory, offsets as usize, LastWrite::default())))
    }

    /// Writes the key and the result of each counted run to memory that has room for all counted runs.
    fn reduce_counted<K: Key, T: Plain>(
        &self,
        code: Code,
        inputs: (&Buffer<K>, &Buffer<T>),
        counted: &Counted,
        outputs: [&Arc<Memory>; 2],
    ) -> Result<()> {
        match counted.task.n {
            0 => Ok(()),
            n if n <= u32::MAX.into() => self.reduce_runs::<K, T, u32>(code, inputs, counted, outputs),
            _ => self.reduce_runs::<K, T, u64>(code, inputs, counted, outputs),
        }
    }

    fn reduce_runs<K: Key, T: Plain, I: Offset>(
        &self,
        code: Code,
        (keys, values): (&Buffer<K>, &Buffer<T>),
        counted: &Counted,
        [heads, results]: [&Arc<Memory>; 2],
    ) -> Result<()> {
        let (write, offsets) = self.to_write::<I>(counted, heads)?;
        let segments = Segments::of_runs(values, &offsets)?;
        let task = ByKeyTask { write, segments: segments.task(code) };
        values.wait_ready()?;
        let core = self.core();
        // SAFETY: the keys of a buffer never change, so that there is room for their runs, which were
        // counted. All memory is borrowed or owned until this returns, and leaked below if the kernels
        // may still run then.
        let reduced = unsafe { core.reduce_into(&task, results.address()) };
        reduced.map_err(|failed| {
            failed.or_keep(|| {
                counted.counts.keep_for_good();
                let inputs = (keys.memory().clone(), values.memory().clone());
                let outputs = (heads.clone(), segments.offsets().clone(), results.clone());
                mem::forget((core.clone(), task.kept_codes(), inputs, outputs));
            })
        })
    }
}

/// Values with a key for each, from [`Buffer::by_key`]: an [`Input`] with one result for each run of
/// equal neighbouring keys.
#[derive(Debug)]
pub struct Keyed<'a, K: Key, T: Plain> {
    keys: &'a Buffer<K>,
    values: &'a Buffer<T>,
}

impl<K: Key, T: Plain> Clone for Keyed<'_, K, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Key, T: Plain> Copy for Keyed<'_, K, T> {}

/// [`Keyed`] values with existing outputs for the results, from [`Keyed::into_outputs`].
#[derive(Debug)]
pub struct KeyedInto<'a, K: Key, T: Plain, R: Outcome> {
    keyed: Keyed<'a, K, T>,
    keys: &'a mut Outputs<K>,
    results: &'a mut Outputs<R>,
}

impl<T: Plain> Buffer<T> {
    /// Pairs each element with a key. Each run of equal neighbouring keys is reduced to one result; keys
    /// and results stay in device memory.
    ///
    /// Keys need not be in order; a key that occurs again after others begins another run.
    ///
    /// ```
    /// use warpfold::{Device, Reducer, Selection, op};
    ///
    /// let device = Device::open(Selection::Sim)?;
    /// let reducer = Reducer::new(&device)?;
    /// let keys = device.upload(&[3_u64, 3, 7, 7, 7, 3])?;
    /// let values = device.upload(&[1_i8, 2, 4, 8, 16, 32])?;
    /// let sums = reducer.reduce(op::Sum, values.by_key(&keys))?;
    /// assert_eq!(sums.keys.download()?, [3, 7, 3]);
    /// assert_eq!(sums.results.read()?, [3, 28, 32]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// The keys are read twice, except for parts in which no run begins. A first launch counts the runs,
    /// and the host waits for their number to allocate memory for the results; therefore a stream does
    /// not accept this input. The reduction needs device memory besides the result: 4 bytes for each
    /// run, or 8 from 2^32 values on; 8 bytes for each 4 to 24 KiB of values; and some KiB.
    ///
    /// ```compile_fail,E0277
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
    /// # let (keys, values) = (device.upload(&[3_u64])?, device.upload(&[1_i8])?);
    /// reducer.on(&stream).reduce(op::Sum, values.by_key(&keys))?;
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// [`Reducer::reduce`] fails with [`Error::Runs`] if there are not as many keys as elements.
    pub fn by_key<'a, K: Key>(&'a self, keys: &'a Buffer<K>) -> Keyed<'a, K, T> {
        Keyed { keys, values: self }
    }
}

impl<'a, K: Key, T: Plain> Keyed<'a, K, T> {
    /// Writes keys and results to existing outputs, from index 0 on. [`Reducer::reduce`] returns the
    /// number of runs; the remaining elements of the outputs are left unchanged.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let keys = device.upload(&[3_u8, 3, 7, 7, 7, 3])?;
    /// let values = device.upload(&[1_i32, 2, 4, 8, 16, 32])?;
    /// let (mut run_keys, mut largest) = (device.outputs(4)?, device.outputs(4)?);
    /// let input = values.by_key(&keys).into_outputs(&mut run_keys, &mut largest);
    /// assert_eq!(reducer.reduce(op::Max, input)?, 3);
    /// assert_eq!((run_keys.read()?, largest.read()?), (vec![3, 7, 3, 0], vec![2, 16, 32, 0]));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// [`Reducer::reduce`] fails with [`Error::Runs`] for more runs than either output has room for, and
    /// writes nothing; after an [`Error::Driver`] the outputs are unspecified.
    pub fn into_outputs<R: Outcome>(
        self,
        keys: &'a mut Outputs<K>,
        results: &'a mut Outputs<R>,
    ) -> KeyedInto<'a, K, T, R> {
        KeyedInto { keyed: self, keys, results }
    }

    fn check(self, code: &Code, device: &Device) -> Result<()> {
        let Self { keys, values } = self;
        device.require("keys", keys.device())?;
        device.require("buffer", values.device())?;
        code.require_device(device)?;
        if keys.len() != values.len() {
            let reason =
                format!("{} keys and {} values; give a key for each value", keys.len(), values.len());
            return Err(Error::Runs { reason });
        }
        Ok(())
    }

    fn load(self, code: Code, reducer: &Reducer) -> Result<()> {
        self.check(&code, reducer.device())?;
        let kernels = reducer.core().kernels();
        load(kernels, K::BYTES, &code)
    }
}

impl<K: Key, T: Plain> input::sealed::Input for Keyed<'_, K, T> {}
impl<K: Key, T: Plain, R: Outcome> input::sealed::Input for KeyedInto<'_, K, T, R> {}

impl<K: Key, T: Plain, O: RowsOperation<T>> Input<O> for Keyed<'_, K, T> {
    type Output = ByKey<K, O::Left>;

    fn reduce(self, op: O, reducer: &Reducer) -> Result<ByKey<K, O::Left>> {
        let code = op.code();
        self.check(&code, reducer.device())?;
        let counted = reducer.count_runs(self.keys)?;
        let heads = reducer.room_for::<K>(counted.runs)?;
        let results = Outputs::of_any_bytes(reducer.device(), counted.runs)?;
        reducer.reduce_counted(code, (self.keys, self.values), &counted, [&heads, results.memory()])?;
        Ok(ByKey { keys: Buffer::written(heads, counted.runs, LastWrite::default()), results })
    }

    fn prepare(self, op: O, reducer: &Reducer) -> Result<()> {
        self.load(op.code(), reducer)
    }
}

impl<K: Key, T: Plain, R: Outcome, O: RowsOperation<T, Left = R>> Input<O> for KeyedInto<'_, K, T, R> {
    type Output = usize;

    fn reduce(self, op: O, reducer: &Reducer) -> Result<usize> {
        let (code, Self { keyed, keys, results }) = (op.code(), self);
        keyed.check(&code, reducer.device())?;
        reducer.device().require("outputs", keys.device())?;
        reducer.device().require("outputs", results.device())?;
        let counted = reducer.count_runs(keyed.keys)?;
        let runs = counted.runs;
        if runs > keys.len().min(results.len()) {
            let (keys, results) = (keys.len(), results.len());
            let reason = format!(
                "there are {runs} runs, but room for {keys} keys and {results} results; make outputs \
                 for {runs}"
            );
            return Err(Error::Runs { reason });
        }
        // Earlier writes to the outputs must have completed.
        keys.wait_ready()?;
        results.wait_ready()?;
        let outputs = [keys.memory(), results.memory()];
        reducer.reduce_counted(code, (keyed.keys, keyed.values), &counted, outputs)?;
        Ok(runs)
    }

    fn prepare(self, op: O, reducer: &Reducer) -> Result<()> {
        self.keyed.load(op.code(), reducer)
    }
}

struct Counted {
    task: RunsTask,
    /// The number of runs that begin in the keys of each block.
    counts: Memory,
    runs: usize,
}
