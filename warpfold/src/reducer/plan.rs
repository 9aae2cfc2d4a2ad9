//! A call of the library: an operation and an [`Input`] make a [`Plan`], which a reducer runs, enqueues
//! or records.

use std::{any::Any, convert::Infallible, mem, sync::Arc};

use warpfold_abi::reducer::OUTPUT_BYTES;

pub(super) use output_memory::OutputMemory;

use super::{HostResults, Inputs, OnStream, Pending, Reducer, Span, Task, many::ManyJob};
use crate::{
    Axis, Buffer, Count, Counted, Device, Element, Error, Filtered, Located, Outcome, Output, Outputs,
    Plain, Result, Rows, Segments, Stream, Within,
    element::sealed::Outcome as _,
    memory::Memory,
    names::PairOp,
    op::{Everywhere, Operation, Operations, PairOperation, RowsOperation, Sum, TopK, kind, sealed},
    pairs::PairsJob,
    segments::Offsets,
    stream::{Event, LastWrite},
    top::TopJob,
    view::Along,
    within::WithinJob,
};

/// An input of [`Reducer::reduce`]: elements in device memory, in a shape that determines the results.
///
/// | input | made by | operations | result |
/// |---|---|---|---|
/// | `&Buffer` | [`Device::upload`] | [`Operation`], [tuples](Operations), [`TopK`] | one, a tuple, k |
/// | [`Counted`] | [`Buffer::counted`] | [`Operation`], [tuples](Operations) | one, a tuple |
/// | [`Filtered`] | [`Buffer::filter`] | [`Sum`], `Everywhere(Sum)` | one [`Within`] |
/// | `(&Buffer, &Buffer)` | | [`PairOperation`] | one |
/// | [`Rows`] | [`Buffer::rows`] | [`RowsOperation`], [`TopK`] | one or k for each row |
/// | [`Axis`] | [`Buffer::axis`], [`Buffer::columns`] | [`RowsOperation`] | one for each kept position |
/// | [`Along`] | [`View::along`](crate::View::along) | [`RowsOperation`] | one for each kept position |
/// | `&Segments` | [`Reducer::segments`] | [`RowsOperation`] | one for each segment |
///
/// A [`RowsOperation`] is every [`Operation`] but [`WrappingSum`](crate::op::WrappingSum). [`Rows`],
/// [`Axis`], [`Along`] and [`Filtered`] are accepted by value and by reference. The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{O}` does not reduce `{Self}`",
    note = "`&Buffer` and `Counted`: any operation or tuple; `Rows`, `Axis`, `Along`, `&Segments`: any \
            operation but `WrappingSum`; `&Buffer` and `Rows`: `Largest` and `Smallest`; `(&a, &b)`: \
            `Dot` and `SquaredDistance`; `Filtered`: `Sum` and `Everywhere(Sum)`"
)]
pub trait Input<O>: Sized {
    /// The result on the host.
    type Output;
    /// The result in device memory: an [`Output`] for one, [`Outputs`] for several. Tuples have none:
    /// theirs is [`Infallible`].
    type Left: DeviceOutput;

    /// Checks operation and input, and chooses the kernels.
    #[doc(hidden)]
    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
    where
        Self: 'p;

    /// Reduces and waits for the result.
    #[doc(hidden)]
    fn reduce(self, op: O, reducer: &Reducer) -> Result<Self::Output> {
        reducer.run(self.plan(op, reducer.device())?)
    }
}

/// An input whose number of elements does not change, so that a [`Recorder`](super::Recorder) takes it:
/// every [`Input`] but [`Counted`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be recorded",
    note = "every other input can; reduce a counted buffer on a stream"
)]
pub trait Recordable {}

/// Device memory for results: [`Output`] or [`Outputs`]. The trait is sealed.
pub trait DeviceOutput: OutputMemory {}

mod output_memory {
    use super::{Any, Arc, Event, Memory, Result, Stream};

    /// Device memory for results, as launches use it.
    pub trait OutputMemory: Any + Send + Sync {
        /// Returns the number of results.
        fn results(&self) -> usize;
        /// Makes a stream wait for earlier writes and reads of the memory.
        fn precede(&self, stream: &Stream) -> Result<()>;
        /// Waits for earlier writes and reads.
        fn wait_ready(&self) -> Result<()>;
        /// Returns the memory itself.
        fn memory(&self) -> &Arc<Memory>;
        /// Records the event after which the last enqueued write has finished.
        fn written_until(&mut self, end: Arc<Event>);
    }
}

