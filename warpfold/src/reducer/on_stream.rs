//! Reductions on a stream, which the host does not wait for.

use std::sync::Arc;

use super::{Code, HostResults, Inputs, Pending, Reducer, Span, Task};
use crate::{
    Buffer, Count, Device, Element, Error, Integer, Located, Output, Plain, Result, Stream,
    op::{self, Operation},
};

/// The reductions of a [`Reducer`] on a [`Stream`], from [`Reducer::on`]. Each returns at once.
///
/// ```
/// use warpfold::{Device, Reducer, Selection};
///
/// let device = Device::open(Selection::Sim)?;
/// let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
/// let values = device.upload(&[3.0_f32, -1.0, 7.5])?;
/// let largest = reducer.on(&stream).arg_max(&values)?;
/// // Meanwhile the host goes on.
/// let largest = largest.wait()?.expect("there are elements");
/// assert_eq!((largest.index, largest.value), (2, 7.5));
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// What ends in `_into` leaves its result in device memory, for work that is enqueued behind it. The
/// elements are kept until it is done, and let go of at a later call of the reducer, or with it.
///
/// ```
/// # use warpfold::{Device, Reducer, Selection};
/// # let device = Device::open(Selection::Sim)?;
/// # let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
/// let mut sum = device.output::<i64>()?;
/// reducer.on(&stream).sum_into(&device.upload(&[3_i8, -4, 100])?, &mut sum)?;
/// assert_eq!(sum.read()?, 99);
/// # Ok::<(), warpfold::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct OnStream<'a> {
    pub(super) reducer: &'a Reducer,
    pub(super) stream: &'a Stream,
    pub(super) count: Option<&'a Count<'a>>,
}

impl<'a> OnStream<'a> {
    pub(super) fn new(reducer: &'a Reducer, stream: &'a Stream) -> Self {
        Self { reducer, stream, count: None }
    }

    /// The same reductions of a buffer's first elements: as many of them as `count` in device memory
    /// says when the reductions run.
    ///
    /// A count above the buffer's length reads no further than that: [`Pending::wait`] then says
    /// [`Error::CountTooLarge`], while what is left in device memory is of all elements. What is left
    /// there of a count of 0 is 0 for sums and counts, 1 for products, NaN for means and variances, −∞
    /// for logarithms of sums, all bits for those that all elements have, and for extremes the value
    /// that gives way to every other: for a minimum infinity or the type's largest integer, for a
    /// maximum the opposite; of a located one at the index `u64::MAX`. A program's own operation leaves
    /// what it makes of its identity.
    ///
    /// The bits of a float's sum are reproducible for the same count of a buffer of the same length;
    /// they may differ from those of a buffer that has no more elements than the count.
    #[must_use]
    pub fn counted(self, count: &'a Count<'a>) -> Self {
        Self { count: Some(count), ..self }
    }

    /// As [`Reducer::sum`].
    ///
    /// # Errors
    /// As [`Reducer::sum`], and [`Error::OtherDevice`] for the stream of another device.
    pub fn sum<T: Element>(self, values: &Buffer<T>) -> Result<Pending<T::Sum>> {
        self.reduce(op::Sum, values)
    }

    /// As [`Reducer::wrapping_sum`].
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn wrapping_sum<T: Integer>(self, values: &Buffer<T>) -> Result<Pending<T>> {
        self.reduce(op::WrappingSum, values)
    }

    /// As [`Reducer::sum_of_squares`].
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn sum_of_squares<T: Element>(self, values: &Buffer<T>) -> Result<Pending<T::Sum>> {
        self.reduce(op::SumOfSquares, values)
    }

    /// As [`Reducer::min`].
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn min<T: Element>(self, values: &Buffer<T>) -> Result<Pending<Option<T>>> {
        self.reduce(op::Min, values)
    }

    /// As [`Reducer::max`].
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn max<T: Element>(self, values: &Buffer<T>) -> Result<Pending<Option<T>>> {
        self.reduce(op::Max, values)
    }

    /// As [`Reducer::arg_min`].
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn arg_min<T: Element>(self, values: &Buffer<T>) -> Result<Pending<Option<Located<T>>>> {
        self.reduce(op::ArgMin, values)
    }

    /// As [`Reducer::arg_max`].
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn arg_max<T: Element>(self, values: &Buffer<T>) -> Result<Pending<Option<Located<T>>>> {
        self.reduce(op::ArgMax, values)
    }

    /// Leaves the sum of the elements, 0 of none, in device memory.
    ///
    /// # Errors
    /// As [`sum`](Self::sum), and [`Error::OtherDevice`] for an output of another device.
    pub fn sum_into<T: Element>(self, values: &Buffer<T>, output: &mut Output<T::Sum>) -> Result<()> {
        self.reduce_into(op::Sum, values, output)
    }

    /// Leaves the sum of the elements in their own type, 0 of none, in device memory.
    ///
    /// # Errors
    /// As [`sum_into`](Self::sum_into).
    pub fn wrapping_sum_into<T: Integer>(
        self,
        values: &Buffer<T>,
        output: &mut Output<T>,
    ) -> Result<()> {
        self.reduce_into(op::WrappingSum, values, output)
    }

