"""PyTorch's tensors and CuPy's arrays on a GPU: reduced in place on their current streams, without waits or copies.

Without a GPU or PyTorch all of these tests are skipped, and without CuPy those of its arrays, with the reason.
"""

import importlib.util
import subprocess
import sys

import pytest

import warpfold
from conftest import DEVICE, FLOATS_ALONE, ROWS, small

if DEVICE.simulated:
    pytest.skip("there is no GPU here: PyTorch's and CuPy's arrays are not tested", allow_module_level=True)

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its tensors are not tested")
if not torch.cuda.is_available():
    pytest.skip("PyTorch has no CUDA here: its tensors are not tested", allow_module_level=True)

HAS_CUPY = importlib.util.find_spec("cupy") is not None
needs_cupy = pytest.mark.skipif(not HAS_CUPY, reason="CuPy is not installed: its arrays are not tested")

TYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
SHAPES = [((1,), 0), ((1000,), None), ((64, 1001), 1), ((64, 1001), 0), ((5, 6, 7), 1), ((3, 70_000), None), ((9, 4), (0, 1))]

#: PyTorch's counterparts of the functions. With a float32 result, PyTorch also adds half floats in float32.
TORCH = {
    "sum": lambda a, dim: torch.sum(a, dim, dtype=torch.float32 if a.dtype in (torch.float16, torch.bfloat16) else None),
    "min": torch.amin,
    "max": torch.amax,
    "argmin": lambda a, dim: torch.argmin(a, dim),
    "argmax": lambda a, dim: torch.argmax(a, dim),
    "count_nonzero": lambda a, dim: torch.count_nonzero(a, dim),
    "any": torch.any,
    "all": torch.all,
    "mean": lambda a, dim: torch.mean(a.double(), dim),
    "var": lambda a, dim: torch.var(a.double(), dim, correction=0),
    "std": lambda a, dim: torch.std(a.double(), dim, correction=0),
    "logsumexp": lambda a, dim: torch.logsumexp(a.double(), dim),
    "l1_norm": lambda a, dim: torch.linalg.vector_norm(a.double(), 1, dim),
    "l2_norm": lambda a, dim: torch.linalg.vector_norm(a.double(), 2, dim),
    "max_norm": lambda a, dim: torch.linalg.vector_norm(a.double(), torch.inf, dim),
}


def tensor(dtype, shape, seed=0):
    values = small("float32" if dtype in ("float16", "bfloat16") else dtype, shape, seed)
    return torch.as_tensor(values, device="cuda").to(getattr(torch, dtype))


def sleep():
    """Enqueues a kernel that keeps the current stream busy for some tenths of a second."""
    torch.cuda._sleep(500_000_000)


@pytest.mark.parametrize("name", TORCH)
def test_tensors_match_pytorch(name):
    for dtype in TYPES:
        if name == "logsumexp" and "float" not in dtype:
            continue
        for shape, axis in SHAPES:
            values = tensor(dtype, shape)
            dim = tuple(range(len(shape))) if axis is None and name not in ("argmin", "argmax") else axis
            if name in ("argmin", "argmax") and isinstance(axis, tuple):
                continue
            # PyTorch does not take bool for all of these; uint8 has the same order.
            whole = values.to(torch.uint8) if dtype == "bool" and name[:3] in ("min", "max", "arg") else values
            expected = TORCH[name](whole, dim)
            got = getattr(warpfold, name)(values, axis)
            what = f"{name} of {dtype} {shape}, axis {axis}"
            assert isinstance(got, torch.Tensor) and got.device == values.device, what
            assert got.shape == expected.shape and got.is_contiguous(), what
            torch.testing.assert_close(got.double(), expected.double(), rtol=2e-6, atol=1e-6, msg=what)


