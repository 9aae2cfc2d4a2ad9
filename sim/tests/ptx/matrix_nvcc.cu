// Products of square matrices whose size is a multiple of the tile size. `nvcc -ptx -arch=compute_90`
// compiles this file to matrix_nvcc.ptx.

// One element per thread, with tiles in shared memory. A warp is one row of a tile, or two.
template <int TILE>
__device__ void product(const float *a, const float *b, float *c, int n) {
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    for (int tile = 0; tile < n; tile += TILE) {
        left[y][x] = a[row * n + tile + x];
        right[y][x] = b[(tile + y) * n + column];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) sum += left[y][k] * right[k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void product_32(const float *a, const float *b, float *c, int n) {
    product<32>(a, b, c, n);
}

extern "C" __global__ void product_16(const float *a, const float *b, float *c, int n) {
    product<16>(a, b, c, n);
}

// 4 x 4 elements for each of 256 threads, with tiles of 64 x 8.
extern "C" __global__ void product_blocked(const float *a, const float *b, float *c, int n) {
    __shared__ float left[8][64];
    __shared__ __align__(16) float right[8][64];
    int t = threadIdx.x, x = t % 16, y = t / 16;
    a += blockIdx.y * 64 * n;
    b += blockIdx.x * 64;
    float sum[4][4] = {};
    for (int tile = 0; tile < n; tile += 8) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            left[t % 8][t / 8 + 32 * half] = a[(t / 8 + 32 * half) * n + tile + t % 8];
            right[t / 64 + 4 * half][t % 64] = b[(tile + t / 64 + 4 * half) * n + t % 64];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            float4 r = *reinterpret_cast<float4 *>(&right[k][4 * x]);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float l = left[k][4 * y + i];
                sum[i][0] += l * r.x;
                sum[i][1] += l * r.y;
                sum[i][2] += l * r.z;
                sum[i][3] += l * r.w;
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            c[(blockIdx.y * 64 + 4 * y + i) * n + blockIdx.x * 64 + 4 * x + j] = sum[i][j];
}
