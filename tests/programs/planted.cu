// Kernels that each have a typical fault, and are correct if RIGHT is true. The faulty line ends in
// "BUG", the name of the kernel, and rules of the simulator: at least one of them must report the line.
//
//     planted NAME     runs one kernel with its fault
//     planted right    runs all kernels without faults

#include <cstdio>
#include <cstring>

#include <cooperative_groups.h>
#include <cuda_runtime.h>

const int N = 1000;
const int BLOCK = 128;
const int BLOCKS = (N + BLOCK - 1) / BLOCK;

__device__ unsigned int ticket;

// A tree in shared memory without a barrier between its steps.
template <bool RIGHT> __global__ void tree(const float *in, float *out, int n) {
    __shared__ float sums[BLOCK];
    int t = threadIdx.x, i = blockIdx.x * BLOCK + t;
    sums[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (t < half) sums[t] += sums[t + half]; // BUG tree read-write-race
        if (RIGHT) __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sums[0];
}

// A histogram in shared memory, whose counts several threads increment without atomics.
template <bool RIGHT> __global__ void histogram(const float *in, int *bins, int n) {
    __shared__ int counts[16];
    if (threadIdx.x < 16) counts[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) {
        int bin = (int)in[i] % 16;
        if (RIGHT) atomicAdd(&counts[bin], 1);
        else counts[bin]++; // BUG histogram read-write-race write-write-race
    }
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], counts[threadIdx.x]);
}

// A tile that is read before all threads have written to it.
template <bool RIGHT> __global__ void transpose(const float *in, float *out) {
    __shared__ float tile[16][17];
    int x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = in[y * 16 + x];
    if (RIGHT) __syncthreads();
    out[y * 16 + x] = tile[x][y]; // BUG transpose read-write-race
}

// A read of the next element, which is past the end for the last one, in an inlined function.
__device__ __forceinline__ float right_of(const float *in, int i) {
    return in[i + 1]; // BUG stencil out-of-bounds
}

__device__ __forceinline__ float slope(const float *in, int i) { return right_of(in, i) - in[i]; }

template <bool RIGHT> __global__ void stencil(const float *in, float *out, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < (RIGHT ? n - 1 : n)) out[i] = slope(in, i);
}

// A bounds check that allows one element too many.
template <bool RIGHT> __global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (RIGHT ? i < n : i <= n) {
        y[i] = a * x[i % n] + y[i]; // BUG saxpy out-of-bounds
    }
}

// A scan that reads the elements before the first one, which were never written.
template <bool RIGHT> __global__ void scan(const float *in, float *out) {
    __shared__ float values[2 * BLOCK];
    int t = threadIdx.x;
    if (RIGHT) values[t] = 0.0f;
    values[BLOCK + t] = in[t];
    for (int step = 1; step < BLOCK; step *= 2) {
        __syncthreads();
        float other = values[BLOCK + t - step]; // BUG scan unwritten-read
        __syncthreads();
        values[BLOCK + t] += other;
    }
    out[t] = values[BLOCK + t];
}

// The last block adds the other blocks' partial sums, without the fences that make them visible.
template <bool RIGHT> __global__ void last_block(const float *in, float *partial, float *out, int n) {
    __shared__ bool last;
    int t = threadIdx.x, i = blockIdx.x * BLOCK + t;
    float mine = i < n ? in[i] : 0.0f;
    for (int lanes = 16; lanes > 0; lanes /= 2) mine += __shfl_down_sync(~0u, mine, lanes);
    if (t % 32 == 0) atomicAdd(&partial[blockIdx.x], mine);
    __syncthreads();
    if (t == 0) {
        partial[blockIdx.x] /= 2;
        if (RIGHT) __threadfence();
        last = atomicAdd(&ticket, 1) == gridDim.x - 1;
        if (RIGHT) __threadfence();
    }
    __syncthreads();
    if (last && t == 0) {
        float sum = 0;
        for (int b = 0; b < gridDim.x; b++) sum += partial[b]; // BUG last_block read-write-race
        *out = sum;
        ticket = 0;
    }
}

// The same with only the fence after the writes: the last block lacks the fence before its reads.
template <bool RIGHT> __global__ void ticketed(float *partial, float *out) {
    if (threadIdx.x != 0) return;
    partial[blockIdx.x] = blockIdx.x;
    __threadfence();
    if (atomicAdd(&ticket, 1) != gridDim.x - 1) return;
    if (RIGHT) __threadfence();
    float sum = 0;
    for (int b = 0; b < gridDim.x; b++) sum += partial[b]; // BUG ticketed no-acquire
    *out = sum;
    ticket = 0;
}

