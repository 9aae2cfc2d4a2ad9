#!/usr/bin/env python3
"""Compares kernels in Taichi, which compiles them to PTX by itself, with NumPy.

`scripts/clients.sh taichi` runs them in the simulator. Prints a line for each result, and exits 1 if one is wrong.
"""

import sys

import numpy as np
import taichi as ti

ti.init(arch=ti.cuda, offline_cache=False, log_level=ti.ERROR)
if ti.lang.impl.current_cfg().arch != ti.cuda:
    sys.exit("Taichi found no GPU")

LENGTH = 10_007
BLOCK = 256
WHOLE = 0xFFFFFFFF
random = np.random.default_rng(1)
wrong = 0
results = 0


def check(name, found, expected):
    """Compares results with those of NumPy, which are exact."""
    global results, wrong
    right = np.array_equal(found, expected)
    results += 1
    wrong += not right
    print(f"{name}: {'right' if right else f'wrong: {found}, expected {expected}'}")


def check_reductions(kind, integers):
    dtype = ti.lang.util.to_numpy_type(kind)
    values = random.integers(0 if dtype == np.uint32 else -999, 1000, LENGTH).astype(dtype)
    elements = ti.field(kind, LENGTH)
    elements.from_numpy(values)

    @ti.kernel
    def total() -> kind:
        result = ti.cast(0, kind)
        for i in range(LENGTH):
            result += elements[i]
        return result

    @ti.kernel
    def least() -> kind:
        result = elements[0]
        for i in range(LENGTH):
            ti.atomic_min(result, elements[i])
        return result

    @ti.kernel
    def greatest() -> kind:
        result = elements[0]
        for i in range(LENGTH):
            ti.atomic_max(result, elements[i])
        return result

    # The values are integers, whose sums are exact in all types.
    check(f"sum of {kind.to_string()}", total(), values.sum(dtype=dtype))
    check(f"minimum of {kind.to_string()}", least(), values.min())
    check(f"maximum of {kind.to_string()}", greatest(), values.max())
    if not integers:
        return
    flags = ti.field(kind, 3)

    @ti.kernel
    def combine():
        for i in range(LENGTH):
            ti.atomic_and(flags[0], elements[i])
            ti.atomic_or(flags[1], elements[i])
            ti.atomic_xor(flags[2], elements[i])

    flags.from_numpy(np.array([-1, 0, 0]).astype(dtype))
    combine()
    expected = [ufunc.reduce(values) for ufunc in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]
    check(f"bits of {kind.to_string()}", flags.to_numpy(), expected)


for kind in (ti.f32, ti.f64, ti.i32, ti.u32, ti.i64):
    check_reductions(kind, kind in (ti.i32, ti.u32, ti.i64))

words = random.integers(-999, 1000, 32 * 40).astype(np.int32)
lanes = ti.field(ti.i32, words.size)
out = ti.field(ti.i32, words.size)
lanes.from_numpy(words)
rows = words.reshape(-1, 32)


@ti.kernel
def sum_by_shuffles():
    ti.loop_config(block_dim=128)
    for i in range(words.size):
        value = lanes[i]
        for step in ti.static((16, 8, 4, 2, 1)):
            value += ti.simt.warp.shfl_xor_i32(ti.u32(WHOLE), value, step)
        out[i] = value


sum_by_shuffles()
check("sums of warps by shuffles", out.to_numpy(), np.repeat(rows.sum(axis=1), 32))


@ti.kernel
def scan_by_shuffles():
    ti.loop_config(block_dim=128)
    for i in range(words.size):
        value = lanes[i]
        for step in ti.static((1, 2, 4, 8, 16)):
            before = ti.simt.warp.shfl_up_i32(ti.u32(WHOLE), value, step)
            if i % 32 >= step:
                value += before
        out[i] = value


scan_by_shuffles()
check("scans of warps by shuffles", out.to_numpy(), rows.cumsum(axis=1).ravel())


@ti.kernel
def vote():
    ti.loop_config(block_dim=128)
    for i in range(words.size):
        out[i] = ti.simt.warp.ballot(ti.cast(lanes[i] > 0, ti.i32))


