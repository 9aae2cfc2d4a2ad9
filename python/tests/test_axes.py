"""Reductions along axes and of segments, for every function, compared with NumPy."""

import itertools

import numpy
import pytest

import warpfold
from conftest import HARMONIC, PRODUCTS, ROUNDED, ROWS, TYPES, is_float, levels, quiet, same, small
from oracle import ORACLES
from test_functions import takes

#: Forty shapes, from no elements to rows and columns that are reduced by several blocks each.
SHAPES = [
    *[(1,), (7,), (31,), (1000,), (65_537,), (300_001,), (0,)],
    *[(3, 5), (0, 4), (4, 0), (0, 0), (1, 1000), (1000, 1), (33, 65), (64, 64), (2, 1000), (700, 3), (7, 128)],
    *[(128, 7), (300, 300), (5, 4096), (4096, 5), (2, 70_001), (70_001, 2), (20, 5000), (5000, 20)],
    *[(1, 1, 1), (2, 3, 5), (5, 1, 7), (2, 0, 3), (3, 0, 0), (10, 1, 10), (4, 33, 2), (2, 33, 16), (3, 17, 100), (100, 17, 3)],
    *[(3, 2, 2, 9), (2, 2, 2, 2), (1, 2, 1, 3, 1), (6, 5, 4, 3, 2)],
]


def axes_of(shape):
    """Yields None, each axis counted from both ends, and each set of axes."""
    dimensions = len(shape)
    yield None
    yield from range(-dimensions, dimensions)
    for count in range(1, dimensions + 1):
        yield from itertools.combinations(range(dimensions), count)
    yield tuple(reversed(range(dimensions)))


def numpy_result(name, values, axis, keepdims):
    """Returns NumPy's result. NumPy has no argmin and argmax of several axes: these are joined to one first."""
    how = {"axis": axis, "keepdims": keepdims}
    if "arg" in name and isinstance(axis, tuple):
        # Moves the axes to the end, in ascending order, and joins them.
        shape = values.shape
        others = [one for one in range(values.ndim) if one not in axis]
        count = int(numpy.prod([shape[one] for one in axis]))
        flat = values.transpose(*others, *sorted(axis)).reshape(*(shape[one] for one in others), count)
        found = ORACLES[name](flat, axis=-1)
        kept = [1 if one in axis else shape[one] for one in range(values.ndim) if keepdims or one not in axis]
        return numpy.asarray(found).reshape(kept)[()]
    return ORACLES[name](values, **how)


