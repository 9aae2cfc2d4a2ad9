// Bulk asynchronous copies load whole tiles into shared memory while earlier ones are combined.
// Removes loads from the threads: one instruction of one thread copies 8 KiB, a copy in flight occupies
// no registers, and an mbarrier signals its completion. Elements before the first 16-byte boundary and
// after the last whole tile are loaded from global memory.
// Source: the suite's own. Static shared memory: 4 stages of 8 KiB, 4 barriers, 32 values.
// Rung: kernels/src/reduce/bulk_copy.rs. Section: docs/hopper.md#bulk_copy.
// needs sm_90
#include "common.cuh"

constexpr u32 STAGES = 4;
constexpr u32 TILE_BYTES = 8 * 1024;
constexpr u32 VECTOR_BYTES = 16;

template <typename T>
constexpr u32 LANES = VECTOR_BYTES / sizeof(T);
template <typename T>
constexpr u32 TILE = TILE_BYTES / sizeof(T);

__device__ __forceinline__ u32 shared_address(const void* pointer) {
    return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(u64* barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}

// Makes initialised barriers visible to the async proxy, which executes bulk copies.
__device__ __forceinline__ void fence_barriers() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Arrives at the barrier, which then expects the bytes of a tile, and starts the copy.
__device__ __forceinline__ void copy_tile(void* to, const void* from, u64* barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(TILE_BYTES)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared_address(to)),
        "l"(__cvta_generic_to_global(from)), "r"(TILE_BYTES), "r"(shared_address(barrier))
        : "memory");
}

__device__ __forceinline__ void barrier_wait(u64* barrier, u32 parity) {
    u32 done;
    do {
        asm volatile(
            "{\n\t.reg .pred done;\n\t"
            "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n\t"
            "selp.u32 %0, 1, 0, done;\n\t}"
            : "=r"(done)
            : "r"(shared_address(barrier)), "r"(parity)
            : "memory");
    } while (done == 0);
}

template <typename T, typename Op>
__device__ __forceinline__ void fold(T (&sums)[LANES<T>], const uint4& vector) {
    T elements[LANES<T>];
    memcpy(elements, &vector, sizeof(vector));
#pragma unroll
    for (u32 lane = 0; lane < LANES<T>; ++lane) {
        sums[lane] = Op::combine(sums[lane], Op::map(elements[lane]));
    }
}

// Folds the tiles that start at `body`, a 16-byte boundary, in a grid-stride loop of the blocks.
template <typename T, typename Op>
__device__ __forceinline__ void fold_tiles(T (&sums)[LANES<T>], const T* body, u64 tiles) {
    __shared__ alignas(128) uint4 stages[STAGES][TILE_BYTES / VECTOR_BYTES];
    __shared__ alignas(8) u64 landed[STAGES];
    const u32 tid = threadIdx.x;
    const u64 step = gridDim.x;

    if (tid == 0) {
        for (u32 k = 0; k < STAGES; ++k) barrier_init(&landed[k]);
        fence_barriers();
        u64 tile = blockIdx.x;
        for (u32 k = 0; k < STAGES - 1 && tile < tiles; ++k, tile += step) {
            copy_tile(stages[k], body + tile * TILE<T>, &landed[k]);
        }
    }
    u32 stage = 0;
    u32 parity = 0;
    for (u64 tile = blockIdx.x; tile < tiles; tile += step) {
        // After the barrier, all threads have read the previous tile, so its stage is free, and the
        // initialised mbarriers are visible to them.
        __syncthreads();
        const u64 ahead = tile + (STAGES - 1) * step;
        if (tid == 0 && ahead < tiles) {
            const u32 free = (stage + STAGES - 1) % STAGES;
            copy_tile(stages[free], body + ahead * TILE<T>, &landed[free]);
        }
        barrier_wait(&landed[stage], parity);
        for (u32 i = tid; i < TILE_BYTES / VECTOR_BYTES; i += blockDim.x) {
            fold<T, Op>(sums, stages[stage][i]);
        }
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
}

template <typename T, typename Op>
__device__ __forceinline__ T load(const T* __restrict__ input, u64 n) {
    const u64 past_boundary = reinterpret_cast<u64>(input) % VECTOR_BYTES / sizeof(T);
    const u64 to_boundary = past_boundary == 0 ? 0 : LANES<T> - past_boundary;
    const u64 head = to_boundary < n ? to_boundary : n;
    const u64 tiles = (n - head) / TILE<T>;

    T sums[LANES<T>];
#pragma unroll
    for (u32 lane = 0; lane < LANES<T>; ++lane) sums[lane] = Op::identity;
    fold_tiles<T, Op>(sums, input + head, tiles);

    const u64 first = global_index();
    if (first < head) sums[0] = Op::combine(sums[0], Op::map(input[first]));
    for (u64 i = head + tiles * TILE<T> + first; i < n; i += global_size()) {
        sums[0] = Op::combine(sums[0], Op::map(input[i]));
    }
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
__device__ void bulk_copy(const T* __restrict__ input, u64 n, T* __restrict__ output) {
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

ENTRIES(bulk_copy)