def test_parameters_and_tensors_with_negative_bits_are_reduced():
    values = tensor("float32", (100,))
    expected = values.sum().item()
    parameter = torch.nn.Parameter(values)
    with torch.no_grad():
        assert warpfold._native.reduce_tensor(warpfold._ROWS["sum"], parameter, None, False).item() == expected
        assert warpfold.sum(parameter, determinism="everywhere").item() == expected
    assert warpfold.sum(parameter).item() == expected
    assert warpfold.sum(torch.nn.Parameter(values, requires_grad=False)).item() == expected
    # The imaginary part of a conjugate view has the negative bit: memory has the opposite signs.
    complex_values = torch.complex(torch.zeros_like(values), values)
    negative = complex_values.conj().imag
    assert negative.is_neg()
    assert warpfold.sum(negative).item() == -expected
    assert warpfold.sum(negative, stream=torch.cuda.current_stream()).item() == -expected
    assert warpfold.sum(values[:0]).item() == 0
    assert warpfold.sum(values[3:4]).item() == values[3].item()


@pytest.mark.parametrize("name", warpfold._ROWS)
def test_native_calls_have_the_results_of_all_others(name):
    row, called = warpfold._ROWS[name], 0
    for dtype in TYPES:
        for shape, axis in SHAPES:
            for values in (tensor(dtype, shape), tensor(dtype, shape[::-1]).permute(*reversed(range(len(shape))))):
                for keepdims in (False, True):
                    ddof = 1 if row.ddof else 0
                    results = warpfold._native.reduce_tensor(row, values, axis, keepdims, ddof)
                    if results is None:
                        continue
                    called += 1
                    others = warpfold._reduce.reduce(row, values, axis, keepdims, "run-to-run", None, None, ddof)
                    for result, other in zip(results, others) if row.pair else [(results, others)]:
                        assert (result.dtype, result.shape, result.device) == (other.dtype, other.shape, other.device)
                        assert result.is_contiguous()
                        torch.testing.assert_close(result, other, rtol=0, atol=0, equal_nan=True)
    assert called >= 2 * len(SHAPES)


def test_native_calls_return_none_for_unsupported_arguments():
    call, row = warpfold._native.reduce_tensor, warpfold._ROWS["sum"]
    values = tensor("float32", (4, 5))
    assert call(row, values, None, False) is not None
    for axis in (2, -3, True, (0, 0), (0, 2), "0", 1.0):
        assert call(row, values, axis, False) is None
    assert call(row, values, None, 1) is None
    for other in (
        values.cpu(),
        values.cpu().numpy(),
        values.clone().requires_grad_(),
        values[:0],
        values.expand(3, 4, 5),
        torch.complex(values, values).conj().imag,
        torch.complex(values, values),
        torch.nn.Parameter(values),
        values.to_sparse(),
        warpfold.asarray(values.cpu().numpy()),
        [1.0],
    ):
        assert call(row, other, None, False) is None


def test_native_calls_use_the_current_stream_and_pytorchs_memory():
    values, stream = torch.ones(1 << 20, device="cuda"), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    # Releases the tensors that earlier calls have borrowed.
    torch.cuda.synchronize()
    warpfold.sum(values)
    allocated = torch.cuda.memory_allocated()
    with torch.cuda.stream(stream):
        sleep()
        values.fill_(2.0)
        sums = [warpfold.sum(values) for _ in range(100)]
        assert not stream.query()
    assert torch.cuda.memory_allocated() > allocated
    stream.synchronize()
    assert {float(one) for one in sums} == {2.0 * values.numel()}
    del sums
    assert torch.cuda.memory_allocated() == allocated


@pytest.mark.parametrize("name", TORCH)
def test_strided_tensors_match_pytorch(name):
    for dtype in ("int32", "bfloat16", "float32", "float64"):
        if name == "logsumexp" and "float" not in dtype:
            continue
        base = tensor(dtype, (130, 64, 33))
        for values in (base.permute(2, 0, 1), base[:, ::3, 5:30], base[:, 7, :].t(), base.transpose(0, 1)):
            for dim in range(values.ndim):
                got, expected = getattr(warpfold, name)(values, dim), TORCH[name](values, dim)
                what = f"{name} of {dtype} {values.shape} by {values.stride()}, axis {dim}"
                assert got.shape == expected.shape and got.is_contiguous(), what
                torch.testing.assert_close(got.double(), expected.double(), rtol=2e-6, atol=1e-6, msg=what)


