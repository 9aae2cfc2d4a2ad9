//! The orders by which the first elements are found.

use core::marker::PhantomData;

use warpfold_device::{
    op,
    reduction::{Order, Vector},
};

use super::{
    item::{Item, Ordered},
    op::Extreme,
};

/// Elements from the most extreme one on, a NaN before all.
pub(super) struct TopOf<T, E>(PhantomData<(T, E)>);
/// From the largest one on.
pub(super) type Largest<T> = TopOf<T, op::Max>;
/// From the smallest one on.
pub(super) type Smallest<T> = TopOf<T, op::Min>;

/// An extreme that all elements are ordered by.
pub(super) trait Ranks<A: Ordered>: Extreme<A> {
    /// An unsigned integer that is the larger one of two exactly where `a` takes the place of `b`.
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
