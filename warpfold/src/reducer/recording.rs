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
    kernels::Places,
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

/// Reductions that are being put together to a [`Recording`], from
/// [`Reducer::record`](super::Reducer::record).
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
/// Reductions by any operation of one result, and of rows, axes, views and segments, have their results
/// on the host, or in device memory that the recording takes over:
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
/// The results of a vector are written by the kernel into page-locked memory of the host, across the
/// bus, and copied from there each time that they are asked for.
pub struct Recorder {
    core: Arc<Core>,
    /// Its number, which no other has.
    id: u64,
    parts: Vec<Part>,
    /// Words of the host that their results take.
    words: usize,
}

/// One reduction, or several operations on the same elements.
struct Part {
    task: AnyTask,
    /// What holds the elements; those of pairs are in two places.
    _inputs: [Option<Arc<Memory>>; 2],
    /// What has their offsets, if they have segments.
    _offsets: Option<Arc<Offsets>>,
    place: Place,
}

/// Where the results of a part go.
enum Place {
    /// Those of a buffer's elements: to words of the host, from one of the recording's on.
    Host { first: usize, of_none: bool },
    /// Those of a task with several: likewise, `count` results of `bytes` bytes each, one after the
    /// other.
    Pieces { first: usize, count: usize, bytes: usize },
    /// To outputs that are the recording's, which are there.
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

    /// The device of what it takes.
    pub(super) fn device(&self) -> &Device {
        self.core.device()
    }

    /// Makes a recording of them, with memory of its own for what they write.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Driver`] when the driver cannot record, or has no page-locked
    /// memory for the results.
    pub fn finish(self) -> Result<Recording> {
        Recording::new(self)
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
                let place = Place::Host { first: self.words, of_none: plan.is_of_none() };
                (place, plan.task.layout().words())
            }
            Some(several) => {
                let (count, bytes) = (several.count, several.bytes as usize);
                let words = several.all_bytes().div_ceil(size_of::<u64>() as u64);
                (Place::Pieces { first: self.words, count, bytes }, words as usize)
            }
        };
        let decode = plan.decode;
        let index = self.add(plan, place)?;
        self.words += words;
        Ok(Recorded { recording: self.id, index, decode })
    }

    /// Adds a reduction into device memory that belongs to the recording from now on, and loads its
    /// kernels. Waits until the input has been written, and for earlier uses of the output.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce), and those of an output as
    /// [`OnStream::reduce_into`](super::OnStream::reduce_into) has them.
    pub fn reduce_into<O, I: Enqueue<O> + Recordable>(
        &mut self,
        op: O,
        input: I,
        output: I::Left,
    ) -> Result<RecordedOutputs<I::Left>> {
        let plan = input.plan(op, self.device())?;
        plan.require_room(output.results())?;
        self.device().require("outputs", output.memory().device())?;
        // Earlier writes of the output come first, and launches that read it as a count.
        output.wait_ready()?;
        if plan.several.is_none() && plan.task.is_empty() {
            plan.task.require_zero_of_none()?;
            self.device().clear(output.memory())?;
        }
        let place = Place::Outputs { address: output.memory().address(), outputs: Box::new(output) };
        let index = self.add(plan, place)?;
        Ok(RecordedOutputs { recording: self.id, index, results: PhantomData })
    }

    /// Adds a part, and says which it is. What it reads must be there: a replay waits for nothing but
    /// what is before it on its stream.
    fn add<R>(&mut self, plan: Plan<'_, R>, place: Place) -> Result<usize> {
        plan.wait_ready()?;
        if !plan.task.is_empty() {
            // A graph records launches alone, so the kernels are loaded before.
            plan.task.prepare(self.core.kernels())?;
        }
        let inputs = plan.memories().map(Option::<&_>::cloned);
        self.parts.push(Part {
            task: plan.task,
            _inputs: inputs,
            _offsets: plan.offsets.cloned(),
            place,
        });
        Ok(self.parts.len() - 1)
    }
}

/// Reductions that run one after the other as one launch, a CUDA graph.
///
/// It holds the buffers and their offsets, the outputs that were handed to it, and memory of its own for
/// what else the reductions write; one replay at a time uses it. A replay allocates nothing.
pub struct Recording(Arc<Inner>);

