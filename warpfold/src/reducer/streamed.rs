//! Reductions of data that is not in device memory, and may be larger than it.
//!
//! Threads fill page-locked buffers in turn. Each buffer is copied to its own device buffer on a stream
//! of copies, and reduced on another stream, so that reads, copies and reductions overlap. A host buffer
//! is refilled after its copy has finished. The next copy to a device buffer waits until its previous
//! elements have been reduced.

use std::{
    any::Any,
    collections::{BTreeMap, VecDeque},
    fmt, io,
    marker::PhantomData,
    mem,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use super::{Push, Reducer};
use crate::{
    Buffer, Device, Error, Plain, Result, Stream,
    buffer::require_alignment,
    context::Failed,
    memory::{HostBytes, Memory},
    op::Operation,
    source::Source,
    stream::{Event, LastWrite},
};

/// The default number of buffers in a ring, and the bytes of each: 32 MiB of page-locked memory, and as
/// much device memory. The page-locked buffers stay in the cache of a server's CPU; with larger ones,
/// each element is written to memory and read back before it is copied.
pub(super) const BUFFERS: usize = 16;
pub(super) const BYTES: usize = 2 << 20;

/// The maximum number of threads that fill buffers by default.
pub(super) const THREADS: usize = 8;

const MOST_THREADS: usize = 1024;

impl Reducer {
    /// Returns a reduction of elements that are not in device memory and need not fit there: they are
    /// read ahead into a ring of page-locked buffers, copied on a stream of their own, and reduced as
    /// they arrive. The ring bounds the memory for any number of elements. The reducer keeps the ring
    /// for the next stream, because locking memory takes longer than copying to it ten times. Work
    /// begins with [`reduce`](Streamed::reduce).
    ///
    /// ```
    /// use warpfold::{Device, Reducer, Selection, op};
    ///
    /// let device = Device::open(Selection::Sim)?;
    /// let values: Vec<f32> = (0..100_000).map(|i| (i % 100) as f32).collect();
    /// let largest = Reducer::new(&device)?.stream(&values).reduce(op::ArgMax)?;
    /// assert_eq!(largest.map(|largest| (largest.index, largest.value)), Some((99, 99.0)));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    pub fn stream<T: Plain, S: Source<T>>(&self, source: S) -> Streamed<'_, T, S> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        let (buffers, bytes, on_progress) = (BUFFERS, BYTES, None);
        let element = PhantomData;
        Streamed { reducer: self, source, buffers, bytes, threads, on_progress, element }
    }
}

/// A reduction of a [source](crate::source), from [`Reducer::stream`].
///
/// The result is that of all elements in their order, as for [`Running`](super::Running). For a given
/// buffer size it is the same on each call, in whatever order the threads fill buffers. Results that
/// have the same bits [everywhere](crate::op#the-same-bits) are those of a single [`Buffer`] with all
/// elements.
pub struct Streamed<'a, T, S> {
    reducer: &'a Reducer,
    source: S,
    buffers: usize,
    bytes: usize,
    threads: usize,
    on_progress: Option<OnProgress<'a>>,
    element: PhantomData<fn() -> T>,
}

pub(super) type OnProgress<'a> = Box<dyn FnMut(&Progress) + 'a>;

/// The progress of a streamed reduction.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Progress {
    /// Number of elements that have been copied to the device.
    pub elements: u64,
    /// Number of bytes of these elements.
    pub bytes: u64,
    /// Number of elements of the source, or `None` if the source does not state it.
    pub of: Option<u64>,
    /// The time since the start.
    pub elapsed: Duration,
}

