//! Strided arrays in a buffer, and reductions along any of their axes.

mod axes;
mod copy;
mod launch;
mod task;

use std::{fmt, ops::Range};

use axes::{Axes, Dim, MOST_ON_DEVICE};
pub(crate) use launch::BLOCKS;
pub use launch::ViewLaunch;

use crate::{
    Buffer, Device, Error, Outputs, Plain, Result,
    geometry::elements_of,
    input::{AnyTask, Enqueue, Input, axis::AxisTask, by_plan, rows::RowsTask},
    op::RowsOperation,
    reducer::{Code, ElementRange, Plan, Reducer},
};

const MOST_AXES: usize = 8;

/// Some of a buffer's elements as an array of up to 8 axes, from [`Buffer::view`] and
/// [`Buffer::view_strided`]. Each axis has a length and a stride, the distance in elements between
/// neighbouring positions.
///
/// [`along`](Self::along) selects the axes to [reduce](crate::Reducer::reduce). Views of views share the
/// elements.
///
/// ```
/// use warpfold::{Device, Reducer, Selection, op};
///
/// let device = Device::open(Selection::Sim)?;
/// let reducer = Reducer::new(&device)?;
/// let buffer = device.upload(&(0..24).collect::<Vec<i32>>())?;
/// let array = buffer.view(&[2, 3, 4])?;
/// // Along the first axis and the last one.
/// assert_eq!(reducer.reduce(op::Sum, array.along(&[0, 2])?)?, [60, 92, 124]);
/// // The first two of every four elements: a result for each row, and for each column.
/// let part = array.slice(2, 0..2, 1)?;
/// assert_eq!(reducer.reduce(op::Max, part.along(&[2])?)?, [1, 5, 9, 13, 17, 21]);
/// assert_eq!(reducer.reduce(op::Max, part.transposed().along(&[1, 2])?)?, [20, 21]);
/// # Ok::<(), warpfold::Error>(())
/// ```
pub struct View<'a, T> {
    buffer: &'a Buffer<T>,
    offset: usize,
    /// The number of axes.
    count: usize,
    lens: [usize; MOST_AXES],
    /// An axis of fewer than two positions has stride 1.
    strides: [usize; MOST_AXES],
}

fn refused<R>(reason: String) -> Result<R> {
    Err(Error::View { reason })
}

impl<'a, T: Plain> View<'a, T> {
    pub(crate) fn contiguous(buffer: &'a Buffer<T>, shape: &[usize]) -> Result<Self> {
        let elements = buffer.len();
        if elements_of(shape) != Some(elements) {
            return refused(format!(
                "the shape {shape:?} does not have {elements} elements; give lengths whose product is \
                 {elements}, or a slice"
            ));
        }
        let mut view = Self::empty(buffer, 0, shape)?;
        let mut stride = 1;
        for (own, &len) in view.strides[..shape.len()].iter_mut().zip(shape).rev() {
            *own = if len > 1 { stride } else { 1 };
            // The stride is at most the number of elements, unless there are none.
            stride = stride.saturating_mul(len);
        }
        Ok(view)
    }

    pub(crate) fn strided(
        buffer: &'a Buffer<T>,
        offset: usize,
        shape: &[usize],
        strides: &[isize],
    ) -> Result<Self> {
        if shape.len() != strides.len() {
            let (lens, strides) = (shape.len(), strides.len());
            return refused(format!(
                "{lens} lengths and {strides} strides are given; give one of each for every axis"
            ));
        }
        let mut view = Self::empty(buffer, offset, shape)?;
        for (axis, (&len, &stride)) in shape.iter().zip(strides).enumerate() {
            if len < 2 {
                continue;
            }
            view.strides[axis] = match usize::try_from(stride) {
                Ok(0) => {
                    return refused(format!(
                        "axis {axis} has stride 0 and {len} positions; give a stride of 1 or more, or a \
                         length of 1"
                    ));
                }
                Ok(stride) => stride,
                Err(_) => {
                    return refused(format!(
                        "axis {axis} has the negative stride {stride}; give {}, and the offset of the \
                         axis' other end",
                        stride.unsigned_abs()
                    ));
                }
            };
        }
        view.check()?;
        Ok(view)
    }

