//! Reductions of pairs: of two buffers' elements that have the same index.

use std::{mem, sync::Arc};

use bytemuck::Zeroable;

use super::{HostResults, Inputs, OnStream, Pending, Recorded, Recorder, Reducer, Task};
use crate::{
    Buffer, Element, Error, Output, Plain, Result,
    element::sealed::Outcome as _,
    names::PairOp,
    op::{self, PairOperation},
    pairs::PairsJob,
};

/// # Pairs
/// The elements of two buffers that have the same index, to one result. The buffers have the same
/// length, and begin where they like; both may be the same one. Where they begin equally far from a
/// multiple of 16 bytes, as buffers do that were uploaded, they are read in the fewest loads.
impl Reducer {
    /// Loads the kernels for pairs of a type, for all operations, as the first reduction of each
    /// otherwise does.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_pairs<T: Element>(&self) -> Result<()> {
        let ops = PairOp::ALL.iter().filter(|op| op.takes(T::DTYPE));
        ops.copied().try_for_each(|op| self.core().kernels().prepare_pairs(op, T::DTYPE))
    }

    /// The dot product: the sum of the products of the elements that have the same index, 0 of none, in
    /// the type [`Element::Sum`]. What is said of it at [`op::Dot`] holds.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let (a, b) = (device.upload(&[1_i8, -2, 127])?, device.upload(&[5_i8, 0, 127])?);
    /// assert_eq!(reducer.dot(&a, &b)?, 5 + 127 * 127);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::Pairs`] for buffers of different lengths, [`Error::OtherDevice`] for one of another
    ///   device, and [`Error::TooManyElements`] for more than 2^35;
    /// - those of [`prepare_pairs`](Self::prepare_pairs), at the first use of an operation and type;
    /// - [`Error::OutOfMemory`] while the pool of workspaces grows;
    /// - [`Error::Driver`] when the launch or the wait fails.
    pub fn dot<T: Element>(&self, a: &Buffer<T>, b: &Buffer<T>) -> Result<T::Sum> {
        self.reduce_pair(op::Dot, a, b)
    }

    /// The squared distance: the sum of the squares of the differences of the elements that have the
    /// same index, 0 of none, in the type [`Element::Sum`]. What is said of it at
    /// [`op::SquaredDistance`] holds.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let (a, b) = (device.upload(&[1.0_f32, 2.0])?, device.upload(&[4.0_f32, -2.0])?);
    /// assert_eq!(reducer.squared_distance(&a, &b)?.sqrt(), 5.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`dot`](Self::dot).
    pub fn squared_distance<T: Element>(&self, a: &Buffer<T>, b: &Buffer<T>) -> Result<T::Sum> {
        self.reduce_pair(op::SquaredDistance, a, b)
    }

    /// Any [operation on pairs](op::PairOperation).
    ///
    /// # Errors
    /// As [`dot`](Self::dot).
    pub fn reduce_pair<T: Element, O: PairOperation>(
        &self,
        _op: O,
        a: &Buffer<T>,
        b: &Buffer<T>,
    ) -> Result<T::Sum> {
        self.result_of_pairs(O::op(T::DTYPE), a, b)
    }

    /// What the kernels of an operation leave, 0 of no pairs.
    pub(super) fn result_of_pairs<T: Element, R: Plain>(
        &self,
        op: PairOp,
        a: &Buffer<T>,
        b: &Buffer<T>,
    ) -> Result<R> {
        let task = Task::Pairs(PairsJob::of(op, [a, b], self.device())?);
        if task.is_empty() {
            return Ok(R::zeroed());
        }
        a.settle()?;
        b.settle()?;
        let core = self.core();
        core.sweep();
        // SAFETY: the elements are those of the buffers, which are borrowed until this returns, and kept
        // below where that is not enough.
        let reduced = unsafe { core.reduce(&task, decode::<R>) };
        let keep = || mem::forget((core.clone(), a.memory().clone(), b.memory().clone()));
        reduced.map_err(|failed| failed.or_keep(keep))
    }
}

