//! Tile sizes of the transpose kernels.

/// Number of rows and of columns of a tile, and of threads of a block along x.
pub const TILE: u32 = 32;
/// Number of rows that a block moves at once, and of its threads along y.
pub const ROWS: u32 = 8;

const _: () = assert!(TILE == crate::WARP_SIZE && TILE.is_multiple_of(ROWS));
