//! Runs of equal neighbouring keys, and how blocks divide the search for their beginnings.
//!
//! The aligned 16-byte groups that hold keys are divided into tiles, and each block takes a contiguous
//! piece of them. Of two launches with as many blocks, the first counts the runs that begin in each
//! piece. In the second, each block sums the counts of the blocks before it and writes its runs.

use crate::reducer::GROUP_BYTES;

/// Threads per block.
pub const BLOCK: u32 = 256;

/// Maximum number of runs that begin in a tile.
pub const TILE_KEYS: u32 = 4096;

/// Returns the groups per thread and tile, for keys of `key_bytes` bytes: four, or as many as hold at
/// most [`TILE_KEYS`] keys per tile.
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
