//! Reductions of elements that come piece by piece.

use std::{fmt, marker::PhantomData, mem, sync::Arc};

use warpfold_abi::reducer::CARRIED_BYTES;

use super::{
    Carried, Code, Core, Inputs, Reducer, Span,
    plan::{Elements, OutputMemory},
};
use crate::{
    Buffer, Device, Error, Output, Plain, Result, Stream,
    element::Words,
    input::{Task, buffer::ContinuedTask},
    memory::Memory,
    op::Operation,
};

/// Most elements of all pieces together.
pub(super) const MOST: u64 = 1 << 48;

/// A reduction of elements that come piece by piece, from [`Reducer::running`]: of data that is larger
/// than the device's memory, or is not there at once. What was made of the pieces until now stays in
/// device memory, and each [`push`](Self::push) enqueues one launch, which takes it from there;
/// nothing is waited for until the [result](Self::result) is asked for.
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
/// The result is that of all elements in the order in which they came; a place counts from the first
/// element of the first piece. The same pieces, at the same alignments, give the same bits each time;
/// cut otherwise, sums of floats may be rounded otherwise. A result that has the same bits
/// [everywhere](crate::op#the-same-bits) has those that it has of a buffer with all elements.
pub struct Running<T: Plain, O: Operation<T>> {
    op: O,
    carried: CarriedOn,
    output: Output<O::Left>,
    elements: PhantomData<fn(T)>,
}

/// The state of a running reduction, whose type depends on neither operation nor elements.
struct CarriedOn {
    core: Arc<Core>,
    memory: Arc<Memory>,
    /// The index of the first element.
    first: u64,
    len: u64,
    /// Whether a launch has failed, so that what is carried may be anything.
    lost: bool,
}

impl Reducer {
    /// Begins a reduction of elements that come piece by piece, by any [operation](crate::op).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] for a hundred bytes of device memory; those of [`prepare`](Self::prepare),
    /// and [`Error::OtherDevice`] for a program's own operation that was loaded on another one.
    pub fn running<T: Plain, O: Operation<T>>(&self, op: O) -> Result<Running<T, O>> {
        let (carried, output) = (CarriedOn::new(self)?, Output::new(self.device())?);
        carried.begin(op.code(), output.memory())?;
        Ok(Running { op, carried, output, elements: PhantomData })
    }
}

impl CarriedOn {
    fn new(reducer: &Reducer) -> Result<Self> {
        let device = reducer.device();
        let memory = Arc::new(Memory::new(device, CARRIED_BYTES)?);
        // A group copies all of it, and most operations write a part.
        device.clear(&memory)?;
        Ok(Self { core: reducer.core().clone(), memory, first: 0, len: 0, lost: false })
    }

    fn device(&self) -> &Device {
        self.core.device()
    }

    /// Launches a program's own operation on no elements, which writes its result of none. If `first` is
    /// not 0, this also initialises the state, for any operation.
    fn begin(&self, code: Code, output: &Arc<Memory>) -> Result<()> {
        let task = self.task(Span { code, n: 0, address: self.memory.address() }, 0)?;
        task.prepare(self.core.kernels())?;
        if task.is_empty() && self.first == 0 {
            return Ok(());
        }
        // SAFETY: there are no elements. No launch uses the state or the output: `running` has just made
        // them, and `starting_at` has waited. Both are kept below if this launch may still run.
        let reduced = unsafe { self.core.reduce_into(&task, output.address()) };
        let keep = || {
            let memories = (self.memory.clone(), output.clone());
            mem::forget((self.core.clone(), task.kept_codes(), memories));
        };
        reduced.map_err(|failed| failed.or_keep(keep))
    }

    /// The task of further elements, before which `before` others came.
    fn task(&self, span: Span, before: u64) -> Result<ContinuedTask> {
        if let Code::Custom(loaded) = &span.code {
            self.device().require("operation", loaded.device())?;
        }
        let carried = Carried { before, address: self.memory.address(), meeting: None };
        Ok(ContinuedTask { span, carried })
    }

    /// Enqueues the reduction of a span of elements, for which there is [room](Self::require_room).
    fn push(
        &mut self,
        stream: &Stream,
        span: Span,
        elements: Elements<'_>,
        output: &mut dyn OutputMemory,
    ) -> Result<()> {
        let more = span.n;
        let task = self.task(span, self.first + self.len)?;
        if more == 0 {
            return Ok(());
        }
        // The launch of the previous piece, and readers of its result, come first.
        output.precede(stream)?;
        elements.written.precede(stream)?;
        task.prepare(self.core.kernels())?;
        self.core.sweep();
        let inputs = Inputs { second: Some(&self.memory), ..Inputs::of(&task, elements.memory) };
        // SAFETY: the stream is of the device; the elements are those of a buffer, which never change;
        // the output and what is carried are a running reduction's, which is borrowed for writing: they
        // belong to the stream, which waits for the launch before.
        let enqueued = unsafe { self.core.enqueue(stream, inputs, Some(output.memory())) };
        let underway = enqueued.inspect_err(|_| self.lost = true)?;
        output.written_until(underway.end().clone());
        self.core.detach(underway);
        self.len += more;
        Ok(())
    }

