// 16-byte loads, four in flight per thread.
// Removes the shortage of bytes in flight: a wide load costs one request like a narrow one, and four
// loads before the first use hide latency that a single load exposes. One accumulator per element of a
// vector also makes the additions independent. Elements before the first 16-byte boundary and after the
// last are loaded singly.
// Source: the suite's own, after common practice.
// Rung: kernels/src/reduce/vectorized.rs. Section: docs/ladder.md#vectorized.
#include "common.cuh"

constexpr u32 IN_FLIGHT = 4;

template <typename T>
constexpr u32 LANES = 16 / sizeof(T);

template <typename T, typename Op>
__device__ __forceinline__ void fold(T (&sums)[LANES<T>], uint4 loaded) {
    T elements[LANES<T>];
    memcpy(elements, &loaded, sizeof(loaded));
#pragma unroll
    for (u32 lane = 0; lane < LANES<T>; ++lane) {
        sums[lane] = Op::combine(sums[lane], Op::map(elements[lane]));
    }
}

template <typename T, typename Op>
__device__ __forceinline__ T load(const T* __restrict__ input, u64 n) {
    const u64 past_boundary = reinterpret_cast<u64>(input) % 16 / sizeof(T);
    const u64 to_boundary = past_boundary == 0 ? 0 : LANES<T> - past_boundary;
    const u64 head = to_boundary < n ? to_boundary : n;
    const u64 vectors = (n - head) / LANES<T>;
    const uint4* __restrict__ body = reinterpret_cast<const uint4*>(input + head);
    const u64 first = global_index();
    const u64 step = global_size();

    T sums[LANES<T>];
#pragma unroll
    for (u32 lane = 0; lane < LANES<T>; ++lane) sums[lane] = Op::identity;

    u64 i = first;
    for (; i + (IN_FLIGHT - 1) * step < vectors; i += IN_FLIGHT * step) {
        uint4 loaded[IN_FLIGHT];
#pragma unroll
        for (u32 k = 0; k < IN_FLIGHT; ++k) loaded[k] = __ldg(body + i + k * step);
#pragma unroll
        for (u32 k = 0; k < IN_FLIGHT; ++k) fold<T, Op>(sums, loaded[k]);
    }
    for (; i < vectors; i += step) fold<T, Op>(sums, __ldg(body + i));

    // Fewer than LANES elements are left at either end, and the grid has at least 32 threads.
    if (first < head) sums[0] = Op::combine(sums[0], Op::map(input[first]));
    const u64 tail = head + vectors * LANES<T> + first;
    if (tail < n) sums[0] = Op::combine(sums[0], Op::map(input[tail]));

#pragma unroll
    for (u32 width = LANES<T> / 2; width > 0; width /= 2) {
#pragma unroll
        for (u32 lane = 0; lane < width; ++lane) {
            sums[lane] = Op::combine(sums[lane], sums[lane + width]);
        }
    }
    return sums[0];
}

template <typename T, typename Op>
__device__ __forceinline__ T reduce_warp(T value) {
#pragma unroll
    for (u32 mask = WARP / 2; mask > 0; mask /= 2) {
        value = Op::combine(value, __shfl_xor_sync(FULL_WARP, value, mask));
    }
    return value;
}

template <typename T, typename Op>
__device__ void vectorized(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    __shared__ T of_warps[WARP];
    const u32 lane = threadIdx.x % WARP;
    const u32 warp = threadIdx.x / WARP;
    T value = reduce_warp<T, Op>(load<T, Op>(input, n));
    if (lane == 0) of_warps[warp] = value;
    __syncthreads();
    if (warp == 0) {
        value = lane < blockDim.x / WARP ? of_warps[lane] : Op::identity;
        value = reduce_warp<T, Op>(value);
        if (lane == 0) output[blockIdx.x] = value;
    }
}

ENTRIES(vectorized)
