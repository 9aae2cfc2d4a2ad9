// The library's C interface: CUB's device-wide reductions by number of operation and element type.
// Nothing is allocated here, and nothing waits: a call enqueues its kernels on the caller's stream.
// Source: the CUDA Core Compute Libraries of the CUDA toolkit.
#include "library.cuh"

#include <cub/version.cuh>

using warpfold::Call;
using warpfold::Dtype;

#define EXPORTED __attribute__((visibility("default")))

extern "C" {

// 3.1.4 is 300104.
EXPORTED int warpfold_cub_version() {
    return CUB_VERSION;
}

// Static text for a code that a reduction has returned.
EXPORTED const char* warpfold_cub_error(int code) {
    return cudaGetErrorString(static_cast<cudaError_t>(code));
}

// Enqueues a reduction and returns 0, or an error's code. With `temporary` null nothing is enqueued and
// `*bytes` becomes what `temporary` must hold.
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

}  // extern "C"
