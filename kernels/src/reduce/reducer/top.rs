//! The orders of the top-k kernels.

use core::marker::PhantomData;

use warpfold_device::{
    op,
    reduction::{Order, Vector},
};

use super::{
    item::{Item, Ordered},
    op::Extreme,
};

/// The order that begins with the most extreme element; NaN comes before all numbers.
pub(super) struct TopOf<T, E>(PhantomData<(T, E)>);
pub(super) type Largest<T> = TopOf<T, op::Max>;
pub(super) type Smallest<T> = TopOf<T, op::Min>;

pub(super) trait Ranks<A: Ordered>: Extreme<A> {
    /// Returns a key that is larger than that of any value which `a` [beats](Extreme::beats).
    fn key(a: A) -> A::Key;
}

impl<A: Ordered> Ranks<A> for op::Min {
    #[inline(always)]
    fn key(a: A) -> A::Key {
        a.descending()
    }
}

impl<A: Ordered> Ranks<A> for op::Max {
    #[inline(always)]
    fn key(a: A) -> A::Key {
        a.ascending()
    }
}

impl<T: Item, E: Ranks<T::Wide>> Order for TopOf<T, E> {
    type Element = T;
    type Key = <T::Wide as Ordered>::Key;

    #[inline(always)]
    fn key(element: T) -> Self::Key {
        E::key(element.wide())
    }

    #[inline(always)]
    fn largest(group: Vector) -> Self::Key {
        E::key(T::extreme::<E>(group))
    }
}
