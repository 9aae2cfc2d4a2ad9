// An ordinary CUDA program: it uses the CUDA runtime through nvcc, checks the results, and prints a line
// for each part.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#define OK(call)                                                                                          \
    do {                                                                                                  \
        cudaError_t code = (call);                                                                        \
        if (code != cudaSuccess) {                                                                        \
            printf("line %d: %s is %s\n", __LINE__, #call, cudaGetErrorName(code));                       \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)

#define MUST(what)                                                                                        \
    do {                                                                                                  \
        if (!(what)) {                                                                                    \
            printf("line %d: not so: %s\n", __LINE__, #what);                                             \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)

const int N = 10007;

__constant__ float factors[2];
__device__ int counter = 5;

__global__ void scale(float *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = values[i] * factors[0] + factors[1];
}

template <typename T> __global__ void sum(const T *values, int n, T *result) {
    extern __shared__ unsigned char bytes[];
    T *shared = reinterpret_cast<T *>(bytes);
    T mine = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) mine += values[i];
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) *result = shared[0];
}

__global__ void count() { atomicAdd(&counter, 1); }

__global__ void increase(int *word, int by) { atomicAdd(word, by); }

__global__ void __launch_bounds__(64) bounded() {}

__global__ void say() { printf("block %d says %s %.2f\n", blockIdx.x, "hello", 1.5); }

// After the grid barrier, the first block reads the values that all blocks have written.
__global__ void meet(int *each, int *total) {
    each[blockIdx.x] = blockIdx.x;
    cooperative_groups::this_grid().sync();
    if (blockIdx.x == 0)
        for (int i = 0; i < gridDim.x; i++) *total += each[i];
}

static void kernels() {
    float host[N], factor[2] = {2.0f, 1.0f};
    for (int i = 0; i < N; i++) host[i] = i % 100;
    float *values;
    OK(cudaMalloc(&values, sizeof(host)));
    OK(cudaMemcpy(values, host, sizeof(host), cudaMemcpyHostToDevice));
    OK(cudaMemcpyToSymbol(factors, factor, sizeof(factor)));
    scale<<<(N + 255) / 256, 256>>>(values, N);
    OK(cudaGetLastError());
    float back[N];
    OK(cudaMemcpy(back, values, sizeof(back), cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++) MUST(back[i] == 2.0f * (i % 100) + 1.0f);
    OK(cudaFree(values));
    printf("constant memory and a kernel\n");
}

template <typename T> static void sum_of(T expected) {
    T *values, result;
    OK(cudaMallocHost(&values, N * sizeof(T)));
    for (int i = 0; i < N; i++) values[i] = i % 10;
    T *on_device, *sum_on_device;
    cudaStream_t stream;
    cudaEvent_t start, end;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&end));
    OK(cudaMallocAsync(&on_device, N * sizeof(T), stream));
    OK(cudaMallocAsync(&sum_on_device, sizeof(T), stream));
    OK(cudaEventRecord(start, stream));
    OK(cudaMemcpyAsync(on_device, values, N * sizeof(T), cudaMemcpyDefault, stream));
    sum<T><<<1, 128, 128 * sizeof(T), stream>>>(on_device, N, sum_on_device);
    OK(cudaMemcpyAsync(&result, sum_on_device, sizeof(T), cudaMemcpyDeviceToHost, stream));
    OK(cudaEventRecord(end, stream));
    OK(cudaEventSynchronize(end));
    OK(cudaStreamSynchronize(stream));
    MUST(result == expected);
    float milliseconds = -1;
    OK(cudaEventElapsedTime(&milliseconds, start, end));
    MUST(milliseconds >= 0);
    OK(cudaFreeAsync(on_device, stream));
    OK(cudaFreeAsync(sum_on_device, stream));
    OK(cudaStreamDestroy(stream));
    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(end));
    OK(cudaFreeHost(values));
}

// Memory may be freed while an enqueued kernel still uses it.
static void freed() {
    float *values, *result, back;
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc(&values, N * sizeof(float)));
    OK(cudaMalloc(&result, sizeof(float)));
    OK(cudaMemsetAsync(values, 0, N * sizeof(float), stream));
    sum<float><<<1, 128, 128 * sizeof(float), stream>>>(values, N, result);
    OK(cudaFree(values));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(&back, result, sizeof(float), cudaMemcpyDeviceToHost));
    MUST(back == 0);
    OK(cudaFree(result));
    OK(cudaStreamDestroy(stream));
    printf("freed behind a kernel\n");
}

