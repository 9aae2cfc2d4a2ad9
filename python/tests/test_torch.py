"""Gradients, `torch.compile` and `torch.func` of the reductions, on the host's tensors and, if there is a GPU, on its own.

Without PyTorch all of these tests are skipped.
"""

import math
import subprocess
import sys

import pytest

import warpfold
from conftest import ROWS

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its tensors are not tested")

#: PyTorch warns of its own calls.
pytestmark = pytest.mark.filterwarnings("ignore")

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
on_each_device = pytest.mark.parametrize("device", DEVICES)

#: The functions with real results.
DIFFERENTIABLE = [
    name for name, row in ROWS.items() if row.result in ("sum", "same", "float") and not name.startswith("bitwise")
]


@pytest.fixture(autouse=True)
def forget_compiled_code():
    torch._dynamo.reset()


def tensor(device, shape=(3, 4), name="sum"):
    """Returns distinct elements, with NaN among them if the function skips it."""
    if name.startswith("bitwise"):
        return torch.randint(0, 99, shape, device=device)
    generator = torch.Generator().manual_seed(0)
    values = torch.randperm(torch.Size(shape).numel(), generator=generator).double().reshape(shape).div_(10).sub_(0.42)
    if name.removeprefix("nan") == "hmean":
        values = values.abs() + 1
    if name.startswith("nan"):
        values[..., 1] = torch.nan
    return values.to(device)


def results(name, *arguments, **keywords):
    """Returns the results of a function as a tuple."""
    result = getattr(warpfold, name)(*arguments, **keywords)
    return result if ROWS[name].pair else (result,)


@on_each_device
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_match_finite_differences(name, device):
    given = tensor(device, name=name)
    is_number = ~given.isnan()

    def of_numbers(numbers, axis, keepdims):
        # The result may change where NaN is only in a direction that no gradient describes.
        return getattr(warpfold, name)(given.masked_scatter(is_number, numbers), axis, keepdims)

    numbers = given[is_number].requires_grad_()
    for axis, keepdims in [(None, False), (1, False), (0, True), ((0, 1), True)]:
        if name.startswith("nan") and axis == 0:
            continue
        assert torch.autograd.gradcheck(of_numbers, (numbers, axis, keepdims))
    # Second derivatives of extremes are zero, which the numerical ones are too, but for rounding.
    assert torch.autograd.gradgradcheck(of_numbers, (numbers, 1, False), atol=1e-4)


@on_each_device
def test_gradients_of_ties_zeros_and_halves_are_pytorchs(device):
    for given, ours, theirs in [
        ([1.0, 3.0, 3.0], warpfold.max, torch.amax),
        ([1.0, 1.0, 3.0], warpfold.min, torch.amin),
        ([-2.0, 2.0, 1.0], warpfold.max_norm, lambda values: torch.linalg.vector_norm(values, torch.inf)),
        ([0.0, 0.0], warpfold.l2_norm, torch.linalg.vector_norm),
        ([0.0, 2.0, 5.0], warpfold.prod, torch.prod),
        ([0.0, 2.0, 0.0], warpfold.prod, torch.prod),
        ([1.0, 2.0, 4.0], lambda values: warpfold.std(values, ddof=1), torch.std),
        ([-1000.0, -1000.0], warpfold.logsumexp, lambda values: torch.logsumexp(values, 0)),
    ]:
        gradients = []
        for function in (ours, theirs):
            values = torch.tensor(given, device=device, requires_grad=True)
            function(values).backward()
            gradients.append(values.grad)
        torch.testing.assert_close(*gradients)
    values = torch.ones(4, device=device, dtype=torch.bfloat16, requires_grad=True)
    total = warpfold.sum(values)
    total.backward()
    assert total.dtype == torch.float32 and values.grad.dtype == torch.bfloat16


