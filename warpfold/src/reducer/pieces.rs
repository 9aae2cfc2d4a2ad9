//! Reductions of pieces of a buffer, each to a result of its own: what rows, axes and segments share.
//! And what they share with whatever else has several results.

use std::{mem, sync::Arc};

use super::{Code, Inputs, OnStream, Reducer, Task};
use crate::{
    Buffer, Device, Error, Outcome, Outputs, Plain, Result, op::RowsOperation, segments::Offsets,
};

/// Pieces of a buffer that have results of their own.
pub(super) trait Pieces<T: Plain> {
    /// What they are called.
    const WHAT: &'static str;

    /// The error that says why they cannot be reduced as asked for.
    fn refused(reason: String) -> Error;

    /// How many there are.
    fn count(&self) -> usize;

    /// What has their elements.
    fn values(&self) -> &Buffer<T>;

    /// What has their offsets, if they have any.
    fn offsets(&self) -> Option<&Arc<Offsets>> {
        None
    }

    /// A reduction of them, which must be on `device` and not too many.
    fn task(&self, code: Code, device: &Device) -> Result<Task<'static>>;
}

/// Refuses outputs that are not as many as the pieces.
pub(super) fn require_as_many<T: Plain, P: Pieces<T>, R: Outcome>(
    pieces: &P,
    outputs: &Outputs<R>,
) -> Result<()> {
    require_outputs(outputs, pieces.count(), P::WHAT).map_err(P::refused)
}

/// Says what is wrong with outputs that are not for `count` results.
pub(super) fn require_outputs<R: Outcome>(
    outputs: &Outputs<R>,
    count: usize,
    what: &str,
) -> Result<(), String> {
    let len = outputs.len();
    if len == count {
        return Ok(());
    }
    Err(format!("outputs for {len} results and {count} {what}; make outputs for {count}"))
}

/// A task that has several results, and what it reads.
pub(super) struct Many<'a, T> {
    pub(super) task: Task<'static>,
    /// How many results there are.
    pub(super) count: usize,
    /// What has the elements.
    pub(super) values: &'a Buffer<T>,
    /// What has the offsets of its segments, if it has some.
    pub(super) offsets: Option<&'a Arc<Offsets>>,
}

impl<'a, T: Plain> Many<'a, T> {
    /// Makes the task of reducing pieces.
    pub(super) fn of<P: Pieces<T>>(pieces: &'a P, code: Code, device: &Device) -> Result<Self> {
        let task = pieces.task(code, device)?;
        Ok(Self { task, count: pieces.count(), values: pieces.values(), offsets: pieces.offsets() })
    }
}

impl Reducer {
    /// Reduces the pieces, and waits for their results.
    pub(super) fn reduce_pieces<T: Plain, O: RowsOperation<T>>(
        &self,
        op: O,
        pieces: &impl Pieces<T>,
    ) -> Result<Vec<O::Left>> {
        self.reduce_to_many(&Many::of(pieces, op.code(), self.device())?)
    }

    /// Runs a task, and waits for its results.
    pub(super) fn reduce_to_many<T: Plain, R: Outcome>(&self, many: &Many<'_, T>) -> Result<Vec<R>> {
        if many.task.is_empty() {
            return Ok(Vec::new());
        }
        self.reduce_to_outputs(many)?.read()
    }

    /// Runs a task that has results, and waits for them; they stay in device memory.
    pub(super) fn reduce_to_outputs<T: Plain, R: Outcome>(
        &self,
        many: &Many<'_, T>,
    ) -> Result<Outputs<R>> {
        let &Many { ref task, count, values, offsets } = many;
        let core = self.core();
        values.settle()?;
        core.sweep();
        let outputs = Outputs::<R>::of_any_bytes(self.device(), count)?;
        // SAFETY: the elements and offsets are those of what is borrowed until this returns, and there
        // is a place for each result. They are kept below where that is not enough.
        let reduced = unsafe { core.reduce_into(task, outputs.as_device_ptr()) };
        let used = || (values.memory().clone(), offsets.cloned(), outputs.memory().clone());
        let keep = || mem::forget((core.clone(), task.kept_codes(), used()));
        reduced.map_err(|failed| failed.or_keep(keep))?;
        Ok(outputs)
    }
}

impl OnStream<'_> {
    /// Leaves the results of the pieces in device memory.
    pub(super) fn reduce_pieces_into<T: Plain, O: RowsOperation<T>, P: Pieces<T>>(
        self,
        op: O,
        pieces: &P,
        outputs: &mut Outputs<O::Left>,
    ) -> Result<()> {
        let many = Many::of(pieces, op.code(), self.reducer.device())?;
        self.reducer.device().require("stream", self.stream.device())?;
        if self.count.is_some() {
            let what = P::WHAT;
            return Err(P::refused(format!(
                "a count is of elements, not of {what}; reduce {what} without it"
            )));
        }
        require_as_many(pieces, outputs)?;
        self.leave_many(&many, outputs)
    }

    /// Leaves the results of a task in device memory, of which there is as much as is needed. The stream
    /// is of the task's device.
    pub(super) fn leave_many<T: Plain, R: Outcome>(
        self,
        many: &Many<'_, T>,
        outputs: &mut Outputs<R>,
    ) -> Result<()> {
        let (&Many { ref task, values, offsets, .. }, stream) = (many, self.stream);
        // What still writes there on another stream is done first.
        outputs.precede(stream)?;
        if task.is_empty() {
            return Ok(());
        }
        let core = self.reducer.core();
        values.precede(stream)?;
        core.sweep();
        let inputs = Inputs { offsets, ..Inputs::of(task, values.memory()) };
        // SAFETY: the stream is of the device; the elements are those of the buffer, which never change
        // once they are there; the outputs are borrowed for writing, have room for all results, and
        // belong to this stream.
        let underway = unsafe { core.enqueue(stream, inputs, Some(outputs.memory())) }?;
        outputs.written_until(underway.end().clone());
        core.detach(underway);
        Ok(())
    }
}
