//! Reductions of data that is larger than the device's memory, or comes from elsewhere.
//!
//! Threads fill page-locked buffers, one behind the other. Each is copied to a buffer of its own on the
//! device, on a stream that does nothing else, and reduced on another one: reading, copying and
//! reducing overlap. A host buffer is filled again when its copy has ended, a device buffer when its
//! elements have been reduced, for which its next copy waits.

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

/// Buffers of a ring, and bytes of each, where nobody says otherwise: 32 MiB of page-locked memory, and
/// as much of the device's. That much stays in the cache of a server's CPU: of larger buffers each
/// element goes to memory and back before it is copied.
pub(super) const BUFFERS: usize = 16;
pub(super) const BYTES: usize = 2 << 20;

/// Most threads that fill buffers, where nobody says otherwise.
pub(super) const THREADS: usize = 8;

/// Most threads that fill buffers.
const MOST_THREADS: usize = 1024;

impl Reducer {
    /// A reduction of elements that are not in device memory and need not fit there: they are read ahead
    /// into a ring of page-locked buffers, copied on a stream of their own, and reduced as they land.
    /// Memory is bounded whatever their number: it is that of the ring, which the reducer keeps for the
    /// next stream, since to lock it takes longer than to copy from it ten times. What it does begins
    /// with [`reduce`](Streamed::reduce).
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
/// The result is that of all elements in their order, as of [`Running`](super::Running): the same from
/// call to call, for a given size of buffers, however the threads take turns; and one that has the same
/// bits [everywhere](crate::op#the-same-bits) has those of a [`Buffer`] with all elements.
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

/// How far a streamed reduction is.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Progress {
    /// Elements that have come to the device.
    pub elements: u64,
    /// The bytes that these elements take.
    pub bytes: u64,
    /// Elements of the source, where it knows them.
    pub of: Option<u64>,
    /// Time since the start.
    pub elapsed: Duration,
}

