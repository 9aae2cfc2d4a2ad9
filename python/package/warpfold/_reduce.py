"""The reductions: checks the arguments, borrows or uploads the array, and starts the kernel."""

import functools
import math
import numbers
import operator

import numpy

from . import _homes, _native


def _everywhere(determinism):
    if determinism == "run-to-run":
        return False
    if determinism != "everywhere":
        raise ValueError(f"determinism {determinism!r}; there are 'run-to-run' and 'everywhere'; give one of them")
    return True


def from_torch(axis, keepdims, dim, keepdim):
    """Returns `axis` and `keepdims` that were given by PyTorch's names."""
    if dim is not None:
        if axis is not None:
            raise TypeError(f"axis {axis!r} and dim {dim!r}; both name the axes; give one of them")
        axis = tuple(dim) if isinstance(dim, list) else dim
    if keepdim is not None:
        if keepdims is not False:
            raise TypeError(f"keepdims {keepdims!r} and keepdim {keepdim!r}; both mean the same; give one of them")
        keepdims = keepdim
    return axis, keepdims


def axes_of(axis, shape):
    """Returns the axes as ascending numbers from 0."""
    dimensions = len(shape)
    if axis is None:
        return list(range(dimensions))
    given = axis if isinstance(axis, tuple) else (axis,)
    try:
        # A boolean was meant for another parameter, but `operator.index` accepts it.
        axes = [operator.index(None if isinstance(one, bool) else one) for one in given]
    except TypeError:
        raise TypeError(f"axis {axis!r}; it must be None, an integer or a tuple of integers") from None
    if axes and dimensions == 0:
        raise ValueError(f"axis {axis!r} of an array of no dimensions, which has no axes; give None or ()")
    if any(not -dimensions <= one < dimensions for one in axes):
        raise ValueError(f"axis {axis!r} of an array of {dimensions} dimensions; give {-dimensions} to {dimensions - 1}")
    axes = sorted({one % dimensions for one in axes})
    if len(axes) != len(given):
        raise ValueError(f"axis {axis!r}; several axes must be different ones; name each of them once")
    return axes


def kept(shape, axes, keepdims):
    """Returns the shape of the results."""
    return tuple(1 if at in axes else one for at, one in enumerate(shape) if keepdims or at not in axes)


#: Returns the type of the values that a kernel writes and that of the results; raises an error if the elements have no
#: such operation.
_types = functools.lru_cache(maxsize=None)(_native.outcome)


def _types_of(function, home, everywhere):
    return _types(function, home.array.dtype, home.unsigned_sums, everywhere)


def result_type(function, values, dtype, everywhere):
    """Returns the type of the results of an array; `None` if there are none for its elements."""
    try:
        return _types(function, dtype, _homes.of(values).unsigned_sums, everywhere)[1]
    except ValueError:
        return None


def initial_of(function, initial, dtype):
    """Returns the initial value as a number that results of a type can hold."""
    kind = "a number" if "float" in dtype else "an integer"
    _homes.refuse_masked(initial, "initial")
    try:
        number = float(initial) if "float" in dtype else operator.index(initial)
    except OverflowError:
        raise ValueError(f"initial of {function.name} for {dtype} results; it must fit a float") from None
    except (TypeError, ValueError):
        raise TypeError(f"initial {initial!r} of {function.name} for {dtype} results; it must be {kind}") from None
    if isinstance(number, int):
        # Booleans are 0 and 1; unsigned types begin with "u".
        bits = 1 if dtype == "bool" else int(dtype.lstrip("uint"))
        unsigned = dtype[0] in "bu"
        least, most = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if not least <= number <= most:
            raise ValueError(
                f"initial {initial} of {function.name} for {dtype} results; it must be {least} to {most}"
            )
    return number


def ddof_of(ddof):
    if not isinstance(ddof, numbers.Real):
        raise TypeError(f"ddof (or correction) {ddof!r}; it must be a number, such as 0 or 1")
    try:
        return float(ddof)
    except OverflowError:
        raise ValueError(f"ddof (or correction) of {len(str(ddof))} digits; it must fit a float; give 0 or 1") from None


