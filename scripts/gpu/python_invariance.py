#!/usr/bin/env python3
"""Batch invariance: whether the bits of a row's sum depend on the rows beside it and on the row's address, and what it costs
that they do not. Prints a line of JSON for each shape and type: the number of rows, of those compared, whose sum differs
in bits from that of the row alone, of the row as a matrix of one row, and of a copy at another address; and the device's µs
of all rows, by `determinism="everywhere"`, by the default, and by PyTorch."""

import json
import math

import torch
import warpfold
from python_peers import device_time, in_turns, quartiles, rotated

#: Rows that are compared.
COMPARED = 64

SHAPES = [
    ((2, 1 << 20), 1),
    ((7, 1 << 20), 1),
    ((1000, 4096), 1),
    ((4096, 4096), 1),
    ((100_000, 1000), 1),
    ((1 << 20, 64), 1),
    ((4096, 4096), 0),
    ((1 << 20, 7), 0),
    ((8, 4096, 1024), 1),
]

CALLS = {
    "everywhere": lambda x, axis: warpfold.sum(x, axis, determinism="everywhere"),
    "run-to-run": lambda x, axis: warpfold.sum(x, axis),
    "PyTorch": lambda x, axis: x.sum(axis),
}


def differing(call, x, axis):
    """Returns how many of the compared rows have other bits alone."""
    results = call(x, axis).flatten()
    rows = x.movedim(axis, -1).flatten(0, -2)
    count = 0
    for row in range(0, len(rows), math.ceil(len(rows) / COMPARED)):
        alone = rows[row].contiguous()
        shifted = torch.empty(len(alone) + 1, dtype=x.dtype, device=x.device)[1:]
        shifted.copy_(alone)
        sums = [call(alone, 0), call(alone[None], 1)[0], call(shifted, 0)]
        count += any(not torch.equal(one, results[row]) for one in sums)
    return count


for dtype in ["float32", "bfloat16", "float64"]:
    for shape, axis in SHAPES:
        tensors = rotated(shape, dtype)
        for tensor in tensors:
            tensor.sub_(0.5)
        times = in_turns(CALLS, lambda call: device_time(lambda x: call(x, axis), tensors))
        line = {"device": torch.cuda.get_device_name(), "dtype": dtype, "shape": shape, "axis": axis}
        rows = math.prod(shape) // shape[axis]
        line["compared"] = len(range(0, rows, math.ceil(rows / COMPARED)))
        line["differing"] = {name: differing(call, tensors[0], axis) for name, call in CALLS.items()}
        line |= {name: quartiles(of) for name, of in times.items()}
        for name in ["run-to-run", "PyTorch"]:
            line[f"everywhere_over_{name}"] = quartiles([a / b for a, b in zip(times["everywhere"], times[name])])
        print(json.dumps(line), flush=True)
