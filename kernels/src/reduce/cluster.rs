//! Clusters of eight blocks, whose values are combined in the shared memory of the first block.
//!
//! Removes the **global memory traffic** between neighbouring blocks: the other blocks of a cluster
//! write directly into the first block's shared memory, which leaves an eighth of the values for the
//! next launch.
//!
//! - Steps: grid-stride loop into a register; shared-memory tree; thread 0 of each block stores the
//!   block's value to element `cluster_rank` of an array in the first block; cluster barrier; thread 0
//!   of the first block combines the eight values and writes `output[block_idx / 8]`.
//! - Launch: clusters of eight blocks along x, so a multiple of eight blocks.
//! - Barriers: 1 + log2(block) of the block, two of the cluster. The cluster's first one: a block's
//!   shared memory may be written remotely only after the block has started; threads arrive at it
//!   before their loads, and wait for it after the tree, when the other blocks have usually arrived.
//!   The second one publishes the values, and keeps the first block from exiting before they are
//!   written. No block accesses another's shared memory after it, so blocks may exit in any order.
//! - Shared memory: one element per thread and eight elements, static. No bank conflicts.
//! - The profiler shows: one remote store per block.
//!
//! Source: the suite's own, after the CUDA programming guide's section on distributed shared memory.
//! Section: `docs/hopper.md#cluster`. CUDA C twin: `cuda/cluster.cu`.

use super::prelude::*;
use warpfold_abi::ladder::CLUSTER_BLOCKS;
use warpfold_device::cluster::{arrive_relaxed, cluster_rank, sync, wait};

entries!(cluster(Reduce) for i32 u32 i64 u64 f32 f64);

shared_array! {
    /// One value per block of the cluster; used in the first block.
    fn of_blocks: cluster_of_blocks = [u64; CLUSTER_BLOCKS]
}

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per cluster; the launch gives
/// clusters of [`CLUSTER_BLOCKS`] blocks and one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn cluster<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = of_blocks().cast::<T>();
    let (tid, rank) = (thread_idx_x(), cluster_rank());
    // SAFETY: `input`, `output` and the clusters are as the caller guarantees; all threads of the block
    // call `tree`, and all threads of the cluster reach both cluster barriers. Between these all blocks
    // are resident, and each writes its own element; the elements are read after the second barrier.
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
