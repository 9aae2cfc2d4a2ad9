// Measures cub::DeviceTopK::MaxPairs with places: unsorted results, of which equal ones are not always the same, the only
// kind that CUB 3.5 has. Prints a line of JSON for each type, size and k: the quartiles of microseconds per call in a
// sequence of enqueued calls. The elements are as in warpfold/benches/top.rs; inputs rotate past the L2 cache.
//
//     nvcc -std=c++17 -O3 -arch=sm_90 -o top_peers scripts/gpu/top_peers.cu && ./top_peers
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <cub/device/device_topk.cuh>
#include <cuda_fp16.h>
#include <thrust/iterator/counting_iterator.h>

template <class T> T element(uint64_t bits);
template <> float element<float>(uint64_t bits) { return (uint32_t(bits) >> 8) / float(1 << 24); }
template <> __half element<__half>(uint64_t bits) { return __float2half(element<float>(bits)); }
template <> int8_t element<int8_t>(uint64_t bits) { return int8_t(bits); }

template <class T> void measure(const char *dtype, const std::vector<T> &elements, int k) {
    size_t n = elements.size(), bytes = n * sizeof(T);
    std::vector<T *> inputs(std::min<size_t>(64, (size_t(256) << 20) / bytes + 1));
    for (auto &input : inputs) {
        cudaMalloc(&input, bytes);
        cudaMemcpy(input, elements.data(), bytes, cudaMemcpyHostToDevice);
    }
    T *keys;
    uint32_t *places;
    cudaMalloc(&keys, k * sizeof(T));
    cudaMalloc(&places, k * sizeof(uint32_t));
    auto environment = cuda::execution::require(
        cuda::execution::determinism::not_guaranteed, cuda::execution::output_ordering::unsorted);
    void *memory = nullptr;
    size_t needed = 0;
    auto find = [&](const T *input) {
        thrust::counting_iterator<uint32_t> indices(0);
        return cub::DeviceTopK::MaxPairs(
            memory, needed, input, keys, indices, places, uint32_t(n), k, environment);
    };
    find(inputs[0]);
    cudaMalloc(&memory, needed);
    std::vector<double> times;
    int calls = n >= 1 << 26 ? 10 : 60;
    for (int round = 0; round < 12; ++round) {
        auto start = std::chrono::steady_clock::now();
        for (int call = 0; call < calls; ++call) find(inputs[call % inputs.size()]);
        cudaDeviceSynchronize();
        std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
        // The first round loads the kernels.
        if (round > 0) times.push_back(took.count() / calls);
    }
    std::sort(times.begin(), times.end());
    auto quartile = [&](int part) { return times[times.size() * part / 4]; };
    printf(
        "{\"peer\":\"cub\",\"dtype\":\"%s\",\"n\":%zu,\"k\":%d,\"us\":[%.2f,%.2f,%.2f],\"error\":\"%s\"}\n",
        dtype, n, k, quartile(1), quartile(2), quartile(3), cudaGetErrorString(cudaGetLastError()));
    for (auto input : inputs) cudaFree(input);
    cudaFree(keys);
    cudaFree(places);
    cudaFree(memory);
}

template <class T> void measure_sizes(const char *dtype) {
    for (int exponent : {16, 20, 24, 28}) {
        std::vector<T> elements(size_t(1) << exponent);
        uint64_t state = 1;
        for (auto &value : elements) {
            state = state * 0x5851f42d4c957f2dull + 0x14057b7ef767814full;
            value = element<T>(state ^ state >> 32);
        }
        for (int k : {32, 100, 1000, 4096}) measure(dtype, elements, k);
    }
}

int main() {
    measure_sizes<float>("f32");
    measure_sizes<__half>("f16");
    measure_sizes<int8_t>("i8");
}
