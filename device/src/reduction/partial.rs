//! Partial results on their way from block to block.

use warpfold_abi::reducer::PRESENT;

use crate::{
    Value,
    atomic::{load_relaxed, store_relaxed},
};

/// Gives the partial result of block `block` to whoever takes it. A word travels in one cell with a mark
/// that it is there, [`PRESENT`] or a multiple of it, so that neither a fence nor a counter is needed.
///
/// # Safety
/// `slots` has a cell for each word of each block's value; the block's cells are empty,
/// and one thread of the grid fills them.
#[inline(always)]
pub(super) unsafe fn publish<P: Value>(value: P, slots: *mut u64, block: u32, mark: u64) {
    let mut at = block * P::WORDS;
    value.give(&mut |word| {
        // SAFETY: the caller's contract.
        unsafe { store_relaxed(slots.add(at as usize), mark | u64::from(word)) };
        at += 1;
    });
}

/// Whether a mark is that of a block that publishes once.
#[inline(always)]
pub(super) fn is_present(cell: u64) -> bool {
    cell & PRESENT != 0
}

/// Waits until all cells of block `block` are as somebody leaves them.
///
/// # Safety
/// `slots` has [`SLOT_BYTES`](warpfold_abi::reducer::SLOT_BYTES) per block; who leaves them so does not
/// wait for this block.
#[inline(always)]
pub(super) unsafe fn await_left<P: Value>(slots: *const u64, block: u32, left: u64) {
    let cells = slots.wrapping_add((block * P::WORDS) as usize);
    let mut others = 1;
    while others != 0 {
        others = 0;
        for at in 0..P::WORDS as usize {
            // SAFETY: the caller's contract.
            others |= unsafe { load_relaxed(cells.add(at)) } ^ left;
        }
    }
}

/// Leaves all cells of block `block` without a value.
///
/// # Safety
/// `slots` has [`SLOT_BYTES`](warpfold_abi::reducer::SLOT_BYTES) per block; nobody else writes the cells
/// meanwhile.
#[inline(always)]
pub(super) unsafe fn leave<P: Value>(slots: *mut u64, block: u32, left: u64) {
    for at in 0..P::WORDS {
        // SAFETY: the caller's contract.
        unsafe { store_relaxed(slots.add((block * P::WORDS + at) as usize), left) };
    }
}

/// Waits for what block `block` publishes, by cells that have a mark, and leaves them as is said.
///
/// # Safety
/// `slots` has a cell for each word of each block's value; one thread of the grid takes
/// the block's value, and that block publishes it without waiting for this one.
#[inline(always)]
pub(super) unsafe fn take<P: Value>(
    slots: *mut u64,
    block: u32,
    has_mark: impl Fn(u64) -> bool,
    left: u64,
) -> P {
    // SAFETY: the caller's contract: the cells were filled, and are not filled again before this.
    unsafe {
        let value = loop {
            let (value, present) = peek(slots, block, &has_mark);
            if present {
                break value;
            }
        };
        leave::<P>(slots, block, left);
        value
    }
}

/// What the cells of block `block` hold, and whether all of them have a mark; else it is no value yet.
///
/// # Safety
/// `slots` has a cell for each word of each block's value.
#[inline(always)]
pub(super) unsafe fn peek<P: Value>(
    slots: *const u64,
    block: u32,
    has_mark: impl Fn(u64) -> bool,
) -> (P, bool) {
    let cells = slots.wrapping_add((block * P::WORDS) as usize);
    let (mut present, mut at) = (true, 0);
    let value = P::take(&mut || {
        // SAFETY: the caller's contract.
        let cell = unsafe { load_relaxed(cells.add(at)) };
        at += 1;
        present &= has_mark(cell);
        cell as u32
    });
    (value, present)
}
