"""The part of PyTorch that torch_peer.py uses, implemented on lists, for tests without PyTorch."""

import operator
import random

__version__ = "9.9"
# Added to the last result of each reduction, so that a test can make it wrong.
WRONG = 0


class Dtype:
    def __init__(self, name, bits, is_floating_point=False, signed=True):
        self.name, self.bits, self.is_floating_point = name, bits, is_floating_point
        self.min = -(1 << (bits - 1)) if signed else 0
        self.max = self.min + (1 << bits) - 1


float16, bfloat16 = Dtype("float16", 16, True), Dtype("bfloat16", 16, True)
float32, float64 = Dtype("float32", 32, True), Dtype("float64", 64, True)
int8, uint8 = Dtype("int8", 8), Dtype("uint8", 8, signed=False)
int16, int32, int64 = Dtype("int16", 16), Dtype("int32", 32), Dtype("int64", 64)


class Scalar:
    def __init__(self, value=None, dtype=None):
        self.value, self.dtype = value, dtype

    def item(self):
        return self.value

    def set(self, value, dtype):
        """Sets the value. Raises an error for a result of another type, as PyTorch does for out=."""
        if self.dtype is not dtype:
            has = self.dtype.name
            raise RuntimeError(f"Expected out tensor to have dtype {dtype.name}, but got {has}")
        self.value = value


class Tensor(list):
    def __init__(self, values, dtype=float64):
        super().__init__(values)
        self.dtype = dtype

    def __getitem__(self, index):
        part = super().__getitem__(index)
        return Tensor(part, self.dtype) if isinstance(index, slice) else Scalar(part, self.dtype)

    def mul_(self, by):
        return Tensor((value * by for value in self), self.dtype)

    def sub_(self, less):
        return Tensor((value - less for value in self), self.dtype)

    def clone(self):
        return Tensor(self, self.dtype)

    def to(self, dtype):
        return Tensor(self, dtype)

    def split(self, size):
        return [self[start:start + size] for start in range(0, len(self), size)]

    def abs(self):
        return Tensor((abs(value) for value in self), self.dtype)

    def view(self, rows, length):
        if rows * length != len(self):
            raise RuntimeError(f"shape '[{rows}, {length}]' is invalid for input of size {len(self)}")
        return Matrix(self.split(length), self.dtype)

    def unsqueeze(self, dim):
        return Matrix(self.split(1), self.dtype)

    def each(self, call, other):
        """Applies a function of two arguments elementwise; a number is broadcast."""
        others = other if isinstance(other, list) else [other] * len(self)
        if len(others) != len(self):
            raise RuntimeError(f"sizes {len(self)} and {len(others)} do not match")
        return Tensor((call(*pair) for pair in zip(self, others)), self.dtype)

    def __sub__(self, other):
        return self.each(operator.sub, other)

    def __mul__(self, other):
        return self.each(operator.mul, other)

    def __le__(self, other):
        return self.each(operator.le, other)

    def __lt__(self, other):
        return self.each(operator.lt, other)

    def __ge__(self, other):
        return self.each(operator.ge, other)

    def __eq__(self, other):
        return self.each(operator.eq, other)

    def __and__(self, other):
        return self.each(operator.and_, other)

    def all(self):
        return Scalar(builtin_all(self))

    def set(self, values, dtype):
        if self.dtype is not dtype or len(values) != len(self):
            raise RuntimeError(f"Expected an out tensor of {len(values)} {dtype.name}")
        self[:] = values

    def sum(self):
        return Scalar(builtin_sum(self))

    def min(self):
        return Scalar(min(self))

    def max(self):
        return Scalar(max(self))


class Matrix:
    """A tensor of two dimensions: a list of rows, which are Tensors."""

    def __init__(self, rows, dtype):
        self.rows, self.dtype = list(rows), dtype
        self.shape = (len(self.rows), len(self.rows[0]))

    def clone(self):
        return Matrix((row.clone() for row in self.rows), self.dtype)

    def to(self, dtype):
        return Matrix((row.to(dtype) for row in self.rows), dtype)

    def abs(self):
        return Matrix((row.abs() for row in self.rows), self.dtype)

    def of_rows(self, call):
        return Tensor((call(row) for row in self.rows), self.dtype)

    def sum(self, dim):
        return self.of_rows(builtin_sum)

    def amin(self, dim):
        return self.of_rows(min)

    def amax(self, dim):
        return self.of_rows(max)

    def gather(self, dim, indices):
        for row, index in zip(self.rows, indices.rows):
            if not 0 <= index[0].item() < len(row):
                # On a GPU this would end the process.
                raise RuntimeError("device-side assert triggered")
        rows = zip(self.rows, indices.rows)
        found = ([row[index[0].item()].item()] for row, index in rows)
        return Matrix((Tensor(value, self.dtype) for value in found), self.dtype)

    def squeeze(self, dim):
        return self.of_rows(lambda row: row[0].item())


def device(name):
    return name


def iinfo(dtype):
    if dtype.is_floating_point:
        raise TypeError("torch.iinfo() requires an integer input type.")
    return dtype


def manual_seed(seed):
    random.seed(seed)


def size_allowed(n):
    if n > 1 << 30:
        raise MemoryError("out of memory\nsecond line")
    return n


def zeros(n, device):
    return Tensor([0.0] * n)


def rand(n, dtype, device):
    return Tensor((random.random() for _ in range(size_allowed(n))), dtype)


def randint(low, high, shape, dtype, device):
    return Tensor((random.randrange(low, high) for _ in range(size_allowed(shape[0]))), dtype)


def empty(shape, dtype, device):
    return Tensor([None] * shape[0], dtype) if shape else Scalar(None, dtype)


builtin_sum, builtin_all = sum, all


def reduce(values, dim, call, dtype, out):
    """Writes the reduction of each row of a matrix, or of all values, to `out`. Adds WRONG to the last result."""
    if isinstance(values, Matrix):
        if dim != 1:
            raise RuntimeError(f"dim {dim} is not that of the rows")
        results = [call(row) for row in values.rows]
        results[-1] += WRONG
        out.set(results, dtype)
    else:
        out.set(call(values) + WRONG, dtype)


def sum(values, dim, dtype, out):
    def total(values):
        total = builtin_sum(values)
        return total if dtype.is_floating_point else (total - dtype.min) % (1 << dtype.bits) + dtype.min

    reduce(values, dim, total, dtype, out)


def amin(values, dim, out):
    reduce(values, dim, min, values.dtype, out)


def amax(values, dim, out):
    reduce(values, dim, max, values.dtype, out)


def last_index(values, value):
    """Returns the last of equal elements, because the choice must not matter."""
    return max(index for index, other in enumerate(values) if other == value)


def argmin(values, dim, out):
    reduce(values, dim, lambda values: last_index(values, min(values)), int64, out)


def argmax(values, dim, out):
    reduce(values, dim, lambda values: last_index(values, max(values)), int64, out)


class version:
    cuda = "13.0"


class cuda:
    clock = 0.0

    @staticmethod
    def is_available():
        return True

    @staticmethod
    def get_device_name():
        return "fake"

    @staticmethod
    def empty_cache():
        pass

    @staticmethod
    def synchronize():
        pass

    class Event:
        def __init__(self, enable_timing):
            self.at = None

        def record(self):
            cuda.clock += 2.0
            self.at = cuda.clock

        def elapsed_time(self, end):
            return end.at - self.at
