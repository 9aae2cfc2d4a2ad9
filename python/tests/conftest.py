"""What the tests share: elements of every type, and how far results may be from exact ones."""

import contextlib
import math
import warnings

import numpy
import pytest

import warpfold
from warpfold import _native

#: NumPy has no bfloat16; PyTorch's tests have.
TYPES = [name for name in _native.types() if name != "bfloat16"]
ROWS = {row.name: row for row in _native.functions()}
#: Where the tests run: the simulator, unless there is a GPU.
DEVICE = warpfold.device()


def is_float(dtype):
    return dtype.startswith("float")


def small(dtype, shape, seed=0):
    """Small integers of a type, negative ones too where it has them: their sums, and those of their squares, are
    exact in every float type's sum, up to 1 800 000 elements."""
    random = numpy.random.default_rng([seed, *numpy.dtype(dtype).name.encode()])
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    largest = 9 if numpy.prod(shape) <= 200_000 else 3
    lowest = 0 if dtype.startswith("u") else -largest
    return random.integers(lowest, largest + 1, shape).astype(dtype)


#: Functions of floats alone, and those whose results are rounded on the way, besides those that take `ddof`.
FLOATS_ALONE = ("logsumexp", "count_nan", "third_central_moment", "nanthird_central_moment")
ROUNDED = ("l2_norm", "mean", "logsumexp", "nanmean", "nanvar", "nanstd", "nanl2_norm", "hmean", "nanhmean") + (
    "third_central_moment",
    "nanthird_central_moment",
)
#: Functions that are tried with numbers of one sign, and have the same bits everywhere of floats alone.
HARMONIC = ("hmean", "nanhmean")
#: Products of many elements, which are tried with factors of their own.
PRODUCTS = ("prod", "nanprod")
#: Functions that have the same bits everywhere of integers alone.
OF_INTEGERS = (*PRODUCTS, "mean", "l2_norm", "nanl2_norm")
#: Functions that have them of no elements.
NEVER = ("logsumexp", "third_central_moment", "nanthird_central_moment")


def levels(name, dtype):
    """What `determinism` a function can be asked for, of a type."""
    refused = (name in OF_INTEGERS and is_float(dtype)) or (name in HARMONIC and not is_float(dtype)) or name in NEVER
    return ["run-to-run"] if refused else ["run-to-run", "everywhere"]


def spread(dtype, shape, seed=0):
    """Floats of many magnitudes and both signs, whose sums are rounded."""
    random = numpy.random.default_rng([seed, 7])
    return (random.standard_normal(shape) * 10.0 ** random.integers(-2, 3, shape)).astype(dtype)


def near_one(dtype, shape, seed=0):
    """Floats whose product neither overflows nor underflows, and is rounded."""
    random = numpy.random.default_rng([seed, 9])
    return (1 + random.uniform(-1e-3, 1e-3, shape)).astype(dtype)


def exact_sum(values):
    return math.fsum(numpy.asarray(values, numpy.float64).ravel())


def roundoff(dtype):
    """Half a unit in the last place of 1, of the type that sums of a type have."""
    return 2.0**-53 if dtype == "float64" else 2.0**-24


def any_order(n, dtype):
    """How far a sum or product of n may be off in any order of the operations, of the sum of the magnitudes."""
    relative = max(n - 1, 0) * roundoff(dtype)
    return relative / (1 - relative)


def same(got, expected, what=""):
    """Compares results and their types, bit for bit but for the sign of zeros and NaNs."""
    assert type(got) is type(expected), what
    if isinstance(expected, tuple):
        assert len(got) == len(expected), what
        for one, other in zip(got, expected):
            same(one, other, what)
        return
    assert got.dtype == expected.dtype and got.shape == expected.shape, f"{what}: {got!r}, not {expected!r}"
    numpy.testing.assert_array_equal(got, expected, err_msg=what)


def near(got, expected, allowed, what=""):
    """Compares with exact values: `allowed` is the largest error."""
    off = numpy.abs(numpy.asarray(got, numpy.float64) - expected)
    assert numpy.all(off <= allowed), f"{what}: off by {off}, allowed {allowed}"


@contextlib.contextmanager
def quiet():
    """NumPy without its warnings, of means of nothing, say."""
    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@pytest.fixture
def refused():
    """Checks that a call raises, by one line with these words, in this order."""

    def check(kind, call, *words):
        with pytest.raises(kind) as raised:
            call()
        assert type(raised.value) is kind, repr(raised.value)
        message = str(raised.value)
        assert "\n" not in message
        at = 0
        for word in words:
            assert word in message[at:], f"{word!r} in {message!r}"
            at = message.index(word, at) + len(word)

    return check
