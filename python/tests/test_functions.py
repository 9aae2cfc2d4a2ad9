"""Every function with every element type, compared with NumPy; float sums within the bounds that the library states."""

import itertools

import numpy
import pytest

import warpfold
from conftest import (
    DEVICE, FLOATS_ALONE, HARMONIC, PRODUCTS, ROUNDED, ROWS, TYPES, any_order, exact_sum, is_float, levels,
    near, near_one, roundoff, same, small, spread,
)
from oracle import ORACLES

SIZES = [0, 1, 31, 1000, 65537, 1_000_003]

#: Functions whose results equal NumPy's if their sums are exact.
EXACT = [name for name, row in ROWS.items() if not row.ddof and name not in (*PRODUCTS, *ROUNDED)]


def takes(name, dtype):
    if name.startswith("bitwise"):
        return not is_float(dtype)
    return name not in FLOATS_ALONE or is_float(dtype)


def factors(dtype, shape):
    """Returns floats whose product is exact and stays in range: 2 and 0.5 alternate, the others are 1 and -1."""
    at = numpy.arange(numpy.prod(shape)).reshape(shape)
    return numpy.select([at % 64 == 7, at % 64 == 40, at % 5 == 2], [2.0, 0.5, -1.0], 1.0).astype(dtype)


def test_every_function_has_an_oracle_and_a_segment_function():
    assert set(ORACLES) == set(ROWS)
    assert set(warpfold.__all__) >= {name for row in ROWS for name in (row, f"segment_{row}")}
    for name in warpfold.__all__:
        assert getattr(warpfold, name).__doc__, name


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", EXACT)
def test_exact_results_match_numpy(name, dtype):
    if not takes(name, dtype):
        pytest.skip(f"{name} does not take {dtype}")
    for n in SIZES:
        values = small(dtype, n, seed=n)
        if n == 0 and ROWS[name].of_none is None:
            continue
        expected = ORACLES[name](values)
        for level in levels(name, dtype):
            same(getattr(warpfold, name)(values, determinism=level), expected, f"{name} of {n} {dtype}, {level}")


@pytest.mark.parametrize("dtype", TYPES)
def test_means_and_variances_match_numpy(dtype):
    for n in SIZES:
        values = spread(dtype, n, n) if is_float(dtype) else small(dtype, n, n)
        wide = values.astype(numpy.float64)
        magnitudes = numpy.abs(wide).sum()
        got = warpfold.mean(values)
        kind = numpy.float32 if dtype in ("float16", "float32") else numpy.float64
        assert type(got) is kind
        if n == 0:
            results = [got, *warpfold.var_mean(values), warpfold.var(values), warpfold.std(values)]
            assert all(type(one) is kind and numpy.isnan(one) for one in results)
            continue
        exact = exact_sum(wide) / n
        final = roundoff(kind.__name__) * 1.01 * abs(exact)
        near(got, exact, warpfold.sum_error_bound(values) * magnitudes / n + final, f"mean of {n} {dtype}")
        for ddof in (0, 1):
            expected = numpy.var(wide, ddof=ddof) if n > ddof else numpy.nan
            # The library states no bound for variances: allows some digits less than the accumulators have.
            relative = 1e-5 if dtype in ("float16", "float32", "int8", "uint8", "bool") else 1e-12
            what = f"{n} {dtype}, ddof {ddof}"
            variance, mean = warpfold.var_mean(values, ddof=ddof)
            assert type(variance) is kind and type(mean) is kind
            numpy.testing.assert_allclose(variance, expected, relative, 1e-30, err_msg=what)
            numpy.testing.assert_allclose(mean, exact, relative, relative * magnitudes / n, err_msg=what)
            assert warpfold.var(values, ddof=ddof) == variance or n <= ddof
            got = warpfold.std(values, ddof=ddof)
            numpy.testing.assert_allclose(got, numpy.sqrt(expected), relative, 1e-30, err_msg=what)