static void variables() {
    int before, after, *address;
    size_t bytes;
    OK(cudaMemcpyFromSymbol(&before, counter, sizeof(int)));
    count<<<3, 32>>>();
    OK(cudaGetSymbolAddress((void **)&address, counter));
    OK(cudaGetSymbolSize(&bytes, counter));
    OK(cudaMemcpy(&after, address, sizeof(int), cudaMemcpyDeviceToHost));
    MUST(before == 5 && after == 5 + 96 && bytes == sizeof(int));
    MUST(cudaMemcpyToSymbol(counter, &before, sizeof(int), 1) == cudaErrorInvalidValue);
    MUST(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);
    printf("variables\n");
}

static void managed() {
    int *values;
    OK(cudaMallocManaged(&values, N * sizeof(int)));
    for (int i = 0; i < N; i++) values[i] = 1;
    int *total;
    OK(cudaMallocManaged(&total, sizeof(int)));
    sum<int><<<1, 64, 64 * sizeof(int)>>>(values, N, total);
    OK(cudaDeviceSynchronize());
    MUST(*total == N);
    cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, values));
    MUST(attributes.type == cudaMemoryTypeManaged && attributes.devicePointer == values);
    OK(cudaPointerGetAttributes(&attributes, &total));
    MUST(attributes.type == cudaMemoryTypeUnregistered);
    OK(cudaFree(values));
    OK(cudaFree(total));
    printf("managed memory\n");
}

static void rows() {
    unsigned char host[7][13], back[7][13];
    for (int i = 0; i < 7 * 13; i++) host[i / 13][i % 13] = i;
    unsigned char *pitched;
    size_t pitch;
    OK(cudaMallocPitch(&pitched, &pitch, 13, 7));
    MUST(pitch >= 13);
    OK(cudaMemset2D(pitched, pitch, 0xff, 13, 7));
    OK(cudaMemcpy2D(pitched, pitch, host, 13, 10, 7, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2D(back, 13, pitched, pitch, 13, 7, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 7 * 13; i++) MUST(back[i / 13][i % 13] == (i % 13 < 10 ? i : 0xff));
    MUST(cudaMemcpy2D(back, 12, pitched, pitch, 13, 7, cudaMemcpyDeviceToHost) == cudaErrorInvalidPitchValue);
    OK(cudaFree(pitched));
    printf("rows\n");
}

static void recorded() {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int before, after;
    OK(cudaMemcpyFromSymbol(&before, counter, sizeof(int)));
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    count<<<1, 10, 0, stream>>>();
    count<<<2, 10, 0, stream>>>();
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpyFromSymbol(&after, counter, sizeof(int)));
    MUST(after == before + 90);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
    printf("a graph\n");
}

// Changes the parameters of an instantiated graph.
static void changed() {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t filled, added, copied;
    int *word, *other, back[2], by = 3;
    cudaMemsetParams fill = {};
    cudaKernelNodeParams call = {};
    void *arguments[] = {&word, &by};
    OK(cudaMalloc(&word, sizeof(int)));
    OK(cudaMalloc(&other, sizeof(int)));
    fill.dst = word;
    fill.value = 40;
    fill.elementSize = 4;
    fill.width = fill.height = 1;
    call.func = (void *)increase;
    call.gridDim = call.blockDim = dim3(1);
    call.kernelParams = arguments;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemsetNode(&filled, graph, nullptr, 0, &fill));
    OK(cudaGraphAddKernelNode(&added, graph, &filled, 1, &call));
    OK(cudaGraphAddMemcpyNode1D(&copied, graph, &added, 1, other, word, sizeof(int), cudaMemcpyDeviceToDevice));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, 0));
    fill.value = 10;
    by = 5;
    call.blockDim = dim3(2);
    OK(cudaGraphExecMemsetNodeSetParams(exec, filled, &fill));
    OK(cudaGraphExecKernelNodeSetParams(exec, added, &call));
    OK(cudaMemcpy(back, other, sizeof(int), cudaMemcpyDeviceToHost));
    OK(cudaGraphLaunch(exec, 0));
    OK(cudaMemcpy(back + 1, other, sizeof(int), cudaMemcpyDeviceToHost));
    MUST(back[0] == 43 && back[1] == 20);
    by = 7;
    OK(cudaGraphKernelNodeSetParams(added, &call));
    cudaGraphExecUpdateResultInfo info;
    OK(cudaGraphExecUpdate(exec, graph, &info));
    MUST(info.result == cudaGraphExecUpdateSuccess);
    OK(cudaGraphLaunch(exec, 0));
    OK(cudaMemcpy(back, other, sizeof(int), cudaMemcpyDeviceToHost));
    MUST(back[0] == 54);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(word));
    OK(cudaFree(other));
    printf("a graph that changes\n");
}

