"""Where arrays come from, and where their results go: NumPy, PyTorch, CuPy, or the package's own `Array`.

A home borrows or uploads what it is given, has room for results, and makes arrays of them that belong to the
same library. The arithmetic of `_finish.py` is done on those.
"""

import contextlib
import functools
import sys

import numpy

from . import _native

# The kinds of memory that DLPack knows and that are reduced in place: CUDA, managed by CUDA, and the
# simulator's.
_ON_DEVICE = (2, 13, 12)

_TYPES = frozenset(_native.types())


def _handle(stream):
    """The handle of a stream that a caller gives."""
    if stream is None:
        return None
    if isinstance(stream, int):
        handle = stream
    elif hasattr(stream, "cuda_stream"):
        handle = stream.cuda_stream
    elif hasattr(stream, "ptr"):
        handle = stream.ptr
    elif hasattr(stream, "__cuda_stream__"):
        handle = stream.__cuda_stream__()[1]
    else:
        raise TypeError(
            f"stream of type {type(stream).__name__}; it must be a handle, or an object with `cuda_stream`, `ptr` or "
            "`__cuda_stream__`"
        )
    if handle < 0:
        raise ValueError(f"stream {handle}; a handle is 0 or more; give that of a stream of the array's device")
    return handle


def _open(device):
    """The device of a name, or the device itself."""
    if isinstance(device, _native.Device):
        return device
    if not isinstance(device, str):
        raise TypeError(f"device of type {type(device).__name__}; it must be a name such as 'cuda:0', or a Device")
    return _native.open(device)


@functools.lru_cache(maxsize=None)
def _own(kind, number):
    return _native.open(f"{'sim' if kind == 12 else 'cuda'}:{number}")


def _of_memory(kind, number, device):
    """The device that memory is on, which must be the one that is asked for, if any is."""
    own = _own(kind, number)
    if device is not None and _open(device) != own:
        raise ValueError(f"device {device} for an array on {own}; leave the device out, or move the array there")
    return own


def _lent(values, device, stream):
    """An array in device memory as an `Array`, for work on a stream."""
    if isinstance(values, _native.Array):
        _of_memory(*values.__dlpack_device__(), device)
        return values
    if hasattr(values, "__dlpack_device__"):
        own = _of_memory(*values.__dlpack_device__(), device)
        # The default stream is 1 there.
        return _native.borrow_dlpack(own, values.__dlpack__(stream=stream or 1))
    interface = values.__cuda_array_interface__
    # The interface does not say which device it is; there is one, unless a device is given.
    own = _open("cuda:0" if device is None else device)
    return _native.borrow_cuda_array(own, values, interface, stream)


def _is_on_device(values):
    if isinstance(values, _native.Array):
        return True
    if hasattr(values, "__dlpack_device__"):
        return values.__dlpack_device__()[0] in _ON_DEVICE
    return hasattr(values, "__cuda_array_interface__")


#: What to do with elements that no function takes, by NumPy's letter for their kind.
_ADVICE = {
    "c": "reduce `.real` and `.imag` one after the other",
    "f": "round them first, as by `astype('float64')`",
    "m": "reduce `.view('int64')`, where NaT is the least integer",
    "M": "reduce `.view('int64')`, where NaT is the least integer",
    "O": "if each is a number, give `numpy.asarray(values, 'float64')`",
    "V": "reduce one field, `values['name']`, or a `view` of one of these types",
}


def _is_masked(values):
    """Returns whether elements of an array, or of the arrays in a list, are masked."""
    if isinstance(values, (list, tuple)):
        # A list of numbers is not looked into one by one.
        return not set(map(type, values)) <= {bool, float, int} and any(map(_is_masked, values))
    if isinstance(values, numpy.ndarray):
        # NumPy's masked arrays have one, and so have astropy's.
        mask = None if type(values) is numpy.ndarray else getattr(values, "mask", None)
        return mask is not None and bool(numpy.any(mask))
    interface = getattr(values, "__array_interface__", None)
    # PyTorch's masked tensors have the method.
    return hasattr(values, "get_mask") or isinstance(interface, dict) and interface.get("mask") is not None


