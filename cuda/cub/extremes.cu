// Minimum and maximum: cub::DeviceReduce::Min and Max. If an element is NaN, the result may be NaN or a
// number.
#include "library.cuh"

#include <cub/device/device_reduce.cuh>

namespace warpfold {

cudaError_t least(Dtype dtype, const Call& call) {
    return with_dtype(dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        const auto input = static_cast<const T*>(call.input);
        const auto output = static_cast<T*>(call.output);
        return with_count(call.n, [&](auto n) {
            return cub::DeviceReduce::Min(call.temporary, *call.bytes, input, output, n, call.stream);
        });
    });
}

cudaError_t greatest(Dtype dtype, const Call& call) {
    return with_dtype(dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        const auto input = static_cast<const T*>(call.input);
        const auto output = static_cast<T*>(call.output);
        return with_count(call.n, [&](auto n) {
            return cub::DeviceReduce::Max(call.temporary, *call.bytes, input, output, n, call.stream);
        });
    });
}

}  // namespace warpfold