/// Tuples have no output in device memory; this type has no values.
impl DeviceOutput for Infallible {}

impl OutputMemory for Infallible {
    fn results(&self) -> usize {
        match *self {}
    }

    fn precede(&self, _: &Stream) -> Result<()> {
        match *self {}
    }

    fn wait_ready(&self) -> Result<()> {
        match *self {}
    }

    fn memory(&self) -> &Arc<Memory> {
        match *self {}
    }

    fn written_until(&mut self, _: Arc<Event>) {
        match *self {}
    }
}

macro_rules! device_outputs {
    ($($Output:ident: |$output:ident| $results:expr;)*) => {$(
        impl<R: Outcome> DeviceOutput for $Output<R> {}

        impl<R: Outcome> OutputMemory for $Output<R> {
            fn results(&self) -> usize {
                let $output = self;
                $results
            }

            fn precede(&self, stream: &Stream) -> Result<()> {
                self.precede(stream)
            }

            fn wait_ready(&self) -> Result<()> {
                self.settle()
            }

            fn memory(&self) -> &Arc<Memory> {
                self.memory()
            }

            fn written_until(&mut self, end: Arc<Event>) {
                self.written_until(end);
            }
        }
    )*};
}

device_outputs! {
    Output: |_output| 1;
    Outputs: |outputs| outputs.len();
}

