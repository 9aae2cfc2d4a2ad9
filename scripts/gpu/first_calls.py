#!/usr/bin/env python3
"""What the first call of a function of the Python package takes beside a later one, when the process has made a context
and opened the device: to find its kernels' text, to unpack it, and to have the driver compile it or find what it has
compiled before. A line of JSON each.

`first_calls.py WORD ...`: each word is put into the lines as it is, `key=value`. What the driver has compiled is in the
folder that CUDA_CACHE_PATH names; with CUDA_CACHE_DISABLE=1 it compiles anew."""

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


said = dict(word.split("=", 1) for word in sys.argv[1:])
said["compiles"] = os.environ.get("CUDA_CACHE_DISABLE") == "1"
warpfold.sum(torch.ones(1000, device="cuda", dtype=torch.int8))
for name in NAMES:
    for dtype in TYPES:
        values = torch.ones(1000, device="cuda", dtype=getattr(torch, dtype))
        torch.cuda.synchronize()
        first, *later = (milliseconds(lambda: getattr(warpfold, name)(values)) for _ in range(6))
        print(json.dumps({**said, "op": name, "dtype": dtype, "first_ms": round(first, 3), "later_ms": round(min(later), 4)}), flush=True)
