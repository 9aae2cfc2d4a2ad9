// shuffle_two_level with the reduction of a warp in one instruction.
// Removes the shuffles: one REDUX replaces five shuffles and five operations. Before compute capability
// 10.0 it has 32-bit integers only.
// Source: NVIDIA's samples.
// Rung: kernels/src/reduce/redux.rs. Section: docs/ladder.md#redux.
#include "common.cuh"

// Also the overload for SumSq, which is derived from Sum.
template <typename T>
__device__ __forceinline__ T reduce_warp(Sum<T>, T value) {
    return __reduce_add_sync(FULL_WARP, value);
}
template <typename T>
__device__ __forceinline__ T reduce_warp(Min<T>, T value) {
    return __reduce_min_sync(FULL_WARP, value);
}
template <typename T>
__device__ __forceinline__ T reduce_warp(Max<T>, T value) {
    return __reduce_max_sync(FULL_WARP, value);
}

template <typename T, typename Op>
__device__ void redux(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    T value = Op::identity;
    for (u64 i = global_index(); i < n; i += global_size()) {
        value = Op::combine(value, Op::map(input[i]));
    }

    __shared__ T of_warps[WARP];
    const u32 lane = threadIdx.x % WARP;
    const u32 warp = threadIdx.x / WARP;
    value = reduce_warp(Op{}, value);
    if (lane == 0) of_warps[warp] = value;
    __syncthreads();
    if (warp == 0) {
        value = lane < blockDim.x / WARP ? of_warps[lane] : Op::identity;
        value = reduce_warp(Op{}, value);
        if (lane == 0) output[blockIdx.x] = value;
    }
}

FOR_OPS(ENTRY, redux, i32, int, )
FOR_OPS(ENTRY, redux, u32, u32, )