def require_keepdims(keepdims):
    if not isinstance(keepdims, (bool, numpy.bool_, int)):
        raise TypeError(f"keepdims {keepdims!r}; it must be True or False")


#: The result of a value and an initial value, by the function's name.
_WITH_INITIAL = {
    "sum": lambda home, value, initial: value + initial,
    "prod": lambda home, value, initial: value * initial,
    "min": lambda home, value, initial: home.minimum(value, initial),
    "max": lambda home, value, initial: home.maximum(value, initial),
    "nansum": lambda home, value, initial: value + initial,
    "nanprod": lambda home, value, initial: value * initial,
    "nanmin": lambda home, value, initial: home.fmin(value, initial),
    "nanmax": lambda home, value, initial: home.fmax(value, initial),
}


def _results(function, home, raw, room, written, result, shape, initial=None):
    computes = result != written or initial is not None
    starts = [0, math.prod(shape)] if function.pair else [0]
    values = home.views(raw, room, written, shape, _homes.compact(shape), starts, computes)
    if computes:
        values = [home.cast(value, result) for value in values]
    if initial is not None:
        values = [_WITH_INITIAL[function.name](home, values[0], home.full((), initial, result))]
    values = [home.done(value, result) for value in values]
    return tuple(values) if function.pair else values[0]


def _may_overflow(dtype, result, length):
    """Returns whether the sum of `length` integers of a type may exceed the type of the result."""
    if dtype == "bool":
        return False
    elements, room = numpy.iinfo(dtype), numpy.iinfo(result)
    return int(elements.max) * length > room.max or int(elements.min) * length < room.min


def _checked(home, raw, room, result, shape):
    """Returns sums, which the kernel has written in 128 bits; raises an error if one of them exceeds 64 bits."""
    strides = [2 * stride for stride in _homes.compact(shape)]
    low, high = home.views(raw, room, "int64", shape, strides, [0, 1], True)
    overflows = high != (0 if result == "uint64" else low >> 63)
    if bool(overflows.any()):
        total = math.prod(shape)
        where = "" if total == 1 else f" in {int(overflows.sum())} of {total} results"
        raise OverflowError(
            f'sum of {home.array.dtype} overflows{where}; give dtype="float64", which rounds, instead of checked'
        )
    # The addition copies the results to contiguous memory.
    return home.done(home.cast(low + 0, result), result)


def reduce(
    function,
    values,
    axis,
    keepdims,
    determinism="run-to-run",
    stream=None,
    device=None,
    ddof=0,
    initial=None,
    checked=False,
):
    everywhere = _everywhere(determinism)
    ddof = ddof_of(ddof)
    require_keepdims(keepdims)
    home = _homes.of(values)(values, device, stream)
    array = home.array
    shape = array.shape
    axes = axes_of(axis, shape)
    length = math.prod(shape[one] for one in axes)
    count = math.prod(one for at, one in enumerate(shape) if at not in axes)
    outer = kept(shape, axes, keepdims)
    written, result = _types_of(function, home, everywhere)
    if initial is not None:
        initial = initial_of(function, initial, result)
    if length == 0 and count > 0 and function.of_none is None and initial is None:
        raise ValueError(
            f"{function.name} of no elements, of an array of the shape {shape}; every result must be of at least one; "
            f"give a longer array{', or `initial`' if function.initial else ''}"
        )
    if checked and "float" in array.dtype:
        raise TypeError(f"checked of {array.dtype} elements; floats do not wrap around; leave it out")
    is_wide = checked and _may_overflow(array.dtype, result, length)
    if is_wide:
        if "64" not in array.dtype:
            raise ValueError(
                f"checked of {length} {array.dtype} elements, whose sum may overflow {result}; convert them to {result} first"
            )
        function = function.words
    with home.work():
        if length == 0 or count == 0:
            value = initial if initial is not None else function.of_none or 0
            # The integer -1 has all bits set in every type.
            value = value if result.startswith("float") else int(value)
            values = [home.done(home.full(outer, value, result), result) for _ in range(2 if function.pair else 1)]
            return tuple(values) if function.pair else values[0]
        room, place = home.room(written, count * (2 if function.pair or is_wide else 1))
        # Without it, a call on a stream that is being captured is refused: checks wait for results.
        allocate = None if is_wide else home.allocate
        try:
            raw = home.kernels.reduce((function, ddof), array, axes, everywhere, home.stream, place, allocate)
        except _native.ViewError:
            # No kernel takes these strides. In a copy, the reduced axes are the last ones.
            others = [at for at in range(len(shape)) if at not in axes]
            array, axes = home.transposed(others + axes), list(range(len(others), len(shape)))
            raw = home.kernels.reduce((function, ddof), array, axes, everywhere, home.stream, place, allocate)
        if is_wide:
            return _checked(home, raw, room, result, outer)
        return _results(function, home, raw, room, written, result, outer, initial)


