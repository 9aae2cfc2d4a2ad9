//! The elements of a buffer that lie in an interval.

use std::{mem, ops::Bound, sync::Arc};

use super::{HostResults, Inputs, OnStream, Pending, Recorded, Recorder, Reducer, Task};
use crate::{
    Buffer, Element, Error, Outcome, Output, Result, Within, element::sealed::Outcome as _,
    names::WithinOp, op::Interval, within::WithinJob,
};

/// # Intervals
/// How many elements lie in an interval, and their sum, by one launch. A range of any kind says which:
/// `..` all, `a..b`, `a..=b`, or a pair of [`Bound`](std::ops::Bound)s; where its end is before its
/// start, none. NaN lies in no interval, and zeros of both signs are the same place.
/// [`Everywhere`](crate::op::Everywhere) around a range asks for a sum with the same bits wherever it is
/// made.
///
/// A condition of another kind is a program's [own](crate::custom) operation.
impl Reducer {
    /// Loads the kernels for intervals of a type, as the first use of each otherwise does.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_within<T: Element>(&self) -> Result<()> {
        let ops = WithinOp::ALL.iter().filter(|op| op.takes(T::DTYPE));
        ops.copied().try_for_each(|op| self.core().kernels().prepare_within(op, T::DTYPE))
    }

    /// How many elements lie in an interval, and their sum in the type [`Element::Sum`].
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let values = device.upload(&[0.5_f32, -2.0, 3.0, f32::NAN, 1.5])?;
    /// let within = reducer.reduce_within(0.0..=1.5, &values)?;
    /// assert_eq!((within.count, within.sum, within.mean()), (2, 2.0, Some(1.0)));
    /// // All but NaN.
    /// assert_eq!(reducer.reduce_within(.., &values)?.count, 4);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// The count and the sum of integers have the same bits wherever they are made; the sum of floats is
    /// added in the order of the launch, as that of a [`sum`](Self::sum) is, unless the range is in
    /// [`Everywhere`](crate::op::Everywhere).
    ///
    /// # Errors
    /// - [`Error::Interval`] for an end that is NaN, [`Error::OtherDevice`] for a buffer of another
    ///   device, and [`Error::TooManyElements`] for more than 2^35;
    /// - those of [`prepare_within`](Self::prepare_within), at the first use of a type;
    /// - [`Error::OutOfMemory`] while the pool of workspaces grows;
    /// - [`Error::Driver`] when the launch or the wait fails.
    pub fn reduce_within<T: Element>(
        &self,
        range: impl Interval<T>,
        values: &Buffer<T>,
    ) -> Result<Within<T::Sum>> {
        let within = self.result_within(range.op(), range.bounds(), values)?;
        Ok(within.unwrap_or_else(Within::none))
    }

    /// What the kernel of a sum leaves; `None` of no elements.
    pub(super) fn result_within<T: Element, R: Outcome>(
        &self,
        op: WithinOp,
        bounds: (Bound<T>, Bound<T>),
        values: &Buffer<T>,
    ) -> Result<Option<R>> {
        let task = Task::Within(WithinJob::of(op, bounds, values, self.device())?);
        if task.is_empty() {
            return Ok(None);
        }
        values.settle()?;
        let core = self.core();
        core.sweep();
        // SAFETY: the elements are those of the buffer, which is borrowed until this returns, and kept
        // below where that is not enough.
        let reduced = unsafe { core.reduce(&task, |results| Some(R::from_words(results.get(0)))) };
        let keep = || mem::forget((core.clone(), values.memory().clone()));
        reduced.map_err(|failed| failed.or_keep(keep))
    }
}

