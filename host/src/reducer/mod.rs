//! The reducer: what a program calls to reduce what is in device memory.
//!
//! ```no_run
//! use warpfold_suite::{Device, Op, Reducer, Selection};
//!
//! let device = Device::open(Selection::Auto)?;
//! let reducer = Reducer::new(&device)?;
//! let values: Vec<f32> = (0..1_000_000).map(|i| i as f32).collect();
//! let buffer = device.upload_slice(&values)?;
//! println!("{}", reducer.sum(&buffer)?);
//!
//! // Meanwhile the host goes on.
//! let stream = device.stream()?;
//! let pending = reducer.enqueue(&stream, Op::ArgMax, &buffer)?;
//! let largest = pending.wait()?.expect("there are elements");
//! println!("{} at {:?}", largest.value, largest.index);
//! # Ok::<(), warpfold_suite::Error>(())
//! ```
//!
//! Every reduction is one launch, whose kernel writes the result into host memory: nothing is allocated,
//! copied or waited for but the result. Any number of elements up to [`MAX_ELEMENTS`] goes, from any
//! element of a buffer on. Which kernel runs on how many blocks is the [tuning](Tuning)'s business.
//!
//! A reducer has one workspace and so does one reduction at a time: another one that is asked for
//! meanwhile is refused ([`Error::ReducerBusy`]). For reductions that overlap take [`Reducer::another`]
//! for each: it shares the loaded kernels. [Recordings](Reducer::record) run several in a row at the
//! cost of one launch.
//!
//! The calls are safe. No launch reads outside its buffer, whose memory and all else that it uses stays
//! until its end, even if what waits for it is leaked. The elements of a [`Buffer`] never change, so
//! that any number of reducers may read them at once.
//!
//! The same call gives the same bits on the same device with the same tuning and
//! [alignment](Buffer::slice): the order of additions is that of the launch's geometry, not that in
//! which blocks end.

mod geometry;
mod kernels;
mod measured;
mod pending;
mod recording;
pub mod tuning;
mod workspace;

use std::{fmt, sync::Arc};

use crate::{Buffer, Device, Dtype, Error, Op, PtxStore, Result, Stream, Value};
use kernels::Kernels;
use workspace::Workspace;

pub use geometry::{Launch, MAX_ELEMENTS, depth_on};
pub use measured::Measured;
pub use pending::PendingReduction;
pub use recording::{PendingRecording, Recording, Results};
pub use tuning::{Choice, Tuning};

/// Reduces buffers of one device.
pub struct Reducer {
    core: Arc<Core>,
}

/// What a reduction under way keeps alive.
struct Core {
    kernels: Arc<Kernels>,
    workspace: Workspace,
    /// For calls that wait.
    stream: Stream,
}

/// What came out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// The result in the type of [`Op::result`]; for an index, the element that is there.
    pub value: Value,
    /// Where the first extreme element is, for [`Op::ArgMin`] and [`Op::ArgMax`].
    pub index: Option<u64>,
}

/// The first of the smallest or largest elements, or the first NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extreme {
    /// Its place in the buffer.
    pub index: u64,
    /// The element.
    pub value: Value,
}

/// An operation on elements in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Job {
    op: Op,
    dtype: Dtype,
    n: u64,
    /// A multiple of the elements' size.
    address: u64,
}

impl Reducer {
    /// A reducer of a device, with the PTX that [`PtxStore::locate`] finds and the choices of
    /// [`Tuning::of`].
    ///
    /// # Errors
    /// [`Error::PtxMissing`], [`Error::OutOfMemory`], or [`Error::Driver`] when the driver refuses a
    /// workspace.
    pub fn new(device: &Device) -> Result<Self> {
        Self::with(device, &PtxStore::locate(None)?, Tuning::of(device.info()))
    }

    /// A reducer with PTX and choices of the caller's.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Driver`] when the driver refuses a workspace.
    pub fn with(device: &Device, store: &PtxStore, tuning: Tuning) -> Result<Self> {
        Self::sharing(Arc::new(Kernels::new(device, store, tuning)))
    }

