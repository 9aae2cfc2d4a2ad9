"""Arrays in device memory: results that stay on the device, and other libraries' arrays, which are reduced in place on
any stream and kept alive until the kernels have read them."""

import copy
import ctypes
import gc
import operator
import os
import pickle
import subprocess
import sys
import threading
import time
import weakref

import numpy
import pytest

import warpfold
from conftest import DEVICE, ROWS, TYPES, same, small
from warpfold import _native
from oracle import ORACLES
from test_functions import takes


def pointer(capsule, name=b"dltensor"):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)


def address(array):
    """Returns the address of an array's first element, which is the first field of its DLTensor."""
    capsule = array.__dlpack__()
    return ctypes.c_uint64.from_address(pointer(capsule)).value


class DlpackExporter:
    """Another library's array, which exports DLPack capsules and records the streams that they are requested for."""

    def __init__(self, values, version=None, view=None):
        self.array = warpfold.asarray(values)
        if view is not None:
            self.array = self.array._view(*view)
        self.version = version
        self.streams = []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream, max_version=self.version)


class Interface:
    """Another library's array with the CUDA array interface. `changes` replaces entries of the interface."""

    def __init__(self, values, **changes):
        self.array = warpfold.asarray(values)
        self.changes = changes

    @property
    def __cuda_array_interface__(self):
        typestr = numpy.dtype(self.array.dtype).str
        data = (address(self.array), False)
        described = {"shape": self.array.shape, "typestr": typestr, "data": data, "version": 3, "strides": None}
        return {**described, **self.changes}


@pytest.mark.parametrize("name", ROWS)
def test_results_of_device_arrays_are_device_arrays(name):
    dtype = "int32" if takes(name, "int32") else "float32"
    values = small(dtype, (30, 7))
    array = warpfold.asarray(values)
    assert (array.shape, array.dtype, array.ndim, array.size, len(array)) == ((30, 7), dtype, 2, 210, 30)
    check_on_device(name, array, values, (None, 0, 1))
    # With two dimensions, wrong strides of the results show.
    values = small(dtype, (4, 5, 6))
    check_on_device(name, warpfold.asarray(values), values, (1,))


def check_on_device(name, array, values, axes):
    for axis in axes:
        results = getattr(warpfold, name)(array, axis)
        expected = getattr(warpfold, name)(values, axis)
        pairs = zip(results, expected) if ROWS[name].pair else [(results, expected)]
        for result, other in pairs:
            assert isinstance(result, warpfold.Array) and result.device == DEVICE
            same(result.numpy()[()], other, f"{name} {axis}")


def test_result_arrays_can_be_reduced_before_they_are_ready():
    values = small("int32", (300, 70))
    rows = warpfold.sum(warpfold.asarray(values), axis=1)
    same(warpfold.max(rows).numpy()[()], values.sum(axis=1, dtype="int64").max())
    rows.synchronize()


def test_segments_of_device_arrays():
    values, offsets = small("float32", 100), numpy.array([0, 3, 3, 60, 100])
    for segment_offsets in (offsets, warpfold.asarray(offsets), DlpackExporter(offsets)):
        for name in ("sum", "mean", "all"):
            function = getattr(warpfold, f"segment_{name}")
            got = function(warpfold.asarray(values), segment_offsets)
            assert isinstance(got, warpfold.Array)
            same(got.numpy(), function(values, offsets), name)


def test_results_of_a_pair_are_contiguous():
    values = small("float32", (20, 50))
    least, greatest = warpfold.aminmax(warpfold.asarray(values), axis=1)
    same(least.numpy(), numpy.min(values, axis=1))
    same(greatest.numpy(), numpy.max(values, axis=1))
    assert warpfold.count_within(greatest, 0, 9).item() == 20
    variances, means = warpfold.var_mean(warpfold.asarray(values), axis=0)
    assert warpfold.segment_sum(means, [0, 25, 50]).shape == (2,)
    same(variances.numpy(), warpfold.var(values, axis=0))


