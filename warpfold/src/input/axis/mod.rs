//! Arrays of several dimensions, and what lies along some of them.

mod launch;
mod task;

use std::{fmt, ops::Range};

pub use launch::AxisLaunch;
pub(crate) use launch::BLOCKS;

use crate::{
    Buffer, Device, Error, Outputs, Plain, Result,
    geometry::elements_of,
    input::{AnyTask, Enqueue, Input, by_plan, rows::RowsTask},
    op::RowsOperation,
    reducer::{Code, Plan, Span},
};

/// The elements along one axis of an array, or along several neighbouring ones, from [`Buffer::axis`],
/// [`Buffer::axes`] and [`Buffer::columns`].
///
/// [`Reducer::reduce`](crate::Reducer::reduce) returns one result for each position on the other axes,
/// in the order of the array, from one launch. The index in a [`Located`](crate::Located) result is the
/// position on the axis; several axes count as one. The last axis is reduced as [`Rows`](crate::Rows).
pub struct Axis<'a, T> {
    buffer: &'a Buffer<T>,
    /// Positions on the axes in front.
    outer: usize,
    /// Elements of a result.
    len: usize,
    /// Positions on the axes behind.
    inner: usize,
}

impl<'a, T: Plain> Axis<'a, T> {
    pub(crate) fn new(buffer: &'a Buffer<T>, shape: &[usize], axes: Range<usize>) -> Result<Self> {
        let refused = |reason: String| Err(Error::Axis { reason });
        let elements = buffer.len();
        if elements_of(shape) != Some(elements) {
            return refused(format!(
                "a shape of {shape:?} and {elements} elements; give lengths whose product is {elements}, \
                 or a slice"
            ));
        }
        if axes.start >= axes.end || axes.end > shape.len() {
            let dimensions = shape.len();
            let given = if axes.len() == 1 {
                format!("axis {}", axes.start)
            } else {
                format!("axes {} up to {}", axes.start, axes.end)
            };
            return refused(format!(
                "{given} of a shape of {dimensions} dimensions; give one or more of 0 up to {dimensions}"
            ));
        }
        // Only an axis of length 0 among the others lets a product be more.
        let some = |lens: &[usize]| elements_of(lens).unwrap_or(usize::MAX);
        let (outer, inner) = (some(&shape[..axes.start]), some(&shape[axes.end..]));
        let len = some(&shape[axes]);
        if len == 0 && outer > 0 && inner > 0 {
            return refused(format!(
                "an axis of 0 elements in a shape of {shape:?}; give 1 or more to every result"
            ));
        }
        Ok(Self { buffer, outer, len, inner })
    }

    /// Returns the number of results.
    pub fn count(&self) -> usize {
        // The factors of a product that is no more than there are elements, unless one is 0.
        self.outer.saturating_mul(self.inner)
    }

    /// Returns the number of elements of each result.
    pub fn axis_len(&self) -> usize {
        self.len
    }

    /// Returns the buffer with the elements.
    pub fn buffer(&self) -> &'a Buffer<T> {
        self.buffer
    }

    /// A reduction of them, which must be on `device` and not too many.
    pub(crate) fn task(&self, code: Code, device: &Device) -> Result<AxisTask> {
        let Span { code, address, .. } = Span::of(code, self.buffer, device)?;
        let (matrices, len, width) = (self.outer as u64, self.len as u64, self.inner as u64);
        // No more than there are elements, unless there are none.
        let (apart, pitch) = (len.saturating_mul(width), width);
        Ok(AxisTask { code, matrices, apart, len, pitch, width, address })
    }
}

impl<T> Clone for Axis<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Axis<'_, T> {}

impl<T: Plain> fmt::Debug for Axis<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { buffer, outer, len, inner } = self;
        let mut shown = f.debug_struct("Axis");
        shown.field("buffer", buffer).field("outer", outer).field("len", len).field("inner", inner);
        shown.finish()
    }
}

/// An operation along an axis of an array in device memory: on the columns of matrices that begin at
/// equal distances, as their rows do.
#[derive(Debug, Clone)]
pub(crate) struct AxisTask {
    pub(crate) code: Code,
    /// How many matrices there are.
    pub(crate) matrices: u64,
    /// How many elements behind a matrix' first one the next matrix' is.
    pub(crate) apart: u64,
    /// Rows of a matrix: elements of a result. Not zero, unless there are no results.
    pub(crate) len: u64,
    /// How many elements behind a row's first one the next row's is.
    pub(crate) pitch: u64,
    /// Columns of a matrix.
    pub(crate) width: u64,
    /// Where the first element is: a multiple of their size.
    pub(crate) address: u64,
}

impl AxisTask {
    /// Returns the task: columns of one element each are rows.
    pub(crate) fn task(self) -> AnyTask {
        if self.width != 1 {
            return AnyTask::Axis(self);
        }
        let Self { code, matrices: rows, apart: pitch, len, address, .. } = self;
        RowsTask { code, rows, len, pitch, address }.task()
    }
}

impl<T: Plain, O: RowsOperation<T>> Input<O> for Axis<'_, T> {
    type Output = Vec<O::Left>;

    by_plan!(O);
}

impl<T: Plain, O: RowsOperation<T>> Enqueue<O> for Axis<'_, T> {
    type Left = Outputs<O::Left>;

    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
    where
        Self: 'p,
    {
        let task = self.task(op.code(), device)?.task();
        let what = ("results of an axis", (|reason| Error::Axis { reason }) as fn(String) -> Error);
        Ok(Plan::of_several(task, self.buffer(), self.count(), what))
    }
}
