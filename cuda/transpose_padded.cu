// transpose_shared with a tile of 32 x 33: the extra column shifts each row by one bank.
// Removes the bank conflicts: the elements of a column are in 32 different banks.
// Blocks of 32 x 8 threads, four rows each; any width and height.
// Source: C.
// Rung: kernels/src/memory/transpose_padded.rs. Section: docs/movements.md#transpose_padded.
#include "common.cuh"

constexpr u32 TILE = 32;
constexpr u32 ROWS = 8;

template <typename T>
__device__ __forceinline__ void transpose_padded(const T* __restrict__ input, u64 width, u64 height,
                                                 T* __restrict__ output) {
    __shared__ T tile[TILE][TILE + 1];
    const u64 left = static_cast<u64>(blockIdx.x) * TILE;
    const u64 top = static_cast<u64>(blockIdx.y) * TILE;
    const u32 tx = threadIdx.x;
    const u32 ty = threadIdx.y;
#pragma unroll
    for (u32 j = 0; j < TILE; j += ROWS) {
        const u64 x = left + tx;
        const u64 y = top + ty + j;
        if (x < width && y < height) tile[ty + j][tx] = input[y * width + x];
    }
    __syncthreads();
    // The tile's position in the output is transposed: a row of the output is a column of the tile.
#pragma unroll
    for (u32 j = 0; j < TILE; j += ROWS) {
        const u64 x = top + tx;
        const u64 y = left + ty + j;
        if (x < height && y < width) output[y * height + x] = tile[tx][ty + j];
    }
}

#define TRANSPOSE(dtype, T)                                                             \
    extern "C" __global__ void __launch_bounds__(TILE * ROWS) transpose_padded_##dtype( \
        const T* __restrict__ input, u64 width, u64 height, T* __restrict__ output) {   \
        transpose_padded(input, width, height, output);                                 \
    }

TRANSPOSE(f32, float)
TRANSPOSE(f64, double)
