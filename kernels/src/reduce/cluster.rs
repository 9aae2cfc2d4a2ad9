//! Eight blocks form a cluster, and their values meet in the shared memory of its first block.
//!
//! Removes the **way through global memory** between neighbouring blocks: the other blocks of a cluster
//! write straight into the first one's shared memory, and an eighth of the values is left for the next
//! launch.
//!
//! - Steps: grid-stride loop into a register; shared-memory tree; thread 0 of each block stores the
//!   block's value to element `cluster_rank` of an array in the first block; cluster barrier; thread 0
//!   of the first block combines the eight and writes.
//! - Launch: clusters of eight blocks along x, so a multiple of eight blocks.
//! - Result: `output[block_idx / 8]`, written by thread 0 of the cluster's first block.
//! - Barriers: 1 + log2(block) of the block, two of the cluster. The first one is there because shared
//!   memory may be written from outside only once its block has begun; all threads arrive before they
//!   load and wait after the tree, by when the others have long come. The second one publishes the
//!   values, and keeps the first block from leaving before they are written. Nobody reaches into another
//!   block after it, so that blocks leave when they like.
//! - Shared memory: one element per thread and eight elements, static. No bank conflicts.
//! - The profiler shows: one remote store per block.
//!
//! Source: the suite's own, after the CUDA programming guide's section on distributed shared memory.
//!
//! Section: `docs/hopper.md#cluster`. CUDA C twin: `cuda/cluster.cu`.

use super::prelude::*;
use warpfold_abi::ladder::CLUSTER_BLOCKS;
use warpfold_device::cluster::{arrive_relaxed, cluster_rank, sync, wait};

entries!(cluster(Reduce) for i32 u32 i64 u64 f32 f64);

shared_array! {
    /// One value per block of the cluster, of any element type; used in the first block.
    fn of_blocks: cluster_of_blocks = [u64; CLUSTER_BLOCKS]
}

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per cluster; the launch gives
/// clusters of [`CLUSTER_BLOCKS`] blocks and one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn cluster<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = of_blocks().cast::<T>();
    let (tid, rank) = (thread_idx_x(), cluster_rank());
    // SAFETY: the input's bounds are checked; all threads of the block take part in the tree, and all of
    // the cluster in both cluster barriers. Between these all blocks are there, and each writes an
    // element of its own; they are read behind the second one.
    unsafe {
        // ladder: meeting
        arrive_relaxed();
        let value = steps::tree::<T, R>(steps::load_grid_stride::<T, R>(input, n));
        wait();
        if tid == 0 {
            values.of_block(0).set(rank, value);
        }
        sync();
        // ladder: end

        if tid == 0 && rank == 0 {
            let combine = |total, k| R::combine(total, values.get(k));
            let total = (1..CLUSTER_BLOCKS).fold(values.get(0), combine);
            *output.add((block_idx_x() / CLUSTER_BLOCKS) as usize) = total;
        }
    }
}