/// A reduction that is ready to be launched.
pub struct Plan<'p, R> {
    pub(super) task: Task,
    /// The buffers with the elements: one, or two of pairs.
    buffers: [Option<Elements<'p>>; 2],
    pub(super) offsets: Option<&'p Arc<Offsets>>,
    /// The number of elements to take, if device memory holds it.
    pub(super) count: Option<&'p Count<'p>>,
    /// Elements of a buffer.
    len: u64,
    /// Reads the result where kernels have written it in host memory.
    pub(super) decode: fn(HostResults<'_>) -> R,
    /// The result, if it is known without a launch.
    pub(super) empty: Option<R>,
    pub(super) several: Option<Several<R>>,
}

/// Copies a number of results from an address of a device; unsafe as that reads its memory.
pub(super) type CopyOut<R> = unsafe fn(&Device, u64, usize) -> Result<R>;

/// The number and the layout of results, where there may be more than one.
pub(super) struct Several<R> {
    pub(super) count: usize,
    /// The bytes of each result.
    pub(super) bytes: u64,
    /// Copies them from device memory; `None` if kernels write them to host memory.
    copy: Option<CopyOut<R>>,
    /// Their name in errors, and the error.
    what: (&'static str, fn(String) -> Error),
}

impl<R> Several<R> {
    /// Bytes of device memory that they take: those of [`Outputs::bytes_of`].
    pub(super) fn all_bytes(&self) -> u64 {
        (self.count as u64).saturating_mul(self.bytes).max(OUTPUT_BYTES)
    }
}

/// A buffer's memory, and what writes it.
#[derive(Clone, Copy)]
pub(crate) struct Elements<'p> {
    pub(crate) memory: &'p Arc<Memory>,
    pub(crate) written: &'p LastWrite,
}

impl<'p, R> Plan<'p, R> {
    /// Plans a task that has a single result.
    fn of_one<T: Plain>(
        task: Task,
        values: &'p Buffer<T>,
        decode: fn(HostResults<'_>) -> R,
        of_none: impl FnOnce() -> Option<R>,
    ) -> Self {
        let empty = if task.is_empty() { of_none() } else { None };
        let (buffers, len) = ([Some(values.elements()), None], values.len() as u64);
        Self { task, buffers, offsets: None, count: None, len, decode, empty, several: None }
    }

    /// Plans a task on pairs, whose result is zero of no pairs.
    pub(super) fn of_pairs<T: Element>(
        op: PairOp,
        [a, b]: [&'p Buffer<T>; 2],
        device: &Device,
    ) -> Result<Self>
    where
        R: Plain,
    {
        let task = Task::Pairs(PairsJob::of(op, [a, b], device)?);
        let decode: fn(HostResults<'_>) -> R = |results| match results.is_of_none() {
            true => R::zeroed(),
            false => R::from_words(results.get(0)),
        };
        let plan = Self::of_one(task, a, decode, || Some(R::zeroed()));
        Ok(Self { buffers: [Some(a.elements()), Some(b.elements())], ..plan })
    }

    /// Plans a task on the elements of an interval. `none` makes the result of no elements.
    pub(super) fn of_interval<T: Element>(
        job: WithinJob,
        values: &'p Buffer<T>,
        decode: fn(HostResults<'_>) -> R,
        none: fn() -> R,
    ) -> Self {
        Self::of_one(Task::Within(job), values, decode, || Some(none()))
    }

    /// Whether the result is that of no elements.
    pub(super) fn is_of_none(&self) -> bool {
        self.len == 0 || self.task.is_empty()
    }

    /// Waits until the elements are there.
    pub(super) fn wait_ready(&self) -> Result<()> {
        self.buffers.iter().flatten().try_for_each(|elements| elements.written.settle())
    }

    /// Makes a stream wait until the elements are there.
    fn precede(&self, stream: &Stream) -> Result<()> {
        self.buffers.iter().flatten().try_for_each(|elements| elements.written.precede(stream))
    }

    /// The memory of the buffers.
    pub(super) fn memories(&self) -> [Option<&'p Arc<Memory>>; 2] {
        self.buffers.map(|elements| elements.map(|elements| elements.memory))
    }

    fn inputs(&self) -> Inputs<'_> {
        let [first, second] = self.memories();
        let first = first.expect("a plan has a buffer");
        let (offsets, count) = (self.offsets, self.count);
        Inputs { second, offsets, count, ..Inputs::of(&self.task, first) }
    }

    /// Refuses outputs for more or fewer results.
    pub(super) fn require_room(&self, results: usize) -> Result<()> {
        let Some(Several { count, what: (what, refused), .. }) = self.several else { return Ok(()) };
        if results == count {
            return Ok(());
        }
        Err(refused(format!(
            "outputs for {results} results and {count} {what}; make outputs for {count}"
        )))
    }
}

impl<'p, R: Outcome> Plan<'p, Vec<R>> {
    /// Plans a task that has `count` results in device memory.
    pub(super) fn of_several<T: Plain>(
        task: Task,
        values: &'p Buffer<T>,
        count: usize,
        what: (&'static str, fn(String) -> Error),
    ) -> Self {
        let plan = Self::of_one(task, values, |results| results.each(), || Some(Vec::new()));
        let several = Several { count, bytes: R::BYTES, copy: Some(R::copy_out), what };
        Self { several: Some(several), ..plan }
    }

    /// Plans the search for the first elements.
    fn of_top<T: Plain>(job: TopJob, values: &'p Buffer<T>) -> Self {
        let what = ("elements to find", (|reason| Error::TopK { reason }) as fn(String) -> Error);
        Self::of_several(Task::Top(job.clone()), values, job.count(), what)
    }
}

impl Reducer {
    /// Runs a plan, and waits for its result.
    pub(crate) fn run<R>(&self, plan: Plan<'_, R>) -> Result<R> {
        if let Some(empty) = plan.empty {
            return Ok(empty);
        }
        if plan.count.is_some() {
            let stream = self.device().stream()?;
            return self.on(&stream).submit(plan)?.wait();
        }
        plan.wait_ready()?;
        let core = self.core();
        core.sweep();
        let device = self.device();
        let copied = plan.several.as_ref().and_then(|several| Some((several, several.copy?)));
        let memory = copied.map(|(several, _)| Memory::new(device, several.all_bytes()));
        let outputs = memory.transpose()?.map(Arc::new);
        let keep = || {
            let memories = (plan.memories().map(Option::<&_>::cloned), plan.offsets.cloned());
            mem::forget((core.clone(), plan.task.kept_codes(), memories, outputs.clone()));
        };
        let (Some((several, copy)), Some(outputs)) = (&copied, &outputs) else {
            let of_none = plan.is_of_none();
            let read = |results: HostResults<'_>| (plan.decode)(results.of_none_if(of_none));
            // SAFETY: the plan borrows the buffers until this returns, and `keep` leaks them if the
            // kernel may still run then.
            let reduced = unsafe { core.reduce(&plan.task, read) };
            return reduced.map_err(|failed| failed.or_keep(keep));
        };
        // SAFETY: as above, for the offsets too; the outputs have room for every result.
        let reduced = unsafe { core.reduce_into(&plan.task, outputs.address()) };
        reduced.map_err(|failed| failed.or_keep(keep))?;
        // SAFETY: the kernel that wrote the results has finished, and `outputs` outlives the copy, which
        // is waited for.
        unsafe { copy(device, outputs.address(), several.count) }
    }
}

impl OnStream<'_> {
    /// Enqueues a plan whose result comes to the host.
    pub(super) fn submit<R>(self, plan: Plan<'_, R>) -> Result<Pending<R>> {
        if let Some(empty) = plan.empty {
            return Ok(Pending::ready(empty));
        }
        plan.precede(self.stream)?;
        let core = self.reducer.core();
        core.sweep();
        let Some((several, copy)) =
            plan.several.as_ref().and_then(|several| Some((several, several.copy?)))
        else {
            // SAFETY: the stream belongs to the device. Buffers are never written once their elements
            // are there, and `Underway` keeps them until the kernel has finished. A count that is an
            // `Output` is borrowed here; whatever writes it next waits for this launch.
            let underway = unsafe { core.enqueue(self.stream, plan.inputs(), None) }?;
            return Ok(Pending::running(core, underway, plan.decode, plan.len));
        };
        let outputs = Arc::new(Memory::new(self.reducer.device(), several.all_bytes())?);
        // SAFETY: as above, for the offsets too; the outputs are new and have room for every result.
        let underway = unsafe { core.enqueue(self.stream, plan.inputs(), Some(&outputs)) }?;
        Ok(Pending::copied(core, underway, (outputs, several.count, copy)))
    }

    /// Enqueues a plan whose results stay in device memory.
    pub(super) fn leave<R>(self, plan: &Plan<'_, R>, output: &mut impl DeviceOutput) -> Result<()> {
        plan.require_room(output.results())?;
        // Earlier writes of the output on another stream come first.
        output.precede(self.stream)?;
        if plan.several.is_some() && plan.task.is_empty() {
            return Ok(());
        }
        plan.precede(self.stream)?;
        let core = self.reducer.core();
        core.sweep();
        let underway = if !plan.task.is_empty() {
            // SAFETY: the stream belongs to the device. Buffers and offsets are never written once they
            // are there. The output is borrowed mutably, so it is not the count; it has room for all
            // results, and its earlier uses precede this launch.
            unsafe { core.enqueue(self.stream, plan.inputs(), Some(output.memory())) }?
        } else {
            plan.task.require_zero_of_none()?;
            // SAFETY: as above. Zero bytes are the zero of every type.
            unsafe { core.enqueue_zero(self.stream, output.memory()) }?
        };
        output.written_until(Arc::clone(underway.end()));
        core.detach(underway);
        Ok(())
    }
}

/// How operations of a kind reduce a buffer's elements.
#[diagnostic::on_unimplemented(
    message = "`{O}` does not reduce a buffer of `{T}`",
    note = "`Dot` and `SquaredDistance` take a pair of buffers: `reduce(op, (&a, &b))`"
)]
pub trait ReduceElements<O, T: Plain> {
    /// The same as [`Input::Output`].
    type Output;
    /// The same as [`Input::Left`].
    type Left: DeviceOutput;

    /// Plans the reduction of all elements, or of as many as a count says.
    fn plan<'p>(
        op: O,
        values: &'p Buffer<T>,
        count: Option<&'p Count<'p>>,
        device: &Device,
    ) -> Result<Plan<'p, Self::Output>>;
}

