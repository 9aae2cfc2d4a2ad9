// Kernels as people write them, each wrong in a way that people are, and right where RIGHT says so. The
// line of what is wrong ends in "BUG", the kernel's name, and the rule by which it must be found;
// several may do.
//
//     planted NAME     runs one of them that is wrong
//     planted right    runs all of them right

#include <cstdio>
#include <cstring>

#include <cooperative_groups.h>
#include <cuda_runtime.h>

const int N = 1000;
const int BLOCK = 128;
const int BLOCKS = (N + BLOCK - 1) / BLOCK;

__device__ unsigned int ticket;

// A tree in shared memory, of which one step is not behind the other.
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

// Counts in shared memory, which several threads increase at a time.
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

// A tile that is read before all of it is there.
template <bool RIGHT> __global__ void transpose(const float *in, float *out) {
    __shared__ float tile[16][17];
    int x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = in[y * 16 + x];
    if (RIGHT) __syncthreads();
    out[y * 16 + x] = tile[x][y]; // BUG transpose read-write-race
}

// A neighbour that the last element does not have, in a helper.
__device__ __forceinline__ float right_of(const float *in, int i) {
    return in[i + 1]; // BUG stencil out-of-bounds
}

__device__ __forceinline__ float slope(const float *in, int i) { return right_of(in, i) - in[i]; }

template <bool RIGHT> __global__ void stencil(const float *in, float *out, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < (RIGHT ? n - 1 : n)) out[i] = slope(in, i);
}

// One element too many.
template <bool RIGHT> __global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (RIGHT ? i < n : i <= n) {
        y[i] = a * x[i % n] + y[i]; // BUG saxpy out-of-bounds
    }
}

// A scan of which the part in front of the first element was never set.
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

// The last block adds what the others have written, which no fence makes them show.
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

// The same with the fence of those who write alone.
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

// The last steps within a warp as they were written before Volta.
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

// A shuffle from lanes that its mask does not name.
template <bool RIGHT> __global__ void shuffled(const float *in, float *out) {
    int t = threadIdx.x;
    float value = in[t];
    if (t < 24) {
        value += __shfl_down_sync(0x00ffffff, value, RIGHT ? 0 : 8); // BUG shuffled inactive-shuffle
    }
    out[t] = value;
}

// A barrier to which some of the block do not come.
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

// Vectors that begin in the midst of one.
template <bool RIGHT> __global__ void vectors(const float *in, float *out) {
    const float4 *four = reinterpret_cast<const float4 *>(in + (RIGHT ? 4 : 1));
    float4 value = four[threadIdx.x]; // BUG vectors misaligned
    out[threadIdx.x] = value.x + value.y + value.z + value.w;
}

// A counter that is set while others count.
template <bool RIGHT> __global__ void counted(int *count) {
    __shared__ int all;
    if (threadIdx.x == 0) all = 0;
    if (RIGHT) __syncthreads();
    atomicAdd(&all, 1); // BUG counted write-write-race
    __syncthreads();
    if (threadIdx.x == 0) *count = all;
}

// A flag that nobody sets.
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
