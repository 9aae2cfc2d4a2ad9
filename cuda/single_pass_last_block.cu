// Blocks publish their values and increment a counter; the last one to do so reduces the values.
// Removes the second launch without a grid barrier: no block waits for another, yet the last block
// observes that all others have published. The increment is acquire-release and wraps, so the counter
// is zero again for the next launch (it must be zero before the first).
// Source: E, and the threadFenceReduction sample.
// Rung: kernels/src/reduce/single_pass_last_block.rs. Section: docs/ladder.md#single_pass_last_block.
#include "common.cuh"

template <typename T, typename Op>
__device__ __forceinline__ T tree(T* values, T value) {
    const u32 tid = threadIdx.x;
    values[tid] = value;
    __syncthreads();
    for (u32 s = blockDim.x / 2; s > 0; s /= 2) {
        if (tid < s) values[tid] = Op::combine(values[tid], values[tid + s]);
        __syncthreads();
    }
    return values[0];
}

template <typename T, typename Op>
__device__ void single_pass_last_block(const T* __restrict__ input, u64 n, T* partials, u32* counter,
                                       T* __restrict__ output) {
    __shared__ bool is_last;
    T* values = dynamic_shared<T>();
    T value = Op::identity;
    for (u64 i = global_index(); i < n; i += global_size()) {
        value = Op::combine(value, Op::map(input[i]));
    }
    value = tree<T, Op>(values, value);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = value;
        is_last = count_in(counter, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) return;

    value = Op::identity;
    for (u32 i = threadIdx.x; i < gridDim.x; i += blockDim.x) value = Op::combine(value, partials[i]);
    value = tree<T, Op>(values, value);
    if (threadIdx.x == 0) output[0] = value;
}

WORKSPACE_ENTRIES(single_pass_last_block)