    /// Returns a view whose strides are yet to be set.
    fn empty(buffer: &'a Buffer<T>, offset: usize, shape: &[usize]) -> Result<Self> {
        let count = shape.len();
        if !(1..=MOST_AXES).contains(&count) {
            return refused(format!("the shape has {count} axes; give 1 to {MOST_AXES}"));
        }
        let (mut lens, strides) = ([1; MOST_AXES], [1; MOST_AXES]);
        lens[..count].copy_from_slice(shape);
        Ok(Self { buffer, offset, count, lens, strides })
    }

    /// Returns an error unless all positions are inside the buffer.
    fn check(&self) -> Result<()> {
        let (shape, strides, len) = (self.shape(), self.strides(), self.buffer.len());
        let is_empty = shape.contains(&0);
        let axes = shape.iter().zip(strides);
        let last = axes.clone().try_fold(self.offset, |last, (&len, &stride)| {
            last.checked_add((len.max(1) - 1).checked_mul(stride)?)
        });
        let inside = if is_empty { self.offset <= len } else { last.is_some_and(|last| last < len) };
        if inside && elements_of(shape).is_some() {
            return Ok(());
        }
        let last = match last {
            _ if is_empty => format!("begins at element {}", self.offset),
            Some(last) => format!("ends at element {last}"),
            None => "reaches past the last addressable element".to_owned(),
        };
        refused(format!(
            "the view of shape {shape:?} and strides {strides:?} {last}, but the buffer has {len} \
             elements; give a smaller offset, or shorter axes"
        ))
    }

    /// Returns the length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.lens[..self.count]
    }

    /// Returns the stride of each axis, in elements; 1 for an axis of fewer than two positions.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.count]
    }

    /// Returns the buffer with the elements.
    pub fn buffer(&self) -> &'a Buffer<T> {
        self.buffer
    }

    /// Returns the index in the buffer of the first element.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the number of positions, the product of all lengths.
    pub fn len(&self) -> usize {
        self.product(|_| true)
    }

    /// Returns whether there are no positions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn product(&self, is_selected: impl Fn(usize) -> bool) -> usize {
        let mut lens = [1; MOST_AXES];
        (0..self.count).filter(|&axis| is_selected(axis)).for_each(|axis| lens[axis] = self.lens[axis]);
        // The product of some axes overflows only if another axis has length 0.
        elements_of(&lens).unwrap_or(usize::MAX)
    }

    /// Returns the view with its axes in reverse order.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let mut view = *self;
        view.lens[..self.count].reverse();
        view.strides[..self.count].reverse();
        view
    }

    /// Returns the view with its axes in another order: `order` names, for each axis of the new view,
    /// the axis of this one.
    ///
    /// # Errors
    /// [`Error::View`] unless `order` names each axis once.
    pub fn permuted(&self, order: &[usize]) -> Result<Self> {
        let count = self.count;
        let once = |axis| order.iter().filter(|&&named| named == axis).count() == 1;
        if order.len() != count || !(0..count).all(once) {
            return refused(format!(
                "the order {order:?} does not fit {count} axes; name each of them once"
            ));
        }
        let mut view = *self;
        for (to, &from) in order.iter().enumerate() {
            (view.lens[to], view.strides[to]) = (self.lens[from], self.strides[from]);
        }
        Ok(view)
    }

    /// Returns the view of every `step`-th position of a range on one axis.
    ///
    /// # Errors
    /// [`Error::View`] for an axis or positions that do not exist, and for a step of 0.
    pub fn slice(&self, axis: usize, positions: Range<usize>, step: usize) -> Result<Self> {
        self.require_axis(axis)?;
        let (Range { start, end }, len) = (positions, self.lens[axis]);
        if start > end || end > len {
            return refused(format!(
                "positions {start}..{end} of axis {axis} are given, which has {len}; end at {len} at \
                 most, and do not begin after the end"
            ));
        }
        if step == 0 {
            return refused(format!("a step of 0 along axis {axis}; give 1 or more"));
        }
        let mut view = *self;
        view.lens[axis] = (end - start).div_ceil(step);
        // The strides of an empty view may be so large that the product overflows.
        view.offset += if view.is_empty() { 0 } else { start * self.strides[axis] };
        let stride = self.strides[axis].saturating_mul(step);
        view.strides[axis] = if view.lens[axis] > 1 { stride } else { 1 };
        Ok(view)
    }

    fn require_axis(&self, axis: usize) -> Result<()> {
        let count = self.count;
        if axis < count {
            return Ok(());
        }
        refused(format!("axis {axis} does not exist in a view of {count} axes; give one of 0..{count}"))
    }

    /// Returns the view with no axis reduced: every element has a result of its own.
    pub(crate) fn each(&self) -> Along<'a, T> {
        Along { view: *self, reduced: [false; MOST_AXES] }
    }

    /// Returns the elements along some axes, for [`reduce`](crate::Reducer::reduce).
    ///
    /// # Errors
    /// [`Error::View`] for an axis that does not exist or is named twice, for no axes, and for results
    /// without elements.
    pub fn along(&self, axes: &[usize]) -> Result<Along<'a, T>> {
        let mut reduced = [false; MOST_AXES];
        for &axis in axes {
            self.require_axis(axis)?;
            if std::mem::replace(&mut reduced[axis], true) {
                return refused(format!("axis {axis} is named twice in {axes:?}; name it once"));
            }
        }
        let (along, count) = (Along { view: *self, reduced }, self.count);
        if axes.is_empty() {
            return refused(format!("no axis is given to reduce along; give one or more of 0..{count}"));
        }
        if along.count() > 0 && self.is_empty() {
            return refused(format!(
                "axes {axes:?} of the shape {:?} have 0 elements; give 1 or more to every result",
                self.shape()
            ));
        }
        Ok(along)
    }
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