struct Inner {
    // Dropped first: it refers to the rest.
    graph: Option<Graph>,
    core: Arc<Core>,
    slots: Memory,
    results: HostWords,
    /// For replays that wait.
    stream: Stream,
    /// The end of the last replay.
    end: Event,
    /// Whether slots may be something other than zero, because a replay failed.
    unsettled: AtomicBool,
    /// Whether a replay may still be under way whose end nothing marks.
    lost: AtomicBool,
    id: u64,
    parts: Vec<Part>,
}

impl Recording {
    fn new(Recorder { core, id, parts, words }: Recorder) -> Result<Self> {
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
            // SAFETY: nothing runs yet; who launches the graph sees to the rest.
            let graph = Graph::record(&inner.stream, || unsafe { inner.enqueue() })?;
            inner.graph = Some(graph);
        }
        Ok(Self(Arc::new(inner)))
    }

    /// Returns the number of reductions.
    pub fn len(&self) -> usize {
        self.0.parts.len()
    }

    /// Returns whether there are no reductions.
    pub fn is_empty(&self) -> bool {
        self.0.parts.is_empty()
    }

    /// Runs all of them and waits for the results.
    ///
    /// # Errors
    /// [`Error::Driver`] when the launch or a reduction fails, and [`Error::Lost`] after a failure that
    /// left open whether the replay still runs.
    pub fn run(&mut self) -> Result<Results<'_>> {
        self.start(&self.0.stream)?.wait()
    }

    /// Launches all of them on a stream and returns at once.
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`Error::OtherDevice`] for the stream of
    /// another device.
    pub fn launch(&mut self, stream: &Stream) -> Result<PendingRecording<'_>> {
        self.0.core.device().require("stream", stream.device())?;
        self.start(stream)
    }

    /// Launches everything. The caller has borrowed the recording for itself, for as long as what comes
    /// out lives.
    fn start(&self, stream: &Stream) -> Result<PendingRecording<'_>> {
        let inner = &self.0;
        // SAFETY: a share of everything is kept until the wait is over, here or by what is returned;
        // and for good where the wait leaves that open. A caller who leaks what is returned keeps the
        // shares for good.
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
    /// The caller keeps `self` until what is enqueued has ended, and enqueues one replay at a time, but
    /// for those that were leaked.
    unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        let Some(graph) = &self.graph else { return Ok(()) };
        if self.lost.load(Ordering::Relaxed) {
            let reason = "a replay has failed and may still run; record anew".to_owned();
            return Err(Error::Lost { what: "recording", reason });
        }
        // A replay that was leaked may be under way still.
        self.end.precede(stream)?;
        if self.unsettled.load(Ordering::Relaxed) {
            // SAFETY: what used the slots before is done before this begins; the caller's contract.
            unsafe { self.slots.clear_on(stream) }?;
            self.unsettled.store(false, Ordering::Relaxed);
        }
        for part in &self.parts {
            let Place::Outputs { outputs, .. } = &part.place else { continue };
            // Launches that take the output as their count may still read it.
            outputs.precede(stream)?;
        }
        // SAFETY: what was recorded names the buffers, offsets, slots, results and outputs, which `self`
        // holds. Outputs are those of one part alone, because each was handed over.
        unsafe { graph.launch(stream) }
    }

    /// Enqueues one reduction after the other on its own stream, which records.
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    unsafe fn enqueue(&self) -> Result<()> {
        let Self { core, slots, stream, results, parts, .. } = self;
        for part in launched(parts) {
            let output = match part.place {
                Place::Host { first, .. } | Place::Pieces { first, .. } => results.address(first),
                Place::Outputs { address, .. } => address,
            };
            let places = Places::new(slots.address(), output, stream.raw());
            let places = Places { recording: true, ..places };
            // SAFETY: the task is of a buffer, and of offsets if it has some, that `self` holds; the
            // words and outputs have room for its results, and are no other part's; one launch follows
            // the other on the stream, so that each has the slots to itself; the caller's contract.
            unsafe { part.task.enqueue(core.kernels(), &places) }?;
        }
        Ok(())
    }

    /// The results of a part that come to the host.
    fn of(&self, part: &Part) -> Option<HostResults<'_>> {
        match part.place {
            Place::Host { first, of_none } => {
                Some(HostResults::new(&self.results, first, part.task.layout()).of_none_if(of_none))
            }
            Place::Pieces { first, count, bytes } => {
                Some(HostResults::new(&self.results, first, Layout::of_pieces(count, bytes)))
            }
            Place::Outputs { .. } => None,
        }
    }

    /// The part of a number, of a recording of a number.
    fn part(&self, recording: u64, index: usize) -> &Part {
        assert_eq!(self.id, recording, "a reduction of another recording");
        &self.parts[index]
    }
}

