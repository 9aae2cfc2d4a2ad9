//! Sums, minima and maxima of the values of an expression, whose instructions the host inserts.

use core::marker::PhantomData;

use warpfold_device::{
    combined_by,
    expression::Mapped,
    op::{self, Operation},
    reduction::{Reduction, Unrolled},
};

use super::item::Item;

pub(super) struct MappedOf<T, E>(PhantomData<(T, E)>);
pub(super) type MappedSum<T> = Unrolled<MappedOf<T, op::Sum>>;
pub(super) type MappedMin<T> = Unrolled<MappedOf<T, op::Min>>;
pub(super) type MappedMax<T> = Unrolled<MappedOf<T, op::Max>>;

impl<T: Item<Total: Mapped>, E: Operation<T::Total> + 'static> Reduction for MappedOf<T, E> {
    type Element = T;
    type Partial = T::Total;
    type Output = T::Total;
    combined_by!(E);
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: T, _index: u64) -> T::Total {
        element.total().mapped()
    }

    #[inline(always)]
    fn finish(result: T::Total) -> T::Total {
        result
    }
}
