// Thread i copies element index[i], where index is a random permutation, the worst case.
// Shows reads without a pattern: each lane reads a different sector, and a cache does not help if the
// input is larger. The indices are read and the output is written coalesced.
// Source: C.
// Rung: kernels/src/memory/copy_random.rs. Section: docs/movements.md#copy_random.
#include "common.cuh"

template <typename T>
__device__ __forceinline__ void copy_random(const T* __restrict__ input, const u32* __restrict__ index,
                                            u64 n, T* __restrict__ output) {
    const u64 i = global_index();
    if (i < n) output[i] = input[index[i]];
}

#define COPY_RANDOM(dtype, T)                                                                        \
    extern "C" __global__ void __launch_bounds__(MAX_BLOCK) copy_random_##dtype(                     \
        const T* __restrict__ input, const u32* __restrict__ index, u64 n, T* __restrict__ output) { \
        copy_random(input, index, n, output);                                                        \
    }

COPY_RANDOM(f32, float)
COPY_RANDOM(f64, double)
