//! Reductions on a stream, for which the host does not wait.

use super::{Pending, Reducer, plan::OutputMemory as _, pool::slot_bytes};
use crate::{
    Device, Result, Stream,
    input::{Enqueue, Recordable},
    memory::Memory,
};

/// The reductions of a [`Reducer`] on a [`Stream`], from [`Reducer::on`]. They do not wait for results.
///
/// ```
/// use warpfold::{Device, Reducer, Selection, op};
///
/// let device = Device::open(Selection::Sim)?;
/// let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
/// let values = device.upload(&[3.0_f32, -1.0, 7.5])?;
/// let largest = reducer.on(&stream).reduce(op::ArgMax, &values)?;
/// // The host continues meanwhile.
/// let largest = largest.wait()?.expect("there are elements");
/// assert_eq!((largest.index, largest.value), (2, 7.5));
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// The elements and all other resources are kept until the device has finished with them. A later call
/// of the reducer, or its drop, releases them.
#[derive(Debug, Clone, Copy)]
pub struct OnStream<'a> {
    pub(super) reducer: &'a Reducer,
    pub(super) stream: &'a Stream,
}

impl<'a> OnStream<'a> {
    /// Enqueues [`Reducer::reduce`] and returns its pending result.
    ///
    /// # Errors
    /// Those of [`Reducer::reduce`], with these differences:
    /// - [`Error::CountTooLarge`](crate::Error::CountTooLarge) and errors of the running kernel are
    ///   returned by [`Pending::wait`];
    /// - [`Error::View`](crate::Error::View) for more axes than the kernels take, because no copy of the
    ///   view is made first;
    /// - [`Error::OtherDevice`](crate::Error::OtherDevice) for a stream of another device.
    pub fn reduce<O, I: Enqueue<O>>(self, op: O, input: I) -> Result<Pending<I::Output>> {
        self.submit(input.plan(op, self.device()?)?)
    }

    /// Enqueues [`Reducer::reduce`] and writes the result to device memory: an [`Output`](crate::Output)
    /// for a single result, [`Outputs`](crate::Outputs) for several.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
    /// let matrix = device.upload(&[1_i8, 2, 3, 10, 20, 30])?;
    /// let (mut sum, mut largest) = (device.output()?, device.outputs(2)?);
    /// reducer.on(&stream).reduce_into(op::Sum, &matrix, &mut sum)?;
    /// reducer.on(&stream).reduce_into(op::Max, matrix.rows(3)?, &mut largest)?;
    /// assert_eq!((sum.read()?, largest.read()?), (66, vec![3, 30]));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// - Those of [`reduce`](Self::reduce), and [`Error::OtherDevice`](crate::Error::OtherDevice) for an
    ///   output on another device. A count that is too large is no error here, see
    ///   [`Counted`](crate::Counted);
    /// - [`Error::NoElements`](crate::Error::NoElements) for an [`Output`](crate::Output) if there are
    ///   no elements and the result of no elements is not 0;
    /// - [`Error::Rows`](crate::Error::Rows), [`Error::Axis`](crate::Error::Axis),
    ///   [`Error::View`](crate::Error::View), [`Error::Segments`](crate::Error::Segments) or
    ///   [`Error::TopK`](crate::Error::TopK) if the length of [`Outputs`](crate::Outputs) is not the
    ///   number of results.
    pub fn reduce_into<O, I: Enqueue<O>>(self, op: O, input: I, output: &mut I::Left) -> Result<()> {
        self.leave(&input.plan(op, self.device()?)?, output)
    }

