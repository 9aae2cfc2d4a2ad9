//! Reductions of data that is on no device, by several of them at once.

use std::{
    fmt, io, iter,
    marker::PhantomData,
    num::NonZero,
    panic,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
    time::Instant,
};

use super::Group;
use crate::{
    Error, Plain, Progress, Result,
    op::Operation,
    reducer::{
        Reducer, Running,
        running::MOST,
        streamed::{BUFFERS, BYTES, OnProgress, THREADS},
    },
    source::Source,
};

/// Each device's elements are a multiple of this number, so that what it reads of a file begins at a
/// page.
const SHARE: u64 = 4096;

impl Group {
    /// A reduction of elements that are on no device and need not fit there, as
    /// [`Reducer::stream`] is: each device reads a part of the source of its own, at the same time, over
    /// its own bus. What it does begins with [`reduce`](GroupStreamed::reduce).
    ///
    /// A source that does not know its length, or can only be read [in order](Source::is_in_order), is
    /// read by one thread, which one bus keeps up with: the first device takes all of it.
    ///
    /// ```no_run
    /// use warpfold::{Group, Selection, op, source};
    ///
    /// let group = Group::open(&[Selection::CudaOrdinal(0), Selection::CudaOrdinal(1)])?;
    /// let file = source::File::<f32>::open("values.raw").unwrap();
    /// println!("{:?}", group.stream(&file).reduce(op::ArgMax)?);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    pub fn stream<T: Plain, S: Source<T>>(&self, source: S) -> GroupStreamed<'_, T, S> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let threads = (threads / self.members().len()).clamp(1, THREADS);
        let (buffers, bytes, on_progress) = (BUFFERS, BYTES, None);
        GroupStreamed { group: self, source, buffers, bytes, threads, on_progress, element: PhantomData }
    }
}

/// A reduction of a [source](crate::source) by a group, from [`Group::stream`].
///
/// The result is that of all elements in their order, as of a [`Group`]: the same from call to call, for
/// as many devices of a kind and a given size of buffers; and one that has the same bits
/// [everywhere](crate::op#the-same-bits) has those of a [`Buffer`](crate::Buffer) with all elements.
pub struct GroupStreamed<'a, T, S> {
    group: &'a Group,
    source: S,
    buffers: usize,
    bytes: usize,
    threads: usize,
    on_progress: Option<OnProgress<'a>>,
    element: PhantomData<fn() -> T>,
}

impl<'a, T: Plain, S: Source<T>> GroupStreamed<'a, T, S> {
    /// Takes `count` buffers of `bytes` bytes each for every device, on the host and on the device.
    #[must_use]
    pub fn buffers(self, count: usize, bytes: usize) -> Self {
        Self { buffers: count, bytes, ..self }
    }

    /// Has `threads` threads fill the buffers of each device.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Is told on the calling thread how far all devices are together, each time that a buffer has come
    /// to one.
    #[must_use]
    pub fn on_progress(self, call: impl FnMut(&Progress) + 'a) -> Self {
        Self { on_progress: Some(Box::new(call)), ..self }
    }

    /// Reads all elements and reduces them, by any [operation](crate::op).
    ///
    /// # Errors
    /// Those of [`Streamed::reduce`](crate::Streamed::reduce) and [`Group::reduce`]. There is no result
    /// of a part of the elements: where one device fails, the others stop.
    ///
    /// # Panics
    /// When the source does.
    pub fn reduce<O: Operation<T> + Send>(self, op: O) -> Result<O::Output> {
        self.reduce_by(|_| op)
    }

    /// The same, by an operation that is loaded on each device: that of the device of a number.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce), and [`Error::OtherDevice`] for an operation of another device.
    ///
    /// # Panics
    /// When the source does.
    pub fn reduce_by<O: Operation<T> + Send>(mut self, op: impl Fn(usize) -> O) -> Result<O::Output> {
        let (group, of) = (self.group, self.source.elements());
        let most = op(0).code().most_running().unwrap_or(MOST);
        if let Some(n) = of.filter(|&n| n > most) {
            return Err(Error::TooManyElements { n, most });
        }
        let parts = self.parts();
        let begin = |(rank, (reducer, &(start, _))): (usize, (&Reducer, &(u64, _)))| {
            reducer.running(op(rank))?.starting_at(start)
        };
        let each = iter::zip(group.reducers(), &parts).enumerate();
        let mut running: Vec<Running<T, O>> = each.map(begin).collect::<Result<_>>()?;
        let call = self.on_progress.take();
        self.push(&parts, &mut running, call)?;
        group.result(&running)
    }

