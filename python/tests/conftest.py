"""Test data of every type, and comparisons with expected results, for all test files."""

import contextlib
import math
import warnings

import numpy
import pytest

import warpfold
from warpfold import _native

#: Element types. NumPy has no bfloat16, which test_gpu.py tests with PyTorch's tensors.
TYPES = [name for name in _native.types() if name != "bfloat16"]
ROWS = {row.name: row for row in _native.functions()}
#: The default device: a GPU if there is one, else the simulator.
DEVICE = warpfold.device()


def is_float(dtype):
    return dtype.startswith("float")


def small(dtype, shape, seed=0):
    """Returns small random integers of a type, negative ones too if the type is signed.

    Sums of up to 1,800,000 of them, and of their squares, are exact in float32, in which float16 and float32 elements
    are added."""
    random = numpy.random.default_rng([seed, *numpy.dtype(dtype).name.encode()])
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    largest = 9 if numpy.prod(shape) <= 200_000 else 3
    lowest = 0 if dtype.startswith("u") else -largest
    return random.integers(lowest, largest + 1, shape).astype(dtype)


#: Functions that take only floats.
FLOATS_ALONE = ("logsumexp", "count_nan", "third_central_moment", "nanthird_central_moment")
#: Functions whose results are rounded, so that tests compare them with a tolerance; besides those that take `ddof`.
ROUNDED = ("l2_norm", "mean", "logsumexp", "nanmean", "nanvar", "nanstd", "nanl2_norm", "hmean", "nanhmean") + (
    "third_central_moment",
    "nanthird_central_moment",
)
#: Harmonic means, tested with positive elements. They have the level `everywhere` for floats only.
HARMONIC = ("hmean", "nanhmean")
#: Products, tested with factors whose product does not overflow.
PRODUCTS = ("prod", "nanprod")
#: Functions that have the level `everywhere` for integers only.
EVERYWHERE_FOR_INTEGERS = (*PRODUCTS, "mean", "l2_norm", "nanl2_norm")
#: Functions that have the level `everywhere` for no type.
NEVER_EVERYWHERE = ("logsumexp", "third_central_moment", "nanthird_central_moment")


def levels(name, dtype):
    """Returns the values of `determinism` that a function accepts for an element type."""
    if is_float(dtype):
        refused = name in (*EVERYWHERE_FOR_INTEGERS, *NEVER_EVERYWHERE)
    else:
        refused = name in (*HARMONIC, *NEVER_EVERYWHERE)
    return ["run-to-run"] if refused else ["run-to-run", "everywhere"]


def spread(dtype, shape, seed=0):
    """Returns floats of several magnitudes and both signs, whose sums are rounded."""
    random = numpy.random.default_rng([seed, 7])
    return (random.standard_normal(shape) * 10.0 ** random.integers(-2, 3, shape)).astype(dtype)


def near_one(dtype, shape, seed=0):
    """Returns floats close to 1, whose product is rounded but neither overflows nor underflows."""
    random = numpy.random.default_rng([seed, 9])
    return (1 + random.uniform(-1e-3, 1e-3, shape)).astype(dtype)


def exact_sum(values):
    return math.fsum(numpy.asarray(values, numpy.float64).ravel())


def roundoff(dtype):
    """Returns the unit roundoff of the type in which floats of a type are added."""
    return 2.0**-53 if dtype == "float64" else 2.0**-24


def any_order(n, dtype):
    """Returns a bound of the rounding error of a sum of n elements in any order, relative to the sum of their
    magnitudes. It also bounds the relative error of a product."""
    relative = max(n - 1, 0) * roundoff(dtype)
    return relative / (1 - relative)


def same(got, expected, what=""):
    """Asserts that results have the same type and equal elements. NaN equals NaN, and -0 equals +0."""
    assert type(got) is type(expected), what
    if isinstance(expected, tuple):
        assert len(got) == len(expected), what
        for one, other in zip(got, expected):
            same(one, other, what)
        return
    assert got.dtype == expected.dtype and got.shape == expected.shape, f"{what}: {got!r}, not {expected!r}"
    numpy.testing.assert_array_equal(got, expected, err_msg=what)


def near(got, expected, allowed, what=""):
    """Asserts that results differ from exact values by at most `allowed`."""
    off = numpy.abs(numpy.asarray(got, numpy.float64) - expected)
    assert numpy.all(off <= allowed), f"{what}: off by {off}, allowed {allowed}"


@contextlib.contextmanager
def quiet():
    """Suppresses NumPy's warnings, such as that about the mean of an empty array."""
    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@pytest.fixture
def refused():
    """Returns a function that asserts that a call raises an exception of exactly this class, whose message is one line
    with these words in this order."""

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
