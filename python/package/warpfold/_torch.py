"""PyTorch's operator of the reductions: for gradients, `torch.compile`, `torch.func` and dispatch modes.

Other calls skip the operator: calling it takes longer than the kernel.
"""

import math
from typing import List

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _ROWS, _homes, _native, _reduce


def _is_dispatched(values):
    """Returns whether PyTorch's dispatcher must see what is done to a tensor."""
    return (
        values.__torch_dispatch__ is not Tensor.__torch_dispatch__
        or values.is_meta
        or torch._C._functorch.is_functorch_wrapped_tensor(values)
        or torch._C._len_torch_dispatch_stack() > 0
    )


def is_observed(values):
    """Returns whether PyTorch must see a reduction of a tensor, to differentiate, transform, trace or convert it."""
    return (
        (values.requires_grad and torch.is_grad_enabled())
        or forward_ad._current_level >= 0
        or _is_dispatched(values)
    )


def _compute(values, function, axes, keepdims, ddof, determinism):
    """Reduces a tensor that PyTorch does not observe. The results of a pair are the halves of one tensor."""
    row, values, axes, results = _ROWS[function], values.detach(), tuple(axes), None
    if determinism == "run-to-run":
        results = _native.reduce_tensor(row, values, axes, keepdims, ddof)
    if results is None:
        results = _reduce.reduce(row, values, axes, keepdims, determinism, None, None, ddof)
    return torch.stack(results) if row.pair else results


@torch.library.custom_op("warpfold::reduce", mutates_args=())
def _operator(
    values: Tensor, function: str, axes: List[int], keepdims: bool, ddof: float, determinism: str
) -> Tensor:
    return _compute(values, function, axes, keepdims, ddof, determinism)


@_operator.register_fake
def _(values, function, axes, keepdims, ddof, determinism):
    row = _ROWS[function]
    dtype = str(values.dtype).rpartition(".")[2]
    _, result = _native.outcome(row, dtype, False, determinism == "everywhere")
    shape = _reduce.kept(values.shape, axes, keepdims)
    return values.new_empty((2, *shape) if row.pair else shape, dtype=getattr(torch, result))


def _call(values, *arguments):
    """Calls the operator if the dispatcher must see it, else a class of functions with all derivatives."""
    if torch.compiler.is_dynamo_compiling() or torch._is_functional_tensor(values):
        return _operator(values, *arguments)
    if torch._C._functorch.is_functorch_wrapped_tensor(values):
        return _Transformed.apply(values, *arguments)
    return (_operator if _is_dispatched(values) else _Recorded.apply)(values, *arguments)


def _batch(info, in_dims, values, function, axes, keepdims, ddof, determinism):
    values = values.movedim(in_dims[0], 0)
    axes = [axis + 1 for axis in _reduce.axes_of(tuple(axes), values.shape[1:])]
    return _call(values, function, axes, keepdims, ddof, determinism), 1 if _ROWS[function].pair else 0


#: Functions whose gradient depends on neither the elements nor the results, and those for which it depends on both.
_OF_NOTHING = frozenset({"sum", "mean"})
_OF_RESULTS = frozenset({"std", "l2_norm", "max_norm", "min", "max", "aminmax", "logsumexp", "hmean"})


def _setup_context(ctx, inputs, output):
    values, ctx.function, axes, ctx.keepdims, ctx.ddof, _ = inputs
    ctx.axes = _reduce.axes_of(tuple(axes), values.shape)
    ctx.shape, ctx.dtype = values.shape, values.dtype
    name = ctx.function.removeprefix("nan")
    # A tensor that is not saved may be changed in place before the gradient is computed.
    kept = () if ctx.function in _OF_NOTHING else (values, output) if name in _OF_RESULTS else (values,)
    ctx.save_for_backward(*kept)
    ctx.save_for_forward(*kept)


def _backward(ctx, gradient):
    values, result = (*ctx.saved_tensors, None, None)[:2]
    is_pair = _ROWS[ctx.function].pair
    if not ctx.keepdims:
        for axis in ctx.axes:
            axis += 1 if is_pair else 0
            gradient = gradient.unsqueeze(axis)
            result = None if result is None else result.unsqueeze(axis)
    if values is None:
        count = 1 if ctx.function == "sum" else math.prod(ctx.shape[axis] for axis in ctx.axes)
        return (gradient / count).to(ctx.dtype).expand(ctx.shape), None, None, None, None, None
    name = ctx.function.removeprefix("nan")
    reduction = _Reduction(values, result, gradient.dtype, ctx.axes, ctx.ddof, skip_nan=name != ctx.function)
    gradient = _GRADIENTS[name](reduction, gradient)
    if reduction.skipped is not None:
        gradient = gradient.masked_fill(reduction.skipped, 0)
    return gradient.to(ctx.dtype), None, None, None, None, None


