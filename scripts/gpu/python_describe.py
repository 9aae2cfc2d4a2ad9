#!/usr/bin/env python3
"""Times `warpfold.describe`, and PyTorch's functions for the same facts, until the results are there. Prints a line of JSON
for each type and number of elements, in µs, and the milliseconds of the first call with a type. PyTorch's mean, variance
and extremes do not skip NaN."""

import json
import sys
import time

import torch
import warpfold
from python_peers import in_turns, quartiles, rotated

CALLS = 20


def by_torch(x):
    """Returns the facts by three passes."""
    variance, mean = torch.var_mean(x, correction=0)
    least, greatest = torch.aminmax(x)
    nans = x.isnan().sum()
    return [number.item() for number in (nans, mean, variance, least, greatest)]


def time_of(call, tensors):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for at in range(CALLS):
        call(tensors[at % len(tensors)])
    return (time.perf_counter() - start) * 1e6 / CALLS


for dtype in ["float32", "float64", "bfloat16"]:
    for exponent in [10, 16, 20, 24, 28]:
        tensors = rotated((1 << exponent,), dtype)
        start = time.perf_counter()
        found = warpfold.describe(tensors[0])
        first = (time.perf_counter() - start) * 1e3
        nans, mean, _, least, greatest = by_torch(tensors[0])
        if (found.nan_count, found.min, found.max) != (nans, least, greatest) or abs(found.mean - mean) > 2e-2:
            sys.exit(f"describe of {dtype} 2^{exponent} is {found}, and by PyTorch {mean} from {least} to {greatest}")
        calls = {"warpfold": warpfold.describe, "PyTorch": by_torch}
        times = in_turns(calls, lambda call: time_of(call, tensors))
        ratios = [other / ours for other, ours in zip(times["PyTorch"], times["warpfold"])]
        line = {"device": torch.cuda.get_device_name(), "dtype": dtype, "n": 1 << exponent}
        if exponent == 10:
            line["first_ms"] = round(first, 1)
        line |= {library: quartiles(of) for library, of in times.items()}
        print(json.dumps(line | {"PyTorch_over_warpfold": quartiles(ratios)}), flush=True)