def reduce_segments(
    function, values, offsets, determinism="run-to-run", stream=None, device=None, ddof=0, shape=None
):
    """Reduces segments. The results have the given shape, or one dimension."""
    everywhere = _everywhere(determinism)
    ddof = ddof_of(ddof)
    home = _homes.of(values)(values, device, stream)
    _homes.refuse_masked(offsets, "offsets")
    with home.work():
        offsets = home.offsets(offsets)
        count = max(math.prod(offsets.shape) - 1, 0)
        written, result = _types_of(function, home, everywhere)
        # Memory of no elements has no address.
        room, place = home.room(written, max(count, 1) * (2 if function.pair else 1))
        raw = home.kernels.reduce_segments((function, ddof), home.array, offsets, everywhere, home.stream, place)
        return _results(function, home, raw, room, written, result, (count,) if shape is None else shape)


def within(kind, function, values, low, high, determinism, stream, device):
    """Returns the `"count"`, `"sum"` or `"mean"` of the elements in an interval. `function` is the row of the sum or the
    mean."""
    everywhere = _everywhere(determinism)
    home = _homes.of(values)(values, device, stream)
    # The types do not depend on `everywhere`, and a mean of all elements does not support it.
    written, result = _types_of(function, home, False)
    with home.work():
        # The kernel writes 4 words of 8 bytes: the count, the sum in two words, and the mean.
        room, place = home.room("int64", 4)
        raw = home.kernels.reduce_within(home.array, low, high, everywhere, home.stream, place)

        def view(dtype, step, start, computes):
            whole = raw._view(dtype, (step,), None, 0)
            return home.views(whole, room, dtype, (), (), [start], computes)[0]

        if kind == "count":
            return home.done(view("int64", 4, 0, False), "int64")
        if kind == "sum":
            words = 2 if written == "float32" else 1
            return home.done(view(written, 4 * words, words, False), written)
        # If no kernel has been launched, all words are 0.
        count, mean = view("int64", 4, 0, True), view("float64", 4, 3, True)
        return home.done(home.cast(home.where(count == 0, float("nan"), mean), result), result)


def _contiguous(home, order):
    """Returns the array with its axes in an order, in contiguous memory: a copy, if the array's is not."""
    array = home.array
    return array if order == sorted(order) and array._is_contiguous else home.transposed(order)


def require_pairs(name, a, b):
    """Raises an error for arrays whose elements are not paired by a function."""
    if a.dtype != b.dtype:
        raise TypeError(
            f"dot product of elements of {a.dtype} and {b.dtype}; both arrays must have one type; convert one of them"
        )
    shapes = tuple(a.shape), tuple(b.shape)
    if name == "dot" and not len(a.shape) == len(b.shape) == 1:
        raise ValueError(
            f"dot of arrays of the shapes {shapes[0]} and {shapes[1]}; give arrays of one dimension, or call `vdot`"
        )
    if math.prod(a.shape) != math.prod(b.shape):
        raise ValueError(f"{name} of arrays of the shapes {shapes[0]} and {shapes[1]}; give arrays of as many elements")


