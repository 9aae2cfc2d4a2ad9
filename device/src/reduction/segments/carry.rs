//! What is open at a block's end, on its way to the block that closes it.

use warpfold_abi::{arguments::ReduceSegments, reducer::PRESENT};

use super::super::{
    VectorReduction,
    partial::{Cells, await_left, leave, publish, take},
};
use crate::thread::grid_dim_x;

/// Every so manieth block without an end joins the values of those before it.
#[inline(always)]
pub(super) fn joining(ring: u64) -> u32 {
    Ord::max(ring as u32 / 2, 1)
}

/// Quotient and remainder by a number that is not 0, which not every compiler sees of the larger one of
/// something and 1. `/` and `%` would be guarded then by a trap, and a thread that may stop there misses
/// the barriers behind it.
#[inline(always)]
pub(super) fn divided(number: u32, by: u32) -> (u32, u32) {
    (number.checked_div(by).unwrap_or(0), number.checked_rem(by).unwrap_or(0))
}

/// The first of the blocks before this one that have values of the segment that began in block `began`,
/// and have not handed them to another; this block where there are none.
#[inline(always)]
pub(super) fn first_open(began: u32, number: u32, ring: u64) -> u32 {
    let every = joining(ring);
    // The last one before this that joins, if there is one.
    let joined = (divided(number, every).0 * every).wrapping_sub(1);
    if number >= every { Ord::max(began, joined) } else { began }
}

/// What blocks have of the segment that is open at their ends: of every `step`th of them from one on.
///
/// # Safety
/// As [`segments`](super::segments()); one thread of the grid takes each block's value, for a later
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
        // SAFETY: a block before the caller's publishes what is open at its end, and nobody else takes
        // it.
        let theirs = unsafe { take(cells, is_theirs, turn.left(ring)) };
        value = F::combine(value, theirs);
        other += step;
    }
    value
}

/// A block's turn at a slot, which blocks have one after the other. A cell is zero at first and at last;
/// between it tells by its upper half whose turn it is, and whether it has the block's value. It would
/// not be enough that it has none: the block before may not have come to it yet.
#[derive(Clone, Copy)]
struct Turn {
    block: u32,
    slot: u32,
    /// Blocks that had the slot before.
    before: u32,
}

impl Turn {
    #[inline(always)]
    fn of(block: u32, ring: u64) -> Self {
        let (before, slot) = divided(block, Ord::max(ring as u32, 1));
        Self { block, slot, before }
    }

    /// A cell before the block's value is in it.
    #[inline(always)]
    fn empty(self) -> u64 {
        u64::from(2 * self.before) * PRESENT
    }

    /// The upper half of a cell with its value.
    #[inline(always)]
    fn full(self) -> u64 {
        self.empty() + PRESENT
    }

    /// A cell when the value is out of it: empty for the next block, and zero if there is none.
    #[inline(always)]
    fn left(self, ring: u64) -> u64 {
        let has_next = u64::from(self.block) + ring < u64::from(grid_dim_x());
        if has_next { self.full() + PRESENT } else { 0 }
    }
}

/// Publishes what is open at the end of a block, if something is, when the slot is the block's.
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
    // SAFETY: the slot is this block's own from the time on when it is empty for it. Whoever leaves it
    // so is the block a ring before, or closes or joins that one, half a ring behind it at most: it is
    // before this one, too.
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
