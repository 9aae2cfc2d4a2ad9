#!/usr/bin/env python3
"""What PyTorch takes for sums along the middle axis of f32 arrays, as warpfold/benches/rows.rs measures
the library: calls enqueued behind each other, inputs rotated past the L2 cache, the host's clock, the
median of the rounds with its quartiles. `torch_axis.py MATRICESxROWSxCOLUMNS ...`; a line of JSON each."""

import json
import statistics
import sys
import time

import torch

ROTATED = 256 << 20
ROUNDS = 15
ROUND_BYTES = 8 << 30


def measure(shape):
    count = shape[0] * shape[1] * shape[2]
    inputs = [
        torch.ones(shape, device="cuda") for _ in range(min(max(ROTATED // (4 * count), 2), 64))
    ]
    out = torch.empty((shape[0], shape[2]), device="cuda")
    runs = min(max(ROUND_BYTES // (4 * count), 16), 2000)
    times = []
    for round_ in range(ROUNDS + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for run in range(runs):
            torch.sum(inputs[run % len(inputs)], dim=1, out=out)
        torch.cuda.synchronize()
        # The first one loads the kernels.
        if round_ > 0:
            times.append((time.perf_counter() - start) * 1e6 / runs)
    assert bool((out == shape[1]).all()) or shape[1] > 1 << 24
    times.sort()
    bytes_ = 4 * (count + shape[0] * shape[2])
    q1, median, q3 = statistics.quantiles(times, n=4)
    return {
        "device": torch.cuda.get_device_name(),
        "implementation": f"PyTorch {torch.__version__}",
        "op": "sum",
        "rows": shape[0],
        "len": shape[1],
        "columns": shape[2],
        "us": {"median": round(median, 4), "q1": round(q1, 4), "q3": round(q3, 4)},
        "gb_per_s": {"median": round(bytes_ / median / 1e3, 4)},
    }


for given in sys.argv[1:]:
    print(json.dumps(measure(tuple(int(part) for part in given.split("x")))), flush=True)
