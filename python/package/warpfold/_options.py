"""The parameters `dtype`, `where`, `out` and `checked`.

Operations of the array's library change the elements before a reduction and the results after it, so that every other
parameter, gradients and transforms work as without them.
"""

import math
import sys

import numpy

from . import _homes, _native, _reduce

NAMES = frozenset(["dtype", "where", "out"])

#: Floats that some functions reduce in float64 without a copy.
_SHORT_FLOATS = frozenset(["float16", "bfloat16", "float32"])


def _library(values):
    """Returns the library of an array: PyTorch, CuPy, or NumPy for all others."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(values, torch.Tensor):
        return torch
    return cupy if cupy is not None and isinstance(values, cupy.ndarray) else numpy


def _is_torch(library):
    return library.__name__ == "torch"


def _type_of(values):
    return str(values.dtype).rpartition(".")[2]


def _edit(values, change):
    """Returns an array changed by a function for arrays of its library, which is NumPy for an `Array`."""
    if isinstance(values, _native.Array):
        return _native.upload(values.device, numpy.asarray(change(values.numpy()), order="C"))
    with numpy.errstate(all="ignore"):
        return change(values)


def _cast(values, dtype):
    if _type_of(values) == dtype:
        return values
    if _is_torch(_library(values)):
        return values.to(getattr(sys.modules["torch"], dtype))
    return _edit(values, lambda array: array.astype(dtype))


def _is_of_floats(function):
    """Returns whether all results are floats."""
    return function.result == "float" or function.of_none == -math.inf


def _named(function, library, dtype):
    """Returns the name of the type that a caller gave as `dtype`."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(dtype, torch.dtype) or isinstance(dtype, str) and dtype == "bfloat16":
        name = str(dtype).rpartition(".")[2]
    else:
        try:
            name = numpy.dtype(dtype).name
        except (TypeError, ValueError):
            name = None
    # NumPy and CuPy have no bfloat16.
    allowed = [
        one
        for one in _homes.TYPES
        if (not _is_of_floats(function) or "float" in one) and (_is_torch(library) or one != "bfloat16")
    ]
    if name not in allowed:
        raise TypeError(f"dtype {dtype!r} of {function.name}; there are {', '.join(allowed)}; give one of them")
    return name


def _mask(library, where, values):
    """Returns the mask in the shape of an array."""
    _homes.refuse_masked(where, "where")
    if _is_torch(library):
        is_tensor = isinstance(where, library.Tensor)
        mask = (where if is_tensor else library.as_tensor(numpy.asarray(where))).to(values.device)
    else:
        is_read = library is numpy and _homes.is_on_device(where)
        mask = library.asarray(_homes.asarray(where).numpy() if is_read else where)
    if _type_of(mask) != "bool":
        raise TypeError(f"where of {_type_of(mask)}; it must be a mask of truth values, such as `values > 0`")
    try:
        return library.broadcast_to(mask, values.shape)
    except (ValueError, RuntimeError):
        given, shape = tuple(mask.shape), tuple(values.shape)
        raise ValueError(
            f"where of the shape {given} for an array of the shape {shape}; it must broadcast to the array's shape"
        ) from None


def _farthest(function, dtype):
    """Returns the value that a maximum or a minimum takes last."""
    is_max = function.name.endswith("max")
    if dtype == "bool":
        return not is_max
    if "float" in dtype:
        return -math.inf if is_max else math.inf
    limits = numpy.iinfo(dtype)
    return int(limits.min if is_max else limits.max)


def _fill_of(function, dtype, initial):
    """Returns the value of an element that does not change a result; `None` if there is none."""
    if function.of_none is None:
        if initial is None:
            raise ValueError(f"where of {function.name} without the result of no elements; give it as `initial`")
        # The value that cannot change the extreme: `initial` itself would take a share of the gradient.
        return _farthest(function, dtype)
    if math.isnan(function.of_none):
        return function.of_none if function.name.startswith("nan") and "float" in dtype else None
    if "float" in dtype:
        return function.of_none
    # The reduction refuses integers that lack the infinity.
    return int(function.of_none) if math.isfinite(function.of_none) else 0


def _filled(library, values, mask, fill):
    """Replaces the elements that are not chosen."""
    if not _is_torch(library):
        return _edit(values, lambda array: library.where(mask, array, library.full((), fill).astype(array.dtype)))
    name = _type_of(values)
    fill = _homes.full_tensor(library, (), fill, values.dtype, values.device)
    if name in _homes.SIGNED:
        signed = getattr(library, _homes.SIGNED[name])
        return library.where(mask, values.view(signed), fill.view(signed)).view(values.dtype)
    return library.where(mask, values, fill)


