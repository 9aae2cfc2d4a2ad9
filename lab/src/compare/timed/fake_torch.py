"""The part of PyTorch that torch_peer.py uses, on lists: for tests on machines without it."""

import random

__version__ = "9.9"
WRONG = 0


class Dtype:
    def __init__(self, name, bits, is_floating_point=False, signed=True):
        self.name, self.bits, self.is_floating_point = name, bits, is_floating_point
        self.min = -(1 << (bits - 1)) if signed else 0
        self.max = self.min + (1 << bits) - 1


float16, bfloat16 = Dtype("float16", 16, True), Dtype("bfloat16", 16, True)
float32, float64 = Dtype("float32", 32, True), Dtype("float64", 64, True)
int8, uint8 = Dtype("int8", 8), Dtype("uint8", 8, signed=False)
int32, int64 = Dtype("int32", 32), Dtype("int64", 64)


class Scalar:
    def __init__(self, value=None, dtype=None):
        self.value, self.dtype = value, dtype

    def item(self):
        return self.value

    def set(self, value, dtype):
        """What PyTorch refuses is refused here: a result of another type than out's."""
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

    def sum(self):
        return Scalar(builtin_sum(self))

    def min(self):
        return Scalar(min(self))

    def max(self):
        return Scalar(max(self))


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
    return Scalar(None, dtype)


builtin_sum = sum


def sum(values, dim, dtype, out):
    total = builtin_sum(values) + WRONG
    if not dtype.is_floating_point:
        total = (total - dtype.min) % (1 << dtype.bits) + dtype.min
    out.set(total, dtype)


def amin(values, dim, out):
    out.set(min(values) + WRONG, values.dtype)


def amax(values, dim, out):
    out.set(max(values) + WRONG, values.dtype)


def last_index(values, value):
    """The last of equal elements: PyTorch's choice is not to matter."""
    return max(index for index, other in enumerate(values) if other == value)


def argmin(values, dim, out):
    out.set(last_index(values, min(values)) + WRONG, int64)


def argmax(values, dim, out):
    out.set(last_index(values, max(values)) + WRONG, int64)


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