class _Recorded(torch.autograd.Function):
    """The reductions with their derivatives, without the dispatcher."""

    @staticmethod
    def forward(ctx, *inputs):
        output = _compute(*inputs)
        _setup_context(ctx, inputs, output)
        return output

    backward = staticmethod(_backward)

    @staticmethod
    def jvp(ctx, tangent, *_):
        # Each result depends on its own elements only, so that gradients of all results are computed at once.
        shape = _reduce.kept(ctx.shape, ctx.axes, ctx.keepdims)
        one = torch.ones(shape, dtype=_result_type(ctx), device=tangent.device)
        if not _ROWS[ctx.function].pair:
            return _along(_backward(ctx, one)[0] * tangent, ctx).to(one.dtype)
        ones = [torch.stack(pair) for pair in ((one, 0 * one), (0 * one, one))]
        return torch.stack([_along(_backward(ctx, each)[0] * tangent, ctx).to(one.dtype) for each in ones])


class _Transformed(_Recorded):
    """The reductions for `torch.func`, which ignores the derivatives that an operator registers, and does not take a
    `forward` with a context. PyTorch takes twice as long to call a function with `setup_context`."""

    forward = staticmethod(lambda values, *arguments: (_call if _is_dispatched(values) else _compute)(values, *arguments))
    setup_context = staticmethod(_setup_context)
    vmap = staticmethod(_batch)


def _result_type(ctx):
    dtype = str(ctx.dtype).rpartition(".")[2]
    return getattr(torch, _native.outcome(_ROWS[ctx.function], dtype, False, False)[1])


def _along(terms, ctx):
    return terms.sum(ctx.axes, keepdim=ctx.keepdims) if ctx.axes else terms


_operator.register_vmap(_batch)
_operator.register_autograd(_backward, setup_context=_setup_context)


class _Reduction:
    """The elements and the results of a reduction, in the results' type and with the reduced axes."""

    def __init__(self, values, result, dtype, axes, ddof, skip_nan):
        self.axes, self.ddof, self.result = axes, ddof, result
        self.skipped = values.isnan() if skip_nan else None
        # The gradients of skipped elements are replaced; 1 keeps them finite before that.
        self.values = values.to(dtype)
        if skip_nan:
            self.values = self.values.masked_fill(self.skipped, 1)
        self.count = self.total(~self.skipped) if skip_nan else math.prod(values.shape[axis] for axis in axes)

    def total(self, terms):
        """Returns the sum of the terms of each result."""
        return terms.sum(self.axes, keepdim=True) if self.axes else terms

    def masked(self, terms):
        """Replaces the terms of skipped elements by 0."""
        return terms if self.skipped is None else terms.masked_fill(self.skipped, 0)

    def distances(self):
        """Returns the distance of each element from the mean, 0 for skipped elements."""
        return self.masked(self.values - self.total(self.masked(self.values)) / self.count)

    def share(self, chosen, gradient):
        """Distributes a gradient evenly among the chosen elements, as PyTorch does for `amax`."""
        if self.skipped is not None:
            chosen = chosen & ~self.skipped
        return chosen * (gradient / self.total(chosen))

    def of_extreme(self, result, gradient):
        return self.share((self.values == result) | (self.values.isnan() & result.isnan()), gradient)

    def of_magnitude(self, gradient):
        return self.values.sign() * self.share(self.values.abs() == self.result, gradient)

    def of_variance(self, gradient):
        return gradient * 2 * self.distances() / (self.count - self.ddof)

    def of_third_moment(self, gradient):
        squares = self.distances() ** 2
        return gradient * 3 * (squares - self.total(squares) / self.count) / self.count

    def of_product(self, gradient):
        """Multiplies the gradient by the product of all other elements, without a division by zeros."""
        last = tuple(range(-len(self.axes), 0))
        moved = self.values.movedim(self.axes, last)
        outer = moved.ndim - len(self.axes)
        flat = moved.reshape(*moved.shape[:outer], math.prod(moved.shape[outer:]))
        one = torch.ones_like(flat[..., :1])
        before = torch.cat([one, flat[..., :-1]], -1).cumprod(-1)
        after = torch.cat([one, flat.flip(-1)[..., :-1]], -1).cumprod(-1).flip(-1)
        return gradient * (before * after).reshape(moved.shape).movedim(last, self.axes)