def refuse_masked(values, what):
    """Refuses an array with masked elements: its memory does not tell them from the others."""
    if _is_masked(values):
        raise ValueError(
            f"{what} with masked elements; masks are not looked at; give the others alone, as by `compressed()`, or "
            "put a number that changes nothing in their place, as by `filled(0)`"
        )


def _on_host(values, what):
    """Converts what the host has to a NumPy array of compact rows in the machine's order of bytes. Returns it and the
    name of its type where NumPy has none."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor) and values.dtype == torch.bfloat16:
        return numpy.asarray(values.view(torch.uint16).numpy(), order="C"), "bfloat16"
    given, values = values, numpy.asanyarray(values)
    dtype = values.dtype.newbyteorder("=")
    if dtype.name == "bfloat16":
        dtype, name = numpy.dtype("uint16"), "bfloat16"
        values = values.view(dtype)
    elif dtype.name in _TYPES:
        name = None
    else:
        advice = _ADVICE.get(dtype.kind, "convert them first, as by `astype('float64')`")
        raise TypeError(f"{what} of dtype {dtype}; there are {', '.join(_native.types())}; {advice}")
    refuse_masked(given, what)
    refuse_masked(values, what)
    # What is not contiguous is copied twice: to the device goes one piece.
    return numpy.asarray(values, dtype, order="C"), name


def _uploaded(values, device, what="values"):
    """What the host has, as an `Array`."""
    return _native.upload(_open("auto" if device is None else device), *_on_host(values, what))


def _numpys(dtype):
    """The type that NumPy has for elements of a type: of bfloat16 it is float32, which has every value of theirs."""
    return "float32" if dtype == "bfloat16" else dtype


def to_numpy(array):
    """A copy of an `Array` on the host, once its elements are there."""
    if array.dtype == "bfloat16":
        bits = numpy.frombuffer(array._bytes(), numpy.uint16).astype(numpy.uint32)
        return (bits << 16).view(numpy.float32).reshape(array.shape)
    return numpy.frombuffer(array._bytes(), array.dtype).reshape(array.shape)


def _compact(shape, step):
    """The strides of compact rows whose elements are a step apart."""
    strides = [step] * len(shape)
    for at in range(len(shape) - 1, 0, -1):
        strides[at - 1] = strides[at] * max(shape[at], 1)
    return strides


class Host:
    """NumPy's arrays, and whatever NumPy makes one of. Results are NumPy's arrays and scalars."""

    #: Whether sums of unsigned integers of less than 64 bits are unsigned, as NumPy has them.
    unsigned_sums = True

    def __init__(self, values, device, stream):
        if stream is not None:
            raise ValueError("a stream for an array on the host; streams are for arrays on a device; leave it out")
        self.array = _uploaded(values, device)
        self.stream = None

    def work(self):
        """What the calls of the array's library are made in."""
        return numpy.errstate(all="ignore")

    def offsets(self, offsets):
        """Offsets of segments on the array's device, and what says how long the segments are."""
        if not _is_on_device(offsets):
            array = _uploaded(offsets, self.array.device, "offsets")
        elif self.stream is None:
            raise ValueError("offsets on a device for values on the host; give both in one place")
        else:
            array = _lent(offsets, self.array.device, self.stream)
        return array, lambda: numpy.diff(to_numpy(array)).astype(numpy.float64)

    def transposed(self, order):
        """A compact copy of the array whose axes are in an order: through the host, which waits for it."""
        array = self.array
        # NumPy has no bfloat16, whose bits are moved as well.
        dtype = "uint16" if array.dtype == "bfloat16" else array.dtype
        bits = numpy.frombuffer(array._bytes(), dtype).reshape(array.shape)
        copy = numpy.ascontiguousarray(bits.transpose(order))
        return _native.upload(array.device, copy, None)._view(array.dtype, copy.shape, None, 0)

    def room(self, dtype, count):
        """Memory of the library for so many values, and what the kernel is told of it."""
        return None, None

    def views(self, raw, room, dtype, shape, places, computes):
        """What the kernel has left, as arrays of a shape: of each place a step and a start. `computes` says whether
        something is computed with them."""
        flat = to_numpy(raw if raw.dtype == dtype else raw._view(dtype, raw.shape, None, 0))
        return [flat[start::step].reshape(shape) for step, start in places]

    def cast(self, array, dtype):
        return array.astype(_numpys(dtype), copy=False)

    def full(self, shape, value, dtype):
        return numpy.full(shape, value).astype(_numpys(dtype))

    def maximum(self, a, b):
        return numpy.maximum(a, b)

    def minimum(self, a, b):
        return numpy.minimum(a, b)

    def where(self, condition, a, b):
        return numpy.where(condition, a, b)

    def sqrt(self, a):
        return numpy.sqrt(a)

    def done(self, array):
        """The result as it is returned: of no dimensions a scalar, as from NumPy's own functions."""
        return array[()]