@on_each_device
@pytest.mark.parametrize("name", ROWS)
def test_compiled_and_batched_calls_have_the_results_of_others(name, device):
    values = tensor(device, (3, 4, 5), name)
    for keywords in ({}, {"axis": -1}, {"axis": (0, 2), "keepdims": True}):
        expected = results(name, values, **keywords)
        compiled = torch.compile(lambda given: results(name, given, **keywords), backend="aot_eager", fullgraph=True)
        for ours, other in zip(compiled(values), expected):
            assert ours.stride() == other.stride()
            torch.testing.assert_close(ours, other, rtol=0, atol=0, equal_nan=True)
    for keywords in ({}, {"axis": 0}, {"axis": (-1,), "keepdims": True}):
        batched = torch.func.vmap(lambda given: results(name, given, **keywords), in_dims=1)(values)
        each = [results(name, one, **keywords) for one in values.unbind(1)]
        for ours, others in zip(batched, zip(*each)):
            torch.testing.assert_close(ours, torch.stack(others), equal_nan=True)


@on_each_device
@pytest.mark.parametrize("name", ["var", "std"])
def test_corrections_are_those_of_pytorch(name, device):
    values = tensor(device)
    ours, theirs = (getattr(module, name) for module in (warpfold, torch))
    for correction in (0, 1, 2):
        expected = theirs(values, dim=1, correction=correction)
        torch.testing.assert_close(ours(values, dim=1, correction=correction), expected)
        compiled = torch.compile(
            lambda given: ours(given, dim=1, correction=correction), backend="aot_eager", fullgraph=True
        )
        torch.testing.assert_close(compiled(values), expected)
    given = values.clone().requires_grad_()
    torch.testing.assert_close(ours(given, correction=1), theirs(values, correction=1))
    with pytest.raises(TypeError, match="ddof 1 and correction 1; both mean the same"):
        ours(given, ddof=1, correction=1)


@on_each_device
@pytest.mark.parametrize("name", ["sum", "var_mean", "argmax"])
def test_operator_is_as_pytorch_requires(name, device):
    values = tensor(device).requires_grad_()
    warpfold.sum(values)
    torch.library.opcheck(torch.ops.warpfold.reduce.default, (values, name, [1], False, 0.0, "run-to-run"))


@on_each_device
def test_transforms_and_modes_see_the_reductions(device):
    values = tensor(device)
    gradient = torch.func.grad(warpfold.l2_norm)(values)
    torch.testing.assert_close(gradient, values / values.norm())
    each = torch.func.vmap(torch.func.grad(warpfold.logsumexp))(values)
    torch.testing.assert_close(each, values.softmax(1))
    of_batch = torch.func.grad(lambda given: torch.func.vmap(warpfold.logsumexp)(given).sum())(values)
    torch.testing.assert_close(of_batch, values.softmax(1))
    assert torch.equal(torch.func.functionalize(lambda given: warpfold.sum(given[1:], 0))(values), values[1:].sum(0))
    assert torch.func.jacrev(lambda given: warpfold.sum(given, 1))(values).shape == (3, 3, 4)
    traced = torch.fx.experimental.proxy_tensor.make_fx(lambda given: warpfold.sum(given, 0))(values)
    assert torch.equal(traced(values + 1), warpfold.sum(values + 1, 0))


@on_each_device
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_forward_derivatives_are_those_of_gradients(name, device):
    given = tensor(device, name=name)
    tangent = torch.linspace(-1, 1, given.numel(), dtype=given.dtype, device=device).reshape(given.shape)
    tangent = tangent.masked_fill(given.isnan(), 0)
    for axis in (None, 1):
        outputs, tangents = torch.func.jvp(lambda values: results(name, values, axis), (given,), (tangent,))
        with torch.autograd.forward_ad.dual_level():
            dual = results(name, torch.autograd.forward_ad.make_dual(given, tangent), axis)
            duals = [torch.autograd.forward_ad.unpack_dual(one).tangent for one in dual]
        for at, (output, ours) in enumerate(zip(outputs, tangents)):
            values = given.clone().requires_grad_()
            expected = torch.zeros_like(output).flatten()
            for place, one in enumerate(results(name, values, axis)[at].flatten()):
                (gradient,) = torch.autograd.grad(one, values, retain_graph=True)
                expected[place] = (gradient * tangent).nansum()
            torch.testing.assert_close(ours.flatten(), expected)
            torch.testing.assert_close(duals[at].flatten(), expected)


