"""Reductions of arrays in GPU memory, at the speed of the memory; on machines without a GPU in a simulator.

>>> import numpy, warpfold
>>> warpfold.sum(numpy.arange(6).reshape(2, 3), axis=1)
array([ 3, 12])

Every function takes a PyTorch or CuPy array on a GPU, which is reduced in place on its current stream without
waiting; any other array in GPU memory, by DLPack or the CUDA array interface; or a NumPy array and what NumPy makes
one of, which is copied to a device first. Results belong to the same library as what they are of.
"""

import inspect
import math

from . import _native, _reduce
from ._homes import asarray
from ._native import Array, Device, Error, devices

_PARAMETERS = """
values
    The array, of {types}, of any strides above zero, without masked elements.
axis
    `None` for all elements, an axis, or a tuple of different axes; along `()` every element is reduced by itself.
keepdims
    Whether the axes stay, with a length of 1.{more}
determinism
    `"run-to-run"`: the same call on the same device has the same bits each time. `"everywhere"`: a call has the
    same bits on every device, in any order of the elements; for sums of floats at the cost of some speed.
stream
    Of an array on a device, the stream to work on: a handle, or an object with `cuda_stream`, `ptr` or
    `__cuda_stream__`. It is the current one of the array's library otherwise, or the default stream. It must not be
    recording into a graph.
device
    Of an array on the host, the device to copy it to: `"auto"`, `"cuda"`, `"cuda:1"`, `"sim"` or a `Device`. Of one
    that has the CUDA array interface alone, the device that it is on, if that is not the first GPU."""

_SEGMENTS = """
values
    The array, of one dimension.
offsets
    One more than there are segments, of int32, int64, uint32 or uint64: segment i has the elements from `offsets[i]`
    to before `offsets[i + 1]`. The host waits until it has looked at them.
{ddof}
`determinism`, `stream` and `device` are as in `{name}`."""

_DDOF = """
ddof
    What is taken off the number of elements that the sum of the squared distances is divided by: 0, as in NumPy;
    PyTorch's default is 1."""

_INITIAL = """
initial
    A value that every result has as one of its elements, of the results' type; of no elements it is the result. Which of
    two zeros is the smaller one, if their signs differ, is decided by the library that the array is of."""

_WITHIN = """
values
    The array, of any shape; all its elements are looked at. It must be contiguous.
low, high
    The least and the greatest number of the interval, which has both; `None` leaves that end open. NaN lies in no
    interval, and an end that is NaN is an error. For floats they are rounded to the elements' type, as NumPy does.

`determinism`, `stream` and `device` are as in `sum`."""

_RESULTS = {
    "sum": "Of integers and truth values it is of int64, or uint64 where NumPy has that; of float16 and bfloat16, unlike "
    "NumPy and PyTorch, of float32, so that nothing is rounded away.",
    "same": "It has the elements' type.",
    "index": "It is of int64.",
    "bool": "It is of bool.",
    "float": "It is of float32 for float16, bfloat16 and float32, and of float64 for all others.",
}


def _of_none(function):
    if function.of_none is None:
        return "Of no elements there is none: that is a `ValueError`."
    kind = {"bool": bool, "same": int, "sum": int}.get(function.result, float)
    kind = kind if math.isfinite(function.of_none) else float
    value = "all bits" if function.of_none == -1 else kind(function.of_none)
    return f"Of no elements it is {value}."


def _parameter(name, default=inspect.Parameter.empty, kind=inspect.Parameter.POSITIONAL_OR_KEYWORD):
    return inspect.Parameter(name, kind, default=default)


def _signature(function, leading, initial=False):
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = leading + ([_parameter("ddof", 0, keyword)] if function.ddof else [])
    parameters += [_parameter("initial", None, keyword)] if initial else []
    parameters += [
        _parameter("determinism", "run-to-run", keyword),
        _parameter("stream", None, keyword),
        _parameter("device", None, keyword),
    ]
    return inspect.Signature(parameters)


def _named(made, name, signature, doc):
    made.__name__ = made.__qualname__ = name
    made.__module__ = __name__
    made.__signature__ = signature
    made.__doc__ = doc
    return made


