#!/usr/bin/env python3
"""Measures torch.topk. Prints a line of JSON for each type, shape and k: the quartiles of microseconds per call in a
sequence of enqueued calls. Elements are uniform random, as in warpfold/benches/top.rs; inputs rotate past the L2 cache."""

import json
import time

import torch

ROUNDS = 9


def measure(inputs, k):
    bytes_of_input = inputs[0].numel() * inputs[0].element_size()
    calls = 10 if bytes_of_input >= 1 << 27 else 60
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for call in range(calls):
            torch.topk(inputs[call % len(inputs)], k)
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
            print(json.dumps({"peer": "torch", "dtype": name, "n": n, "k": k, "us": measure(inputs, k)}), flush=True)
        del inputs
for rows, row in ((1 << 18, 1024), (4096, 1 << 16)):
    inputs = [random(torch.float32, rows, row)]
    for k in (32, 100, 1000, 4096):
        if k <= row:
            line = {"peer": "torch", "dtype": "f32", "rows": rows, "row": row, "k": k, "us": measure(inputs, k)}
            print(json.dumps(line), flush=True)