vote()
bits = ((rows > 0).astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1)
check("votes of warps", out.to_numpy().view(np.uint32), np.repeat(bits.astype(np.uint32), 32))


@ti.kernel
def match():
    ti.loop_config(block_dim=128)
    for i in range(words.size):
        out[i] = ti.simt.warp.match_any(ti.u32(WHOLE), lanes[i] % 4)


match()
remainders = rows % 4
equal = remainders[:, :, None] == remainders[:, None, :]
bits = (equal.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=2)
check("matches of warps", out.to_numpy().view(np.uint32), bits.astype(np.uint32).ravel())

values = random.integers(-999, 1000, BLOCK * 20).astype(np.float32)
elements = ti.field(ti.f32, values.size)
elements.from_numpy(values)
sums = ti.field(ti.f32, values.size // BLOCK)


@ti.kernel
def sum_in_shared_memory():
    ti.loop_config(block_dim=BLOCK)
    for i in range(values.size):
        thread = i % BLOCK
        shared = ti.simt.block.SharedArray((BLOCK,), ti.f32)
        shared[thread] = elements[i]
        ti.simt.block.sync()
        for step in ti.static((128, 64, 32, 16, 8, 4, 2, 1)):
            if thread < step:
                shared[thread] += shared[thread + step]
            ti.simt.block.sync()
        if thread == 0:
            sums[i // BLOCK] = shared[0]


sum_in_shared_memory()
check("sums of blocks in shared memory", sums.to_numpy(), values.reshape(-1, BLOCK).sum(axis=1))

keys = ti.field(ti.i32, 1000)
payload = ti.field(ti.i32, 1000)
order = random.permutation(1000).astype(np.int32)
keys.from_numpy(order)
payload.from_numpy(np.arange(1000, dtype=np.int32))
ti.algorithms.parallel_sort(keys, payload)
check("sorted keys", keys.to_numpy(), np.arange(1000))
check("sorted values", payload.to_numpy(), np.argsort(order))

scanned = ti.field(ti.i32, 4096)
counts = random.integers(0, 9, 4096).astype(np.int32)
scanned.from_numpy(counts)
ti.algorithms.PrefixSumExecutor(4096).run(scanned)
check("prefix sums", scanned.to_numpy(), counts.cumsum())

a, b = (random.integers(-9, 9, (96, 64)).astype(np.float32) for _ in range(2))
product = np.zeros((96, 96), np.float32)


@ti.kernel
def multiply(a: ti.types.ndarray(), b: ti.types.ndarray(), product: ti.types.ndarray()):
    for i, j in ti.ndrange(96, 96):
        total = 0.0
        for k in range(64):
            total += a[i, k] * b[j, k]
        product[i, j] = total


multiply(a, b, product)
check("product of matrices", product, a @ b.T)

matrices = random.standard_normal((500, 3, 3)).astype(np.float32)
inverses = np.zeros_like(matrices)


@ti.kernel
def invert(matrices: ti.types.ndarray(), inverses: ti.types.ndarray()):
    for i in range(500):
        matrix = ti.Matrix([[matrices[i, j, k] for k in range(3)] for j in range(3)])
        inverse = matrix.inverse()
        for j, k in ti.static(ti.ndrange(3, 3)):
            inverses[i, j, k] = inverse[j, k]


invert(matrices, inverses)
identity = np.einsum("ijk,ikl->ijl", matrices.astype(np.float64), inverses)
check("inverses of matrices", np.abs(identity - np.eye(3)).max() < 1e-2, True)

block = ti.root.pointer(ti.i, 64).dense(ti.i, 64)
sparse = ti.field(ti.i32)
block.place(sparse)
active = ti.field(ti.i32, ())


@ti.kernel
def activate():
    for i in range(20):
        sparse[i * 199] = i + 1


@ti.kernel
def sum_active() -> ti.i32:
    total = 0
    for i in sparse:
        total += sparse[i]
        active[None] += 1
    return total


activate()
check("sum of a sparse field", sum_active(), 210)
check("elements of a sparse field", active[None], 64 * len({i * 199 // 64 for i in range(20)}))

print(f"{results - wrong} of {results} right")
sys.exit(wrong > 0)
