"""The libraries of arrays: NumPy, PyTorch, CuPy, or the package's own `Array`.

A home is the class for one of them. It borrows or uploads an array, allocates results, and returns them as arrays of the
same library.
"""

import collections.abc
import contextlib
import functools
import math
import sys

import numpy

from . import _cpu, _native
from ._cpu import stored

#: DLPack's device type of CUDA.
_CUDA = 2

# DLPack's device types whose memory is reduced in place: CUDA, CUDA managed memory, and the simulator (an
# extension device).
_ON_DEVICE = (_CUDA, 13, 12)

TYPES = _native.types()

#: Types for which PyTorch lacks operations, and the types for which it has them.
SIGNED = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}


def _handle(stream):
    """Returns the handle of a caller's stream."""
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
    """Returns the device of a name; a device itself is returned as it is."""
    if isinstance(device, _native.Device):
        return device
    if device == "cpu":
        raise ValueError(
            "device 'cpu' for an `Array` or an array on a device; the CPU reduces arrays on the host: give one, such as "
            "`array.numpy()`, to a function, or give 'auto', 'cuda' or 'sim'"
        )
    if not isinstance(device, str):
        raise TypeError(f"device of type {type(device).__name__}; it must be a name such as 'cuda:0', or a Device")
    return _native.open(device)


@functools.lru_cache(maxsize=None)
def _own(kind, number):
    return _native.open(f"{'sim' if kind == 12 else 'cuda'}:{number}")


def _of_memory(kind, number, device):
    """Returns the device of memory; raises an error if the caller asked for another one."""
    own = _own(kind, number)
    if device is not None and _open(device) != own:
        raise ValueError(f"device {device} for an array on {own}; leave the device out, or move the array there")
    return own


def full_tensor(torch, shape, value, dtype, device):
    """Returns a tensor of one value, which is rounded to the type once and may overflow to an infinity."""
    exact = torch.float64 if dtype.is_floating_point else dtype
    return torch.full(shape, value, dtype=exact, device=device).to(dtype)


def _lent(values, device, stream):
    """Returns an `Array` over an array in device memory, for work on a stream."""
    if isinstance(values, _native.Array):
        _of_memory(*values.__dlpack_device__(), device)
        return values
    if hasattr(values, "__dlpack_device__"):
        own = _of_memory(*_memory_of(values), device)
        # The default stream is 1 there.
        return _native.borrow_dlpack(own, values, stream or 1)
    interface = values.__cuda_array_interface__
    # The interface does not name the device; it is the first one, unless the caller names another.
    own = _open("cuda:0" if device is None else device)
    return _native.borrow_cuda_array(own, values, interface, stream)


def _memory_of(values):
    """Returns DLPack's type and number of an array's device."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor) and values.is_cuda:
        # Dynamo, which traces this if the caller's code has been broken before, cannot trace DLPack's method.
        return _CUDA, values.get_device()
    return values.__dlpack_device__()


def is_on_device(values):
    """Returns whether an array is in device memory, which may be the simulator's."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        return values.is_cuda
    if isinstance(values, _native.Array):
        return True
    if hasattr(values, "__dlpack_device__"):
        return _memory_of(values)[0] in _ON_DEVICE
    return hasattr(values, "__cuda_array_interface__")


#: Advice for elements of unsupported types, by NumPy's `dtype.kind`.
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
        # The elements of a list of plain numbers are not examined one by one.
        return not set(map(type, values)) <= {bool, float, int} and any(map(_is_masked, values))
    if isinstance(values, numpy.ndarray):
        # NumPy's and astropy's masked arrays have the attribute.
        mask = None if type(values) is numpy.ndarray else getattr(values, "mask", None)
        return mask is not None and bool(numpy.any(mask))
    interface = getattr(values, "__array_interface__", None)
    # PyTorch's masked tensors have the method.
    return hasattr(values, "get_mask") or isinstance(interface, dict) and interface.get("mask") is not None


def refuse_masked(values, what):
    """Raises an error for an array with masked elements, which its memory does not mark."""
    if _is_masked(values):
        raise ValueError(
            f"{what} must not have masked elements; give only the other elements, for example by `compressed()`, or "
            "replace the masked ones by a number that changes nothing, for example by `filled(0)`"
        )


