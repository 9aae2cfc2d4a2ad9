#!/usr/bin/env python3
"""Times calls of the Python package, of PyTorch and of CuPy, as `python -m warpfold bench` does, for the functions and
shapes of the project's tables. Prints a line of JSON for each call and library. `python_peers.py sum argmax` measures
only these functions.

`device` is the device's time alone, of PyTorch and of this package: calls on tensors in turns, which together exceed the
L2, are enqueued while the device is busy, between two events."""

import json
import math
import statistics
import sys

import torch
import warpfold
from warpfold import _bench

ROUNDS = 11
#: Calls between two events, and the clock cycles for which the device is busy before them.
CALLS, CYCLES = 20, 4_000_000
#: Bytes of the tensors that calls take in turns: twice an H200's L2.
ROTATED = 120_000_000

SHAPES = [
    ((1 << 10,), None, "float32"),
    ((1 << 20,), None, "float32"),
    ((1 << 20,), None, "bfloat16"),
    ((1 << 24,), None, "float32"),
    ((4096, 4096), 1, "bfloat16"),
    ((4096, 4096), 0, "float32"),
    ((1 << 20, 3), 1, "float32"),
    ((3, 1 << 20), 0, "float32"),
    ((8, 4096, 1024), 2, "float32"),
    ((200, 300, 400), 1, "float32"),
]



def rotated(shape, dtype):
    """Returns random tensors that calls take in turns."""
    dtype = getattr(torch, dtype)
    count = max(1, min(CALLS, math.ceil(ROTATED / (math.prod(shape) * dtype.itemsize))))
    return [torch.rand(shape, device="cuda").to(dtype) for _ in range(count)]


def device_time(call, inputs):
    """Returns the device's µs of a call on one of the inputs, which take turns."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(CYCLES)
    start.record()
    for at in range(CALLS):
        call(inputs[at % len(inputs)])
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / CALLS


def in_turns(calls, time_of):
    """Returns the times of each call, from rounds in which the calls take turns. The first round is not counted."""
    times = {name: [] for name in calls}
    for number in range(-1, ROUNDS):
        for name in sorted(calls, reverse=number % 2 == 0):
            took = time_of(calls[name])
            if number >= 0:
                times[name].append(took)
    return times


def rounded(q1, median, q3):
    return {"median": round(median, 3), "q1": round(q1, 3), "q3": round(q3, 3)}


def quartiles(values):
    return rounded(*statistics.quantiles(values, n=4))


def device_times(name, shape, axis, dtype):
    """Returns the quartiles of the device's µs per call of each library."""
    tensors = rotated(shape, dtype)
    calls = {
        "warpfold": lambda values: getattr(warpfold, name)(values, axis),
        "PyTorch": lambda values: _bench.PYTORCH[name](torch, values, axis),
    }
    times = in_turns(calls, lambda call: device_time(call, tensors))
    return {library: statistics.quantiles(took, n=4) for library, took in times.items()}


if __name__ == "__main__":
    present = _bench.libraries()
    for name in sys.argv[1:] or _bench.PYTORCH:
        for shape, axis, dtype in SHAPES:
            on_device = device_times(name, shape, axis, dtype)
            for library, times in _bench.measure(present, name, shape, axis, dtype, ROUNDS).items():
                if library in on_device:
                    times["device"] = on_device[library]
                line = {"library": library, "op": name, "shape": shape, "axis": axis, "dtype": dtype}
                line |= {what: rounded(*of) for what, of in times.items()}
                print(json.dumps(line), flush=True)