    /// Refuses `more` elements if there are too many with them.
    fn require_room(&self, code: &Code, more: u64) -> Result<()> {
        let most = code.most_running().unwrap_or(MOST);
        match self.len.saturating_add(more) {
            n if n > most => Err(Error::TooManyElements { n, most }),
            n if self.first + n > MOST => Err(Error::TooManyElements { n: self.first + n, most: MOST }),
            _ => Ok(()),
        }
    }

    /// The [cell](warpfold_abi::meeting) of a launch, followed by the words of a result.
    fn cell(&self, words: Words) -> Result<Vec<u8>> {
        use warpfold_abi::{meeting::CELL_BYTES, reducer::OUTPUT_BYTES};

        let result = &bytemuck::bytes_of(&words)[..OUTPUT_BYTES as usize];
        // SAFETY: `CARRIED_BYTES` bytes are there, which no launch writes any more.
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
    /// Sets the index that the first element has among all: the number of elements before it, which
    /// another reduction takes. Only the index in a result with a place changes, and the limit of 2^48
    /// elements counts from there.
    ///
    /// # Errors
    /// [`Error::TooManyElements`] for an index above 2^48, and [`Error::Lost`] after a launch that could
    /// not be enqueued; otherwise as [`Reducer::running`].
    ///
    /// # Panics
    /// If elements have been pushed.
    pub fn starting_at(mut self, first: u64) -> Result<Self> {
        self.carried.require_kept()?;
        assert!(self.is_empty(), "elements have an index already");
        if first > MOST {
            return Err(Error::TooManyElements { n: first, most: MOST });
        }
        if first == 0 {
            return Ok(self);
        }
        self.carried.first = first;
        // A launch may still read the result as a count.
        self.output.settle()?;
        self.carried.begin(self.op.code(), self.output.memory())?;
        Ok(self)
    }

    /// The device whose buffers it takes.
    pub fn device(&self) -> &Device {
        self.carried.device()
    }

    /// How many elements came until now.
    pub fn len(&self) -> u64 {
        self.carried.len
    }

    /// Returns whether no element came until now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Enqueues the reduction of a buffer's elements, after all earlier ones, on any stream of the
    /// device: each launch waits for the previous piece.
    ///
    /// # Errors
    /// - [`Error::OtherDevice`] for a buffer or a stream of another device, and
    ///   [`Error::TooManyElements`] for more than 2^35 of a buffer, or more than 2^48 together, or of
    ///   sums that have the same bits [everywhere](crate::op::Reproducible) 2^35; the elements did not
    ///   come;
    /// - [`Error::OutOfMemory`] while the pool of workspaces grows, and [`Error::Driver`] when the
    ///   launch fails: what came before is lost, and [`Error::Lost`] says so from then on.
    pub fn push(&mut self, stream: &Stream, values: &Buffer<T>) -> Result<()> {
        let code = self.op.code();
        self.carried.require_kept()?;
        self.device().require("stream", stream.device())?;
        self.carried.require_room(&code, values.len() as u64)?;
        let span = Span::of(code, values, self.device())?;
        self.carried.push(stream, span, values.elements(), &mut self.output)
    }

    /// What was made of the pieces until now, as the [cell](warpfold_abi::meeting) of a launch has it;
    /// nothing of none.
    pub(super) fn cell(&self) -> Result<Vec<u8>> {
        self.carried.require_kept()?;
        if self.is_empty() {
            return Ok(Vec::new());
        }
        // It waits for the last piece.
        self.carried.cell(self.output.words()?)
    }

    /// Whose launches it takes.
    pub(super) fn op(&self) -> O {
        self.op
    }

    /// Waits for the pieces until now, and gives their result. More may come behind.
    ///
    /// # Errors
    /// [`Error::Driver`] with what went wrong in a launch or the copy; [`Error::Lost`] behind a launch
    /// that could not be enqueued.
    pub fn result(&self) -> Result<O::Output> {
        self.carried.require_kept()?;
        match O::of_none().filter(|_| self.is_empty()) {
            Some(of_none) => Ok(of_none),
            None => Ok(O::decode(self.output.words()?)),
        }
    }

    /// The result in device memory, of the pieces until now, for what is enqueued behind them on the
    /// stream of the last one, or on another that [waits](Stream::wait_for) for that. Of no pieces there
    /// are zeros.
    ///
    /// # Errors
    /// [`Error::Lost`] behind a launch that could not be enqueued.
    pub fn output(&self) -> Result<&Output<O::Left>> {
        self.carried.require_kept().map(|()| &self.output)
    }
}

/// Whatever elements can be pushed to: a [`Running`] of any operation. The trait is sealed.
pub trait Push<T: Plain>: sealed::Sealed {
    /// As [`Running::push`].
    ///
    /// # Errors
    /// As there.
    fn push(&mut self, stream: &Stream, values: &Buffer<T>) -> Result<()>;

    /// The device whose buffers it takes.
    fn device(&self) -> &Device;

    /// Refuses more elements than it has room for.
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
        self.carried.require_room(&self.op.code(), more)
    }
}

mod sealed {
    /// What elements are pushed to inside of this crate: a piece of a stream changes behind its turn.
    pub trait Sealed {}
}

impl<T: Plain, O: Operation<T>> sealed::Sealed for Running<T, O> {}

impl<T: Plain, O: Operation<T>> fmt::Debug for Running<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut running = f.debug_struct("Running");
        running.field("operation", &self.op.code()).field("len", &self.len()).finish_non_exhaustive()
    }
}
