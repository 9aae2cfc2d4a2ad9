// grid_stride, then one atomic per block on the result.
// Removes the second launch: by one atomic per block, with little contention.
// The host sets output[0] to the identity before the launch.
// Source: D.
// Rung: kernels/src/reduce/atomic_blocks.rs. Section: docs/ladder.md#atomic_blocks.
#include "common.cuh"

template <typename T, typename Op>
__device__ void atomic_blocks(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    T value = Op::identity;
    for (u64 i = global_index(); i < n; i += global_size()) {
        value = Op::combine(value, Op::map(input[i]));
    }

    T* values = dynamic_shared<T>();
    const u32 tid = threadIdx.x;
    values[tid] = value;
    __syncthreads();
    for (u32 s = blockDim.x / 2; s > 0; s /= 2) {
        if (tid < s) values[tid] = Op::combine(values[tid], values[tid + s]);
        __syncthreads();
    }
    if (tid == 0) Op::combine_atomically(output, values[0]);
}

ENTRIES(atomic_blocks)