def _of_chosen(library, row, values, mask, axis, keepdims):
    """Returns the chosen elements, those of each result in one segment, and the function that reduces the segments."""
    shape = tuple(values.shape)
    axes = _reduce.axes_of(axis, shape)
    _reduce.require_keepdims(keepdims)
    others = [at for at in range(len(shape)) if at not in axes]
    order, count = others + axes, math.prod(shape[at] for at in others)

    def ordered(array):
        return array.permute(order) if _is_torch(library) else array.transpose(order)

    mask = ordered(mask)
    ends = mask.reshape(count, math.prod(shape) // count).sum(1).cumsum(0)
    offsets = library.concatenate((0 * ends[:1], ends))

    def call(values, axis, keepdims, **options):
        return _reduce.reduce_segments(row, values, offsets, shape=_reduce.kept(shape, axes, keepdims), **options)

    return _edit(values, lambda array: ordered(array)[mask]), call


def _choose(function, row, is_observed, values, where, axis, keepdims, initial):
    """Returns elements whose reduction is that of the chosen ones, and the function that reduces them if it is not the
    caller's."""
    library = _library(values)
    mask = _mask(library, where, values)
    fill = _fill_of(function, _type_of(values), initial)
    if 0 in values.shape:
        return values, None
    if fill is not None:
        return _filled(library, values, mask, fill), None
    if is_observed:
        raise TypeError(
            f"where of {function.name} for a tensor that PyTorch differentiates, transforms or compiles; leave it out, or "
            "call `detach()` first"
        )
    return _of_chosen(library, row, values, mask, axis, keepdims)


def _write_all(function, out, results):
    """Writes results to the caller's arrays, none of which is changed if one of them is refused."""
    rooms = out if function.pair else (out,)
    if not isinstance(rooms, tuple) or len(rooms) != len(results):
        raise TypeError(f"out of type {type(out).__name__} of {function.name}; it must be a tuple of two arrays")
    if function.pair and rooms[0] is rooms[1]:
        raise TypeError(f"out of {function.name} names one array twice; it must be a tuple of two arrays")
    for room, result in zip(rooms, results):
        _require_room(room, result)
    for room, result in zip(rooms, results):
        if _is_torch(_library(result)):
            room.copy_(result)
        else:
            room[...] = result


def take_checked(options, is_observed):
    """Raises an error for parameters with which `checked` cannot be combined. Removes it if it is false."""
    if not isinstance(options["checked"], (bool, numpy.bool_)):
        raise TypeError(f"checked {options['checked']!r}; it must be True or False")
    if not options["checked"]:
        del options["checked"]
        return
    for other in ("dtype", "initial", "out"):
        if other in options:
            raise TypeError(f"checked cannot be combined with {other}; leave one of them out")
    if is_observed:
        raise TypeError("checked for a tensor that PyTorch differentiates, transforms or compiles; leave it out")


def reduce(function, row, call, wide, is_observed, values, axis, keepdims, dtype=None, where=True, out=None, **options):
    """Reduces an array by `call`, which has none of the three parameters. `wide` has float64 results of shorter floats,
    if it is not `None`; `function` has the attributes of the row, which Dynamo cannot read."""
    if out is not None and is_observed:
        raise TypeError(
            "out for a tensor that PyTorch differentiates, transforms or compiles; leave it out, or call `detach()` first"
        )
    if "stream" in options:
        raise TypeError("stream with dtype, where or out; leave it out, or make it the current stream of PyTorch or CuPy")
    if _library(values) is numpy:
        values = _homes.loaded(values, options.get("device"))
    initial = options.get("initial")
    if dtype is not None:
        dtype = _named(function, _library(values), dtype)
        if initial is not None:
            _reduce.initial_of(function, initial, dtype)
        if "float" in dtype and _type_of(values) in _homes.TYPES and "float" not in _type_of(values):
            values = _cast(values, dtype)
    if where is not True:
        values, other = _choose(function, row, is_observed, values, where, axis, keepdims, initial)
        call, wide = (call, wide) if other is None else (other, None)
    if dtype is not None:
        elements, everywhere = _type_of(values), "determinism" in options
        if dtype == "float64" and elements in _SHORT_FLOATS and wide is not None and not (everywhere or is_observed):
            call = wide
        # Elements of an unsupported type, such as complex ones, are left to the reduction, which refuses them.
        elif elements in _homes.TYPES and (
            is_observed or _reduce.result_type(row, values, elements, everywhere) != dtype
        ):
            values = _cast(values, dtype)
    results = call(values, axis, keepdims, **options)
    results = results if function.pair else (results,)
    if dtype is not None:
        results = tuple(_cast(one, dtype) for one in results)
    if out is not None:
        _write_all(function, out, results)
        return out
    return results if function.pair else results[0]


def _require_room(out, result):
    """Raises an error if results cannot be written to an array."""
    if isinstance(result, _native.Array):
        raise TypeError("out for results of `warpfold.Array`, whose elements cannot be changed; leave it out")
    library = _library(result)
    is_torch = _is_torch(library)
    _homes.refuse_masked(out, "out")
    if not isinstance(out, library.Tensor if is_torch else library.ndarray):
        kind = "torch.Tensor" if is_torch else f"{library.__name__}.ndarray"
        raise TypeError(f"out of type {type(out).__name__}; it must be a {kind}, as the results")
    given, shape = tuple(out.shape), tuple(result.shape)
    if given != shape:
        raise ValueError(f"out of the shape {given} for results of the shape {shape}; give an array of that shape")
    is_taken = out.dtype == result.dtype if is_torch else numpy.can_cast(result.dtype, out.dtype, "same_kind")
    if not is_taken:
        raise TypeError(
            f"out of {_type_of(out)} for results of {_type_of(result)}; give an array of {_type_of(result)}"
        )
    if is_torch and out.device != result.device:
        raise ValueError(f"out on {out.device} for results on {result.device}; give an array on {result.device}")
    if is_torch and out.requires_grad and library.is_grad_enabled():
        raise TypeError("out that PyTorch differentiates; leave it out, or call `detach()` first")
    if is_torch and any(stride == 0 and length > 1 for stride, length in zip(out.stride(), given)):
        raise ValueError("out is expanded; give an array whose elements have memory of their own")
    if library is numpy and not out.flags.writeable:
        raise ValueError("out is read-only; give an array that can be written")
