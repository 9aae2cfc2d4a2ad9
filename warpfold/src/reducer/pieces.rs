//! Reductions of pieces of a buffer, each to a result of its own: what rows, axes and segments share.

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
    let (len, count, what) = (outputs.len(), pieces.count(), P::WHAT);
    if len == count {
        return Ok(());
    }
    Err(P::refused(format!("outputs for {len} results and {count} {what}; make outputs for {count}")))
}

impl Reducer {
    /// Reduces the pieces, and waits for their results.
    pub(super) fn reduce_pieces<T: Plain, O: RowsOperation<T>>(
        &self,
        op: O,
        pieces: &impl Pieces<T>,
    ) -> Result<Vec<O::Left>> {
        let task = pieces.task(op.code(), self.device())?;
        if task.is_empty() {
            return Ok(Vec::new());
        }
        let (core, values) = (self.core(), pieces.values());
        values.settle()?;
        core.sweep();
        let outputs = Outputs::<O::Left>::of_any_bytes(self.device(), pieces.count())?;
        // SAFETY: the elements and offsets are those of the pieces, which are borrowed until this
        // returns, and there is a place for each result. They are kept below where that is not enough.
        let reduced = unsafe { core.reduce_into(&task, outputs.as_device_ptr()) };
        let used = || (values.memory().clone(), pieces.offsets().cloned(), outputs.memory().clone());
        let keep = || mem::forget((core.clone(), task.kept_codes(), used()));
        reduced.map_err(|failed| failed.or_keep(keep))?;
        outputs.read()
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
        let Self { reducer, stream, count: counted } = self;
        let (task, values) = (pieces.task(op.code(), reducer.device())?, pieces.values());
        reducer.device().require("stream", stream.device())?;
        if counted.is_some() {
            let what = P::WHAT;
            return Err(P::refused(format!(
                "a count is of elements, not of {what}; reduce {what} without it"
            )));
        }
        require_as_many(pieces, outputs)?;
        // What still writes there on another stream is done first.
        outputs.precede(stream)?;
        if task.is_empty() {
            return Ok(());
        }
        let core = reducer.core();
        values.precede(stream)?;
        core.sweep();
        let inputs = Inputs { offsets: pieces.offsets(), ..Inputs::of(&task, values.memory()) };
        // SAFETY: the stream is of the device; the elements are those of the buffer, which never change
        // once they are there; the outputs are borrowed for writing, have room for a result of each
        // piece, and belong to this stream.
        let underway = unsafe { core.enqueue(stream, inputs, Some(outputs.memory())) }?;
        outputs.written_until(underway.end().clone());
        core.detach(underway);
        Ok(())
    }
}