// Graphs that allocate memory, one captured and one built by hand, and a conditional node.
static void allocating() {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t made, filled, copied, freed, decided;
    int *word, *out, back;
    OK(cudaMalloc(&out, sizeof(int)));
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMallocAsync(&word, sizeof(int), stream));
    OK(cudaMemsetAsync(word, 0, sizeof(int), stream));
    increase<<<1, 3, 0, stream>>>(word, 2);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, stream));
    MUST(cudaGraphLaunch(exec, stream) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    OK(cudaMemcpyAsync(&back, word, sizeof(int), cudaMemcpyDeviceToHost, stream));
    OK(cudaFreeAsync(word, stream));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    MUST(back == 6);
    OK(cudaFree(word));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));

    cudaMemAllocNodeParams wanted = {};
    wanted.bytesize = sizeof(int);
    wanted.poolProps.allocType = cudaMemAllocationTypePinned;
    wanted.poolProps.location.type = cudaMemLocationTypeDevice;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemAllocNode(&made, graph, nullptr, 0, &wanted));
    cudaMemsetParams fill = {};
    fill.dst = wanted.dptr;
    fill.value = 40;
    fill.elementSize = 4;
    fill.width = fill.height = 1;
    OK(cudaGraphAddMemsetNode(&filled, graph, &made, 1, &fill));
    // The graph of this node runs if the value is not 0. No kernel sets it, so it has its default, 1.
    cudaGraphConditionalHandle handle;
    OK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
    cudaGraphNodeParams decide = {cudaGraphNodeTypeConditional};
    decide.conditional.handle = handle;
    decide.conditional.type = cudaGraphCondTypeIf;
    decide.conditional.size = 1;
    OK(cudaGraphAddNode(&decided, graph, &filled, nullptr, 1, &decide));
    OK(cudaStreamBeginCaptureToGraph(stream, decide.conditional.phGraph_out[0], nullptr, nullptr, 0,
                                     cudaStreamCaptureModeGlobal));
    increase<<<1, 2, 0, stream>>>(static_cast<int *>(wanted.dptr), 1);
    OK(cudaStreamEndCapture(stream, nullptr));
    OK(cudaGraphAddMemcpyNode1D(&copied, graph, &decided, 1, out, wanted.dptr, sizeof(int),
                                cudaMemcpyDeviceToDevice));
    OK(cudaGraphAddMemFreeNode(&freed, graph, &copied, 1, wanted.dptr));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; i++) OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(&back, out, sizeof(int), cudaMemcpyDeviceToHost));
    MUST(back == 42);
    size_t kept = 0;
    OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &kept));
    MUST(kept >= sizeof(int));
    OK(cudaDeviceGraphMemTrim(0));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(out));
    printf("a graph that allocates and decides\n");
}

static void together() {
    int *each, *total, result, blocks = 0;
    OK(cudaMalloc(&each, 20 * sizeof(int)));
    OK(cudaMalloc(&total, sizeof(int)));
    OK(cudaMemset(total, 0, sizeof(int)));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, meet, 1, 0));
    MUST(blocks > 0);
    void *arguments[] = {&each, &total};
    OK(cudaLaunchCooperativeKernel(meet, 20, 1, arguments, 0, 0));
    OK(cudaMemcpy(&result, total, sizeof(int), cudaMemcpyDeviceToHost));
    MUST(result == 190);
    OK(cudaFree(each));
    OK(cudaFree(total));
    printf("blocks that meet\n");
}

