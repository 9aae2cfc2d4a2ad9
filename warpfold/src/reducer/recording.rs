//! Several reductions recorded once and run as one.

use std::{
    any::Any,
    fmt,
    marker::PhantomData,
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use warpfold_driver::{GraphExec, sys};

use super::{
    core::Core,
    host_results::{HostResults, Layout},
    kernels::LaunchContext,
    plan::{DeviceOutput, OutputMemory, Plan},
    pool,
};
use crate::{
    Device, Error, Result, Stream,
    context::Failed,
    input::{AnyTask, Enqueue, Recordable, segments::Offsets},
    memory::{HostWords, Memory},
    stream::Event,
};

/// The reductions for a [`Recording`], from [`Reducer::record`](super::Reducer::record).
///
/// ```
/// use warpfold::{Device, Reducer, Selection, op};
///
/// let device = Device::open(Selection::Sim)?;
/// let (a, b) = (device.upload(&[1_u8, 2, 3])?, device.upload(&[0.5_f64, -2.0])?);
/// let mut recorder = Reducer::new(&device)?.record();
/// let (sum, least) = (recorder.reduce(op::Sum, &a)?, recorder.reduce(op::ArgMin, &b)?);
/// let mut recording = recorder.finish()?;
/// let results = recording.run()?;
/// assert_eq!(results.get(&sum), 6);
/// assert_eq!(results.get(&least).expect("there are elements").index, 1);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// Reductions with one result, and those of rows, axes, views and segments, write their results to the
/// host, or to device memory that the recording then owns:
///
/// ```
/// # use warpfold::{Device, Reducer, Selection, op};
/// # let device = Device::open(Selection::Sim)?;
/// # let mut recorder = Reducer::new(&device)?.record();
/// let matrix = device.upload(&[3.0_f32, 1.0, 2.0, -4.0, 5.0, 6.0])?;
/// let sums = recorder.reduce(op::Sum, matrix.rows(3)?)?;
/// let largest = device.outputs(3)?;
/// // The address for kernels that are enqueued after a replay.
/// let _address = largest.as_device_ptr();
/// let largest = recorder.reduce_into(op::Max, matrix.columns(3)?, largest)?;
/// let mut recording = recorder.finish()?;
/// let results = recording.run()?;
/// assert_eq!(results.get(&sums), [6.0, 7.0]);
/// assert_eq!(results.outputs(&largest).read()?, [3.0, 5.0, 6.0]);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// If a reduction has several results, kernels write them to page-locked host memory, across the bus.
/// [`Results::get`] copies them from there on each call.
pub struct Recorder {
    core: Arc<Core>,
    id: u64,
    parts: Vec<Part>,
    words: usize,
}

/// One reduction, or several operations on the same elements.
struct Part {
    task: AnyTask,
    _inputs: [Option<Arc<Memory>>; 2],
    _offsets: Option<Arc<Offsets>>,
    place: Target,
}

enum Target {
    /// Host memory of the recording, from the word with index `first` on.
    Host { first: usize, elements: u64 },
    /// Host memory for several results, from the word with index `first` on.
    Pieces { first: usize, layout: Layout },
    /// Outputs that the recording owns.
    Outputs { address: u64, outputs: Box<dyn OutputMemory> },
}

/// A handle of a recorded reduction, for [`Results::get`].
pub struct Recorded<R> {
    recording: u64,
    index: usize,
    decode: fn(HostResults<'_>) -> R,
}

/// A handle of a recorded reduction into device memory, for [`Results::outputs`].
pub struct RecordedOutputs<R> {
    recording: u64,
    index: usize,
    results: PhantomData<fn() -> R>,
}

impl Recorder {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { core: core.clone(), id, parts: Vec::new(), words: 0 }
    }

    pub(super) fn device(&self) -> &Device {
        self.core.device()
    }

    /// Creates the recording, with its own memory for everything that the reductions write except
    /// outputs.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Driver`] if the driver cannot record, or has no page-locked
    /// memory for the results.
    pub fn finish(self) -> Result<Recording> {
        let Self { core, id, parts, words } = self;
        let device = core.device();
        let mut inner = Inner {
            graph: None,
            slots: pool::slots(device)?,
            results: HostWords::new(device, words)?,
            stream: Stream::new(device)?,
            end: Event::new(device)?,
            needs_clear: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            id,
            parts,
            core: core.clone(),
        };
        if launched(&inner.parts).next().is_some() {
            // SAFETY: the launches are only recorded. `Inner::launch` meets the conditions of each run.
            let graph = Graph::record(&inner.stream, || unsafe { inner.enqueue() })?;
            inner.graph = Some(graph);
        }
        Ok(Recording(Arc::new(inner)))
    }

    /// Adds a reduction whose result is written to host memory, and loads its kernels. Waits until the
    /// input has been written.
    ///
    /// # Errors
    /// Those of [`prepare`](super::Reducer::prepare), and [`Error::Driver`] if that wait fails.
    pub fn reduce<O, I: Enqueue<O> + Recordable>(
        &mut self,
        op: O,
        input: I,
    ) -> Result<Recorded<I::Output>> {
        let plan = input.plan(op, self.device())?;
        let (place, words) = match &plan.several {
            None => {
                let place = Target::Host { first: self.words, elements: plan.elements() };
                (place, plan.task.layout().words())
            }
            Some(several) => {
                (Target::Pieces { first: self.words, layout: several.layout }, several.layout.words())
            }
        };
        let decode = plan.decode;
        let index = self.add(plan, place)?;
        self.words += words;
        Ok(Recorded { recording: self.id, index, decode })
    }

    /// Adds a reduction that writes to `output`, which the recording owns from now on, and loads its
    /// kernels. Waits until the input has been written, and for earlier uses of the output.
    ///
    /// # Errors
    /// Same as [`reduce`](Self::reduce), and those for outputs of
    /// [`OnStream::reduce_into`](super::OnStream::reduce_into).
    pub fn reduce_into<O, I: Enqueue<O> + Recordable>(
        &mut self,
        op: O,
        input: I,
        output: I::Left,
    ) -> Result<RecordedOutputs<I::Left>> {
        let plan = input.plan(op, self.device())?;
        plan.require_room(output.results())?;
        self.device().require("outputs", output.memory().device())?;
        // Waits for earlier writes of the output, and for launches that read it as their count.
        output.wait_ready()?;
        if plan.several.is_none() && plan.task.is_empty() {
            plan.task.require_zero_of_none()?;
            self.device().clear(output.memory())?;
        }
        let place = Target::Outputs { address: output.memory().address(), outputs: Box::new(output) };
        let index = self.add(plan, place)?;
        Ok(RecordedOutputs { recording: self.id, index, results: PhantomData })
    }

    /// Adds a part and returns its index. Waits for the input, because a replay waits only for earlier
    /// work on its stream.
    fn add<R>(&mut self, plan: Plan<'_, R>, place: Target) -> Result<usize> {
        plan.wait_ready()?;
        if !plan.task.is_empty() {
            // A graph can record launches, but not the loading of kernels.
            plan.task.prepare(self.core.kernels())?;
        }
        self.parts.push(Part {
            _inputs: plan.memories().map(Option::<&_>::cloned),
            _offsets: plan.offsets.cloned(),
            task: plan.task,
            place,
        });
        Ok(self.parts.len() - 1)
    }
}

/// Reductions that run one after the other as one launch, a CUDA graph.
///
/// It holds the buffers, the offsets of segments and the outputs passed to it, and has its own memory
/// for everything else that the reductions write. Each [`run`](Self::run) or [`launch`](Self::launch) is
/// a *replay*. One replay at a time uses the memory, and none allocates any.
pub struct Recording(Arc<Inner>);

struct Inner {
    // Dropped first, because it refers to memory in other fields.
    graph: Option<Graph>,
    core: Arc<Core>,
    slots: Memory,
    results: HostWords,
    stream: Stream,
    end: Event,
    /// True if slots may be nonzero because a replay failed.
    needs_clear: AtomicBool,
    /// True if a replay may be in flight after an error, without a record of its end in `end`.
    lost: AtomicBool,
    id: u64,
    parts: Vec<Part>,
}

impl Recording {
    /// Returns the number of reductions.
    pub fn len(&self) -> usize {
        self.0.parts.len()
    }

    /// Returns whether there are no reductions.
    pub fn is_empty(&self) -> bool {
        self.0.parts.is_empty()
    }

    /// Runs all reductions and waits for the results.
    ///
    /// # Errors
    /// [`Error::Driver`] if the launch or a reduction fails, and [`Error::Lost`] after a failure that
    /// left open whether the replay still runs.
    pub fn run(&mut self) -> Result<Results<'_>> {
        self.start(&self.0.stream)?.wait()
    }

    /// Launches all reductions on a stream and returns at once.
    ///
    /// # Errors
    /// Same as [`run`](Self::run), and [`Error::OtherDevice`] for the stream of another device.
    pub fn launch(&mut self, stream: &Stream) -> Result<PendingRecording<'_>> {
        self.0.core.device().require("stream", stream.device())?;
        self.start(stream)
    }

    /// Launches all reductions. The caller must have borrowed the recording exclusively for as long as
    /// the returned replay lives.
    fn start(&self, stream: &Stream) -> Result<PendingRecording<'_>> {
        let inner = &self.0;
        // SAFETY: the returned replay keeps a reference to `inner` until its wait, and leaking the
        // replay leaks the reference. After an error, this function waits. If the work may still run
        // after either wait, a reference is leaked. The exclusive borrow allows one replay at a time.
        let launched = unsafe { inner.launch(stream) }.and_then(|()| inner.end.record(stream));
        if let Err(error) = launched {
            inner.needs_clear.store(true, Ordering::Relaxed);
            if let Err(Failed { ended: false, .. }) = stream.wait_out() {
                inner.lost.store(true, Ordering::Relaxed);
                mem::forget(inner.clone());
            }
            return Err(error);
        }
        Ok(PendingRecording { recording: inner, work: Some(inner.clone()) })
    }
}

