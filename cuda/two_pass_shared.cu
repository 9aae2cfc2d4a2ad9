// The kernel and the launches of `grid_stride` under another name: two_pass_interleaved with a tree in
// shared memory.
// Removes the serial loop of thread 0: log2(block) steps in place of block - 1.
// Source: E.
// Rung: kernels/src/reduce/two_pass_shared.rs. Section: docs/ladder.md#two_pass_shared.
#include "common.cuh"

template <typename T, typename Op>
__device__ void two_pass_shared(const T* __restrict__ input, u64 n, T* __restrict__ output) {
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
    if (tid == 0) output[blockIdx.x] = values[0];
}

ENTRIES(two_pass_shared)
