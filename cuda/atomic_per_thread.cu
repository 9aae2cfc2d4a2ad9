// Grid-stride loads into a register, then one atomic per thread on the result.
// Removes the tree and every barrier, and shows contention: all threads of the grid update one address.
// The host sets output[0] to the identity before the launch.
// Source: E.
// Rung: kernels/src/reduce/atomic_per_thread.rs. Section: docs/ladder.md#atomic_per_thread.
#include "common.cuh"

template <typename T, typename Op>
__device__ void atomic_per_thread(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    T value = Op::identity;
    for (u64 i = global_index(); i < n; i += global_size()) {
        value = Op::combine(value, Op::map(input[i]));
    }
    Op::combine_atomically(output, value);
}

ENTRIES(atomic_per_thread)