impl Inner {
    /// # Safety
    /// The caller must keep `self` until the enqueued work has finished, and enqueue one replay at a
    /// time, apart from leaked replays.
    unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        let Some(graph) = &self.graph else { return Ok(()) };
        if self.lost.load(Ordering::Relaxed) {
            let reason = "a replay has failed and may still run; record again".to_owned();
            return Err(Error::Lost { what: "recording", reason });
        }
        // A leaked replay may be in flight.
        self.end.precede(stream)?;
        if self.needs_clear.load(Ordering::Relaxed) {
            // SAFETY: the stream waits for earlier uses of the slots, and the caller keeps `self` until
            // the clear has finished.
            unsafe { self.slots.clear_on(stream) }?;
            self.needs_clear.store(false, Ordering::Relaxed);
        }
        for part in &self.parts {
            let Target::Outputs { outputs, .. } = &part.place else { continue };
            // Earlier launches may still read the output as their [count](crate::Counted).
            outputs.precede(stream)?;
        }
        // SAFETY: the recorded work uses the buffers, offsets, slots, results and outputs that `self`
        // holds. No two parts share outputs, because each part owns its outputs.
        unsafe { graph.launch(stream) }
    }

    /// Enqueues the reductions one after the other on the recording's own stream, which is being
    /// captured.
    ///
    /// # Safety
    /// Same as [`launch`](Self::launch).
    unsafe fn enqueue(&self) -> Result<()> {
        let Self { core, slots, stream, results, parts, .. } = self;
        for part in launched(parts) {
            let output = match part.place {
                Target::Host { first, .. } | Target::Pieces { first, .. } => results.address(first),
                Target::Outputs { address, .. } => address,
            };
            let context = LaunchContext::new(slots.address(), output, stream.raw());
            let context = LaunchContext { recording: true, ..context };
            // SAFETY: `self` holds the task's buffers and offsets. The memory at `output` belongs to
            // this part, and has room for its results. Launches follow each other on the stream, so that
            // each has the slots to itself, and the caller keeps `self` until they have finished.
            unsafe { part.task.enqueue(core.kernels(), &context) }?;
        }
        Ok(())
    }

    fn host_results(&self, part: &Part) -> Option<HostResults<'_>> {
        match part.place {
            Target::Host { first, elements } => {
                let results = HostResults::new(&self.results, first, part.task.layout());
                Some(results.of_elements(elements))
            }
            Target::Pieces { first, layout } => Some(HostResults::new(&self.results, first, layout)),
            Target::Outputs { .. } => None,
        }
    }

    fn part(&self, recording: u64, index: usize) -> &Part {
        assert_eq!(self.id, recording, "the reduction belongs to another recording");
        &self.parts[index]
    }
}

