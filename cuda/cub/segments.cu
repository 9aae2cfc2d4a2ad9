// Reductions of the rows of a matrix of f32: cub::DeviceSegmentedReduce, with segments of one length or
// with offsets. For the index of the maximum, the output is a pair of 8 bytes per row: the 32-bit index
// in the row, and the element.
#include "library.cuh"

#include <cub/device/device_segmented_reduce.cuh>
#include <cub/version.cuh>
#include <cuda/std/utility>

namespace warpfold {

// The output types of ArgMax: with offsets CUB's own pair, with segments of one length that of the CUDA
// standard library.
using Place = cub::KeyValuePair<int, float>;
using EqualPlace = ::cuda::std::pair<int, float>;
static_assert(sizeof(Place) == 8 && sizeof(EqualPlace) == 8);

cudaError_t sums_of_rows(const Rows& rows, const Call& call) {
    const auto input = static_cast<const float*>(call.input);
    const auto output = static_cast<float*>(call.output);
    const auto count = static_cast<std::int64_t>(rows.count);
    if (rows.offsets) {
        return cub::DeviceSegmentedReduce::Sum(call.temporary, *call.bytes, input, output, count,
                                               rows.offsets, rows.offsets + 1, call.stream);
    }
#if CUB_VERSION >= EQUAL_LENGTHS_SINCE
    return cub::DeviceSegmentedReduce::Sum(call.temporary, *call.bytes, input, output, count,
                                           static_cast<int>(rows.len), call.stream);
#else
    return cudaErrorNotSupported;
#endif
}

cudaError_t places_in_rows(const Rows& rows, const Call& call) {
    const auto input = static_cast<const float*>(call.input);
    const auto count = static_cast<std::int64_t>(rows.count);
    if (rows.offsets) {
        const auto output = static_cast<Place*>(call.output);
        return cub::DeviceSegmentedReduce::ArgMax(call.temporary, *call.bytes, input, output, count,
                                                  rows.offsets, rows.offsets + 1, call.stream);
    }
#if CUB_VERSION >= EQUAL_LENGTHS_SINCE
    const auto output = static_cast<EqualPlace*>(call.output);
    return cub::DeviceSegmentedReduce::ArgMax(call.temporary, *call.bytes, input, output, count,
                                              static_cast<int>(rows.len), call.stream);
#else
    return cudaErrorNotSupported;
#endif
}

}  // namespace warpfold