#: The gradient of the elements from that of the results, by the function's name without "nan".
_GRADIENTS = {
    # Only of `nansum` and `nanmean`: the gradients of `sum` and `mean` do not depend on the elements.
    "sum": lambda r, gradient: gradient.expand(r.values.shape),
    "mean": lambda r, gradient: (gradient / r.count).expand(r.values.shape),
    "prod": _Reduction.of_product,
    "sum_of_squares": lambda r, gradient: gradient * 2 * r.values,
    "sum_of_magnitudes": lambda r, gradient: gradient * r.values.sign(),
    "l1_norm": lambda r, gradient: gradient * r.values.sign(),
    "l2_norm": lambda r, gradient: (r.values * (gradient / r.result)).masked_fill(r.result == 0, 0),
    "max_norm": _Reduction.of_magnitude,
    "min": lambda r, gradient: r.of_extreme(r.result, gradient),
    "max": lambda r, gradient: r.of_extreme(r.result, gradient),
    "aminmax": lambda r, gradient: r.of_extreme(r.result[0], gradient[0]) + r.of_extreme(r.result[1], gradient[1]),
    "var": _Reduction.of_variance,
    "std": lambda r, gradient: r.of_variance((gradient / (2 * r.result)).masked_fill(r.result == 0, 0)),
    "var_mean": lambda r, gradient: r.of_variance(gradient[0]) + gradient[1] / r.count,
    "logsumexp": lambda r, gradient: gradient * (r.values - r.result).exp(),
    "hmean": lambda r, gradient: gradient * (r.result / r.values) ** 2 / r.count,
    "third_central_moment": _Reduction.of_third_moment,
}


def dot(name, a, b, determinism, stream, device):
    """Returns the dot product of tensors as a sum of their products. Dynamo traces this function."""
    _reduce.require_pairs(name, a, b)
    dtype = torch.int64
    if a.dtype.is_floating_point:
        dtype = torch.promote_types(a.dtype, torch.float32)
    products = a.reshape(-1).to(dtype) * b.reshape(-1).to(dtype)
    return reduce("sum", False, products, None, False, 0, determinism, stream, device)


_WITH_INITIAL = {
    "sum": torch.add,
    "prod": torch.mul,
    "min": torch.minimum,
    "max": torch.maximum,
    "nansum": torch.add,
    "nanprod": torch.mul,
    "nanmin": torch.fmin,
    "nanmax": torch.fmax,
}


def reduce(
    name, is_pair, values, axis, keepdims, ddof, determinism="run-to-run", stream=None, device=None, initial=None
):
    """Reduces a tensor as `_reduce.reduce` does, by the operator. Dynamo traces this function."""
    is_compiling = torch.compiler.is_dynamo_compiling()
    if stream is not None or device is not None:
        raise TypeError(
            "stream or device for a tensor that PyTorch differentiates, transforms or compiles; leave them out, or call "
            "`detach()` first"
        )
    if not is_compiling:
        if type(values) not in (Tensor, torch.nn.Parameter):
            _homes.refuse_masked(values, "values")
        ddof = _reduce.ddof_of(ddof)
        _reduce.require_keepdims(keepdims)
    if isinstance(initial, Tensor):
        raise TypeError(
            "initial that is a tensor, for a tensor that PyTorch differentiates, transforms or compiles; give a number"
        )
    axes = _reduce.axes_of(axis, values.shape)

    def full(shape, dtype):
        if not is_compiling:
            number = _reduce.initial_of(_ROWS[name], initial, str(dtype).rpartition(".")[2])
        elif isinstance(initial, float) and not dtype.is_floating_point:
            raise TypeError(f"initial {initial} of {name} for integer results; it must be an integer")
        else:
            number = initial
        return _homes.full_tensor(torch, shape, number, dtype, values.device)

    if initial is not None and name in ("min", "max", "nanmin", "nanmax") and 0 in [values.shape[axis] for axis in axes]:
        return full(_reduce.kept(values.shape, axes, keepdims), values.dtype)
    result = _call(values, name, axes, bool(keepdims), float(ddof), determinism)
    if initial is not None:
        result = _WITH_INITIAL[name](result, full((), result.dtype))
    return (result[0], result[1]) if is_pair else result
