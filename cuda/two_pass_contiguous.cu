// Each thread reduces a contiguous chunk of the input, and thread 0 reduces the values of its block; a
// second launch reduces the blocks' values.
// Removes the tree's cost per element like grid_stride, but shows uncoalesced loads: neighbouring lanes
// read a whole chunk apart, so that a warp's load accesses 32 sectors and uses a few bytes of each.
// Source: E, the first of its two-pass kernels.
// Rung: kernels/src/reduce/two_pass_contiguous.rs. Section: docs/ladder.md#two_pass_contiguous.
#include "common.cuh"

template <typename T, typename Op>
__device__ void two_pass_contiguous(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    const u64 threads = global_size();
    const u64 chunk = n / threads + (n % threads != 0);
    const u64 start = global_index() * chunk;
    const u64 end = start + chunk < n ? start + chunk : n;
    T value = Op::identity;
    for (u64 i = start; i < end; ++i) value = Op::combine(value, Op::map(input[i]));

    T* values = dynamic_shared<T>();
    values[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        T total = values[0];
        for (u32 k = 1; k < blockDim.x; ++k) total = Op::combine(total, values[k]);
        output[blockIdx.x] = total;
    }
}

ENTRIES(two_pass_contiguous)