def _function(row):
    """The function of a row."""
    if row.ddof:

        def reduction(
            values, axis=None, keepdims=False, *, ddof=0, determinism="run-to-run", stream=None, device=None
        ):
            return _reduce.reduce(row, values, axis, keepdims, determinism, stream, device, ddof)
    elif row.initial:

        def reduction(
            values, axis=None, keepdims=False, *, initial=None, determinism="run-to-run", stream=None, device=None
        ):
            return _reduce.reduce(row, values, axis, keepdims, determinism, stream, device, initial=initial)
    else:

        def reduction(values, axis=None, keepdims=False, *, determinism="run-to-run", stream=None, device=None):
            return _reduce.reduce(row, values, axis, keepdims, determinism, stream, device)

    leading = [_parameter("values"), _parameter("axis", None), _parameter("keepdims", False)]
    about = f"{row.summary} {_RESULTS[row.result]} {_of_none(row)}"
    more = (_DDOF if row.ddof else "") + (_INITIAL if row.initial else "")
    parameters = _PARAMETERS.format(types=', '.join(_native.types()), more=more)
    return _named(reduction, row.name, _signature(row, leading, row.initial), f"{about}\n{parameters}\n")


def _segments_function(row):
    """The function of a row for segments."""
    if row.ddof:

        def reduction(values, offsets, *, ddof=0, determinism="run-to-run", stream=None, device=None):
            return _reduce.reduce_segments(row, values, offsets, determinism, stream, device, ddof)
    else:

        def reduction(values, offsets, *, determinism="run-to-run", stream=None, device=None):
            return _reduce.reduce_segments(row, values, offsets, determinism, stream, device)

    none = _of_none(row)
    if row.of_none is None:
        none = "Of no elements it is the value that gives way to every other, and -1 if it is an index."
    about = f"`{row.name}` of every segment of an array. {none}"
    parameters = _SEGMENTS.format(name=row.name, ddof=_DDOF if row.ddof else "")
    leading = [_parameter("values"), _parameter("offsets")]
    return _named(reduction, f"segment_{row.name}", _signature(row, leading), f"{about}\n{parameters}\n")


def segment(op, values, offsets, **options):
    """What the function `op`, by its name, gives of every segment: `segment("sum", values, offsets)` is
    `segment_sum(values, offsets)`."""
    if op not in _ROWS:
        raise ValueError(f"op {op!r}; there are {', '.join(_ROWS)}; give one of them")
    return globals()[f"segment_{op}"](values, offsets, **options)


def device(name="auto"):
    """The device of a name: `"auto"`, the first GPU, or the simulator where there is none; `"cuda"`, `"cuda:1"`, a
    PCI address, `"sim"`. It stays open."""
    return _native.open(name)


def _bound(of_squares):
    def bound(values, *, device=None):
        return _native.error_bound(asarray(values, device), of_squares)

    return bound


def _within(kind, about):
    def within(values, low=None, high=None, *, determinism="run-to-run", stream=None, device=None):
        return _reduce.within(kind, _ROWS["sum"], values, low, high, determinism, stream, device)

    return _named(within, f"{kind}_within", None, f"{about}\n{_WITHIN}\n")


#: Every function's row, by its name.
_ROWS = {row.name: row for row in _native.functions()}

for _row in _ROWS.values():
    globals()[_row.name] = _function(_row)
    globals()[f"segment_{_row.name}"] = _segments_function(_row)
del _row

count_within = _within("count", "How many elements lie in an interval. It is of int64.")
sum_within = _within("sum", f"The sum of the elements that lie in an interval. {_RESULTS['sum']} Of none it is 0.")
mean_within = _within("mean", f"The mean of the elements that lie in an interval. {_RESULTS['float']} Of none it is NaN.")

sum_error_bound = _named(
    _bound(False),
    "sum_error_bound",
    None,
    """How far `sum` of all these elements may be from the exact sum of their values, over the sum of their
    magnitudes: 0 for integers. It follows from how many additions an element goes through.""",
)
sum_of_squares_error_bound = _named(
    _bound(True),
    "sum_of_squares_error_bound",
    None,
    "As `sum_error_bound`, for `sum_of_squares`, over the sum itself.",
)

__all__ = [
    "Array",
    "Device",
    "Error",
    "asarray",
    "count_within",
    "device",
    "devices",
    "mean_within",
    "segment",
    "sum_error_bound",
    "sum_of_squares_error_bound",
    "sum_within",
    *_ROWS,
    *(f"segment_{name}" for name in _ROWS),
]
