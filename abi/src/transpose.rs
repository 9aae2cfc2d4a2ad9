//! Tile sizes of the transpose kernels.

/// Rows and columns of a tile, and threads of a block along x.
pub const TILE: u32 = 32;
/// Rows that a block moves at once, and its threads along y.
pub const ROWS: u32 = 8;

const _: () = assert!(TILE == crate::WARP_SIZE && TILE.is_multiple_of(ROWS));
