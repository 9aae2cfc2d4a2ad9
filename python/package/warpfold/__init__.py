"""Reductions of arrays in GPU memory, at memory bandwidth; on machines without a GPU in a simulator.

>>> import numpy, warpfold
>>> warpfold.sum(numpy.arange(6).reshape(2, 3), axis=1)
array([ 3, 12])

Every function takes a PyTorch or CuPy array on a GPU, which is reduced in place on its current stream without
waiting; any other array in GPU memory, by DLPack or the CUDA array interface; or a NumPy array, and anything that
`numpy.asanyarray` accepts, which is copied to a device first. Results are arrays of the same library as the input.
"""

import collections
import inspect
import math
import sys

from . import _homes, _native, _options, _reduce
from ._expression import Expression, expr
from ._homes import asarray
from ._native import Array, Device, Error, __version__, devices

_PARAMETERS = """
values
    The array, of {types}. No element may be masked. An expanded array of PyTorch or CuPy is copied first; the strides of
    other arrays in device memory must be above zero. A list or tuple of PyTorch's tensors or CuPy's arrays, of one type
    on one device, is reduced to one result of all their elements; an index counts from the first element of the first
    one. Contiguous tensors on a GPU are read in place, others are joined in a copy first.
axis
    `None` for all elements, an axis, or a tuple of different axes. With `()`, every element is reduced by itself.
keepdims
    If true, the reduced axes remain in the result, with length 1.{more}
determinism
    `"run-to-run"`: repeating a call on the same device gives the same bits. `"everywhere"`: a call gives the same
    bits on every device and for any order of the elements; sums of floats are slower then.
stream
    For an array on a device, the stream to work on: a handle, or an object with `cuda_stream`, `ptr` or
    `__cuda_stream__`. By default it is the current stream of the array's library, or the default stream. Only PyTorch's
    tensors can be reduced on a stream that is being captured into a graph.
device
    For an array on the host, the device to copy it to: `"auto"`, `"cuda"`, `"cuda:1"`, `"sim"` or a `Device`; or
    `"cpu"`, which reduces it where it is. For an array that has only the CUDA array interface, the device that it is
    on, if that is not the first GPU.
dim, keepdim
    PyTorch's names of `axis` and `keepdims`."""

_SEGMENTS = """
values
    The array, of one dimension.
offsets
    One more integer than segments, of int32, int64, uint32 or uint64: segment i has the elements from `offsets[i]` to
    before `offsets[i + 1]`. The call waits until the offsets have been checked.
{ddof}
`determinism`, `stream` and `device` are as in `{name}`."""

#: The documentation of parameters that only some functions have.
_OPTIONS = {
    "ddof": """
ddof
    Delta degrees of freedom: the sum of the squared distances is divided by n - ddof, where n is the number of
    elements that are not skipped. The default is 0, as in NumPy; PyTorch's is 1.
correction
    The name of `ddof` in PyTorch and in the array API standard.""",
    "dtype": """
dtype
    The type in which the elements are reduced, and of the results, as a name or as a type of NumPy or PyTorch: {kind}.
    Only PyTorch's tensors take bfloat16. Elements of another type are converted first, in a copy.""",
    "initial": """
initial
    A value that is combined with each result, of the results' type; the result of no elements. If it and a result are
    zeros of different signs, the array's library determines which of them `min` and `max` return.""",
    "checked": """
checked
    If true, a sum of integers that overflows raises an `OverflowError` instead of wrapping around. The call waits for the
    results, and cannot be captured. Floats are refused, and so are `dtype`, `initial` and `out` beside it, and tensors
    that PyTorch compiles or transforms.""",
    "where": """
where
    A mask of booleans that broadcasts to the array's shape: only elements where it is true are reduced.{need}""",
    "out": """
out
    {room} of the results' library and shape, into which they are written, and which is returned. The results are computed
    in their own type. A tensor must have that type; for NumPy's and CuPy's arrays they are converted, as by
    `casting="same_kind"`.""",
}

_WITHIN = """
values
    The array, of any shape. It must be contiguous.
low, high
    The smallest and the largest number of the interval; `None` leaves that end open. NaN is in no interval, and an end
    that is NaN is an error. For floats both are rounded to the elements' type, as NumPy does.

`determinism`, `stream` and `device` are as in `sum`."""

_PRODUCT = """
a, b
    Arrays of one type, of one library. One that is not contiguous is copied first.

The result has the type of `sum`. `determinism`, `stream` and `device` are as in `sum`. PyTorch multiplies tensors that it
differentiates, transforms or compiles, and `sum` adds the products. Other tensors cannot be captured."""