impl<T: Plain, O: Operation<T>> ReduceElements<O, T> for kind::Single {
    type Output = O::Output;
    type Left = Output<O::Left>;

    fn plan<'p>(
        op: O,
        values: &'p Buffer<T>,
        count: Option<&'p Count<'p>>,
        device: &Device,
    ) -> Result<Plan<'p, O::Output>> {
        let task = Task::of(Span::of(op.code(), values, device)?, count.map(Count::at));
        let plan = Plan::of_one(task, values, |results| results.result::<T, O>(0), O::of_none);
        Ok(Plan { count, ..plan })
    }
}

impl<T: Plain, O: Operations<T>> ReduceElements<O, T> for kind::Together {
    type Output = O::Output;
    type Left = Infallible;

    fn plan<'p>(
        op: O,
        values: &'p Buffer<T>,
        count: Option<&'p Count<'p>>,
        device: &Device,
    ) -> Result<Plan<'p, O::Output>> {
        let task = Task::Many(ManyJob::of(&op.codes(), values, count.map(Count::at), device)?);
        Ok(Plan { count, ..Plan::of_one(task, values, O::decode, O::of_none) })
    }
}

impl<T: Element, O: TopK> ReduceElements<O, T> for kind::Top {
    type Output = Vec<Located<T>>;
    type Left = Outputs<Located<T>>;

