// The library's C interface: CUB's device-wide reductions, by numbers of operations and element types.
// Calls do not allocate and do not wait: they enqueue kernels on the caller's stream.
// Source: the CUDA Core Compute Libraries of the CUDA toolkit.
#include "library.cuh"

#include <cub/version.cuh>

using warpfold::Call;
using warpfold::Dtype;
using warpfold::Rows;

#define EXPORTED __attribute__((visibility("default")))

extern "C" {

// Returns the version of CUB; 3.1.4 is 300104.
EXPORTED int warpfold_cub_version() {
    return CUB_VERSION;
}

// Returns a static description of an error code.
EXPORTED const char* warpfold_cub_error(int code) {
    return cudaGetErrorString(static_cast<cudaError_t>(code));
}

// Enqueues a reduction and returns 0 or an error code. If `temporary` is null, enqueues nothing and sets
// `*bytes` to the required size of the temporary storage.
EXPORTED int warpfold_cub_reduce(int op, int dtype, void* temporary, std::size_t* bytes,
                                 const void* input, void* output, std::uint64_t n, void* stream) {
    const Call call{temporary, bytes, input, output, n, static_cast<cudaStream_t>(stream)};
    const auto element = static_cast<Dtype>(dtype);
    switch (op) {
        case 0: return warpfold::sum(element, call);
        case 1: return warpfold::least(element, call);
        case 2: return warpfold::greatest(element, call);
        case 3: return warpfold::sum_of_squares(element, call);
        case 4: return warpfold::index_of_least(element, call);
        case 5: return warpfold::index_of_greatest(element, call);
        default: return cudaErrorInvalidValue;
    }
}

// Like warpfold_cub_reduce, for each of `count` rows of `len` f32; of the operations above, only the sum
// and the index of the maximum. If `offsets` is null, the rows are segments of one length; otherwise it
// is the device address of `count` + 1 offsets.
EXPORTED int warpfold_cub_rows(int op, void* temporary, std::size_t* bytes, const void* input,
                               void* output, std::uint64_t count, std::uint64_t len,
                               const std::int32_t* offsets, void* stream) {
    if (count * len > INT32_MAX) return cudaErrorInvalidValue;
    const Call call{temporary, bytes, input, output, count * len, static_cast<cudaStream_t>(stream)};
    const Rows rows{count, len, offsets};
    switch (op) {
        case 0: return warpfold::sums_of_rows(rows, call);
        case 5: return warpfold::places_in_rows(rows, call);
        default: return cudaErrorInvalidValue;
    }
}

}  // extern "C"