    /// Leaves the sum of the elements' squares, 0 of none, in device memory.
    ///
    /// # Errors
    /// As [`sum_into`](Self::sum_into).
    pub fn sum_of_squares_into<T: Element>(
        self,
        values: &Buffer<T>,
        output: &mut Output<T::Sum>,
    ) -> Result<()> {
        self.reduce_into(op::SumOfSquares, values, output)
    }

    /// Leaves the smallest element, or NaN, in device memory.
    ///
    /// # Errors
    /// As [`sum_into`](Self::sum_into), and [`Error::NoElements`] of none.
    pub fn min_into<T: Element>(self, values: &Buffer<T>, output: &mut Output<T>) -> Result<()> {
        self.reduce_into(op::Min, values, output)
    }

    /// Leaves the largest element, or NaN, in device memory.
    ///
    /// # Errors
    /// As [`min_into`](Self::min_into).
    pub fn max_into<T: Element>(self, values: &Buffer<T>, output: &mut Output<T>) -> Result<()> {
        self.reduce_into(op::Max, values, output)
    }

    /// Leaves the first of the smallest elements, or the first NaN, in device memory.
    ///
    /// # Errors
    /// As [`min_into`](Self::min_into).
    pub fn arg_min_into<T: Element>(
        self,
        values: &Buffer<T>,
        output: &mut Output<Located<T>>,
    ) -> Result<()> {
        self.reduce_into(op::ArgMin, values, output)
    }

    /// Leaves the first of the largest elements, or the first NaN, in device memory.
    ///
    /// # Errors
    /// As [`min_into`](Self::min_into).
    pub fn arg_max_into<T: Element>(
        self,
        values: &Buffer<T>,
        output: &mut Output<Located<T>>,
    ) -> Result<()> {
        self.reduce_into(op::ArgMax, values, output)
    }

    /// As [`Reducer::reduce`].
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn reduce<T: Plain, O: Operation<T>>(
        self,
        op: O,
        values: &Buffer<T>,
    ) -> Result<Pending<O::Output>> {
        let task = self.task(op, values)?;
        if let Some(of_none) = O::of_none().filter(|_| task.is_empty()) {
            return Ok(Pending::ready(of_none));
        }
        self.enqueue(&task, values, |results| results.result::<T, O>(0))
    }

    /// Enqueues a task on a buffer's elements, which is not empty and has single results.
    pub(super) fn enqueue<T: Plain, R>(
        self,
        task: &Task<'_>,
        values: &Buffer<T>,
        decode: fn(HostResults<'_>) -> R,
    ) -> Result<Pending<R>> {
        values.precede(self.stream)?;
        let core = self.reducer.core();
        core.sweep();
        let inputs = Inputs::of(task, values.memory());
        // SAFETY: the stream is of the device; the elements are those of the buffer, which never change.
        // A count that is a result is borrowed, so that no other is asked for there meanwhile.
        let underway = unsafe { core.enqueue(self.stream, inputs, None) }?;
        Ok(Pending::running(core, underway, decode, values.len() as u64))
    }

    /// Leaves the result of any [operation](op) in device memory.
    ///
    /// # Errors
    /// As [`sum_into`](Self::sum_into), and [`Error::NoElements`] of none, unless their result is 0.
    pub fn reduce_into<T: Plain, O: Operation<T>>(
        self,
        op: O,
        values: &Buffer<T>,
        output: &mut Output<O::Left>,
    ) -> Result<()> {
        let task = self.task(op, values)?;
        // What still writes there on another stream is done first.
        output.precede(self.stream)?;
        values.precede(self.stream)?;
        let core = self.reducer.core();
        core.sweep();
        let underway = if !task.is_empty() {
            let inputs = Inputs::of(&task, values.memory());
            // SAFETY: the stream is of the device; the elements are those of the buffer, which never
            // change; the output is borrowed for writing, has room for any result, and belongs to this
            // stream. A count that is a result is another one, and borrowed.
            unsafe { core.enqueue(self.stream, inputs, Some(output.memory())) }?
        } else if task.codes().all(Code::is_zero_of_none) {
            // SAFETY: as above. Zero bytes are the zero of every type.
            unsafe { core.enqueue_zero(self.stream, output.memory()) }?
        } else {
            return Err(Error::NoElements { what: task.codes().next().map_or("reduction", Code::name) });
        };
        output.written_until(Arc::clone(underway.end()));
        core.detach(underway);
        Ok(())
    }

    /// Refuses what belongs to another device.
    fn task<T: Plain, O: Operation<T>>(self, op: O, values: &Buffer<T>) -> Result<Task<'a>> {
        Ok(Task::of(Span::of(op.code(), values, self.device()?)?, self.count))
    }

    /// The device, to which the stream and the count must belong.
    pub(super) fn device(self) -> Result<&'a Device> {
        let device = self.reducer.device();
        device.require("stream", self.stream.device())?;
        if let Some(count) = self.count {
            device.require("count", count.device())?;
        }
        Ok(device)
    }
}