/// # Pairs
impl OnStream<'_> {
    /// As [`Reducer::dot`].
    ///
    /// # Errors
    /// As [`Reducer::dot`]; [`Error::OtherDevice`] for the stream of another device, and
    /// [`Error::Pairs`] with a [count](Self::counted).
    pub fn dot<T: Element>(self, a: &Buffer<T>, b: &Buffer<T>) -> Result<Pending<T::Sum>> {
        self.reduce_pair(op::Dot, a, b)
    }

    /// As [`Reducer::squared_distance`].
    ///
    /// # Errors
    /// As [`dot`](Self::dot).
    pub fn squared_distance<T: Element>(self, a: &Buffer<T>, b: &Buffer<T>) -> Result<Pending<T::Sum>> {
        self.reduce_pair(op::SquaredDistance, a, b)
    }

    /// As [`Reducer::reduce_pair`].
    ///
    /// # Errors
    /// As [`dot`](Self::dot).
    pub fn reduce_pair<T: Element, O: PairOperation>(
        self,
        _op: O,
        a: &Buffer<T>,
        b: &Buffer<T>,
    ) -> Result<Pending<T::Sum>> {
        let task = self.pairs(O::op(T::DTYPE), [a, b])?;
        if task.is_empty() {
            return Ok(Pending::ready(T::Sum::zeroed()));
        }
        a.precede(self.stream)?;
        b.precede(self.stream)?;
        let core = self.reducer.core();
        core.sweep();
        let inputs = Inputs { second: Some(b.memory()), ..Inputs::of(&task, a.memory()) };
        // SAFETY: the stream is of the device; the elements are those of the buffers, which never
        // change.
        let underway = unsafe { core.enqueue(self.stream, inputs, None) }?;
        Ok(Pending::running(core, underway, decode::<T::Sum>, a.len() as u64))
    }

    /// Leaves the dot product, 0 of no elements, in device memory.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
    /// let (a, b) = (device.upload(&[1_u8, 2, 3])?, device.upload(&[10_u8, 20, 30])?);
    /// let mut dot = device.output::<u64>()?;
    /// reducer.on(&stream).dot_into(&a, &b, &mut dot)?;
    /// assert_eq!(dot.read()?, 140);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`dot`](Self::dot), and [`Error::OtherDevice`] for an output of another device.
    pub fn dot_into<T: Element>(
        self,
        a: &Buffer<T>,
        b: &Buffer<T>,
        output: &mut Output<T::Sum>,
    ) -> Result<()> {
        self.reduce_pair_into(op::Dot, a, b, output)
    }

    /// Leaves the squared distance, 0 of no elements, in device memory.
    ///
    /// # Errors
    /// As [`dot_into`](Self::dot_into).
    pub fn squared_distance_into<T: Element>(
        self,
        a: &Buffer<T>,
        b: &Buffer<T>,
        output: &mut Output<T::Sum>,
    ) -> Result<()> {
        self.reduce_pair_into(op::SquaredDistance, a, b, output)
    }

    /// Leaves the result of any [operation on pairs](op::PairOperation), 0 of none, in device memory.
    ///
    /// # Errors
    /// As [`dot_into`](Self::dot_into).
    pub fn reduce_pair_into<T: Element, O: PairOperation>(
        self,
        _op: O,
        a: &Buffer<T>,
        b: &Buffer<T>,
        output: &mut Output<T::Sum>,
    ) -> Result<()> {
        self.result_of_pairs_into(O::op(T::DTYPE), a, b, output)
    }

    /// Leaves what the kernels of an operation leave, zeros of no pairs.
    pub(super) fn result_of_pairs_into<T: Element, R: Plain>(
        self,
        op: PairOp,
        a: &Buffer<T>,
        b: &Buffer<T>,
        output: &mut Output<R>,
    ) -> Result<()> {
        let task = self.pairs(op, [a, b])?;
        // What still writes there on another stream is done first.
        output.precede(self.stream)?;
        a.precede(self.stream)?;
        b.precede(self.stream)?;
        let core = self.reducer.core();
        core.sweep();
        let underway = if task.is_empty() {
            // SAFETY: the output is borrowed for writing, and belongs to this stream, which is of the
            // device. Zero bytes are the zero of every type.
            unsafe { core.enqueue_zero(self.stream, output.memory()) }?
        } else {
            let inputs = Inputs { second: Some(b.memory()), ..Inputs::of(&task, a.memory()) };
            // SAFETY: the stream is of the device; the elements are those of the buffers, which never
            // change; the output is borrowed for writing, has room for any result, and belongs to this
            // stream.
            unsafe { core.enqueue(self.stream, inputs, Some(output.memory())) }?
        };
        output.written_until(Arc::clone(underway.end()));
        core.detach(underway);
        Ok(())
    }

    /// Refuses what belongs to another device, and a count.
    fn pairs<T: Element>(self, op: PairOp, buffers: [&Buffer<T>; 2]) -> Result<Task<'static>> {
        let device = self.reducer.device();
        device.require("stream", self.stream.device())?;
        if self.count.is_some() {
            let reason = "a count is of one buffer's elements, not of pairs; reduce slices without it";
            return Err(Error::Pairs { reason: reason.to_owned() });
        }
        Ok(Task::Pairs(PairsJob::of(op, buffers, device)?))
    }
}

/// # Pairs
impl Recorder {
    /// Adds [`Reducer::dot`].
    ///
    /// # Errors
    /// As [`Reducer::dot`].
    pub fn dot<T: Element>(&mut self, a: &Buffer<T>, b: &Buffer<T>) -> Result<Recorded<T::Sum>> {
        self.reduce_pair(op::Dot, a, b)
    }

    /// Adds [`Reducer::squared_distance`].
    ///
    /// # Errors
    /// As [`Reducer::dot`].
    pub fn squared_distance<T: Element>(
        &mut self,
        a: &Buffer<T>,
        b: &Buffer<T>,
    ) -> Result<Recorded<T::Sum>> {
        self.reduce_pair(op::SquaredDistance, a, b)
    }

    /// Adds [`Reducer::reduce_pair`].
    ///
    /// # Errors
    /// As [`Reducer::dot`].
    pub fn reduce_pair<T: Element, O: PairOperation>(
        &mut self,
        _op: O,
        a: &Buffer<T>,
        b: &Buffer<T>,
    ) -> Result<Recorded<T::Sum>> {
        let task = Task::Pairs(PairsJob::of(O::op(T::DTYPE), [a, b], self.device())?);
        a.settle()?;
        b.settle()?;
        let empty = task.is_empty();
        self.record_single(task, [Some(a.memory()), Some(b.memory())], empty, decode::<T::Sum>)
    }
}

/// The result that a launch has written, or 0 of no pairs.
fn decode<R: Plain>(results: HostResults<'_>) -> R {
    if results.is_of_none() { R::zeroed() } else { R::from_words(results.get(0)) }
}