def test_types_and_shapes_of_results():
    for name, row in ROWS.items():
        if name in FLOATS_ALONE:
            continue
        values = tensor("int32", (6, 10))
        for keepdims in (False, True):
            results = getattr(warpfold, name)(values, 0, keepdims)
            for result in results if row.pair else [results]:
                assert result.shape == ((1, 10) if keepdims else (10,))
                expected = {"sum": "int64", "same": "int32", "index": "int64", "bool": "bool", "float": "float64"}
                assert result.dtype == getattr(torch, expected[row.result]), name
    assert warpfold.sum(tensor("uint8", 9)).dtype == torch.int64
    assert warpfold.sum(tensor("bfloat16", 9)).dtype == torch.float32
    assert warpfold.logsumexp(tensor("bfloat16", 9)).dtype == torch.float32
    assert warpfold.max(tensor("bfloat16", 9)).dtype == torch.bfloat16
    assert warpfold.sum(tensor("int32", (0, 3)), 0).tolist() == [0, 0, 0]
    assert warpfold.bitwise_and(tensor("uint8", 0)).item() == 255
    assert torch.isnan(warpfold.mean(tensor("float32", 0)))


def test_tensors_are_not_copied():
    values = torch.ones(1 << 28, device="cuda")
    imported = warpfold.asarray(values)
    assert imported.__cuda_array_interface__["data"][0] == values.data_ptr()
    del imported
    warpfold.sum(values)
    torch.cuda.synchronize()
    allocated, (free, _) = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()
    torch.cuda.reset_peak_memory_stats()
    result = warpfold.sum(values)
    assert torch.cuda.max_memory_allocated() - allocated <= 4096
    assert free - torch.cuda.mem_get_info()[0] <= 32 << 20
    assert result.item() == 1 << 28


