"""The arguments `dtype`, `where` and `out` of every function that has them, compared with NumPy."""

import inspect
import itertools

import numpy
import pytest

import warpfold
from conftest import DEVICE, FLOATS_ALONE, HARMONIC, ROWS, TYPES, is_float, levels, quiet, same, small
from oracle import ORACLES

AXES = [None, 0, -1, (0, 2), ()]
SHAPE = (3, 4, 5)


def having(parameter):
    """Returns the names of the functions that have a parameter."""
    return [name for name in ROWS if parameter in inspect.signature(getattr(warpfold, name)).parameters]


def takes(name, dtype):
    if name.startswith("bitwise"):
        return not is_float(dtype)
    return name not in FLOATS_ALONE or is_float(dtype)


def elements(name, dtype, shape=SHAPE):
    """Returns elements that a function takes, with NaN among the floats if the function skips or counts it."""
    values = small(dtype, shape)
    values = numpy.abs(values) + numpy.array(1, dtype) if name in HARMONIC and dtype != "bool" else values
    if "nan" in name and is_float(dtype):
        values.reshape(-1)[::7] = numpy.nan
    return values


def close(got, expected, what, relative=None):
    """Asserts that results have the same type and shape, and nearly the same values."""
    for one, other in zip(*(each if isinstance(each, tuple) else (each,) for each in (got, expected))):
        assert (type(one), one.dtype, one.shape) == (type(other), other.dtype, other.shape), what
        relative = relative or {"float16": 2e-3, "float32": 4e-6}.get(str(other.dtype), 1e-12)
        numpy.testing.assert_allclose(one, other, relative, relative, err_msg=what)


def cast(results, dtype):
    return tuple(one.astype(dtype) for one in results) if isinstance(results, tuple) else results.astype(dtype)


def test_functions_that_take_the_arguments():
    assert {name for name in having("dtype")} == {name for name, row in ROWS.items() if row.result in ("sum", "float")}
    assert set(having("out")) == set(ROWS)
    assert having("checked") == ["sum"]
    lacking = {"aminmax", "nanaminmax", "argmin", "argmax", "nanargmin", "nanargmax"}
    assert set(having("where")) == set(ROWS) - lacking


@pytest.mark.parametrize("name", having("dtype"))
def test_dtype_of_every_type_matches_numpy(name):
    results = [one for one in TYPES if is_float(one)] if ROWS[name].result == "float" else TYPES
    for dtype, result in itertools.product(TYPES, results):
        if not takes(name, result):
            continue
        values = elements(name, dtype)
        if "nan" in name and not is_float(result):
            values = numpy.nan_to_num(values)
        for axis in AXES:
            what = f"{name} of {dtype} in {result}, axis {axis}"
            with quiet():
                expected = cast(ORACLES[name](values.astype(result), axis=axis), result)
            close(getattr(warpfold, name)(values, axis, dtype=result), expected, what)


@pytest.mark.parametrize("name", ["sum", "nansum", "prod", "mean", "nanmean", "var", "std", "l2_norm", "nanl2_norm"])
def test_float64_results_of_shorter_floats_have_its_digits(name):
    for dtype, shape in itertools.product(("float16", "float32"), ((1000,), (40, 33), (5, 6, 7))):
        values = (numpy.random.default_rng(1).random(shape) + 0.5).astype(dtype)
        for array in (values, values.T, values[::2]):
            for axis in (None, *range(len(shape))):
                expected = ORACLES[name](array.astype("float64"), axis=axis)
                close(getattr(warpfold, name)(array, axis, dtype="float64"), expected, f"{name} {shape} {axis}")
    # In float32 the last element is lost.
    assert warpfold.sum(numpy.float32([2**24, 1.0]), dtype="float64") == 2**24 + 1
    assert warpfold.sum(numpy.float32([2**24, 1.0]), dtype="float64", determinism="everywhere") == 2**24 + 1


def test_names_of_types():
    values = small("int32", (3, 4))
    for dtype in ("float64", "f8", ">f8", float, numpy.float64, numpy.dtype("float64"), numpy.ones(1).dtype):
        same(warpfold.sum(values, 1, dtype=dtype), values.sum(1, dtype="float64"))
    same(warpfold.sum([1, 2, 3], dtype=warpfold.asarray([1.5]).dtype), numpy.float64(6))
    same(warpfold.sum(values, dtype=None), warpfold.sum(values))
    same(warpfold.sum(values, initial=0.5, dtype=float), values.sum(dtype=float) + 0.5)
    same(warpfold.logsumexp([0, 0], dtype=float), numpy.log(2.0))
    lent = warpfold.sum(warpfold.asarray(values), 0, dtype="int16", keepdims=True)
    assert isinstance(lent, warpfold.Array) and lent.device == DEVICE
    same(lent.numpy(), values.sum(0, dtype="int16", keepdims=True))


