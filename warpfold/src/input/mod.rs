//! The kinds of input: one module each, with the tasks that launch its kernels.

pub(crate) mod axis;
pub(crate) mod buffer;
pub(crate) mod buffers;
pub(crate) mod filtered;
pub(crate) mod pairs;
pub(crate) mod rows;
pub(crate) mod runs;
pub(crate) mod segments;
mod task;
pub(crate) mod top;
pub(crate) mod view;

#[cfg(doc)]
use runs::{Keyed, KeyedInto};
pub(crate) use task::{AnyTask, Task};
use {axis::Axis, filtered::Filtered, rows::Rows, view::Along};

#[cfg(doc)]
use std::convert::Infallible;

#[cfg(doc)]
use crate::{
    Buffer, ByKey, Counted, Output, Outputs, Within,
    op::{Operation, Operations, PairOperation, RowsOperation, Sum, TopK},
};
use crate::{
    Device, Plain, Result,
    reducer::{DeviceOutput, Plan, Reducer},
};

/// An input of [`Reducer::reduce`]: elements in device memory, in a shape that determines the results.
///
/// | input | made by | operations | result |
/// |---|---|---|---|
/// | `&Buffer` | [`Device::upload`] | [`Operation`], [tuples](Operations), [`TopK`] | one, a tuple, k |
/// | `&Buffers` | [`Buffers::new`](crate::Buffers::new) | [`Operation`] | one |
/// | [`Counted`] | [`Buffer::counted`] | [`Operation`], [tuples](Operations) | one, a tuple |
/// | [`Filtered`] | [`Buffer::filter`] | [`Sum`], `Sum.reproducible()` | one [`Within`] |
/// | `(&Buffer, &Buffer)` | | [`PairOperation`] | one |
/// | [`Rows`] | [`Buffer::rows`] | [`RowsOperation`], [tuples](Operations), [`TopK`] | one, a tuple or k for each row |
/// | [`Axis`] | [`Buffer::axis`], [`Buffer::columns`] | [`RowsOperation`] | one for each kept position |
/// | [`Along`] | [`View::along`](crate::View::along) | [`RowsOperation`] | one for each kept position |
/// | `&Segments` | [`Reducer::segments`] | [`RowsOperation`] | one for each segment |
/// | [`Keyed`] | [`Buffer::by_key`] | [`RowsOperation`] | a [`ByKey`]: one for each run of equal keys |
/// | [`KeyedInto`] | [`Keyed::into_outputs`] | [`RowsOperation`] | the number of runs |
///
/// A [`RowsOperation`] is every [`Operation`] but [`WrappingSum`](crate::op::WrappingSum). [`Rows`],
/// [`Axis`], [`Along`] and [`Filtered`] are accepted by value and by reference. The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{O}` does not reduce `{Self}`",
    note = "`&Buffer` and `Counted`: any operation or tuple; `&Buffers`: any operation; `Rows`, `Axis`, `Along`, `&Segments`, \
            `Keyed`: any operation but `WrappingSum`; `Rows`: any tuple; `&Buffer` and `Rows`: `Largest` and `Smallest`; \
            `(&a, &b)`: `Dot` and `SquaredDistance`; `Filtered`: `Sum` and `Sum.reproducible()`"
)]
pub trait Input<O>: sealed::Input + Sized {
    /// The result on the host.
    type Output;

    #[doc(hidden)]
    fn reduce(self, op: O, reducer: &Reducer) -> Result<Self::Output>;

    #[doc(hidden)]
    fn prepare(self, op: O, reducer: &Reducer) -> Result<()>;
}

pub(crate) mod sealed {
    pub trait Input {}
}

/// An input that the host can enqueue without waiting, as [`OnStream`](crate::OnStream) requires: every
/// [`Input`] except [`Keyed`] and [`KeyedInto`].
#[diagnostic::on_unimplemented(
    message = "`{O}` does not reduce `{Self}` on a stream",
    note = "inputs by key are reduced by `Reducer::reduce` alone, which waits for the number of runs; for \
            others, `Input` says which operations each takes"
)]
pub trait Enqueue<O>: Input<O> {
    /// The result in device memory: an [`Output`] for one result, [`Outputs`] for several, and
    /// [`Infallible`] for tuples, whose results are on the host only.
    type Left: DeviceOutput;

    #[doc(hidden)]
    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
    where
        Self: 'p;
}

/// Implements the methods of [`Input`] by [`Enqueue::plan`].
macro_rules! by_plan {
    ($O:ty) => {
        fn reduce(self, op: $O, reducer: &crate::Reducer) -> crate::Result<Self::Output> {
            reducer.run(self.plan(op, reducer.device())?)
        }

        crate::input::by_plan!(prepare $O);
    };
    (prepare $O:ty) => {
        fn prepare(self, op: $O, reducer: &crate::Reducer) -> crate::Result<()> {
            reducer.prepare_task(&self.plan(op, reducer.device())?.task)
        }
    };
}
pub(crate) use by_plan;

/// An input whose number of elements is fixed, as a [`Recorder`](crate::Recorder) requires: every
/// [`Enqueue`] except [`Counted`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be recorded",
    note = "counted buffers and inputs by key cannot: reduce the former on a stream, the latter by \
            `Reducer::reduce`"
)]
pub trait Recordable {}

macro_rules! by_reference {
    ($($Shape:ident)*) => {$(
        impl<'a, T: Plain, O> Input<O> for &$Shape<'a, T>
        where
            $Shape<'a, T>: Input<O>,
        {
            type Output = <$Shape<'a, T> as Input<O>>::Output;

            fn reduce(self, op: O, reducer: &Reducer) -> Result<Self::Output> {
                (*self).reduce(op, reducer)
            }

            fn prepare(self, op: O, reducer: &Reducer) -> Result<()> {
                (*self).prepare(op, reducer)
            }
        }

        impl<'a, T: Plain, O> Enqueue<O> for &$Shape<'a, T>
        where
            $Shape<'a, T>: Enqueue<O>,
        {
            type Left = <$Shape<'a, T> as Enqueue<O>>::Left;

            fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
            where
                Self: 'p,
            {
                (*self).plan(op, device)
            }
        }

        impl<T> sealed::Input for $Shape<'_, T> {}
        impl<T> sealed::Input for &$Shape<'_, T> {}
        impl<T> Recordable for $Shape<'_, T> {}
        impl<T> Recordable for &$Shape<'_, T> {}
    )*};
}

by_reference!(Rows Axis Along Filtered);