def _on_host(values, what):
    """Converts an array on the host to a C-contiguous NumPy array in native byte order. Returns it, and the name of
    its type if NumPy lacks that type."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor) and values.dtype == torch.bfloat16:
        return numpy.asarray(values.view(torch.uint16).numpy(), order="C"), "bfloat16"
    if isinstance(values, collections.abc.Iterator):
        raise TypeError(f"{what} of type {type(values).__name__}, which can be read only once; give a list or an array")
    given, values = values, numpy.asanyarray(values)
    dtype = values.dtype.newbyteorder("=")
    if dtype.name == "bfloat16":
        dtype, name = numpy.dtype("uint16"), "bfloat16"
        values = values.view(dtype)
    elif dtype.name in TYPES:
        name = None
    else:
        advice = _ADVICE.get(dtype.kind, "convert them first, as by `astype('float64')`")
        raise TypeError(f"{what} of dtype {dtype}; there are {', '.join(TYPES)}; {advice}")
    refuse_masked(given, what)
    refuse_masked(values, what)
    # An array that is not contiguous is copied twice, because the upload takes one contiguous range.
    return numpy.asarray(values, dtype, order="C"), name


def _uploaded(values, device, what="values"):
    """Uploads an array of the host; returns an `Array`."""
    return _native.upload(_open("auto" if device is None else device), *_on_host(values, what))


def _held(values, device, what="values"):
    """Returns an array of the host for its kernels: uploaded, or as it is for the CPU."""
    return _cpu.elements(*_on_host(values, what)) if device == "cpu" else _uploaded(values, device, what)


def numpys(dtype):
    """Returns the NumPy type for elements of a type: float32 for bfloat16, whose values it contains."""
    return "float32" if dtype == "bfloat16" else dtype


def _floats_of(bits):
    """Returns bfloat16 elements, given as uint16, as float32."""
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32)


def to_numpy(array):
    """Copies an `Array` to the host, after the work that writes its elements."""
    if array.dtype == "bfloat16":
        return _floats_of(numpy.frombuffer(array._bytes(), numpy.uint16)).reshape(array.shape)
    return numpy.frombuffer(array._bytes(), array.dtype).reshape(array.shape)


def restored(elements, dtype, shape, device):
    """Returns an `Array` that has been pickled: on the device of that name, or if there is none, on the simulator's
    first one for the simulator's, else on the default one."""
    try:
        place = _native.open(device)
    except _native.Error:
        place = _native.open("sim" if device.startswith("sim") else "auto")
    return _native.upload(place, numpy.frombuffer(elements, stored(dtype)).reshape(shape), dtype)


def compact(shape):
    """Returns the strides of a C-contiguous array."""
    strides = [1] * len(shape)
    for at in range(len(shape) - 1, 0, -1):
        strides[at - 1] = strides[at] * max(shape[at], 1)
    return strides


