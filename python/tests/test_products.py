"""Dot products and top-k, compared with NumPy."""

import numpy
import pytest

import warpfold
from conftest import TYPES, exact_sum, is_float, near, roundoff, same, small, spread
from oracle import ORACLES


@pytest.mark.parametrize("dtype", TYPES)
def test_dot_products_of_every_type_match_numpy(dtype):
    for n in [0, 1, 31, 1000, 65537]:
        a, b = small(dtype, n, seed=n), small(dtype, n, seed=n + 1)
        result = ORACLES["sum"](a).dtype
        expected = (a.astype(result) * b.astype(result)).sum(dtype=result)
        for device in [None, "cpu"]:
            same(warpfold.dot(a, b, device=device), result.type(expected), f"{n} {dtype} on {device}")


def test_dot_products_of_any_strides_and_level():
    a, b = spread("float64", (300, 40)), spread("float64", (40, 300), seed=1).T
    products = (a * b).ravel()
    for level in ["run-to-run", "everywhere"]:
        found = warpfold.vdot(a, b, determinism=level)
        near(found, exact_sum(products), 2000 * roundoff("float64") * numpy.abs(products).sum())
    order = numpy.random.default_rng(0).permutation(a.size)
    shuffled = [numpy.ascontiguousarray(one).ravel()[order] for one in (a, b)]
    assert warpfold.dot(*shuffled, determinism="everywhere") == found
    lent = warpfold.asarray(a)
    assert warpfold.vdot(lent, lent).item() == warpfold.sum_of_squares(a)
    assert warpfold.vdot([[1, 2]], [[3], [4]]) == 11


def test_dot_products_name_the_arrays_that_they_refuse():
    with pytest.raises(ValueError, match=r"^dot of arrays of the shapes \(2, 2\) and \(4,\); give .* call `vdot`$"):
        warpfold.dot(numpy.ones((2, 2)), numpy.ones(4))
    with pytest.raises(ValueError, match=r"^vdot of arrays of the shapes \(2, 2\) and \(3,\); give .*$"):
        warpfold.vdot(numpy.ones((2, 2)), numpy.ones(3))
    with pytest.raises(TypeError, match="^dot product of elements of float64 and int64; both .* convert one of them$"):
        warpfold.dot(numpy.ones(2), [1, 2])
    with pytest.raises(TypeError, match="^dot of ndarray and Array; give arrays of one library$"):
        warpfold.dot(numpy.ones(2), warpfold.asarray(numpy.ones(2)))


def order_of(values, largest):
    """Returns the indices of a stable sort along the last axis, NaN first."""
    is_number = values == values
    keys = numpy.where(is_number, values, 0).astype(numpy.float64)
    return numpy.lexsort((-keys if largest else keys, is_number), axis=-1)


@pytest.mark.parametrize("dtype", TYPES)
def test_topk_of_every_type_matches_a_stable_sort(dtype):
    values = small(dtype, (3, 50, 7), seed=3)
    if is_float(dtype):
        values[1, 5:9, 2] = numpy.nan
    for axis, k in [(-1, 1), (-1, 7), (1, 32), (0, 3), (None, 32), (1, 40), (None, 1050)]:
        moved = values.ravel() if axis is None else numpy.moveaxis(values, axis, -1)
        for largest in [True, False]:
            indices = order_of(moved, largest)[..., :k]
            expected = [numpy.take_along_axis(moved, indices, -1), indices]
            if axis is not None:
                expected = [numpy.moveaxis(one, -1, axis) for one in expected]
            for given, device in [(values, None), (values, "cpu"), (warpfold.asarray(values), None)]:
                found = warpfold.topk(given, k, axis, largest=largest, device=device)
                for one, wanted in zip(found, expected):
                    same(numpy.asarray(one), wanted, f"{k} of {dtype} along {axis}")


def test_topk_of_no_rows_has_no_results():
    for device in [None, "cpu"]:
        values, indices = warpfold.topk(numpy.ones((0, 5)), 2, device=device)
        assert values.shape == indices.shape == (0, 2)


def test_topk_names_the_arguments_that_it_refuses():
    values = numpy.ones((2, 3))
    with pytest.raises(ValueError, match="^topk of k 4 of 3 elements; k must be 1 to the number of elements$"):
        warpfold.topk(values, 4)
    for k in [0, -1, 7, 2**70]:
        with pytest.raises(ValueError, match=f"^topk of k {k} of 6 elements"):
            warpfold.topk(values, k, axis=None)
    with pytest.raises(TypeError, match="^k 1.5; it must be an integer$"):
        warpfold.topk(values, 1.5)
    with pytest.raises(ValueError, match=r"^axis \(0, 1\) of topk; give one axis, or None for all elements$"):
        warpfold.topk(values, 1, axis=(0, 1))
    with pytest.raises(TypeError, match="^largest 'no'; it must be True or False$"):
        warpfold.topk(values, 1, largest="no")
    with pytest.raises(TypeError, match="^axis 0 and dim 1; both name the axis; give one of them$"):
        warpfold.topk(values, 1, axis=0, dim=1)
