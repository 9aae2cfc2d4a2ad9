// Two elements per thread, combined before they are stored in shared memory, with half as many blocks.
// Removes the idle half of the threads, which in `sequential` only load.
// Thread tid loads elements tid and tid + blockDim of its block's segment of 2 * blockDim.
// Source: A.
// Rung: kernels/src/reduce/first_add.rs. Section: docs/ladder.md#first_add.
#include "common.cuh"

template <typename T, typename Op>
__device__ void first_add(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    T* values = dynamic_shared<T>();
    const u32 tid = threadIdx.x;
    const u64 i = static_cast<u64>(blockIdx.x) * (2 * blockDim.x) + tid;
    const u64 j = i + blockDim.x;
    // The two loads are independent, so both are in flight.
    const T first = i < n ? Op::map(input[i]) : Op::identity;
    const T second = j < n ? Op::map(input[j]) : Op::identity;
    values[tid] = Op::combine(first, second);
    __syncthreads();

    for (u32 s = blockDim.x / 2; s > 0; s /= 2) {
        if (tid < s) values[tid] = Op::combine(values[tid], values[tid + s]);
        __syncthreads();
    }
    if (tid == 0) output[blockIdx.x] = values[0];
}

ENTRIES(first_add)
