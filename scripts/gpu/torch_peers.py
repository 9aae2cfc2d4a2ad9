#!/usr/bin/env python3
"""Measures f32 sums along the middle axis of arrays, and of segments with offsets, by PyTorch, in the way of the
library's benches rows and segments in warpfold/benches/: calls enqueued one after another, several inputs in turns
that together exceed the L2 cache, times by the host's clock, medians of the rounds with quartiles. Prints a line of
JSON for each case.

`torch_peers.py MATRICESxROWSxCOLUMNS ... SEGMENTSxMEAN ... SEGMENTSxMEANz ...`; with z, the lengths of the segments
follow Zipf's law, in random order."""

import json
import statistics
import sys
import time

import torch

ROTATED = 256 << 20
ROUNDS = 15
ROUND_BYTES = 8 << 30


def rotated(shape, count):
    inputs = min(max(ROTATED // (4 * count), 2), 64)
    return [torch.ones(shape, device="cuda") for _ in range(inputs)]


def timed(count, inputs, call):
    """Returns the quartiles of the microseconds of a call on one of the inputs over the rounds."""
    runs = min(max(ROUND_BYTES // (4 * count), 16), 2000)
    times = []
    for round_ in range(ROUNDS + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for run in range(runs):
            call(inputs[run % len(inputs)])
        torch.cuda.synchronize()
        # The first round loads the kernels.
        if round_ > 0:
            times.append((time.perf_counter() - start) * 1e6 / runs)
        # Fewer runs if a call takes much longer than memory bandwidth would allow.
        runs = max(1, min(runs, int(runs * 200_000 / max(times[-1] * runs, 1)))) if times else runs
    return statistics.quantiles(times, n=4)


def line(what, quartiles, bytes_):
    q1, median, q3 = quartiles
    return {
        "device": torch.cuda.get_device_name(),
        "implementation": f"PyTorch {torch.__version__}",
        "op": "sum",
        **what,
        "us": {"median": round(median, 4), "q1": round(q1, 4), "q3": round(q3, 4)},
        "gb_per_s": {"median": round(bytes_ / median / 1e3, 4)},
    }


def axis(shape):
    count = shape[0] * shape[1] * shape[2]
    inputs = rotated(shape, count)
    out = torch.empty((shape[0], shape[2]), device="cuda")
    quartiles = timed(count, inputs, lambda values: torch.sum(values, dim=1, out=out))
    assert bool((out == shape[1]).all()) or shape[1] > 1 << 24
    what = {"rows": shape[0], "len": shape[1], "columns": shape[2]}
    return line(what, quartiles, 4 * (count + shape[0] * shape[2]))


def segments(segments_, mean, ragged):
    count = segments_ * mean
    if ragged:
        weights = 1 / torch.arange(1, segments_ + 1, dtype=torch.float64)
        ends = torch.floor(torch.cumsum(weights, 0) / weights.sum() * count).long()
        ends[-1] = count
        lengths = torch.diff(ends, prepend=torch.zeros(1, dtype=torch.long))
        lengths = lengths[torch.randperm(segments_)]
    else:
        lengths = torch.full((segments_,), mean, dtype=torch.long)
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), torch.cumsum(lengths, 0)]).cuda()
    inputs = rotated((count,), count)
    result = []

    def call(values):
        # unsafe, because PyTorch's check of the offsets would synchronize in each call.
        result[:] = [torch.segment_reduce(values, "sum", offsets=offsets, unsafe=True)]

    quartiles = timed(count, inputs, call)
    assert float(result[0].double().sum()) == count or count > 1 << 24
    what = {"segments": segments_, "mean": mean, "ragged": ragged}
    read = 8 * (segments_ + 1)
    return line(what, quartiles, 4 * (count + segments_) + read)


for given in sys.argv[1:]:
    ragged = given.endswith("z")
    parts = tuple(int(part) for part in given.removesuffix("z").split("x"))
    measured = axis(parts) if len(parts) == 3 else segments(*parts, ragged)
    print(json.dumps(measured), flush=True)