    fn plan<'p>(
        op: O,
        values: &'p Buffer<T>,
        _count: Option<&'p Count<'p>>,
        device: &Device,
    ) -> Result<Plan<'p, Self::Output>> {
        let mut plan = Plan::of_top(TopJob::of_buffer(op, values, device)?, values);
        if let Some(several) = &mut plan.several {
            // So few fit into the host memory that kernels write.
            several.copy = None;
        }
        Ok(plan)
    }
}

/// How operations of a kind reduce rows.
#[diagnostic::on_unimplemented(
    message = "`{O}` does not reduce rows of `{T}`",
    note = "any operation of one result but `WrappingSum` does, and `Largest` and `Smallest`"
)]
pub trait ReduceRows<O, T: Plain> {
    /// One result of a row, or one of k.
    type Result: Outcome;

    /// Plans the reduction of all rows.
    fn plan<'p>(op: O, rows: Rows<'p, T>, device: &Device) -> Result<Plan<'p, Vec<Self::Result>>>;
}

impl<T: Plain, O: RowsOperation<T>> ReduceRows<O, T> for kind::Single {
    type Result = O::Left;

    fn plan<'p>(op: O, rows: Rows<'p, T>, device: &Device) -> Result<Plan<'p, Vec<O::Left>>> {
        let task = Task::of_rows(rows.job(op.code(), device)?);
        let what = ("rows", (|reason| Error::Rows { reason }) as fn(String) -> Error);
        Ok(Plan::of_several(task, rows.buffer(), rows.count(), what))
    }
}

impl<T: Element, O: TopK> ReduceRows<O, T> for kind::Top {
    type Result = Located<T>;

    fn plan<'p>(op: O, rows: Rows<'p, T>, device: &Device) -> Result<Plan<'p, Vec<Located<T>>>> {
        Ok(Plan::of_top(TopJob::of_rows(op, &rows, device)?, rows.buffer()))
    }
}

impl<T: Plain, O: sealed::Sealed<Kind: ReduceElements<O, T>>> Input<O> for &Buffer<T> {
    type Output = <O::Kind as ReduceElements<O, T>>::Output;
    type Left = <O::Kind as ReduceElements<O, T>>::Left;

    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
    where
        Self: 'p,
    {
        O::Kind::plan(op, self, None, device)
    }
}

impl<T: Plain, O: sealed::Sealed<Kind: ReduceElements<O, T> + Countable>> Input<O> for Counted<'_, T> {
    type Output = <O::Kind as ReduceElements<O, T>>::Output;
    type Left = <O::Kind as ReduceElements<O, T>>::Left;

    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
    where
        Self: 'p,
    {
        device.require("count", self.count.device())?;
        O::Kind::plan(op, self.buffer, Some(self.count), device)
    }
}

/// Kinds of operations that take as many elements as a count says.
pub trait Countable {}

impl Countable for kind::Single {}
impl Countable for kind::Together {}

impl<T: Element, O: PairOperation> Input<O> for (&Buffer<T>, &Buffer<T>) {
    type Output = T::Sum;
    type Left = Output<T::Sum>;

    fn plan<'p>(self, _op: O, device: &Device) -> Result<Plan<'p, T::Sum>>
    where
        Self: 'p,
    {
        Plan::of_pairs(O::op(T::DTYPE), [self.0, self.1], device)
    }
}

