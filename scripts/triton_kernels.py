#!/usr/bin/env python3
"""Compares Triton kernels in the simulator with NumPy.

`scripts/clients.sh triton` runs it. Triton compiles each kernel for sm_90 to PTX, and loads and launches it through
`libcuda.so.1` as on a GPU. Two parts are replaced: the step from PTX to machine code, which the simulator does not run,
and PyTorch, from which Triton takes the device and the stream. Arguments choose cases by parts of their names. The last
line printed has the counts.
"""

import ctypes
import sys

import ml_dtypes
import numpy
import triton
import triton.language as tl
from triton.backends.nvidia import compiler, driver
from triton.tools.tensor_descriptor import TensorDescriptor

compiler.CUDABackend.make_cubin = lambda self, source, metadata, options, capability: source.encode()
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    """Calls a function of the driver, and fails if it does."""
    error = getattr(cuda, name)(*arguments)
    if error:
        raise RuntimeError(f"{name}: error {error}")


class Driver(driver.CudaDriver):
    """Triton's driver for NVIDIA on device 0 and its default stream, without PyTorch."""

    def __init__(self):
        self.utils = driver.CudaUtils()
        self.launcher_cls = driver.CudaLauncher

    def get_current_device(self):
        return 0

    def set_current_device(self, device):
        pass

    def get_current_stream(self, device):
        return 0

    def get_device_capability(self, device):
        return (9, 0)


class Array:
    """A copy of a NumPy array in device memory."""

    def __init__(self, values):
        self.values = numpy.ascontiguousarray(values)
        self.dtype = self.values.dtype
        self.address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(self.values.nbytes))
        source = self.values.ctypes.data_as(ctypes.c_void_p)
        call("cuMemcpyHtoD_v2", self.address, source, ctypes.c_size_t(self.values.nbytes))

    def data_ptr(self):
        return self.address.value

    def numpy(self):
        result = numpy.empty_like(self.values)
        target = result.ctypes.data_as(ctypes.c_void_p)
        call("cuMemcpyDtoH_v2", target, self.address, ctypes.c_size_t(result.nbytes))
        return result


