//! Carries: values of segments that are open at a block's end, for the block that closes them.

use warpfold_abi::{arguments::ReduceSegments, reducer::PRESENT};

use super::super::{
    VectorReduction,
    partial::{Cells, await_left, leave, publish, take},
};
use crate::thread::grid_dim_x;

/// Returns the distance of the blocks that fold in earlier carries, unless a segment ends in them.
#[inline(always)]
pub(super) fn joining(ring: u64) -> u32 {
    Ord::max(ring as u32 / 2, 1)
}

/// Divides by a number that is not 0. `/` and `%` by `max(x, 1)` would be guarded by a trap with some
/// compilers, and a thread that may stop there misses the barriers after it.
#[inline(always)]
pub(super) fn divided(number: u32, by: u32) -> (u32, u32) {
    (number.checked_div(by).unwrap_or(0), number.checked_rem(by).unwrap_or(0))
}

/// Returns the first block before this one that still has a carry of the segment that began in block
/// `began`, or this block if there is none.
#[inline(always)]
pub(super) fn first_open(began: u32, number: u32, ring: u64) -> u32 {
    let every = joining(ring);
    // The last block before this one that folds carries, if any.
    let joined = (divided(number, every).0 * every).wrapping_sub(1);
    if number >= every { Ord::max(began, joined) } else { began }
}

/// Combines the carries of blocks `first`, `first + step`, ... before `end`.
///
/// # Safety
/// As [`segments`](super::segments()); only one thread takes each block's carry, for a later block.
#[inline(always)]
pub(super) unsafe fn of_blocks<F: VectorReduction>(
    arguments: ReduceSegments<F::Element>,
    first: u32,
    end: u32,
    step: u32,
) -> F::Partial {
    let ReduceSegments { slots, ring, .. } = arguments;
    let mut value = F::IDENTITY;
    let mut other = first;
    while other < end {
        let turn = Turn::of(other, ring);
        let is_theirs = |cell: u64| cell >> 32 == turn.full() >> 32;
        let cells = Cells::of::<F::Partial>(slots, turn.slot);
        // SAFETY: a block before the caller's publishes its carry, and no other thread takes it.
        let theirs = unsafe { take(cells, is_theirs, turn.left(ring)) };
        value = F::combine(value, theirs);
        other += step;
    }
    value
}

/// A block's turn at a slot, which blocks use one after the other. A cell is zero first and last;
/// between, its upper half tells whose turn it is, and whether it has the block's value. Being empty is
/// not enough: the previous block may not have filled the cell yet.
#[derive(Clone, Copy)]
struct Turn {
    block: u32,
    slot: u32,
    /// Number of earlier turns.
    before: u32,
}

impl Turn {
    #[inline(always)]
    fn of(block: u32, ring: u64) -> Self {
        let (before, slot) = divided(block, Ord::max(ring as u32, 1));
        Self { block, slot, before }
    }

    #[inline(always)]
    fn empty(self) -> u64 {
        u64::from(2 * self.before) * PRESENT
    }

    /// Returns the mark of a cell with the value.
    #[inline(always)]
    fn full(self) -> u64 {
        self.empty() + PRESENT
    }

    /// Returns a cell after the value is taken: empty for the next block, or zero if there is none.
    #[inline(always)]
    fn left(self, ring: u64) -> u64 {
        let has_next = u64::from(self.block) + ring < u64::from(grid_dim_x());
        if has_next { self.full() + PRESENT } else { 0 }
    }
}

/// Publishes a block's carry, if it has one, as soon as the slot is free.
///
/// # Safety
/// As [`segments`](super::segments()), called by one thread of the block, once.
#[inline(always)]
pub(super) unsafe fn publish_carry<F: VectorReduction>(
    value: F::Partial,
    is_open: bool,
    arguments: ReduceSegments<F::Element>,
    number: u32,
) {
    let ReduceSegments { slots, ring, .. } = arguments;
    let turn = Turn::of(number, ring);
    let cells = Cells::of::<F::Partial>(slots, turn.slot);
    // SAFETY: the slot is this block's once it is empty for its turn. The block one ring before empties
    // it, or one that takes its carry, at most half a ring later; both are before this block.
    unsafe {
        if turn.before > 0 {
            await_left::<F::Partial>(cells, turn.empty());
        }
        if is_open {
            publish(value, cells, turn.full());
        } else {
            leave::<F::Partial>(cells, turn.left(ring));
        }
    }
}