def chosen_results(name, values, mask, axis, keepdims, initial):
    """Returns the results of the elements where a mask is true, one after the other."""
    axes = tuple(range(values.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis % values.ndim,)
    others = [at for at in range(values.ndim) if at not in axes]
    shape = [1 if at in axes else n for at, n in enumerate(values.shape) if keepdims or at not in axes]
    pieces = []
    for at in numpy.ndindex(*(values.shape[one] for one in others)):
        place = [slice(None)] * values.ndim
        for one, index in zip(others, at):
            place[one] = index
        piece = values[tuple(place)][mask[tuple(place)]].reshape(-1)
        pieces.append(piece if initial is None else numpy.append(piece, values.dtype.type(initial)))
    with quiet():
        results = [ORACLES[name](piece) for piece in pieces]
    if ROWS[name].pair:
        return tuple(numpy.array(one).reshape(shape)[()] for one in zip(*results))
    return numpy.array(results).reshape(shape)[()]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", having("where"))
def test_where_of_every_type_matches_numpy(name, dtype):
    if not takes(name, dtype):
        pytest.skip(f"{name} does not take {dtype}")
    values = elements(name, dtype)
    initial = 1 if ROWS[name].initial and ROWS[name].of_none is None else None
    keywords = {} if initial is None else {"initial": initial}
    random = numpy.random.default_rng(3).random(SHAPE) < 0.6
    # No element of a row and a column, every second column, none, and all.
    random[1, 2], random[..., 3] = False, False
    for mask in (random, numpy.arange(5) % 2 == 0, False, True):
        whole = numpy.broadcast_to(mask, SHAPE)
        for axis, keepdims in itertools.product(AXES, (False, True)):
            what = f"{name} of {dtype}, axis {axis}, keepdims {keepdims}"
            expected = chosen_results(name, values, whole, axis, keepdims, initial)
            got = getattr(warpfold, name)(values, axis, keepdims, where=mask, **keywords)
            close(got, expected, what)
    for level in levels(name, dtype):
        got = getattr(warpfold, name)(warpfold.asarray(values), 1, where=random, determinism=level, **keywords)
        got = tuple(one.numpy() for one in got) if ROWS[name].pair else got.numpy()
        close(got, chosen_results(name, values, random, 1, False, initial), f"{name} of {dtype}, {level}")


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "mean", "var", "std", "any", "all"])
def test_where_matches_that_of_numpy(name):
    values, mask = small("float64", (30, 40)), numpy.random.default_rng(5).random((30, 40)) < 0.1
    values[3, 5], mask[3, 5], values[4, 6], mask[4, 6] = numpy.nan, True, numpy.nan, False
    keywords = {"initial": 2.0} if ROWS[name].initial else {"ddof": 1} if ROWS[name].ddof else {}
    for axis in (None, 0, 1):
        with quiet():
            expected = getattr(numpy, name)(values, axis, where=mask, **keywords)
            got = getattr(warpfold, name)(values, axis, where=mask, **keywords)
        numpy.testing.assert_allclose(got, expected, 1e-12)


def test_arguments_are_combined():
    values, mask = small("float32", (6, 7)), small("bool", (6, 7), 2)
    out = numpy.empty((6, 1))
    got = warpfold.sum(values, 1, keepdims=True, dtype="float64", where=mask, initial=0.5, out=out)
    assert got is out
    same(out, values.sum(1, keepdims=True, dtype="float64", where=mask, initial=0.5))
    for dtype in ("float16", "float64"):
        got = warpfold.var(values, 0, where=mask, ddof=1, dtype=dtype)
        with quiet():
            close(got, numpy.var(values.astype(float), 0, where=mask, ddof=1).astype(dtype), dtype)
    same(warpfold.sum(values[:0], 0, where=mask[:0], dtype=int), numpy.zeros(7, int))
    same(warpfold.max(values[:, :0], 1, where=False, initial=2), numpy.full(6, 2, "float32"))
    same(warpfold.sum(values.tolist(), where=warpfold.asarray(mask)), values.sum(dtype=float, where=mask))
    same(warpfold.sum(values, dim=1, where=mask[:1]), values.sum(1, where=mask[:1]))


