"""Several tensors, whose elements are reduced together."""

import pytest

import warpfold
from conftest import ROWS

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its tensors are not tested")

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
on_each_device = pytest.mark.parametrize("device", DEVICES)

#: Empty tensors, tensors of one element, of no dimensions, and of 16-byte boundaries and others.
SHAPES = [(), (3, 5), (0,), (1,), (64, 65), (2, 0, 3), (1000,), (17,)]


def tensors(device, dtype, shapes=SHAPES):
    torch.manual_seed(1)
    if not dtype.is_floating_point:
        return [torch.randint(0, 5, shape, device=device).to(dtype) for shape in shapes]
    # The views begin at different distances from a 16-byte boundary.
    made = [torch.rand(torch.Size(shape).numel() + at % 4, device=device) + 0.5 for at, shape in enumerate(shapes)]
    return [one.to(dtype)[at % 4 :].reshape(shape) for at, (one, shape) in enumerate(zip(made, shapes))]


def joined(values):
    return torch.cat([one.reshape(-1) for one in values])


def results(name, *arguments, **keywords):
    result = getattr(warpfold, name)(*arguments, **keywords)
    return result if ROWS[name].pair else (result,)


@on_each_device
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int32, torch.uint8], ids=str)
def test_results_are_those_of_all_elements(name, dtype, device):
    values = tensors(device, dtype)
    try:
        wanted = results(name, joined(values))
    except ValueError as refused:
        with pytest.raises(ValueError, match=str(refused)[:20]):
            getattr(warpfold, name)(values)
        return
    for found, want in zip(results(name, values), wanted):
        assert (found.shape, found.dtype, found.device) == (want.shape, want.dtype, want.device)
        if found.dtype.is_floating_point:
            torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-6)
        else:
            assert found == want


@on_each_device
def test_parameters_and_kinds_of_tensors(device):
    values = tensors(device, torch.float32)
    every = joined(values)
    assert warpfold.sum(tuple(values), determinism="everywhere") == warpfold.sum(every, determinism="everywhere")
    torch.testing.assert_close(warpfold.var(values, ddof=1), every.var())
    assert warpfold.sum(values, dtype="float64").dtype == torch.float64
    # Views that are not contiguous, and negated ones.
    views = [torch.arange(12.0, device=device).reshape(3, 4).T, torch.imag(torch.tensor([1 + 2j], device=device).conj())]
    assert warpfold.sum(views) == 66 - 2
    assert warpfold.sum([torch.ones(4, device=device).expand(3, 4)]) == 12
    assert warpfold.argmax([one := torch.tensor([[1.0, 5.0], [2.0, 3.0]], device=device), one + 9]) == 5
    assert warpfold.max([torch.nn.Parameter(one) for one in values]) == every.max()


@on_each_device
def test_gradients_reach_each_tensor(device):
    values = [one.double().requires_grad_() for one in tensors(device, torch.float32, [(2, 3), (4,)])]
    assert torch.autograd.gradcheck(lambda *values: warpfold.l2_norm(values), values)
    clipped = [one.detach().clone().requires_grad_() for one in values]
    for one in clipped:
        one.grad = one.detach() * 3
    wanted = torch.nn.utils.clip_grad_norm_(clipped, 1.0)
    found = warpfold.l2_norm([one.detach() * 3 for one in values])
    torch.testing.assert_close(found, wanted)


def test_compiled_code_takes_several_tensors():
    values = tensors("cpu", torch.float32, [(2, 3), (4,)])
    torch._dynamo.reset()
    compiled = torch.compile(lambda values: warpfold.l2_norm(values), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(values), torch.linalg.vector_norm(joined(values)))


@on_each_device
def test_wrong_lists_are_errors_of_one_line(device):
    one = torch.ones(3, device=device)
    for values, kind, words in [
        ([one, one.double()], TypeError, "element 1 of the list is torch.float64, element 0 is torch.float32"),
        (iter([one]), TypeError, "read only once"),
        ([one, 2.0], TypeError, "element 1 of the list is of type float"),
        ([None, one], TypeError, "element 0 of the list is None"),
        ([one, one.to_sparse()], TypeError, "element 1 of the list is torch.sparse_coo"),
        ([one[:0]], None, ""),
    ]:
        if kind is None:
            assert warpfold.sum(values) == 0
            with pytest.raises(ValueError, match="no elements"):
                warpfold.max(values)
            continue
        with pytest.raises(kind, match=words) as raised:
            warpfold.sum(values)
        assert "\n" not in str(raised.value)
    for options in [{"axis": 0}, {"keepdims": True}, {"dim": 0}]:
        with pytest.raises(TypeError, match="reduced to one result"):
            warpfold.sum([one, one], **options)


@pytest.mark.skipif("cuda" not in DEVICES, reason="there is no GPU")
def test_gpus_repeat_lists_and_capture_them():
    values = tensors("cuda", torch.float32)
    assert warpfold._native.reduce_tensors(ROWS["l2_norm"], values, 0) is not None
    first = warpfold.l2_norm(values)
    # The description of the tensors is reused; their elements are read again.
    values[4].fill_(100)
    second = warpfold.l2_norm(values)
    assert second > first
    torch.testing.assert_close(second, torch.linalg.vector_norm(joined(values)))
    for _ in range(40):
        others = tensors("cuda", torch.float32, [(5,), (70,)])
        torch.testing.assert_close(warpfold.sum(others), joined(others).sum())
    warpfold.l2_norm(joined(values))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = warpfold.l2_norm(values)
    values[4].fill_(1)
    graph.replay()
    torch.testing.assert_close(captured, torch.linalg.vector_norm(joined(values)))