class Memory(Host):
    """Arrays in device memory that are no framework's. Results are an `Array` there. What is computed with the
    values of a kernel is computed on the host, which waits for them."""

    def __init__(self, values, device, stream):
        self.stream = _handle(stream) or 0
        self.array = _lent(values, device, self.stream)

    def views(self, raw, room, dtype, shape, places, computes):
        if computes:
            return super().views(raw, room, dtype, shape, places, computes)
        return [raw._view(dtype, shape, _compact(shape, step), start) for step, start in places]

    def done(self, array):
        if isinstance(array, _native.Array):
            return array
        return _native.upload(self.array.device, numpy.asarray(array, order="C"))


def _current_stream(torch, place):
    """The handle of PyTorch's current stream. Triton asks for it in the same way: to make the stream's object takes
    longer than to ask."""
    ask = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return torch.cuda.current_stream(place).cuda_stream if ask is None else ask(place.index)


def _plain(torch, values, device):
    """A tensor as an `Array`, by what it says of itself, if nothing forbids that: DLPack's protocol, which has the last
    word on all others, takes longer than a reduction."""
    dtype = str(values.dtype).rpartition(".")[2]
    if (
        type(values) is not torch.Tensor
        or dtype not in _TYPES
        or values.layout is not torch.strided
        or values.requires_grad
        or values.numel() == 0
    ):
        return None
    own = _of_memory(2, values.device.index, device)
    return _native.borrow_tensor(own, values, values.data_ptr(), dtype, values.shape, values.stride())


class Torch(Host):
    """PyTorch's tensors on a GPU. Results are its tensors there, in its memory, on its current stream."""

    unsigned_sums = False

    def __init__(self, values, device, stream):
        self.torch = torch = sys.modules["torch"]
        self.place = values.device
        handle = _handle(stream)
        # Of a negative view, such as the imaginary part of conjugate numbers, DLPack lends the memory, whose signs are
        # the other ones.
        self.values = values = values.resolve_neg()
        self.array = None
        if handle is None:
            self.given = None
            self.stream = _current_stream(torch, self.place)
            # What PyTorch has enqueued on this stream comes before.
            self.array = _plain(torch, values, device)
        else:
            self.given = torch.cuda.ExternalStream(handle, device=self.place)
            self.stream = handle
        if self.array is None:
            self.array = _lent(values, device, self.stream)

    def work(self):
        # Results are allocated for the stream that they are computed on.
        return contextlib.nullcontext() if self.given is None else self.torch.cuda.stream(self.given)

    def offsets(self, offsets):
        if not isinstance(offsets, self.torch.Tensor):
            offsets = self.torch.as_tensor(offsets)
        offsets = offsets.to(self.place)
        return _lent(offsets, self.array.device, self.stream), lambda: offsets.diff().to(self.torch.float64)

    def transposed(self, order):
        return _lent(self.values.permute(order).contiguous(), self.array.device, self.stream)

    def room(self, dtype, count):
        room = self.torch.empty(count, dtype=getattr(self.torch, dtype), device=self.place)
        return room, (room.data_ptr(), room)

    def views(self, raw, room, dtype, shape, places, computes):
        room = room.view(getattr(self.torch, dtype))
        return [room.as_strided(shape, _compact(shape, step), start) for step, start in places]

    def cast(self, array, dtype):
        return array.to(getattr(self.torch, dtype))

    def full(self, shape, value, dtype):
        return self.torch.full(shape, value, device=self.place).to(getattr(self.torch, dtype))

    def maximum(self, a, b):
        return self.torch.maximum(a, b)

    def minimum(self, a, b):
        return self.torch.minimum(a, b)

    def where(self, condition, a, b):
        return self.torch.where(condition, a, b)

    def sqrt(self, a):
        return self.torch.sqrt(a)

    def done(self, array):
        return array.contiguous()