static void devices() {
    int count, can;
    OK(cudaGetDeviceCount(&count));
    MUST(count == 2);
    cudaDeviceProp properties;
    OK(cudaGetDeviceProperties(&properties, 1));
    MUST(properties.major == 9 && properties.warpSize == 32 && properties.maxThreadsPerBlock == 1024);
    MUST(properties.cooperativeLaunch == 1 && properties.managedMemory == 1);
    MUST(properties.sharedMemPerBlockOptin == 227 * 1024 && properties.regsPerMultiprocessor == 65536);
    MUST(properties.memoryPoolsSupported == 1 && properties.clusterLaunch == 1);
    cudaFuncAttributes attributes;
    OK(cudaFuncGetAttributes(&attributes, scale));
    MUST(attributes.maxThreadsPerBlock == 1024 && attributes.ptxVersion == 90);
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    MUST(can == 1);
    int *here, *there, back[4] = {0}, host[4] = {1, 2, 3, 4};
    OK(cudaMalloc(&here, sizeof(host)));
    OK(cudaMemcpy(here, host, sizeof(host), cudaMemcpyHostToDevice));
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&there, sizeof(host)));
    OK(cudaMemcpyPeer(there, 1, here, 0, sizeof(host)));
    // Each device has its own instance of the module's variables.
    ::count<<<1, 1>>>();
    int counted;
    OK(cudaMemcpyFromSymbol(&counted, counter, sizeof(int)));
    MUST(counted == 6);
    OK(cudaMemcpy(back, there, sizeof(back), cudaMemcpyDeviceToHost));
    MUST(memcmp(back, host, sizeof(host)) == 0);
    MUST(cudaSetDevice(2) == cudaErrorInvalidDevice);
    OK(cudaSetDevice(0));
    int device;
    OK(cudaGetDevice(&device));
    MUST(device == 0);
    (void)cudaGetLastError();
    printf("two devices\n");
}

static void errors() {
    // This is the error of CUDA 13.0's runtime; its manual has another one.
    scale<<<1, 1025>>>(nullptr, 1);
    MUST(cudaPeekAtLastError() == cudaErrorInvalidValue);
    MUST(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);
    scale<<<0, 1>>>(nullptr, 1);
    MUST(cudaGetLastError() == cudaErrorInvalidValue);
    bounded<<<1, 65>>>();
    MUST(cudaGetLastError() == cudaErrorInvalidValue);
    MUST(cudaLaunchKernel((void *)errors, dim3(1), dim3(1), nullptr, 0, 0) == cudaErrorInvalidResourceHandle);
    (void)cudaGetLastError();
    MUST(cudaMemcpy(nullptr, nullptr, 1, (cudaMemcpyKind)9) == cudaErrorInvalidMemcpyDirection);
    MUST(strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument") == 0);
    MUST(strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") == 0);
    printf("errors\n");
}

// A function that the simulator's runtime does not support.
static void absent() {
    cudaMipmappedArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    MUST(cudaMallocMipmappedArray(&array, &format, make_cudaExtent(16, 0, 0), 2) == cudaErrorNotSupported);
    (void)cudaGetLastError();
}

int main(int argc, char **argv) {
    if (argc > 1 && argv[1][0] == 'b') {
        // Accesses the element past the end, which is inside a GPU's rounded allocation.
        float *one;
        OK(cudaMalloc(&one, sizeof(float)));
        scale<<<1, 2>>>(one, 2);
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
        return 0;
    }
    if (argc > 1) {
        // An access at an unmapped address makes the context unusable.
        scale<<<1, 32>>>(reinterpret_cast<float *>(64), 32);
        cudaError_t code = cudaDeviceSynchronize();
        printf("%s, then %s\n", cudaGetErrorName(code), cudaGetErrorName(cudaFree(nullptr)));
        return code == cudaErrorIllegalAddress ? 3 : 1;
    }
    kernels();
    sum_of<float>(45021);
    sum_of<double>(45021);
    sum_of<long long>(45021);
    printf("streams, events and pools\n");
    freed();
    variables();
    managed();
    rows();
    recorded();
    changed();
    allocating();
    together();
    say<<<2, 1>>>();
    OK(cudaDeviceSynchronize());
    errors();
    devices();
    absent();
    OK(cudaDeviceReset());
    printf("all of it\n");
}
