"""Counts, sums and means of the elements in an interval, compared with NumPy."""

import math

import numpy
import pytest

import warpfold
from conftest import DEVICE, TYPES, any_order, is_float, near, same, small, spread
from oracle import ORACLES

INTERVALS = [(None, None), (2, 5), (2, None), (None, 2), (0, 0), (5, 2), (-3, 1)]


def inside(values, low, high):
    """Returns the elements from `low` to `high`, without NaN."""
    mask = values == values
    if low is not None:
        mask &= values >= low
    if high is not None:
        mask &= values <= high
    return values[mask]


def with_nan(dtype, n):
    values = small(dtype, n, seed=n)
    if is_float(dtype):
        values[numpy.arange(n) % 7 == 0] = numpy.nan
    return values


@pytest.mark.parametrize("dtype", TYPES)
def test_within_functions_of_every_type_match_numpy(dtype):
    for n in [0, 1, 31, 1000, 65537]:
        values = with_nan(dtype, n)
        for low, high in INTERVALS:
            chosen, what = inside(values, low, high), f"{n} {dtype} from {low} to {high}"
            same(warpfold.count_within(values, low, high), numpy.int64(chosen.size), what)
            same(warpfold.sum_within(values, low, high), ORACLES["sum"](chosen), what)
            mean = warpfold.mean_within(values, low, high)
            kind = numpy.float32 if dtype in ("float16", "float32") else numpy.float64
            assert type(mean) is kind, what
            if chosen.size == 0:
                assert numpy.isnan(mean), what
            else:
                exact = chosen.astype(numpy.float64).sum() / chosen.size
                assert mean == kind(exact), what


@pytest.mark.parametrize("dtype", [name for name in TYPES if not is_float(name) and name != "bool"])
def test_integer_bounds_at_and_beyond_the_limits_of_the_type(dtype):
    least, most = (int(one) for one in (numpy.iinfo(dtype).min, numpy.iinfo(dtype).max))
    values = numpy.array([least, least + 1, 1, most - 1, most] * 13, dtype)
    ends = [least - 1, least, least + 1, most - 1, most, most + 1, -(2**100), 2**100, -(2**200), 2**200]
    for low in ends:
        for high in ends:
            chosen = [one for one in values.tolist() if low <= one <= high]
            what = f"{dtype} from {low} to {high}"
            assert warpfold.count_within(values, low, high) == len(chosen), what
            wrapped = numpy.array(chosen, dtype).sum(dtype="uint64" if dtype[0] == "u" else "int64")
            assert warpfold.sum_within(values, low, high) == wrapped, what


def test_float_bounds_are_compared_as_in_numpy():
    special = [-numpy.inf, -1.0, -1e-45, -0.0, 0.0, 1e-45, 0.1, 1.0, numpy.inf, numpy.nan]
    for dtype in ("float16", "float32", "float64"):
        values = numpy.array(special * 20, dtype)
        for low in special[:-1]:
            for high in special[:-1]:
                expected = inside(values, numpy.dtype(dtype).type(low), numpy.dtype(dtype).type(high)).size
                assert warpfold.count_within(values, low, high) == expected, f"{dtype} from {low} to {high}"


def test_float_sums_are_within_the_rounding_bound():
    values = spread("float32", 40_003, 1)
    chosen = inside(values, -1.5, 40.0).astype(numpy.float64)
    bound = any_order(chosen.size, "float32") * numpy.abs(chosen).sum()
    near(warpfold.sum_within(values, -1.5, 40.0), chosen.sum(), bound)


@pytest.mark.parametrize("dtype", [name for name in TYPES if is_float(name)])
def test_everywhere_sums_do_not_depend_on_the_order(dtype):
    # Random significands and magnitudes, so that the rounding of an ordinary sum depends on its order.
    generator = numpy.random.default_rng(7)
    values = (generator.standard_normal(20_003) * 2.0 ** generator.integers(-8, 9, 20_003)).astype(dtype)
    chosen = inside(values, -0.5, 40.0).astype(numpy.float64)
    # The exact sum, rounded once to the result's type.
    kind = numpy.float64 if dtype == "float64" else numpy.float32
    exact = kind(math.fsum(chosen))
    for order in (values, values[::-1].copy(), numpy.sort(values)):
        total = warpfold.sum_within(order, -0.5, 40.0, determinism="everywhere")
        same(total, exact, f"{dtype}: {total!r}, not {exact!r}")
        assert warpfold.count_within(order, -0.5, 40.0, determinism="everywhere") == chosen.size
        mean = warpfold.mean_within(order, -0.5, 40.0, determinism="everywhere")
        # The mean divides the exact sum, which is not rounded before.
        assert mean == numpy.float64(math.fsum(chosen) / chosen.size).astype(mean.dtype)


def test_host_and_device_arrays_of_two_dimensions():
    values = small("int32", (30, 40))
    expected = inside(values, 1, 4)
    array = warpfold.asarray(values)
    count, total = warpfold.count_within(array, 1, 4), warpfold.sum_within(array, low=1, high=4)
    assert isinstance(count, warpfold.Array) and count.shape == () == total.shape
    assert (count.item(), total.item()) == (expected.size, expected.sum())
    assert warpfold.mean_within(array, 1, 4).item() == expected.mean()
    assert warpfold.count_within(values, numpy.int8(1), 4, device=DEVICE) == expected.size


def test_invalid_bounds_are_refused():
    ints, floats = numpy.arange(5, dtype="int32"), numpy.arange(5, dtype="float32")
    with pytest.raises(ValueError, match="lower end of the interval is NaN"):
        warpfold.count_within(floats, numpy.nan, 1)
    with pytest.raises(ValueError, match="upper end of the interval is NaN"):
        warpfold.sum_within(floats, None, numpy.nan)
    with pytest.raises(ValueError, match="determinism 'always'"):
        warpfold.sum_within(floats, 0, 1, determinism="always")
    with pytest.raises(TypeError, match="low 0.5 for int32 elements; it must be an integer, or None"):
        warpfold.count_within(ints, 0.5)
    with pytest.raises(TypeError, match="high 'x' for float32 elements; it must be a number, or None"):
        warpfold.mean_within(floats, None, "x")