    /// Enqueues [`reduce_into`](Self::reduce_into) for a caller that itself keeps all memory until the
    /// device has finished with it, as allocators do that free memory in the order of a stream. That
    /// saves an event per call, on the first 16 streams with which a reducer is called so; each keeps a
    /// workspace until the reducer is dropped. It also works while other code captures the stream into a
    /// graph; kernels are loaded meanwhile if necessary.
    ///
    /// `workspace` must be given if the stream is being captured, and only then: the address of
    /// [`Reducer::workspace_bytes`] bytes of device memory, a multiple of 256. The graph clears what the
    /// reduction uses of it before the reduction.
    ///
    /// # Errors
    /// Those of [`reduce_into`](Self::reduce_into).
    ///
    /// # Safety
    /// - Until the launch has finished, or the last launch of the graph, the input with its offsets, the
    ///   kernels of a user-defined operation, the output, the workspace, the stream and the reducer must
    ///   live.
    /// - Meanwhile nothing writes the elements, and nothing uses the output and the workspace, except
    ///   work that the stream or the graph orders before or after the reduction. [`Output`] and
    ///   [`Outputs`] do not wait for the launch.
    /// - While the stream is being captured, no other thread captures work into the same graph. The
    ///   input was written before, or is written by earlier work of the graph.
    ///
    /// [`Output`]: crate::Output
    /// [`Outputs`]: crate::Outputs
    pub unsafe fn launch_into<O, I: Enqueue<O> + Recordable>(
        self,
        op: O,
        input: I,
        output: &mut I::Left,
        workspace: Option<u64>,
    ) -> Result<()> {
        let (device, core) = (self.device()?, self.reducer.core());
        let plan = input.plan(op, device)?;
        plan.require_room(output.results())?;
        device.require("outputs", output.memory().device())?;
        let address = output.memory().address();
        let Some(workspace) = workspace else {
            let slots = if plan.task.is_empty() { None } else { core.slots_of(self.stream)? };
            let Some(slots) = slots else { return self.leave(&plan, output) };
            output.precede(self.stream)?;
            plan.precede(self.stream)?;
            plan.task.prepare(core.kernels())?;
            // SAFETY: only work of this stream uses the slots, and each launch leaves them zero. The
            // stream is of this device, and the caller keeps elements, output and kernels.
            let launched = unsafe { core.launch_on(self.stream, &*plan.task, slots, address) };
            return launched.inspect_err(|_| {
                // SAFETY: as above. If the clear fails, too, later work of the stream does.
                let _ = unsafe { self.clear_slots(slots, None) };
            });
        };
        device.relax_capture(|| {
            plan.wait_ready()?;
            output.wait_ready()?;
            if plan.task.is_empty() { Ok(()) } else { plan.task.prepare(core.kernels()) }
        })?;
        if plan.task.is_empty() {
            if plan.several.is_none() {
                plan.task.require_zero_of_none()?;
                // SAFETY: the caller keeps the output, and orders its other uses.
                unsafe { output.memory().clear_on(self.stream) }?;
            }
            return Ok(());
        }
        let used = plan.task.used_slot_bytes(core.kernels())?;
        // SAFETY: at most the workspace's slots are cleared. The caller keeps it, and orders its other
        // uses.
        unsafe { self.clear_slots(workspace, used) }?;
        // SAFETY: the slots that the task uses are zero when the launch begins. The stream is of this
        // device, and the caller keeps elements, output and kernels.
        unsafe { core.launch_on(self.stream, &*plan.task, workspace, address) }
    }

    /// Clears the first `used` bytes of a workspace's slots, or all of them.
    ///
    /// # Safety
    /// The slots must live until the clear has finished, and only work of the stream may use them, or of
    /// the graph into which it is captured.
    unsafe fn clear_slots(self, slots: u64, used: Option<u64>) -> Result<()> {
        let device = self.reducer.device();
        let all = slot_bytes(device);
        let bytes = used.map_or(all, |used| used.min(all));
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the slots of a workspace have this size, and live as long as the caller promises.
        let slots = unsafe { Memory::foreign(device, slots, bytes, Box::new(())) };
        // SAFETY: the conditions are those of this function.
        unsafe { slots.clear_on(self.stream) }
    }

    /// Returns the device, after a check that the stream belongs to it.
    pub(super) fn device(self) -> Result<&'a Device> {
        let device = self.reducer.device();
        device.require("stream", self.stream.device())?;
        Ok(device)
    }
}
