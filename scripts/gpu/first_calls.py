#!/usr/bin/env python3
"""Measures the first call of each function of the Python package, and the fastest of five later ones, in a process that
has a context and has opened the device. In the first call, the library decompresses the PTX, and the driver compiles it
or loads machine code from its cache. Prints a line of JSON for each function and type.

`first_calls.py KEY=VALUE ...` adds these keys to the lines. CUDA_CACHE_PATH names the folder of the driver's cache,
which the driver does not use with CUDA_CACHE_DISABLE=1."""

import json
import os
import sys
import time

import torch
import warpfold

NAMES = ("sum", "min", "argmax", "mean", "var", "l2_norm", "count_nonzero", "logsumexp")
TYPES = ("float32", "float64", "float16", "bfloat16")


def milliseconds(call):
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


labels = dict(word.split("=", 1) for word in sys.argv[1:])
labels["compiles"] = os.environ.get("CUDA_CACHE_DISABLE") == "1"
warpfold.sum(torch.ones(1000, device="cuda", dtype=torch.int8))
for name in NAMES:
    for dtype in TYPES:
        values = torch.ones(1000, device="cuda", dtype=getattr(torch, dtype))
        torch.cuda.synchronize()
        first, *later = (milliseconds(lambda: getattr(warpfold, name)(values)) for _ in range(6))
        print(json.dumps({**labels, "op": name, "dtype": dtype, "first_ms": round(first, 3), "later_ms": round(min(later), 4)}), flush=True)