@on_each_device
def test_gradients_of_unusual_inputs(device):
    def gradient(function, given):
        values = torch.tensor(given, device=device, requires_grad=True)
        function(values).sum().backward()
        return values.grad.tolist()

    assert gradient(warpfold.hmean, [1e30, 1e30]) == gradient(warpfold.hmean, [1e-25, 1e-25]) == [0.5, 0.5]
    assert str(gradient(lambda values: warpfold.var(values, ddof=1), [2.0])) == "[nan]"
    assert gradient(warpfold.std, []) == gradient(lambda values: warpfold.sum(values, initial=1.0), []) == []
    assert gradient(lambda values: warpfold.prod(values, 1), [[], []]) == [[], []]
    assert gradient(warpfold.sum, 3.0) == 1

    def after_a_change(values):
        doubled = values * 2
        total = warpfold.sum(values) + warpfold.mean(doubled)
        total += 1
        doubled.add_(1)
        return total

    assert gradient(after_a_change, [1.0, 5.0]) == [2, 2]


@on_each_device
def test_compiled_code_serves_other_shapes_and_gradients(device):
    def loss(values):
        return warpfold.var(values, 0, ddof=1).sum() + warpfold.max(values, initial=0.5)

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=True)
    for shape in ((3, 4), (5, 2), (2, 7)):
        gradients = []
        for function in (compiled, loss):
            values = tensor(device, shape).requires_grad_()
            function(values).backward()
            gradients.append(values.grad)
        torch.testing.assert_close(*gradients)
    of_ddof = torch.compile(lambda values, ddof: warpfold.var(values, ddof=ddof), backend="aot_eager", fullgraph=True)
    for ddof in (0, 1, 2):
        assert torch.equal(of_ddof(values, ddof), warpfold.var(values, ddof=ddof))


@on_each_device
def test_exported_programs_are_loaded_by_another_process(device, tmp_path):
    class Mean(torch.nn.Module):
        def forward(self, values):
            return warpfold.mean(values, 1)

    program, values = tmp_path / "mean.pt2", tensor(device)
    torch.export.save(torch.export.export(Mean(), (values,)), program)
    code = "import sys, torch, warpfold; print(torch.export.load(sys.argv[1]).module()(torch.ones((3, 4)).double().to(sys.argv[2])).sum().item())"
    ran = subprocess.run([sys.executable, "-c", code, program, device], capture_output=True, text=True)
    assert ran.stdout == "3.0\n", ran.stderr


@on_each_device
def test_results_are_tensors_on_the_same_device(device):
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64):
        values = torch.ones((2, 3), dtype=dtype, device=device)
        for name, row in ROWS.items():
            if row.summary.endswith("For floats only.") and not dtype.is_floating_point:
                continue
            if name.startswith("bitwise") and dtype.is_floating_point:
                continue
            for result in results(name, values, 1):
                assert isinstance(result, torch.Tensor) and result.device == values.device, name
                expected = {"same": dtype, "index": torch.int64, "bool": torch.bool}.get(row.result, result.dtype)
                assert (result.dtype, result.shape) == (expected, (2,)), name
    assert warpfold.max(torch.tensor([1.5, 2.5], dtype=torch.bfloat16, device=device)).item() == 2.5
    assert warpfold.segment_sum(torch.ones(4, device=device), [0, 1, 4]).tolist() == [1, 3]
    assert warpfold.sum_within(torch.ones(4, device=device), 0.5).item() == 4


