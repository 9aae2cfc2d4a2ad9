// Grid-stride loads, a tree until 32 values are left, then xor shuffles.
// Removes shared memory and block barriers from the last five steps: the lanes of one warp read each
// other's registers.
// Source: E.
// Rung: kernels/src/reduce/warp_shuffle.rs. Section: docs/ladder.md#warp_shuffle.
#include "common.cuh"

template <typename T, typename Op>
__device__ void warp_shuffle(const T* __restrict__ input, u64 n, T* __restrict__ output) {
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
        T total = values[tid];
#pragma unroll
        for (u32 mask = WARP / 2; mask > 0; mask /= 2) {
            total = Op::combine(total, __shfl_xor_sync(FULL_WARP, total, mask));
        }
        if (tid == 0) output[blockIdx.x] = total;
    }
}

ENTRIES(warp_shuffle)