impl<T: Plain> fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("buffer", &self.buffer)
            .field("offset", &self.offset)
            .field("shape", &self.shape())
            .field("strides", &self.strides())
            .finish()
    }
}

/// Elements of a view along some of its axes, from [`View::along`], reduced to one result for each
/// position on the other axes, in the order of the view. The index in a [`Located`](crate::Located)
/// result counts positions on the reduced axes, the last of them fastest.
///
/// Neighbouring axes whose positions are equally spaced count as one axis. Elements that form
/// [rows](crate::Rows), or an [axis](crate::Axis) of matrices, at any distance from each other, are
/// reduced by the kernels for rows and axes. If they are contiguous, results have the same bits as those
/// of `Rows` and `Axis`.
///
/// Kernels for all other strides take at most three reduced and three other axes, 2^31 results, and 2^31
/// positions on each reduced axis. One reduced axis may have more: the one with the largest stride, or
/// the first one for operations that use indices. [`Reducer::reduce`](crate::Reducer::reduce) takes more
/// axes of a view without gaps if elements have 1, 2, 4 or 8 bytes: it copies the elements on the
/// device, once for each run of neighbouring reduced axes, and reduces the rows of the last copy.
pub struct Along<'a, T> {
    view: View<'a, T>,
    reduced: [bool; MOST_AXES],
}

impl<T> Clone for Along<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Along<'_, T> {}

impl<T: Plain> fmt::Debug for Along<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (view, reduced) = self.parts();
        f.debug_struct("Along").field("view", view).field("reduced", &reduced).finish()
    }
}

impl<'a, T: Plain> Along<'a, T> {
    /// Returns the number of results.
    pub fn count(&self) -> usize {
        self.view.product(|axis| !self.reduced[axis])
    }

