// Shuffles inside each warp, one value per warp through shared memory, shuffles again in the first warp.
// Removes the tree in shared memory, and all block barriers but one: 32 warps of 32 lanes take two
// rounds of five shuffles.
// Source: NVIDIA's samples.
// Rung: kernels/src/reduce/shuffle_two_level.rs. Section: docs/ladder.md#shuffle_two_level.
#include "common.cuh"

template <typename T, typename Op>
__device__ __forceinline__ T reduce_warp(T value) {
#pragma unroll
    for (u32 mask = WARP / 2; mask > 0; mask /= 2) {
        value = Op::combine(value, __shfl_xor_sync(FULL_WARP, value, mask));
    }
    return value;
}

template <typename T, typename Op>
__device__ void shuffle_two_level(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    T value = Op::identity;
    for (u64 i = global_index(); i < n; i += global_size()) {
        value = Op::combine(value, Op::map(input[i]));
    }

    __shared__ T of_warps[WARP];
    const u32 lane = threadIdx.x % WARP;
    const u32 warp = threadIdx.x / WARP;
    value = reduce_warp<T, Op>(value);
    if (lane == 0) of_warps[warp] = value;
    __syncthreads();
    if (warp == 0) {
        value = lane < blockDim.x / WARP ? of_warps[lane] : Op::identity;
        value = reduce_warp<T, Op>(value);
        if (lane == 0) output[blockIdx.x] = value;
    }
}

ENTRIES(shuffle_two_level)
