// Blocks publish their values and wait for each other at a barrier of the whole grid; block 0 reduces.
// Removes the second launch. Needs a cooperative launch: all blocks must be resident at once.
// The barrier counts arrivals with an increment that wraps: the counter is zero when all blocks have
// arrived, as it must be before the next launch. It must be zero before the first launch.
// Source: NVIDIA's samples (reductionMultiBlockCG), with the barrier written out.
// Rung: kernels/src/reduce/cooperative.rs. Section: docs/ladder.md#cooperative.
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

__device__ __forceinline__ u32 load_acquire(const u32* address) {
    u32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(__cvta_generic_to_global(address))
                 : "memory");
    return value;
}

// May be called once per launch: with a second call, a block could miss the zero that ends the first
// one, because other blocks have incremented the counter again.
__device__ __forceinline__ void sync_grid(u32* counter) {
    __syncthreads();
    if (threadIdx.x == 0) {
        const u32 last = gridDim.x - 1;
        if (count_in(counter, last) != last) {
            while (load_acquire(counter) != 0) {
            }
        }
    }
    __syncthreads();
}

template <typename T, typename Op>
__device__ void cooperative(const T* __restrict__ input, u64 n, T* partials, u32* counter,
                            T* __restrict__ output) {
    T* values = dynamic_shared<T>();
    T value = Op::identity;
    for (u64 i = global_index(); i < n; i += global_size()) {
        value = Op::combine(value, Op::map(input[i]));
    }
    value = tree<T, Op>(values, value);
    if (threadIdx.x == 0) partials[blockIdx.x] = value;
    sync_grid(counter);
    if (blockIdx.x != 0) return;

    value = Op::identity;
    for (u32 i = threadIdx.x; i < gridDim.x; i += blockDim.x) value = Op::combine(value, partials[i]);
    value = tree<T, Op>(values, value);
    if (threadIdx.x == 0) output[0] = value;
}

WORKSPACE_ENTRIES(cooperative)