    pub(crate) fn buffer(&self) -> &'a Buffer<T> {
        self.view.buffer
    }

    /// Returns the view, and whether each of its axes is reduced.
    pub(crate) fn parts(&self) -> (&View<'a, T>, &[bool]) {
        (&self.view, &self.reduced[..self.view.count])
    }

    /// Returns whether the kernels take the numbers of reduced axes and of other axes.
    pub(crate) fn has_few_axes(&self, is_indexed: bool) -> bool {
        let axes = [self.axes(false).by_strides(), self.reduced_axes(is_indexed)];
        axes.iter().all(|axes| axes.as_slice().len() <= MOST_ON_DEVICE)
    }

    pub(crate) fn task(&self, code: Code, device: &Device) -> Result<AnyTask> {
        let View { buffer, offset, .. } = self.view;
        let ElementRange { code, n, address } =
            ElementRange::within(code, buffer, offset, self.view.len(), device)?;
        if n == 0 {
            // Any empty task will do.
            return Ok(RowsTask { code, rows: 0, len: 1, pitch: 1, address }.task());
        }
        let (kept, reduced) = (self.axes(false), self.reduced_axes(code.is_indexed()));
        let results = kept.positions();
        let task = match (kept.as_slice(), reduced.as_slice()) {
            // Results of one element each match, too: their reduced axis has length and stride 1.
            (&[], &[Dim { len, stride: 1, .. }]) => {
                RowsTask { code, rows: 1, len, pitch: len, address }.task()
            }
            (&[Dim { len: rows, stride: pitch, .. }], &[Dim { len, stride: 1, .. }]) => {
                RowsTask { code, rows, len, pitch, address }.task()
            }
            (&[Dim { len: width, stride: 1, .. }], &[Dim { len, stride: pitch, .. }]) => {
                AxisTask { code, matrices: 1, apart: 0, len, pitch, width, address }.task()
            }
            (
                &[Dim { len: matrices, stride: apart, .. }, Dim { len: width, stride: 1, .. }],
                &[Dim { len, stride: pitch, .. }],
            ) => AxisTask { code, matrices, apart, len, pitch, width, address }.task(),
            _ => {
                let (kept, reduced) = (kept.by_strides().on_device()?, reduced.on_device()?);
                AnyTask::View(ViewTask { code, kept, reduced, results, len: n / results, address })
            }
        };
        Ok(task)
    }

    /// Returns the reduced axes, sorted by stride unless the operation uses indices, which count
    /// positions in the order of the axes.
    fn reduced_axes(&self, is_indexed: bool) -> Axes<MOST_AXES> {
        let axes = self.axes(true);
        if is_indexed { axes } else { axes.by_strides() }
    }

    /// Returns the reduced axes or the others, merged where their positions are equally spaced.
    fn axes(&self, reduced: bool) -> Axes<MOST_AXES> {
        let View { count, lens, strides, .. } = self.view;
        let chosen = (0..count).filter(|&axis| self.reduced[axis] == reduced);
        Axes::new(chosen.map(|axis| (lens[axis] as u64, strides[axis] as u64)), reduced)
    }
}

/// A reduction along some axes of a nonempty strided array in device memory.
#[derive(Debug, Clone)]
pub(crate) struct ViewTask {
    pub(crate) code: Code,
    /// The axes on which each position has a result.
    pub(crate) kept: Axes<MOST_ON_DEVICE>,
    pub(crate) reduced: Axes<MOST_ON_DEVICE>,
    pub(crate) results: u64,
    /// Elements per result.
    pub(crate) len: u64,
    /// A multiple of an element's size.
    pub(crate) address: u64,
}

impl<T: Plain, O: RowsOperation<T>> Input<O> for Along<'_, T> {
    type Output = Vec<O::Left>;

    fn reduce(self, op: O, reducer: &Reducer) -> Result<Self::Output> {
        match reducer.gathered_rows(&self, &op.code())? {
            Some(rows) => reducer.reduce(op, rows.rows(rows.len() / self.count())?),
            None => reducer.run(self.plan(op, reducer.device())?),
        }
    }

    by_plan!(prepare O);
}

impl<T: Plain, O: RowsOperation<T>> Enqueue<O> for Along<'_, T> {
    type Left = Outputs<O::Left>;

    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
    where
        Self: 'p,
    {
        let task = self.task(op.code(), device)?;
        let refused = |reason| Error::View { reason };
        Ok(Plan::of_several(task, self.buffer(), self.count(), ("results of a view", refused)))
    }
}