@triton.jit
def softmax(source, target, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    values = tl.load(source + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(target + row * columns + offsets, powers / tl.sum(powers, axis=0), mask=offsets < columns)


@triton.jit
def product(
    a, b, c, K, am, ak, bk, bn, cm,
    M_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr, K_BLOCK: tl.constexpr,
    SUMS: tl.constexpr, PRECISION: tl.constexpr,
):
    rows = tl.program_id(0) * M_BLOCK + tl.arange(0, M_BLOCK)
    columns = tl.program_id(1) * N_BLOCK + tl.arange(0, N_BLOCK)
    inner = tl.arange(0, K_BLOCK)
    sums = tl.zeros((M_BLOCK, N_BLOCK), dtype=SUMS)
    for start in range(0, K, K_BLOCK):
        first = tl.load(a + rows[:, None] * am + (start + inner)[None, :] * ak)
        second = tl.load(b + (start + inner)[:, None] * bk + columns[None, :] * bn)
        sums = tl.dot(first, second, sums, input_precision=PRECISION, out_dtype=SUMS)
    tl.store(c + rows[:, None] * cm + columns[None, :], sums)


@triton.jit
def transposition(source, target, M_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr):
    row, column = tl.program_id(0) * M_BLOCK, tl.program_id(1) * N_BLOCK
    target.store([column, row], source.load([row, column]).T)


@triton.jit
def own_transposition(source, target, rows, columns, M_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr):
    first = tl.make_tensor_descriptor(source, [rows, columns], [columns, 1], [M_BLOCK, N_BLOCK])
    second = tl.make_tensor_descriptor(target, [columns, rows], [rows, 1], [N_BLOCK, M_BLOCK])
    row, column = tl.program_id(0) * M_BLOCK, tl.program_id(1) * N_BLOCK
    second.store([column, row], first.load([row, column]).T)


@triton.jit
def described_product(
    a, b, c, K, M_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr, K_BLOCK: tl.constexpr, SUMS: tl.constexpr,
):
    row, column = tl.program_id(0) * M_BLOCK, tl.program_id(1) * N_BLOCK
    sums = tl.zeros((M_BLOCK, N_BLOCK), dtype=tl.float32)
    for start in range(0, K, K_BLOCK):
        sums = tl.dot(a.load([row, start]), b.load([start, column]), sums)
    c.store([row, column], sums.to(SUMS))


@triton.jit
def attention(
    queries, keys, values, target, count, scale,
    M_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):
    rows = tl.program_id(0) * M_BLOCK + tl.arange(0, M_BLOCK)
    across = tl.arange(0, WIDTH)
    query = tl.load(queries + rows[:, None] * WIDTH + across[None, :])
    most = tl.full((M_BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((M_BLOCK,), tl.float32)
    sums = tl.zeros((M_BLOCK, WIDTH), tl.float32)
    for start in range(0, count, N_BLOCK):
        columns = start + tl.arange(0, N_BLOCK)
        key = tl.load(keys + columns[None, :] * WIDTH + across[:, None])
        scores = tl.dot(query, key) * scale
        higher = tl.maximum(most, tl.max(scores, axis=1))
        powers = tl.exp(scores - higher[:, None])
        fade = tl.exp(most - higher)
        total = total * fade + tl.sum(powers, axis=1)
        value = tl.load(values + columns[:, None] * WIDTH + across[None, :])
        sums = tl.dot(powers.to(value.dtype), value, sums * fade[:, None])
        most = higher
    tl.store(target + rows[:, None] * WIDTH + across[None, :], sums / total[:, None])


random = numpy.random.default_rng(1)
TYPES = {
    "f16": numpy.dtype(numpy.float16),
    "bf16": numpy.dtype(ml_dtypes.bfloat16),
    "tf32": numpy.dtype(numpy.float32),
    "e4m3": numpy.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": numpy.dtype(ml_dtypes.float8_e5m2),
    "s8": numpy.dtype(numpy.int8),
}


def check_softmax(rows, columns, warps):
    values = random.standard_normal((rows, columns)).astype(numpy.float32)
    source, target = Array(values), Array(numpy.zeros_like(values))
    kernel = softmax[(rows,)](source, target, columns, BLOCK=triton.next_power_of_2(columns), num_warps=warps)
    powers = numpy.exp(values - values.max(axis=1, keepdims=True))
    return kernel, numpy.allclose(target.numpy(), powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


def check_product(name, sums, warps, order, block, size):
    (m, n, k), (m_block, n_block, k_block) = size, block
    values = [random.integers(-4, 5, shape).astype(numpy.float32) for shape in [(m, k), (k, n)]]
    expected = values[0] @ values[1]
    # Integers are exact in every type, so that any other order of sums gives the same bits.
    a, b = (value.astype(TYPES[name]) for value in values)
    c = Array(numpy.zeros((m, n), sums))
    held = [Array(matrix if row else matrix.T) for matrix, row in zip([a, b], order)]
    am, ak = (k, 1) if order[0] else (1, m)
    bk, bn = (n, 1) if order[1] else (1, k)
    out = {numpy.float32: tl.float32, numpy.float16: tl.float16, numpy.int32: tl.int32}[sums]
    kernel = product[(m // m_block, n // n_block)](
        *held, c, k, am, ak, bk, bn, n,
        M_BLOCK=m_block, N_BLOCK=n_block, K_BLOCK=k_block, SUMS=out, PRECISION="tf32", num_warps=warps,
    )
    return kernel, numpy.array_equal(c.numpy().astype(numpy.float32), expected)


def described(values, block):
    """Returns a copy of a matrix in device memory, and its descriptor."""
    array = Array(values)
    columns = values.shape[1]
    return array, TensorDescriptor(array, list(values.shape), [columns, 1], list(block))


def check_transposition(name, shape, block):
    values = random.integers(-9, 10, shape).astype(TYPES[name])
    _, source = described(values, block)
    array, target = described(numpy.full(shape[::-1], 50).astype(TYPES[name]), block[::-1])
    grid = (triton.cdiv(shape[0], block[0]), triton.cdiv(shape[1], block[1]))
    kernel = transposition[grid](source, target, M_BLOCK=block[0], N_BLOCK=block[1], num_warps=4)
    return kernel, numpy.array_equal(array.numpy(), values.T)


def check_own_transposition(name, shape, block):
    values = random.integers(-9, 10, shape).astype(TYPES[name])
    target = Array(numpy.full(shape[::-1], 50).astype(TYPES[name]))
    grid = (triton.cdiv(shape[0], block[0]), triton.cdiv(shape[1], block[1]))
    kernel = own_transposition[grid](Array(values), target, *shape, M_BLOCK=block[0], N_BLOCK=block[1], num_warps=4)
    return kernel, numpy.array_equal(target.numpy(), values.T)


def check_described_product(name, warps, block, size, stages):
    (m, n, k), (m_block, n_block, k_block) = size, block
    values = [random.integers(-4, 5, shape).astype(numpy.float32) for shape in [(m, k), (k, n)]]
    _, a = described(values[0].astype(TYPES[name]), (m_block, k_block))
    _, b = described(values[1].astype(TYPES[name]), (k_block, n_block))
    array, c = described(numpy.zeros((m, n), numpy.float32), (m_block, n_block))
    kernel = described_product[(triton.cdiv(m, m_block), triton.cdiv(n, n_block))](
        a, b, c, k, M_BLOCK=m_block, N_BLOCK=n_block, K_BLOCK=k_block, SUMS=tl.float32,
        num_warps=warps, num_stages=stages,
    )
    return kernel, numpy.array_equal(array.numpy(), values[0] @ values[1])


def check_attention(name, warps, count, width):
    shape = (count, width)
    q, k, v = (random.standard_normal(shape).astype(TYPES[name]) for _ in range(3))
    target = Array(numpy.zeros(shape, numpy.float32))
    scale = width**-0.5
    kernel = attention[(count // (16 * warps),)](
        Array(q), Array(k), Array(v), target, count, scale,
        M_BLOCK=16 * warps, N_BLOCK=64, WIDTH=width, num_warps=warps,
    )
    scores = q.astype(numpy.float64) @ k.astype(numpy.float64).T * scale
    powers = numpy.exp(scores - scores.max(axis=1, keepdims=True))
    expected = powers @ v.astype(numpy.float64) / powers.sum(axis=1, keepdims=True)
    return kernel, numpy.allclose(target.numpy(), expected, rtol=0, atol=0.02)


def cases():
    """Yields the name of each case, and a function that returns the kernel and whether its results are right."""
    for warps in [4, 8]:
        yield f"softmax, {warps} warps", lambda: check_softmax(7, 1000, warps)
    f32, f16, s32 = numpy.float32, numpy.float16, numpy.int32
    by_rows = (True, True)
    kinds = [("f16", f32), ("f16", f16), ("bf16", f32), ("tf32", f32), ("e4m3", f32), ("e5m2", f32), ("s8", s32)]
    for name, sums in kinds:
        for warps in [4, 8]:
            yield (
                f"dot of {name}, sums in {numpy.dtype(sums)}, {warps} warps",
                lambda: check_product(name, sums, warps, by_rows, (64 * warps // 4, 64, 64), (128, 128, 192)),
            )
    for name in ["f16", "bf16"]:
        for order in [(True, False), (False, True), (False, False)]:
            yield (
                f"dot of {name}, A by {'rows' if order[0] else 'columns'}, B by {'rows' if order[1] else 'columns'}",
                lambda: check_product(name, f32, 4, order, (64, 64, 64), (64, 128, 128)),
            )
    for block in [(64, 16, 32), (64, 32, 16), (64, 128, 32), (64, 256, 64), (128, 256, 64)]:
        warps = 4 if block[0] == 64 else 8
        yield (
            f"dot of f16, blocks of {'x'.join(map(str, block))}, {warps} warps",
            lambda: check_product("f16", f32, warps, by_rows, block, (block[0], block[1], 256)),
        )
    # Blocks reach past the ends of these matrices: elements there are read as zeros, and not written.
    for name, shape, block in [("tf32", (96, 200), (64, 32)), ("f16", (72, 264), (32, 64)), ("s8", (80, 48), (32, 32))]:
        yield f"descriptors of {name}, transposition", lambda: check_transposition(name, shape, block)
        yield f"descriptors of {name} in the kernel, transposition", lambda: check_own_transposition(name, shape, block)
    for name, warps, stages in [("f16", 4, 1), ("f16", 4, 3), ("bf16", 8, 3), ("e4m3", 4, 3)]:
        yield (
            f"descriptors of {name}, dot, {warps} warps, {stages} stages",
            lambda: check_described_product(name, warps, (64 * warps // 4, 64, 64), (200, 144, 272), stages),
        )
    for name, warps in [("f16", 4), ("bf16", 4), ("f16", 8)]:
        yield f"attention of {name}, {warps} warps", lambda: check_attention(name, warps, 256, 64)


def main():
    call("cuInit", 0)
    context, device = ctypes.c_void_p(), ctypes.c_int()
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    triton.runtime.driver.set_active(Driver())
    # Kernels that make descriptors store these in global memory.
    triton.set_allocator(lambda size, align, stream: Array(numpy.zeros(size, numpy.uint8)))
    right = count = 0
    only = sys.argv[1:]
    for name, check in cases():
        if only and not any(part in name for part in only):
            continue
        count += 1
        try:
            kernel, agrees = check()
        except Exception as error:  # Any failure of a case is reported, and the others run.
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            continue
        products, copies = (kernel.asm["ptx"].count(part) for part in ["wgmma.mma_async", "async.bulk.tensor"])
        right += agrees
        more = f", {copies} copies of tensors" if copies else ""
        print(f"{name}: {'right' if agrees else 'wrong'}, {products} wgmma instructions{more}")
    print(f"{right} of {count}")


if __name__ == "__main__":
    main()
