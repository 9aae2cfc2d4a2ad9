// One element per thread; at each step the lower half of the threads combines the upper half's values
// into its own.
// Removes the bank conflicts of interleaved_strided: active threads and the addresses that they access
// are consecutive. Its own bottleneck: half of the threads only load one element.
// Source: A, E.
// Rung: kernels/src/reduce/sequential.rs. Section: docs/ladder.md#sequential.
#include "common.cuh"

template <typename T, typename Op>
__device__ void sequential(const T* __restrict__ input, u64 n, T* __restrict__ output) {
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

ENTRIES(sequential)
