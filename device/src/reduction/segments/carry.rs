//! Carries: partial results of segments that continue past a block's end, for later blocks.

use warpfold_abi::{arguments::ReduceSegments, reducer::PRESENT};

use super::super::{
    VectorReduction,
    partial::{Cells, leave, publish, take, wait_until_equal},
};
use crate::thread::grid_dim_x;

/// Returns the distance between folding blocks: half of `ring`, the number of slots. A folding block
/// combines the carries of the blocks before it into its own, if no segment ends in it.
#[inline(always)]
pub(super) fn joining(ring: u64) -> u32 {
    Ord::max(ring as u32 / 2, 1)
}

/// Returns the quotient and the remainder; `by` is not 0. Some compilers guard `/` and `%` with a trap,
/// even for the divisor `max(x, 1)`, and a thread that may trap misses the barriers that follow.
#[inline(always)]
pub(super) fn divided(number: u32, by: u32) -> (u32, u32) {
    (number.checked_div(by).unwrap_or(0), number.checked_rem(by).unwrap_or(0))
}

/// Returns the first block before this one that still has a [carry](self) of the segment that began in
/// block `began`, or this block if there is none.
#[inline(always)]
pub(super) fn first_open(began: u32, number: u32, ring: u64) -> u32 {
    let every = joining(ring);
    // The last block before this one that folds carries, if any.
    let joined = (divided(number, every).0 * every).wrapping_sub(1);
    if number >= every { Ord::max(began, joined) } else { began }
}

/// Combines the [carries](self) of blocks `first`, `first + step`, ... before `end`.
///
/// # Safety
/// Same as [`segments`](super::segments()); each block's carry is taken by only one thread, of a later
/// block.
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
        // SAFETY: block `other`, an earlier one, publishes a carry, and no other thread takes it.
        let theirs = unsafe { take(cells, is_theirs, turn.left(ring)) };
        value = F::combine(value, theirs);
        other += step;
    }
    value
}

/// A block's turn at a slot, which several blocks use one after the other. The slot's cells are zero
/// before the first turn and after the last one. In between, the upper half of a cell holds the turn's
/// number and whether the block's value is present. The number tells a cell that is free for a block
/// from one that the previous block has not filled yet.
#[derive(Clone, Copy)]
struct Turn {
    block: u32,
    slot: u32,
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

    #[inline(always)]
    fn full(self) -> u64 {
        self.empty() + PRESENT
    }

    /// Returns the content of a cell after its value is taken: empty for the next block that uses the
    /// slot, or zero if there is none.
    #[inline(always)]
    fn left(self, ring: u64) -> u64 {
        let has_next = u64::from(self.block) + ring < u64::from(grid_dim_x());
        if has_next { self.full() + PRESENT } else { 0 }
    }
}

/// Waits for the block's [`Turn`]; then publishes its [carry](self) or, if it has none, ends the turn.
///
/// # Safety
/// Same as [`segments`](super::segments()), called by one thread of the block, once.
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
    // SAFETY: once the slot is empty for this turn, only this block fills it. The slot is emptied by its
    // previous user, `ring` blocks earlier, or by the block that takes that carry, at most `ring / 2`
    // blocks later. Both precede this block.
    unsafe {
        if turn.before > 0 {
            wait_until_equal::<F::Partial>(cells, turn.empty());
        }
        if is_open {
            publish(value, cells, turn.full());
        } else {
            leave::<F::Partial>(cells, turn.left(ring));
        }
    }
}
