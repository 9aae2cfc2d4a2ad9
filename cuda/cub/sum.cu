// Sum: cub::DeviceReduce::Sum. Sums of 8-bit and 16-bit integers have 32 bits. Half floats are added in
// single precision, which Sum cannot do: TransformReduce widens them first.
#include "library.cuh"

#include <type_traits>

#include <cub/device/device_reduce.cuh>
#include <cuda/std/functional>

namespace warpfold {

struct Widen {
    template <typename T>
    __device__ __forceinline__ float operator()(T element) const {
        return static_cast<float>(element);
    }
};

cudaError_t sum(Dtype dtype, const Call& call) {
    return with_dtype(dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        const auto input = static_cast<const T*>(call.input);
        const auto output = static_cast<Wide<T>*>(call.output);
        return with_count(call.n, [&](auto n) {
            if constexpr (IS_HALF<T>) {
                return cub::DeviceReduce::TransformReduce(call.temporary, *call.bytes, input, output, n,
                                                          ::cuda::std::plus<>{}, Widen{}, 0.0f,
                                                          call.stream);
            } else {
                return cub::DeviceReduce::Sum(call.temporary, *call.bytes, input, output, n,
                                              call.stream);
            }
        });
    });
}

}  // namespace warpfold
