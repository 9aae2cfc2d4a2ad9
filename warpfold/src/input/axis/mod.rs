//! Reductions along an axis, or several neighbouring axes, of an array.

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
    reducer::{Code, ElementRange, Plan},
};

/// The elements along one axis of an array, or along several neighbouring ones, from [`Buffer::axis`],
/// [`Buffer::axes`] and [`Buffer::columns`].
///
/// [`Reducer::reduce`](crate::Reducer::reduce) returns one result for each position on the other axes,
/// in the order of the array, from one launch. The index in a [`Located`](crate::Located) result is the
/// position on the axis; several axes count as one. The last axis is reduced as [`Rows`](crate::Rows).
pub struct Axis<'a, T> {
    buffer: &'a Buffer<T>,
    /// The product of the lengths of the axes before the reduced ones.
    outer: usize,
    /// Elements per result: the product of the lengths of the reduced axes.
    len: usize,
    /// The product of the lengths of the axes after the reduced ones.
    inner: usize,
}

impl<'a, T: Plain> Axis<'a, T> {
    pub(crate) fn new(buffer: &'a Buffer<T>, shape: &[usize], axes: Range<usize>) -> Result<Self> {
        let refused = |reason: String| Err(Error::Axis { reason });
        let elements = buffer.len();
        if elements_of(shape) != Some(elements) {
            return refused(format!(
                "the shape {shape:?} does not have {elements} elements; give lengths whose product is \
                 {elements}, or a slice"
            ));
        }
        if axes.start >= axes.end || axes.end > shape.len() {
            let dimensions = shape.len();
            let given = if axes.len() == 1 {
                format!("axis {}", axes.start)
            } else {
                format!("axes {}..{}", axes.start, axes.end)
            };
            return refused(format!(
                "{given} of a shape of {dimensions} dimensions; give one or more of 0..{dimensions}"
            ));
        }
        // The product of some axes overflows only if another axis has length 0.
        let product = |lens: &[usize]| elements_of(lens).unwrap_or(usize::MAX);
        let (outer, inner) = (product(&shape[..axes.start]), product(&shape[axes.end..]));
        let len = product(&shape[axes]);
        if len == 0 && outer > 0 && inner > 0 {
            return refused(format!(
                "an axis of the shape {shape:?} has 0 elements; give 1 or more to every result"
            ));
        }
        Ok(Self { buffer, outer, len, inner })
    }

    /// Returns the number of results.
    pub fn count(&self) -> usize {
        // The product is at most the number of elements, unless a length is 0.
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

    pub(crate) fn task(&self, code: Code, device: &Device) -> Result<AxisTask> {
        let ElementRange { code, address, .. } = ElementRange::of(code, self.buffer, device)?;
        let (matrices, len, width) = (self.outer as u64, self.len as u64, self.inner as u64);
        // The product is at most the number of elements, unless there are none.
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

/// A reduction of the columns of matrices at equal distances, each with rows at equal distances.
#[derive(Debug, Clone)]
pub(crate) struct AxisTask {
    pub(crate) code: Code,
    pub(crate) matrices: u64,
    /// Elements from the start of a matrix to that of the next one.
    pub(crate) apart: u64,
    /// Rows per matrix, and elements per result. Not zero, unless there are no results.
    pub(crate) len: u64,
    /// Elements from the start of a row to that of the next one.
    pub(crate) pitch: u64,
    pub(crate) width: u64,
    /// A multiple of an element's size.
    pub(crate) address: u64,
}

impl AxisTask {
    /// Returns the task. Matrices of a single column are reduced as rows.
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
        let refused = |reason| Error::Axis { reason };
        Ok(Plan::of_several(task, self.buffer(), self.count(), ("results of an axis", refused)))
    }
}
