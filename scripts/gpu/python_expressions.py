#!/usr/bin/env python3
"""Times sums and maxima of expressions by the Python package, by CuPy's ReductionKernel and by PyTorch's operators, on the
same tensors. Prints a line of JSON for each expression, shape and library, in µs: `enqueued` is the host's time of a call
that is enqueued after others, `done` the time of a call and the wait for its result, `device` the device's time alone, of
calls on tensors in turns, which together exceed the L2. CuPy works on PyTorch's stream. Results are compared first."""

import json
import statistics
import time

import cupy
import torch
import warpfold
from python_peers import CALLS, ROUNDS, device_time, rotated

SHAPES = [
    ((1 << 10,), None, "float32"),
    ((1 << 20,), None, "float32"),
    ((1 << 24,), None, "float32"),
    ((1 << 28,), None, "float32"),
    ((1 << 24,), None, "float64"),
    ((4096, 4096), 1, "float32"),
    ((4096, 4096), 0, "float32"),
]


def reduction_kernel(map_expr, reduce_expr, identity):
    return cupy.ReductionKernel("T x", "T y", map_expr, reduce_expr, "y = a", identity, "k")


EXPRESSIONS = {
    "sum x * x - 2": (
        warpfold.expr("x * x - 2").sum,
        lambda x, axis: (x * x - 2).sum(axis),
        reduction_kernel("x * x - T(2)", "a + b", "0"),
    ),
    "sum sqrt(abs(x)) where x < 0.25": (
        warpfold.expr("sqrt(abs(x))", where="x < 0.25").sum,
        lambda x, axis: torch.where(x < 0.25, x.abs().sqrt(), 0).sum(axis),
        reduction_kernel("x < T(0.25) ? sqrt(abs(x)) : T(0)", "a + b", "0"),
    ),
    "max abs(x - 0.5)": (
        warpfold.expr("abs(x - 0.5)").max,
        lambda x, axis: (x - 0.5).abs().amax(() if axis is None else axis),
        reduction_kernel("abs(x - T(0.5))", "max(a, b)", "0"),
    ),
}


def calls_of(expression):
    ours, torchs, cupys = EXPRESSIONS[expression]
    return {
        "warpfold": lambda pair, axis: ours(pair[0], axis),
        "PyTorch": lambda pair, axis: torchs(pair[0], axis),
        "CuPy": lambda pair, axis: cupys(pair[1], axis=axis),
    }


def measure(expression, shape, axis, dtype):
    pairs = [(tensor, cupy.from_dlpack(tensor)) for tensor in rotated(shape, dtype)]
    count = len(pairs)
    calls = calls_of(expression)
    expected = calls["PyTorch"](pairs[0], axis).double().cpu()
    for library, call in calls.items():
        found = torch.from_dlpack(call(pairs[0], axis)).double().cpu()
        assert torch.allclose(found, expected, rtol=1e-3), (library, expression, shape, found, expected)
    times = {library: {"enqueued": [], "done": [], "device": []} for library in calls}
    for number in range(-1, ROUNDS):
        for library in sorted(calls, reverse=number % 2 == 0):
            call, took = calls[library], times[library]
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for at in range(CALLS):
                call(pairs[at % count], axis)
            enqueued = (time.perf_counter() - begin) * 1e6 / CALLS
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for at in range(CALLS):
                call(pairs[at % count], axis)
                torch.cuda.synchronize()
            done = (time.perf_counter() - begin) * 1e6 / CALLS
            device = device_time(lambda pair: call(pair, axis), pairs)
            if number >= 0:
                took["enqueued"].append(enqueued)
                took["done"].append(done)
                took["device"].append(device)
    return times


if __name__ == "__main__":
    cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream).use()
    for expression in EXPRESSIONS:
        for shape, axis, dtype in SHAPES:
            for library, times in measure(expression, shape, axis, dtype).items():
                line = {"library": library, "expression": expression, "shape": shape, "axis": axis, "dtype": dtype}
                for what, took in times.items():
                    q1, median, q3 = (round(value, 3) for value in statistics.quantiles(took, n=4))
                    line[what] = {"median": median, "q1": q1, "q3": q3}
                print(json.dumps(line), flush=True)