@pytest.mark.parametrize("version", [None, (1, 0), (1, 2)])
def test_dlpack_arrays_are_reduced_in_place(version):
    values = small("float64", (6, 5))
    exporter = DlpackExporter(values, version)
    result = warpfold.sum(exporter, axis=0)
    same(result.numpy(), values.sum(axis=0))
    # The imported array has the exporter's memory, and the capsules were requested for the stream that reads it:
    # 1 is CUDA's legacy default stream.
    assert address(warpfold.asarray(exporter)) == address(exporter.array)
    assert exporter.streams == [1, 1]
    warpfold.sum(exporter, stream=2)
    assert exporter.streams[2:] == [2]


class CountingExporter(DlpackExporter):
    """Counts the calls of the deleter of its tensor."""

    def __init__(self, values):
        super().__init__(values)
        self.returned = 0

    def __dlpack__(self, *, stream=None):
        # The deleter is at byte 56 of a DLManagedTensor. The new deleter calls the original one.
        self.capsule = self.array.__dlpack__(stream=stream)
        word = ctypes.c_void_p.from_address(pointer(self.capsule) + 56)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        original = kind(word.value)

        def deleter(tensor):
            self.returned += 1
            original(tensor)

        self.deleter = kind(deleter)
        word.value = ctypes.cast(self.deleter, ctypes.c_void_p).value
        return self.capsule


def test_imported_arrays_are_kept_until_they_have_been_read():
    values = small("int64", 5000)
    counted, interface = CountingExporter(values), Interface(values)
    alive = weakref.ref(interface)
    results = [warpfold.sum(counted), warpfold.sum(interface, device=DEVICE)]
    del interface
    gc.collect()
    if DEVICE.simulated:
        # The simulator has not started the enqueued kernels yet.
        assert counted.returned == 0 and alive() is not None
    for result in results:
        same(result.numpy()[()], values.sum())
    # A later call releases the imported arrays.
    warpfold.sum(values)
    gc.collect()
    assert counted.returned == 1 and alive() is None


def test_cuda_array_interface_arrays_are_reduced_in_place():
    for dtype in ("int32", "float16", "bool", "uint8", "float64"):
        values = small(dtype, (4, 300))
        imported = Interface(values)
        same(warpfold.sum(imported, 1, device=DEVICE).numpy(), warpfold.sum(values, 1))
    compact = Interface(values, strides=(2400, 8), stream=1)
    same(warpfold.max(compact, device=DEVICE).numpy()[()], values.max())
    columns = Interface(values, shape=(300, 2), strides=(8, 4800))
    same(warpfold.max(columns, 1, device=DEVICE).numpy(), values[::2].max(axis=0))


def test_unsupported_imported_arrays_are_refused(refused):
    values = small("float32", (4, 6))
    columns = DlpackExporter(values, view=("float32", [6, 4], [1, 6], 0))
    refused(ValueError, lambda: warpfold.segment_sum(columns, [0, 4]), "strides of (1, 6)", "contiguous()")
    refused(ValueError, lambda: warpfold.sum_within(columns), "(6, 4)", "of (1, 6)", "contiguous()")
    refused(ValueError, lambda: warpfold.sum_error_bound(columns), "strides of (1, 6)", "contiguous()")
    for strides in ((0, 4), (-24, 4), (25, 4), (24,)):
        apart = Interface(values, strides=strides)
        words = "(4, 6)", f"{strides} bytes", "multiples of 4", "ascontiguousarray"
        refused(ValueError, lambda: warpfold.sum(apart, device=DEVICE), *words)
    expanded = DlpackExporter(values)
    capsule = expanded.array.__dlpack__()
    strides = ctypes.c_uint64.from_address(pointer(capsule) + 32).value
    ctypes.c_int64.from_address(strides).value = 0
    expanded.__class__ = type("Expanded", (DlpackExporter,), {"__dlpack__": lambda self, stream=None: capsule})
    refused(ValueError, lambda: warpfold.sum(expanded), "[0, 1]", "above zero", "contiguous()")
    wide = Interface(values, typestr="<c8")
    refused(TypeError, lambda: warpfold.sum(wide, device=DEVICE), "<c8", "bool, int8", "convert")
    swapped = Interface(values, typestr=">f4")
    refused(TypeError, lambda: warpfold.sum(swapped, device=DEVICE), ">f4", "byte order")
    whole = warpfold.asarray(values)
    odd = Interface(values, data=(address(whole) + 1, False))
    refused(ValueError, lambda: warpfold.sum(odd, device=DEVICE), "multiples of 4")
    capsule = warpfold.asarray(values).__dlpack__()
    taken = DlpackExporter(values)
    taken.__class__ = type("Spent", (DlpackExporter,), {"__dlpack__": lambda self, stream=None: capsule})
    warpfold.sum(taken)
    refused(TypeError, lambda: warpfold.sum(taken), "consumed before")
    future = DlpackExporter(values, (1, 0))
    capsule = future.array.__dlpack__(max_version=(1, 0))
    ctypes.c_uint32.from_address(pointer(capsule, b"dltensor_versioned")).value = 9
    future.__class__ = type("Future", (DlpackExporter,), {"__dlpack__": lambda self, stream=None: capsule})
    refused(ValueError, lambda: warpfold.sum(future), "version 9.0", "must be 1")
    ctypes.c_uint32.from_address(pointer(capsule, b"dltensor_versioned")).value = 1