impl Progress {
    /// Returns the average number of bytes per second since the start.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns the remaining time at the average rate, if the source states its number of elements and
    /// some have been copied.
    pub fn left(&self) -> Option<Duration> {
        let left = self.of?.saturating_sub(self.elements);
        let seconds = self.elapsed.as_secs_f64() * left as f64 / self.elements as f64;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

impl<'a, T: Plain, S: Source<T>> Streamed<'a, T, S> {
    /// Sets the number of buffers and the bytes of each, the same on the host and on the device. The
    /// default is 16 buffers of 2 MiB.
    #[must_use]
    pub fn buffers(self, count: usize, bytes: usize) -> Self {
        Self { buffers: count, bytes, ..self }
    }

    /// Sets the number of threads that fill buffers, 1 to 1024. The default is the [available
    /// parallelism](std::thread::available_parallelism), at most 8. A source that is [in
    /// order](Source::is_in_order) is read by a single thread.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Sets a function to call with the progress, on the calling thread, after each copied buffer.
    #[must_use]
    pub fn on_progress(self, call: impl FnMut(&Progress) + 'a) -> Self {
        Self { on_progress: Some(Box::new(call)), ..self }
    }

    /// Reads all elements and reduces them, by any [operation](crate::op).
    ///
    /// # Errors
    /// Those of [`Reducer::running`] and [`push_to`](Self::push_to). After an error there is no result.
    ///
    /// # Panics
    /// If the source panics.
    pub fn reduce<O: Operation<T>>(self, op: O) -> Result<O::Output> {
        let mut running = self.reducer.running(op)?;
        self.push_to(&mut [&mut running])?;
        running.result()
    }

    /// Reads all elements once and pushes them to [running](Reducer::running) reductions, any number of
    /// them, each with its own operation. Returns the number of elements.
    ///
    /// ```
    /// use warpfold::{Device, Reducer, Selection, op};
    ///
    /// let device = Device::open(Selection::Sim)?;
    /// let reducer = Reducer::new(&device)?;
    /// let (mut sum, mut largest) = (reducer.running(op::Sum)?, reducer.running(op::Max)?);
    /// let values: Vec<i32> = (0..100_000).map(|i| i % 100).collect();
    /// assert_eq!(reducer.stream(&values).push_to(&mut [&mut sum, &mut largest])?, 100_000);
    /// assert_eq!((sum.result()?, largest.result()?), (4_950_000, Some(99)));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::Ring`] for fewer than 2 buffers, for buffers that are smaller than an element or
    ///   together larger than the device's memory, for 0 or more than 1024 threads, and for a thread
    ///   that the system does not start; [`Error::Foreign`] for a type that is aligned to more than 256
    ///   bytes;
    /// - [`Error::OtherDevice`] for a reduction on another device, and [`Error::TooManyElements`] if the
    ///   source has more elements than one of the reductions takes; nothing has been read then;
    /// - [`Error::Source`] with the source's error, and for a source with fewer elements than it states;
    /// - those of [`Running::push`](crate::Running::push).
    ///
    /// After an error the reductions may have received some of the elements.
    ///
    /// # Panics
    /// If the source panics.
    pub fn push_to(self, running: &mut [&mut dyn Push<T>]) -> Result<u64> {
        let Self { reducer, source, buffers, bytes, threads, on_progress, .. } = self;
        let size = size_of::<T>();
        let device = reducer.device();
        let most = device.info().memory_bytes;
        let fits = buffers.checked_mul(bytes).is_some_and(|all| all as u64 <= most);
        if buffers < 2 || bytes < size || !fits || !(1..=MOST_THREADS).contains(&threads) {
            let reason = format!(
                "{buffers} buffers of {bytes} bytes and {threads} threads are given; give 2 buffers or \
                 more, of {size} bytes or more, {most} bytes in total at most, and 1 to {MOST_THREADS} \
                 threads"
            );
            return Err(Error::Ring { reason });
        }
        require_alignment::<T>()?;
        for running in &*running {
            device.require("running reduction", running.device())?;
            running.require_room(source.elements().unwrap_or(0))?;
        }
        let mut flow = Flow {
            running,
            enqueued: 0,
            work: device.stream()?,
            copies: Copies { stream: device.stream()?, under_way: VecDeque::new() },
            progress: Progress { elements: 0, bytes: 0, of: source.elements(), elapsed: Duration::ZERO },
            on_progress,
            start: Instant::now(),
        };
        // Locking memory takes time, so there are no more buffers than the source fills, but at least
        // two.
        let len = bytes / size;
        let pieces = source.elements().map_or(u64::MAX, |elements| elements.div_ceil(len as u64));
        let buffers = buffers.min(usize::try_from(pieces).unwrap_or(usize::MAX).max(2));
        let ring = Ring::of(reducer, buffers, len * size)?;
        let threads = if source.is_in_order() { 1 } else { threads.min(buffers) };
        let (free, frees) = mpsc::channel();
        let (filled, fills) = mpsc::channel();
        // `queue` and `parts` outlive the threads, so that all buffers are recovered from them below.
        let queue = Mutex::new(Queue { frees, next: 0 });
        let mut parts = InOrder { fills, early: BTreeMap::new(), next: 0 };
        thread::scope(|scope| {
            // Moved here, because the threads end when the sender is dropped.
            let free = free;
            for _ in 0..threads {
                let (queue, filled, source) = (&queue, filled.clone(), &source);
                let fill = move || fill_buffers(source, len as u64, queue, &filled);
                let started = thread::Builder::new().spawn_scoped(scope, fill);
                started.map_err(|error| {
                    let reason = format!("a thread cannot be started ({error}); give fewer threads");
                    Error::Ring { reason }
                })?;
            }
            for slot in ring.0 {
                let _ = free.send(slot);
            }
            flow.run(&mut parts, &free)
        })
        .inspect(|_| {
            let Queue { frees, .. } = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
            let early = mem::take(&mut parts.early).into_values();
            let filled = parts.fills.try_iter().chain(early).map(|filled| filled.slot);
            Ring(frees.try_iter().chain(filled).collect()).keep(reducer);
        })
    }
}

impl<T, S> fmt::Debug for Streamed<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut streamed = f.debug_struct("Streamed");
        streamed.field("buffers", &self.buffers).field("bytes", &self.bytes);
        streamed.field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// A host buffer and its device buffer. A slot may be dropped if no copy between its buffers is in
/// flight: reductions hold their own reference to the device memory.
struct Slot {
    host: HostBytes,
    device: Arc<Memory>,
    copied: Arc<Event>,
    reduced: Event,
}

pub(crate) struct Ring(Vec<Slot>);

impl Ring {
    /// Returns `buffers` buffers of `bytes` bytes each. Reuses buffers of the previous stream that have
    /// this size.
    fn of(reducer: &Reducer, buffers: usize, bytes: usize) -> Result<Self> {
        reducer.device().require_process()?;
        let kept = reducer.core().ring().take().map_or_else(Vec::new, |Self(slots)| slots);
        let alike = |slot: &Slot| slot.device.bytes() == bytes as u64;
        let mut slots: Vec<Slot> = kept.into_iter().filter(alike).take(buffers).collect();
        while slots.len() < buffers {
            slots.push(Slot::new(reducer.device(), bytes)?);
        }
        Ok(Self(slots))
    }

    fn keep(self, reducer: &Reducer) {
        let before = reducer.core().ring().replace(self);
        // Frees the ring of another thread, if any, after the lock is released.
        drop(before);
    }
}

impl Slot {
    fn new(device: &Device, bytes: usize) -> Result<Self> {
        Ok(Self {
            host: HostBytes::new(device, bytes)?,
            device: Arc::new(Memory::new(device, bytes as u64)?),
            copied: Arc::new(Event::new(device)?),
            reduced: Event::new(device)?,
        })
    }
}

struct Queue {
    frees: Receiver<Slot>,
    next: u64,
}

struct Filled {
    part: u64,
    slot: Slot,
    /// The number of elements, the source's error, or the payload of its panic.
    elements: thread::Result<io::Result<usize>>,
}

/// Fills buffers with parts of `len` elements until the channel of free buffers is closed.
fn fill_buffers<T: Plain>(
    source: &impl Source<T>,
    len: u64,
    queue: &Mutex<Queue>,
    filled: &Sender<Filled>,
) {
    loop {
        let (mut slot, part) = {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            let Ok(slot) = queue.frees.recv() else { return };
            queue.next += 1;
            (slot, queue.next - 1)
        };
        let fill = || source.read_at(part * len, slot.host.elements());
        // The receiver would wait forever for a part lost to a panic.
        let elements = panic::catch_unwind(AssertUnwindSafe(fill));
        let _ = filled.send(Filled { part, slot, elements });
    }
}

/// Filled buffers, which arrive in any order, sorted by part.
struct InOrder {
    fills: Receiver<Filled>,
    early: BTreeMap<u64, Filled>,
    next: u64,
}

impl InOrder {
    fn poll(&mut self) -> Option<Filled> {
        while let Ok(filled) = self.fills.try_recv() {
            self.early.insert(filled.part, filled);
        }
        self.take()
    }

    fn wait(&mut self) -> Filled {
        loop {
            if let Some(next) = self.take() {
                return next;
            }
            let filled =
                self.fills.recv().expect("the threads go on while there is somebody to fill for");
            self.early.insert(filled.part, filled);
        }
    }

    fn take(&mut self) -> Option<Filled> {
        let next = self.early.remove(&self.next)?;
        self.next += 1;
        Some(next)
    }
}

struct Copies {
    stream: Stream,
    /// The slots with a copy in flight, and the number of elements of each copy.
    under_way: VecDeque<(Slot, usize)>,
}

impl Copies {
    /// Enqueues a copy of `bytes` bytes, after the reduction of the device buffer's previous elements.
    fn begin(&mut self, slot: Slot, elements: usize, bytes: usize) -> Result<&Slot> {
        let stream = &self.stream;
        let enqueued = slot.reduced.precede(stream).map_err(Failed::not_begun).and_then(|()| {
            let copied = stream.device().call("copying to it", |driver| {
                let (to, from) = (slot.device.address(), slot.host.start());
                // SAFETY: both buffers have `bytes` bytes, and the slot is kept until the copy has
                // finished, or forever. The slot owns the host buffer, so nothing writes it. The stream
                // waits for the last reduction that read the device buffer.
                unsafe { driver.memcpy_htod_async(to, from, bytes, stream.raw()) }
            });
            // The copy may have been enqueued despite an error, so `has_ended` waits for it.
            let recorded = copied.and_then(|()| slot.copied.record(stream));
            recorded.map_err(|error| {
                let ended = stream.has_ended();
                Failed { error, ended }
            })
        });
        match enqueued {
            Ok(()) => {
                self.under_way.push_back((slot, elements));
                Ok(&self.under_way.back().expect("it was put there just now").0)
            }
            Err(failed) => Err(failed.or_keep(|| mem::forget(slot))),
        }
    }

    fn finish(&mut self) -> Option<Result<(Slot, usize)>> {
        let (slot, elements) = self.under_way.pop_front()?;
        Some(match slot.copied.wait_out() {
            Ok(()) => Ok((slot, elements)),
            Err(failed) => Err(failed.or_keep(|| mem::forget(slot))),
        })
    }
}

impl Drop for Copies {
    /// Waits for the copies in flight, so that none outlives its buffers.
    fn drop(&mut self) {
        while self.finish().is_some() {}
    }
}

struct Flow<'a, 'r, T: Plain> {
    running: &'a mut [&'r mut dyn Push<T>],
    /// The number of elements whose reduction has been enqueued.
    enqueued: u64,
    work: Stream,
    copies: Copies,
    progress: Progress,
    on_progress: Option<OnProgress<'a>>,
    start: Instant,
}

impl<T: Plain> Flow<'_, '_, T> {
    /// Processes parts until the source is exhausted, and returns the number of elements.
    fn run(&mut self, parts: &mut InOrder, free: &Sender<Slot>) -> Result<u64> {
        loop {
            let filled = match parts.poll() {
                Some(filled) => filled,
                // Two copies in flight keep the bus busy. With fewer, wait for the next filled buffer.
                None if self.copies.under_way.len() >= 2 => {
                    let slot = self.land().expect("there are two")?;
                    let _ = free.send(slot);
                    continue;
                }
                None => parts.wait(),
            };
            let Filled { slot, elements, .. } = filled;
            let room = slot.device.bytes() as usize / size_of::<T>();
            let elements = self.given(elements, room)?;
            if elements > 0 {
                self.take(slot, elements)?;
            } else {
                let _ = free.send(slot);
            }
            if elements < room {
                break;
            }
        }
        while let Some(landed) = self.land() {
            let _ = free.send(landed?);
        }
        match self.progress.of {
            Some(of) if self.progress.elements < of => {
                let words = format!("it ends there, but declared {of} elements");
                Err(self.failed(io::Error::new(io::ErrorKind::UnexpectedEof, words)))
            }
            _ => Ok(self.enqueued),
        }
    }

