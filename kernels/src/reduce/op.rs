//! The operations of all reductions but the reducer, and their requirements on element types.

use warpfold_device::{
    Word,
    atomic::{Atomic, Device, Relaxed},
    memory::Lanes16,
    op::{self, Number, Operation},
};

pub use warpfold_device::op::{Max, Min, Sum};

/// A type that can be reduced.
pub trait Element: Word + Number + Atomic + Lanes16 {}

impl<T: Word + Number + Atomic + Lanes16> Element for T {}

/// A map of each loaded element, and an associative, commutative operation that combines the results.
pub trait Reduction<T: Element>: Operation<T> {
    /// The operation as a value, which the collectives take.
    const OP: Self;
    /// Maps a loaded element. Not called for partial results.
    fn map(element: T) -> T;
    /// Combines a partial result atomically into memory.
    ///
    /// # Safety
    /// `address` must point to live global memory that is accessed only atomically.
    unsafe fn combine_atomically(address: *mut T, value: T);
}

/// Addition of the elements' squares.
#[derive(Debug, Clone, Copy)]
pub struct SumSq;

impl<T: Number> Operation<T> for SumSq {
    const IDENTITY: T = T::ZERO;

    #[inline(always)]
    fn combine(a: T, b: T) -> T {
        a.add(b)
    }

    #[inline(always)]
    unsafe fn combine_warp(value: T, members: u32) -> Option<T> {
        // SAFETY: the caller guarantees that the lanes in `members` call this together.
        unsafe { <op::Sum as Operation<T>>::combine_warp(value, members) }
    }
}

macro_rules! reductions {
    ($($name:ident: $map:expr, $atomic:ident;)*) => {$(
        impl<T: Element> Reduction<T> for $name {
            const OP: Self = Self;
            #[inline(always)]
            fn map(element: T) -> T {
                $map(element)
            }
            #[inline(always)]
            unsafe fn combine_atomically(address: *mut T, value: T) {
                // SAFETY: the caller guarantees live global memory that is accessed only atomically.
                unsafe { T::$atomic::<Relaxed, Device>(address, value) };
            }
        }
    )*};
}

reductions! {
    Sum: core::convert::identity, fetch_add;
    Min: core::convert::identity, fetch_min;
    Max: core::convert::identity, fetch_max;
    SumSq: T::square, fetch_add;
}
