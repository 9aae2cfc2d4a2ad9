//! Occupancy: the number of blocks that fit on a multiprocessor, as far as threads and shared memory
//! limit it. The number of registers is unknown and assumed not to matter.

use warpfold_driver::sys::*;

use super::function::find;
use super::launch::wishes_of;
use crate::failure::{Outcome, fail};
use crate::ffi::{FunctionId, In, Out};
use crate::world::{self, Function, MULTIPROCESSORS, limits};

/// Returns how many blocks of `threads` threads fit on a multiprocessor, which may be 0. `.maxntid` is
/// ignored, as by NVIDIA's driver (seen on an H200, driver 580).
pub(crate) fn resident_blocks(function: &Function, threads: u32, shared: u64) -> Outcome<u32> {
    if threads == 0 {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    if threads > limits::THREADS_PER_BLOCK {
        return Ok(0);
    }
    let statically = u64::from(function.entry()?.static_shared_bytes());
    if statically + shared > limits::SHARED_PER_BLOCK_OPTIN.into() {
        return Ok(0);
    }
    let bytes = statically + shared + u64::from(limits::RESERVED_SHARED_PER_BLOCK);
    let by_shared = (u64::from(limits::SHARED_PER_MULTIPROCESSOR) / bytes) as u32;
    // Threads are allocated in whole warps.
    let by_threads = limits::THREADS_PER_MULTIPROCESSOR / threads.next_multiple_of(32);
    Ok(by_threads.min(by_shared).min(limits::BLOCKS_PER_MULTIPROCESSOR))
}

pub(crate) fn resident_clusters(
    function: &Function,
    threads: u32,
    shared: u64,
    blocks: u32,
) -> Outcome<u32> {
    let everywhere = resident_blocks(function, threads, shared)? * MULTIPROCESSORS;
    Ok(everywhere / blocks.max(1))
}

pub(crate) fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    num_blocks: Out<c_int>,
    function: FunctionId,
    block_size: c_int,
    shared_bytes: usize,
) -> Outcome {
    let threads = u32::try_from(block_size).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    let state = world::lock();
    num_blocks.put(resident_blocks(find(&state, function)?, threads, shared_bytes as u64)? as c_int)
}

pub(crate) fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    num_blocks: Out<c_int>,
    function: FunctionId,
    block_size: c_int,
    shared_bytes: usize,
    flags: c_uint,
) -> Outcome {
    check_flags(flags)?;
    cuOccupancyMaxActiveBlocksPerMultiprocessor(num_blocks, function, block_size, shared_bytes)
}

fn check_flags(flags: c_uint) -> Outcome {
    if flags & !CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE == 0 {
        Ok(())
    } else {
        fail(CUDA_ERROR_INVALID_VALUE)
    }
}

pub(crate) fn cuOccupancyMaxPotentialBlockSize(
    min_grid_size: Out<c_int>,
    block_size: Out<c_int>,
    function: FunctionId,
    shared_bytes_of: CUoccupancyB2DSize,
    shared_bytes: usize,
    block_size_limit: c_int,
) -> Outcome {
    // The lock must not be held while the program's function is called.
    let function = find(&world::lock(), function)?.clone();
    let limit = u32::try_from(block_size_limit).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    let most = function.most_threads()?;
    let most = if limit == 0 { most } else { most.min(limit) };
    let mut best = (0, 0, 0);
    for threads in
        (1..=most / 32).rev().map(|warps| 32 * warps).chain([most].into_iter().filter(|&n| n < 32))
    {
        let shared = match shared_bytes_of {
            // SAFETY: the program passes a function that accepts any block size.
            Some(bytes_of) => unsafe { bytes_of(threads as c_int) },
            None => shared_bytes,
        };
        let blocks = resident_blocks(&function, threads, shared as u64)?;
        if blocks * threads > best.0 {
            best = (blocks * threads, threads, blocks);
        }
    }
    min_grid_size.put((best.2 * MULTIPROCESSORS) as c_int)?;
    block_size.put(best.1 as c_int)
}

pub(crate) fn cuOccupancyMaxPotentialBlockSizeWithFlags(
    min_grid_size: Out<c_int>,
    block_size: Out<c_int>,
    function: FunctionId,
    shared_bytes_of: CUoccupancyB2DSize,
    shared_bytes: usize,
    block_size_limit: c_int,
    flags: c_uint,
) -> Outcome {
    check_flags(flags)?;
    cuOccupancyMaxPotentialBlockSize(
        min_grid_size,
        block_size,
        function,
        shared_bytes_of,
        shared_bytes,
        block_size_limit,
    )
}

pub(crate) fn cuOccupancyAvailableDynamicSMemPerBlock(
    shared_bytes: Out<usize>,
    function: FunctionId,
    num_blocks: c_int,
    block_size: c_int,
) -> Outcome {
    let state = world::lock();
    let function = find(&state, function)?;
    let (Ok(blocks @ 1..), Ok(threads)) = (u32::try_from(num_blocks), u32::try_from(block_size)) else {
        return fail(CUDA_ERROR_INVALID_VALUE);
    };
    if resident_blocks(function, threads, 0)? < blocks {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    let each = limits::SHARED_PER_MULTIPROCESSOR / blocks - limits::RESERVED_SHARED_PER_BLOCK;
    let each = each.min(limits::SHARED_PER_BLOCK_OPTIN) & !127;
    shared_bytes.put(each.saturating_sub(function.entry()?.static_shared_bytes()) as usize)
}

pub(crate) fn cuOccupancyMaxActiveClusters(
    num_clusters: Out<c_int>,
    function: FunctionId,
    config: In<LaunchConfig>,
) -> Outcome {
    let cluster = wishes_of(&config.0)?.cluster;
    let state = world::lock();
    let function = find(&state, function)?;
    let cluster = cluster.or(function.entry()?.required_cluster()).unwrap_or([1; 3]);
    let size = cluster.iter().product::<u32>();
    if size == 0 || size > limits::CLUSTER_BLOCKS {
        return fail(CUDA_ERROR_INVALID_CLUSTER_SIZE);
    }
    let threads = config.0.block.iter().product::<u32>();
    num_clusters.put(resident_clusters(function, threads, config.0.shared_bytes.into(), size)? as c_int)
}

pub(crate) fn cuOccupancyMaxPotentialClusterSize(
    cluster_size: Out<c_int>,
    function: FunctionId,
    config: In<LaunchConfig>,
) -> Outcome {
    let state = world::lock();
    let function = find(&state, function)?;
    let threads = config.0.block.iter().product::<u32>();
    let room = resident_clusters(function, threads, config.0.shared_bytes.into(), 1)?;
    let stated = function.entry()?.max_cluster_blocks().unwrap_or(limits::CLUSTER_BLOCKS);
    let most = limits::CLUSTER_BLOCKS.min(stated).min(room);
    cluster_size.put(if most == 0 { 0 } else { 1 << most.ilog2() })
}
