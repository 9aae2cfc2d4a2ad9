//! Reductions of elements that arrive in pieces.

use std::{fmt, marker::PhantomData, mem, sync::Arc};

use warpfold_abi::reducer::CARRIED_BYTES;

use super::{
    Code, Core, ElementRange, Inputs, Reducer, RunningState,
    plan::{Elements, OutputMemory},
};
use crate::{
    Buffer, Device, Error, Output, Plain, Result, Stream,
    element::Words,
    input::{Task, buffer::ContinuedTask},
    memory::Memory,
    op::Operation,
};

/// The maximum number of elements of all pieces together.
pub(super) const MOST: u64 = 1 << 48;

/// A reduction of elements that arrive in pieces, for data that is larger than the device's memory or
/// not available at once. [`Reducer::running`] creates it. Its state stays in device memory. Each
/// [`push`](Self::push) enqueues one launch, which continues from that state; only the
/// [result](Self::result) is waited for.
///
/// ```
/// use warpfold::{Device, Reducer, Selection, op};
///
/// let device = Device::open(Selection::Sim)?;
/// let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
/// let mut largest = reducer.running::<f32, _>(op::ArgMax)?;
/// largest.push(&stream, &device.upload(&[1.0_f32, 8.0])?)?;
/// largest.push(&stream, &device.upload(&[2.0_f32, 9.0, 9.0])?)?;
/// let found = largest.result()?.expect("there are elements");
/// assert_eq!((found.index, found.value, largest.len()), (3, 9.0, 5));
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// The result is that of all elements in the order in which they were pushed; an index counts from the
/// first element of the first piece. The same pieces, at the same alignments, give the same bits each
/// time; other pieces may round sums of floats differently. Results that have the same bits
/// [everywhere](crate::op#the-same-bits) are those of a single buffer with all elements.
pub struct Running<T: Plain, O: Operation<T>> {
    op: O,
    state: State,
    output: Output<O::Left>,
    elements: PhantomData<fn(T)>,
}

/// The part of a running reduction that is independent of operation and element type.
struct State {
    core: Arc<Core>,
    memory: Arc<Memory>,
    first: u64,
    len: u64,
    /// True if a launch has failed, so that the state may have any value.
    lost: bool,
}

impl Reducer {
    /// Begins a reduction of elements that arrive in pieces, by any [operation](crate::op).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if there is no device memory for the state, about a hundred bytes; those
    /// of [`prepare`](Self::prepare), and [`Error::OtherDevice`] for a program's own operation that was
    /// loaded on another device.
    pub fn running<T: Plain, O: Operation<T>>(&self, op: O) -> Result<Running<T, O>> {
        let (state, output) = (State::new(self)?, Output::new(self.device())?);
        state.begin(op.code(), output.memory())?;
        Ok(Running { op, state, output, elements: PhantomData })
    }
}

impl State {
    fn new(reducer: &Reducer) -> Result<Self> {
        let device = reducer.device();
        let memory = Arc::new(Memory::new(device, CARRIED_BYTES)?);
        // Cleared, because a group copies all bytes of the state, and most operations write only some.
        device.clear(&memory)?;
        Ok(Self { core: reducer.core().clone(), memory, first: 0, len: 0, lost: false })
    }

    fn device(&self) -> &Device {
        self.core.device()
    }

    /// Launches the operation on no elements where that is necessary: for a program's own operation, to
    /// write its result of no elements; and if `first` is not 0, to initialize the state.
    fn begin(&self, code: Code, output: &Arc<Memory>) -> Result<()> {
        let task = self.task(ElementRange { code, n: 0, address: self.memory.address() }, 0)?;
        task.prepare(self.core.kernels())?;
        if task.is_empty() && self.first == 0 {
            return Ok(());
        }
        // SAFETY: there are no elements. No launch uses the state or the output: `running` has just made
        // them, and `starting_at` has waited. Both are leaked below if this launch may still run.
        let reduced = unsafe { self.core.reduce_into(&task, output.address()) };
        let keep = || {
            let memories = (self.memory.clone(), output.clone());
            mem::forget((self.core.clone(), task.kept_codes(), memories));
        };
        reduced.map_err(|failed| failed.or_keep(keep))
    }