def test_borrow_tensor_reads_in_place_and_keeps_the_owner():
    class Owner:
        def __init__(self, array):
            self.array = array

    values = small("int32", (40, 30))
    owner = Owner(warpfold.asarray(values))
    device, first, gone = owner.array.device, address(owner.array), weakref.ref(owner)

    def borrowed(at, shape, strides):
        return _native.borrow_tensor(device, gone(), at, "int32", shape, strides)

    same(warpfold.sum(borrowed(first, (40, 30), (30, 1)), 0).numpy(), values.sum(0))
    # Every second column, from the third row on; then the transpose.
    same(warpfold.sum(borrowed(first + 4 * 60, (38, 15), (30, 2)), 1).numpy(), values[2:, ::2].sum(1))
    same(warpfold.max(borrowed(first, (30, 40), (1, 30)), 0).numpy(), values.max(1))
    # The stride of a dimension of one element is ignored.
    same(warpfold.max(borrowed(first, (1, 30), (-7, 1)), 0).numpy(), values[0])
    # Strides and addresses that `borrow_tensor` does not take.
    for at, strides in [(first, (0, 1)), (first, (30, -1)), (first, (30,)), (first + 2, (30, 1))]:
        assert borrowed(at, (40, 30), strides) is None
    imported = borrowed(first, (40, 30), (30, 1))
    del owner
    same(warpfold.sum(imported).numpy()[()], values.sum())
    assert gone() is not None
    del imported
    # A later call releases the owners whose kernels have finished.
    warpfold.sum(values)
    gc.collect()
    assert gone() is None


def test_exported_tensors_release_the_memory_once():
    values = small("uint8", 5000)
    counted = CountingExporter(values)
    array = warpfold.asarray(counted)
    for version in (None, (1, 0)):
        # A capsule that is dropped unused, and a capsule that is imported and whose array is then dropped.
        for _ in range(3):
            array.__dlpack__(max_version=version)
            taken = DlpackExporter(values, version)
            taken.array = array
            same(warpfold.sum(taken).numpy()[()], values.sum(dtype="uint64"))
    del taken
    warpfold.sum(values)
    assert counted.returned == 0
    del array
    gc.collect()
    assert counted.returned == 1


