//! What the transposes share: where a block's tile lies, and the way through shared memory.

use crate::prelude::*;
use warpfold_abi::{
    arguments::Transpose,
    transpose::{ROWS, TILE},
};

/// Elements that each thread moves.
pub(super) const TURNS: u32 = TILE / ROWS;

/// Column and row of the input at which this block's tile begins.
#[inline(always)]
pub(super) fn corner() -> (u64, u64) {
    (u64::from(block_idx_x()) * u64::from(TILE), u64::from(block_idx_y()) * u64::from(TILE))
}

/// Row of the tile, in the input or in the output, that this thread has a part in at a turn: the element
/// of column `thread_idx`.
#[inline(always)]
pub(super) fn row(turn: u32) -> u32 {
    thread_idx_y() + turn * ROWS
}

/// An element type with a tile in shared memory whose rows are `PITCH` elements apart.
pub(super) trait Tiled<const PITCH: u32>: Word {
    /// Gives the tile of the block.
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

/// Transposes through a tile in shared memory: its rows are read from the input's rows, and its columns
/// become the output's rows, so that both are coalesced.
///
/// # Safety
/// `input` has the elements of a matrix of `width` columns and `height` rows, `output` as many
/// writable ones elsewhere. Called by all threads of a block of `TILE` by `ROWS`; the grid covers the
/// matrix, with tiles along x for the columns.
#[inline(always)]
pub(super) unsafe fn transpose<T: Tiled<PITCH>, const PITCH: u32>(
    Transpose { input, width, height, output }: Transpose<T>,
) {
    let ((left, top), tx) = (corner(), thread_idx_x());
    let tile = T::tile();
    // SAFETY: tx and ty are below TILE, so the tile's elements are inside, as the matrices' are by the
    // tests; the block barrier lies between writes and reads. An element that is read from the tile was
    // written: (x, y) of the output is (y, x) of the input, and inside when that is.
    unsafe {
        // ladder: through
        for ty in (0..TURNS).map(row) {
            let (x, y) = (left + u64::from(tx), top + u64::from(ty));
            if x < width && y < height {
                tile.set(ty * PITCH + tx, *input.add((y * width + x) as usize));
            }
        }
        sync_threads();
        // The tile's place in the output is mirrored, and its columns are rows there.
        for ty in (0..TURNS).map(row) {
            let (x, y) = (top + u64::from(tx), left + u64::from(ty));
            if x < height && y < width {
                *output.add((y * height + x) as usize) = tile.get(tx * PITCH + ty);
            }
        }
        // ladder: end
    }
}