_RESULTS = {
    "sum": "For integers and booleans it has the type int64, or uint64 where NumPy's has; for float16 and bfloat16, unlike "
    "in NumPy and PyTorch, float32, so that no digits are lost.",
    "same": "It has the elements' type.",
    "index": "It has the type int64.",
    "bool": "It has the type bool.",
    "float": "It has the type float32 for float16, bfloat16 and float32, and float64 for all others.",
}


def _of_none(function):
    if function.of_none is None:
        return "For no elements, it raises a `ValueError`."
    kind = {"bool": bool, "same": int, "sum": int, "index": int}.get(function.result, float)
    kind = kind if math.isfinite(function.of_none) else float
    value = "all bits" if function.of_none == -1 else kind(function.of_none)
    return f"For no elements it is {value}."


def _parameter(name, default=inspect.Parameter.empty, kind=inspect.Parameter.POSITIONAL_OR_KEYWORD):
    return inspect.Parameter(name, kind, default=default)


def _signature(leading, defaults):
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature(leading + [_parameter(name, default, keyword) for name, default in defaults.items()])


def _named(made, name, signature, doc):
    made.__name__ = made.__qualname__ = name
    made.__module__ = __name__
    made.__signature__ = signature
    made.__doc__ = doc
    return made


#: The default of a parameter that only some functions have. Dynamo cannot trace an object of another class.
_ABSENT = ...


def _operator_of(torch):
    """Returns the module with PyTorch's operator of the reductions; `None` for versions before 2.5."""
    if not hasattr(torch.library, "custom_op"):
        return None
    from . import _torch

    return _torch


def _require(function, name, has):
    if not has:
        raise TypeError(f"{name} for {function}, which has no such parameter; leave it out")


#: The attributes of a row. Dynamo traces the functions, and cannot read attributes of a row itself.
_Attributes = collections.namedtuple("_Attributes", ["name", "result", "of_none", "ddof", "pair", "initial"])


def _defaults(row):
    """Returns the default of each parameter that the function of a row takes by keyword."""
    defaults = {"ddof": 0, "correction": None} if row.ddof else {}
    defaults |= {"dtype": None} if row.result in ("sum", "float") else {}
    defaults |= {"initial": None} if row.initial else {}
    defaults |= {"checked": False} if row.name == "sum" else {}
    defaults |= {"where": True} if row.initial or row.of_none is not None else {}
    return defaults | {"out": None, "determinism": "run-to-run", "stream": None, "device": None, "dim": None, "keepdim": None}


def _given(name, options, defaults):
    """Returns the parameters whose values are not the defaults; raises an error for those that a function lacks."""
    for option in options:
        _require(name, option, option in defaults)
    given = {option: value for option, value in options.items() if value is not defaults[option]}
    if given.get("determinism") == defaults["determinism"]:
        del given["determinism"]
    return given


def _ddof_of(function, ddof, correction):
    """Returns `ddof`, which may be given by the name `correction`."""
    if correction is not None:
        _require(function.name, "correction", function.ddof)
        if ddof is not _ABSENT:
            raise TypeError(f"ddof {ddof!r} and correction {correction!r}; both mean the same; give one of them")
        return correction
    if ddof is _ABSENT:
        return 0
    _require(function.name, "ddof", function.ddof)
    return ddof


def _reduction(row, defaults):
    """Returns the function of a row, without a name."""
    function = _Attributes(*(getattr(row, name) for name in _Attributes._fields))
    wide = None if row.wide is None else _reduction(row.wide, defaults)

    def reduction(
        values, axis=None, keepdims=False, *, ddof=_ABSENT, correction=None, dim=None, keepdim=None, **options
    ):
        if dim is not None or keepdim is not None:
            axis, keepdims = _reduce.from_torch(axis, keepdims, dim, keepdim)
        # Without a call of a function: this is on the way of every reduction.
        ddof = 0 if ddof is _ABSENT and correction is None else _ddof_of(function, ddof, correction)
        if options:
            options = _given(function.name, options, defaults)
        torch = sys.modules.get("torch")
        is_compiled = torch is not None and torch.compiler.is_dynamo_compiling()
        if not is_compiled and not options:
            result = _native.reduce_tensor(row, values, axis, keepdims, ddof)
            if result is not None:
                return result
        if _homes.are_several(values):
            if axis is not None or keepdims is not False:
                name, value = ("axis", axis) if axis is not None else ("keepdims", keepdims)
                raise TypeError(
                    f"{name} {value!r} of {function.name} for a list of arrays; their elements are reduced to one result; "
                    f"leave {name} out, or reduce each array alone"
                )
            result = None if is_compiled or options else _native.reduce_tensors(row, values, ddof)
            if result is not None:
                return result
            if function.ddof:
                options["ddof"] = ddof
            return reduction(_homes.joined(values), **options)
        is_tensor = torch is not None and isinstance(values, torch.Tensor)
        operator = _operator_of(torch) if is_tensor else None
        is_observed = operator is not None and (is_compiled or operator.is_observed(values))
        if "checked" in options:
            _options.take_checked(options, is_observed)
        if options and not _options.NAMES.isdisjoint(options):
            if function.ddof:
                options["ddof"] = ddof
            return _options.reduce(function, row, reduction, wide, is_observed, values, axis, keepdims, **options)
        if is_observed:
            return operator.reduce(function.name, function.pair, values, axis, keepdims, ddof, **options)
        return _reduce.reduce(row, values, axis, keepdims, ddof=ddof, **options)

    return reduction


