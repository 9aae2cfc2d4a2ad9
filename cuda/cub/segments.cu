// Reductions of the rows of a matrix of f32: cub::DeviceSegmentedReduce, the rows as segments of equal
// lengths or by offsets. The place of the largest is a pair of 8 bytes, the index in the row, 32 bits
// wide, and the element.
#include "library.cuh"

#include <cub/device/device_segmented_reduce.cuh>
#include <cub/version.cuh>
#include <cuda/std/utility>

namespace warpfold {

// Where CUB writes a place: a pair of its own by offsets, a pair of the standard library's at equal
// lengths.
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
