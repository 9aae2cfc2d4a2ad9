// Each thread moves elements of a 32 x 32 tile directly from rows of the input to columns of the output.
// Shows uncoalesced writes: a warp reads adjacent elements and writes them `height` elements apart.
// Blocks of 32 x 8 threads, four rows each; any width and height.
// Source: C.
// Rung: kernels/src/memory/transpose_naive.rs. Section: docs/movements.md#transpose_naive.
#include "common.cuh"

constexpr u32 TILE = 32;
constexpr u32 ROWS = 8;

template <typename T>
__device__ __forceinline__ void transpose_naive(const T* __restrict__ input, u64 width, u64 height,
                                                T* __restrict__ output) {
    const u64 x = static_cast<u64>(blockIdx.x) * TILE + threadIdx.x;
    const u64 y = static_cast<u64>(blockIdx.y) * TILE + threadIdx.y;
#pragma unroll
    for (u32 j = 0; j < TILE; j += ROWS) {
        if (x < width && y + j < height) output[x * height + y + j] = input[(y + j) * width + x];
    }
}

#define TRANSPOSE(dtype, T)                                                            \
    extern "C" __global__ void __launch_bounds__(TILE * ROWS) transpose_naive_##dtype( \
        const T* __restrict__ input, u64 width, u64 height, T* __restrict__ output) {  \
        transpose_naive(input, width, height, output);                                 \
    }

TRANSPOSE(f32, float)
TRANSPOSE(f64, double)
