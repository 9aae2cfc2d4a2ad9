"""Reductions on the CPU by `device="cpu"`, compared with the simulator's, whose results the other tests check."""

import os
import subprocess
import sys

import numpy
import pytest

import warpfold
from conftest import HARMONIC, PRODUCTS, ROUNDED, ROWS, TYPES, is_float, levels, near_one, same, small, spread
from oracle import ORACLES
from test_functions import takes

#: Functions whose results may be rounded in another order than the simulator's.
IS_ROUNDED = [name for name, row in ROWS.items() if row.ddof or name in (*ROUNDED, *PRODUCTS)]


def data(name, dtype, shape):
    """Returns elements with NaN among them, if the function skips it."""
    if not is_float(dtype):
        return small(dtype, shape) if name not in HARMONIC else abs(small(dtype, shape)) // 2 + numpy.ones(1, dtype)
    values = near_one(dtype, shape) if name in PRODUCTS else small(dtype, shape)
    if name in HARMONIC:
        values = abs(values) + 1
    if name.startswith("nan") or name == "count_nan":
        values.reshape(-1)[::5] = numpy.nan
    return values.astype(dtype)


def check(name, got, expected, what):
    if name not in IS_ROUNDED:
        return same(got, expected, what)
    assert type(got) is type(expected), what
    for one, other in zip(*((given if ROWS[name].pair else [given]) for given in (got, expected))):
        assert type(one) is type(other) and one.dtype == other.dtype and one.shape == other.shape, what
        relative = 1e-12 if one.dtype == "float64" else 1e-5
        numpy.testing.assert_allclose(one, other, relative, relative, err_msg=what)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ROWS)
def test_every_function_has_the_simulators_results(name, dtype):
    if not takes(name, dtype):
        pytest.skip(f"{name} does not take {dtype}")
    function = getattr(warpfold, name)
    values = data(name, dtype, (3, 40, 5))
    for level in levels(name, dtype):
        for axis in (None, 0, 1, (0, 2), (1, 2), ()):
            for keepdims in (False, True):
                how = {"axis": axis, "keepdims": keepdims, "determinism": level}
                what = f"{name} of {dtype}, {how}"
                check(name, function(values, **how, device="cpu"), function(values, **how, device="sim"), what)
        segments = getattr(warpfold, f"segment_{name}")
        for offsets in ([0, 0, 7, 7, 599, 600, 600], [0], numpy.uint32([5, 5])):
            got, expected = (
                segments(values.ravel(), offsets, determinism=level, device=device) for device in ("cpu", "sim")
            )
            check(name, got, expected, f"segments of {name} of {dtype}, {level}, {offsets}")


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.ddof])
def test_variances_take_ddof(name):
    for dtype in ("float32", "float64", "int8"):
        values = data(name, dtype, (6, 9))
        for ddof in (1, 2.5, 9, 10):
            got, expected = (getattr(warpfold, name)(values, 1, ddof=ddof, device=device) for device in ("cpu", "sim"))
            check(name, got, expected, f"{name} of {dtype}, ddof {ddof}")


@pytest.mark.parametrize("dtype", TYPES)
def test_extremes_match_numpy(dtype):
    if is_float(dtype):
        values = numpy.array([3, numpy.nan, -numpy.inf, 4], dtype)
    else:
        limits = numpy.iinfo("uint8") if dtype == "bool" else numpy.iinfo(dtype)
        values = numpy.array([1, limits.min, limits.max, 0], "bool" if dtype == "bool" else dtype)
    for name in ("min", "max", "aminmax", "argmin", "argmax", "max_norm", "nanmin", "nanmax_norm", "any", "all"):
        same(getattr(warpfold, name)(values, device="cpu"), ORACLES[name](values), f"{name} of {dtype}")
        same(getattr(warpfold, name)(values[:, None], 1, device="cpu"), ORACLES[name](values[:, None], axis=1), name)


def test_nan_functions_of_nan_alone():
    values = numpy.full((2, 7), numpy.nan, "float32")
    for name in [name for name in ROWS if name.startswith("nan")]:
        got, expected = (getattr(warpfold, name)(values, 1, device=device) for device in ("cpu", "sim"))
        same(got, expected, name)


def test_large_arrays_are_divided_among_threads():
    values = spread("float64", 1_000_003)
    for name in ("sum", "var"):
        got, expected = (
            getattr(warpfold, name)(values, determinism="everywhere", device=device) for device in ("cpu", "sim")
        )
        assert got.tobytes() == expected.tobytes(), name
    rows = small("int32", (70_000, 3))
    same(warpfold.sum(rows, 1, device="cpu"), rows.sum(1, dtype="int64"))
    same(warpfold.argmax(rows, 0, device="cpu"), rows.argmax(0))


@pytest.mark.parametrize("dtype", TYPES)
def test_intervals_have_the_simulators_results(dtype):
    for values in (small(dtype, 5000), small(dtype, (3, 4)), small(dtype, 0)):
        for low, high in ((None, None), (1, 5), (5, 1), (0, None)):
            for name in ("count_within", "sum_within", "mean_within"):
                for level in ("run-to-run", "everywhere"):
                    got, expected = (
                        getattr(warpfold, name)(values, low, high, determinism=level, device=device)
                        for device in ("cpu", "sim")
                    )
                    same(got, expected, f"{name} of {dtype} from {low} to {high}")