    fn task(&self, range: ElementRange, before: u64) -> Result<ContinuedTask> {
        range.code.require_device(self.device())?;
        let carried = RunningState { before, address: self.memory.address(), meeting: None };
        Ok(ContinuedTask { range, carried })
    }

    /// Enqueues the reduction of a range of elements, for which there is [room](Self::require_room).
    fn push(
        &mut self,
        stream: &Stream,
        range: ElementRange,
        elements: Elements<'_>,
        output: &mut dyn OutputMemory,
    ) -> Result<()> {
        let more = range.n;
        let task = self.task(range, self.first + self.len)?;
        if more == 0 {
            return Ok(());
        }
        // Orders the launch after the previous piece's launch, and after reads of the output as a count.
        output.precede(stream)?;
        elements.written.precede(stream)?;
        task.prepare(self.core.kernels())?;
        self.core.reclaim_finished();
        let inputs = Inputs { second: Some(&self.memory), ..Inputs::of(&task, elements.memory) };
        // SAFETY: the stream is of the device, and the elements of a buffer never change. The output and
        // the state belong to a running reduction that is borrowed mutably; the stream waits for the
        // launch that used them before.
        let enqueued = unsafe { self.core.enqueue(stream, inputs, Some(output.memory())) };
        let in_flight = enqueued.inspect_err(|_| self.lost = true)?;
        output.written_until(in_flight.end().clone());
        self.core.detach(in_flight);
        self.len += more;
        Ok(())
    }

    fn require_room(&self, code: &Code, more: u64) -> Result<()> {
        let most = code.most_running().unwrap_or(MOST);
        match self.len.saturating_add(more) {
            n if n > most => Err(Error::TooManyElements { n, most }),
            n if self.first + n > MOST => Err(Error::TooManyElements { n: self.first + n, most: MOST }),
            _ => Ok(()),
        }
    }

    fn cell(&self, words: Words) -> Result<Vec<u8>> {
        use warpfold_abi::{meeting::CELL_BYTES, reducer::OUTPUT_BYTES};

        let result = &bytemuck::bytes_of(&words)[..OUTPUT_BYTES as usize];
        // SAFETY: the memory has `CARRIED_BYTES` bytes, which no launch writes any more.
        let mut cell =
            unsafe { self.device().copy_out::<u8>(self.memory.address(), CARRIED_BYTES as usize) }?;
        cell.extend_from_slice(result);
        cell.resize(CELL_BYTES as usize, 0);
        Ok(cell)
    }

    fn require_kept(&self) -> Result<()> {
        if !self.lost {
            return Ok(());
        }
        let reason = "a launch has failed and may still run; begin another running reduction".to_owned();
        Err(Error::Lost { what: "running reduction", reason })
    }
}

impl<T: Plain, O: Operation<T>> Running<T, O> {
    /// Sets the index of the first element to push: the number of elements before it, which another
    /// reduction receives, for example on another device. It changes only indices in results, and counts
    /// towards the limit of 2^48 elements.
    ///
    /// # Errors
    /// [`Error::TooManyElements`] for an index above 2^48, and [`Error::Lost`] after a launch that could
    /// not be enqueued; otherwise as [`Reducer::running`].
    ///
    /// # Panics
    /// If elements have been pushed.
    pub fn starting_at(mut self, first: u64) -> Result<Self> {
        self.state.require_kept()?;
        assert!(self.is_empty(), "elements were pushed before the index was set");
        if first > MOST {
            return Err(Error::TooManyElements { n: first, most: MOST });
        }
        if first == 0 {
            return Ok(self);
        }
        self.state.first = first;
        // Earlier launches may still read the output as their [count](crate::Counted).
        self.output.wait_ready()?;
        self.state.begin(self.op.code(), self.output.memory())?;
        Ok(self)
    }

    /// Returns the device, to which all buffers must belong.
    pub fn device(&self) -> &Device {
        self.state.device()
    }

    /// Returns the number of elements pushed.
    pub fn len(&self) -> u64 {
        self.state.len
    }

