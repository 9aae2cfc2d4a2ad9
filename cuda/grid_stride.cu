// Each thread strides over the input by the size of the grid and combines in a register; the tree runs
// once per block at the end.
// Removes the tree from the cost per element: the grid just fills the GPU, so each thread loads n /
// threads elements, and then each block's tree takes log2(block) steps for any n. Loads are coalesced.
// Source: A, D.
// Rung: kernels/src/reduce/grid_stride.rs. Section: docs/ladder.md#grid_stride.
#include "common.cuh"

template <typename T, typename Op>
__device__ void grid_stride(const T* __restrict__ input, u64 n, T* __restrict__ output) {
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

ENTRIES(grid_stride)