@pytest.mark.parametrize("dtype", [dtype for dtype in TYPES if is_float(dtype)])
@pytest.mark.parametrize("name", [name for name in ROWS if "nan" in name])
def test_nan_functions_skip_nan(name, dtype):
    for n in SIZES[1:]:
        # Every third element, every second run of 64 elements, and all elements.
        at = numpy.arange(n)
        for holes in (at % 3 == 0, at // 64 % 2 == 0, at >= 0):
            values = factors(dtype, n) if name in PRODUCTS else small(dtype, n, seed=n)
            values = numpy.abs(values) + 1 if name in HARMONIC else values
            values[holes] = numpy.nan
            expected, what = ORACLES[name](values), f"{name} of {n} {dtype}, {holes.sum()} NaN"
            if name in ROUNDED:
                numpy.testing.assert_allclose(getattr(warpfold, name)(values), expected, 2e-6, 1e-6, err_msg=what)
                continue
            for level in levels(name, dtype):
                same(getattr(warpfold, name)(values, determinism=level), expected, what)
    values = small(dtype, (50, 31))
    values = numpy.abs(values) + 1 if name in HARMONIC else values
    values[values == 3] = numpy.nan
    if name in PRODUCTS:
        values = numpy.where(numpy.isnan(values), values, factors(dtype, values.shape))
    for axis in (0, 1):
        numpy.testing.assert_allclose(getattr(warpfold, name)(values, axis), ORACLES[name](values, axis=axis), 2e-6, 1e-6)


@pytest.mark.parametrize("dtype", [dtype for dtype in TYPES if is_float(dtype)])
def test_nan_functions_of_infinities_and_zeros_match_numpy(dtype):
    special = [numpy.nan, numpy.inf, -numpy.inf, -0.0, 2.0, -3.0]
    for n in (1, 2, 3):
        for chosen in itertools.product(special, repeat=n):
            values = numpy.array(chosen, dtype)
            for name in ("nanprod", "nanaminmax", "nansum_of_squares", "nansum_of_magnitudes", "nanmax_norm"):
                with numpy.errstate(all="ignore"):
                    same(getattr(warpfold, name)(values), ORACLES[name](values), f"{name} of {values}")
    assert numpy.signbit(warpfold.nanprod(numpy.array([numpy.nan, -0.0, 2.0], dtype)))


@pytest.mark.parametrize("dtype", [dtype for dtype in TYPES if is_float(dtype)])
def test_float_sums_and_products_are_within_their_bounds(dtype):
    for n in SIZES[1:]:
        values = spread(dtype, n, n)
        wide = values.astype(numpy.float64)
        for how in levels("sum", dtype):
            bound = warpfold.sum_error_bound(values)
            assert 0 < bound < 1e-2
            near(warpfold.sum(values, determinism=how), exact_sum(wide), bound * numpy.abs(wide).sum(), f"{n} {how}")
        squares = exact_sum(wide**2)
        bound = warpfold.sum_of_squares_error_bound(values) * squares
        near(warpfold.sum_of_squares(values), squares, bound, f"squares of {n}")
        root = numpy.sqrt(squares)
        near(warpfold.l2_norm(values), root, bound / root + roundoff(dtype) * root, f"norm of {n}")
        values = near_one(dtype, n, n)
        product = numpy.prod(values.astype(numpy.longdouble))
        near(warpfold.prod(values), numpy.float64(product), float(any_order(n, dtype) * product), f"product of {n}")


@pytest.mark.parametrize("dtype", [dtype for dtype in TYPES if is_float(dtype)])
def test_logsumexp_is_accurate_if_exponentials_overflow(dtype):
    relative = 2e-15 if dtype == "float64" else 1e-6
    for n in SIZES[1:]:
        # Around 10,000 and -10,000, the exponentials themselves overflow and underflow.
        for middle in (0, 10_000, -10_000):
            values = (small(dtype, n, n) + numpy.array(middle, dtype)).astype(dtype)
            wide = values.astype(numpy.float64)
            exact = numpy.log(exact_sum(numpy.exp(wide - wide.max()))) + wide.max()
            near(warpfold.logsumexp(values), exact, relative * max(abs(exact), 1), f"{n} around {middle}")
    none = warpfold.logsumexp(numpy.array([], dtype))
    assert none == -numpy.inf and none.dtype == (dtype if dtype == "float64" else "float32")


@pytest.mark.parametrize("dtype", [dtype for dtype in TYPES if not is_float(dtype)])
def test_products_of_integers_wrap_around(dtype):
    for n in SIZES:
        # Odd numbers, so that the product does not become 0.
        values = small(dtype, n) if dtype == "bool" else small(dtype, n) | numpy.ones(n, dtype)
        for level in levels("prod", dtype):
            same(warpfold.prod(values, determinism=level), ORACLES["prod"](values), f"{n}, {level}")
        near(warpfold.l2_norm(values), ORACLES["l2_norm"](values), 1e-9)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64", "uint32"])
def test_extreme_integers_match_numpy(dtype):
    info = numpy.iinfo(dtype)
    values = numpy.array([info.max, info.min, info.max, 5, info.min], dtype)
    for name in ("min", "max", "aminmax", "argmin", "argmax", "bitwise_and", "bitwise_or", "bitwise_xor", "sum"):
        same(getattr(warpfold, name)(values), ORACLES[name](values), name)


@pytest.mark.parametrize("dtype", [dtype for dtype in TYPES if is_float(dtype)])
def test_nan_infinities_and_zeros_match_numpy(dtype):
    values = small(dtype, 5000)
    for places, special in [([77], "nan"), ([4000, 78], "nan"), ([3], "inf"), ([9, 4999], "-inf"), ([], None)]:
        values = values.copy()
        values[places] = special
        for name in ("min", "max", "aminmax", "argmin", "argmax", "count_nonzero", "any", "all", "sum", "max_norm"):
            with numpy.errstate(all="ignore"):
                same(getattr(warpfold, name)(values), ORACLES[name](values), f"{name} with {special}")
        values = small(dtype, 5000)
    zeros = numpy.array([0.0, -0.0, 0.0], dtype)
    assert not warpfold.any(zeros) and warpfold.count_nonzero(zeros) == 0
    # NumPy may return either zero; for warpfold, -0 is below +0.
    assert numpy.signbit(warpfold.min(zeros)) and not numpy.signbit(warpfold.max(zeros))
    assert warpfold.sum(numpy.array([numpy.inf, -numpy.inf], dtype)).dtype.kind == "f"
    assert numpy.isnan(warpfold.sum(numpy.array([numpy.inf, -numpy.inf], dtype)))


def test_large_integers_match_numpy():
    values = numpy.random.default_rng(1).integers(-(2**31), 2**31, 1_000_003, dtype=numpy.int32)
    same(warpfold.argmax(values), numpy.argmax(values))
    same(warpfold.sum(values), numpy.sum(values))


def test_everywhere_gives_the_same_bits_in_any_order():
    numbers = spread("float32", 30_000)
    # Every third element is NaN.
    holed = numpy.where(numpy.arange(30_000) % 3 == 1, numpy.float32("nan"), numbers)
    sums = ("sum", "sum_of_squares", "sum_of_magnitudes", "l1_norm")
    of_numbers = ("nansum", "nansum_of_squares", "nansum_of_magnitudes", "nanl1_norm")
    moments = ("var", "var_mean")
    moments_of_numbers = ("nanvar", "nanmean")
    for name, values in [
        *((name, numbers) for name in (*sums, *moments)),
        *((name, holed) for name in (*of_numbers, *moments_of_numbers)),
    ]:
        shuffled = numpy.random.default_rng(3).permutation(values)
        function = getattr(warpfold, name)
        results = [
            function(values, determinism="everywhere"),
            function(shuffled, determinism="everywhere"),
            function(shuffled.reshape(3, 100, 100), axis=(0, 1, 2), determinism="everywhere"),
            warpfold.segment(name, values, [0, 30_000], determinism="everywhere"),
        ]
        assert len({numpy.array(result).tobytes() for result in results}) == 1, name
        assert numpy.all(numpy.isfinite(function(values))), name


def test_everywhere_variances_are_exact_near_a_large_mean():
    for dtype in ("float16", "float32", "float64"):
        near_large = numpy.array([1024, 1025, 1026, 1027], dtype)
        variance, mean = warpfold.var_mean(near_large, determinism="everywhere")
        assert (variance, mean) == (1.25, 1025.5), dtype
        assert warpfold.var(numpy.full(1001, 0.1, dtype), determinism="everywhere") == 0, dtype
    # ddof changes only the divisor.
    values = spread("float64", 1001)
    same(warpfold.var(values, ddof=1, determinism="everywhere"), warpfold.var(values, determinism="everywhere") * (1001 / 1000))


def test_objects_that_numpy_converts_are_reduced():
    same(warpfold.sum([1, 2, 3]), numpy.int64(6))
    same(warpfold.max(3.5), numpy.float64(3.5))
    same(warpfold.sum(memoryview(b"\x01\x02")), numpy.uint64(3))
    same(warpfold.sum(numpy.frombuffer(b"\0\1\0\0\0", "<i4", offset=1)), numpy.int64(1))
    read_only = small("int32", 9)
    read_only.flags.writeable = False
    same(warpfold.sum(read_only), numpy.sum(read_only, dtype="int64"))
    same(warpfold.sum(numpy.arange(6, dtype="int32").reshape(2, 3)[1:]), numpy.int64(12))


@pytest.mark.parametrize("dtype", TYPES)
def test_other_byte_order_gives_the_same_results(dtype):
    values = small(dtype, (30, 40))
    swapped = values.astype(values.dtype.newbyteorder("S"))
    for given, as_it_is in [(swapped, values), (swapped.T[::-2], values.T[::-2]), (swapped[3, 4], values[3, 4])]:
        for name in ("sum", "max", "argmin", "std", "aminmax"):
            same(getattr(warpfold, name)(given), getattr(warpfold, name)(as_it_is), f"{name} of {given.dtype}")
    same(warpfold.asarray(swapped).numpy(), values)
    offsets = numpy.array([0, 3, 3, 1200])
    same(
        warpfold.segment_sum(swapped.ravel(), offsets.astype(">i4")),
        warpfold.segment_sum(values.ravel(), offsets.astype("int32")),
    )


def test_device_properties():
    assert str(DEVICE) in warpfold.devices() and "sim" in warpfold.devices()[-1]
    assert warpfold.device() == DEVICE and hash(warpfold.device(str(DEVICE))) == hash(DEVICE)
    assert DEVICE.simulated == (DEVICE.name == "PTX simulator") and DEVICE.memory > 0 and DEVICE.capability >= (8, 0)
    same(warpfold.sum([1.0, 2.0], device="sim"), numpy.float64(3))
    same(warpfold.sum([1.0, 2.0], device=DEVICE), numpy.float64(3))


def test_everywhere_std_of_rows_equals_that_of_each_row():
    rows = spread("float64", (400, 5))
    along = warpfold.std(rows, axis=1, ddof=1, determinism="everywhere")
    alone = [warpfold.std(row, ddof=1, determinism="everywhere") for row in rows]
    same(numpy.array(alone), along)


def test_unsupported_options_are_refused_for_empty_input_too():
    nothing = numpy.empty(0)
    for name in ("logsumexp", "prod", "mean"):
        with pytest.raises(ValueError, match="run to run only"):
            getattr(warpfold, name)(nothing, determinism="everywhere")
    with pytest.raises(ValueError, match="only integers"):
        warpfold.bitwise_or(nothing)


@pytest.mark.parametrize("ddof", [0, 1, 0.5, 2.5])
def test_variances_without_nan_take_ddof(ddof):
    values = spread("float64", (40, 30))
    values[values > 3] = numpy.nan
    for name in ("nanvar", "nanstd"):
        expected = getattr(numpy, name)(values, axis=1, ddof=ddof)
        numpy.testing.assert_allclose(getattr(warpfold, name)(values, 1, ddof=ddof), expected, 1e-12)
    offsets = numpy.arange(0, values.size + 1, 30)
    segments = warpfold.segment_nanvar(values.reshape(-1), offsets, ddof=ddof)
    numpy.testing.assert_allclose(segments, numpy.nanvar(values, axis=1, ddof=ddof), 1e-12)
    # The other name of the parameter.
    same(warpfold.nanvar(values, 1, correction=ddof), warpfold.nanvar(values, 1, ddof=ddof))
    same(warpfold.segment_nanvar(values.reshape(-1), offsets, correction=ddof), segments)