    /// Another one of the same device, for reductions that overlap with this one's: it shares the
    /// kernels and choices, and has a workspace of its own.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn another(&self) -> Result<Self> {
        Self::sharing(self.core.kernels.clone())
    }

    fn sharing(kernels: Arc<Kernels>) -> Result<Self> {
        let device = kernels.device();
        let (workspace, stream) = (Workspace::new(device, 1, "reducer")?, device.stream()?);
        Ok(Self { core: Arc::new(Core { kernels, workspace, stream }) })
    }

    /// The device whose buffers it takes.
    pub fn device(&self) -> &Device {
        self.core.kernels.device()
    }

    /// The choices that it follows.
    pub fn tuning(&self) -> &Tuning {
        self.core.kernels.tuning()
    }

    /// Loads the kernels of an operation and type, as the first reduction otherwise does: on a GPU the
    /// driver compiles them.
    ///
    /// # Errors
    /// [`Error::PtxMissing`] when they were not built, [`Error::PtxRejected`] when the device does not
    /// take them.
    pub fn prepare(&self, op: Op, dtype: Dtype) -> Result<()> {
        self.core.kernels.prepare(op, dtype)
    }

    /// The sum of the elements, 0 of none. Integers wrap around; those of 8 bits are added in 64, floats
    /// of 16 bits in 32, which is the type of the result.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn sum(&self, buffer: &Buffer) -> Result<Value> {
        self.total(Op::Sum, buffer)
    }

    /// The sum of the elements' squares, 0 of none; in the types of [`sum`](Self::sum).
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn sum_of_squares(&self, buffer: &Buffer) -> Result<Value> {
        self.total(Op::SumSq, buffer)
    }

    /// The smallest element; NaN if there is one. None of none.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn min(&self, buffer: &Buffer) -> Result<Option<Value>> {
        Ok(self.reduce(Op::Min, buffer)?.map(|answer| answer.value))
    }

    /// The largest element; NaN if there is one. None of none.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn max(&self, buffer: &Buffer) -> Result<Option<Value>> {
        Ok(self.reduce(Op::Max, buffer)?.map(|answer| answer.value))
    }

    /// The first of the smallest elements, or the first NaN if there is one. None of none.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn arg_min(&self, buffer: &Buffer) -> Result<Option<Extreme>> {
        Ok(self.reduce(Op::ArgMin, buffer)?.and_then(Answer::extreme))
    }

    /// The first of the largest elements, or the first NaN if there is one. None of none.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn arg_max(&self, buffer: &Buffer) -> Result<Option<Extreme>> {
        Ok(self.reduce(Op::ArgMax, buffer)?.and_then(Answer::extreme))
    }

    fn total(&self, op: Op, buffer: &Buffer) -> Result<Value> {
        let answer = self.reduce(op, buffer)?.expect("nothing has a sum too");
        Ok(answer.value)
    }

    /// Reduces a buffer and waits for the result: none for the extreme of no elements.
    ///
    /// # Errors
    /// - [`Error::Mismatch`] for a buffer of another device, [`Error::TooManyElements`];
    /// - [`Error::ReducerBusy`] while another reduction of this reducer is under way;
    /// - [`Error::PtxMissing`] or [`Error::PtxRejected`] at the first use of an operation and type;
    /// - [`Error::Driver`] when the launch fails. The next one is free to
    ///   succeed.
    pub fn reduce(&self, op: Op, buffer: &Buffer) -> Result<Option<Answer>> {
        let job = Job::of(op, buffer, self.device())?;
        if job.n == 0 {
            return Ok(job.answer_of_nothing());
        }
        let Core { kernels, workspace, stream } = &*self.core;
        kernels.prepare(op, job.dtype)?;
        workspace.claim()?;
        // SAFETY: the job is that of the buffer, which is borrowed until the wait below is over; the
        // workspace is claimed for as long.
        let launched = unsafe { self.core.launch(stream, &job) };
        let waited = stream.synchronize();
        let answer = launched.and(waited).map(|()| workspace.answer(0, op, job.dtype));
        workspace.release(answer.is_err());
        answer.map(Some)
    }

    /// Launches the reduction of a buffer on a stream and returns at once.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce), and [`Error::Mismatch`] for the stream of another device.
    pub fn enqueue(&self, stream: &Stream, op: Op, buffer: &Buffer) -> Result<PendingReduction> {
        let job = Job::of(op, buffer, self.device())?;
        require_stream(self.device(), stream)?;
        if job.n == 0 {
            return Ok(PendingReduction::of_nothing(job.answer_of_nothing()));
        }
        self.prepare(op, job.dtype)?;
        PendingReduction::enqueue(&self.core, stream, job, buffer)
    }

    /// Records several reductions, to be run one after the other by a single launch as often as wanted.
    /// The recording has a workspace of its own, so that this reducer is free meanwhile.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce), and [`Error::Driver`] when the driver cannot record.
    pub fn record(&self, reductions: &[(Op, &Buffer)]) -> Result<Recording> {
        Recording::new(&self.core.kernels, reductions)
    }

    /// The launch that the reduction of a buffer makes; none for no elements.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare), and those of [`reduce`](Self::reduce) for the buffer.
    pub fn plan(&self, op: Op, buffer: &Buffer) -> Result<Option<Launch>> {
        let job = Job::of(op, buffer, self.device())?;
        let plan = (job.n > 0).then(|| self.core.kernels.plan(&job, None));
        plan.transpose()
    }

    /// Most additions that one element's value takes part in, for
    /// [`Expected::check`](crate::reference::Expected::check).
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub fn depth(&self, op: Op, buffer: &Buffer) -> Result<u64> {
        let job = Job::of(op, buffer, self.device())?;
        let plan = self.plan(op, buffer)?;
        Ok(plan.map_or(0, |launch| launch.depth(job.extent())))
    }
}

