// Measures what CUB's users write for several results of the same elements: one cub::DeviceReduce::TransformReduce with an
// accumulator of their own, and a call of CUB for each result. Prints a line of JSON for each type, size, tuple and way:
// the quartiles of microseconds per tuple in a sequence of enqueued calls. The elements and the tuples are those of
// warpfold/benches/tuples.rs; inputs rotate past the L2 cache. Means and variances are merged by Welford's formulas in f32.
//
//     nvcc -std=c++17 -O3 -arch=sm_90 -o tuple_peers scripts/gpu/tuple_peers.cu && ./tuple_peers
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <vector>

#include <cub/device/device_reduce.cuh>
#include <cuda_fp16.h>

#define TRY(call)                                                                                                       \
    if (cudaError_t error = (call); error != cudaSuccess) {                                                             \
        fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                                                  \
        exit(1);                                                                                                        \
    }

constexpr float INFINITE = std::numeric_limits<float>::infinity();

struct Sums {
    float sum, least, greatest;
};
struct ToSums {
    template <class T> __device__ Sums operator()(T x) const { return {float(x), float(x), float(x)}; }
};
struct AddSums {
    __device__ Sums operator()(Sums a, Sums b) const {
        return {a.sum + b.sum, fminf(a.least, b.least), fmaxf(a.greatest, b.greatest)};
    }
};

struct Moments {
    float count, mean, squares, least, greatest;
    unsigned long long nonzero;
};
struct ToMoments {
    template <class T> __device__ Moments operator()(T element) const {
        float x = float(element);
        return {1, x, 0, x, x, x != 0};
    }
};
struct AddMoments {
    __device__ Moments operator()(Moments a, Moments b) const {
        float count = a.count + b.count, delta = b.mean - a.mean, share = count > 0 ? b.count / count : 0;
        return {
            count, a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share,
            fminf(a.least, b.least), fmaxf(a.greatest, b.greatest), a.nonzero + b.nonzero};
    }
};
struct ToFloat {
    template <class T> __device__ float operator()(T x) const { return float(x); }
};

struct Memory {
    void *start = nullptr;
    size_t bytes = 0;
};

template <class T> void measure(const char *dtype, size_t n) {
    size_t bytes = n * sizeof(T);
    std::vector<T> elements(n);
    for (size_t at = 0; at < n; ++at) elements[at] = T(float(at % 7) - 3.0f);
    std::vector<T *> inputs(std::min<size_t>(64, (size_t(256) << 20) / bytes + 1));
    for (auto &input : inputs) {
        TRY(cudaMalloc(&input, bytes));
        TRY(cudaMemcpy(input, elements.data(), bytes, cudaMemcpyHostToDevice));
    }
    char *out;
    TRY(cudaMallocHost(&out, 1024));

    auto contest = [&](const char *tuple, const char *way, std::vector<std::function<cudaError_t(const T *, Memory &)>> calls) {
        std::vector<Memory> memories(calls.size());
        auto all = [&](const T *input) {
            for (size_t at = 0; at < calls.size(); ++at) TRY(calls[at](input, memories[at]));
        };
        all(inputs[0]);
        for (auto &memory : memories) TRY(cudaMalloc(&memory.start, memory.bytes));
        std::vector<double> times;
        int repeats = n >= 1 << 26 ? 20 : 200;
        for (int round = 0; round < 16; ++round) {
            auto start = std::chrono::steady_clock::now();
            for (int call = 0; call < repeats; ++call) all(inputs[call % inputs.size()]);
            TRY(cudaDeviceSynchronize());
            std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
            // The first round loads the kernels.
            if (round > 0) times.push_back(took.count() / repeats);
        }
        std::sort(times.begin(), times.end());
        auto quartile = [&](int part) { return times[times.size() * part / 4]; };
        printf(
            "{\"peer\":\"cub\",\"dtype\":\"%s\",\"n\":%zu,\"tuple\":\"%s\",\"way\":\"%s\",\"us\":[%.3f,%.3f,%.3f]}\n", dtype, n,
            tuple, way, quartile(1), quartile(2), quartile(3));
        for (auto &memory : memories) cudaFree(memory.start);
    };

    using cub::DeviceReduce;
    auto sum = [&](const T *in, Memory &m) {
        return DeviceReduce::TransformReduce(m.start, m.bytes, in, (float *)out, n, ::cuda::std::plus<>{}, ToFloat{}, 0.0f);
    };
    auto least = [&](const T *in, Memory &m) { return DeviceReduce::Min(m.start, m.bytes, in, (T *)out + 16, n); };
    auto greatest = [&](const T *in, Memory &m) { return DeviceReduce::Max(m.start, m.bytes, in, (T *)out + 32, n); };
    auto sums = [&](const T *in, Memory &m) {
        return DeviceReduce::TransformReduce(
            m.start, m.bytes, in, (Sums *)(out + 512), n, AddSums{}, ToSums{}, Sums{0, INFINITE, -INFINITE});
    };
    auto moments = [&](const T *in, Memory &m) {
        return DeviceReduce::TransformReduce(
            m.start, m.bytes, in, (Moments *)(out + 640), n, AddMoments{}, ToMoments{},
            Moments{0, 0, 0, INFINITE, -INFINITE, 0});
    };
    auto first = [&](const T *in, Memory &m) {
        return DeviceReduce::ArgMin(m.start, m.bytes, in, (T *)(out + 768), (int64_t *)(out + 776), int64_t(n));
    };
    auto last = [&](const T *in, Memory &m) {
        return DeviceReduce::ArgMax(m.start, m.bytes, in, (T *)(out + 784), (int64_t *)(out + 792), int64_t(n));
    };
    contest("sum", "a call each", {sum});
    contest("sum, min, max", "one call", {sums});
    contest("sum, min, max", "a call each", {sum, least, greatest});
    contest("mean and variance, min, max, count", "one call", {moments});
    contest("argmin, argmax", "a call each", {first, last});

    auto found = (Sums *)(out + 512);
    auto described = (Moments *)(out + 640);
    bool right = found->least == -3 && found->greatest == 3 && described->least == -3 && described->greatest == 3 &&
        described->nonzero == n - (n + 3) / 7 && std::abs(described->squares / n - 4) < 0.01;
    if (!right) {
        fprintf(stderr, "%s, %zu: wrong results\n", dtype, n);
        exit(1);
    }
    for (auto input : inputs) cudaFree(input);
    cudaFreeHost(out);
}

int main() {
    for (int exponent : {16, 20, 24, 28}) {
        measure<float>("f32", size_t(1) << exponent);
        measure<__half>("f16", size_t(1) << exponent);
    }
}