class Host:
    """NumPy's arrays, and all that `numpy.asanyarray` accepts. Results are NumPy's arrays and scalars."""

    #: True if sums of unsigned integers of less than 64 bits are unsigned, as NumPy's are.
    unsigned_sums = True

    #: Allocates memory of the graph into which the stream is captured, like `room`; `None` if no call can be captured.
    allocate = None

    def __init__(self, values, device, stream):
        if stream is not None:
            raise ValueError("a stream for an array on the host; streams are for arrays on a device; leave it out")
        self.array = _held(values, device)
        self.stream = None

    @property
    def kernels(self):
        """The module of the reductions."""
        return _cpu if isinstance(self.array, _cpu.Elements) else _native

    def work(self):
        """Returns the context manager for calls of the array's library."""
        return numpy.errstate(all="ignore")

    def offsets(self, offsets):
        """Returns the offsets of segments as an `Array` on the array's device."""
        if not is_on_device(offsets):
            return _held(offsets, self.array.device, "offsets")
        if self.stream is None:
            raise ValueError("offsets on a device for values on the host; give both in one place")
        return _lent(offsets, self.array.device, self.stream)

    def transposed(self, order):
        """Returns a contiguous copy of the array with its axes in this order. Waits: the copy is made on the host."""
        array = self.array
        if isinstance(array, _cpu.Elements):
            return array.transposed(order)
        bits = numpy.frombuffer(array._bytes(), stored(array.dtype)).reshape(array.shape)
        copy = numpy.ascontiguousarray(bits.transpose(order))
        return _native.upload(array.device, copy, None)._view(array.dtype, copy.shape, None, 0)

    def room(self, dtype, count):
        """Allocates memory of the library for `count` values. Returns it, and its address and owner for the kernel;
        `None` twice if warpfold allocates."""
        return None, None

    def views(self, raw, room, dtype, shape, strides, starts, computes):
        """Returns the values that the kernel has written as arrays of a shape, one from each of the starts on.
        `computes` states whether further operations use them."""
        flat = to_numpy(raw if raw.dtype == dtype else raw._view(dtype, raw.shape, None, 0))
        strides = [stride * flat.itemsize for stride in strides]
        return [numpy.ndarray(shape, flat.dtype, flat[start:], 0, strides) for start in starts]

    def cast(self, array, dtype):
        return array.astype(numpys(dtype), copy=False)

    def full(self, shape, value, dtype):
        return numpy.full(shape, value).astype(numpys(dtype))

    def maximum(self, a, b):
        return numpy.maximum(a, b)

    def fmax(self, a, b):
        return numpy.fmax(a, b)

    def minimum(self, a, b):
        return numpy.minimum(a, b)

    def fmin(self, a, b):
        return numpy.fmin(a, b)

    def where(self, condition, a, b):
        return numpy.where(condition, a, b)

    def done(self, array, dtype):
        """Returns a result of a type in the form for the caller: a scalar if it has no dimensions, as NumPy's functions
        do."""
        return array[()]


class Memory(Host):
    """Arrays in device memory of any other library. A result is an `Array` on the device. Operations on a kernel's
    values, such as `initial`, are done on the host, which waits for them."""

    def __init__(self, values, device, stream):
        self.stream = _handle(stream) or 0
        self.array = _lent(values, device, self.stream)

    def views(self, raw, room, dtype, shape, strides, starts, computes):
        if computes:
            return super().views(raw, room, dtype, shape, strides, starts, computes)
        return [raw._view(dtype, shape, strides, start) for start in starts]

    def done(self, array, dtype):
        if isinstance(array, _native.Array):
            return array
        return _native.upload(self.array.device, numpy.asarray(array, order="C"))


def _current_stream(torch, place):
    """Returns the handle of PyTorch's current stream by the private function that Triton uses, too: creating a stream
    object takes longer."""
    ask = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return torch.cuda.current_stream(place).cuda_stream if ask is None else ask(place.index)


def _plain(torch, values, device):
    """Returns an `Array` over a plain tensor, by its attributes; `None` for other tensors, which are borrowed by DLPack's
    protocol. That takes longer than a reduction."""
    dtype = str(values.dtype).rpartition(".")[2]
    if (
        type(values) is not torch.Tensor
        or dtype not in TYPES
        or values.layout is not torch.strided
        or values.requires_grad
        or values.numel() == 0
    ):
        return None
    own = _of_memory(2, values.device.index, device)
    return _native.borrow_tensor(own, values, values.data_ptr(), dtype, values.shape, values.stride())


def _readable(torch, values):
    """Returns a tensor whose memory has the values, with strides above zero."""
    if values.requires_grad and torch.is_grad_enabled() or torch._C._functorch.is_functorch_wrapped_tensor(values):
        raise ValueError(
            "values that PyTorch differentiates or transforms, which this function does not support; call `detach()` first"
        )
    # DLPack exports the memory of a negative view, such as the imaginary part of conjugate numbers, which has the
    # opposite signs.
    values = values.detach().resolve_neg()
    if values._is_zerotensor():
        # It has no memory.
        return torch.zeros(values.shape, dtype=values.dtype, device=values.device)
    if values.layout is torch.strided and not values.is_nested and 0 in values.stride():
        return values.contiguous()
    return values


