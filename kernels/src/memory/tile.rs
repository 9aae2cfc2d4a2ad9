//! Tiles of the transposes: their positions, and the transposition through shared memory.

use crate::prelude::*;
use warpfold_abi::{
    arguments::Transpose,
    transpose::{ROWS, TILE},
};

pub(super) const TURNS: u32 = TILE / ROWS;

/// Returns the first column and row of this block's tile in the input.
#[inline(always)]
pub(super) fn corner() -> (u64, u64) {
    (u64::from(block_idx_x()) * u64::from(TILE), u64::from(block_idx_y()) * u64::from(TILE))
}

/// Returns the row, within the tile, of the element that this thread moves in iteration `turn`.
#[inline(always)]
pub(super) fn row(turn: u32) -> u32 {
    thread_idx_y() + turn * ROWS
}

/// An element type with a tile in shared memory whose rows are `PITCH` elements apart.
pub(super) trait Tiled<const PITCH: u32>: Word {
    fn tile() -> Shared<Self>;
}

macro_rules! tiles {
    ($($symbol:ident: $ty:ty, $pitch:literal;)*) => {$(
        mod $symbol {
            warpfold_device::shared_array! { fn tile: $symbol = [$ty; (super::TILE * $pitch) as usize] }

            impl super::Tiled<$pitch> for $ty {
                #[inline(always)]
                fn tile() -> super::Shared<Self> {
                    *tile()
                }
            }
        }
    )*};
}

// ladder: pitch
tiles! {
    transpose_shared_tile_f32: f32, 32;
    transpose_shared_tile_f64: f64, 32;
    transpose_padded_tile_f32: f32, 33;
    transpose_padded_tile_f64: f64, 33;
}
// ladder: end

/// Transposes through a tile in shared memory: copies rows of the input to rows of the tile, then
/// columns of the tile to rows of the output, so that both accesses of global memory are coalesced.
///
/// # Safety
/// `input` has `width` · `height` readable elements and `output` as many writable ones; the two do not
/// overlap. All threads of a block of `TILE` by `ROWS` call this. The grid has a block for each tile;
/// `block_idx_x` selects the tile's columns.
#[inline(always)]
pub(super) unsafe fn transpose<T: Tiled<PITCH>, const PITCH: u32>(
    Transpose { input, width, height, output }: Transpose<T>,
) {
    let ((left, top), tx) = (corner(), thread_idx_x());
    let tile = T::tile();
    // SAFETY: tx and ty are below TILE, and the `if`s keep (x, y) inside the matrices; the block barrier
    // separates writes from reads. Only written elements of the tile are read: element (x, y) of the
    // output is element (y, x) of the input, and one is inside its matrix exactly if the other is.
    unsafe {
        // ladder: through
        for ty in (0..TURNS).map(row) {
            let (x, y) = (left + u64::from(tx), top + u64::from(ty));
            if x < width && y < height {
                tile.set(ty * PITCH + tx, *input.add((y * width + x) as usize));
            }
        }
        sync_threads();
        // The tile's position in the output is transposed, and its columns are written as rows.
        for ty in (0..TURNS).map(row) {
            let (x, y) = (top + u64::from(tx), left + u64::from(ty));
            if x < height && y < width {
                *output.add((y * height + x) as usize) = tile.get(tx * PITCH + ty);
            }
        }
        // ladder: end
    }
}
