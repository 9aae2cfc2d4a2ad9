"""The part of PyTorch that torch_peer.py uses, on lists: for tests on machines without it."""

import random

__version__ = "9.9"
WRONG = 0


class Dtype:
    def __init__(self, bits, is_floating_point):
        self.bits, self.is_floating_point = bits, is_floating_point
        self.min, self.max = -(1 << (bits - 1)), (1 << (bits - 1)) - 1


float32, float64 = Dtype(32, True), Dtype(64, True)
int32, int64 = Dtype(32, False), Dtype(64, False)


class Scalar:
    def __init__(self, value=None):
        self.value = value

    def item(self):
        return self.value


class Tensor(list):
    def mul_(self, by):
        return Tensor(value * by for value in self)

    def sub_(self, less):
        return Tensor(value - less for value in self)

    def clone(self):
        return Tensor(self)

    def to(self, dtype):
        return Tensor(self)

    def split(self, size):
        return [Tensor(self[start:start + size]) for start in range(0, len(self), size)]

    def abs(self):
        return Tensor(abs(value) for value in self)

    def sum(self):
        return Scalar(builtin_sum(self))

    def min(self):
        return Scalar(min(self))

    def max(self):
        return Scalar(max(self))


def device(name):
    return name


def iinfo(dtype):
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
    return Tensor(random.random() for _ in range(size_allowed(n)))


def randint(low, high, shape, dtype, device):
    return Tensor(random.randrange(low, high) for _ in range(size_allowed(shape[0])))


def empty(shape, dtype, device):
    return Scalar()


builtin_sum = sum


def sum(values, dim, dtype, out):
    total = builtin_sum(values) + WRONG
    if not dtype.is_floating_point:
        total = (total - dtype.min) % (1 << dtype.bits) + dtype.min
    out.value = total


def amin(values, dim, out):
    out.value = min(values) + WRONG


def amax(values, dim, out):
    out.value = max(values) + WRONG


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