@on_each_device
def test_no_gradient_is_recorded_without_need(device, refused):
    parameter = torch.nn.Parameter(torch.ones(5, device=device))
    with torch.no_grad():
        assert not warpfold.sum(parameter).requires_grad
        assert warpfold.sum_within(parameter, 0).item() == 5
    assert warpfold.sum(parameter).requires_grad
    assert not warpfold.argmax(parameter).requires_grad and not warpfold.any(parameter).requires_grad
    assert warpfold.sum(parameter, initial=2.0).item() == 7
    assert warpfold.prod(parameter[:0], initial=2.0).item() == 2
    refused(ValueError, lambda: warpfold.sum(parameter, 1), "axis 1", "give -1 to 0")
    refused(ValueError, lambda: warpfold.sum(parameter, determinism="always"), "determinism 'always'")
    refused(TypeError, lambda: warpfold.sum(parameter, device="sim"), "leave them out", "detach()")
    refused(TypeError, lambda: warpfold.var(parameter, ddof="1"), "ddof (or correction) '1'")
    refused(TypeError, lambda: warpfold.sum(parameter, keepdims="x"), "keepdims 'x'")
    refused(TypeError, lambda: warpfold.sum(parameter, initial="x"), "initial 'x'")
    refused(ValueError, lambda: warpfold.segment_sum(parameter, [0, 5]), "differentiates", "detach()")
    refused(ValueError, lambda: warpfold.count_within(parameter), "differentiates", "detach()")
    refused(ValueError, lambda: torch.func.vmap(warpfold.sum_within)(parameter[None]), "transforms", "detach()")
    masked = torch.masked.masked_tensor(torch.ones(2, device=device), torch.tensor([True, False], device=device))
    refused(ValueError, lambda: warpfold.sum(masked), "masked elements")
    assert warpfold.sum(torch.ones((2, 3), device="meta"), 0).shape == (3,)
    assert warpfold.sum(parameter, determinism="everywhere").requires_grad


@on_each_device
def test_dot_products_are_compiled_differentiated_and_batched(device):
    a, b = (tensor(device, (30,)).requires_grad_() for _ in range(2))
    assert torch.autograd.gradcheck(warpfold.dot, (a, b))
    assert torch.autograd.gradcheck(warpfold.vdot, (a.reshape(5, 6), b))
    a, b = a.detach(), b.detach()
    expected = torch.dot(a, b)
    assert torch.allclose(warpfold.dot(a, b), expected)
    assert torch.allclose(torch.compile(warpfold.dot, fullgraph=True)(a, b), expected)
    rows = a.reshape(5, 6)
    assert torch.allclose(torch.func.vmap(warpfold.dot, (0, None))(rows, b[:6]), rows @ b[:6])
    for dtype, result in [(torch.bfloat16, torch.float32), (torch.int8, torch.int64), (torch.uint8, torch.int64)]:
        ones = torch.full((1000,), 3, dtype=dtype, device=device)
        products = [warpfold.dot(ones, ones)]
        if dtype.is_floating_point:
            products += [warpfold.dot(ones.requires_grad_(), ones)]
        for product in products:
            assert (product.dtype, product.item()) == (result, 9000)