/// # Intervals
impl OnStream<'_> {
    /// As [`Reducer::reduce_within`].
    ///
    /// # Errors
    /// As [`Reducer::reduce_within`]; [`Error::OtherDevice`] for the stream of another device, and
    /// [`Error::Interval`] with a [count](Self::counted).
    pub fn reduce_within<T: Element>(
        self,
        range: impl Interval<T>,
        values: &Buffer<T>,
    ) -> Result<Pending<Within<T::Sum>>> {
        let task = self.within(range.op(), range.bounds(), values)?;
        if task.is_empty() {
            return Ok(Pending::ready(Within::none()));
        }
        values.precede(self.stream)?;
        let core = self.reducer.core();
        core.sweep();
        // SAFETY: the stream is of the device; the elements are those of the buffer, which never change.
        let underway = unsafe { core.enqueue(self.stream, Inputs::of(&task, values.memory()), None) }?;
        Ok(Pending::running(core, underway, decode::<T>, values.len() as u64))
    }

    /// Leaves the count and the sum, 0 both of no elements, in device memory.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, Within};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
    /// let mut within = device.output::<Within<i64>>()?;
    /// let values = device.upload(&[7_i32, -3, 10, 2])?;
    /// reducer.on(&stream).reduce_within_into(0..10, &values, &mut within)?;
    /// assert_eq!(within.read()?, Within::new(2, 9));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`reduce_within`](Self::reduce_within), and [`Error::OtherDevice`] for an output of another
    /// device.
    pub fn reduce_within_into<T: Element>(
        self,
        range: impl Interval<T>,
        values: &Buffer<T>,
        output: &mut Output<Within<T::Sum>>,
    ) -> Result<()> {
        self.result_within_into(range.op(), range.bounds(), values, output)
    }

    /// Leaves what the kernel of a sum leaves, zeros of no elements.
    pub(super) fn result_within_into<T: Element, R: Outcome>(
        self,
        op: WithinOp,
        bounds: (Bound<T>, Bound<T>),
        values: &Buffer<T>,
        output: &mut Output<R>,
    ) -> Result<()> {
        let task = self.within(op, bounds, values)?;
        // What still writes there on another stream is done first.
        output.precede(self.stream)?;
        values.precede(self.stream)?;
        let core = self.reducer.core();
        core.sweep();
        let underway = if task.is_empty() {
            // SAFETY: the output is borrowed for writing, and belongs to this stream, which is of the
            // device. Zero bytes are the zero of every type.
            unsafe { core.enqueue_zero(self.stream, output.memory()) }?
        } else {
            let inputs = Inputs::of(&task, values.memory());
            // SAFETY: the stream is of the device; the elements are those of the buffer, which never
            // change; the output is borrowed for writing, has room for any result, and belongs to this
            // stream.
            unsafe { core.enqueue(self.stream, inputs, Some(output.memory())) }?
        };
        output.written_until(Arc::clone(underway.end()));
        core.detach(underway);
        Ok(())
    }

    /// Refuses what belongs to another device, and a count.
    fn within<T: Element>(
        self,
        op: WithinOp,
        bounds: (Bound<T>, Bound<T>),
        values: &Buffer<T>,
    ) -> Result<Task<'static>> {
        let device = self.reducer.device();
        device.require("stream", self.stream.device())?;
        if self.count.is_some() {
            let reason = "a count does not go with an interval; reduce a slice of the buffer without it";
            return Err(Error::Interval { reason: reason.to_owned() });
        }
        Ok(Task::Within(WithinJob::of(op, bounds, values, device)?))
    }
}

/// # Intervals
impl Recorder {
    /// Adds [`Reducer::reduce_within`].
    ///
    /// # Errors
    /// As [`Reducer::reduce_within`].
    pub fn reduce_within<T: Element>(
        &mut self,
        range: impl Interval<T>,
        values: &Buffer<T>,
    ) -> Result<Recorded<Within<T::Sum>>> {
        let task = Task::Within(WithinJob::of(range.op(), range.bounds(), values, self.device())?);
        values.settle()?;
        let empty = task.is_empty();
        self.record_single(task, [Some(values.memory()), None], empty, decode::<T>)
    }
}

/// The result that a launch has written, or that of no elements.
fn decode<T: Element>(results: HostResults<'_>) -> Within<T::Sum> {
    if results.is_of_none() { Within::none() } else { Within::from_words(results.get(0)) }
}
