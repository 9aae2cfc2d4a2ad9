"""Operations that are given as text."""

import sys

from . import _homes, _native, _reduce


def _method(name, doc):
    def method(
        self, values, axis=None, keepdims=False, *, determinism="run-to-run", stream=None, device=None, dim=None, keepdim=None
    ):
        if dim is not None or keepdim is not None:
            axis, keepdims = _reduce.from_torch(axis, keepdims, dim, keepdim)
        torch = sys.modules.get("torch")
        if torch is not None:
            if torch.compiler.is_dynamo_compiling():
                raise TypeError("an expression in a function that PyTorch compiles; call it outside of the function")
            if isinstance(values, torch.Tensor) and values.requires_grad and torch.is_grad_enabled():
                raise TypeError("an expression of a tensor that PyTorch differentiates; call `detach()` first")
        row = self._rows[name]
        is_plain = determinism == "run-to-run" and stream is None and device is None
        if is_plain:
            result = _native.reduce_tensor(row, values, axis, keepdims, 0)
            if result is not None:
                return result
        if _homes.are_several(values):
            if axis is not None or keepdims is not False:
                raise TypeError(
                    "axis or keepdims of an expression for a list of arrays; leave them out, or reduce each alone"
                )
            result = _native.reduce_tensors(row, values, 0) if is_plain else None
            if result is not None:
                return result
            values = _homes.joined(values)
        return _reduce.reduce(row, values, axis, keepdims, determinism, stream, device)

    method.__name__ = name
    method.__qualname__ = f"Expression.{name}"
    method.__doc__ = doc
    return method


class Expression:
    """An expression of the elements, from `expr`. Its methods reduce the values of the expression, not the elements.

    They have parameters of `warpfold.sum`. Elements are converted to the type of the results before the expression is
    computed: float32 for floats of up to 32 bits, float64, int64 for signed integers, and uint64 for all others."""

    __slots__ = ("_rows", "_text", "_where")

    def __init__(self, text, where=None):
        for name, given in (("text", text), ("where", where)):
            if not isinstance(given, str) and not (name == "where" and given is None):
                raise TypeError(f"{name} {given!r} of an expression; it must be a string, such as 'x * x' or 'x > 0'")
        self._text, self._where = text, where
        self._rows = {op: _native.expression(text, where, op) for op in ("sum", "min", "max")}

    def __repr__(self):
        where = "" if self._where is None else f", where={self._where!r}"
        return f"warpfold.expr({self._text!r}{where})"

    sum = _method("sum", "The sum of the values. For no elements it is 0.")
    min = _method(
        "min",
        """The smallest value, or NaN if any value is NaN. If no element meets the condition it is infinity, or the largest
        integer. For no elements, it raises a `ValueError`.""",
    )
    max = _method(
        "max",
        """The largest value, or NaN if any value is NaN. If no element meets the condition it is -infinity, or the smallest
        integer. For no elements, it raises a `ValueError`.""",
    )


def expr(text, where=None):
    """Returns an expression of the element `x`, whose values can be reduced.

    >>> import numpy, warpfold
    >>> a = numpy.array([[3.0, -1.0], [0.5, 2.0]])
    >>> warpfold.expr("x * x - 2").sum(a, axis=0)
    array([5.25, 1.  ])
    >>> warpfold.expr("abs(x)", where="x < 1").max(a, axis=1)
    array([1. , 0.5])

    text
        The expression. The kernel is compiled by the driver at its first use.
    where
        A condition: only the elements that meet it are reduced.

    Operators, those that bind most first: `**` with an integer from 0 to 64; `-` and `!`; `*`, `/`, `%`; `+`, `-`; `&`; `^`;
    `|`; `<`, `<=`, `>`, `>=`, `==`, `!=`; `&&`; `||`; and `c ? a : b`. `%` and bitwise operators are for integers. Functions
    are `abs`, `min` and `max`, and of floats `sqrt`, `exp`, `log`, `floor`, `ceil`, `trunc`, `rint`, `fma` and `is_nan`;
    constants are `inf` and `nan`. A condition is 1 or 0 where a number is needed. Integers wrap around in 64 bits, and their
    quotients are rounded towards zero. A text has at most 4096 bytes, and about 500 instructions. `min` and `max` of a number and NaN are the number."""
    return Expression(text, where)
