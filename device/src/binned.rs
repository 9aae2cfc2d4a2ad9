//! Binned sums of floats among threads: the same bits whoever adds which of them.
//!
//! What they are, and what a thread does, is in [`warpfold_abi::binned`]. Here is how threads and blocks
//! meet: a [`Partial`] is a [`Value`], and [`Merge`] the operation on it, for all collectives.

use warpfold_abi::binned::{Float, Partial};

use crate::{
    Value,
    op::{Number, Operation, Or},
};

impl<S: Float> Value for Partial<S> {
    const WORDS: u32 = Self::WORDS;

    #[inline(always)]
    fn give(self, to: &mut impl FnMut(u32)) {
        Self::map_words(self, &mut |word| {
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

/// The terms of two partial sums together.
#[derive(Debug, Clone, Copy)]
pub struct Merge;

impl<S: Float> Operation<Partial<S>> for Merge {
    const IDENTITY: Partial<S> = Partial::ZERO;

    #[inline(always)]
    fn combine(a: Partial<S>, b: Partial<S>) -> Partial<S> {
        a.plus(b)
    }

    /// Behind the same first bin in all lanes, digits are added like other integers.
    #[inline(always)]
    unsafe fn in_hardware(value: Partial<S>, members: u32) -> Option<Partial<S>> {
        // SAFETY: the caller's contract.
        unsafe {
            let bin = value.bin.greatest_of_warp(members)?;
            let specials = Or::in_hardware(value.specials, members)?;
            let sum = |digit: i64| digit.sum_of_warp(members).unwrap_or(digit);
            Some(Partial { digits: S::map(value.behind(bin).digits, sum), bin, specials })
        }
    }
}
