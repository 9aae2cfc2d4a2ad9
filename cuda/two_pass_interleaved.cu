// two_pass_contiguous with grid-stride loads; thread 0 still reduces the block's values alone.
// Removes the uncoalesced loads: the lanes of a warp read adjacent elements. Its own bottleneck is the
// serial loop of thread 0.
// Source: E.
// Rung: kernels/src/reduce/two_pass_interleaved.rs. Section: docs/ladder.md#two_pass_interleaved.
#include "common.cuh"

template <typename T, typename Op>
__device__ void two_pass_interleaved(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    T value = Op::identity;
    for (u64 i = global_index(); i < n; i += global_size()) {
        value = Op::combine(value, Op::map(input[i]));
    }

    T* values = dynamic_shared<T>();
    values[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        T total = values[0];
        for (u32 k = 1; k < blockDim.x; ++k) total = Op::combine(total, values[k]);
        output[blockIdx.x] = total;
    }
}

ENTRIES(two_pass_interleaved)
