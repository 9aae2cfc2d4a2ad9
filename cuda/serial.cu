// One thread of the grid loops over all elements.
// Removes nothing: the slowest kernel, with one active lane on one multiprocessor, to which the others
// are compared.
// Source: E.
// Rung: kernels/src/reduce/serial.rs. Section: docs/ladder.md#serial.
#include "common.cuh"

template <typename T, typename Op>
__device__ void serial(const T* __restrict__ input, u64 n, T* __restrict__ output) {
    if (global_index() != 0) return;
    T value = Op::identity;
    for (u64 i = 0; i < n; ++i) value = Op::combine(value, Op::map(input[i]));
    output[0] = value;
}

ENTRIES(serial)
