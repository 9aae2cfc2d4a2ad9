// The tree of interleaved_modulo with consecutive active threads: thread tid combines at index
// 2 * s * tid.
// Removes the divergence of interleaved_modulo, because whole warps become idle. Its own bottleneck is
// bank conflicts: with the stride 2s, several lanes of a warp access the same bank.
// Source: A, B.
// Rung: kernels/src/reduce/interleaved_strided.rs. Section: docs/ladder.md#interleaved_strided.
#include "common.cuh"

template <typename T, typename Op>
__device__ void interleaved_strided(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    T* values = dynamic_shared<T>();
    const u32 tid = threadIdx.x;
    const u64 i = global_index();
    values[tid] = i < n ? Op::map(input[i]) : Op::identity;
    __syncthreads();

    for (u32 s = 1; s < blockDim.x; s *= 2) {
        const u32 index = 2 * s * tid;
        if (index < blockDim.x) values[index] = Op::combine(values[index], values[index + s]);
        __syncthreads();
    }
    if (tid == 0) output[blockIdx.x] = values[0];
}

ENTRIES(interleaved_strided)
