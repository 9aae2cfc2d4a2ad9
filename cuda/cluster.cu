// Clusters of eight blocks: each block reduces its share and stores the result in the shared memory of
// the cluster's first block, which combines the eight results.
// Removes the global memory traffic between neighbouring blocks: an eighth of the values is left for the
// next launch. The grid must be a multiple of eight blocks.
// Source: the suite's own.
// Rung: kernels/src/reduce/cluster.rs. Section: docs/hopper.md#cluster.
// needs sm_90
#include "common.cuh"

constexpr u32 CLUSTER = 8;

// Stores to the shared variable that `mine` points to, in the block of another rank of the cluster.
template <typename T>
__device__ __forceinline__ void store_remote(T* mine, u32 rank, T value) {
    u32 address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(address)
        : "r"(static_cast<u32>(__cvta_generic_to_shared(mine))), "r"(rank));
    if constexpr (sizeof(T) == 8) {
        u64 bits;
        memcpy(&bits, &value, sizeof(T));
        asm volatile("st.shared::cluster.u64 [%0], %1;" ::"r"(address), "l"(bits) : "memory");
    } else {
        u32 bits;
        memcpy(&bits, &value, sizeof(T));
        asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(bits) : "memory");
    }
}

template <typename T, typename Op>
__device__ void cluster(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    __shared__ T of_blocks[CLUSTER];
    // The remote stores wait for this arrival, because a block's shared memory may be written by others
    // only once the block has started.
    __cluster_barrier_arrive_relaxed();
    T value = Op::identity;
    for (u64 i = global_index(); i < n; i += global_size()) {
        value = Op::combine(value, Op::map(input[i]));
    }

    T* values = dynamic_shared<T>();
    const u32 tid = threadIdx.x;
    values[tid] = value;
    __syncthreads();
    for (u32 s = blockDim.x / 2; s > 0; s /= 2) {
        if (tid < s) values[tid] = Op::combine(values[tid], values[tid + s]);
        __syncthreads();
    }

    const u32 rank = __clusterRelativeBlockRank();
    __cluster_barrier_wait();
    if (tid == 0) store_remote(&of_blocks[rank], 0, values[0]);
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    if (rank == 0 && tid == 0) {
        T total = of_blocks[0];
#pragma unroll
        for (u32 k = 1; k < CLUSTER; ++k) total = Op::combine(total, of_blocks[k]);
        output[blockIdx.x / CLUSTER] = total;
    }
}

FOR_ALL(ENTRY, cluster, __cluster_dims__(CLUSTER, 1, 1))
