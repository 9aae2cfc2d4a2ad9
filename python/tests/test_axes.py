"""Axes and segments, of every function, against NumPy."""

import itertools

import numpy
import pytest

import warpfold
from conftest import ROWS, TYPES, is_float, quiet, same, small
from oracle import ORACLES
from test_functions import takes

SHAPES = [(7,), (3, 5), (0, 4), (4, 0), (1, 1, 1), (33, 65), (2, 3, 5), (5, 1, 7), (2, 0, 3), (3, 2, 2, 9), (2, 1000), (700, 3)]


def axes_of(shape):
    """Every axis, from both ends, and all ranges of neighbours."""
    dimensions = len(shape)
    yield None
    yield from range(-dimensions, dimensions)
    for begin, end in itertools.combinations(range(dimensions + 1), 2):
        yield tuple(range(begin, end))
    yield tuple(reversed(range(dimensions)))


def numpys(name, values, axis, keepdims):
    """What NumPy says; of several axes together where it takes one alone."""
    how = {"axis": axis, "keepdims": keepdims}
    if name in ("argmin", "argmax") and isinstance(axis, tuple):
        begin, end = min(axis), max(axis) + 1
        shape = values.shape
        flat = values.reshape(*shape[:begin], int(numpy.prod(shape[begin:end])), *shape[end:])
        found = ORACLES[name](flat, axis=begin)
        ones = (1,) * (end - begin) if keepdims else ()
        return numpy.asarray(found).reshape(shape[:begin] + ones + shape[end:])[()]
    return ORACLES[name](values, **how)



def of_none(shape, axis):
    """Whether there are results, of no elements each."""
    counts = numpy.sum(numpy.ones(shape), axis=axis)
    return counts.size > 0 and numpy.all(counts == 0)


@pytest.mark.parametrize("name", ROWS)
def test_axes_of_every_function(name):
    for dtype, shape in itertools.product(["int32", "float32"], SHAPES):
        if not takes(name, dtype):
            continue
        values = small(dtype, shape)
        for axis, keepdims in itertools.product(axes_of(shape), [False, True]):
            what = f"{name} of {dtype} {shape}, axis {axis}, keepdims {keepdims}"
            function = getattr(warpfold, name)
            if ROWS[name].of_none is None and of_none(shape, axis):
                with pytest.raises(ValueError, match="of no elements"):
                    function(values, axis, keepdims)
                continue
            got = function(values, axis, keepdims)
            with quiet():
                expected = numpys(name, values, axis, keepdims)
            compare(name, dtype, got, expected, what)


def compare(name, dtype, got, expected, what):
    if ROWS[name].ddof or name in ("l2_norm", "mean", "logsumexp") or (name == "prod" and is_float(dtype)):
        for one, other in zip(*(result if ROWS[name].pair else (result,) for result in (got, expected))):
            assert one.dtype == other.dtype and one.shape == other.shape, what
            numpy.testing.assert_allclose(one, other, 2e-6, 1e-6, err_msg=what)
        return
    same(got, expected, what)


@pytest.mark.parametrize("dtype", TYPES)
def test_axes_of_every_type(dtype):
    values = small(dtype, (3, 40, 5))
    for name, axis in itertools.product(["sum", "argmax", "min", "var", "all"], [0, 1, 2, (1, 2)]):
        expected = numpys(name, values, axis, False)
        compare(name, "float32", getattr(warpfold, name)(values, axis), expected, f"{name} {axis}")


def lengths(seed):
    random = numpy.random.default_rng(seed)
    return [0, 1, 0, 0, 700, *random.integers(0, 40, 60), 0, 5000, 2, 0]


def of_segment(name, values):
    """What NumPy says of a segment; of no elements what gives way to every other."""
    if len(values) or ROWS[name].of_none is not None:
        with quiet():
            return ORACLES[name](values)
    if name.startswith("arg"):
        return numpy.int64(-1)
    kind = values.dtype
    if kind == bool:
        ends = numpy.array([True, False])
    elif kind.kind == "f":
        ends = numpy.array([numpy.inf, -numpy.inf], kind)
    else:
        ends = numpy.array([numpy.iinfo(kind).max, numpy.iinfo(kind).min], kind)
    return {"min": ends[0], "max": ends[1], "aminmax": (ends[0], ends[1])}[name]


def check_segments(name, values, offsets):
    got = getattr(warpfold, f"segment_{name}")(values, offsets)
    pieces = [values[begin:end] for begin, end in itertools.pairwise(offsets.tolist())]
    results = [of_segment(name, piece) for piece in pieces]
    if ROWS[name].pair:
        expected = tuple(numpy.array(column) for column in zip(*results))
    else:
        expected = numpy.array(results)
    compare(name, values.dtype.name, got, expected, f"{name} of segments of {values.dtype}")


@pytest.mark.parametrize("name", ROWS)
def test_segments_of_every_function(name):
    for number, dtype in enumerate(["int32", "float32"]):
        if not takes(name, dtype):
            continue
        # A part of the values, and offsets of every type.
        for kind in [("int32", "uint32"), ("int64", "uint64")][number]:
            offsets = (3 + numpy.cumsum([0, *lengths(number)])).astype(kind)
            values = small(dtype, offsets[-1] + 10)
            if name == "prod" and dtype == "float32":
                values = numpy.where(values > 0, 1, -1).astype(dtype)
            check_segments(name, values, offsets)


@pytest.mark.parametrize("dtype", TYPES)
def test_segments_of_every_type(dtype):
    offsets = numpy.cumsum([0, *lengths(5)])
    values = small(dtype, offsets[-1])
    for name in ("sum", "max", "argmin", "mean", "all"):
        check_segments(name, values, offsets)


def test_segments_of_one_length_and_none():
    values = small("int64", 60)
    check_segments("sum", values, numpy.arange(0, 61, 6))
    check_segments("var", values, numpy.arange(0, 61, 6))
    same(warpfold.segment_sum(values, [0]), numpy.array([], "int64"))
    same(warpfold.segment_sum(values[:0], [0, 0, 0]), numpy.array([0, 0], "int64"))
    same(warpfold.segment("sum", values, [0, 60]), numpy.array([values.sum()]))
    ddof = warpfold.segment_var(values, [0, 0, 1, 60], ddof=1)
    numpy.testing.assert_allclose(ddof, [numpy.nan, numpy.nan, numpy.var(values[1:], ddof=1)], 1e-12)
