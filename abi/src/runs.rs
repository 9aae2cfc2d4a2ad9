//! Runs of equal neighbouring keys, and how blocks divide the search for their beginnings.
//!
//! The aligned 16-byte groups that hold keys are divided into tiles, and each block takes a *piece*:
//! some consecutive tiles. Two launches have the same number of blocks. The first launch counts the runs
//! that begin in each piece. In the second launch, each block sums the counts of the blocks before it
//! and writes its runs.

use crate::reducer::GROUP_BYTES;

/// Threads per block.
pub const BLOCK: u32 = 256;

/// Maximum number of keys in a tile, and so of runs that begin in it.
pub const TILE_KEYS: u32 = 4096;

/// Returns the number of a tile's groups that each thread loads, for keys of `key_bytes` bytes: four, or
/// fewer if a tile would have more than [`TILE_KEYS`] keys.
pub const fn groups_per_thread(key_bytes: u32) -> u32 {
    let most = TILE_KEYS * key_bytes / (BLOCK * GROUP_BYTES);
    if most > 4 { 4 } else { most }
}

/// Returns the number of groups per tile.
pub const fn tile_groups(key_bytes: u32) -> u32 {
    BLOCK * groups_per_thread(key_bytes)
}

/// Returns the maximum number of tiles of `keys` keys of `key_bytes` bytes each, at any alignment.
pub const fn most_tiles(key_bytes: u32, keys: u64) -> u64 {
    let groups = (keys * key_bytes as u64).div_ceil(GROUP_BYTES as u64) + 1;
    groups.div_ceil(tile_groups(key_bytes) as u64)
}

const _: () = assert!(groups_per_thread(1) == 1 && groups_per_thread(2) == 2);
const _: () = assert!(groups_per_thread(4) == 4 && groups_per_thread(8) == 4);
