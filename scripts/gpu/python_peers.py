#!/usr/bin/env python3
"""Times calls of the Python package and of PyTorch as a user's program makes them: calls on one tensor, enqueued one
after another, timed by the host's clock. The libraries take turns; times are medians of the rounds with quartiles.
Prints a line of JSON for each call and library: `enqueued` is the time per call until the last one has returned, `done`
until the device has finished. `python_peers.py sum argmax` measures only these functions."""

import json
import statistics
import sys
import time

import torch
import warpfold

ROUNDS = 15
#: The repetitions of a call in one round take about this long.
SECONDS = 0.05

#: PyTorch's counterpart of each function, for an array and an axis or None.
PEERS = {
    "sum": lambda x, a: torch.sum(x) if a is None else torch.sum(x, a),
    "prod": lambda x, a: torch.prod(x) if a is None else torch.prod(x, a),
    "max": lambda x, a: torch.amax(x) if a is None else torch.amax(x, a),
    "min": lambda x, a: torch.amin(x) if a is None else torch.amin(x, a),
    "argmax": lambda x, a: torch.argmax(x) if a is None else torch.argmax(x, a),
    "count_nonzero": lambda x, a: torch.count_nonzero(x) if a is None else torch.count_nonzero(x, a),
    "any": lambda x, a: torch.any(x) if a is None else torch.any(x, a),
    "mean": lambda x, a: torch.mean(x) if a is None else torch.mean(x, a),
    "var": lambda x, a: torch.var(x, correction=0) if a is None else torch.var(x, a, correction=0),
    "std": lambda x, a: torch.std(x, correction=0) if a is None else torch.std(x, a, correction=0),
    "var_mean": lambda x, a: torch.var_mean(x, correction=0) if a is None else torch.var_mean(x, a, correction=0),
    "l2_norm": lambda x, a: torch.linalg.vector_norm(x, dim=a),
    "logsumexp": lambda x, a: torch.logsumexp(x, tuple(range(x.dim())) if a is None else a),
}

SHAPES = [
    ((1 << 10,), None, torch.float32),
    ((1 << 20,), None, torch.float32),
    ((1 << 20,), None, torch.bfloat16),
    ((1 << 24,), None, torch.float32),
    ((4096, 4096), 1, torch.bfloat16),
    ((4096, 4096), 0, torch.float32),
    ((1 << 20, 3), 1, torch.float32),
    ((8, 4096, 1024), 2, torch.float32),
]


def timed(call, runs):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(runs):
        call()
    enqueued = time.perf_counter()
    torch.cuda.synchronize()
    return [(end - start) * 1e6 / runs for end in (enqueued, time.perf_counter())]


def measure(name, shape, axis, dtype):
    values = torch.rand(shape, device="cuda").to(dtype)
    ours, theirs = getattr(warpfold, name), PEERS[name]
    calls = {"warpfold": lambda: ours(values, axis), "PyTorch": lambda: theirs(values, axis)}
    for call in calls.values():
        call()
    slowest = max(timed(call, 20)[1] for call in calls.values())
    runs = max(20, min(2000, int(SECONDS * 1e6 / slowest)))
    times = {library: [] for library in calls}
    for round_ in range(ROUNDS):
        for library in sorted(calls, reverse=round_ % 2 == 0):
            times[library].append(timed(calls[library], runs))
    for library, took in times.items():
        line = {"library": library, "op": name, "shape": shape, "axis": axis, "dtype": str(dtype).rpartition(".")[2]}
        for what, column in zip(("enqueued", "done"), zip(*took)):
            q1, median, q3 = (round(quartile, 3) for quartile in statistics.quantiles(column, n=4))
            line[what] = {"median": median, "q1": q1, "q3": q3}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or PEERS:
        for case in SHAPES:
            measure(name, *case)