    fn given(
        &self,
        elements: Result<io::Result<usize>, Box<dyn Any + Send>>,
        room: usize,
    ) -> Result<usize> {
        match elements {
            Ok(Ok(elements)) if elements <= room => Ok(elements),
            Ok(Ok(elements)) => {
                let words = format!("it returned {elements} elements, but {room} were requested");
                Err(self.failed(io::Error::other(words)))
            }
            Ok(Err(error)) => Err(self.failed(error)),
            Err(panicked) => panic::resume_unwind(panicked),
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Source { at: self.enqueued, source }
    }

    fn take(&mut self, slot: Slot, elements: usize) -> Result<()> {
        let slot = self.copies.begin(slot, elements, elements * size_of::<T>())?;
        let copied = LastWrite::Until(slot.copied.clone());
        // Only these reductions use the buffer; the slot's next copy waits until they have read it.
        let piece = Buffer::<T>::written(slot.device.clone(), elements, copied);
        for running in &mut *self.running {
            running.push(&self.work, &piece)?;
        }
        self.enqueued += elements as u64;
        slot.reduced.record(&self.work)
    }

    /// Waits for the first copy in flight, and reports the progress.
    fn land(&mut self) -> Option<Result<Slot>> {
        let landed = self.copies.finish()?;
        Some(landed.map(|(slot, elements)| {
            self.progress.elements += elements as u64;
            self.progress.bytes += (elements * size_of::<T>()) as u64;
            self.progress.elapsed = self.start.elapsed();
            if let Some(call) = &mut self.on_progress {
                call(&self.progress);
            }
            slot
        }))
    }
}