    /// Returns whether no elements were pushed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Enqueues the reduction of a buffer's elements, after all earlier ones, on any stream of the
    /// device: each launch waits for the previous piece.
    ///
    /// # Errors
    /// - [`Error::OtherDevice`] for a buffer or a stream of another device; [`Error::TooManyElements`]
    ///   for more than 2^35 elements of a buffer or 2^48 in all, or, for
    ///   [reproducible](crate::op::Reproducible) sums, 2^35 in all; the elements are not added;
    /// - [`Error::OutOfMemory`] if there is no memory for a workspace, and [`Error::Driver`] if the
    ///   launch fails: the state is lost, and later calls return [`Error::Lost`].
    pub fn push(&mut self, stream: &Stream, values: &Buffer<T>) -> Result<()> {
        let code = self.op.code();
        self.state.require_kept()?;
        self.device().require("stream", stream.device())?;
        self.state.require_room(&code, values.len() as u64)?;
        let range = ElementRange::of(code, values, self.device())?;
        self.state.push(stream, range, values.elements(), &mut self.output)
    }

    /// Returns the state and the result so far as a [cell](warpfold_abi::meeting); empty if there are no
    /// elements.
    pub(super) fn cell(&self) -> Result<Vec<u8>> {
        self.state.require_kept()?;
        if self.is_empty() {
            return Ok(Vec::new());
        }
        // `words` waits for the last piece.
        self.state.cell(self.output.words()?)
    }

    pub(super) fn op(&self) -> O {
        self.op
    }

    /// Waits for the pieces so far and returns their result. More pieces may follow.
    ///
    /// # Errors
    /// [`Error::Driver`] if a launch or the copy fails; [`Error::Lost`] after a launch that could not be
    /// enqueued.
    pub fn result(&self) -> Result<O::Output> {
        self.state.require_kept()?;
        match O::of_none().filter(|_| self.is_empty()) {
            Some(of_none) => Ok(of_none),
            None => Ok(O::decode(self.output.words()?)),
        }
    }

    /// Returns the result so far in device memory, for work that is enqueued after the last piece, on
    /// the same stream or on one that [waits](Stream::wait_for) for it. Before the first piece it is
    /// zero, except for a program's own operation and after [`starting_at`](Self::starting_at) an index
    /// above 0: then it is the result of no elements, listed at [`Counted`](crate::Counted).
    ///
    /// # Errors
    /// [`Error::Lost`] after a launch that could not be enqueued.
    pub fn output(&self) -> Result<&Output<O::Left>> {
        self.state.require_kept().map(|()| &self.output)
    }
}

/// A [`Running`] reduction of any operation, to which elements can be pushed. The trait is sealed.
pub trait Push<T: Plain>: sealed::Sealed {
    /// Enqueues the reduction of a buffer's elements, as [`Running::push`].
    ///
    /// # Errors
    /// Those of [`Running::push`].
    fn push(&mut self, stream: &Stream, values: &Buffer<T>) -> Result<()>;

    /// Returns the device, to which all buffers must belong.
    fn device(&self) -> &Device;

    /// Returns an error if `more` further elements would exceed the limit.
    ///
    /// # Errors
    /// [`Error::TooManyElements`].
    fn require_room(&self, more: u64) -> Result<()>;
}

impl<T: Plain, O: Operation<T>> Push<T> for Running<T, O> {
    fn push(&mut self, stream: &Stream, values: &Buffer<T>) -> Result<()> {
        self.push(stream, values)
    }

    fn device(&self) -> &Device {
        self.device()
    }

    fn require_room(&self, more: u64) -> Result<()> {
        self.state.require_room(&self.op.code(), more)
    }
}

mod sealed {
    /// Seals [`Push`](super::Push): [`Streamed`](crate::Streamed) overwrites each buffer after its
    /// reduction, so only types of this crate may receive such buffers.
    pub trait Sealed {}
}

impl<T: Plain, O: Operation<T>> sealed::Sealed for Running<T, O> {}

impl<T: Plain, O: Operation<T>> fmt::Debug for Running<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut running = f.debug_struct("Running");
        running.field("operation", &self.op.code()).field("len", &self.len()).finish_non_exhaustive()
    }
}