def cases(name, count):
    """Yields numbers below `count`, each with float32 and with one other type that the function takes, and a level for
    each. The other types and the levels rotate."""
    for number in range(count):
        for dtype in {"float32", TYPES[number % len(TYPES)]}:
            if takes(name, dtype):
                options = levels(name, dtype)
                yield number, dtype, options[number // 2 % len(options)]


def elements(name, dtype, shape):
    """Returns small integers: 1 and -1 for products of floats, so that none overflows; positive for harmonic means."""
    values = small(dtype, shape)
    if name in HARMONIC:
        return (abs(values) + 1).astype(dtype)
    return numpy.where(values > 0, 1, -1).astype(dtype) if name in PRODUCTS and is_float(dtype) else values


@pytest.mark.parametrize("name", ROWS)
def test_every_function_along_axes_matches_numpy(name):
    for number, dtype, level in cases(name, len(SHAPES)):
        shape = SHAPES[number]
        values = elements(name, dtype, shape)
        for axis, keepdims in itertools.product(axes_of(shape), [False, True] if values.size < 1000 else [False]):
            what = f"{name} of {dtype} {shape}, axis {axis}, keepdims {keepdims}, {level}"
            how = {"axis": axis, "keepdims": keepdims, "determinism": level}
            function = getattr(warpfold, name)
            counts = numpy.sum(numpy.ones(shape), axis=axis, keepdims=keepdims)
            if ROWS[name].of_none is None and counts.size == 0:
                # NumPy raises an error for some of these shapes, so only the shape is checked.
                results = function(values, **how)
                for one in results if ROWS[name].pair else [results]:
                    assert one.shape == counts.shape, what
                continue
            if ROWS[name].of_none is None and values.size == 0:
                with pytest.raises(ValueError, match="of no elements"):
                    function(values, **how)
                continue
            got = function(values, **how)
            with quiet():
                expected = numpy_result(name, values, axis, keepdims)
            compare(name, dtype, got, expected, what)


@pytest.mark.parametrize("name", ROWS)
def test_empty_axis_tuple_reduces_each_element_by_itself(name):
    shapes = [(), (1,), (7,), (3, 5), (2, 3, 4), (0,), (3, 0)]
    for number, dtype, level in cases(name, len(shapes)):
        values = elements(name, dtype, shapes[number])
        # Not for logsumexp, for which the oracle subtracts infinity from infinity, nor for variances.
        if is_float(dtype) and values.size > 3 and name not in ("logsumexp", "var", "std", "var_mean", "nanvar", "nanstd"):
            values.flat[:3] = numpy.nan, numpy.inf, -numpy.inf
        for given, keepdims in itertools.product([values, values.T], [False, True]):
            how = {"axis": (), "keepdims": keepdims}
            got = getattr(warpfold, name)(given, **how, determinism=level)
            with quiet():
                expected = numpy_result(name, given, **how)
            compare(name, dtype, got, expected, f"{name} of {dtype} {given.shape}, {level}")


def test_axes_have_pytorchs_names_too():
    values = small("float32", (3, 4, 5))
    same(warpfold.sum(values, dim=1), numpy.sum(values, axis=1))
    same(warpfold.max(values, dim=[0, 2], keepdim=True), numpy.max(values, axis=(0, 2), keepdims=True))
    assert warpfold.var(values, axis=0, keepdim=True, ddof=1).shape == (1, 4, 5)


def test_along_no_axis_initial_values_count_for_every_element():
    values = small("int32", (3, 4))
    same(warpfold.sum(values, axis=(), initial=5), numpy.sum(values, axis=(), initial=5, dtype="int64"))
    same(warpfold.max(values, axis=(), initial=2), numpy.max(values, axis=(), initial=2))
    same(warpfold.var(values, axis=(), ddof=1), numpy.full((3, 4), numpy.nan))


def test_alternating_reduced_and_kept_axes():
    base = small("int16", (3,) * 9)
    # Contiguous, and with gaps, which the array on the device then has too.
    for values in (small("int16", (2,) * 9), base[(slice(None, None, 2),) * 9]):
        view = device_view(base, values) if values.base is base else warpfold.asarray(values)
        for axes in [(0, 2, 4, 6), (1, 3, 5, 7), (0, 2, 4, 6, 8), (8, 2, 5, 0)]:
            for name in ("sum", "argmax", "min", "all", "std"):
                expected = numpy_result(name, values, axes, False)
                compare(name, "int16", getattr(warpfold, name)(values, axes), expected, f"{name} along {axes}")
                compare(name, "int16", getattr(warpfold, name)(view, axes).numpy(), expected, f"{name} along {axes}")
    # As bfloat16, each float32 of 1.5 is a zero and a 1.5.
    halves = warpfold.asarray(numpy.full(128, 1.5, "float32"))._view("bfloat16", [2] * 8, None, 0)
    same(warpfold.count_nonzero(halves, (0, 2, 4, 6)).numpy(), numpy.broadcast_to([0, 16], (2,) * 4))


def compare(name, dtype, got, expected, what):
    if ROWS[name].ddof or name in ROUNDED or (name in PRODUCTS and is_float(dtype)):
        for one, other in zip(*(result if ROWS[name].pair else (result,) for result in (got, expected))):
            assert one.dtype == other.dtype and one.shape == other.shape, what
            numpy.testing.assert_allclose(one, other, 2e-6, 1e-6, err_msg=what)
        return
    same(got, expected, what)


#: Strided arrays: the shape of a base, and a function that returns a view of it.
STRIDED = [
    ((30, 7), lambda base: base.T),
    ((300, 70), lambda base: base[:, 3]),
    ((300, 70), lambda base: base[::3, 5:60:2]),
    ((6, 5, 4), lambda base: base.transpose(1, 2, 0)),
    ((6, 5, 12), lambda base: base.transpose(2, 1, 0)[:, ::2]),
    ((2, 1, 33, 16), lambda base: base[:, :, :, 2:9].transpose(2, 1, 0, 3)),
    ((70, 70), lambda base: base.diagonal()),
]


def device_view(base, values):
    """Copies `base` to the device, and returns the same view of the copy as `values` is of `base`."""
    size = base.itemsize
    start = (values.ctypes.data - base.ctypes.data) // size
    strides = [stride // size for stride in values.strides]
    return warpfold.asarray(base)._view(base.dtype.name, list(values.shape), strides, start)


@pytest.mark.parametrize("name", ROWS)
def test_strided_arrays_are_reduced_in_place(name):
    for number, dtype, level in cases(name, len(STRIDED)):
        shape, look = STRIDED[number]
        base = elements(name, dtype, shape)
        values = look(base)
        view = device_view(base, values)
        for axis, keepdims in itertools.product(axes_of(values.shape), [False, True]):
            what = f"{name} of {dtype} {values.shape} by {values.strides}, axis {axis}, {level}"
            how = {"axis": axis, "keepdims": keepdims, "determinism": level}
            with quiet():
                expected = numpy_result(name, values, axis, keepdims)
            got = getattr(warpfold, name)(view, **how)
            parts = tuple(part.numpy()[()] for part in got) if ROWS[name].pair else got.numpy()[()]
            compare(name, dtype, parts, expected, what)
            # NumPy's strided array is copied to the device first.
            if axis is None:
                compare(name, dtype, getattr(warpfold, name)(values, **how), expected, what)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_along_axes_matches_numpy(dtype):
    values = small(dtype, (3, 40, 5))
    for name, axis in itertools.product(["sum", "argmax", "min", "var", "all"], [0, 1, 2, (1, 2)]):
        expected = numpy_result(name, values, axis, False)
        compare(name, "float32", getattr(warpfold, name)(values, axis), expected, f"{name} {axis}")


def lengths(seed):
    """Returns the segment lengths of case number `seed`. Five kinds rotate: equal, all empty but one, short but for two
    long ones, mixed, and Zipf-distributed."""
    random = numpy.random.default_rng(seed)
    kinds = [
        lambda: [seed] * 70,
        lambda: [0] * (5 * seed) + [1000 * seed] + [0] * seed,
        lambda: random.permutation([*random.integers(0, 4, 10 * seed), 3000, 5000 + seed]),
        lambda: [0, 1, 0, 0, 700, *random.integers(0, 40, 60), 0, 5000, 2, 0],
        lambda: numpy.minimum(random.zipf(1.6, 60), 9000),
    ]
    return [int(length) for length in kinds[seed % len(kinds)]()]


def numpy_result_of_segment(name, values):
    """Returns NumPy's result of a segment. For an empty segment without one, returns what the library defines: index -1,
    NaN for functions that skip NaN, else the identity of min or max."""
    if len(values) or ROWS[name].of_none is not None:
        with quiet():
            return ORACLES[name](values)
    if "arg" in name:
        return numpy.int64(-1)
    kind = values.dtype
    if "nan" in name and kind.kind == "f":
        nothing = kind.type(numpy.nan)
        return (nothing, nothing) if ROWS[name].pair else nothing
    if kind == bool:
        ends = numpy.array([True, False])
    elif kind.kind == "f":
        ends = numpy.array([numpy.inf, -numpy.inf], kind)
    else:
        ends = numpy.array([numpy.iinfo(kind).max, numpy.iinfo(kind).min], kind)
    return {"min": ends[0], "max": ends[1], "aminmax": (ends[0], ends[1])}[name.removeprefix("nan")]


def check_segments(name, values, offsets, level="run-to-run"):
    got = getattr(warpfold, f"segment_{name}")(values, offsets, determinism=level)
    pieces = [values[begin:end] for begin, end in zip(offsets.tolist(), offsets.tolist()[1:])]
    results = [numpy_result_of_segment(name, piece) for piece in pieces]
    if ROWS[name].pair:
        expected = tuple(numpy.array(column) for column in zip(*results))
    else:
        expected = numpy.array(results)
    what = f"{name} of {len(pieces)} segments of {len(values)} {values.dtype}, {level}"
    compare(name, values.dtype.name, got, expected, what)


@pytest.mark.parametrize("name", ROWS)
def test_segments_of_every_function_match_numpy(name):
    for number, dtype, level in cases(name, 40):
        # The offsets leave out elements at both ends, and their types rotate.
        kind = ["int32", "uint32", "int64", "uint64"][number % 4]
        offsets = (3 + numpy.cumsum([0, *lengths(number)])).astype(kind)
        check_segments(name, elements(name, dtype, offsets[-1] + 10), offsets, level)


@pytest.mark.parametrize("dtype", TYPES)
def test_segments_of_every_type_match_numpy(dtype):
    offsets = numpy.cumsum([0, *lengths(3)])
    values = small(dtype, offsets[-1])
    for name in ("sum", "max", "argmin", "mean", "all"):
        check_segments(name, values, offsets)


def test_equal_empty_and_no_segments():
    values = small("int64", 60)
    check_segments("sum", values, numpy.arange(0, 61, 6))
    check_segments("var", values, numpy.arange(0, 61, 6))
    same(warpfold.segment_sum(values, [0]), numpy.array([], "int64"))
    same(warpfold.segment_sum(values[:0], [0, 0, 0]), numpy.array([0, 0], "int64"))
    same(warpfold.segment("sum", values, [0, 60]), numpy.array([values.sum()]))
    ddof = warpfold.segment_var(values, [0, 0, 1, 60], ddof=1)
    numpy.testing.assert_allclose(ddof, [numpy.nan, numpy.nan, numpy.var(values[1:], ddof=1)], 1e-12)
