#!/usr/bin/env python3
"""Measures torch.topk and, for one row, cupy.partition, which returns no places. Prints a line of JSON for each library,
type, shape and k: the quartiles of microseconds per call in a sequence of enqueued calls. Elements are uniform random, as in
warpfold/benches/top.rs; inputs rotate past the L2 cache."""

import json
import time

import cupy
import torch

ROUNDS = 9


def measure(inputs, select):
    calls = 10 if inputs[0].nbytes >= 1 << 27 else 60
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for call in range(calls):
            select(inputs[call % len(inputs)])
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e6 / calls)
    # The first round loads the kernels.
    times = sorted(times[1:])
    return [round(times[len(times) * part // 4], 2) for part in (1, 2, 3)]


def random(dtype, *shape):
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, dtype=dtype, device="cuda")
    return torch.rand(shape, device="cuda").to(dtype)


for name, dtype in (("f32", torch.float32), ("f16", torch.float16), ("i8", torch.int8)):
    for n in (1 << 16, 1 << 20, 1 << 24, 1 << 28):
        copies = min(64, (256 << 20) // (n * dtype.itemsize) + 1)
        inputs = [random(dtype, n) for _ in range(copies)]
        for k in (32, 100, 1000, 4096):
            ways = {
                "torch": (inputs, lambda x: torch.topk(x, k)),
                "cupy": ([cupy.from_dlpack(input) for input in inputs], lambda x: cupy.partition(x, n - k)[n - k :]),
            }
            for peer, way in ways.items():
                print(json.dumps({"peer": peer, "dtype": name, "n": n, "k": k, "us": measure(*way)}), flush=True)
        del inputs
for rows, row in ((1 << 18, 1024), (4096, 1 << 16)):
    inputs = [random(torch.float32, rows, row)]
    for k in (32, 100, 1000, 4096):
        if k <= row:
            line = {"peer": "torch", "dtype": "f32", "rows": rows, "row": row, "k": k, "us": measure(inputs, lambda x: torch.topk(x, k))}
            print(json.dumps(line), flush=True)
