// Sum of squares: cub::DeviceReduce::TransformReduce. Elements narrower than 32 bits are squared and
// added in 32 bits, others in their own type.
#include "library.cuh"

#include <type_traits>

#include <cub/device/device_reduce.cuh>
#include <cuda/std/functional>

namespace warpfold {

// Integers are multiplied as unsigned ones, which wrap around: signed overflow is undefined.
template <typename T>
struct Square {
    __device__ __forceinline__ Wide<T> operator()(T element) const {
        using W = Wide<T>;
        const W wide = static_cast<W>(element);
        if constexpr (std::is_integral_v<W>) {
            using U = std::make_unsigned_t<W>;
            return static_cast<W>(static_cast<U>(wide) * static_cast<U>(wide));
        } else {
            return wide * wide;
        }
    }
};

cudaError_t sum_of_squares(Dtype dtype, const Call& call) {
    return with_dtype(dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        const auto input = static_cast<const T*>(call.input);
        const auto output = static_cast<Wide<T>*>(call.output);
        return with_count(call.n, [&](auto n) {
            return cub::DeviceReduce::TransformReduce(call.temporary, *call.bytes, input, output, n,
                                                      ::cuda::std::plus<>{}, Square<T>{}, Wide<T>{},
                                                      call.stream);
        });
    });
}

}  // namespace warpfold
