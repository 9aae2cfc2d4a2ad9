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

/// The most elements of all pieces together.
pub(super) const MOST: u64 = 1 << 48;

/// A reduction of elements that arrive in pieces, from [`Reducer::running`]: of data that is larger than
/// the device's memory, or is not available at once. Its state stays in device memory. Each
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
/// time; other pieces may round sums of floats differently. A result that has the same bits
/// [everywhere](crate::op#the-same-bits) has those of a buffer with all elements.
pub struct Running<T: Plain, O: Operation<T>> {
    op: O,
    state: State,
    output: Output<O::Left>,
    elements: PhantomData<fn(T)>,
}

/// The part of a running reduction that depends on neither operation nor element type.
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
    /// [`Error::OutOfMemory`] for a hundred bytes of device memory; those of [`prepare`](Self::prepare),
    /// and [`Error::OtherDevice`] for a program's own operation that was loaded on another device.
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
        // A group copies all bytes, and most operations write only some.
        device.clear(&memory)?;
        Ok(Self { core: reducer.core().clone(), memory, first: 0, len: 0, lost: false })
    }

    fn device(&self) -> &Device {
        self.core.device()
    }

    /// Launches a program's own operation on no elements, which writes its result of none. If `first` is
    /// not 0, this also initialises the state, for any operation.
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
        // The launch of the previous piece, and readers of its result, come first.
        output.precede(stream)?;
        elements.written.precede(stream)?;
        task.prepare(self.core.kernels())?;
        self.core.reclaim_finished();
        let inputs = Inputs { second: Some(&self.memory), ..Inputs::of(&task, elements.memory) };
        // SAFETY: the stream is of the device, and the elements are those of a buffer, which never
        // change. The output and the state belong to a running reduction that is borrowed mutably; the
        // stream waits for the launch that used them before.
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

    /// Returns the [cell](warpfold_abi::meeting) of a launch: the state, then the words of a result.
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
        let reason = "a launch has failed and may still run; begin another one".to_owned();
        Err(Error::Lost { what: "running reduction", reason })
    }
}

impl<T: Plain, O: Operation<T>> Running<T, O> {
    /// Sets the index of the first element among all, which is the number of elements before it that
    /// another reduction takes. It changes only the index in a result, and the limit of 2^48 elements,
    /// which counts from there.
    ///
    /// # Errors
    /// [`Error::TooManyElements`] for an index above 2^48, and [`Error::Lost`] after a launch that could
    /// not be enqueued; otherwise as [`Reducer::running`].
    ///
    /// # Panics
    /// If elements have been pushed.
    pub fn starting_at(mut self, first: u64) -> Result<Self> {
        self.state.require_kept()?;
        assert!(self.is_empty(), "elements have an index already");
        if first > MOST {
            return Err(Error::TooManyElements { n: first, most: MOST });
        }
        if first == 0 {
            return Ok(self);
        }
        self.state.first = first;
        // A launch may still read the result as a count.
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
    /// - [`Error::OtherDevice`] for a buffer or a stream of another device, and
    ///   [`Error::TooManyElements`] for more than 2^35 of a buffer, or more than 2^48 together, or of
    ///   sums that have the same bits [everywhere](crate::op::Reproducible) 2^35; the elements are not
    ///   added;
    /// - [`Error::OutOfMemory`] while the pool of workspaces grows, and [`Error::Driver`] if the launch
    ///   fails: the state is lost, and later calls return [`Error::Lost`].
    pub fn push(&mut self, stream: &Stream, values: &Buffer<T>) -> Result<()> {
        let code = self.op.code();
        self.state.require_kept()?;
        self.device().require("stream", stream.device())?;
        self.state.require_room(&code, values.len() as u64)?;
        let range = ElementRange::of(code, values, self.device())?;
        self.state.push(stream, range, values.elements(), &mut self.output)
    }

    /// Returns the state and the result so far as the [cell](warpfold_abi::meeting) of a launch; empty
    /// if there are no elements.
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

    /// Returns the result so far in device memory, for work that is enqueued after the pieces on the
    /// stream of the last one, or on a stream that [waits](Stream::wait_for) for that. Without pieces it
    /// is zero.
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

    /// Refuses more elements than there is room for.
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
    /// Seals [`Push`](super::Push): the pieces of a stream are overwritten after their reduction, so
    /// only types of this crate may receive them.
    pub trait Sealed {}
}

impl<T: Plain, O: Operation<T>> sealed::Sealed for Running<T, O> {}

impl<T: Plain, O: Operation<T>> fmt::Debug for Running<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut running = f.debug_struct("Running");
        running.field("operation", &self.op.code()).field("len", &self.len()).finish_non_exhaustive()
    }
}
