#!/usr/bin/env python3
"""Times calls of the Python package, of PyTorch and of CuPy, as `python -m warpfold bench` does, for the functions and
shapes of the project's tables. Prints a line of JSON for each call and library. `python_peers.py sum argmax` measures
only these functions."""

import json
import sys

from warpfold import _bench

ROUNDS = 15

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

if __name__ == "__main__":
    present = _bench.libraries()
    for name in sys.argv[1:] or _bench.PYTORCH:
        for shape, axis, dtype in SHAPES:
            for library, times in _bench.measure(present, name, shape, axis, dtype, ROUNDS).items():
                line = {"library": library, "op": name, "shape": shape, "axis": axis, "dtype": dtype}
                for what, (q1, median, q3) in times.items():
                    line[what] = {"median": round(median, 3), "q1": round(q1, 3), "q3": round(q3, 3)}
                print(json.dumps(line), flush=True)
