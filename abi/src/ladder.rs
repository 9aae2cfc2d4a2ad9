//! Sizes that single kernels of the ladder are written for.

/// Blocks of a cluster of the `cluster` kernel: as many as every device with clusters grants.
pub const CLUSTER_BLOCKS: u32 = 8;

/// Tiles in shared memory of the `bulk_copy` kernel: one that is combined, the others under way.
pub const BULK_COPY_STAGES: u32 = 4;
/// Bytes of one of its tiles.
pub const BULK_COPY_TILE_BYTES: u32 = 8 * 1024;

const _: () = assert!(CLUSTER_BLOCKS.is_power_of_two());
// A thread of the largest block takes whole groups of 16 bytes of a tile.
const _: () = assert!(BULK_COPY_TILE_BYTES.is_multiple_of(16));
// Static shared memory of a block is limited to 48 KiB.
const _: () = assert!(BULK_COPY_STAGES * BULK_COPY_TILE_BYTES < 48 * 1024);