/// A replay under way on a stream. Dropping it waits; leaking it leaks what the device uses.
#[must_use = "dropping it waits for the results and throws them away"]
pub struct PendingRecording<'r> {
    recording: &'r Inner,
    /// Keeps everything alive for a replay that is leaked. Taken when the wait is over.
    work: Option<Arc<Inner>>,
}

impl<'r> PendingRecording<'r> {
    /// Waits for the results. Later work on the stream is not waited for.
    ///
    /// # Errors
    /// [`Error::Driver`] with what went wrong.
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
        // Here and not where somebody looks at one, which may be twice or never.
        for results in launched(&work.parts).filter_map(|part| work.of(part)) {
            results.take();
        }
        Ok(())
    }
}

impl Drop for PendingRecording<'_> {
    fn drop(&mut self) {
        // As with a single reduction: an error that nobody waits for concerns nobody.
        let _ = self.finish();
    }
}

/// The results of a replay. They are borrowed from the recording, which cannot run again meanwhile.
#[derive(Clone, Copy)]
pub struct Results<'r> {
    recording: &'r Inner,
}

impl<'r> Results<'r> {
    /// Returns the result of a reduction, or its results.
    ///
    /// # Panics
    /// When it is of another recording.
    pub fn get<R>(&self, recorded: &Recorded<R>) -> R {
        let part = self.recording.part(recorded.recording, recorded.index);
        (recorded.decode)(self.recording.of(part).expect("it comes to the host"))
    }

    /// Returns the results of a reduction in device memory.
    ///
    /// # Panics
    /// When it is of another recording.
    pub fn outputs<D: DeviceOutput>(&self, recorded: &RecordedOutputs<D>) -> &'r D {
        let part = self.recording.part(recorded.recording, recorded.index);
        let Place::Outputs { outputs, .. } = &part.place else { unreachable!("they were handed over") };
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

/// What was enqueued on a stream while that recorded.
pub(super) struct Graph {
    device: Device,
    raw: GraphExec,
}

impl Graph {
    /// Records what `work` enqueues on a stream; none of it runs.
    pub(super) fn record(stream: &Stream, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let device = stream.device().clone();
        let raw = stream.raw();
        let mut worked = Ok(());
        // In one entry of the context, so that a recording that was begun is ended: a thread that
        // records may not even allocate.
        let made = device.call("recording", |driver| {
            // Only calls of this thread that cannot be recorded are refused meanwhile.
            let mode = sys::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            // SAFETY: the stream is alive; nobody else has the graph, and what is made of it does not
            // need it.
            unsafe {
                driver.stream_begin_capture(raw, mode)?;
                worked = work();
                let ended = driver.stream_end_capture(raw);
                let made = ended.clone().and_then(|graph| driver.graph_instantiate(graph));
                // What failed in passing may have left the stream recording.
                let graph = ended.or_else(|_| driver.stream_end_capture(raw));
                if let Err(error) = graph.and_then(|graph| driver.graph_destroy(graph)) {
                    log::debug!("{error}");
                }
                made
            }
        });
        // From here on dropping it gives it back.
        let graph = made.map(|raw| Self { device, raw });
        worked.and(graph)
    }

    /// Enqueues all of it.
    ///
    /// # Safety
    /// All memory that was recorded must live until what is enqueued has ended. The stream must be of
    /// the device.
    pub(super) unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        self.device.call("launching a recording", |driver| {
            // SAFETY: the graph is ours; the caller's contract.
            unsafe { driver.graph_launch(self.raw, stream.raw()) }
        })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: it is ours, and gone for everybody else; a launch under way is finished.
        self.device.give_back(|driver| unsafe { driver.graph_exec_destroy(self.raw) });
    }
}

/// Those that a replay launches.
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
