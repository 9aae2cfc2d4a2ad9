//! A transpose whose threads move elements directly from rows of the input to columns of the output.
//!
//! Shows **uncoalesced writes**: a warp reads 32 adjacent elements of a row, and writes them `height`
//! elements apart, each to its own sector.
//!
//! - Launch: blocks of 32 by 8 threads, each for a tile of 32 by 32; `block_idx_x` selects columns.
//! - Steps: each warp reads 32 elements of each of four rows, then writes them to four columns.
//! - Result: `output[x * height + y] = input[y * width + x]`; any width and height.
//! - Barriers: none. Shared memory: none.
//! - The profiler shows: 4 sectors per load request of 4-byte elements, 32 per store request.
//!
//! Source: write-up C of docs/sources.md.
//! Section: `docs/movements.md#transpose_naive`. CUDA C twin: `cuda/transpose_naive.cu`.

use super::{
    entries,
    tile::{self, TURNS},
};
use crate::prelude::*;
use warpfold_abi::arguments::Transpose;

entries!(transpose_naive(Transpose) for f32 f64);

/// # Safety
/// `input` has `width` · `height` readable elements and `output` as many writable ones; the two do not
/// overlap. Blocks have 32 by 8 threads, and the grid covers the matrix.
#[inline(always)]
unsafe fn transpose_naive<T: Word>(Transpose { input, width, height, output }: Transpose<T>) {
    let (left, top) = tile::corner();
    let x = left + u64::from(thread_idx_x());
    // All reads precede the first write, to have several loads in flight. The compiler would not reorder
    // them, because it cannot prove that the matrices do not overlap.
    // ladder: move
    let elements: [_; TURNS as usize] = core::array::from_fn(|turn| {
        let y = top + u64::from(tile::row(turn as u32));
        // SAFETY: (x, y) is inside the input.
        (x < width && y < height).then(|| unsafe { *input.add((y * width + x) as usize) })
    });
    // ladder: end
    // ladder: move
    for turn in 0..TURNS {
        let y = top + u64::from(tile::row(turn));
        if let Some(element) = elements[turn as usize] {
            // SAFETY: (x, y) is inside the input, so (y, x) is inside the output.
            unsafe { *output.add((x * height + y) as usize) = element };
        }
    }
    // ladder: end
}
