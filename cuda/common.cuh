// Shared by all twins: the operations, their identities, and the macros that declare the kernels
// `<id>_<op>_<dtype>`. Each .cu file has one algorithm.
#pragma once

#include <limits>
#include <type_traits>

using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

constexpr u32 WARP = 32;
constexpr u32 FULL_WARP = 0xffffffffu;
constexpr u32 MAX_BLOCK = 1024;

// Integers wrap around: they are added as unsigned integers, because signed overflow is undefined.
// Floats follow nvcc's defaults: no reassociation, but a product and a sum may be fused.
template <typename T>
__device__ __forceinline__ T add(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        using U = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else {
        return a + b;
    }
}

template <typename T>
__device__ __forceinline__ T multiply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        using U = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    } else {
        return a * b;
    }
}

constexpr double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();

// Returns true if either number is NaN. Compiles to one instruction.
__device__ __forceinline__ bool unordered(double a, double b) {
    return a != a || b != b;
}

// The minimum and the maximum are NaN if either element is NaN, unlike those of fminf and fmaxf, and
// -0 < +0. An instruction does this for float; for double, a select adds the NaN.
template <typename T>
__device__ __forceinline__ T least(T a, T b) {
    if constexpr (std::is_same_v<T, float>) {
        float result;
        asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
        return result;
    } else if constexpr (std::is_same_v<T, double>) {
        const double smaller = fmin(a, b);
        return unordered(a, b) ? NOT_A_NUMBER : smaller;
    } else {
        return a < b ? a : b;
    }
}

template <typename T>
__device__ __forceinline__ T greatest(T a, T b) {
    if constexpr (std::is_same_v<T, float>) {
        float result;
        asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
        return result;
    } else if constexpr (std::is_same_v<T, double>) {
        const double larger = fmax(a, b);
        return unordered(a, b) ? NOT_A_NUMBER : larger;
    } else {
        return a > b ? a : b;
    }
}

template <typename T>
constexpr T LARGEST =
    std::is_integral_v<T> ? std::numeric_limits<T>::max() : std::numeric_limits<T>::infinity();
template <typename T>
constexpr T SMALLEST =
    std::is_integral_v<T> ? std::numeric_limits<T>::min() : -std::numeric_limits<T>::infinity();

// Applies `change` to *address by a loop of atomicCAS, for operations without an atomic instruction.
template <typename T, typename Change>
__device__ __forceinline__ void update(T* address, Change change) {
    using Bits = std::conditional_t<sizeof(T) == 8, u64, u32>;
    Bits* bits = reinterpret_cast<Bits*>(address);
    Bits seen = *static_cast<volatile Bits*>(bits);
    for (;;) {
        T before;
        memcpy(&before, &seen, sizeof(T));
        const T after = change(before);
        Bits wanted;
        memcpy(&wanted, &after, sizeof(T));
        if (wanted == seen) return;
        const Bits found = atomicCAS(bits, seen, wanted);
        if (found == seen) return;
        seen = found;
    }
}

// An operation: `map` transforms a loaded element, `combine` combines two mapped values, and
// `combine_atomically` combines a value into memory that other threads update at the same time.
template <typename T>
struct Sum {
    static constexpr T identity = T(0);
    __device__ static T map(T element) { return element; }
    __device__ static T combine(T a, T b) { return add(a, b); }
    __device__ static void combine_atomically(T* address, T value) {
        if constexpr (std::is_same_v<T, i64>) {
            atomicAdd(reinterpret_cast<u64*>(address), static_cast<u64>(value));
        } else {
            atomicAdd(address, value);
        }
    }
};

template <typename T>
struct SumSq : Sum<T> {
    __device__ static T map(T element) { return multiply(element, element); }
};

template <typename T>
struct Min {
    static constexpr T identity = LARGEST<T>;
    __device__ static T map(T element) { return element; }
    __device__ static T combine(T a, T b) { return least(a, b); }
    __device__ static void combine_atomically(T* address, T value) {
        if constexpr (std::is_integral_v<T>) {
            atomicMin(address, value);
        } else {
            update(address, [value](T before) { return least(before, value); });
        }
    }
};

template <typename T>
struct Max {
    static constexpr T identity = SMALLEST<T>;
    __device__ static T map(T element) { return element; }
    __device__ static T combine(T a, T b) { return greatest(a, b); }
    __device__ static void combine_atomically(T* address, T value) {
        if constexpr (std::is_integral_v<T>) {
            atomicMax(address, value);
        } else {
            update(address, [value](T before) { return greatest(before, value); });
        }
    }
};

// Returns the launch's dynamic shared memory: one element per thread.
template <typename T>
__device__ __forceinline__ T* dynamic_shared() {
    extern __shared__ __align__(16) unsigned char bytes[];
    return reinterpret_cast<T*>(bytes);
}

// The index of this thread in the grid, and the number of threads in the grid.
__device__ __forceinline__ u64 global_index() {
    return static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ u64 global_size() {
    return static_cast<u64>(gridDim.x) * blockDim.x;
}

// Increments a counter, which wraps to zero after `limit`, and returns its old value. The increment is
// acquire-release: it makes this thread's earlier writes visible to threads that increment later.
__device__ __forceinline__ u32 count_in(u32* counter, u32 limit) {
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(__cvta_generic_to_global(counter)), "r"(limit)
                 : "memory");
    return before;
}

// Kernels that call a device function template `id<T, Op>`: for one operation and type, or for all.
#define ENTRY(id, op, Op, dtype, T, ATTRIBUTES)                                           \
    extern "C" __global__ void ATTRIBUTES __launch_bounds__(MAX_BLOCK)                    \
        id##_##op##_##dtype(const T* __restrict__ input, u64 n, T* __restrict__ output) { \
        id<T, Op<T>>(input, n, output);                                                   \
    }
#define WORKSPACE_ENTRY(id, op, Op, dtype, T, ATTRIBUTES)                                        \
    extern "C" __global__ void ATTRIBUTES __launch_bounds__(MAX_BLOCK) id##_##op##_##dtype(      \
        const T* __restrict__ input, u64 n, T* partials, u32* counter, T* __restrict__ output) { \
        id<T, Op<T>>(input, n, partials, counter, output);                                       \
    }
#define FOR_OPS(MACRO, id, dtype, T, ...)      \
    MACRO(id, sum, Sum, dtype, T, __VA_ARGS__) \
    MACRO(id, min, Min, dtype, T, __VA_ARGS__) \
    MACRO(id, max, Max, dtype, T, __VA_ARGS__) \
    MACRO(id, sumsq, SumSq, dtype, T, __VA_ARGS__)
#define FOR_ALL(MACRO, id, ...)                 \
    FOR_OPS(MACRO, id, i32, int, __VA_ARGS__)   \
    FOR_OPS(MACRO, id, u32, u32, __VA_ARGS__)   \
    FOR_OPS(MACRO, id, i64, i64, __VA_ARGS__)   \
    FOR_OPS(MACRO, id, u64, u64, __VA_ARGS__)   \
    FOR_OPS(MACRO, id, f32, float, __VA_ARGS__) \
    FOR_OPS(MACRO, id, f64, double, __VA_ARGS__)

// (input, n, output)
#define ENTRIES(id) FOR_ALL(ENTRY, id, )
// (input, n, partials, counter, output)
#define WORKSPACE_ENTRIES(id) FOR_ALL(WORKSPACE_ENTRY, id, )