// The last steps of a warp without warp barriers, as they were written before Volta.
template <bool RIGHT> __global__ void lock_step(const float *in, float *out) {
    __shared__ float sums[64];
    volatile float *s = sums;
    int t = threadIdx.x;
    s[t] = in[t];
    s[t + 32] = 0;
    for (int half = 16; half > 0; half /= 2) {
        if (RIGHT) __syncwarp();
        float other = s[t + half]; // BUG lock_step lock-step
        if (RIGHT) __syncwarp();
        s[t] += other;
    }
    if (t == 0) *out = s[0];
}

// A shuffle that reads from lanes outside its mask.
template <bool RIGHT> __global__ void shuffled(const float *in, float *out) {
    int t = threadIdx.x;
    float value = in[t];
    if (t < 24) {
        value += __shfl_down_sync(0x00ffffff, value, RIGHT ? 0 : 8); // BUG shuffled inactive-shuffle
    }
    out[t] = value;
}

// A barrier that some threads of the block do not reach.
template <bool RIGHT> __global__ void early(const float *in, float *out, int n) {
    int t = threadIdx.x;
    float value = in[t];
    if (RIGHT || t < 50) {
        __syncthreads(); // BUG early divergent-barrier
        value += 1;
    }
    __syncthreads();
    out[t] = value;
}

// Vector loads at an address that is not aligned to the vector.
template <bool RIGHT> __global__ void vectors(const float *in, float *out) {
    const float4 *four = reinterpret_cast<const float4 *>(in + (RIGHT ? 4 : 1));
    float4 value = four[threadIdx.x]; // BUG vectors misaligned
    out[threadIdx.x] = value.x + value.y + value.z + value.w;
}

// A counter that one thread resets while others increment it.
template <bool RIGHT> __global__ void counted(int *count) {
    __shared__ int all;
    if (threadIdx.x == 0) all = 0;
    if (RIGHT) __syncthreads();
    atomicAdd(&all, 1); // BUG counted write-write-race
    __syncthreads();
    if (threadIdx.x == 0) *count = all;
}

// A loop that waits for a flag that no thread sets.
template <bool RIGHT> __global__ void waits(volatile int *flag) {
    if (RIGHT && threadIdx.x == 0) *flag = 1;
    while (*flag == 0) { // BUG waits endless
    }
}

#define OK(call)                                                                                          \
    do {                                                                                                  \
        cudaError_t code = (call);                                                                        \
        if (code != cudaSuccess) {                                                                        \
            printf("line %d: %s\n", __LINE__, cudaGetErrorName(code));                                    \
            return false;                                                                                 \
        }                                                                                                 \
    } while (0)

template <bool RIGHT> static bool run(const char *name) {
    float host[N], *in, *out, *more;
    int *count;
    for (int i = 0; i < N; i++) host[i] = i % 37;
    OK(cudaMalloc(&in, sizeof(host)));
    OK(cudaMalloc(&out, sizeof(host)));
    OK(cudaMalloc(&more, sizeof(host)));
    OK(cudaMalloc(&count, 16 * sizeof(int)));
    OK(cudaMemcpy(in, host, sizeof(host), cudaMemcpyHostToDevice));
    OK(cudaMemset(out, 0, sizeof(host)));
    OK(cudaMemset(more, 0, sizeof(host)));
    OK(cudaMemset(count, 0, 16 * sizeof(int)));
    auto is = [&](const char *other) { return RIGHT || strcmp(name, other) == 0; };
    if (is("tree")) tree<RIGHT><<<BLOCKS, BLOCK>>>(in, out, N);
    if (is("histogram")) histogram<RIGHT><<<2, BLOCK>>>(in, count, N);
    if (is("transpose")) transpose<RIGHT><<<1, dim3(16, 16)>>>(in, out);
    if (is("stencil")) stencil<RIGHT><<<BLOCKS, BLOCK>>>(in, out, N);
    if (is("saxpy")) saxpy<RIGHT><<<BLOCKS, BLOCK>>>(2.0f, in, out, N);
    if (is("scan")) scan<RIGHT><<<1, BLOCK>>>(in, out);
    if (is("last_block")) last_block<RIGHT><<<BLOCKS, BLOCK>>>(in, more, out, N);
    if (is("ticketed")) ticketed<RIGHT><<<4, 32>>>(more, out);
    if (is("lock_step")) lock_step<RIGHT><<<1, 32>>>(in, out);
    if (is("shuffled")) shuffled<RIGHT><<<1, 32>>>(in, out);
    if (is("early")) early<RIGHT><<<1, BLOCK>>>(in, out, N);
    if (is("vectors")) vectors<RIGHT><<<1, 32>>>(in, out);
    if (is("counted")) counted<RIGHT><<<1, BLOCK>>>(count);
    if (is("waits")) waits<RIGHT><<<1, 32>>>(count);
    OK(cudaDeviceSynchronize());
    return true;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    bool right = strcmp(argv[1], "right") == 0;
    return (right ? run<true>("") : run<false>(argv[1])) ? 0 : 3;
}