@pytest.mark.parametrize("given", [False, True])
def test_calls_enqueue_on_the_stream_without_waiting(given):
    values, side = torch.zeros(1 << 20, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()

    def enqueue():
        with torch.cuda.stream(side):
            sleep()
            values.fill_(3)
            if not given:
                return [warpfold.sum(values), warpfold.mean(values), warpfold.argmax(values)]
        return [
            warpfold.sum(values, stream=side),
            warpfold.mean(values, stream=side.cuda_stream),
            warpfold.argmax(values, stream=side),
        ]

    # The first iteration loads kernels and allocates workspaces.
    for _ in range(2):
        torch.cuda.synchronize()
        values.zero_()
        torch.cuda.synchronize()
        results = enqueue()
        waited = side.query()
    assert not waited, "the calls have waited"
    side.synchronize()
    assert [result.item() for result in results] == [3 << 20, 3, 0]


def test_given_stream_waits_for_the_current_stream():
    values, side = torch.zeros(1 << 20, device="cuda"), torch.cuda.Stream()
    warpfold.sum(values)
    torch.cuda.synchronize()
    sleep()
    values.fill_(2)
    # DLPack's protocol: the tensor's library makes the given stream wait for its current one.
    result = warpfold.sum(values, stream=side)
    side.synchronize()
    assert result.item() == 2 << 20


def test_tensor_of_another_stream_may_be_dropped_once_recorded():
    side = torch.cuda.Stream()
    for round_ in range(20):
        values = torch.full((1 << 22,), float(round_), device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(10_000_000)
            result = warpfold.sum(values)
        values.record_stream(side)
        del values
        # Overwrites the memory of `values` if PyTorch's allocator has it back too early.
        torch.full((1 << 22,), -1.0, device="cuda")
        side.synchronize()
        assert result.item() == round_ * (1 << 22)


def test_tensors_are_released():
    warpfold.sum(torch.ones(10, device="cuda"))
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(10):
        warpfold.sum(torch.ones(1 << 24, device="cuda"))
        torch.cuda.synchronize()
    warpfold.sum(torch.ones(10, device="cuda"))
    assert torch.cuda.memory_allocated() - before < 1 << 20


def test_results_can_be_used_without_a_wait():
    values = tensor("float32", (1000, 300))
    for _ in range(100):
        row_sums = warpfold.sum(values, 1)
        largest = warpfold.max(row_sums * 2)
        assert torch.equal(largest, (values.sum(1) * 2).max())


def test_segments_match_pytorch():
    values = tensor("float32", 10_000)
    for kind in (torch.int32, torch.int64):
        offsets = torch.tensor([0, 3, 3, 700, 5000, 10_000], device="cuda")
        for name in ("sum", "max", "mean", "min"):
            expected = torch.segment_reduce(values, name, offsets=offsets, initial=None)
            got = getattr(warpfold, f"segment_{name}")(values, offsets.to(kind))
            assert got.device == values.device
            torch.testing.assert_close(got, expected, rtol=2e-6, atol=0, equal_nan=True)
    assert warpfold.segment_all(values, [0, 10]).device == values.device


def test_unsupported_tensors_are_refused(refused):
    values = tensor("float32", (40, 50))
    refused(ValueError, lambda: warpfold.sum_within(values.t()), "contiguous()")
    refused(ValueError, lambda: warpfold.sum(values, device="sim"), "device sim", "leave the device out")
    refused(TypeError, lambda: warpfold.sum(values.to(torch.complex64)), "there are bool", "convert")
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    offsets = torch.tensor([0, 50], device="cuda")
    with torch.cuda.graph(graph, stream=side):
        room = values + 1
        refused(ValueError, lambda: warpfold.sum_within(values), "captured into a graph")
        refused(ValueError, lambda: warpfold.segment_sum(values[0], offsets), "captured into a graph")
    assert warpfold.sum(values).item() == values.sum().item() and room.shape == values.shape


@pytest.mark.parametrize("name", [*TORCH, "var_mean", "hmean", "third_central_moment"])
def test_captured_calls_have_the_results_of_others(name):
    values = torch.zeros((300, 1000), device="cuda")
    calls = [{}, {"axis": 0}, {"axis": 1, "keepdims": True}]
    calls += [] if name in ("mean", "logsumexp", "l2_norm", "third_central_moment") else [{"determinism": "everywhere"}]
    graph = torch.cuda.CUDAGraph()
    # The first call of some kernels is the captured one, which loads them.
    with torch.cuda.graph(graph):
        captured = [getattr(warpfold, name)(values + 1, **call) for call in calls]
        # Memory of the graph that later work of the graph may use.
        rooms = [torch.full((1 << 20,), -1.0, device="cuda").sum() for _ in range(3)]
    for seed in range(3):
        values.copy_(tensor("float32", (300, 1000), seed))
        graph.replay()
        expected = [getattr(warpfold, name)(values + 1, **call) for call in calls]
        for ours, other in zip(captured, expected):
            for one, another in zip(ours, other) if isinstance(ours, tuple) else [(ours, other)]:
                torch.testing.assert_close(one, another, rtol=1e-5, atol=1e-5, equal_nan=True)
    assert all(room.item() == -(1 << 20) for room in rooms)


def test_captured_calls_of_two_streams_overlap():
    values, side = torch.ones((4, 1 << 22), device="cuda"), torch.cuda.Stream()
    graph, results = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        for row in values:
            current = torch.cuda.current_stream()
            side.wait_stream(current)
            with torch.cuda.stream(side):
                results.append(warpfold.sum(row))
            results.append(warpfold.sum(row * 2))
            current.wait_stream(side)
    for factor in (1, 3):
        values.fill_(factor)
        for _ in range(20):
            graph.replay()
        assert [result.item() for result in results] == [factor << 22, factor << 23] * 4


def test_captured_copies_live_as_long_as_their_readers():
    values, side = torch.ones((1, 1 << 20), device="cuda"), torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        current = torch.cuda.current_stream()
        side.wait_stream(current)
        result = warpfold.sum(values.expand(20, -1), stream=side)
        # Memory of the current stream, which must not be that of the copy.
        others = [torch.full((20 << 20,), -1.0, device="cuda") for _ in range(3)]
        current.wait_stream(side)
    for factor in (1, 2):
        values.fill_(factor)
        graph.replay()
        assert result.item() == factor * 20 << 20
    assert others[0][0].item() == -1


def test_first_call_of_a_process_can_be_captured():
    code = """if True:
        import torch, warpfold
        values, graph = torch.ones(1000, device="cuda"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = warpfold.sum(values)
        graph.replay()
        print(result.item())"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "1000.0\n", ran.stderr


def test_tensors_without_memory_are_reduced():
    zeros = torch._efficientzerotensor((5,), device="cuda")
    assert warpfold.sum(zeros[1:]).item() == 0
    assert torch.func.functionalize(lambda given: warpfold.sum(given[1:]))(torch.ones(5, device="cuda")).item() == 4


# PyTorch imports its compiler here, and warns of its own calls.
@pytest.mark.filterwarnings("ignore")
def test_graphs_of_compiled_code_contain_the_reductions():
    def loss(values):
        return warpfold.logsumexp(values, 1).sum() + warpfold.l2_norm(values)

    values = tensor("float32", (64, 1000)).requires_grad_()
    compiled = torch.compile(loss, mode="reduce-overhead", fullgraph=True)
    for _ in range(5):
        gradients = []
        for function in (compiled, loss):
            values.grad = None
            function(values).backward()
            gradients.append(values.grad.clone())
        torch.testing.assert_close(*gradients)


def test_result_arrays_convert_to_tensors():
    values = tensor("int64", (20, 30))

    class Interface:
        __cuda_array_interface__ = values.__cuda_array_interface__

    result = warpfold.sum(Interface, 0)
    assert isinstance(result, warpfold.Array)
    for back in (torch.from_dlpack(result), torch.as_tensor(result, device="cuda")):
        assert torch.equal(back, values.sum(0))
    places = torch.from_dlpack(warpfold.argmax(Interface, 1))
    assert places.stride() == (1,) and torch.equal(places, values.argmax(1))


def test_consumers_of_a_result_array_wait_for_its_kernels():
    values, side = torch.zeros(1 << 20, device="cuda", dtype=torch.int32), torch.cuda.Stream()

    class Interface:
        __cuda_array_interface__ = values.__cuda_array_interface__

    warpfold.sum(Interface)
    for take in (torch.from_dlpack, lambda array: torch.as_tensor(array, device="cuda")):
        values.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            sleep()
            values.fill_(7)
        result = warpfold.sum(Interface, stream=side)
        assert take(result).item() == 7 << 20


@needs_cupy
@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "argmin", "argmax", "mean", "var", "std", "any", "all"])
def test_arrays_match_cupy(name):
    import cupy

    for dtype in ("int32", "float32", "float64", "uint8", "bool"):
        for shape, axis in SHAPES:
            if isinstance(axis, tuple) and name.startswith("arg") or name == "prod" and dtype != "uint8":
                continue
            if dtype == "bool" and name in ("min", "max", "argmin", "argmax"):
                continue
            values = cupy.asarray(small(dtype, shape))
            got, expected = getattr(warpfold, name)(values, axis), getattr(cupy, name)(values, axis=axis)
            what = f"{name} of {dtype} {shape}, axis {axis}"
            assert isinstance(got, cupy.ndarray) and got.shape == expected.shape, what
            assert got.dtype == expected.dtype and got.flags.c_contiguous, what
            cupy.testing.assert_allclose(got, expected, 2e-6, 1e-6, err_msg=what)


def test_expanded_tensors_are_reduced():
    values = tensor("float32", (1, 50))
    for expanded in (values.expand(5, -1), values.t().expand(-1, 3), values[:, :1].expand(4, 7), values[0, :1].expand(9)):
        for axis in (None, *range(expanded.ndim)):
            torch.testing.assert_close(warpfold.sum(expanded, axis), expanded.sum(axis))
            assert torch.equal(warpfold.argmax(expanded, axis), warpfold.argmax(expanded.contiguous(), axis))


@pytest.mark.parametrize("name", ["sum", "mean", "l2_norm", "hmean", "third_central_moment"])
def test_float64_results_of_shorter_floats_need_no_copy(name):
    for dtype in ("float16", "bfloat16", "float32"):
        for shape, axis in SHAPES:
            values = tensor(dtype, shape).abs() + 0.5
            expected = getattr(warpfold, name)(values.double(), axis)
            got = getattr(warpfold, name)(values, axis, dtype=torch.float64)
            assert got.dtype == torch.float64 and got.shape == expected.shape
            torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    values = torch.ones(1 << 26, device="cuda")
    warpfold.sum(values, dtype="float64")
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    getattr(warpfold, name)(values, dtype="float64")
    assert torch.cuda.max_memory_allocated() - before <= 4096


def test_dtype_where_and_out_are_enqueued_and_captured():
    values, side, graph = torch.zeros((300, 1000), device="cuda"), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    mask, out = torch.arange(1000, device="cuda") % 3 == 0, torch.full((300, 2), -1.0, device="cuda")

    def call():
        warpfold.sum(values, 1, where=mask, out=out[:, 0])
        return warpfold.max(values, 1, where=mask, initial=2), warpfold.sum(values, dtype=torch.float64, where=mask)

    # The first call on a stream loads kernels and allocates workspaces.
    with torch.cuda.stream(side):
        for value in (1, 3):
            torch.cuda.synchronize()
            sleep()
            values.fill_(value)
            results = call()
            waited = side.query()
    assert not waited, "the calls have waited"
    side.synchronize()
    assert out[:, 0].tolist() == [3 * 334] * 300 and (out[:, 1] == -1).all()
    assert (results[0] == 3).all() and results[1].item() == 3 * 334 * 300
    with torch.cuda.graph(graph):
        results = call()
    for value in (1, 5):
        values.fill_(value)
        graph.replay()
        assert out[:, 0].tolist() == [value * 334] * 300
        assert (results[0] == max(value, 2)).all() and results[1].item() == value * 334 * 300


def test_dtype_and_where_of_interfaces():
    values = tensor("float32", (64, 1001))

    class Interface:
        __cuda_array_interface__ = values.__cuda_array_interface__

    for keywords in ({"dtype": "float64"}, {"dtype": "int16"}, {"where": (values > 0).cpu().numpy()}, {"where": values > 0}):
        for name in ("sum", "mean"):
            if name == "mean" and keywords.get("dtype") == "int16":
                continue
            got, expected = (getattr(warpfold, name)(one, 1, **keywords) for one in (Interface, values))
            assert isinstance(got, warpfold.Array)
            torch.testing.assert_close(torch.from_dlpack(got), expected)


@needs_cupy
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std"])
def test_dtype_where_and_out_of_cupy_arrays(name):
    import cupy
    import numpy

    for dtype in ("float32", "int32"):
        host = small(dtype, (6, 70)) % 3
        values, mask = cupy.asarray(host), cupy.asarray(host) != 1
        for axis in (None, 0, 1):
            for result in ("float32", "float64"):
                got = getattr(warpfold, name)(values, axis, dtype=result, where=mask)
                expected = getattr(numpy, name)(host.astype("float64"), axis, where=host != 1)
                assert isinstance(got, cupy.ndarray) and got.dtype == result
                numpy.testing.assert_allclose(got.get(), expected, 1e-5, 1e-5)
                out = cupy.empty((2, *got.shape))[0]
                assert getattr(warpfold, name)(values, axis, dtype=result, where=mask, out=out) is out
                cupy.testing.assert_array_equal(out, got)


@needs_cupy
def test_expanded_and_reversed_cupy_arrays_are_reduced():
    import cupy

    values = cupy.arange(12, dtype="float32").reshape(3, 4)
    for array in (values[::-1], values[:, ::-2], cupy.broadcast_to(values[0], (5, 4))):
        for axis in (None, 0, 1):
            cupy.testing.assert_array_equal(warpfold.sum(array, axis), array.sum(axis))
            cupy.testing.assert_array_equal(warpfold.argmax(array, axis), array.argmax(axis))


@needs_cupy
def test_cupy_arrays_are_reduced_on_the_current_stream():
    import cupy

    values, side = cupy.zeros(1 << 20, "float32"), cupy.cuda.Stream(non_blocking=True)
    warpfold.sum(values)
    cupy.cuda.Device().synchronize()
    with side:
        values[...] = 5
        result = warpfold.sum(values)
    side.synchronize()
    assert result.item() == 5 << 20
    for given in (side, side.ptr):
        result = warpfold.sum(values, stream=given)
        side.synchronize()
        assert result.item() == 5 << 20
    assert warpfold.asarray(values).__cuda_array_interface__["data"][0] == values.data.ptr
