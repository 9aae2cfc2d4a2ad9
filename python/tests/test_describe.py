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


@pytest.mark.parametrize("device", [DEVICE, "cpu"])
@pytest.mark.parametrize("dtype", TYPES)
def test_describe_along_axes_is_that_of_each_part(dtype, device):
    values = small(dtype, 3 * 4 * 35, seed=3).reshape(3, 4, 35)
    if is_float(dtype):
        values[0, 1, ::3] = values[2, 2] = numpy.nan
    for axis, order in [(2, (0, 1, 2)), (-2, (0, 2, 1)), ((0, 2), (1, 0, 2)), (0, (1, 2, 0))]:
        axes = axis if isinstance(axis, tuple) else (axis,)
        shape = tuple(one for at, one in enumerate(values.shape) if at not in [one % 3 for one in axes])
        found = warpfold.describe(values, axis=axis, device=device)
        parts = values.transpose(order).reshape(math.prod(shape), -1)
        each = [warpfold.describe(part, device="cpu") for part in parts]
        for name, field in zip(found._fields, found):
            assert isinstance(field, numpy.ndarray) and field.shape == shape
            expected = [numpy.nan if getattr(one, name) is None else getattr(one, name) for one in each]
            numpy.testing.assert_allclose(field.ravel(), expected, rtol=1e-9, atol=1e-12)
        assert found.min.dtype == found.max.dtype == values.dtype
        assert found.count.dtype == numpy.int64 and found.variance.dtype == numpy.float64
        kept = warpfold.describe(values, dim=axis, keepdim=True, device=device)
        assert kept.mean.shape == values.sum(axis=axis, keepdims=True).shape


@pytest.mark.parametrize("device", [DEVICE, "cpu"])
def test_describe_along_all_axes_gives_arrays(device):
    for values, options in [
        (numpy.array([1.5, -2.0]), {"axis": 0}),
        (numpy.array([[1.5, -2.0]]), {"axis": (0, 1)}),
        (numpy.float32(2.5), {"axis": ()}),
        (numpy.array([[1.5], [numpy.nan]]), {"keepdims": True}),
    ]:
        found = warpfold.describe(values, device=device, **options)
        expected = numpy.nanmax(values, **options)
        assert isinstance(found.max, numpy.ndarray) and found.max.shape == numpy.shape(expected)
        assert numpy.array_equal(found.max, expected)


def test_describe_along_axes_without_elements():
    assert warpfold.describe(numpy.ones((0, 0)), axis=0, device=DEVICE).mean.shape == (0,)
    with pytest.raises(ValueError, match="describe of no elements along axis 0"):
        warpfold.describe(numpy.ones(0), axis=0, device=DEVICE)
    found = warpfold.describe(numpy.ones((0, 3), "int8"), axis=1, device=DEVICE)
    assert found.min.shape == found.count.shape == (0,) and found.min.dtype == numpy.int8
    with pytest.raises(ValueError, match="describe of no elements along axis 0"):
        warpfold.describe(numpy.ones((0, 3), "int8"), axis=0, device=DEVICE)
    with pytest.raises(ValueError, match="axis 2 of an array of 2 dimensions"):
        warpfold.describe(numpy.ones((1, 3)), axis=2, device=DEVICE)


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
        rows = warpfold.describe(torch.stack([halves, halves + 1]), dim=1, device=device)
        assert rows.max.tolist() == [1.0, 2.0] and rows.max.dtype == numpy.float32
