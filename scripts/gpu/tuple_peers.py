#!/usr/bin/env python3
"""Measures what users of PyTorch and of CuPy write for several results of the same elements: a call for each, or one that
gives two of them. Prints a line of JSON for each library, type, size and tuple: the quartiles of microseconds per tuple in
a sequence of enqueued calls. The elements and the tuples are those of warpfold/benches/tuples.rs; inputs rotate past the
L2 cache."""

import json
import time

import cupy
import torch

ROUNDS = 15
PLACES = "argmin, argmax"
MOMENTS = "mean and variance, min, max, count"
SUMS = "sum, min, max"


OF_TORCH = {
    "sum": [torch.sum],
    SUMS: [torch.sum, torch.aminmax],
    MOMENTS: [torch.var_mean, torch.aminmax, torch.count_nonzero],
    # With a dimension, the values are returned too.
    PLACES: [lambda x: x.min(0), lambda x: x.max(0)],
}
OF_CUPY = {
    "sum": [cupy.sum],
    SUMS: [cupy.sum, cupy.min, cupy.max],
    MOMENTS: [
        lambda x: cupy.mean(x, dtype=cupy.float32),
        lambda x: cupy.var(x, dtype=cupy.float32),
        cupy.min,
        cupy.max,
        cupy.count_nonzero,
    ],
    PLACES: [cupy.argmin, cupy.argmax],
}


def measure(calls, inputs):
    def run(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for repeat in range(repeats):
            for call in calls:
                call(inputs[repeat % len(inputs)])
        torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e6 / repeats

    # The first tuple loads the kernels.
    run(1)
    repeats = min(200, int(20_000 / run(1)) + 1)
    times = sorted(run(repeats) for _ in range(ROUNDS))
    return [round(times[len(times) * part // 4], 3) for part in (1, 2, 3)]


for exponent in (16, 20, 24, 28):
    for name, dtype in (("f32", torch.float32), ("f16", torch.float16)):
        n = 1 << exponent
        copies = min(64, (256 << 20) // (n * dtype.itemsize) + 1)
        tensors = [(torch.arange(n, device="cuda") % 7 - 3).to(dtype) for _ in range(copies)]
        for peer, tuples, inputs in (
            ("torch", OF_TORCH, tensors),
            ("cupy", OF_CUPY, [cupy.from_dlpack(tensor) for tensor in tensors]),
        ):
            for tuple, calls in tuples.items():
                line = {"peer": peer, "dtype": name, "n": n, "tuple": tuple, "us": measure(calls, inputs)}
                print(json.dumps(line), flush=True)
