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
/// Reductions by any operation of one result, and of rows, axes, views and segments, write their results
/// to the host, or to device memory that the recording takes over:
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
/// Kernels write several results to page-locked host memory, across the bus, and [`Results::get`] copies
/// them from there each time.
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

/// The memory for a part's results.
enum Target {
    /// Words of the host, from the recording's word `first` on.
    Host { first: usize, of_none: bool },
    /// The same, for `count` results of `bytes` bytes each, one after the other.
    Pieces { first: usize, count: usize, bytes: usize },
    /// Outputs that the recording owns.
    Outputs { address: u64, outputs: Box<dyn OutputMemory> },
}

/// A handle of a recorded reduction, which gives its result by [`Results::get`].
pub struct Recorded<R> {
    recording: u64,
    index: usize,
    decode: fn(HostResults<'_>) -> R,
}

/// A handle of a recorded reduction into device memory, which gives its output by [`Results::outputs`].
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

    /// Creates the recording, with memory of its own for what the reductions write.
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
            unsettled: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            id,
            parts,
            core: core.clone(),
        };
        if launched(&inner.parts).next().is_some() {
            // SAFETY: nothing runs yet; `Inner::launch` answers for the graph's launches.
            let graph = Graph::record(&inner.stream, || unsafe { inner.enqueue() })?;
            inner.graph = Some(graph);
        }
        Ok(Recording(Arc::new(inner)))
    }

    /// Adds a reduction whose result is copied to the host, and loads its kernels. Waits until the input
    /// has been written.
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
                let place = Target::Host { first: self.words, of_none: plan.is_of_none() };
                (place, plan.task.layout().words())
            }
            Some(several) => {
                let (count, bytes) = (several.count, several.bytes as usize);
                let words = several.all_bytes().div_ceil(size_of::<u64>() as u64);
                (Target::Pieces { first: self.words, count, bytes }, words as usize)
            }
        };
        let decode = plan.decode;
        let index = self.add(plan, place)?;
        self.words += words;
        Ok(Recorded { recording: self.id, index, decode })
    }

    /// Adds a reduction into device memory, which the recording owns from now on, and loads its kernels.
    /// Waits until the input has been written, and for earlier uses of the output.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce), and those for outputs of
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
        // Earlier writes of the output must finish, and launches that read it as a count.
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
/// It holds the buffers and their offsets, the outputs that it took over, and memory of its own for
/// everything else that the reductions write; one replay at a time uses it. A replay allocates nothing.
pub struct Recording(Arc<Inner>);

struct Inner {
    // Dropped first, because it refers to the rest.
    graph: Option<Graph>,
    core: Arc<Core>,
    slots: Memory,
    results: HostWords,
    /// For replays that wait.
    stream: Stream,
    end: Event,
    /// True if slots may be nonzero because a replay failed.
    unsettled: AtomicBool,
    /// True if a replay may be in flight whose end no event marks.
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
    /// As [`run`](Self::run), and [`Error::OtherDevice`] for the stream of another device.
    pub fn launch(&mut self, stream: &Stream) -> Result<PendingRecording<'_>> {
        self.0.core.device().require("stream", stream.device())?;
        self.start(stream)
    }

    /// Launches all reductions. The caller has borrowed the recording exclusively for as long as the
    /// returned replay lives.
    fn start(&self, stream: &Stream) -> Result<PendingRecording<'_>> {
        let inner = &self.0;
        // SAFETY: a reference to all resources is kept until the wait has ended, here or by the returned
        // replay, and forever if the wait leaves open what still runs. A caller that leaks the replay
        // leaks that reference.
        let launched = unsafe { inner.launch(stream) }.and_then(|()| inner.end.record(stream));
        if let Err(error) = launched {
            inner.unsettled.store(true, Ordering::Relaxed);
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
    /// time, apart from leaked ones.
    unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        let Some(graph) = &self.graph else { return Ok(()) };
        if self.lost.load(Ordering::Relaxed) {
            let reason = "a replay has failed and may still run; record anew".to_owned();
            return Err(Error::Lost { what: "recording", reason });
        }
        // A leaked replay may be in flight.
        self.end.precede(stream)?;
        if self.unsettled.load(Ordering::Relaxed) {
            // SAFETY: earlier uses of the slots finish before this begins; the caller's contract.
            unsafe { self.slots.clear_on(stream) }?;
            self.unsettled.store(false, Ordering::Relaxed);
        }
        for part in &self.parts {
            let Target::Outputs { outputs, .. } = &part.place else { continue };
            // Launches that take the output as their count may still read it.
            outputs.precede(stream)?;
        }
        // SAFETY: the recorded work uses the buffers, offsets, slots, results and outputs that `self`
        // holds. No two parts share outputs, because each part took over its own.
        unsafe { graph.launch(stream) }
    }

    /// Enqueues the reductions one after the other on its own stream, which records.
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    unsafe fn enqueue(&self) -> Result<()> {
        let Self { core, slots, stream, results, parts, .. } = self;
        for part in launched(parts) {
            let output = match part.place {
                Target::Host { first, .. } | Target::Pieces { first, .. } => results.address(first),
                Target::Outputs { address, .. } => address,
            };
            let context = LaunchContext::new(slots.address(), output, stream.raw());
            let context = LaunchContext { recording: true, ..context };
            // SAFETY: `self` holds the task's buffers and offsets. The words or outputs have room for
            // its results and belong to this part alone. Launches follow each other on the stream, so
            // that each has the slots to itself; the caller's contract.
            unsafe { part.task.enqueue(core.kernels(), &context) }?;
        }
        Ok(())
    }

    fn host_results(&self, part: &Part) -> Option<HostResults<'_>> {
        match part.place {
            Target::Host { first, of_none } => {
                Some(HostResults::new(&self.results, first, part.task.layout()).of_none_if(of_none))
            }
            Target::Pieces { first, count, bytes } => {
                Some(HostResults::new(&self.results, first, Layout::of_pieces(count, bytes)))
            }
            Target::Outputs { .. } => None,
        }
    }

    fn part(&self, recording: u64, index: usize) -> &Part {
        assert_eq!(self.id, recording, "a reduction of another recording");
        &self.parts[index]
    }
}