impl Progress {
    /// Bytes of a second, on average since the start.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// The time that what is left will take at this rate, where it is known how much that is and
    /// something has come.
    pub fn left(&self) -> Option<Duration> {
        let left = self.of?.saturating_sub(self.elements);
        let seconds = self.elapsed.as_secs_f64() * left as f64 / self.elements as f64;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

impl<'a, T: Plain, S: Source<T>> Streamed<'a, T, S> {
    /// Takes `count` buffers of `bytes` bytes each, on the host and as many on the device.
    #[must_use]
    pub fn buffers(self, count: usize, bytes: usize) -> Self {
        Self { buffers: count, bytes, ..self }
    }

    /// Has `threads` threads fill buffers, if the source is not
    /// [in order](Source::is_in_order).
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Is told on the calling thread how far it is, each time that a buffer has come to the device.
    #[must_use]
    pub fn on_progress(self, call: impl FnMut(&Progress) + 'a) -> Self {
        Self { on_progress: Some(Box::new(call)), ..self }
    }

    /// Reads all elements and reduces them, by any [operation](crate::op).
    ///
    /// # Errors
    /// Those of [`Reducer::running`] and [`push_to`](Self::push_to). There is no result of a part of the
    /// elements.
    ///
    /// # Panics
    /// When the source does.
    pub fn reduce<O: Operation<T>>(self, op: O) -> Result<O::Output> {
        let mut running = self.reducer.running(op)?;
        self.push_to(&mut [&mut running])?;
        running.result()
    }

    /// Reads all elements, once, and has them come behind those that [running](Reducer::running)
    /// reductions have: any number of them, each of its own operation. Says how many elements there
    /// were.
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
    /// - [`Error::Ring`] for fewer than 2 buffers, for buffers that hold no element or have more bytes
    ///   together than the device's memory, for no thread, and for more than 1024 or one that the system
    ///   does not start; [`Error::Foreign`] for a type that is aligned to more than 256 bytes;
    /// - [`Error::OtherDevice`] for a reduction on another device than this one's, and
    ///   [`Error::TooManyElements`] for a source that says that it has more than one takes; nothing was
    ///   read then;
    /// - [`Error::Source`] with what the source said, and for one that ends before its last element;
    /// - those of [`Running::push`](crate::Running::push).
    ///
    /// The reductions may have got a part of the elements then.
    ///
    /// # Panics
    /// When the source does.
    pub fn push_to(self, running: &mut [&mut dyn Push<T>]) -> Result<u64> {
        let Self { reducer, source, buffers, bytes, threads, on_progress, .. } = self;
        let size = size_of::<T>();
        let device = reducer.device();
        let most = device.info().memory_bytes;
        let fits = buffers.checked_mul(bytes).is_some_and(|all| all as u64 <= most);
        if buffers < 2 || bytes < size || !fits || !(1..=MOST_THREADS).contains(&threads) {
            let reason = format!(
                "{buffers} buffers of {bytes} bytes, and {threads} threads; give 2 buffers or more, of \
                 {size} bytes or more, {most} together at most, and 1 to {MOST_THREADS} threads"
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
        // No more than there is to fill: a ring for a few elements is made at once.
        let len = bytes / size;
        let pieces = source.elements().map_or(u64::MAX, |elements| elements.div_ceil(len as u64));
        let buffers = buffers.min(usize::try_from(pieces).unwrap_or(usize::MAX).max(2));
        let ring = Ring::of(reducer, buffers, len * size)?;
        let threads = if source.is_in_order() { 1 } else { threads.min(buffers) };
        let (free, frees) = mpsc::channel();
        let (filled, fills) = mpsc::channel();
        // Both outlive the threads, so that all buffers are given back here.
        let turns = Mutex::new(Turns { frees, next: 0 });
        let mut parts = InTurn { fills, early: BTreeMap::new(), next: 0 };
        thread::scope(|scope| {
            // The threads end when this is gone, however that comes about.
            let free = free;
            for _ in 0..threads {
                let (turns, filled, source) = (&turns, filled.clone(), &source);
                let fill = move || fill_buffers(source, len as u64, turns, &filled);
                let started = thread::Builder::new().spawn_scoped(scope, fill);
                started.map_err(|error| {
                    let reason = format!("the system starts no thread ({error}); give fewer");
                    Error::Ring { reason }
                })?;
            }
            for slot in ring.0 {
                let _ = free.send(slot);
            }
            flow.run(&mut parts, &free)
        })
        .inspect(|_| {
            let Turns { frees, .. } = turns.into_inner().unwrap_or_else(PoisonError::into_inner);
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

/// Buffers of the ring that belong together. It may be dropped whenever no copy is under way between
/// them: a reduction of the device's has a share of that memory.
struct Slot {
    host: HostBytes,
    device: Arc<Memory>,
    /// The last copy between them.
    copied: Arc<Event>,
    /// The last of the reductions of what was copied.
    reduced: Event,
}

/// The buffers of a stream, all of the same size.
pub(crate) struct Ring(Vec<Slot>);

impl Ring {
    /// `buffers` buffers of `bytes` bytes each: first those of the stream before that have this size.
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

    /// Leaves them for the next stream.
    fn keep(self, reducer: &Reducer) {
        let before = reducer.core().ring().replace(self);
        // Another thread's, if there is one, is given back.
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

/// Who fills which buffer with what.
struct Turns {
    frees: Receiver<Slot>,
    /// The number of the next part of the source.
    next: u64,
}

/// A buffer that was filled, or was to be.
struct Filled {
    part: u64,
    slot: Slot,
    /// How many elements there are; or what the source said, or with what it panicked.
    elements: thread::Result<io::Result<usize>>,
}

/// Fills buffers with parts of `len` elements until nobody wants any more.
fn fill_buffers<T: Plain>(
    source: &impl Source<T>,
    len: u64,
    turns: &Mutex<Turns>,
    filled: &Sender<Filled>,
) {
    loop {
        let (mut slot, part) = {
            let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
            let Ok(slot) = turns.frees.recv() else { return };
            turns.next += 1;
            (slot, turns.next - 1)
        };
        let fill = || source.read_at(part * len, slot.host.elements());
        // Whoever waits for this part would wait for ever.
        let elements = panic::catch_unwind(AssertUnwindSafe(fill));
        let _ = filled.send(Filled { part, slot, elements });
    }
}

/// Buffers in the order of their parts, in which the threads need not come.
struct InTurn {
    fills: Receiver<Filled>,
    early: BTreeMap<u64, Filled>,
    next: u64,
}

impl InTurn {
    /// The next one, if it has come.
    fn come(&mut self) -> Option<Filled> {
        while let Ok(filled) = self.fills.try_recv() {
            self.early.insert(filled.part, filled);
        }
        self.take()
    }

    /// The next one, which a thread is about to fill.
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

/// Copies to the device, in order.
struct Copies {
    stream: Stream,
    /// Buffers between which copies are under way, and how many elements each copies.
    under_way: VecDeque<(Slot, usize)>,
}

impl Copies {
    /// Begins to copy `bytes` bytes, when what was copied before has been reduced.
    fn begin(&mut self, slot: Slot, elements: usize, bytes: usize) -> Result<&Slot> {
        let stream = &self.stream;
        let begun = slot.reduced.precede(stream).map_err(Failed::not_begun).and_then(|()| {
            let copied = stream.device().call("copying to it", |driver| {
                let (to, from) = (slot.device.address(), slot.host.start());
                // SAFETY: either memory has `bytes` bytes, and the slot is kept until the copy has
                // ended, or for good. Nobody writes the host's: it is in the slot. What read the
                // device's before comes first.
                unsafe { driver.memcpy_htod_async(to, from, bytes, stream.raw()) }
            });
            // An error of a copy that was enqueued even so must not leave it running.
            let recorded = copied.and_then(|()| slot.copied.record(stream));
            recorded.map_err(|error| {
                let ended = stream.has_ended();
                Failed { error, ended }
            })
        });
        match begun {
            Ok(()) => {
                self.under_way.push_back((slot, elements));
                Ok(&self.under_way.back().expect("it was put there just now").0)
            }
            Err(failed) => Err(failed.or_keep(|| mem::forget(slot))),
        }
    }

    /// Waits for the first copy that is under way.
    fn finish(&mut self) -> Option<Result<(Slot, usize)>> {
        let (slot, elements) = self.under_way.pop_front()?;
        Some(match slot.copied.wait_out() {
            Ok(()) => Ok((slot, elements)),
            Err(failed) => Err(failed.or_keep(|| mem::forget(slot))),
        })
    }
}

impl Drop for Copies {
    /// Lets no copy outlive its buffers.
    fn drop(&mut self) {
        while self.finish().is_some() {}
    }
}

/// The reductions that are under way.
struct Flow<'a, 'r, T: Plain> {
    running: &'a mut [&'r mut dyn Push<T>],
    /// Elements that will be reduced.
    enqueued: u64,
    work: Stream,
    copies: Copies,
    progress: Progress,
    on_progress: Option<OnProgress<'a>>,
    start: Instant,
}

impl<T: Plain> Flow<'_, '_, T> {
    /// Takes parts until the source has no more, and says how many elements came.
    fn run(&mut self, parts: &mut InTurn, free: &Sender<Slot>) -> Result<u64> {
        loop {
            let filled = match parts.come() {
                Some(filled) => filled,
                // Two copies under way keep the bus busy. With fewer there are buffers to be filled.
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
                let words = format!("it ends there, and said that it has {of}");
                Err(self.failed(io::Error::new(io::ErrorKind::UnexpectedEof, words)))
            }
            _ => Ok(self.enqueued),
        }
    }

    /// How many elements the source has given, of those that there is room for.
    fn given(
        &self,
        elements: Result<io::Result<usize>, Box<dyn Any + Send>>,
        room: usize,
    ) -> Result<usize> {
        match elements {
            Ok(Ok(elements)) if elements <= room => Ok(elements),
            Ok(Ok(elements)) => {
                let words = format!("it gave {elements} elements where {room} were asked for");
                Err(self.failed(io::Error::other(words)))
            }
            Ok(Err(error)) => Err(self.failed(error)),
            Err(panicked) => panic::resume_unwind(panicked),
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Source { at: self.enqueued, source }
    }

    /// Enqueues that the elements of a buffer are copied and reduced.
    fn take(&mut self, slot: Slot, elements: usize) -> Result<()> {
        let slot = self.copies.begin(slot, elements, elements * size_of::<T>())?;
        let copied = LastWrite::Until(slot.copied.clone());
        // The elements change when they have been reduced, and nobody else has this.
        let piece = Buffer::<T>::written(slot.device.clone(), elements, copied);
        for running in &mut *self.running {
            running.push(&self.work, &piece)?;
        }
        self.enqueued += elements as u64;
        slot.reduced.record(&self.work)
    }

    /// Waits until the first of the buffers under way has come to the device.
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
