//! Reductions by several devices of data that is not in device memory.

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

use super::{Group, check_len};
use crate::{
    Error, Plain, Progress, Result,
    op::Operation,
    reducer::{
        Reducer, Running,
        streamed::{BUFFERS, BYTES, OnProgress, THREADS},
    },
    source::Source,
};

/// The length of each part but the last is a multiple of this number of elements, so that all parts of a
/// file begin at a page.
const SHARE: u64 = 4096;

impl Group {
    /// Returns a reduction of elements that are not in device memory and need not fit there, as
    /// [`Reducer::stream`] does: all devices read at the same time, each its own part of the source over
    /// its own bus. [`reduce`](GroupStreamed::reduce) starts it.
    ///
    /// A source that does not state its length, or can only be read [in order](Source::is_in_order), is
    /// read by one thread. One bus keeps up with that thread, so the first device takes all elements.
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
/// The result is that of all elements in their order, as for a [`Group`]. It is the same on each call
/// with the same number of devices of the same kind and the same buffer size. Results that have the same
/// bits [everywhere](crate::op#the-same-bits) are those of a single [`Buffer`](crate::Buffer) with all
/// elements.
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
    /// Sets the number of buffers of each device and the bytes of each buffer, the same on the host and
    /// on the device. The default is 16 buffers of 2 MiB.
    #[must_use]
    pub fn buffers(self, count: usize, bytes: usize) -> Self {
        Self { buffers: count, bytes, ..self }
    }

    /// Sets the number of threads that fill the buffers of each device, 1 to 1024. By default the
    /// [available parallelism](std::thread::available_parallelism) is divided among the devices, with 1
    /// to 8 threads for each.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Sets a function to call with the progress of all devices together, on the calling thread, each
    /// time a buffer has been copied to a device.
    #[must_use]
    pub fn on_progress(self, call: impl FnMut(&Progress) + 'a) -> Self {
        Self { on_progress: Some(Box::new(call)), ..self }
    }

    /// Reads all elements and reduces them by an [operation](crate::op).
    ///
    /// # Errors
    /// The errors of [`Streamed::reduce`](crate::Streamed::reduce) and [`Group::reduce`]. If one device
    /// fails, the others stop, and there is no result.
    ///
    /// # Panics
    /// If the source panics.
    pub fn reduce<O: Operation<T> + Send>(self, op: O) -> Result<O::Output> {
        self.reduce_by(|_| op)
    }

    /// Reads all elements and reduces them by an operation that is loaded on each device. `op` returns
    /// the operation of the device with a given index.
    ///
    /// # Errors
    /// The errors of [`reduce`](Self::reduce); [`Error::OtherDevice`] for an operation of another
    /// device.
    ///
    /// # Panics
    /// If the source panics.
    pub fn reduce_by<O: Operation<T> + Send>(mut self, op: impl Fn(usize) -> O) -> Result<O::Output> {
        let (group, code) = (self.group, op(0).code());
        if let Some(n) = self.source.elements() {
            check_len(&code, n)?;
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

    /// Returns the start of each device's part of the source, and its number of elements if known.
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
                // Without elements, the first device still checks the number and size of the buffers.
                .filter(|&(rank, (_, (&(_, len), _)))| rank == 0 || len != Some(0))
                .map(|(rank, (reducer, (&(start, len), running)))| {
                    let (source, stop, sender) = (&self.source, &stop, sender.clone());
                    let (buffers, bytes, threads) = (self.buffers, self.bytes, self.threads);
                    scope.spawn(move || {
                        let _stop = StopIfPanicking(stop);
                        let part = Part { source, start, len, stop };
                        let stream = reducer.stream(part).buffers(buffers, bytes).threads(threads);
                        let stream = stream.on_progress(|at| {
                            // This cannot fail: the receiver outlives the thread.
                            let _ = sender.send((rank, at.elements, at.bytes));
                        });
                        let pushed = stream.push_to(&mut [running]);
                        if let Err(error) = pushed {
                            stop.fail(in_source(error, start));
                        }
                    })
                })
                .collect();
            drop(sender);
            report_progress(&progress, devices, of, start, call);
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

fn report_progress(
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

/// Converts an error's position in the part that begins at `start` to the position in the source.
fn in_source(error: Error, start: u64) -> Error {
    match error {
        Error::Source { at, source } => Error::Source { at: start + at, source },
        other => other,
    }
}

#[derive(Default)]
struct Stop {
    is_set: AtomicBool,
    reason: Mutex<Option<Error>>,
}

impl Stop {
    /// Stops all devices. Keeps the first error only, because later ones may be due to the stop.
    fn fail(&self, error: Error) {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.is_set.store(true, Ordering::Relaxed);
    }

    fn reason(self) -> Result<()> {
        self.reason.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

struct StopIfPanicking<'a>(&'a Stop);

impl Drop for StopIfPanicking<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.is_set.store(true, Ordering::Relaxed);
        }
    }
}

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
        if self.stop.is_set.load(Ordering::Relaxed) {
            return Err(io::Error::other("the part of another device has failed"));
        }
        let room = self.len.map_or(u64::MAX, |len| len.saturating_sub(start)).min(into.len() as u64);
        self.source.read_at(self.start + start, &mut into[..room as usize])
    }

    fn is_in_order(&self) -> bool {
        self.source.is_in_order()
    }
}