def test_any_array_of_the_host_is_reduced():
    values = small("float32", (30, 40))
    misaligned = numpy.frombuffer(b"\0\1\0\0\0", "<i4", offset=1)
    same(warpfold.sum(misaligned, device="cpu"), numpy.int64(1))
    same(warpfold.sum([1, 2, 3], device="cpu"), numpy.int64(6))
    same(warpfold.max(3.5, device="cpu"), numpy.float64(3.5))
    for given in (values.T, values[::-2, 3:], values.astype(">f4"), values.reshape(2, 5, 3, 40)):
        same(warpfold.sum(given, -1, device="cpu"), given.sum(-1).astype("float32"))
    assert warpfold.sum(numpy.empty(0), device="cpu") == 0
    assert warpfold.sum(numpy.empty((0, 3)), 1, device="cpu").shape == (0,)


def test_options_are_taken():
    values = small("float32", (5, 6))
    mask, out = values > 0, numpy.zeros(6, "float64")
    total = warpfold.sum(values, 0, dtype="float64", where=mask, out=out, device="cpu")
    assert total is out
    same(out, values.sum(0, "float64", where=mask))
    same(warpfold.mean(values, where=mask, device="cpu"), values[mask].mean(dtype="float64").astype("float32"))
    same(warpfold.max(values, initial=100, device="cpu"), numpy.float32(100))
    same(warpfold.l2_norm(values, dtype="float64", device="cpu"), numpy.sqrt((values.astype("float64") ** 2).sum()))


def test_invalid_arguments_are_refused(refused):
    values = small("float32", (3, 4))
    flat = values.ravel()
    array = warpfold.asarray(values)
    for kind, call, *words in [
        (ValueError, lambda: warpfold.asarray(values, "cpu"), "device 'cpu'", "arrays on the host", "'auto'"),
        (ValueError, lambda: warpfold.sum(array, device="cpu"), "device 'cpu'", "on the host", "`array.numpy()`"),
        (ValueError, lambda: warpfold.sum_error_bound(values, device="cpu"), "device 'cpu'", "'auto', 'cuda' or 'sim'"),
        (ValueError, lambda: warpfold.device("cpu"), "`cpu`", "there are auto"),
        (ValueError, lambda: warpfold.sum(values, stream=1, device="cpu"), "on the host", "leave it out"),
        (ValueError, lambda: warpfold.sum(values, 2, device="cpu"), "axis 2", "-2 to 1"),
        (ValueError, lambda: warpfold.bitwise_or(values, device="cpu"), "bitwise_or of float32", "only integers"),
        (ValueError, lambda: warpfold.mean(values, determinism="everywhere", device="cpu"), "run to run only"),
        (ValueError, lambda: warpfold.min(numpy.empty(0), device="cpu"), "min of no elements", "longer array"),
        (TypeError, lambda: warpfold.sum(values.astype("complex64"), device="cpu"), "complex64", "`.real`"),
        (ValueError, lambda: warpfold.segment_sum(values, [0, 5], device="cpu"), "(3, 4)", "reshape(-1)"),
        (ValueError, lambda: warpfold.segment_sum(flat, [[0, 5]], device="cpu"), "offsets of the shape", "one dim"),
        (TypeError, lambda: warpfold.segment_sum(flat, [0.0, 5.0], device="cpu"), "offsets of float64", "int32, int64"),
        (ValueError, lambda: warpfold.segment_sum(flat, [0, 5, 3], device="cpu"), "segment 1 is from 5 to 3", "descend"),
        (ValueError, lambda: warpfold.segment_sum(flat, [0, 13], device="cpu"), "from 0 to 13 of 12", "0 to 12"),
        (ValueError, lambda: warpfold.segment_sum(flat, [-1, 3], device="cpu"), "from -1 to 3", "never descend"),
        (ValueError, lambda: warpfold.segment_sum(flat, numpy.empty(0, int), device="cpu"), "0 offsets", "one more"),
        (ValueError, lambda: warpfold.segment_sum(flat, warpfold.asarray([0, 3]), device="cpu"), "in one place"),
        (ValueError, lambda: warpfold.count_within(flat, numpy.nan, device="cpu"), "lower end of the interval is NaN"),
        (TypeError, lambda: warpfold.count_within(flat, "x", device="cpu"), "low 'x'", "a number, or None"),
    ]:
        refused(kind, call, *words)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_forked_children_of_a_process_with_a_device_reduce_on_the_cpu():
    code = """
import os, numpy, warpfold
values = numpy.arange(100_000.0)
print(warpfold.sum(values, device="cpu"), warpfold.sum(values, device="sim"))
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, str(warpfold.sum(values, device="cpu")).encode())
    os._exit(0)
os.wait()
print(os.read(reading, 100).decode())
"""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.stdout.split() == ["4999950000.0"] * 3, ran.stderr
