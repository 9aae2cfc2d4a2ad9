#!/usr/bin/env python3
"""What a call of the Python package takes beside PyTorch's of the same name: calls enqueued behind each other on one
tensor, the host's clock, the median of the rounds with its quartiles, in turn. A line of JSON each."""

import json
import statistics
import time

import torch
import warpfold

ROUNDS = 15

CASES = [(name, (n,), None) for name in ("sum", "argmax", "mean") for n in (1 << 10, 1 << 20, 1 << 24, 1 << 28)]
CASES += [("sum", (1 << 14, 1 << 10), axis) for axis in (0, 1)]


def timed(call, runs):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(runs):
        call()
    enqueued = time.perf_counter()
    torch.cuda.synchronize()
    return [(end - start) * 1e6 / runs for end in (enqueued, time.perf_counter())]


for name, shape, axis in CASES:
    values = torch.rand(shape, device="cuda")
    calls = {
        "warpfold": lambda: getattr(warpfold, name)(values, axis),
        "PyTorch": lambda: getattr(torch, name)(values) if axis is None else getattr(torch, name)(values, axis),
    }
    runs = max(50, min(2000, (1 << 34) // (4 * values.numel())))
    times = {library: [] for library in calls}
    for round_ in range(ROUNDS + 1):
        for library, call in calls.items():
            took = timed(call, runs)
            # The first round loads kernels.
            if round_ > 0:
                times[library].append(took)
    for library, took in times.items():
        for what, column in zip(("enqueued", "done"), zip(*took)):
            q1, median, q3 = (round(quartile, 3) for quartile in statistics.quantiles(column, n=4))
            line = {"library": library, "op": name, "shape": shape, "axis": axis, "until": what}
            print(json.dumps({**line, "us": {"median": median, "q1": q1, "q3": q3}}), flush=True)
