"""The argument `initial`, compared with NumPy."""

import numpy
import pytest

import warpfold
from conftest import ROWS, TYPES, levels, quiet, same, small
from oracle import ORACLES

NAMES = [name for name, row in ROWS.items() if row.initial]


def test_functions_that_take_initial():
    assert sorted(NAMES) == ["max", "min", "nanmax", "nanmin", "nanprod", "nansum", "prod", "sum"]
    with pytest.raises(TypeError):
        warpfold.mean(numpy.arange(3), initial=1)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_initial_of_every_type_matches_numpy(name, dtype):
    function, oracle = getattr(warpfold, name), ORACLES[name]
    for n in [0, 1, 6]:
        values = small(dtype, n, seed=n)
        for initial in (0, 1) if dtype == "bool" else (0, 3, 100):
            for level in levels(name, dtype):
                what = f"{name} of {n} {dtype} from {initial}, {level}"
                same(function(values, initial=initial, determinism=level), oracle(values, initial=initial), what)
    for shape in [(3, 4, 5), (3, 0, 5)]:
        values = small(dtype, shape) // (1 if "prod" not in name or dtype == "bool" else 5)
        values = values.astype(dtype)
        for axis in (None, 0, 1, -1, (1, 2)):
            for keepdims in (False, True):
                how = {"axis": axis, "keepdims": keepdims, "initial": 1}
                same(function(values, **how), oracle(values, **how), f"{name} of {shape} {dtype}, {how}")


def test_nan_initial_or_element_gives_nan():
    values, nan = numpy.array([1.0, 2.0], "float32"), numpy.nan
    for name in ("sum", "prod", "min", "max"):
        assert numpy.isnan(getattr(warpfold, name)(values, initial=nan)), name
        assert numpy.isnan(getattr(warpfold, name)(values * nan, initial=1.0)), name
    for name in ("nansum", "nanprod", "nanmin", "nanmax"):
        for given in (values, values * nan):
            for initial in (nan, 5.0):
                with quiet():
                    expected = getattr(numpy, name)(given, initial=initial)
                same(getattr(warpfold, name)(given, initial=initial), numpy.float32(expected), name)


def test_initial_at_and_beyond_the_limits_of_the_type():
    assert warpfold.sum(numpy.array([1, 1]), initial=2**63 - 1) == -(2**63) + 1
    assert warpfold.max(numpy.array([1, 1]), initial=-(2**63)) == 1
    assert warpfold.sum(numpy.array([1], "uint64"), initial=2**64 - 1) == 0
    with pytest.raises(ValueError, match="initial 256 of min for uint8 results; it must be 0 to 255"):
        warpfold.min(numpy.array([1], "uint8"), initial=256)
    with pytest.raises(ValueError, match="it must be -128 to 127"):
        warpfold.max(numpy.array([1], "int8"), initial=-129)
    with pytest.raises(TypeError, match="initial 0.5 of sum for int64 results; it must be an integer"):
        warpfold.sum(numpy.array([1]), initial=0.5)
    with pytest.raises(TypeError, match="it must be a number"):
        warpfold.sum(numpy.array([1.0]), initial="x")


def test_initial_of_device_arrays():
    array = warpfold.asarray(small("int32", (4, 6)))
    got = warpfold.max(array, axis=1, initial=5)
    assert isinstance(got, warpfold.Array)
    same(got.numpy(), numpy.max(small("int32", (4, 6)), axis=1, initial=5))