class Torch(Host):
    """PyTorch's tensors on a GPU. Results are tensors of PyTorch's allocator, written on its current stream."""

    unsigned_sums = False

    def __init__(self, values, device, stream):
        self.torch = torch = sys.modules["torch"]
        self.place = values.device
        handle = _handle(stream)
        self.values = values = _readable(torch, values)
        self.array = None
        if handle is None:
            self.given = None
            self.stream = _current_stream(torch, self.place)
            # Work that PyTorch has enqueued on this stream runs first, so the tensor can be read as it is.
            self.array = _plain(torch, values, device)
        else:
            self.given = torch.cuda.ExternalStream(handle, device=self.place)
            self.stream = handle
            # `values` may be a copy, which nothing else keeps if the stream is captured.
            values.record_stream(self.given)
        if self.array is None:
            self.array = _lent(values, device, self.stream)

    def work(self):
        # PyTorch allocates for its current stream, which must be the one that writes the results.
        return contextlib.nullcontext() if self.given is None else self.torch.cuda.stream(self.given)

    def offsets(self, offsets):
        if not isinstance(offsets, self.torch.Tensor):
            offsets = self.torch.as_tensor(offsets)
        offsets = offsets.to(self.place)
        return _lent(offsets, self.array.device, self.stream)

    def transposed(self, order):
        return _lent(self.values.permute(order).contiguous(), self.array.device, self.stream)

    def room(self, dtype, count):
        room = self.torch.empty(count, dtype=getattr(self.torch, dtype), device=self.place)
        return room, (room.data_ptr(), room)

    allocate = room

    def views(self, raw, room, dtype, shape, strides, starts, computes):
        room = room.view(getattr(self.torch, dtype))
        return [room.as_strided(shape, strides, start) for start in starts]

    def cast(self, array, dtype):
        return array.to(getattr(self.torch, dtype))

    def full(self, shape, value, dtype):
        return full_tensor(self.torch, shape, value, getattr(self.torch, dtype), self.place)

    def _extreme(self, choose, a, b):
        unsigned, signed = a.dtype, SIGNED.get(str(a.dtype).rpartition(".")[2])
        if signed is None:
            return choose(a, b)
        # With the highest bit flipped, unsigned numbers have the order of signed ones.
        signed = getattr(self.torch, signed)
        least = self.torch.iinfo(signed).min
        a, b = (one.view(signed) ^ least for one in (a, b))
        return (choose(a, b) ^ least).view(unsigned)

    def maximum(self, a, b):
        return self._extreme(self.torch.maximum, a, b)

    def fmax(self, a, b):
        return self._extreme(self.torch.fmax, a, b)

    def minimum(self, a, b):
        return self._extreme(self.torch.minimum, a, b)

    def fmin(self, a, b):
        return self._extreme(self.torch.fmin, a, b)

    def where(self, condition, a, b):
        return self.torch.where(condition, a, b)

    def done(self, array, dtype):
        return array


class TorchHost(Host):
    """PyTorch's tensors on the host. Results are tensors on the host, computed by NumPy."""

    unsigned_sums = False

    def __init__(self, values, device, stream):
        self.torch = sys.modules["torch"]
        super().__init__(_readable(self.torch, values), device, stream)

    def done(self, array, dtype):
        return self.torch.from_numpy(numpy.array(array)).to(getattr(self.torch, dtype))


class _Handle:
    """A stream by the protocol of CUDA's Python libraries."""

    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return 0, self.handle


def _cupys(stream, handle, device):
    """Returns CuPy's object for a stream; CuPy's own streams are returned as they are."""
    cupy = sys.modules["cupy"]
    if isinstance(stream, cupy.cuda.Stream):
        return stream
    if hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.Stream.from_external(_Handle(handle))
    return cupy.cuda.ExternalStream(handle, device)