def _function(row):
    """Returns the function of a row."""
    defaults = _defaults(row)
    leading = [_parameter("values"), _parameter("axis", None), _parameter("keepdims", False)]
    # The logarithm of a sum is of floats alone.
    result = "float" if row.of_none == -math.inf else row.result
    about = f"{row.summary} {_RESULTS[result]} {_of_none(row)}"
    more = "".join(text for name, text in _OPTIONS.items() if name in defaults)
    more = more.format(
        kind="a float" if row.result == "float" else "one of those above",
        need="" if row.of_none is not None else " Needs `initial`.",
        room="A tuple of two arrays" if row.pair else "An array",
    )
    parameters = _PARAMETERS.format(types=", ".join(_native.types()), more=more)
    return _named(_reduction(row, defaults), row.name, _signature(leading, defaults), f"{about}\n{parameters}\n")


def _segments_function(row):
    """Returns the function of a row for segments."""

    def reduction(
        values, offsets, *, ddof=_ABSENT, correction=None, determinism="run-to-run", stream=None, device=None
    ):
        ddof = _ddof_of(row, ddof, correction)
        return _reduce.reduce_segments(row, values, offsets, determinism, stream, device, ddof)

    none = _of_none(row)
    if row.of_none is None:
        none = "For no elements it is the identity of the operation, and -1 if it is an index."
    about = f"`{row.name}` of every segment of an array. {none}"
    parameters = _SEGMENTS.format(name=row.name, ddof=_OPTIONS["ddof"] if row.ddof else "")
    defaults = {"ddof": 0, "correction": None} if row.ddof else {}
    defaults |= {"determinism": "run-to-run", "stream": None, "device": None}
    signature = _signature([_parameter("values"), _parameter("offsets")], defaults)
    return _named(reduction, f"segment_{row.name}", signature, f"{about}\n{parameters}\n")


def segment(op, values, offsets, **options):
    """Reduces every segment by the function with the name `op`: `segment("sum", values, offsets)` is
    `segment_sum(values, offsets)`."""
    if op not in _ROWS:
        raise ValueError(f"op {op!r}; there are {', '.join(_ROWS)}; give one of them")
    return globals()[f"segment_{op}"](values, offsets, **options)


def device(name="auto"):
    """Opens a device by its name: `"auto"` (the first GPU, or the simulator if there is none), `"cuda"`, `"cuda:1"`, a
    PCI address, or `"sim"`. It stays open until the process ends."""
    return _native.open(name)


def _bound(of_squares):
    def bound(values, *, device=None):
        return _native.error_bound(asarray(values, device), of_squares)

    return bound


def _within(kind, about):
    def within(values, low=None, high=None, *, determinism="run-to-run", stream=None, device=None):
        row = _ROWS["mean" if kind == "mean" else "sum"]
        return _reduce.within(kind, row, values, low, high, determinism, stream, device)

    return _named(within, f"{kind}_within", None, f"{about}\n{_WITHIN}\n")


#: The row of each function, by name.
_ROWS = {row.name: row for row in _native.functions()}

for _row in _ROWS.values():
    globals()[_row.name] = _function(_row)
    globals()[f"segment_{_row.name}"] = _segments_function(_row)
del _row

count_within = _within("count", "The number of elements in an interval. It has the type int64.")
sum_within = _within("sum", f"The sum of the elements in an interval. {_RESULTS['sum']} For no elements it is 0.")
mean_within = _within("mean", f"The mean of the elements in an interval. {_RESULTS['float']} For no elements it is NaN.")



