"""Reductions: what is given to a function is borrowed, reduced by a kernel, and finished."""

import functools
import numbers
import operator

import numpy

from . import _finish, _homes, _native


def _everywhere(determinism):
    if determinism == "run-to-run":
        return False
    if determinism != "everywhere":
        raise ValueError(f"determinism {determinism!r}; there are 'run-to-run' and 'everywhere'; give one of them")
    return True


def _axes(axis, shape):
    """The numbers of the axes, in their order. Along none, each element is reduced by itself."""
    dimensions = len(shape)
    if axis is None:
        return list(range(dimensions))
    given = axis if isinstance(axis, tuple) else (axis,)
    try:
        # Truth values are given for other parameters, and are integers for Python alone.
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


def _product(lengths):
    product = 1
    for length in lengths:
        product *= length
    return product


@functools.lru_cache(maxsize=None)
def _types(kernel, result, elements, unsigned_sums, everywhere):
    """The types of what a kernel leaves and of the results, how many values there are of each result, and the least
    that memory for all has. Raises an error if the elements have no such operation."""
    left, step, least = _native.outcome(kernel, elements, everywhere)
    # A sum that is below 2**63 is the same number.
    if left == "uint64" and elements != "uint64" and (elements == "bool" or not unsigned_sums):
        left = "int64"
    return left, _finish.result_type(result, elements, left), step, least


def _types_of(function, home, everywhere):
    return _types(function.kernel, function.result, home.array.dtype, home.unsigned_sums, everywhere)


def _initial(function, initial, dtype):
    """An initial value for results of a type."""
    kind = "a number" if "float" in dtype else "an integer"
    _homes.refuse_masked(initial, "initial")
    try:
        number = float(initial) if "float" in dtype else operator.index(initial)
    except (TypeError, ValueError):
        raise TypeError(f"initial {initial!r} of {function.name} for {dtype} results; it must be {kind}") from None
    if isinstance(number, int):
        # Truth values are 0 and 1, and types without a sign begin with "u".
        bits = 1 if dtype == "bool" else int(dtype.lstrip("uint"))
        unsigned = dtype[0] in "bu"
        least, most = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if not least <= number <= most:
            raise ValueError(
                f"initial {initial} of {function.name} for {dtype} results; it must be {least} to {most}"
            )
    return number


def _ddof(ddof):
    if not isinstance(ddof, numbers.Real):
        raise TypeError(f"ddof {ddof!r}; it must be a number, such as 0 or 1")


def _finished(function, home, raw, room, left, result, step, shape, count, ddof, initial=None):
    finish = getattr(_finish, function.finish)
    computes = finish not in _finish.VIEWS or result != left or initial is not None
    values = home.views(raw, room, left, shape, [(step, start) for start in range(step)], computes)
    results = finish(home, values, count, ddof)
    if computes:
        results = [home.cast(value, result) for value in results]
    if initial is not None:
        results = [_finish.WITH_INITIAL[function.name](home, results[0], home.full((), initial, result))]
    results = [home.done(value) for value in results]
    return tuple(results) if function.pair else results[0]


def reduce(function, values, axis, keepdims, determinism, stream, device, ddof=0, initial=None):
    everywhere = _everywhere(determinism)
    _ddof(ddof)
    if not isinstance(keepdims, (bool, numpy.bool_, int)):
        raise TypeError(f"keepdims {keepdims!r}; it must be True or False")
    home = _homes.of(values)(values, device, stream)
    array = home.array
    shape = array.shape
    axes = _axes(axis, shape)
    length = _product(shape[one] for one in axes)
    count = _product(one for at, one in enumerate(shape) if at not in axes)
    kept = tuple(1 if at in axes else one for at, one in enumerate(shape) if keepdims or at not in axes)
    left, result, step, least = _types_of(function, home, everywhere)
    if initial is not None:
        initial = _initial(function, initial, result)
    if length == 0 and count > 0 and function.of_none is None and initial is None:
        raise ValueError(
            f"{function.name} of no elements, of an array of the shape {shape}; every result must be of at least one; "
            f"give a longer array{', or `initial`' if function.initial else ''}"
        )
    with home.work():
        if length == 0 or count == 0:
            value = initial if initial is not None else function.of_none or 0
            # Integers, of which -1 has all bits in every type.
            filled = home.done(home.full(kept, value if result.startswith("float") else int(value), result))
            return (filled, filled) if function.pair else filled
        room, place = home.room(left, max(count * step, least))
        try:
            raw = _native.reduce(function.kernel, array, axes, everywhere, home.stream, place)
        except _native.ViewError:
            # Of axes that take turns too often a copy is reduced, in which they are together.
            others = [at for at in range(len(shape)) if at not in axes]
            array, axes = home.transposed(others + axes), list(range(len(others), len(shape)))
            raw = _native.reduce(function.kernel, array, axes, everywhere, home.stream, place)
        return _finished(function, home, raw, room, left, result, step, kept, lambda: length, ddof, initial)


def reduce_segments(function, values, offsets, determinism, stream, device, ddof=0):
    everywhere = _everywhere(determinism)
    _ddof(ddof)
    home = _homes.of(values)(values, device, stream)
    _homes.refuse_masked(offsets, "offsets")
    with home.work():
        offsets, lengths = home.offsets(offsets)
        count = max(_product(offsets.shape) - 1, 0)
        left, result, step, least = _types_of(function, home, everywhere)
        room, place = home.room(left, max(count * step, least))
        raw = _native.reduce_segments(function.kernel, home.array, offsets, everywhere, home.stream, place)
        return _finished(function, home, raw, room, left, result, step, (count,), lengths, ddof)


def within(kind, function, values, low, high, determinism, stream, device):
    """The `"count"`, `"sum"` or `"mean"` of the elements of an interval. `function` is the row of the sum."""
    everywhere = _everywhere(determinism)
    home = _homes.of(values)(values, device, stream)
    left, _, _, _ = _types_of(function, home, everywhere)
    with home.work():
        # The count, the sum in two words, and the mean have 8 bytes each.
        room, place = home.room("int64", 4)
        raw = _native.reduce_within(home.array, low, high, everywhere, home.stream, place)

        def view(dtype, step, start, computes):
            whole = raw._view(dtype, (step,), None, 0)
            return home.views(whole, room, dtype, (), [(step, start)], computes)[0]

        if kind == "count":
            return home.done(view("int64", 4, 0, False))
        if kind == "sum":
            words = 2 if left == "float32" else 1
            return home.done(view(left, 4 * words, words, False))
        result = _finish.result_type("float", home.array.dtype, left)
        # Where no kernel has been launched, all words are 0.
        count, mean = view("int64", 4, 0, True), view("float64", 4, 3, True)
        return home.done(home.cast(home.where(count == 0, float("nan"), mean), result))
