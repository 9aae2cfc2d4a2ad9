// One element per thread; at step s = 1, 2, 4... each thread whose index is a multiple of 2s combines
// its value with that of the thread at index + s.
// Removes the serial loop. Its own bottleneck is warp divergence: until the last steps every warp is
// active, with ever fewer active lanes. The remainder by a variable is a slow division.
// Source: A, B.
// Rung: kernels/src/reduce/interleaved_modulo.rs. Section: docs/ladder.md#interleaved_modulo.
#include "common.cuh"

template <typename T, typename Op>
__device__ void interleaved_modulo(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    T* values = dynamic_shared<T>();
    const u32 tid = threadIdx.x;
    const u64 i = global_index();
    values[tid] = i < n ? Op::map(input[i]) : Op::identity;
    __syncthreads();

    for (u32 s = 1; s < blockDim.x; s *= 2) {
        if (tid % (2 * s) == 0) values[tid] = Op::combine(values[tid], values[tid + s]);
        __syncthreads();
    }
    if (tid == 0) output[blockIdx.x] = values[0];
}

ENTRIES(interleaved_modulo)