/// A replay in flight on a stream. Dropping it waits; leaking it leaks the resources in use.
#[must_use = "dropping it waits for the results and throws them away"]
pub struct PendingRecording<'r> {
    recording: &'r Inner,
    /// Keeps the resources of a leaked replay alive. Taken by the wait.
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
    /// As [`wait`](Self::wait).
    pub fn is_ready(&self) -> Result<bool> {
        self.recording.end.is_done()
    }

    fn finish(&mut self) -> Result<()> {
        let Some(work) = self.work.take() else { return Ok(()) };
        work.end.wait_out().map_err(|failed| {
            work.unsettled.store(true, Ordering::Relaxed);
            failed.or_keep(|| mem::forget(work.clone()))
        })?;
        // Once for each replay, while `Results::get` may be called twice or never.
        for results in launched(&work.parts).filter_map(|part| work.host_results(part)) {
            results.take();
        }
        Ok(())
    }
}

impl Drop for PendingRecording<'_> {
    fn drop(&mut self) {
        // As for a single reduction, no caller reads this error.
        let _ = self.finish();
    }
}

/// The results of a replay. They borrow the recording, which cannot run again meanwhile.
#[derive(Clone, Copy)]
pub struct Results<'r> {
    recording: &'r Inner,
}

impl<'r> Results<'r> {
    /// Returns the result or the results of a reduction.
    ///
    /// # Panics
    /// If it is of another recording.
    pub fn get<R>(&self, recorded: &Recorded<R>) -> R {
        let part = self.recording.part(recorded.recording, recorded.index);
        (recorded.decode)(self.recording.host_results(part).expect("it comes to the host"))
    }

    /// Returns the results of a reduction in device memory.
    ///
    /// # Panics
    /// If it is of another recording.
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

/// The recorded work of a stream, ready to launch.
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
        // One entry of the context, so that a recording is ended once it has begun: a thread that
        // records may not even allocate.
        let made = device.call("recording", |driver| {
            // In this mode only calls of this thread that cannot be recorded are refused.
            let mode = sys::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            // SAFETY: the stream is alive. Only this function has the graph, and its instance does not
            // need it.
            unsafe {
                driver.stream_begin_capture(raw, mode)?;
                worked = work();
                let ended = driver.stream_end_capture(raw);
                let made = ended.clone().and_then(|graph| driver.graph_instantiate(graph));
                // A transient failure may have left the stream recording.
                let graph = ended.or_else(|_| driver.stream_end_capture(raw));
                if let Err(error) = graph.and_then(|graph| driver.graph_destroy(graph)) {
                    log::debug!("{error}");
                }
                made
            }
        });
        // From here on a drop releases it.
        let graph = made.map(|raw| Self { device, raw });
        worked.and(graph)
    }

    /// Enqueues the recorded work.
    ///
    /// # Safety
    /// All memory that was recorded must live until the enqueued work has finished. The stream must be
    /// of the graph's device.
    pub(super) unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        self.device.call("launching a recording", |driver| {
            // SAFETY: the graph is ours; the caller's contract.
            unsafe { driver.graph_launch(self.raw, stream.raw()) }
        })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the graph is ours and not used again; a launch in flight still finishes.
        self.device.give_back(|driver| unsafe { driver.graph_exec_destroy(self.raw) });
    }
}

/// Returns the parts that a replay launches.
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