@pytest.mark.parametrize("name", ROWS)
def test_results_are_written_to_out(name):
    values = elements(name, "int32" if name.startswith("bitwise") else "float32", (6, 10))
    for axis, keepdims in itertools.product((None, 0, 1, ()), (False, True)):
        expected = getattr(warpfold, name)(values, axis, keepdims)
        outs = []
        for one in expected if ROWS[name].pair else (expected,):
            # Every second element of an array, which is of a longer type for numbers.
            wide = {"f": "float64", "i": "int64"}.get(one.dtype.kind, one.dtype)
            outs.append(numpy.full((*one.shape, 2), 77, wide)[..., 1])
        given = tuple(outs) if ROWS[name].pair else outs[0]
        assert getattr(warpfold, name)(values, axis, keepdims, out=given) is given
        for out, one in zip(outs, expected if ROWS[name].pair else (expected,)):
            numpy.testing.assert_array_equal(out, one)
    overlapping = numpy.arange(12.0).reshape(3, 4)
    warpfold.sum(overlapping, 0, out=overlapping[1])
    same(overlapping[1], numpy.array([12.0, 15, 18, 21]))


def test_invalid_arguments_are_refused(refused):
    values, mask = small("float32", (3, 4)), numpy.ones((3, 4), bool)
    lent = warpfold.asarray(values)
    out = numpy.full(4, 77, "float32")
    read_only = numpy.zeros(4, "float32")
    read_only.flags.writeable = False
    for kind, call, *words in [
        (TypeError, lambda: warpfold.sum(values, dtype="complex64"), "dtype 'complex64' of sum", "bool, int8", "float64", "give one"),
        (TypeError, lambda: warpfold.sum(values, dtype="bfloat16"), "dtype 'bfloat16' of sum", "float16, float32"),
        (TypeError, lambda: warpfold.sum(values, dtype="number"), "dtype 'number' of sum", "bool, int8"),
        (TypeError, lambda: warpfold.sum(values, dtype=3), "dtype 3 of sum", "bool, int8"),
        (TypeError, lambda: warpfold.mean(values, dtype=int), "dtype <class 'int'> of mean", "float16, float32, float64"),
        (TypeError, lambda: warpfold.max(values, dtype="float64"), "dtype for max", "no such parameter", "leave it out"),
        (TypeError, lambda: warpfold.any(values, dtype=bool), "dtype for any", "no such parameter"),
        (TypeError, lambda: warpfold.sum(values, bogus=1), "bogus for sum", "no such parameter"),
        (TypeError, lambda: warpfold.sum(values.astype("complex64"), dtype=float), "values of dtype complex64", "`.real`"),
        (ValueError, lambda: warpfold.sum(values, 2, dtype=float), "axis 2", "-2 to 1"),
        (TypeError, lambda: warpfold.sum(["a"], dtype=float), "values of dtype <U1", "convert"),
        (TypeError, lambda: warpfold.logsumexp(values, dtype=int), "dtype <class 'int'> of logsumexp", "float16, float32"),
        (ValueError, lambda: warpfold.logsumexp(values.astype(int), where=mask), "logsumexp of int64", "only floats"),
        (ValueError, lambda: warpfold.sum(values, initial=10**400), "initial of sum for float32", "fit a float"),
        (ValueError, lambda: warpfold.sum(values, dtype="int8", initial=300), "initial 300 of sum for int8", "-128 to 127"),
        (TypeError, lambda: warpfold.sum(values, where=[1, 0, 1, 0]), "where of int64", "mask of truth values", "values > 0"),
        (ValueError, lambda: warpfold.sum(values, where=[True, False]), "(2,)", "(3, 4)", "broadcast"),
        (ValueError, lambda: warpfold.sum(values, where=numpy.ones((2, 3, 4), bool)), "(2, 3, 4)", "broadcast"),
        (TypeError, lambda: warpfold.argmax(values, where=mask), "where for argmax", "no such parameter"),
        (ValueError, lambda: warpfold.max(values, where=mask), "where of max", "no elements", "`initial`"),
        (ValueError, lambda: warpfold.mean(values, 2, where=mask), "axis 2", "-2 to 1"),
        (TypeError, lambda: warpfold.mean(values, keepdims="x", where=mask), "keepdims 'x'"),
        (TypeError, lambda: warpfold.max(values, where=mask, initial="x"), "initial 'x'"),
        (ValueError, lambda: warpfold.sum(values, where=numpy.ma.array(mask, mask=mask)), "where must not have masked"),
        (ValueError, lambda: warpfold.sum(numpy.ma.array(values, mask=mask), where=mask), "values must not have masked"),
        (TypeError, lambda: warpfold.sum(lent, stream=0, where=mask), "stream with dtype, where or out", "leave it out"),
        (TypeError, lambda: warpfold.sum(values, 0, out=[0] * 4), "out of type list", "numpy.ndarray"),
        (ValueError, lambda: warpfold.sum(values, 1, out=out), "(4,)", "(3,)", "that shape"),
        (TypeError, lambda: warpfold.sum(values, 0, out=numpy.zeros(4, int)), "out of int64", "float32", "give"),
        (TypeError, lambda: warpfold.sum(lent, 0, out=warpfold.asarray(out)), "warpfold.Array", "leave it out"),
        (TypeError, lambda: warpfold.sum(lent, 0, out=out), "warpfold.Array", "leave it out"),
        (ValueError, lambda: warpfold.sum(values, 0, out=read_only), "read-only", "can be written"),
        (ValueError, lambda: warpfold.sum(values, 0, out=numpy.ma.array(out, mask=[True, False, False, False])), "out must not"),
        (TypeError, lambda: warpfold.aminmax(values, 0, out=out), "out of type ndarray of aminmax", "tuple of two"),
        (ValueError, lambda: warpfold.aminmax(values, 0, out=(out, out[:2])), "(2,)", "(4,)"),
        (TypeError, lambda: warpfold.aminmax(values, 0, out=(out, out)), "one array twice", "tuple of two"),
        (ValueError, lambda: warpfold.sum(values, 0, determinism="always", out=out), "determinism 'always'"),
    ]:
        refused(kind, call, *words)
    assert (out == 77).all()


