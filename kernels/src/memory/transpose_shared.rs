//! A transpose through a tile of 32 by 32 in shared memory: rows are read, and rows are written.
//!
//! Removes the **uncoalesced writes**: the elements are transposed between writing the tile's rows and
//! reading its columns. A row of the tile has 32 elements, as many as there are banks, so a column is in
//! one bank. Reading it takes one wavefront per lane: 32-way **bank conflicts**.
//!
//! - Launch: blocks of 32 by 8 threads, each for a tile of 32 by 32; `block_idx_x` selects columns.
//! - Steps: four times: store an element of a row to the tile; barrier; four times: load an element of a
//!   column of the tile and write it to a row of the output, at the transposed position.
//! - Result: `output[x * height + y] = input[y * width + x]`; any width and height.
//! - Barriers: 1. Shared memory: 1024 elements, static, with bank conflicts on reading.
//! - The profiler shows: 4 sectors per request of 4-byte elements both ways; 32 shared wavefronts per
//!   load request.
//!
//! Source: write-up C of docs/sources.md.
//! Section: `docs/movements.md#transpose_shared`. CUDA C twin: `cuda/transpose_shared.cu`.

use super::{
    entries,
    tile::{self, Tiled},
};
use warpfold_abi::arguments::Transpose;

entries!(transpose_shared(Transpose) for f32 f64);

/// # Safety
/// `input` has `width` · `height` readable elements and `output` as many writable ones; the two do not
/// overlap. Blocks have 32 by 8 threads, and the grid covers the matrix.
#[inline(always)]
unsafe fn transpose_shared<T: Tiled<32>>(matrix: Transpose<T>) {
    // SAFETY: the caller guarantees the matrices, the block size and the grid, as `transpose` requires.
    unsafe { tile::transpose(matrix) };
}