impl Core {
    /// Enqueues a job that is not empty, whose result lands in the workspace.
    ///
    /// # Safety
    /// The job must be that of a buffer of this device. The workspace is claimed; it, the buffer and
    /// `self` are kept until `stream` was synchronised.
    unsafe fn launch(&self, stream: &Stream, job: &Job) -> Result<()> {
        let Self { kernels, workspace, .. } = self;
        // SAFETY: a result of the workspace has room; the caller's contract.
        unsafe {
            workspace.settle(stream)?;
            kernels.enqueue(stream, job, workspace, workspace.output(0), None).map(drop)
        }
    }
}

impl Job {
    /// That of a buffer's elements, which must be on `device` and not too many.
    fn of(op: Op, buffer: &Buffer, device: &Device) -> Result<Self> {
        if !buffer.device().same(device) {
            let (has, needs) = (&buffer.device().info().name, &device.info().name);
            let reason = format!(
                "it was uploaded to another device ({has}) than the reducer's ({needs}); upload it to that"
            );
            return Err(Error::Mismatch { what: "buffer", reason });
        }
        let job = Self { op, dtype: buffer.dtype(), n: buffer.len(), address: buffer.address() };
        job.check()?;
        Ok(job)
    }

    /// What comes of no elements.
    fn answer_of_nothing(&self) -> Option<Answer> {
        let zero = || Value::identity(Op::Sum, self.op.result(self.dtype));
        self.op.has_empty_value().then(|| Answer { value: zero(), index: None })
    }
}

impl Answer {
    /// What a kernel has written.
    pub(crate) fn from_words(op: Op, dtype: Dtype, [first, second]: [u64; 2]) -> Self {
        let value = |dtype, word: u64| Value::from_bytes(dtype, &word.to_ne_bytes());
        match op {
            Op::ArgMin | Op::ArgMax => Self { value: value(dtype, second), index: Some(first) },
            Op::Sum | Op::SumSq | Op::Min | Op::Max => {
                Self { value: value(op.result(dtype), first), index: None }
            }
        }
    }

    /// The element and its place, for [`Op::ArgMin`] and [`Op::ArgMax`].
    pub fn extreme(self) -> Option<Extreme> {
        self.index.map(|index| Extreme { index, value: self.value })
    }
}

impl fmt::Debug for Reducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reducer").field("device", self.device()).finish_non_exhaustive()
    }
}

