// two_pass_shared whose last warp finishes without block barriers.
// Removes the block barriers of the last five steps, at which all other warps only wait; __syncwarp
// synchronizes the lanes.
// Source: E.
// Rung: kernels/src/reduce/two_pass_warp_sync.rs. Section: docs/ladder.md#two_pass_warp_sync.
#include "common.cuh"

template <typename T, typename Op>
__device__ void two_pass_warp_sync(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    T value = Op::identity;
    for (u64 i = global_index(); i < n; i += global_size()) {
        value = Op::combine(value, Op::map(input[i]));
    }

    T* values = dynamic_shared<T>();
    const u32 tid = threadIdx.x;
    values[tid] = value;
    __syncthreads();
    for (u32 s = blockDim.x / 2; s >= WARP; s /= 2) {
        if (tid < s) values[tid] = Op::combine(values[tid], values[tid + s]);
        __syncthreads();
    }
    if (tid < WARP) {
        value = values[tid];
#pragma unroll
        for (u32 s = WARP / 2; s > 0; s /= 2) {
            const T other = values[tid ^ s];
            __syncwarp();
            value = Op::combine(value, other);
            values[tid] = value;
            __syncwarp();
        }
        if (tid == 0) output[blockIdx.x] = value;
    }
}

ENTRIES(two_pass_warp_sync)
