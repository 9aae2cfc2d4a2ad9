//! Sizes for single kernels of the *ladder*, the suite's series of ever faster reductions.

/// Blocks per cluster of the `cluster` kernel: the size that every device with clusters supports.
pub const CLUSTER_BLOCKS: u32 = 8;

/// Tiles of the `bulk_copy` kernel in shared memory: one is reduced, the others are in flight.
pub const BULK_COPY_STAGES: u32 = 4;
/// Bytes per tile of the `bulk_copy` kernel.
pub const BULK_COPY_TILE_BYTES: u32 = 8 * 1024;

const _: () = assert!(CLUSTER_BLOCKS.is_power_of_two());
// Tiles consist of whole 16-byte groups.
const _: () = assert!(BULK_COPY_TILE_BYTES.is_multiple_of(16));
// Static shared memory is limited to 48 KiB per block.
const _: () = assert!(BULK_COPY_STAGES * BULK_COPY_TILE_BYTES < 48 * 1024);
