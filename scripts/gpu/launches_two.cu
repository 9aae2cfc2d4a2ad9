// Measures the time until the host has a sum of 2^20 floats on one device, or of 2^20 on each of two, with several ways
// of launching and of waiting: a prototype in CUDA C of the library's groups. Prints a line of JSON for each way, in
// microseconds: the median of seven rounds' medians, and their minimum and maximum.
//
//     nvcc -O3 -arch=sm_90 -o launches_two scripts/gpu/launches_two.cu -lcuda && ./launches_two
#include <cuda.h>
#include <atomic>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
#include <string>
#include <cuda_runtime.h>

#define OK(call) do { CUresult r_ = (call); if (r_ != CUDA_SUCCESS) { const char *s; cuGetErrorName(r_, &s); printf("%s:%d %s: %s\n", __FILE__, __LINE__, #call, s); exit(1); } } while (0)
#define RT(call) do { cudaError_t r_ = (call); if (r_ != cudaSuccess) { printf("%s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(r_)); exit(1); } } while (0)

struct Args { const float4 *in; unsigned n4; float *slots; unsigned *count; unsigned *meeting; float *cells; unsigned rank, members; volatile float *result; volatile unsigned *flag; unsigned mark; };

extern "C" __global__ void __launch_bounds__(512) sum(Args a) {
    __shared__ float warps[16];
    __shared__ bool last;
    float s = 0;
    for (unsigned i = blockIdx.x * 512 + threadIdx.x; i < a.n4; i += gridDim.x * 512) { float4 v = a.in[i]; s += v.x + v.y + v.z + v.w; }
    for (int d = 16; d; d /= 2) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 16; ++w) s += warps[w];
        a.slots[blockIdx.x] = s;
        __threadfence();
        last = atomicInc(a.count, gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last || threadIdx.x >= 32) return;
    s = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += 32) s += __ldcg(a.slots + i);
    for (int d = 16; d; d /= 2) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x) return;
    if (a.members > 1) {
        a.cells[a.rank * 16] = s;
        __threadfence_system();
        if (atomicInc_system(a.meeting, a.members - 1) != a.members - 1) return;
        __threadfence_system();
        s = 0;
        for (unsigned m = 0; m < a.members; ++m) s += *(volatile float *)(a.cells + m * 16);
    }
    *a.result = s;
    __threadfence_system();
    *a.flag = a.mark;
}

typedef std::chrono::steady_clock Clock;
static double us(Clock::time_point from) { return std::chrono::duration<double, std::micro>(Clock::now() - from).count(); }
static double median(std::vector<double> v) { std::sort(v.begin(), v.end()); return v[v.size() / 2]; }