def test_float_dtype_of_integers_applies_before_where():
    values, mask = numpy.arange(6).reshape(2, 3), numpy.array([True, False, True])
    expected = numpy.log(numpy.exp(values[:, mask].astype(float)).sum(1))
    assert warpfold.logsumexp(values, 1, where=mask, dtype="float64") == pytest.approx(expected, rel=1e-12)


def test_default_determinism_may_be_given():
    default = "-".join(["run", "to", "run"])
    values = numpy.float32([1e8, 1, -1e8])
    assert warpfold.sum(values, dtype="float64", determinism=default) == 1
    assert warpfold.prod(values, determinism=default) == numpy.prod(values)


@pytest.mark.parametrize("device", [DEVICE, "cpu"])
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_checked_sums_raise_an_error_where_they_overflow(dtype, device):
    limits = numpy.iinfo(dtype)
    # The sums fit the type; intermediate sums along axis 1 do not.
    values = numpy.array([[limits.max, 1, limits.min, 0], [limits.min, 0, 0, 0], [limits.max, 0, 0, 0]], dtype)
    if dtype == "uint64":
        values[0, 1] = 0
    for axis, keepdims in itertools.product([1, 0, (), -1, None], [False, True]):
        rows = values[1:] if axis in (0, None) else values
        got = warpfold.sum(rows, axis, keepdims, checked=True, device=device)
        assert not isinstance(got, numpy.ndarray) or got.flags.c_contiguous
        same(got, rows.sum(axis, keepdims=keepdims), f"{axis} {keepdims}")
    same(warpfold.sum(values[::2, ::-1], 1, checked=True, device=device), values[::2].sum(1), "a view")
    where = numpy.array([[False], [True], [True]])
    same(warpfold.sum(values, 1, where=where, checked=True, device=device), values.sum(1, where=where), "where")
    over = numpy.array([[limits.max, 1], [1, 2], [limits.max, limits.max]], dtype)
    with pytest.raises(OverflowError, match=f"^sum of {dtype} overflows in 2 of 3 results; give dtype"):
        warpfold.sum(over, axis=1, checked=True, device=device)
    with pytest.raises(OverflowError, match=f"^sum of {dtype} overflows; give dtype"):
        warpfold.sum(over, checked=True, device=device)
    same(warpfold.sum(over, checked=False, device=device), over.sum(), "not checked")
    if dtype == "int64":
        under = numpy.array([limits.min, -1], dtype)
        with pytest.raises(OverflowError):
            warpfold.sum(under, checked=True, device=device)


def test_checked_sums_of_other_elements():
    for dtype in TYPES:
        values = small(dtype, (3, 40))
        if is_float(dtype):
            with pytest.raises(TypeError, match=f"^checked of {dtype} elements; floats do not wrap around"):
                warpfold.sum(values, checked=True)
        else:
            same(warpfold.sum(values, 1, checked=True), warpfold.sum(values, 1), dtype)
            same(warpfold.sum(values[:, :0], 1, checked=True), numpy.zeros(3, warpfold.sum(values).dtype), dtype)
    values = numpy.arange(3)
    for others in [{"dtype": "int32"}, {"initial": 1}, {"out": numpy.array(0)}]:
        with pytest.raises(TypeError, match="^checked cannot be combined with "):
            warpfold.sum(values, checked=True, **others)
    with pytest.raises(TypeError, match="^checked 'no'; it must be True or False"):
        warpfold.sum(values, checked="no")
    same(warpfold.sum(values, checked=False, dtype="int32"), numpy.int32(3), "not checked")
    array = warpfold.asarray(numpy.array([[1, 2], [3, 4]]))
    found = warpfold.sum(array, 1, checked=True)
    assert isinstance(found, warpfold.Array) and found.numpy().tolist() == [3, 7]
    with pytest.raises(TypeError, match="^checked for max, which has no such parameter"):
        warpfold.max(values, checked=True)
