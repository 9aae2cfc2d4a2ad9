//! Reductions of all elements of a buffer, or of the first ones, whose number is in device memory.

mod count;
mod task;
mod together;

use std::convert::Infallible;

pub(crate) use count::CountAt;
pub use count::{Count, Counted};
pub(crate) use task::{ContinuedTask, CountedTask, choose_as_sum, plan};
pub(crate) use together::{MOST_TOGETHER, TogetherTask, together};

use super::{AnyTask, Enqueue, Input, Recordable, by_plan};
use crate::{
    Buffer, Device, Output, Plain, Result,
    op::{Operation, Operations, kind, sealed},
    reducer::{DeviceOutput, ElementRange, Plan},
};

/// A kind of operations that reduces a buffer's elements.
#[diagnostic::on_unimplemented(
    message = "`{O}` does not reduce a buffer of `{T}`",
    note = "`Dot` and `SquaredDistance` take a pair of buffers: `reduce(op, (&a, &b))`"
)]
pub trait ReduceElements<O, T: Plain> {
    type Output;
    type Left: DeviceOutput;

    fn plan<'p>(
        op: O,
        values: &'p Buffer<T>,
        count: Option<&'p Count<'p>>,
        device: &Device,
    ) -> Result<Plan<'p, Self::Output>>;
}

impl<T: Plain, O: Operation<T>> ReduceElements<O, T> for kind::Single {
    type Output = O::Output;
    type Left = Output<O::Left>;

    fn plan<'p>(
        op: O,
        values: &'p Buffer<T>,
        count: Option<&'p Count<'p>>,
        device: &Device,
    ) -> Result<Plan<'p, O::Output>> {
        let task = elements(ElementRange::of(op.code(), values, device)?, count.map(Count::at));
        let plan = Plan::of_one(task, values, |results| results.result::<T, O>(0), O::of_none);
        Ok(plan.counted(count))
    }
}

impl<T: Plain, O: Operations<T>> ReduceElements<O, T> for kind::Together {
    type Output = O::Output;
    type Left = Infallible;

    fn plan<'p>(
        op: O,
        values: &'p Buffer<T>,
        count: Option<&'p Count<'p>>,
        device: &Device,
    ) -> Result<Plan<'p, O::Output>> {
        let task =
            AnyTask::Together(TogetherTask::of(&op.codes(), values, count.map(Count::at), device)?);
        Ok(Plan::of_one(task, values, O::decode, O::of_none).counted(count))
    }
}

fn elements(range: ElementRange, count: Option<CountAt>) -> AnyTask {
    match count {
        None => AnyTask::Elements(range),
        Some(count) => AnyTask::Counted(CountedTask { range, count }),
    }
}

impl<T: Plain, O: sealed::Sealed<Kind: ReduceElements<O, T>>> Input<O> for &Buffer<T> {
    type Output = <O::Kind as ReduceElements<O, T>>::Output;

    by_plan!(O);
}

impl<T: Plain, O: sealed::Sealed<Kind: ReduceElements<O, T>>> Enqueue<O> for &Buffer<T> {
    type Left = <O::Kind as ReduceElements<O, T>>::Left;

    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
    where
        Self: 'p,
    {
        O::Kind::plan(op, self, None, device)
    }
}

impl<T> super::sealed::Input for &Buffer<T> {}
impl<T> super::sealed::Input for Counted<'_, T> {}
impl<T> Recordable for &Buffer<T> {}

impl<T: Plain, O: sealed::Sealed<Kind: ReduceElements<O, T> + Countable>> Input<O> for Counted<'_, T> {
    type Output = <O::Kind as ReduceElements<O, T>>::Output;

    by_plan!(O);
}

impl<T: Plain, O: sealed::Sealed<Kind: ReduceElements<O, T> + Countable>> Enqueue<O> for Counted<'_, T> {
    type Left = <O::Kind as ReduceElements<O, T>>::Left;

    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
    where
        Self: 'p,
    {
        device.require("count", self.count.device())?;
        O::Kind::plan(op, self.buffer, Some(self.count), device)
    }
}

/// A kind of operations that reduces [`Counted`] elements.
pub trait Countable {}

impl Countable for kind::Single {}
impl Countable for kind::Together {}