class _Handle:
    """A stream as the protocol of CUDA's Python libraries has it."""

    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return 0, self.handle


def _cupys(stream, handle, device):
    """CuPy's object of a stream: its own as it is."""
    cupy = sys.modules["cupy"]
    if isinstance(stream, cupy.cuda.Stream):
        return stream
    if hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.Stream.from_external(_Handle(handle))
    return cupy.cuda.ExternalStream(handle, device)


class CuPy(Host):
    """CuPy's arrays. Results are its arrays, in its memory, on its current stream."""

    def __init__(self, values, device, stream):
        self.cupy = cupy = sys.modules["cupy"]
        self.values, self.place = values, values.device
        handle = _handle(stream)
        if handle is None:
            self.given = None
            with self.place:
                self.stream = cupy.cuda.get_current_stream().ptr
        else:
            self.given = _cupys(stream, handle, self.place.id)
            self.stream = handle
        self.array = _lent(values, device, self.stream)

    @contextlib.contextmanager
    def work(self):
        with self.place, self.given or contextlib.nullcontext():
            yield

    def offsets(self, offsets):
        offsets = self.cupy.asarray(offsets)
        return _lent(offsets, self.array.device, self.stream), lambda: self.cupy.diff(offsets).astype("float64")

    def transposed(self, order):
        return _lent(self.cupy.ascontiguousarray(self.values.transpose(order)), self.array.device, self.stream)

    def room(self, dtype, count):
        room = self.cupy.empty(count, dtype)
        return room, (room.data.ptr, room)

    def views(self, raw, room, dtype, shape, places, computes):
        room, count = room.view(dtype), numpy.prod(shape, dtype=int)
        return [room[start::step][:count].reshape(shape) for step, start in places]

    def full(self, shape, value, dtype):
        return self.cupy.full(shape, value).astype(dtype)

    def maximum(self, a, b):
        return self.cupy.maximum(a, b)

    def minimum(self, a, b):
        return self.cupy.minimum(a, b)

    def where(self, condition, a, b):
        return self.cupy.where(condition, a, b)

    def sqrt(self, a):
        return self.cupy.sqrt(a)

    def done(self, array):
        return self.cupy.ascontiguousarray(array).reshape(array.shape)


def of(values):
    """The home of what a caller gives."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(values, torch.Tensor):
        if type(values) is not torch.Tensor:
            refuse_masked(values, "values")
        return Torch if values.is_cuda else Host
    if cupy is not None and isinstance(values, cupy.ndarray):
        return CuPy
    return Memory if _is_on_device(values) else Host


def asarray(values, device=None):
    """An array in device memory as a `warpfold.Array`, to be reduced more than once, or given to other libraries.

    What is on a device already is borrowed as it is, on the default stream; what is on the host is copied, to
    `device`."""
    if _is_on_device(values):
        return _lent(values, device, 0)
    return _uploaded(values, device)