    /// Where each device's part of the source begins, and how many elements it has, where that is known.
    fn parts(&self) -> Vec<(u64, Option<u64>)> {
        let count = self.group.members().len() as u64;
        match self.source.elements().filter(|_| !self.source.is_in_order()) {
            Some(n) => {
                let share = n.div_ceil(count).next_multiple_of(SHARE);
                let part = |rank: u64| {
                    let [start, end] = [rank, rank + 1].map(|rank| rank.saturating_mul(share).min(n));
                    (start, Some(end - start))
                };
                (0..count).map(part).collect()
            }
            None => {
                let others = iter::repeat_n((0, Some(0)), count as usize - 1);
                iter::once((0, self.source.elements())).chain(others).collect()
            }
        }
    }

    /// Has each device read its part.
    fn push<O: Operation<T> + Send>(
        &self,
        parts: &[(u64, Option<u64>)],
        running: &mut [Running<T, O>],
        call: Option<OnProgress<'a>>,
    ) -> Result<()> {
        let stop = Stop::default();
        let (sender, progress) = mpsc::channel();
        let (of, start) = (self.source.elements(), Instant::now());
        let devices = parts.len();
        thread::scope(|scope| {
            let each = iter::zip(self.group.reducers(), iter::zip(parts, running)).enumerate();
            let threads: Vec<_> = each
                // Of no elements the first device says whether they could be reduced.
                .filter(|&(rank, (_, (&(_, len), _)))| rank == 0 || len != Some(0))
                .map(|(rank, (reducer, (&(start, len), running)))| {
                    let (source, stop, sender) = (&self.source, &stop, sender.clone());
                    let (buffers, bytes, threads) = (self.buffers, self.bytes, self.threads);
                    scope.spawn(move || {
                        let _stop = StopIfPanicking(stop);
                        let part = Part { source, start, len, stop };
                        let stream = reducer.stream(part).buffers(buffers, bytes).threads(threads);
                        let stream = stream.on_progress(|at| {
                            // Nobody asks for it if the caller's thread is gone.
                            let _ = sender.send((rank, at.elements, at.bytes));
                        });
                        let pushed = stream.push_to(&mut [running]);
                        if let Err(error) = pushed {
                            stop.because(among_all(error, start));
                        }
                    })
                })
                .collect();
            drop(sender);
            tell(&progress, devices, of, start, call);
            for thread in threads {
                if let Err(panicked) = thread.join() {
                    panic::resume_unwind(panicked);
                }
            }
        });
        stop.reason()
    }
}

impl<T, S> fmt::Debug for GroupStreamed<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut streamed = f.debug_struct("GroupStreamed");
        streamed.field("group", self.group).field("buffers", &self.buffers).field("bytes", &self.bytes);
        streamed.field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// Tells how far all are together, until the last of them is done.
fn tell(
    progress: &Receiver<(usize, u64, u64)>,
    devices: usize,
    of: Option<u64>,
    start: Instant,
    call: Option<OnProgress<'_>>,
) {
    let Some(mut call) = call else { return };
    let mut each = vec![(0, 0); devices];
    for (rank, elements, bytes) in progress {
        each[rank] = (elements, bytes);
        let (elements, bytes) =
            each.iter().fold((0, 0), |(elements, bytes), each| (elements + each.0, bytes + each.1));
        call(&Progress { elements, bytes, of, elapsed: start.elapsed() });
    }
}

/// An error in a part that begins so far into the source.
fn among_all(error: Error, start: u64) -> Error {
    match error {
        Error::Source { at, source } => Error::Source { at: start + at, source },
        other => other,
    }
}

/// Whether all are to stop, and what went wrong first.
#[derive(Default)]
struct Stop {
    is_asked: AtomicBool,
    reason: Mutex<Option<Error>>,
}

impl Stop {
    /// Of what went wrong afterwards, as those that are stopped do, nothing is said.
    fn because(&self, error: Error) {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.is_asked.store(true, Ordering::Relaxed);
    }

    fn reason(self) -> Result<()> {
        self.reason.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

/// Has the others stop where the source panics.
struct StopIfPanicking<'a>(&'a Stop);

impl Drop for StopIfPanicking<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.is_asked.store(true, Ordering::Relaxed);
        }
    }
}

/// Some elements of a source, until all are to stop.
struct Part<'a, S> {
    source: &'a S,
    start: u64,
    len: Option<u64>,
    stop: &'a Stop,
}

impl<T, S: Source<T>> Source<T> for Part<'_, S> {
    fn elements(&self) -> Option<u64> {
        self.len
    }

    fn read_at(&self, start: u64, into: &mut [T]) -> io::Result<usize> {
        if self.stop.is_asked.load(Ordering::Relaxed) {
            return Err(io::Error::other("another device's part of it has failed"));
        }
        let room = self.len.map_or(u64::MAX, |len| len.saturating_sub(start)).min(into.len() as u64);
        self.source.read_at(self.start + start, &mut into[..room as usize])
    }

    fn is_in_order(&self) -> bool {
        self.source.is_in_order()
    }
}