def _product(name, about):
    def product(a, b, *, determinism="run-to-run", stream=None, device=None):
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            operator = _operator_of(torch)
            if operator is not None and (
                torch.compiler.is_dynamo_compiling() or operator.is_observed(a) or operator.is_observed(b)
            ):
                return operator.dot(name, a, b, determinism, stream, device)
        return _reduce.dot(name, _ROWS["sum"], a, b, determinism, stream, device)

    return _named(product, name, None, f"{about}\n{_PRODUCT}\n")


dot = _product("dot", "The dot product of two arrays of one dimension: the sum of the products of their elements.")
vdot = _product("vdot", "The dot product of two arrays of as many elements, each in C order.")

#: The elements that `topk` has found, and their indices.
TopK = collections.namedtuple("TopK", ["values", "indices"])


def topk(values, k, axis=-1, *, largest=True, stream=None, device=None, dim=None):
    """The k largest elements along an axis in descending order, or the smallest in ascending order, and their indices, of
    the type int64: a tuple. NaN precedes all numbers, and the first of equal elements the others.

    values
        The array. A copy is reduced if it is not contiguous, or the axis is not the last one.
    k
        The number of elements, 1 to the length of the axis.
    axis
        The axis, whose length in the results is k; `None` for all elements in C order.
    largest
        If false, the smallest elements are found.
    dim
        PyTorch's name of `axis`.

    `stream` and `device` are as in `sum`. The two results are views of one array, and not contiguous. PyTorch
    differentiates the values. Calls break a compiled graph, and cannot be captured or transformed."""
    if dim is not None:
        if axis != -1:
            raise TypeError(f"axis {axis!r} and dim {dim!r}; both name the axis; give one of them")
        axis = dim
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor) and values.requires_grad and torch.is_grad_enabled():
        _, indices = _reduce.topk(values.detach(), k, axis, largest, stream, device)
        if axis is None:
            return TopK(values.flatten()[indices], indices)
        return TopK(values.gather(axis, indices), indices)
    return TopK(*_reduce.topk(values, k, axis, largest, stream, device))


#: The result of `describe`.
Description = collections.namedtuple("Description", ["count", "nan_count", "mean", "variance", "min", "max"])


def describe(values, axis=None, keepdims=False, *, stream=None, device=None, dim=None, keepdim=None):
    """The number of elements without NaN, the number of NaN, and the mean, variance (with `ddof=0`), minimum and maximum of
    the elements that are not NaN, from one pass over the elements: a tuple of Python numbers, or, along axes, of NumPy's
    arrays. If all elements are NaN, or there are none, the mean and the variance are NaN, and the extremes are `None`. With
    `axis` or `keepdims`, such extremes are NaN, and a result of no elements is an error.

    values
        The array. A copy is reduced if it is not contiguous, or the axes are not the last ones.
    axis
        The axis or axes; `None` for all elements.
    keepdims
        If true, the results keep the axes, with the length 1.
    dim, keepdim
        PyTorch's names of `axis` and `keepdims`.

    `stream` and `device` are as in `sum`. The call waits for the result: it breaks a compiled graph, and cannot be
    captured or transformed. Extremes of bfloat16 along axes are of the type float32."""
    axis, keepdims = _reduce.from_torch(axis, keepdims, dim, keepdim)
    return Description(*_reduce.describe(values, axis, keepdims, stream, device))


sum_error_bound = _named(
    _bound(False),
    "sum_error_bound",
    None,
    """A bound on the error of `sum` of all these elements, divided by the sum of their magnitudes; 0 for integers. It
    follows from the number of additions that an element goes through.""",
)
sum_of_squares_error_bound = _named(
    _bound(True),
    "sum_of_squares_error_bound",
    None,
    "A bound on the error of `sum_of_squares` of all these elements, divided by the sum itself; see `sum_error_bound`.",
)

if "torch" in sys.modules:
    # Programs that `torch.export` has saved find the operator.
    _operator_of(sys.modules["torch"])

__all__ = [
    "Array",
    "Description",
    "Device",
    "Error",
    "Expression",
    "TopK",
    "__version__",
    "asarray",
    "count_within",
    "describe",
    "device",
    "devices",
    "dot",
    "expr",
    "mean_within",
    "segment",
    "sum_error_bound",
    "sum_of_squares_error_bound",
    "sum_within",
    "topk",
    "vdot",
    *_ROWS,
    *(f"segment_{name}" for name in _ROWS),
]