def test_one_of_several_threads_takes_the_tensor_of_a_capsule():
    counted = CountingExporter(small("uint8", 100))
    for _ in range(50):
        counted.returned = 0
        capsule = counted.__dlpack__()
        shared = DlpackExporter(small("uint8", 1))
        shared.__class__ = type("Shared", (DlpackExporter,), {"__dlpack__": lambda self, stream=None: capsule})
        start, taken = threading.Barrier(4), []

        def work():
            start.wait()
            try:
                taken.append(warpfold.asarray(shared))
            except TypeError as error:
                assert "consumed before" in str(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == 1 and counted.returned == 0
        taken.clear()
        gc.collect()
        assert counted.returned == 1


def test_unsupported_array_operations_are_refused(refused):
    array = warpfold.asarray(small("float32", (2, 3)))
    refused(BufferError, lambda: array.__dlpack__(copy=True), "copy is requested", "numpy()")
    refused(BufferError, lambda: array.__dlpack__(dl_device=(1, 0)), "device (1, 0) is requested", "numpy()")
    refused(ValueError, lambda: array.__dlpack__(stream=-2), "stream -2", "0 or more, or -1")
    refused(ValueError, lambda: array._view("float32", [4, 3], None, 0), "48", "24")
    refused(ValueError, lambda: array._view("float32", [1], None, 7), "28", "24")
    refused(TypeError, lambda: len(warpfold.sum(array)), "no dimensions", "item()")
    if DEVICE.simulated:
        assert array.__dlpack_device__() == (12, 0)
        refused(AttributeError, lambda: array.__cuda_array_interface__, "simulator", "numpy()")
    refused(ValueError, lambda: array.item(), "(2, 3)", "one element")
    refused(ValueError, lambda: numpy.asarray(array, copy=False), "needs a copy", "leave `copy` out")
    refused(TypeError, lambda: iter(warpfold.sum(array)), "no dimensions", "item()")
    refused(TypeError, lambda: {array: 1}, "unhashable")
    assert repr(array) == f"<warpfold.Array float32 [2, 3] on {DEVICE}>"


def test_concurrent_calls_from_several_threads():
    arrays = [small("float32", (50, 40), seed) for seed in range(4)]
    wrong = []

    def work(seed):
        for name in ("sum", "argmax", "var", "min"):
            for axis in (0, 1, None):
                values = arrays[seed % 4]
                got = getattr(warpfold, name)(values, axis)
                if not numpy.allclose(got, ORACLES[name](values, axis=axis), 1e-5):
                    wrong.append((name, axis))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_other_threads_run_while_a_result_is_waited_for():
    # On the simulator, where the reduction takes much longer than the sleeps below.
    array = warpfold.asarray(numpy.ones(16_000_000, "float32"), device="sim")
    counted, done = 0, threading.Event()

    def count():
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    while counted == 0:
        time.sleep(0.001)
    during, waits, took = 0, 0, 0
    while took < 0.3:
        result = warpfold.sum(array, determinism="everywhere")
        before, start = counted, time.perf_counter()
        result.numpy()
        during, waits, took = during + counted - before, waits + 1, took + time.perf_counter() - start
    done.set()
    thread.join()
    # Even if a wait held the lock, the thread could count once before it starts and once after it ends.
    assert during > 3 * waits, "a wait that holds the interpreter's lock stops every other thread"


def test_arrays_convert_to_numpy_and_python_numbers():
    values = small("float32", (6, 7))
    array = warpfold.asarray(values)
    same(numpy.asarray(array), values)
    same(numpy.asarray(array, "float64"), values.astype("float64"))
    assert warpfold.max(array).item() == values.max() and type(warpfold.argmax(array).item()) is int
    halves = array._view("bfloat16", [84], None, 0).numpy()
    same(halves, (values.view("uint16").astype("uint32") << 16).view("float32").ravel())


@pytest.mark.parametrize("dtype", TYPES)
def test_one_element_arrays_behave_like_numbers(dtype):
    for number in (0, 1, 7):
        for shape in [(), (1,), (1, 1)]:
            values = numpy.full(shape, number).astype(dtype)
            array = warpfold.asarray(values)
            assert (bool(array), float(array), int(array)) == (bool(values), float(values.item()), int(values.item()))
            assert type(float(array)) is float and type(int(array)) is int
            assert (array == values.item()) and not (array != values.item()) and (array < 8) and not (array > 8)
    array = warpfold.asarray(numpy.array(3, dtype))
    if numpy.dtype(dtype).kind in "iu":
        assert "abcd"[array] == "d" and list(range(array)) == [0, 1, 2]
    else:
        with pytest.raises(TypeError, match=f"an array of {dtype} of the shape \\(\\) as an index; it must be an integer"):
            operator.index(array)


def test_truth_values_and_number_conversions_of_arrays(refused):
    array = warpfold.asarray(numpy.zeros((1, 3)))
    assert not warpfold.any(array) and not warpfold.any(array, axis=1) and warpfold.all(array == 0)
    assert warpfold.sum(array) == 0 and warpfold.sum(array) != 1
    assert bool(warpfold.asarray(numpy.nan)) and int(warpfold.asarray(-2.7)) == -2
    for wrong in (warpfold.asarray(numpy.zeros(3)), warpfold.asarray(numpy.zeros((2, 0)))):
        refused(ValueError, lambda: bool(wrong), "truth value", str(wrong.shape), "warpfold.any")
        refused(TypeError, lambda: float(wrong), "`float`", str(wrong.shape), "one element", "numpy()")
        refused(TypeError, lambda: int(wrong), "`int`", str(wrong.shape), "one element", "numpy()")
    refused(TypeError, lambda: operator.index(warpfold.asarray([1])), "int64", "(1,)", "no dimensions", "item()")
    refused(OverflowError, lambda: int(warpfold.asarray(numpy.inf)), "infinity")


def test_comparisons_are_elementwise():
    a, b = small("int32", (4, 5)), small("int32", (4, 5), 1)
    first, second = warpfold.asarray(a), warpfold.asarray(b)
    for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
        for one, other in [(first, second), (first, b), (a, second), (first, 2), (2, first)]:
            expected = [numpy.asarray(operand) for operand in (one, other)]
            same(compare(one, other), compare(*expected), f"{compare.__name__} of {one!r} and {other!r}")


def test_indices_select_parts_of_the_same_memory():
    values = small("int32", (3, 4, 5))
    array = warpfold.asarray(values)
    for index in (0, -1, (), (1,), (2, -4), (0, 3, 4), numpy.int8(1), (numpy.array(2), -1, 0), warpfold.asarray(2)):
        part = array[index]
        expected = values[int(index) if isinstance(index, warpfold.Array) else index]
        same(part.numpy(), numpy.asarray(expected), f"{index}")
        assert part.device == array.device and part.dtype == "int32"
        offset = numpy.asarray(expected).__array_interface__["data"][0] - values.__array_interface__["data"][0]
        assert numpy.ndim(expected) == 0 or address(part) - address(array) == offset
    # The part has no more than its elements, in every function that reads the memory.
    same(warpfold.sum(array[1], 0).numpy(), values[1].sum(0, dtype="int64"))
    assert warpfold.count_within(array[0, 1], -9, 9).item() == 5
    assert warpfold.segment_sum(array[2, 3], [0, 5]).numpy() == values[2, 3].sum()
    least, greatest = warpfold.aminmax(array._view("int32", [12, 5], None, 0), axis=1)
    assert warpfold.count_within(least).item() == warpfold.count_within(greatest).item() == 12


def test_indices_of_strided_and_empty_arrays():
    values = small("float64", (4, 6))
    columns = warpfold.asarray(values)._view("float64", [3, 4], [2, 6], 1)
    expected = values.T[1::2]
    for index in (0, 2, -1, (1, 3), (-3, 0)):
        same(columns[index].numpy(), numpy.asarray(expected[index]))
    assert warpfold.sum(columns[1]).item() == expected[1].sum()
    same(numpy.array([part.numpy() for part in columns]), expected)
    nothing = warpfold.asarray(numpy.empty((3, 0, 2)))
    assert nothing[2].shape == (0, 2) and [part.shape for part in nothing] == [(0, 2)] * 3
    assert list(nothing[0]) == [] and nothing.tolist() == [[], [], []]


def test_unsupported_indices_are_refused(refused):
    array = warpfold.asarray(small("float32", (2, 3)))
    refused(IndexError, lambda: array[2], "index 2", "axis 0", "length is 2", "-2 to 1")
    refused(IndexError, lambda: array[-3], "index -3", "-2 to 1")
    refused(IndexError, lambda: array[0, 3], "index 3", "axis 1", "-3 to 2")
    refused(IndexError, lambda: array[2**70], f"index {2**70}", "-2 to 1")
    refused(IndexError, lambda: array[-(2**70)], "-2 to 1")
    refused(IndexError, lambda: array[0, 0, 0], "3 indices", "(2, 3)", "at most 2")
    refused(IndexError, lambda: array[0, 0][0], "1 indices", "()", "at most 0")
    refused(IndexError, lambda: warpfold.asarray(numpy.empty((0, 2)))[0], "index 0", "no elements")
    for index in (slice(1), ..., None, True, numpy.True_, 1.0, [0], "0", array, array == 0, (0, slice(None))):
        refused(TypeError, lambda: array[index], "an index of type", "integers and tuples", "`numpy()`")


def test_iteration_and_membership_match_numpy():
    values = small("int16", (3, 4))
    array = warpfold.asarray(values)
    parts = list(array)
    assert all(isinstance(part, warpfold.Array) and part.shape == (4,) for part in parts)
    same(numpy.array([part.numpy() for part in parts]), values)
    assert [int(number) for number in array[1]] == values[1].tolist() and len(list(reversed(array))) == 3
    first, *others = array
    assert len(others) == 2 and sum(map(int, first)) == values[0].sum()
    for value in (int(values[2, 1]), values[1], 100, warpfold.asarray(values[2, 0])):
        assert (value in array) == (numpy.asarray(value) in values)
    nan = warpfold.asarray([numpy.nan])
    assert numpy.nan not in nan and 1 not in warpfold.asarray(numpy.empty(0))


@pytest.mark.parametrize("dtype", TYPES)
def test_lists_of_numbers_match_numpy(dtype):
    for shape in [(), (3,), (2, 1, 3)]:
        values = small(dtype, shape) if shape else numpy.array(1, dtype)
        listed = warpfold.asarray(values).tolist()
        assert listed == values.tolist() and type(listed) is type(values.tolist())


def test_one_element_arrays_are_rounded_and_formatted(refused):
    array = warpfold.asarray(numpy.float32([[2.567]]))
    alone = array[0, 0]
    assert (round(array), round(alone, 2), round(alone, ndigits=-1)) == (3, 2.57, 0) and type(round(alone)) is int
    assert f"{array:.2f} {alone:8.1e}|" == "2.57  2.6e+00|" and complex(alone) == complex(alone.item())
    assert f"{alone}" == str(alone.item()) and f"{array}" == str(array) and str(alone) == repr(alone)
    assert f"{warpfold.argmax(array):03d} {warpfold.any(array)}" == "000 True"
    assert round(warpfold.asarray(1234), -2) == 1200
    wrong = warpfold.asarray(numpy.zeros((2, 3)))
    refused(TypeError, lambda: round(wrong), "`round`", "(2, 3)", "one element", "numpy()")
    refused(TypeError, lambda: f"{wrong:.3f}", "`format`", "(2, 3)", "one element", "numpy()")
    refused(ValueError, lambda: f"{alone:d}", "'d'", "'float'")


def test_arrays_are_pickled_and_copied_with_their_elements():
    for dtype in TYPES:
        for values in (small(dtype, (4, 5)), small(dtype, (4, 5)).T, numpy.array(1, dtype), numpy.empty((2, 0), dtype)):
            array = warpfold.asarray(values)
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                restored = pickle.loads(pickle.dumps(array, protocol))
                same(restored.numpy(), values)
                assert (restored.dtype, restored.device) == (dtype, array.device)
            for copied in (copy.copy(array), copy.deepcopy([array])[0]):
                same(copied.numpy(), values)
                assert values.size == 0 or address(copied) != address(array)
    strided = warpfold.asarray(numpy.arange(12.0))._view("float64", [3, 4], [1, 3], 0)
    same(pickle.loads(pickle.dumps(strided)).numpy(), strided.numpy())
    # Signalling NaN and infinities, too.
    bits = numpy.uint16([0x3FC0, 0x7F81, 0xFF80, 0x8000])
    bfloats = warpfold.asarray(bits)._view("bfloat16", [2, 2], None, 0)
    for restored in (pickle.loads(pickle.dumps(bfloats)), copy.deepcopy(bfloats)):
        assert (restored.dtype, restored.shape) == ("bfloat16", (2, 2))
        same(numpy.frombuffer(restored._bytes(), "uint16"), bits)


def test_pickled_arrays_of_missing_devices_are_restored_elsewhere():
    # The number of simulated devices is read from the environment once, so the array is pickled by another process.
    code = "import pickle, warpfold, sys; sys.stdout.buffer.write(pickle.dumps(warpfold.asarray([1, 2], 'sim:1')))"
    environment = {**os.environ, "WARPFOLD_SIM_DEVICES": "2", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    restored = pickle.loads(ran.stdout)
    assert str(restored.device) == "sim:0" and restored.tolist() == [1, 2]
    function, arguments = restored.__reduce__()
    assert function(*arguments[:-1], "cuda:77").device == DEVICE
