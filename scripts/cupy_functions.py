#!/usr/bin/env python3
"""Compares functions of CuPy in the simulator with those of NumPy. `scripts/clients.sh cupy` runs it."""

import cupy
import numpy

random = numpy.random.default_rng(1)
A, B = random.standard_normal((2, 37, 53)).astype(numpy.float32)
V, W = random.standard_normal(1000), random.integers(0, 50, 1000)
FUNCTIONS = {
    "sum": lambda m, a, b, v, w: a.sum(),
    "sum, axis 0": lambda m, a, b, v, w: a.sum(axis=0),
    "sum, axis 1": lambda m, a, b, v, w: a.sum(axis=1),
    "mean": lambda m, a, b, v, w: a.mean(),
    "std": lambda m, a, b, v, w: a.std(axis=1),
    "max": lambda m, a, b, v, w: a.max(axis=0),
    "argmin": lambda m, a, b, v, w: a.argmin(),
    "prod": lambda m, a, b, v, w: (1 + a / 100).prod(),
    "any": lambda m, a, b, v, w: (a > 3).any(),
    "all": lambda m, a, b, v, w: (a > -9).all(),
    "median": lambda m, a, b, v, w: m.median(v),
    "percentile": lambda m, a, b, v, w: m.percentile(v, 30),
    "cumsum": lambda m, a, b, v, w: v.cumsum(),
    "diff": lambda m, a, b, v, w: m.diff(v),
    "sort": lambda m, a, b, v, w: m.sort(v),
    "argsort": lambda m, a, b, v, w: m.argsort(v),
    "lexsort": lambda m, a, b, v, w: m.lexsort(m.stack([v, w.astype(float)])),
    "partition": lambda m, a, b, v, w: m.sort(m.partition(v, 10)[:10]),
    "searchsorted": lambda m, a, b, v, w: m.searchsorted(m.sort(v), v[:10]),
    "unique": lambda m, a, b, v, w: m.unique(w),
    "bincount": lambda m, a, b, v, w: m.bincount(w),
    "histogram": lambda m, a, b, v, w: m.histogram(v, bins=10)[0],
    "add": lambda m, a, b, v, w: a + b,
    "exp": lambda m, a, b, v, w: m.exp(a),
    "sin": lambda m, a, b, v, w: m.sin(v),
    "clip": lambda m, a, b, v, w: m.clip(a, -1, 1),
    "where": lambda m, a, b, v, w: m.where(a > 0, a, b),
    "nonzero": lambda m, a, b, v, w: m.nonzero(w > 25)[0],
    "index by integers": lambda m, a, b, v, w: v[w],
    "index by truths": lambda m, a, b, v, w: v[v > 0],
    "transpose": lambda m, a, b, v, w: m.ascontiguousarray(a.T),
    "concatenate": lambda m, a, b, v, w: m.concatenate([a, b]),
    "tile": lambda m, a, b, v, w: m.tile(w, 3),
}
right = 0
for name, function in FUNCTIONS.items():
    got = cupy.asnumpy(function(cupy, *map(cupy.asarray, (A, B, V, W))))
    if numpy.allclose(got, function(numpy, A, B, V, W), rtol=1e-5, atol=1e-5):
        right += 1
    else:
        print(f"{name}: wrong")
print(f"{right} of {len(FUNCTIONS)}")
