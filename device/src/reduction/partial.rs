//! Partial results that blocks pass to each other.

use core::arch::asm;

use warpfold_abi::reducer::PRESENT;

use crate::{
    Value,
    atomic::{load_relaxed, store_relaxed},
};

/// The cells of a value, one per word: 8 bytes of device memory for the word and a mark.
#[derive(Clone, Copy)]
pub(super) struct Cells {
    first: *mut u64,
    apart: u32,
}

impl Cells {
    #[inline(always)]
    pub(super) fn of<P: Value>(slots: *mut u64, block: u32) -> Self {
        Self { first: slots.wrapping_add((block * P::given_words()) as usize), apart: 1 }
    }

    /// Returns the cells of thread `beside` of `across` neighbouring threads. Their cells are
    /// interleaved, so that a warp's access is coalesced.
    #[inline(always)]
    pub(super) fn interleaved<P: Value>(slots: *mut u64, block: u32, beside: u32, across: u32) -> Self {
        let first = block * P::given_words() * across + beside;
        Self { first: slots.wrapping_add(first as usize), apart: across }
    }

    /// Hides the distance between cells from the compiler, which would otherwise keep the addresses of
    /// all cells in registers across the loop that waits for them.
    #[inline(always)]
    fn addressed_anew(self) -> Self {
        if self.apart == 1 {
            return self;
        }
        let apart;
        // SAFETY: the instruction copies a register.
        unsafe {
            asm!("mov.u32 {0}, {1};", out(reg32) apart, in(reg32) self.apart, options(nomem, nostack, preserves_flags));
        }
        Self { apart, ..self }
    }

    #[inline(always)]
    fn at(self, word: u32) -> *mut u64 {
        self.first.wrapping_add((word * self.apart) as usize)
    }
}

/// Publishes a value. Each cell holds a word and a mark, [`PRESENT`] or a multiple of it, so that
/// neither a fence nor a counter is needed.
///
/// # Safety
/// There is a cell for each word; the cells are empty, and only one thread of the grid fills them.
#[inline(always)]
pub(super) unsafe fn publish<P: Value>(value: P, cells: Cells, mark: u64) {
    let mut word = 0;
    value.give(&mut |bits| {
        // SAFETY: the cell exists, and only this thread fills it, as the caller guarantees.
        unsafe { store_relaxed(cells.at(word), mark | u64::from(bits)) };
        word += 1;
    });
}

#[inline(always)]
pub(super) fn is_present(cell: u64) -> bool {
    cell & PRESENT != 0
}

/// # Safety
/// There is a cell for each word; the block that stores `left` does not wait for this one.
#[inline(always)]
pub(super) unsafe fn wait_until_equal<P: Value>(cells: Cells, left: u64) {
    let mut others = 1;
    while others != 0 {
        others = 0;
        for word in 0..P::given_words() {
            // SAFETY: the cell exists, as the caller guarantees.
            others |= unsafe { load_relaxed(cells.at(word)) } ^ left;
        }
    }
}

/// Stores `left`, which represents no value, in all cells.
///
/// # Safety
/// There is a cell for each word; no other thread writes them meanwhile.
#[inline(always)]
pub(super) unsafe fn leave<P: Value>(cells: Cells, left: u64) {
    let cells = cells.addressed_anew();
    for word in 0..P::given_words() {
        // SAFETY: the cell exists, and no other thread writes it meanwhile, as the caller guarantees.
        unsafe { store_relaxed(cells.at(word), left) };
    }
}

/// Waits until all cells have a mark, replaces their contents by `left` and returns the value.
///
/// # Safety
/// There is a cell for each word; only one thread of the grid takes the value, and the block that
/// publishes it does not wait for this one.
#[inline(always)]
pub(super) unsafe fn take<P: Value>(cells: Cells, has_mark: impl Fn(u64) -> bool, left: u64) -> P {
    // SAFETY: the cells exist, and only this thread takes their value, as the caller guarantees.
    unsafe {
        let value = loop {
            let (value, present) = peek(cells, &has_mark);
            if present {
                break value;
            }
        };
        leave::<P>(cells, left);
        value
    }
}

/// Returns the value in the cells, and whether all of them have a mark; if not, the value is incomplete.
///
/// # Safety
/// There is a cell for each word.
#[inline(always)]
pub(super) unsafe fn peek<P: Value>(cells: Cells, has_mark: impl Fn(u64) -> bool) -> (P, bool) {
    let (cells, mut present, mut word) = (cells.addressed_anew(), true, 0);
    let value = P::take(&mut || {
        // SAFETY: the cell exists, as the caller guarantees.
        let cell = unsafe { load_relaxed(cells.at(word)) };
        word += 1;
        present &= has_mark(cell);
        cell as u32
    });
    (value, present)
}