class CuPy(Host):
    """CuPy's arrays on a GPU. Results are arrays of CuPy's allocator, written on its current stream."""

    def __init__(self, values, device, stream):
        self.cupy = cupy = sys.modules["cupy"]
        self.place = values.device
        with self.place:
            # The kernels of the library read strides above zero.
            is_served = min(values.strides, default=1) > 0
            self.values = values = values if is_served else cupy.ascontiguousarray(values)
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
        return _lent(offsets, self.array.device, self.stream)

    def transposed(self, order):
        return _lent(self.cupy.ascontiguousarray(self.values.transpose(order)), self.array.device, self.stream)

    def room(self, dtype, count):
        room = self.cupy.empty(count, dtype)
        return room, (room.data.ptr, room)

    def views(self, raw, room, dtype, shape, strides, starts, computes):
        room = room.view(dtype)
        strides = [stride * room.itemsize for stride in strides]
        return [self.cupy.lib.stride_tricks.as_strided(room[start:], shape, strides) for start in starts]

    def full(self, shape, value, dtype):
        return self.cupy.full(shape, value).astype(dtype)

    def maximum(self, a, b):
        return self.cupy.maximum(a, b)

    def fmax(self, a, b):
        return self.cupy.fmax(a, b)

    def minimum(self, a, b):
        return self.cupy.minimum(a, b)

    def fmin(self, a, b):
        return self.cupy.fmin(a, b)

    def where(self, condition, a, b):
        return self.cupy.where(condition, a, b)

    def done(self, array, dtype):
        return array


def of(values):
    """Returns the home of a caller's array."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(values, torch.Tensor):
        if type(values) is not torch.Tensor:
            refuse_masked(values, "values")
        return Torch if values.is_cuda else TorchHost
    if cupy is not None and isinstance(values, cupy.ndarray):
        return CuPy
    return Memory if is_on_device(values) else Host


def _kind_of_several(values):
    """Returns PyTorch's or CuPy's class of arrays if a list or tuple has one of them, else `None`."""
    if not isinstance(values, (list, tuple)):
        return None
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    for one in values:
        if torch is not None and isinstance(one, torch.Tensor):
            return torch.Tensor
        if cupy is not None and isinstance(one, cupy.ndarray):
            return cupy.ndarray
        if isinstance(one, (bool, int, float)):
            return None
    return None


def are_several(values):
    """Returns whether values are a list or tuple with PyTorch's tensors or CuPy's arrays."""
    return _kind_of_several(values) is not None


def joined(values):
    """Returns one array with the elements of several tensors or arrays, one after the other."""
    kind = _kind_of_several(values)
    torch = sys.modules.get("torch")
    is_torch = torch is not None and kind is torch.Tensor
    first = values[0]
    for at, one in enumerate(values):
        if one is None:
            raise TypeError(f"element {at} of the list is None, as the gradient of an unused parameter; leave it out")
        if not isinstance(one, kind):
            raise TypeError(f"element {at} of the list is of type {type(one).__name__}; all must be {kind.__name__}")
        if is_torch and type(one) not in (torch.Tensor, torch.nn.Parameter):
            refuse_masked(one, f"element {at} of the list")
        if is_torch and (one.layout is not torch.strided or one.is_nested):
            kind_of_layout = "nested" if one.is_nested else str(one.layout)
            raise TypeError(f"element {at} of the list is {kind_of_layout}; give dense tensors, for example by `to_dense()`")
        if one.dtype != first.dtype:
            raise TypeError(
                f"element {at} of the list is {one.dtype}, element 0 is {first.dtype}; all must have one type; convert one"
            )
        if one.device != first.device:
            raise ValueError(
                f"element {at} of the list is on {one.device}, element 0 on {first.device}; move them to one device"
            )
    if len(values) == 1:
        return first
    if is_torch:
        return torch.cat([one.reshape(-1) for one in values])
    with first.device:
        return sys.modules["cupy"].concatenate([one.reshape(-1) for one in values])


def loaded(values, device):
    """Returns an array of no other library as an `Array` if it is on a device, else as a NumPy array."""
    if is_on_device(values):
        return _lent(values, device, 0)
    array, name = _on_host(values, "values")
    return array if name is None else _floats_of(array)


def asarray(values, device=None):
    """Returns a `warpfold.Array` over an array, to reduce it more than once or to pass it to other libraries.

    An array on a device is borrowed in place, on the default stream; an array on the host is copied to `device`."""
    if is_on_device(values):
        return _lent(values, device, 0)
    return _uploaded(values, device)