/// A replay in flight on a stream. Dropping it waits; leaking it leaks the resources in use.
#[must_use = "dropping it waits for the results and throws them away"]
pub struct PendingRecording<'r> {
    recording: &'r Inner,
    /// Keeps the resources of a leaked replay alive; `None` after the wait.
    work: Option<Arc<Inner>>,
}

impl<'r> PendingRecording<'r> {
    /// Waits for the results, but not for later work on the stream.
    ///
    /// # Errors
    /// [`Error::Driver`] if a reduction has failed.
    pub fn wait(mut self) -> Result<Results<'r>> {
        self.finish()?;
        Ok(Results { recording: self.recording })
    }

    /// Returns whether the replay has finished.
    ///
    /// # Errors
    /// Same as [`wait`](Self::wait).
    pub fn is_ready(&self) -> Result<bool> {
        self.recording.end.is_done()
    }

    fn finish(&mut self) -> Result<()> {
        let Some(work) = self.work.take() else { return Ok(()) };
        work.end.wait_out().map_err(|failed| {
            work.needs_clear.store(true, Ordering::Relaxed);
            failed.or_keep(|| mem::forget(work.clone()))
        })?;
        // Once per replay, tells a simulated driver that the host reads the results: `Results::get` may
        // be called twice or never.
        for results in launched(&work.parts).filter_map(|part| work.host_results(part)) {
            results.take();
        }
        Ok(())
    }
}

