//! Partial results on their way from block to block.

use warpfold_abi::reducer::PRESENT;

use crate::{
    Value,
    atomic::{load_relaxed, store_relaxed},
};

/// Gives the partial result of block `block` to whoever takes it. A word travels in one cell with a mark
/// that it is there, so that neither a fence nor a counter is needed.
///
/// # Safety
/// `slots` has a cell for each word of each block's value; the block's cells are empty,
/// and one thread of the grid fills them.
#[inline(always)]
pub(super) unsafe fn publish<P: Value>(value: P, slots: *mut u64, block: u32) {
    let mut at = block * P::WORDS;
    value.give(&mut |word| {
        // SAFETY: the caller's contract.
        unsafe { store_relaxed(slots.add(at as usize), PRESENT | u64::from(word)) };
        at += 1;
    });
}

/// Waits for what block `block` publishes, and leaves its cells empty.
///
/// # Safety
/// `slots` has a cell for each word of each block's value; one thread of the grid takes
/// the block's value, and that block publishes it without waiting for this one.
#[inline(always)]
pub(super) unsafe fn take<P: Value>(slots: *mut u64, block: u32) -> P {
    let cells = slots.wrapping_add((block * P::WORDS) as usize);
    let value = loop {
        let (mut present, mut at) = (PRESENT, 0);
        let value = P::take(&mut || {
            // SAFETY: the caller's contract.
            let cell = unsafe { load_relaxed(cells.add(at)) };
            at += 1;
            present &= cell;
            cell as u32
        });
        if present != 0 {
            break value;
        }
    };
    for at in 0..P::WORDS as usize {
        // SAFETY: the caller's contract: the cells were filled, and are not filled again in this launch.
        unsafe { store_relaxed(cells.add(at), 0) };
    }
    value
}
