//! Runs: neighbouring keys that are equal, and how blocks share the search for where they begin.
//!
//! The aligned groups of 16 bytes that have keys are dealt to the blocks in tiles, a contiguous piece to
//! each block, in two launches of as many blocks: the first counts the runs that begin in each piece,
//! and the second, in which a block adds up the counts of those before it, writes them.

use crate::reducer::GROUP_BYTES;

/// Threads of a block.
pub const BLOCK: u32 = 256;

/// Runs that may begin in a tile.
pub const TILE_KEYS: u32 = 4096;

/// Groups of a thread in each tile, for keys of `key_bytes` bytes: four, or fewer if these would have
/// more than [`TILE_KEYS`] keys.
pub const fn groups_per_thread(key_bytes: u32) -> u32 {
    let most = TILE_KEYS * key_bytes / (BLOCK * GROUP_BYTES);
    if most > 4 { 4 } else { most }
}

/// Groups of a tile.
pub const fn tile_groups(key_bytes: u32) -> u32 {
    BLOCK * groups_per_thread(key_bytes)
}

/// Most tiles that `keys` keys of `key_bytes` bytes each have, wherever they begin.
pub const fn most_tiles(key_bytes: u32, keys: u64) -> u64 {
    let groups = (keys * key_bytes as u64).div_ceil(GROUP_BYTES as u64) + 1;
    groups.div_ceil(tile_groups(key_bytes) as u64)
}

const _: () = assert!(groups_per_thread(1) == 1 && groups_per_thread(2) == 2);
const _: () = assert!(groups_per_thread(4) == 4 && groups_per_thread(8) == 4);
