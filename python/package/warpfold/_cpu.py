"""Reductions of the host's arrays on the CPU, without a device or the simulator.

The functions take the parameters of the extension's functions of the same names, and return the values that its kernels
write.
"""

import math

import numpy

from . import _native


def stored(dtype):
    """Returns NumPy's type for the elements of a type in memory: NumPy lacks bfloat16, whose bits are uint16."""
    return "uint16" if dtype == "bfloat16" else dtype


class Elements:
    """Elements in host memory, with the attributes of an `Array` that the reductions use."""

    device = "cpu"
    _is_contiguous = True

    def __init__(self, memory, dtype, shape):
        self.memory = memory
        self.dtype = dtype
        self.shape = shape

    def bits(self):
        """Returns a NumPy array over the memory."""
        return numpy.frombuffer(self.memory, stored(self.dtype)).reshape(self.shape)

    def transposed(self, order):
        """Returns the elements with their axes in this order, contiguous."""
        bits = numpy.ascontiguousarray(self.bits().transpose(order))
        return Elements(bits, self.dtype, bits.shape)

    def _bytes(self):
        return self.memory

    def _view(self, dtype, shape, strides, start):
        return Elements(self.memory, dtype, shape)


def elements(values, dtype):
    """Returns the elements of a C-contiguous NumPy array, and the type's name if NumPy lacks it."""
    # The extension reads elements at multiples of their size.
    values = numpy.require(values, requirements=["C", "A"])
    return Elements(values, values.dtype.name if dtype is None else dtype, values.shape)


def _written(function, memory, dtype, everywhere):
    written, _ = _native.outcome(function, dtype, False, everywhere)
    return Elements(memory, written, (len(memory) // numpy.dtype(stored(written)).itemsize,))


def reduce(operation, array, axes, everywhere, stream=None, place=None, allocate=None):
    others = [at for at in range(len(array.shape)) if at not in axes]
    length = math.prod(array.shape[at] for at in axes)
    rows = array.transposed(others + axes)
    memory = _native.reduce_rows_on_cpu(operation, rows.bits(), array.dtype, length, everywhere)
    return _written(operation[0], memory, array.dtype, everywhere)


def _of_none(function, dtype):
    """Returns the results of a segment without elements."""
    if function.of_none is not None:
        return [function.of_none] * (2 if function.pair else 1)
    if function.result == "index":
        return [-1]
    if "float" in dtype:
        least, most = (math.nan, math.nan) if function.name.startswith("nan") else (-math.inf, math.inf)
    else:
        limits = numpy.iinfo("uint8" if dtype == "bool" else dtype)
        least, most = int(limits.min), int(limits.max)
    return [most, least] if function.pair else [least if function.name.endswith("max") else most]


def reduce_segments(operation, array, offsets, everywhere, stream=None, place=None):
    offsets = offsets.bits()
    memory = _native.reduce_segments_on_cpu(operation, array.bits(), array.dtype, offsets, everywhere)
    results = _written(operation[0], memory, array.dtype, everywhere)
    is_empty = offsets[1:] == offsets[:-1]
    if is_empty.any():
        values = _of_none(operation[0], results.dtype)
        for part, value in zip(numpy.split(results.bits(), len(values)), values):
            if results.dtype == "bfloat16":
                part[is_empty] = numpy.float32(value).view("uint32") >> 16
            else:
                part[is_empty] = numpy.array(value if "float" in results.dtype else int(value)).astype(results.dtype)
    return results


def reduce_dot(first, second, everywhere, stream=None, place=None):
    # One value of the sum's type, which the caller knows.
    return Elements(_native.reduce_dot_on_cpu(first.bits(), second.bits(), first.dtype), None, (1,))


def describe(array, row_len, stream=None):
    return _native.describe_on_cpu(array.bits(), array.dtype, row_len)


def reduce_topk(array, row_len, k, is_largest, stream=None, place=None):
    memory = _native.reduce_topk_on_cpu(array.bits(), array.dtype, row_len, k, is_largest)
    return Elements(memory, "int64", (len(memory) // 8,))


def reduce_within(array, low, high, everywhere, stream=None, place=None):
    return Elements(_native.reduce_within_on_cpu(array.bits(), array.dtype, low, high, everywhere), "int64", (4,))