@on_each_device
def test_topk_matches_pytorch(device, refused):
    values = torch.randperm(6 * 40 * 5).reshape(6, 40, 5).to(device, torch.float32)
    for dim in (0, 1, 2, -2):
        for largest in (True, False):
            for k in (4, values.shape[dim]):
                found, expected = (topk(values, k, dim=dim, largest=largest) for topk in (warpfold.topk, torch.topk))
                assert torch.equal(found.values, expected.values) and torch.equal(found.indices, expected.indices)
            assert found.values.device == values.device
    found, expected = (topk(values.flatten(), 700) for topk in (warpfold.topk, torch.topk))
    assert torch.equal(found.values, expected.values) and torch.equal(found.indices, expected.indices)
    for axis, other in [(1, values), (None, values.flatten())]:
        ours, theirs = values.clone().requires_grad_(), other.clone().requires_grad_()
        warpfold.topk(ours, 3, axis).values.square().sum().backward()
        torch.topk(theirs, 3, -1 if axis is None else axis).values.square().sum().backward()
        assert torch.equal(ours.grad.flatten(), theirs.grad.flatten())
    for dtype in (torch.bfloat16, torch.uint8, torch.int64, torch.bool):
        found = warpfold.topk(torch.tensor([0, 1, 1], device=device).to(dtype), 2)
        assert found.values.dtype == dtype and found.indices.tolist() == [1, 2]
    refused(ValueError, lambda: torch.func.vmap(lambda one: warpfold.topk(one, 1))(values), "transforms", "detach()")


@on_each_device
def test_dtype_where_and_out_match_pytorch(device):
    values = tensor(device, (6, 7)).float()
    mask = tensor(device, (6, 7)) > 1
    for dtype in (torch.float64, "float64", torch.bfloat16, torch.float16, torch.int32):
        kind = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        for ours, theirs in [
            (warpfold.sum, lambda values: torch.sum(values, 1, dtype=kind)),
            (warpfold.prod, lambda values: torch.prod(values, 1, dtype=kind)),
            (warpfold.mean, lambda values: torch.mean(values, 1, dtype=kind)),
            (warpfold.nanmean, lambda values: torch.nanmean(values, 1, dtype=kind)),
            (warpfold.l2_norm, lambda values: torch.linalg.vector_norm(values, dim=1, dtype=kind)),
            (warpfold.var, lambda values: torch.var(values.to(kind), 1, correction=0)),
        ]:
            if ours is warpfold.l2_norm and kind in (torch.float16, torch.bfloat16):
                continue
            if kind is torch.int32 and ours not in (warpfold.sum, warpfold.prod):
                continue
            got, expected = ours(values, 1, dtype=dtype), theirs(values)
            assert got.dtype == kind == expected.dtype and got.device == values.device
            relative = {torch.bfloat16: 4e-2, torch.float16: 4e-3}.get(kind, 1e-12)
            torch.testing.assert_close(got, expected, rtol=relative, atol=relative)
    assert warpfold.sum(values, dtype="int64").dtype == torch.int64
    for given in (values, values.double(), values.to(torch.int32), values.bfloat16()):
        zero = torch.zeros((), dtype=given.dtype, device=device)
        for where in (mask, mask[:1], mask[:, :1].cpu().numpy(), False):
            whole = torch.as_tensor(where, device=device).broadcast_to(given.shape)
            assert torch.equal(warpfold.sum(given, 0, where=where), warpfold.sum(torch.where(whole, given, zero), 0))
            assert torch.equal(warpfold.max(given, 1, where=where, initial=2), torch.where(whole, given, zero + 2).amax(1).clamp(2))
            means = [warpfold.mean(row[chosen]) for row, chosen in zip(given, whole)]
            torch.testing.assert_close(warpfold.mean(given, 1, where=where), torch.stack(means), equal_nan=True)
    for initial in (0.1, 1e300):
        assert warpfold.max(values.double(), where=False, initial=initial).item() == initial
    assert warpfold.max(torch.ones(3, device=device).half(), where=False, initial=1e300).item() == math.inf
    large = torch.ones(3, device=device).to(torch.uint64)
    assert warpfold.max(large, where=False, initial=2**63 + 5).item() == 2**63 + 5
    for name in ("uint16", "uint32", "uint64"):
        unsigned = (tensor(device, (6, 7)).abs() * 10).to(getattr(torch, name))
        assert torch.equal(warpfold.sum(unsigned, 1, where=mask).long(), torch.where(mask, unsigned.long(), 0).sum(1))
        assert warpfold.max(unsigned, where=False, initial=7).item() == 7
    out, pair = torch.empty(7, 2, device=device)[:, 0], torch.empty(2, 6, device=device).unbind()
    assert warpfold.sum(values, 0, where=mask, out=out) is out
    assert torch.equal(out, warpfold.sum(values, 0, where=mask))
    assert warpfold.var_mean(values, 1, out=pair) is pair
    assert all(map(torch.equal, pair, warpfold.var_mean(values, 1)))
    expected = warpfold.sum(values, 0)
    assert torch.equal(warpfold.sum(values, 0, out=values[2]), expected) and torch.equal(values[2], expected)


