"""Reductions: what is given to a function is borrowed, reduced by a kernel, and finished."""

import functools
import operator

from . import _finish, _homes, _native


def _everywhere(function, determinism):
    if determinism == "run-to-run":
        return False
    if determinism != "everywhere":
        raise ValueError(f"determinism {determinism!r}; there are 'run-to-run' and 'everywhere'; give one of them")
    if not function.everywhere:
        raise ValueError(
            f"{function.name} has the same bits from run to run only, not everywhere; use determinism='run-to-run'"
        )
    return True


def _range(axis, shape):
    """The axes as a range."""
    dimensions = len(shape)
    if axis is None:
        return 0, dimensions
    given = axis if isinstance(axis, tuple) else (axis,)
    try:
        axes = sorted(operator.index(one) for one in given)
    except TypeError:
        raise TypeError(f"axis {axis!r}; it must be None, an integer or a tuple of integers") from None
    if any(not -dimensions <= one < dimensions for one in axes):
        raise ValueError(f"axis {axis!r} of an array of {dimensions} dimensions; give {-dimensions} to {dimensions - 1}")
    axes = sorted(one % dimensions for one in axes)
    if not axes or axes != list(range(axes[0], axes[0] + len(axes))):
        raise ValueError(
            f"axis {axis!r}; several axes must be different ones that are neighbours; reduce one after the other"
        )
    return axes[0], axes[-1] + 1


def _product(lengths):
    product = 1
    for length in lengths:
        product *= length
    return product


@functools.lru_cache(maxsize=None)
def _types(kernel, result, elements, unsigned_sums):
    """The types of what a kernel leaves and of the results, how many values there are of each result, and the least
    that memory for all has."""
    left, step, least = _native.outcome(kernel, elements)
    # A sum that is below 2**63 is the same number.
    if left == "uint64" and elements != "uint64" and (elements == "bool" or not unsigned_sums):
        left = "int64"
    return left, _finish.result_type(result, elements, left), step, least


def _types_of(function, home):
    return _types(function.kernel, function.result, home.array.dtype, home.unsigned_sums)


def _finished(function, home, raw, room, left, result, step, shape, count, ddof):
    finish = getattr(_finish, function.finish)
    computes = finish not in _finish.VIEWS or result != left
    values = home.views(raw, room, left, shape, [(step, start) for start in range(step)], computes)
    results = finish(home, values, count, ddof)
    if computes:
        results = [home.cast(value, result) for value in results]
    results = [home.done(value) for value in results]
    return tuple(results) if function.pair else results[0]


def reduce(function, values, axis, keepdims, determinism, stream, device, ddof=0):
    everywhere = _everywhere(function, determinism)
    home = _homes.of(values)(values, device, stream)
    array = home.array
    shape = array.shape
    begin, end = _range(axis, shape)
    outer, length, inner = _product(shape[:begin]), _product(shape[begin:end]), _product(shape[end:])
    kept = shape[:begin] + ((1,) * (end - begin) if keepdims else ()) + shape[end:]
    count = outer * inner
    left, result, step, least = _types_of(function, home)
    if length == 0 and count > 0 and function.of_none is None:
        raise ValueError(
            f"{function.name} of no elements, of an array of the shape {shape}; every result must be of at least one; "
            "give a longer array"
        )
    with home.work():
        if length == 0 or count == 0:
            value = function.of_none or 0
            # Integers, of which -1 has all bits in every type.
            filled = home.done(home.full(kept, value if result.startswith("float") else int(value), result))
            return (filled, filled) if function.pair else filled
        room, place = home.room(left, max(count * step, least))
        raw = _native.reduce(
            function.kernel, array, [outer, length, inner], (1, 2), everywhere, home.stream, place
        )
        return _finished(function, home, raw, room, left, result, step, kept, lambda: length, ddof)


def reduce_segments(function, values, offsets, determinism, stream, device, ddof=0):
    everywhere = _everywhere(function, determinism)
    home = _homes.of(values)(values, device, stream)
    with home.work():
        offsets, lengths = home.offsets(offsets)
        count = max(_product(offsets.shape) - 1, 0)
        left, result, step, least = _types_of(function, home)
        room, place = home.room(left, max(count * step, least))
        raw = _native.reduce_segments(function.kernel, home.array, offsets, everywhere, home.stream, place)
        return _finished(function, home, raw, room, left, result, step, (count,), lengths, ddof)