macro_rules! filtered {
    ($([$($O:tt)*] $op:ident => $which:expr;)*) => {$(
        impl<T: Element> Input<$($O)*> for Filtered<'_, T> {
            type Output = Within<T::Sum>;
            type Left = Output<Within<T::Sum>>;

            fn plan<'p>(self, _op: $($O)*, device: &Device) -> Result<Plan<'p, Self::Output>>
            where
                Self: 'p,
            {
                let $op = crate::names::WithinOp::Sum;
                let job = WithinJob::of($which, self.bounds, self.values, device)?;
                let decode: fn(HostResults<'_>) -> Self::Output = |results| match results.is_of_none() {
                    true => Within::none(),
                    false => Within::from_words(results.get(0)),
                };
                Ok(Plan::of_interval(job, self.values, decode, Within::none))
            }
        }
    )*};
}

filtered! {
    [Sum] op => op;
    [Everywhere<Sum>] op => op.everywhere(T::DTYPE);
}

impl<T: Plain, O: sealed::Sealed<Kind: ReduceRows<O, T>>> Input<O> for Rows<'_, T> {
    type Output = Vec<<O::Kind as ReduceRows<O, T>>::Result>;
    type Left = Outputs<<O::Kind as ReduceRows<O, T>>::Result>;

    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
    where
        Self: 'p,
    {
        O::Kind::plan(op, self, device)
    }
}

impl<T: Plain, O: RowsOperation<T>> Input<O> for Axis<'_, T> {
    type Output = Vec<O::Left>;
    type Left = Outputs<O::Left>;

    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
    where
        Self: 'p,
    {
        let task = Task::of_axis(self.job(op.code(), device)?);
        let what = ("results of an axis", (|reason| Error::Axis { reason }) as fn(String) -> Error);
        Ok(Plan::of_several(task, self.buffer(), self.count(), what))
    }
}

impl<T: Plain, O: RowsOperation<T>> Input<O> for Along<'_, T> {
    type Output = Vec<O::Left>;
    type Left = Outputs<O::Left>;

    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
    where
        Self: 'p,
    {
        let task = self.task(op.code(), device)?;
        let what = ("results of a view", (|reason| Error::View { reason }) as fn(String) -> Error);
        Ok(Plan::of_several(task, self.buffer(), self.count(), what))
    }

    fn reduce(self, op: O, reducer: &Reducer) -> Result<Self::Output> {
        match reducer.gathered_rows(&self, &op.code())? {
            Some(rows) => reducer.reduce(op, rows.rows(rows.len() / self.count())?),
            None => reducer.run(self.plan(op, reducer.device())?),
        }
    }
}

impl<T: Plain, O: RowsOperation<T>> Input<O> for &Segments<T> {
    type Output = Vec<O::Left>;
    type Left = Outputs<O::Left>;

    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
    where
        Self: 'p,
    {
        device.require("buffer", self.buffer().device())?;
        let code = op.code();
        code.require_device(device)?;
        let task = Task::of_segments(self.job(code));
        let what = ("segments", (|reason| Error::Segments { reason }) as fn(String) -> Error);
        let plan = Plan::of_several(task, self.buffer(), self.count(), what);
        Ok(Plan { offsets: Some(self.offsets()), ..plan })
    }
}

macro_rules! by_reference {
    ($($Shape:ident)*) => {$(
        impl<'a, T: Plain, O> Input<O> for &$Shape<'a, T>
        where
            $Shape<'a, T>: Input<O>,
        {
            type Output = <$Shape<'a, T> as Input<O>>::Output;
            type Left = <$Shape<'a, T> as Input<O>>::Left;

            fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
            where
                Self: 'p,
            {
                (*self).plan(op, device)
            }

            fn reduce(self, op: O, reducer: &Reducer) -> Result<Self::Output> {
                (*self).reduce(op, reducer)
            }
        }

        impl<T> Recordable for $Shape<'_, T> {}
        impl<T> Recordable for &$Shape<'_, T> {}
    )*};
}

by_reference!(Rows Axis Along Filtered);

impl<T> Recordable for &Buffer<T> {}
impl<T> Recordable for (&Buffer<T>, &Buffer<T>) {}
impl<T> Recordable for &Segments<T> {}
