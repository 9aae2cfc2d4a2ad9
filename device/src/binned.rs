//! Order-independent sums of floats across threads.
//!
//! [`warpfold_abi::binned`] defines the sums and their computation in a thread. This module makes
//! [`Partial`] a [`Value`] and declares [`Merge`], with which collectives add partial sums.

use warpfold_abi::binned::{Each, Partial, Sums};

use crate::{
    Value,
    op::{Number, Operation, Or},
};

impl<S: Sums> Value for Partial<S> {
    const WORDS: u32 = Self::WORDS;

    #[inline(always)]
    fn give(self, to: &mut impl FnMut(u32)) {
        let _ = Self::map_words(self, &mut |word| {
            to(word);
            word
        });
    }

    #[inline(always)]
    fn take(from: &mut impl FnMut() -> u32) -> Self {
        Self::map_words(Self::ZERO, &mut |_| from())
    }

    #[inline(always)]
    fn map_words(self, through: &mut impl FnMut(u32) -> u32) -> Self {
        Self::map_words(self, through)
    }
}

/// Addition of partial sums.
#[derive(Debug, Clone, Copy)]
pub struct Merge;

impl<S: Sums> Operation<Partial<S>> for Merge {
    const IDENTITY: Partial<S> = Partial::ZERO;

    #[inline(always)]
    fn combine(a: Partial<S>, b: Partial<S>) -> Partial<S> {
        a.plus(b)
    }

    /// Raises all lanes' sums to the highest of their first bins, so that digits add as integers.
    #[inline(always)]
    unsafe fn combine_warp(value: Partial<S>, members: u32) -> Option<Partial<S>> {
        // SAFETY: all lanes in `members` call it together, as the caller guarantees.
        unsafe {
            let bin = value.bin.greatest_of_warp(members)?;
            let specials = Or::combine_warp(value.specials, members)?;
            let sums = S::map(value.behind(bin).digits, &mut OfWarp(members));
            Some(Partial { digits: S::of_lanes(sums), bin, specials })
        }
    }
}

/// Sums integers over the lanes in this mask.
struct OfWarp(u32);

impl Each for OfWarp {
    #[inline(always)]
    fn double(&mut self, number: i64) -> i64 {
        // SAFETY: only `combine_warp` constructs this; its caller guarantees that all lanes take part.
        unsafe { number.sum_of_warp(self.0) }.unwrap_or(number)
    }

    #[inline(always)]
    fn single(&mut self, number: i32) -> i32 {
        // SAFETY: same as in `double`.
        unsafe { number.sum_of_warp(self.0) }.unwrap_or(number)
    }
}