@on_each_device
def test_dtype_and_where_are_differentiated_compiled_and_batched(device):
    mask = tensor(device, (3, 4)) > 0.2
    calls = [
        lambda values: warpfold.sum(values, 1, dtype=torch.float64),
        lambda values: warpfold.var(values, 0, ddof=1, dtype="float64", keepdims=True),
        lambda values: warpfold.mean(values, dtype=torch.float32),
        lambda values: warpfold.sum(values, 1, where=mask),
        lambda values: warpfold.l2_norm(values, 0, where=mask, dtype=torch.float64),
        lambda values: warpfold.max(values, 1, where=mask, initial=0.25),
        lambda values: warpfold.nanmean(values, 1, where=mask),
        lambda values: warpfold.prod(values, 0, where=mask, initial=2.0, dtype=torch.float64),
    ]
    for call in calls:
        for dtype in (torch.float32, torch.float64):
            values = tensor(device).to(dtype)
            compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
            torch.testing.assert_close(compiled(values), call(values), equal_nan=True)
            gradients = []
            for function in (call, compiled):
                given = values.clone().requires_grad_()
                result = function(given)
                result.sum().backward()
                torch.testing.assert_close(result.detach(), call(values), equal_nan=True)
                gradients.append(given.grad)
            torch.testing.assert_close(*gradients, equal_nan=True)
            batch = torch.stack([values, values + 1])
            expected = torch.stack([call(one) for one in batch])
            torch.testing.assert_close(torch.func.vmap(call)(batch), expected, equal_nan=True)
        if call is not calls[2]:
            assert torch.autograd.gradcheck(call, tensor(device).requires_grad_())
    values, masks = tensor(device), torch.stack([mask, ~mask])
    of_masks = torch.func.vmap(lambda mask: warpfold.sum(values, where=mask))(masks)
    torch.testing.assert_close(of_masks, torch.stack([values[one].sum() for one in masks]))
    # Not as one graph, but with the same result.
    out = torch.empty(3, dtype=torch.float64, device=device)
    broken = torch.compile(lambda values: warpfold.mean(values, 1, where=mask, out=out), backend="aot_eager")
    assert torch.equal(broken(values), warpfold.mean(values, 1, where=mask))


@on_each_device
def test_extremes_share_gradients_with_initial_alone(device):
    values = torch.arange(4.0, device=device, requires_grad=True)
    mask = torch.arange(4, device=device) < 2
    result = warpfold.max(values, where=mask, initial=1.0)
    (gradient,) = torch.autograd.grad(result, values)
    assert result.item() == 1 and gradient.tolist() == [0, 0.5, 0, 0]
    assert warpfold.sum(values, initial=1e60).item() == math.inf
    none = torch.empty(0, dtype=torch.float16, device=device, requires_grad=True)
    assert warpfold.max(none, initial=1e60).item() == math.inf


