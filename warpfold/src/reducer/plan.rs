//! Plans: an operation and an [`Input`](crate::Input) make a [`Plan`], which a reducer runs, enqueues or
//! records.

use std::{any::Any, convert::Infallible, mem, sync::Arc};

pub(super) use output_memory::OutputMemory;

use super::{HostResults, Inputs, Layout, OnStream, Pending, Reducer, RowResults};
use crate::{
    Buffer, Count, Device, Element, Error, Outcome, Output, Outputs, Plain, Result, Stream,
    element::sealed::Outcome as _,
    input::{AnyTask, filtered::WithinTask, pairs::PairsTask, segments::Offsets, top::TopTask},
    memory::Memory,
    names::PairOp,
    op::Operations,
    stream::{Event, LastWrite},
};

/// Device memory for results: [`Output`] or [`Outputs`]. The trait is sealed.
pub trait DeviceOutput: OutputMemory {}

mod output_memory {
    use super::{Any, Arc, Event, Memory, Result, Stream};

    pub trait OutputMemory: Any + Send + Sync {
        fn results(&self) -> usize;
        /// Makes a stream wait for earlier writes and reads of the memory.
        fn precede(&self, stream: &Stream) -> Result<()>;
        /// Waits for earlier writes and reads.
        fn wait_ready(&self) -> Result<()>;
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
                self.wait_ready()
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

/// A reduction whose input and operation were checked.
pub struct Plan<'p, R> {
    pub(crate) task: AnyTask,
    /// One buffer, or the two buffers of pairs.
    buffers: [Option<Elements<'p>>; 2],
    pub(crate) offsets: Option<&'p Arc<Offsets>>,
    pub(crate) count: Option<&'p Count<'p>>,
    len: u64,
    pub(crate) decode: fn(HostResults<'_>) -> R,
    /// The result if no launch is needed.
    pub(crate) empty: Option<R>,
    pub(crate) several: Option<Several<R>>,
}

/// A function that copies results from an address of a device. The caller must ensure that they are
/// readable there.
pub(crate) type CopyOut<R> = unsafe fn(&Device, u64, Layout) -> Result<R>;

/// The number and layout of the results of an input that may have several results.
pub(crate) struct Several<R> {
    pub(crate) layout: Layout,
    /// The bytes of memory for all results.
    pub(crate) bytes: u64,
    /// Copies the results from device memory; `None` if kernels write them to host memory.
    pub(crate) copy: Option<CopyOut<R>>,
    /// For errors about the number of outputs: the name of the results, and the error's constructor.
    what: (&'static str, fn(String) -> Error),
}

#[derive(Clone, Copy)]
pub(crate) struct Elements<'p> {
    pub(crate) memory: &'p Arc<Memory>,
    pub(crate) written: &'p LastWrite,
}

impl<'p, R> Plan<'p, R> {
    pub(crate) fn of_one<T: Plain>(
        task: AnyTask,
        values: &'p Buffer<T>,
        decode: fn(HostResults<'_>) -> R,
        of_none: impl FnOnce() -> Option<R>,
    ) -> Self {
        let empty = if task.is_empty() { of_none() } else { None };
        let (buffers, len) = ([Some(values.elements()), None], values.len() as u64);
        Self { task, buffers, offsets: None, count: None, len, decode, empty, several: None }
    }

    pub(crate) fn counted(self, count: Option<&'p Count<'p>>) -> Self {
        Self { count, ..self }
    }

    pub(crate) fn between(self, offsets: &'p Arc<Offsets>) -> Self {
        Self { offsets: Some(offsets), ..self }
    }

    pub(crate) fn of_pairs<T: Element>(
        op: PairOp,
        [a, b]: [&'p Buffer<T>; 2],
        device: &Device,
    ) -> Result<Self>
    where
        R: Plain,
    {
        let task = AnyTask::Pairs(PairsTask::of(op, [a, b], device)?);
        let decode: fn(HostResults<'_>) -> R = |results| match results.is_of_none() {
            true => R::zeroed(),
            false => R::from_words(results.get(0)),
        };
        let plan = Self::of_one(task, a, decode, || Some(R::zeroed()));
        Ok(Self { buffers: [Some(a.elements()), Some(b.elements())], ..plan })
    }

    pub(crate) fn of_interval<T: Element>(
        task: WithinTask,
        values: &'p Buffer<T>,
        decode: fn(HostResults<'_>) -> R,
        none: fn() -> R,
    ) -> Self {
        Self::of_one(AnyTask::Within(task), values, decode, || Some(none()))
    }

    /// Returns the number of elements that the task reduces.
    pub(crate) fn elements(&self) -> u64 {
        if self.task.is_empty() { 0 } else { self.len }
    }

    pub(crate) fn wait_ready(&self) -> Result<()> {
        self.buffers.iter().flatten().try_for_each(|elements| elements.written.wait_ready())
    }

    pub(super) fn precede(&self, stream: &Stream) -> Result<()> {
        self.buffers.iter().flatten().try_for_each(|elements| elements.written.precede(stream))
    }

    /// Returns the results, and the function that copies them, if kernels write them to device memory.
    fn copied(&self) -> Option<(&Several<R>, CopyOut<R>)> {
        self.several.as_ref().and_then(|several| Some((several, several.copy?)))
    }

    pub(crate) fn memories(&self) -> [Option<&'p Arc<Memory>>; 2] {
        self.buffers.map(|elements| elements.map(|elements| elements.memory))
    }

    fn inputs(&self) -> Inputs<'_> {
        let [first, second] = self.memories();
        let first = first.expect("a plan has a buffer");
        let (offsets, count) = (self.offsets, self.count);
        Inputs { second, offsets, count, ..Inputs::of(&*self.task, first) }
    }

    pub(crate) fn require_room(&self, results: usize) -> Result<()> {
        let Some(Several { layout, what: (what, refused), .. }) = self.several else { return Ok(()) };
        let count = layout.count();
        if results == count {
            return Ok(());
        }
        Err(refused(format!(
            "the outputs have room for {results} results, but there are {count} {what}; make outputs \
             for {count}"
        )))
    }
}

impl<'p, R> Plan<'p, R> {
    /// Returns the plan of several operations on rows of a buffer.
    pub(crate) fn of_rows<T: Plain, O: Operations<T, Rows = R>>(
        task: AnyTask,
        values: &'p Buffer<T>,
        what: (&'static str, fn(String) -> Error),
    ) -> Self {
        let layout = task.layout();
        let decode: fn(HostResults<'_>) -> R = |results| O::decode_rows(&results.of_rows());
        let of_none = || Some(O::decode_rows(&RowResults::new(layout, Vec::new())));
        let plan = Self::of_one(task, values, decode, of_none);
        let bytes = (layout.words() * size_of::<u64>()) as u64;
        let several = Several { layout, bytes, copy: Some(copy_rows::<T, O>), what };
        Self { several: Some(several), ..plan }
    }
}

/// # Safety
/// Same as [`CopyOut`].
unsafe fn copy_rows<T: Plain, O: Operations<T>>(
    device: &Device,
    address: u64,
    layout: Layout,
) -> Result<O::Rows> {
    let written = layout.written().map(|(first, bytes)| {
        let first = address + (first * size_of::<u64>()) as u64;
        // SAFETY: the results are readable, as the caller guarantees.
        unsafe { device.copy_out(first, bytes) }
    });
    Ok(O::decode_rows(&RowResults::new(layout, written.collect::<Result<_>>()?)))
}

impl<'p, R: Outcome> Plan<'p, Vec<R>> {
    pub(crate) fn of_several<T: Plain>(
        task: AnyTask,
        values: &'p Buffer<T>,
        count: usize,
        what: (&'static str, fn(String) -> Error),
    ) -> Self {
        let decode: fn(HostResults<'_>) -> Vec<R> = |results| results.of_rows().each(0);
        let plan = Self::of_one(task, values, decode, || Some(Vec::new()));
        let layout = Layout::of_pieces(count, R::BYTES as usize);
        let several =
            Several { layout, bytes: Outputs::<R>::bytes_of(count), copy: Some(copy_out), what };
        Self { several: Some(several), ..plan }
    }

    pub(crate) fn of_top<T: Plain>(task: TopTask, values: &'p Buffer<T>) -> Self {
        let what = ("elements to find", (|reason| Error::TopK { reason }) as fn(String) -> Error);
        let count = task.count();
        Self::of_several(AnyTask::Top(task), values, count, what)
    }
}

/// # Safety
/// Same as [`CopyOut`].
unsafe fn copy_out<R: Outcome>(device: &Device, address: u64, layout: Layout) -> Result<Vec<R>> {
    // SAFETY: the results are readable, as the caller guarantees.
    unsafe { R::copy_out(device, address, layout.count()) }
}

impl Reducer {
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
        core.reclaim_finished();
        let device = self.device();
        let copied = plan.copied();
        let memory = copied.map(|(several, _)| Memory::new(device, several.bytes));
        let outputs = memory.transpose()?.map(Arc::new);
        let keep = || {
            let memories = (plan.memories().map(Option::<&_>::cloned), plan.offsets.cloned());
            mem::forget((core.clone(), plan.task.kept_codes(), memories, outputs.clone()));
        };
        let (Some((several, copy)), Some(outputs)) = (&copied, &outputs) else {
            let elements = plan.elements();
            let read = |results: HostResults<'_>| (plan.decode)(results.of_elements(elements));
            // SAFETY: the plan borrows the buffers until this returns, and `keep` leaks them if the
            // kernel may still run then.
            let reduced = unsafe { core.reduce(&*plan.task, read) };
            return reduced.map_err(|failed| failed.or_keep(keep));
        };
        // SAFETY: the plan borrows the buffers and offsets until this returns, and `keep` leaks them if
        // the kernel may still run then. The outputs have room for every result.
        let reduced = unsafe { core.reduce_into(&*plan.task, outputs.address()) };
        reduced.map_err(|failed| failed.or_keep(keep))?;
        // SAFETY: the kernel that wrote the results has finished, and `outputs` outlives the copy, which
        // is waited for.
        unsafe { copy(device, outputs.address(), several.layout) }
    }
}

impl OnStream<'_> {
    /// Enqueues a plan whose result is copied to the host.
    pub(crate) fn submit<R>(self, plan: Plan<'_, R>) -> Result<Pending<R>> {
        if let Some(empty) = plan.empty {
            return Ok(Pending::ready(empty));
        }
        plan.precede(self.stream)?;
        let core = self.reducer.core();
        core.reclaim_finished();
        let Some((several, copy)) = plan.copied() else {
            // SAFETY: the stream belongs to the device. Buffers are never written again once they have
            // elements, and `InFlight` keeps them until the kernel has finished. A count that is an
            // `Output` is borrowed here; its next write waits for this launch.
            let in_flight = unsafe { core.enqueue(self.stream, plan.inputs(), None) }?;
            return Ok(Pending::running(core, in_flight, plan.decode, plan.len));
        };
        let outputs = Arc::new(Memory::new(self.reducer.device(), several.bytes)?);
        // SAFETY: the stream belongs to the device. Buffers and offsets are never written again once
        // they have elements, and `InFlight` keeps them until the kernel has finished. The new outputs
        // have room for the results. A counted buffer never has several.
        let in_flight = unsafe { core.enqueue(self.stream, plan.inputs(), Some(&outputs)) }?;
        Ok(Pending::copied(core, in_flight, (outputs, several.layout, copy)))
    }

    /// Enqueues a plan whose results stay in device memory.
    pub(crate) fn leave<R>(self, plan: &Plan<'_, R>, output: &mut impl DeviceOutput) -> Result<()> {
        plan.require_room(output.results())?;
        // Earlier writes of the output may be on another stream.
        output.precede(self.stream)?;
        if plan.several.is_some() && plan.task.is_empty() {
            return Ok(());
        }
        plan.precede(self.stream)?;
        let core = self.reducer.core();
        core.reclaim_finished();
        let in_flight = if !plan.task.is_empty() {
            // SAFETY: the stream belongs to the device. Buffers and offsets are never written again once
            // they have elements. The output is borrowed mutably, so it is not the count; it has room
            // for all results, and its earlier uses precede this launch.
            unsafe { core.enqueue(self.stream, plan.inputs(), Some(output.memory())) }?
        } else {
            plan.task.require_zero_of_none()?;
            // SAFETY: the stream belongs to the device, and earlier uses of the output precede the
            // clear. Zero bytes are the zero of every type.
            unsafe { core.enqueue_zero(self.stream, output.memory()) }?
        };
        output.written_until(Arc::clone(in_flight.end()));
        core.detach(in_flight);
        Ok(())
    }
}
