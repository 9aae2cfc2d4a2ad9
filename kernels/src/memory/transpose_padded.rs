//! `transpose_shared` with rows of the tile 33 elements apart.
//!
//! Removes the **bank conflicts**: the unused 33rd column shifts each row by one bank, so that the
//! elements of a column are in 32 different banks.
//!
//! - Launch, steps and result: as `transpose_shared`.
//! - Barriers: 1. Shared memory: 1056 elements, static. No bank conflicts.
//! - The profiler shows: one shared wavefront per load request of 4-byte elements, two of 8-byte ones.
//!
//! Source: write-up C of docs/sources.md.
//! Section: `docs/movements.md#transpose_padded`. CUDA C twin: `cuda/transpose_padded.cu`.

use super::{
    entries,
    tile::{self, Tiled},
};
use warpfold_abi::arguments::Transpose;

entries!(transpose_padded(Transpose) for f32 f64);

/// # Safety
/// `input` has `width` · `height` readable elements and `output` as many writable ones; the two do not
/// overlap. Blocks have 32 by 8 threads, and the grid covers the matrix.
#[inline(always)]
unsafe fn transpose_padded<T: Tiled<33>>(matrix: Transpose<T>) {
    // SAFETY: the caller guarantees the matrices, the block size and the grid, as `transpose` requires.
    unsafe { tile::transpose(matrix) };
}