impl Drop for PendingRecording<'_> {
    fn drop(&mut self) {
        // No caller reads this error.
        let _ = self.finish();
    }
}

/// The results of a replay. They borrow the recording, which cannot run again as long as they exist.
#[derive(Clone, Copy)]
pub struct Results<'r> {
    recording: &'r Inner,
}

impl<'r> Results<'r> {
    /// Returns the result or the results of a reduction.
    ///
    /// # Panics
    /// If `recorded` belongs to another recording.
    pub fn get<R>(&self, recorded: &Recorded<R>) -> R {
        let part = self.recording.part(recorded.recording, recorded.index);
        (recorded.decode)(self.recording.host_results(part).expect("it comes to the host"))
    }

    /// Returns the results of a reduction in device memory.
    ///
    /// # Panics
    /// If `recorded` belongs to another recording.
    pub fn outputs<D: DeviceOutput>(&self, recorded: &RecordedOutputs<D>) -> &'r D {
        let part = self.recording.part(recorded.recording, recorded.index);
        let Target::Outputs { outputs, .. } = &part.place else { unreachable!("they were handed over") };
        (&**outputs as &dyn Any).downcast_ref().expect("they are what was handed over")
    }

    /// Returns the number of reductions.
    pub fn len(&self) -> usize {
        self.recording.parts.len()
    }

    /// Returns whether there are no reductions.
    pub fn is_empty(&self) -> bool {
        self.recording.parts.is_empty()
    }
}

pub(super) struct Graph {
    device: Device,
    raw: GraphExec,
}

impl Graph {
    /// Records the work that `work` enqueues on a stream; none of it runs.
    pub(super) fn record(stream: &Stream, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let device = stream.device().clone();
        let raw = stream.raw();
        let mut worked = Ok(());
        // One `call`, so that a capture that has begun ends on every path: during a capture, this thread
        // may not even allocate device memory.
        let made = device.call("recording", |driver| {
            // In this mode, calls that cannot be recorded are refused on this thread only.
            let mode = sys::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            // SAFETY: the stream is alive. Only this function uses the captured graph, and the
            // executable graph does not refer to it.
            unsafe {
                driver.stream_begin_capture(raw, mode)?;
                worked = work();
                let ended = driver.stream_end_capture(raw);
                let made = ended.clone().and_then(|graph| driver.graph_instantiate(graph));
                // A transient failure may have left the stream capturing.
                let graph = ended.or_else(|_| driver.stream_end_capture(raw));
                if let Err(error) = graph.and_then(|graph| driver.graph_destroy(graph)) {
                    log::debug!("{error}");
                }
                made
            }
        });
        // Dropping `graph` destroys the executable graph, also if `worked` is an error.
        let graph = made.map(|raw| Self { device, raw });
        worked.and(graph)
    }

    /// # Safety
    /// All memory that was recorded must live until the enqueued work has finished. The stream must be
    /// of the graph's device.
    pub(super) unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        self.device.call("launching a recording", |driver| {
            // SAFETY: `self` owns the graph; the caller keeps the recorded memory alive.
            unsafe { driver.graph_launch(self.raw, stream.raw()) }
        })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: `self` owns the graph and does not use it again; a launch in flight still finishes.
        self.device.give_back(|driver| unsafe { driver.graph_exec_destroy(self.raw) });
    }
}

fn launched(parts: &[Part]) -> impl Iterator<Item = &Part> {
    parts.iter().filter(|part| !part.task.is_empty())
}

fn tasks(parts: &[Part]) -> Vec<&AnyTask> {
    parts.iter().map(|part| &part.task).collect()
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("jobs", &tasks(&self.parts)).finish_non_exhaustive()
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("jobs", &tasks(&self.0.parts)).finish_non_exhaustive()
    }
}

impl fmt::Debug for PendingRecording<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRecording").finish_non_exhaustive()
    }
}

impl fmt::Debug for Results<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Results").field("len", &self.len()).finish()
    }
}

impl<R> fmt::Debug for Recorded<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded").field("index", &self.index).finish_non_exhaustive()
    }
}

impl<R> fmt::Debug for RecordedOutputs<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedOutputs").field("index", &self.index).finish_non_exhaustive()
    }
}
