// Shared by the parts of the library: the arguments of a call, and the element types by number.
//
// Operations and element types are passed as numbers, so that any language can call the library. The
// numbers are those of measure/src/contest/cub.rs. Each function takes all element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

namespace warpfold {

enum class Dtype : int { i32, u32, i64, u64, f32, f64, i8, u8, f16, bf16, i16, u16 };

// The arguments of a call. If `temporary` is null, the call only sets `*bytes` to the size required.
struct Call {
    void* temporary;
    std::size_t* bytes;
    const void* input;
    void* output;
    std::uint64_t n;
    cudaStream_t stream;
};

// A matrix. If `offsets` is null, the rows are segments of one length; otherwise it has `count` + 1
// offsets: the start of each row, and the end of the last. CUB takes signed 32-bit lengths and offsets.
struct Rows {
    std::uint64_t count;
    std::uint64_t len;
    const std::int32_t* offsets;
};

// The first version of CUB that has segments of one length: 3.1.0. The same number is in
// measure/src/contest/cub/segments.rs.
#define EQUAL_LENGTHS_SINCE 300100

template <typename T>
constexpr bool IS_HALF = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

// The type in which elements are added, which is also that of the sum: 32 bits for narrower elements.
template <typename T>
using Wide = std::conditional_t<
    IS_HALF<T>, float,
    std::conditional_t<sizeof(T) >= sizeof(std::int32_t), T,
                       std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>>>;

template <typename T>
struct Type {
    using type = T;
};

// Calls `body` with the element type.
template <typename Body>
cudaError_t with_dtype(Dtype dtype, Body body) {
    switch (dtype) {
        case Dtype::i32: return body(Type<std::int32_t>{});
        case Dtype::u32: return body(Type<std::uint32_t>{});
        case Dtype::i64: return body(Type<std::int64_t>{});
        case Dtype::u64: return body(Type<std::uint64_t>{});
        case Dtype::f32: return body(Type<float>{});
        case Dtype::f64: return body(Type<double>{});
        case Dtype::i8: return body(Type<std::int8_t>{});
        case Dtype::u8: return body(Type<std::uint8_t>{});
        case Dtype::f16: return body(Type<__half>{});
        case Dtype::bf16: return body(Type<__nv_bfloat16>{});
        case Dtype::i16: return body(Type<std::int16_t>{});
        case Dtype::u16: return body(Type<std::uint16_t>{});
    }
    return cudaErrorInvalidValue;
}

// Calls `body` with the number of elements: in 32 bits if they suffice, because CUB's kernels for a
// 32-bit count are faster.
template <typename Body>
cudaError_t with_count(std::uint64_t n, Body body) {
    return n <= UINT32_MAX ? body(static_cast<std::uint32_t>(n)) : body(n);
}

cudaError_t sum(Dtype dtype, const Call& call);
cudaError_t sum_of_squares(Dtype dtype, const Call& call);
cudaError_t least(Dtype dtype, const Call& call);
cudaError_t greatest(Dtype dtype, const Call& call);
cudaError_t index_of_least(Dtype dtype, const Call& call);
cudaError_t index_of_greatest(Dtype dtype, const Call& call);
cudaError_t sums_of_rows(const Rows& rows, const Call& call);
cudaError_t places_in_rows(const Rows& rows, const Call& call);

}  // namespace warpfold