int main() {
    int count; RT(cudaGetDeviceCount(&count));
    CUcontext ctx[2]; CUstream stream[2]; CUevent event[2]; CUfunction f[2];
    Args args[2]; Args alone;
    unsigned n = 1 << 20;
    volatile float *result; volatile unsigned *flag;
    float *cells; unsigned *meeting;
    for (int d = 0; d < 2; ++d) {
        RT(cudaSetDevice(d)); RT(cudaFree(0));
        OK(cuCtxGetCurrent(&ctx[d]));
        RT(cudaDeviceEnablePeerAccess(1 - d, 0));
        OK(cuStreamCreate(&stream[d], CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&event[d], CU_EVENT_DISABLE_TIMING));
        RT(cudaGetFuncBySymbol(&f[d], (const void *)sum));
        if (d == 0) {
            void *h; RT(cudaHostAlloc(&h, 4096, cudaHostAllocPortable | cudaHostAllocMapped));
            result = (float *)h; flag = (unsigned *)h + 64;
            RT(cudaMalloc(&cells, 4096)); RT(cudaMalloc(&meeting, 256)); RT(cudaMemset(meeting, 0, 256));
        }
        float *in, *slots; unsigned *c;
        RT(cudaMalloc(&in, n * 4)); RT(cudaMalloc(&slots, 4096)); RT(cudaMalloc(&c, 256)); RT(cudaMemset(c, 0, 256));
        std::vector<float> ones(n, 1.0f); RT(cudaMemcpy(in, ones.data(), n * 4, cudaMemcpyHostToDevice));
        args[d] = Args{(float4 *)in, n / 4, slots, c, meeting, cells, (unsigned)d, 2, result, flag, 1};
        RT(cudaDeviceSynchronize());
    }
    alone = args[0]; alone.members = 1;
    const unsigned grid = 256;
    auto launch = [&](int d, Args &a) { void *p[] = {&a}; OK(cuLaunchKernel(f[d], grid, 1, 1, 512, 1, 1, 0, stream[d], p, 0)); };
    auto set = [&](int d) { OK(cuCtxSetCurrent(ctx[d])); };
    const float one = (float)n, both = 2.0f * n;
    auto time = [&](const char *what, float want, auto &&run) {
        std::vector<double> medians;
        for (int round = 0; round < 7; ++round) {
            std::vector<double> t;
            for (int i = 0; i < 600; ++i) {
                *result = 0; *flag = 0;
                auto start = Clock::now();
                run();
                double took = us(start);
                if (*result != want) { printf("%s: wrong %f\n", what, *result); exit(1); }
                if (i >= 100) t.push_back(took);
            }
            medians.push_back(median(t));
            // Finish pending work before the next round.
            for (int d = 0; d < 2; ++d) { set(d); OK(cuCtxSynchronize()); }
            set(0);
        }
        double least = *std::min_element(medians.begin(), medians.end()), most = *std::max_element(medians.begin(), medians.end());
        printf("{\"what\": \"%s\", \"us\": %.2f, \"least\": %.2f, \"most\": %.2f}\n", what, median(medians), least, most);
        fflush(stdout);
    };
    set(0);
    auto poll = [&] { while (!*flag) __builtin_ia32_pause(); };
    time("one: launch, stream sync", one, [&] { launch(0, alone); OK(cuStreamSynchronize(stream[0])); });
    time("one: set context, launch, event, event sync", one, [&] { set(0); launch(0, alone); OK(cuEventRecord(event[0], stream[0])); OK(cuEventSynchronize(event[0])); });
    time("one: launch, poll, stream sync", one, [&] { launch(0, alone); poll(); OK(cuStreamSynchronize(stream[0])); });
    time("one: launch, poll, stream query", one, [&] { launch(0, alone); poll(); cuStreamQuery(stream[0]); });
    {   // Not timed: the synchronization after each round finishes the polled launches.
        time("one: launch, poll", one, [&] { launch(0, alone); poll(); });
    }
    time("one: stream query until done", one, [&] { launch(0, alone); while (cuStreamQuery(stream[0]) == CUDA_ERROR_NOT_READY) {} });
    time("two: launches, stream syncs, 0 first", both, [&] { set(0); launch(0, args[0]); set(1); launch(1, args[1]); OK(cuStreamSynchronize(stream[1])); set(0); OK(cuStreamSynchronize(stream[0])); });
    time("two: launches, events, event syncs", both, [&] { for (int d = 0; d < 2; ++d) { set(d); launch(d, args[d]); OK(cuEventRecord(event[d], stream[d])); } for (int d = 0; d < 2; ++d) { set(d); OK(cuEventSynchronize(event[d])); } });
    time("two: launches, no context set, stream syncs", both, [&] { launch(0, args[0]); launch(1, args[1]); OK(cuStreamSynchronize(stream[1])); OK(cuStreamSynchronize(stream[0])); });
    time("two: launches, poll, stream syncs", both, [&] { launch(0, args[0]); launch(1, args[1]); poll(); OK(cuStreamSynchronize(stream[1])); OK(cuStreamSynchronize(stream[0])); });
    time("two: launches, poll", both, [&] { launch(0, args[0]); launch(1, args[1]); poll(); });
    // The times of the two launch calls themselves.
    {
        std::vector<double> a, b, c;
        for (int i = 0; i < 500; ++i) {
            auto s = Clock::now(); launch(0, args[0]); a.push_back(us(s));
            s = Clock::now(); launch(1, args[1]); b.push_back(us(s));
            s = Clock::now(); OK(cuStreamSynchronize(stream[1])); OK(cuStreamSynchronize(stream[0])); c.push_back(us(s));
        }
        printf("{\"what\": \"calls of launches 0, 1, syncs\", \"us\": [%.2f, %.2f, %.2f]}\n", median(a), median(b), median(c));
    }
    // A spinning helper thread launches on device 1.
    std::atomic<int> job{0}; std::atomic<bool> stop{false};
    int helper_waits = 0;
    std::thread helper([&] {
        OK(cuCtxSetCurrent(ctx[1]));
        while (!stop.load(std::memory_order_relaxed)) {
            int j = job.load(std::memory_order_acquire);
            if (j == 1) {
                launch(1, args[1]);
                if (helper_waits) OK(cuStreamSynchronize(stream[1]));
                job.store(2, std::memory_order_release);
            } else __builtin_ia32_pause();
        }
    });
    auto helped = [&](int waits) {
        helper_waits = waits;
        std::atomic_thread_fence(std::memory_order_seq_cst);
        job.store(1, std::memory_order_release);
        launch(0, args[0]);
    };
    time("two: helper launches 1, main syncs both", both, [&] { helped(0); while (job.load(std::memory_order_acquire) != 2) {} job = 0; OK(cuStreamSynchronize(stream[1])); OK(cuStreamSynchronize(stream[0])); });
    time("two: helper launches 1 and syncs it", both, [&] { helped(1); OK(cuStreamSynchronize(stream[0])); while (job.load(std::memory_order_acquire) != 2) {} job = 0; });
    time("two: helper launches 1 and syncs it, main polls", both, [&] { helped(1); poll(); OK(cuStreamSynchronize(stream[0])); while (job.load(std::memory_order_acquire) != 2) {} job = 0; });
    time("two: helper launches 1, main polls", both, [&] { helped(0); poll(); while (job.load(std::memory_order_acquire) != 2) {} job = 0; });
    {
        std::vector<double> a, b;
        for (int i = 0; i < 500; ++i) {
            auto s = Clock::now(); helped(0); a.push_back(us(s));
            while (job.load(std::memory_order_acquire) != 2) {} b.push_back(us(s)); job = 0;
            OK(cuStreamSynchronize(stream[1])); OK(cuStreamSynchronize(stream[0]));
        }
        printf("{\"what\": \"helped: own launch done, other's done\", \"us\": [%.2f, %.2f]}\n", median(a), median(b));
    }
    stop = true; helper.join();
    // One graph of both devices.
    CUgraph graph; CUgraphExec exec; CUgraphNode node[2];
    OK(cuGraphCreate(&graph, 0));
    void *p[2][1] = {{&args[0]}, {&args[1]}};
    CUDA_KERNEL_NODE_PARAMS np[2] = {};
    for (int d = 0; d < 2; ++d) {
        np[d].func = f[d]; np[d].gridDimX = grid; np[d].gridDimY = np[d].gridDimZ = 1; np[d].blockDimX = 512; np[d].blockDimY = np[d].blockDimZ = 1;
        np[d].kernelParams = p[d]; np[d].ctx = ctx[d];
        OK(cuGraphAddKernelNode(&node[d], graph, 0, 0, &np[d]));
    }
    set(0);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphUpload(exec, stream[0])); OK(cuStreamSynchronize(stream[0]));
    time("two: graph, stream sync", both, [&] { OK(cuGraphLaunch(exec, stream[0])); OK(cuStreamSynchronize(stream[0])); });
    time("two: graph with new arguments, stream sync", both, [&] { for (int d = 0; d < 2; ++d) OK(cuGraphExecKernelNodeSetParams(exec, node[d], &np[d])); OK(cuGraphLaunch(exec, stream[0])); OK(cuStreamSynchronize(stream[0])); });
    time("two: graph, poll, stream sync", both, [&] { OK(cuGraphLaunch(exec, stream[0])); poll(); OK(cuStreamSynchronize(stream[0])); });
    {
        std::vector<double> a, b, c;
        for (int i = 0; i < 500; ++i) {
            auto s = Clock::now(); for (int d = 0; d < 2; ++d) OK(cuGraphExecKernelNodeSetParams(exec, node[d], &np[d])); a.push_back(us(s));
            s = Clock::now(); OK(cuGraphLaunch(exec, stream[0])); b.push_back(us(s));
            s = Clock::now(); OK(cuStreamSynchronize(stream[0])); c.push_back(us(s));
        }
        printf("{\"what\": \"calls of new arguments, graph launch, sync\", \"us\": [%.2f, %.2f, %.2f]}\n", median(a), median(b), median(c));
    }
    // A graph of one device, to compare a graph launch with a launch.
    CUgraph graph1; CUgraphExec exec1; CUgraphNode node1; void *p1[] = {&alone};
    CUDA_KERNEL_NODE_PARAMS np1 = np[0]; np1.kernelParams = p1;
    OK(cuGraphCreate(&graph1, 0)); OK(cuGraphAddKernelNode(&node1, graph1, 0, 0, &np1)); OK(cuGraphInstantiate(&exec1, graph1, 0));
    time("one: graph, stream sync", one, [&] { OK(cuGraphLaunch(exec1, stream[0])); OK(cuStreamSynchronize(stream[0])); });
    time("one again: launch, stream sync", one, [&] { launch(0, alone); OK(cuStreamSynchronize(stream[0])); });
    time("two again: launches, stream syncs", both, [&] { launch(0, args[0]); launch(1, args[1]); OK(cuStreamSynchronize(stream[1])); OK(cuStreamSynchronize(stream[0])); });
    return 0;
}