fn require_stream(device: &Device, stream: &Stream) -> Result<()> {
    if stream.device().same(device) {
        return Ok(());
    }
    let (has, needs) = (&stream.device().info().name, &device.info().name);
    let reason =
        format!("it belongs to another device ({has}) than the reducer ({needs}); take one of that");
    Err(Error::Mismatch { what: "stream", reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Data, Selection};

    #[test]
    fn all_may_be_used_from_any_thread() {
        fn check<T: Send + Sync>() {}
        check::<Reducer>();
        check::<PendingReduction>();
        check::<Recording>();
        check::<Tuning>();
    }

    fn job(n: u64) -> Job {
        Job { op: Op::Sum, dtype: Dtype::I8, n, address: 0 }
    }

    #[test]
    fn too_many_elements_are_refused_with_the_limit() {
        assert!(job(MAX_ELEMENTS).check().is_ok());
        let message = job(MAX_ELEMENTS + 1).check().unwrap_err().to_string();
        assert!(message.contains("34359738369") && message.contains("34359738368"), "{message}");
    }

    #[test]
    fn nothing_has_a_sum_of_the_results_type() {
        for &dtype in Dtype::ALL {
            for &op in Op::ALL {
                let answer = Job { op, dtype, ..job(0) }.answer_of_nothing();
                assert_eq!(answer.is_some(), op.has_empty_value());
                if let Some(Answer { value, index }) = answer {
                    assert_eq!((value.dtype(), value.to_f64(), index), (op.result(dtype), 0.0, None));
                }
            }
        }
    }

    /// A device and a store without any file: what launches finds no kernel.
    fn bare() -> (Device, tempfile::TempDir, Reducer) {
        let device = Device::open(Selection::Sim).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = PtxStore::at(folder.path(), None).unwrap();
        let reducer = Reducer::with(&device, &store, Tuning::generic()).unwrap();
        (device, folder, reducer)
    }

    #[test]
    fn no_elements_need_no_kernel() {
        let (device, _folder, reducer) = bare();
        let stream = device.stream().unwrap();
        let buffer = device.upload(&Data::Bf16(Vec::new())).unwrap();
        assert_eq!(reducer.sum(&buffer).unwrap(), Value::F32(0.0));
        assert_eq!(reducer.min(&buffer).unwrap(), None);
        assert_eq!(reducer.arg_max(&buffer).unwrap(), None);
        let pending = reducer.enqueue(&stream, Op::SumSq, &buffer).unwrap();
        assert!(pending.is_ready().unwrap());
        assert_eq!(pending.wait().unwrap().unwrap().value, Value::F32(0.0));
        let mut recording = reducer.record(&[(Op::Max, &buffer), (Op::Sum, &buffer)]).unwrap();
        let results = recording.run().unwrap();
        assert_eq!((results.len(), results.get(0)), (2, None));
        assert_eq!(results.get(1).unwrap().value, Value::F32(0.0));
        assert!(reducer.record(&[]).unwrap().run().unwrap().is_empty());
        assert_eq!(reducer.plan(Op::Sum, &buffer).unwrap(), None);
        assert_eq!(reducer.depth(Op::Sum, &buffer).unwrap(), 0);
    }

    #[test]
    fn what_is_not_there_is_named_with_the_command_and_leaves_the_reducer_free() {
        let (device, _folder, reducer) = bare();
        let stream = device.stream().unwrap();
        let buffer = device.upload_slice(&[1_u8, 2, 3]).unwrap();
        for error in [
            reducer.sum(&buffer).unwrap_err(),
            reducer.prepare(Op::Sum, Dtype::U8).unwrap_err(),
            reducer.enqueue(&stream, Op::Sum, &buffer).unwrap_err(),
            reducer.record(&[(Op::Sum, &buffer)]).unwrap_err(),
        ] {
            let message = error.to_string();
            assert!(message.contains("reducer_sum_u8"), "{message}");
            assert!(message.contains("cargo xtask build-ptx"), "{message}");
        }
    }

    #[test]
    fn what_belongs_to_another_device_is_refused() {
        let (device, _folder, reducer) = bare();
        let other = Device::open(Selection::Sim).unwrap();
        let there = other.upload_slice(&[1.0_f64]).unwrap();
        let here = device.upload_slice(&[1.0_f64]).unwrap();
        let error = reducer.sum(&there).unwrap_err();
        assert!(matches!(error, Error::Mismatch { what: "buffer", .. }), "{error}");
        let error = reducer.record(&[(Op::Sum, &there)]).unwrap_err();
        assert!(matches!(error, Error::Mismatch { what: "buffer", .. }), "{error}");
        let error = reducer.enqueue(&other.stream().unwrap(), Op::Sum, &here).unwrap_err();
        assert!(matches!(error, Error::Mismatch { what: "stream", .. }), "{error}");
    }
}