def dot(name, row, a, b, determinism, stream, device):
    """Returns the sum of the products of the elements of two arrays. `row` is the row of the sum."""
    everywhere = _everywhere(determinism)
    home, other = _homes.of(a), _homes.of(b)
    if home is not other:
        raise TypeError(f"{name} of {type(a).__name__} and {type(b).__name__}; give arrays of one library")
    home = home(a, device, stream)
    other = other(b, home.array.device, stream)
    require_pairs(name, home.array, other.array)
    written, _ = _types_of(row, home, everywhere)
    with home.work():
        first, second = (_contiguous(one, list(range(len(one.array.shape)))) for one in (home, other))
        # The kernel writes 16 bytes.
        room, place = home.room("int64", 2)
        raw = home.kernels.reduce_dot(first, second, everywhere, home.stream, place)
        return _results(row, home, raw, room, written, written, ())


def describe(values, axis, keepdims, stream, device):
    """Returns the fields of a description: numbers, or arrays of NumPy for axes."""
    require_keepdims(keepdims)
    home = _homes.of(values)(values, device, stream)
    shape, dtype = home.array.shape, home.array.dtype
    axes = axes_of(axis, shape)
    others = [at for at in range(len(shape)) if at not in axes]
    length, outer = math.prod(shape[one] for one in axes), kept(shape, axes, keepdims)
    if axis is None and not keepdims:
        with home.work():
            array = _contiguous(home, others + axes)
            *numbers, least, greatest = home.kernels.describe(array, None, home.stream)
        if dtype == "bool" and numbers[0] > 0:
            least, greatest = bool(least), bool(greatest)
        return *numbers, least, greatest
    if length == 0 and math.prod(outer) > 0:
        raise ValueError(f"describe of no elements along axis {axis!r} of the shape {shape}; give axes that have elements")
    columns = [b""] * 6
    if math.prod(outer) > 0:
        with home.work():
            columns = home.kernels.describe(_contiguous(home, others + axes), length, home.stream)
    wide = "float64" if "float" in dtype else "uint64" if dtype[0] in "bu" else "int64"
    types = [("int64", "int64")] * 2 + [("float64", "float64")] * 2 + [(wide, _homes.numpys(dtype))] * 2
    return [
        numpy.frombuffer(column, given).astype(result).reshape(outer) for column, (given, result) in zip(columns, types)
    ]


def topk(values, k, axis, largest, stream, device):
    """Returns the k largest or smallest elements along an axis, and their indices."""
    if not isinstance(largest, (bool, numpy.bool_)):
        raise TypeError(f"largest {largest!r}; it must be True or False")
    try:
        count = operator.index(None if isinstance(k, bool) else k)
    except TypeError:
        raise TypeError(f"k {k!r}; it must be an integer") from None
    home = _homes.of(values)(values, device, stream)
    shape, dtype = home.array.shape, home.array.dtype
    axes = axes_of(axis, shape)
    if axis is not None and len(axes) != 1:
        raise ValueError(f"axis {axis!r} of topk; give one axis, or None for all elements")
    length = math.prod(shape[one] for one in axes)
    if not 1 <= count <= length:
        raise ValueError(f"topk of k {count} of {length} elements; k must be 1 to the number of elements")
    others = [at for at in range(len(shape)) if at not in axes]
    found = [shape[at] for at in others] + [count]
    size = numpy.dtype(_homes.stored(dtype)).itemsize
    with home.work():
        # A result is 16 bytes: the index, and the element.
        room, place = home.room("int64", max(2 * math.prod(found), 1))
        array = _contiguous(home, others + axes)
        raw = home.kernels.reduce_topk(array, length, count, bool(largest), home.stream, place)

        def view(dtype, size, start):
            words = 16 // size
            whole = raw._view(dtype, (math.prod(found) * words,), None, 0)
            strides = [words * stride for stride in _homes.compact(found)]
            results = list(zip(found, strides))
            if axis is not None:
                results.insert(axes[0], results.pop())
            shape, strides = zip(*results)
            [view] = home.views(whole, room, dtype, shape, strides, [start], False)
            return home.done(view, dtype)

        return view(dtype, size, 8 // size), view("int64", 8, 0)
