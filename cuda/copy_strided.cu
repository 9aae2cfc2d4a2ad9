// Thread i copies element i * stride. With stride 1, the 4-byte elements of a warp are in four sectors;
// from stride 8 on they are in 32 sectors, and one element of each is used.
// Shows the cost of uncoalesced reads as bandwidth against stride; the writes stay coalesced.
// Source: C.
// Rung: kernels/src/memory/copy_strided.rs. Section: docs/movements.md#copy_strided.
#include "common.cuh"

template <typename T>
__device__ __forceinline__ void copy_strided(const T* __restrict__ input, u64 n, u64 stride,
                                             T* __restrict__ output) {
    const u64 i = global_index();
    if (i < n) output[i] = input[i * stride];
}

#define COPY_STRIDED(dtype, T)                                                    \
    extern "C" __global__ void __launch_bounds__(MAX_BLOCK) copy_strided_##dtype( \
        const T* __restrict__ input, u64 n, u64 stride, T* __restrict__ output) { \
        copy_strided(input, n, stride, output);                                   \
    }

COPY_STRIDED(f32, float)
COPY_STRIDED(f64, double)
