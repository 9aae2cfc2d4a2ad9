// The tree down to 32 threads; then one warp finishes, in shared memory but without block barriers.
// Removes the barriers of the last steps, at which all other warps only wait. __syncwarp synchronizes
// the lanes; volatile does not, since lanes of a warp need not run in lockstep (Volta and later).
// Source: A, E.
// Rung: kernels/src/reduce/unroll_last_warp.rs. Section: docs/ladder.md#unroll_last_warp.
#include "common.cuh"

template <typename T, typename Op>
__device__ void unroll_last_warp(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    T* values = dynamic_shared<T>();
    const u32 tid = threadIdx.x;
    const u64 i = global_index();
    values[tid] = i < n ? Op::map(input[i]) : Op::identity;
    __syncthreads();

    for (u32 s = blockDim.x / 2; s >= WARP; s /= 2) {
        if (tid < s) values[tid] = Op::combine(values[tid], values[tid + s]);
        __syncthreads();
    }
    if (tid < WARP) {
        T value = values[tid];
#pragma unroll
        for (u32 s = WARP / 2; s > 0; s /= 2) {
            // All lanes are active, so there is no branch; tid ^ s stays within the warp's 32 values.
            const T other = values[tid ^ s];
            __syncwarp();
            value = Op::combine(value, other);
            values[tid] = value;
            __syncwarp();
        }
        if (tid == 0) output[blockIdx.x] = value;
    }
}

ENTRIES(unroll_last_warp)
