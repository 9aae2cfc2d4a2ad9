// The kernel of `sequential`, which the host launches repeatedly: each launch reduces the blocks' values
// of the previous one, until one value is left. The kernel launch is the barrier of the grid.
// Removes the limit to one block. Its own bottleneck is the launches, log_block(n) of them, the later
// ones nearly empty.
// Source: A, B.
// Rung: kernels/src/reduce/multi_level.rs. Section: docs/ladder.md#multi_level.
#include "common.cuh"

template <typename T, typename Op>
__device__ void multi_level(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    T* values = dynamic_shared<T>();
    const u32 tid = threadIdx.x;
    const u64 i = global_index();
    values[tid] = i < n ? Op::map(input[i]) : Op::identity;
    __syncthreads();

    for (u32 s = blockDim.x / 2; s > 0; s /= 2) {
        if (tid < s) values[tid] = Op::combine(values[tid], values[tid + s]);
        __syncthreads();
    }
    if (tid == 0) output[blockIdx.x] = values[0];
}

ENTRIES(multi_level)
