// unroll_full with a grid-stride loop in place of one load per thread; or, two_pass_warp_sync with the
// block size as a template argument.
// Removes the loop over the tree's steps: constant offsets, no counter, and no code for steps that the
// block does not need. The kernel switches on blockDim.x once, by a uniform branch.
// Source: E.
// Rung: kernels/src/reduce/two_pass_unrolled.rs. Section: docs/ladder.md#two_pass_unrolled.
#include "common.cuh"

template <typename T, typename Op, u32 BLOCK>
__device__ __forceinline__ T tree(T* values) {
    const u32 tid = threadIdx.x;
#pragma unroll
    for (u32 s = BLOCK / 2; s >= WARP; s /= 2) {
        if (tid < s) values[tid] = Op::combine(values[tid], values[tid + s]);
        __syncthreads();
    }
    if (tid >= WARP) return Op::identity;
    T value = values[tid];
#pragma unroll
    for (u32 s = WARP / 2; s > 0; s /= 2) {
        const T other = values[tid ^ s];
        __syncwarp();
        value = Op::combine(value, other);
        values[tid] = value;
        __syncwarp();
    }
    return value;
}

template <typename T, typename Op>
__device__ void two_pass_unrolled(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    T value = Op::identity;
    for (u64 i = global_index(); i < n; i += global_size()) {
        value = Op::combine(value, Op::map(input[i]));
    }

    T* values = dynamic_shared<T>();
    values[threadIdx.x] = value;
    __syncthreads();
    T total = Op::identity;
    switch (blockDim.x) {
        case 1024: total = tree<T, Op, 1024>(values); break;
        case 512: total = tree<T, Op, 512>(values); break;
        case 256: total = tree<T, Op, 256>(values); break;
        case 128: total = tree<T, Op, 128>(values); break;
        case 64: total = tree<T, Op, 64>(values); break;
        case 32: total = tree<T, Op, 32>(values); break;
    }
    if (threadIdx.x == 0) output[blockIdx.x] = total;
}

ENTRIES(two_pass_unrolled)
