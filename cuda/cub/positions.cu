// Index of the minimum and of the maximum: cub::DeviceReduce::ArgMin and ArgMax. The output is the
// extreme element, and 8 bytes after its start the 64-bit index.
#include "library.cuh"

#include <cub/device/device_reduce.cuh>

namespace warpfold {

static std::int64_t* index_of(const Call& call) {
    return reinterpret_cast<std::int64_t*>(static_cast<char*>(call.output) + 8);
}

cudaError_t index_of_least(Dtype dtype, const Call& call) {
    return with_dtype(dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        const auto n = static_cast<std::int64_t>(call.n);
        return cub::DeviceReduce::ArgMin(call.temporary, *call.bytes, static_cast<const T*>(call.input),
                                         static_cast<T*>(call.output), index_of(call), n, call.stream);
    });
}

cudaError_t index_of_greatest(Dtype dtype, const Call& call) {
    return with_dtype(dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        const auto n = static_cast<std::int64_t>(call.n);
        return cub::DeviceReduce::ArgMax(call.temporary, *call.bytes, static_cast<const T*>(call.input),
                                         static_cast<T*>(call.output), index_of(call), n, call.stream);
    });
}

}  // namespace warpfold
