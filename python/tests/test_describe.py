"""`describe`, compared with NumPy, in one pass on a device, and on the CPU."""

import math

import numpy
import pytest

import warpfold
from conftest import DEVICE, TYPES, is_float, small


def check(values, device):
    """Compares the description of an array with NumPy's functions of its elements in a wide type."""
    found = warpfold.describe(values, device=device)
    wide = values.astype(numpy.float64) if is_float(values.dtype.name) else values.astype(object)
    numbers = wide[wide == wide].ravel()
    assert isinstance(found, warpfold.Description)
    assert (found.count, found.nan_count) == (numbers.size, values.size - numbers.size)
    if numbers.size == 0:
        assert math.isnan(found.mean) and math.isnan(found.variance)
        assert (found.min, found.max) == (None, None)
        return
    least, greatest = numbers.min(), numbers.max()
    assert (found.min, found.max) == (least, greatest)
    assert type(found.min) is type(found.max) is (float if is_float(values.dtype.name) else type(least))
    numbers = numbers.astype(numpy.float64)
    assert math.isclose(found.mean, numbers.mean(), rel_tol=1e-12, abs_tol=1e-12)
    assert math.isclose(found.variance, numbers.var(), rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.parametrize("device", [DEVICE, "cpu"])
@pytest.mark.parametrize("dtype", TYPES)
def test_describe_of_every_type_matches_numpy(dtype, device):
    for shape in [(), (0,), (1,), (1000,), (3, 5), (70000,)]:
        values = small(dtype, math.prod(shape), seed=5).reshape(shape)
        check(values, device)
        if is_float(dtype):
            values = values.copy()
            values.ravel()[::3] = numpy.nan
            check(values, device)
            check(numpy.full(shape, numpy.nan, dtype), device)


def test_describe_of_arrays_that_are_not_contiguous():
    values = small("float32", 60, seed=1).reshape(6, 10)
    for view in [values.T, values[::2, 1:], values[:, ::-1]]:
        assert warpfold.describe(view, device=DEVICE) == warpfold.describe(view.copy(), device=DEVICE)


def test_describe_of_an_array_on_the_device_and_of_tensors():
    values = small("int64", 500, seed=2)
    array = warpfold.asarray(values, DEVICE)
    expected = warpfold.describe(values, device=DEVICE)
    assert warpfold.describe(array) == expected
    torch = pytest.importorskip("torch")
    assert warpfold.describe(torch.from_numpy(values), device=DEVICE) == expected
    halves = torch.tensor([1.0, math.nan, -2.5], dtype=torch.bfloat16)
    for device in [DEVICE, "cpu"]:
        found = warpfold.describe(halves, device=device)
        assert found == (2, 1, -0.75, 3.0625, -2.5, 1.0)