@on_each_device
def test_checked_sums_of_tensors(device):
    most = torch.iinfo(torch.int64).max
    values = torch.tensor([[most, 1, -1], [2, 3, 4], [-most, -1, 0]], device=device)
    got = warpfold.sum(values, 1, checked=True)
    assert got.is_contiguous() and torch.equal(got, values.sum(1))
    got = warpfold.sum(values.T, axis=0, keepdims=True, checked=True)
    assert got.is_contiguous() and torch.equal(got, values.T.sum(0, keepdim=True))
    wide = torch.tensor([2**63 - 1, 1, 5], device=device).view(torch.uint64)
    got = warpfold.sum(wide, checked=True)
    assert got.dtype == torch.uint64 and int(got.cpu().numpy()) == 2**63 + 5
    several = [values[1], values[1, :2]]
    assert int(warpfold.sum(several, checked=True)) == 14
    for over in (values[0, :2], [values[0, :1], values[1]]):
        with pytest.raises(OverflowError, match="^sum of int64 overflows; give dtype"):
            warpfold.sum(over, checked=True)
    # Sums of unsigned integers are signed, as in PyTorch.
    assert int(warpfold.sum(torch.full((3,), 255, dtype=torch.uint8, device=device), checked=True)) == 765
    with pytest.raises(TypeError, match="^checked for a tensor that PyTorch"):
        torch.func.vmap(lambda row: warpfold.sum(row, checked=True))(values)


@on_each_device
def test_invalid_dtype_where_and_out_of_tensors_are_refused(device, refused):
    values, mask = tensor(device), tensor(device) > 0
    parameter, out = torch.nn.Parameter(values), torch.full((4,), 77.0, dtype=torch.float64, device=device)
    recorded = out.clone().requires_grad_()
    for kind, call, *words in [
        (TypeError, lambda: warpfold.sum(parameter, 0, out=out), "out for a tensor that PyTorch differentiates", "leave it out", "detach()"),
        (TypeError, lambda: torch.func.vmap(lambda one: warpfold.sum(one, 0, out=out))(values[None]), "out for a tensor", "detach()"),
        (TypeError, lambda: warpfold.sum(values, 0, out=recorded), "out that PyTorch differentiates", "detach()"),
        (TypeError, lambda: warpfold.sum(parameter, initial=out.sum()), "initial that is a tensor", "give a number"),
        (TypeError, lambda: warpfold.mean(parameter, 0, where=mask), "where of mean", "differentiates", "detach()"),
        (TypeError, lambda: warpfold.sum(values, 0, out=out.float()), "out of float32", "results of float64", "give"),
        (TypeError, lambda: warpfold.sum(values, 0, out=out.cpu().numpy()), "out of type ndarray", "torch.Tensor"),
        (ValueError, lambda: warpfold.sum(values, 0, out=out.to("meta")), "out on meta", f"results on {device}"),
        (ValueError, lambda: warpfold.sum(values, 1, out=out), "(4,)", "(3,)"),
        (ValueError, lambda: warpfold.sum(values, 0, out=out[:1].expand(4)), "out is expanded", "memory of their own"),
        (TypeError, lambda: warpfold.sum(values, 0, out=out, stream=0), "stream with dtype, where or out"),
        (TypeError, lambda: warpfold.mean(values, dtype=torch.int64), "dtype torch.int64 of mean", "bfloat16, float32"),
        (TypeError, lambda: warpfold.sum(values, dtype=torch.complex64), "dtype torch.complex64 of sum", "bool, int8"),
        (TypeError, lambda: warpfold.sum(values.to(torch.complex64), dtype=torch.float64), "complex64", "bool, int8"),
        (TypeError, lambda: warpfold.sum(values, where=values), "where of float64", "truth values"),
        (ValueError, lambda: warpfold.sum(values, where=mask[:2]), "(2, 4)", "(3, 4)", "broadcast"),
        (ValueError, lambda: warpfold.min(values, where=mask), "where of min", "`initial`"),
    ]:
        refused(kind, call, *words)
    assert (out == 77).all()
    with torch.no_grad():
        assert torch.equal(warpfold.sum(parameter, 0, out=out), warpfold.sum(values, 0))
        assert torch.equal(warpfold.mean(parameter, 0, where=True), warpfold.mean(values, 0))
