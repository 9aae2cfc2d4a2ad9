//! The `buffers` kernel, for the elements of several buffers.

use warpfold_abi::arguments::{ReduceBuffers, ReduceCut};

use super::{
    ACCUMULATORS, Scratch, Span, Team, VectorReduction, count as count_of,
    finish::finish_by,
    grid::{cut, no_elements, value},
    span,
};
use crate::grid::launch_dependents;

/// Reduces the elements of several buffers to one result, in one launch. An index counts from the first
/// element of the first buffer.
///
/// The elements of all buffers, one buffer after the other, are divided into tiles of the same size, so
/// that neither a few long buffers nor many short ones leave a part of the device idle. A block reads a
/// tile in rounds of the loads that its threads have in flight.
///
/// # Safety
/// The arguments are as their fields document. The slots are as for [`grid`](super::grid()). Blocks are
/// whole warps.
#[inline(always)]
pub unsafe fn buffers<F: VectorReduction>(arguments: ReduceBuffers<F::Element>, scratch: Scratch) {
    launch_dependents();
    let ReduceBuffers { count, tile, slots, output, form, ddof, .. } = arguments;
    let grid = Team::grid();
    let alone = Team { block: 0, blocks: 1, ..grid };
    let round = u64::from(ACCUMULATORS as u32 * grid.threads);
    // SAFETY: parts are inside their buffers; each has at most 30 single elements, fewer than a block
    // has threads. No launch writes the table. All threads of a block iterate equally often, and call
    // `finish_by` once. The result's element is readable, and the output has room.
    unsafe {
        let all = end_of(arguments, count - 1);
        let (mut kept, mut at) = (F::IDENTITY, 0);
        let mut begin = u64::from(grid.block) * tile;
        while begin < all {
            let (mut start, end) = (begin, Ord::min(begin + tile, all));
            at = buffer_of(arguments, start, at);
            while start < end {
                let cut = part(arguments, at, start, end);
                kept = F::combine(kept, value::<F>(ReduceCut { tile: round, ..cut }, alone, start));
                start += count_of(cut);
                at += 1;
            }
            // The next tile may begin in the last buffer of this one.
            at -= 1;
            begin += u64::from(grid.blocks) * tile;
        }
        let write = #[inline(always)]
        |value| {
            let (input, singles) = (arguments.input, all);
            let of = ReduceCut { input, singles, output, form, ddof, ..no_elements() };
            F::write_apart(value, of, |index| span_of(arguments, index));
        };
        finish_by::<F>(kept, slots, grid, scratch, write);
    }
}

/// Returns the elements of a buffer with the indices from `start` up to, but not including, `end`, or up
/// to the buffer's end.
///
/// # Safety
/// The buffer has an element with the index `start`.
#[inline(always)]
unsafe fn part<T: Copy>(arguments: ReduceBuffers<T>, buffer: u64, start: u64, end: u64) -> ReduceCut<T> {
    let ReduceBuffers { input, buffers, .. } = arguments;
    // SAFETY: the buffer exists, as the caller guarantees.
    let (bytes, before, last) = unsafe {
        (*buffers.add(2 * buffer as usize), start_of(arguments, buffer), end_of(arguments, buffer))
    };
    let first = input.wrapping_byte_add(bytes as usize).wrapping_add((start - before) as usize);
    cut(first, Ord::min(end, last) - start)
}

/// Returns the element with this index, or the vector that begins with it.
///
/// # Safety
/// There is an element with this index.
#[inline(always)]
unsafe fn span_of<T: Copy>(arguments: ReduceBuffers<T>, index: u64) -> Span<T> {
    // Not 0, but the compiler does not know that.
    let tile = Ord::max(arguments.tile, 1);
    let begin = index / tile * tile;
    // SAFETY: the element is in a buffer, and so is the first of its tile's elements in that buffer.
    let (cut, start) = unsafe {
        let buffer = buffer_of(arguments, index, 0);
        let start = Ord::max(start_of(arguments, buffer), begin);
        (part(arguments, buffer, start, begin + tile), start)
    };
    span(cut, index - start)
}

/// Returns the index of a buffer's first element.
///
/// # Safety
/// The buffer exists.
#[inline(always)]
unsafe fn start_of<T: Copy>(arguments: ReduceBuffers<T>, buffer: u64) -> u64 {
    // SAFETY: the buffer before an existing one exists.
    if buffer == 0 { 0 } else { unsafe { end_of(arguments, buffer - 1) } }
}

/// Returns the number of elements up to and including a buffer's last one.
///
/// # Safety
/// The buffer exists.
#[inline(always)]
unsafe fn end_of<T: Copy>(arguments: ReduceBuffers<T>, buffer: u64) -> u64 {
    // SAFETY: each buffer has two words.
    unsafe { *arguments.buffers.add(2 * buffer as usize + 1) }
}

/// Returns the buffer of the element with this index, which is `from` or a later one.
///
/// # Safety
/// There is an element with this index.
#[inline(always)]
unsafe fn buffer_of<T: Copy>(arguments: ReduceBuffers<T>, index: u64, mut from: u64) -> u64 {
    let mut to = arguments.count - 1;
    while from < to {
        let middle = (from + to) / 2;
        // SAFETY: the middle is less than the number of buffers.
        if unsafe { end_of(arguments, middle) } <= index {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}
