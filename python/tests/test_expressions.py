"""Operations that are given as text, compared with NumPy."""

import numpy
import pytest

import warpfold
from conftest import TYPES, small

#: Expressions of every type, and the same by NumPy for integers in int64 or uint64, or for floats.
EXPRESSIONS = [
    ("x", lambda x: x),
    ("x * x + 2", lambda x: x * x + 2),
    ("x - 1", lambda x: x - 1),
    ("x ** 3 - x", lambda x: x * x * x - x),
    ("x > 2 ? x : 7", lambda x: numpy.where(x > 2, x, 7)),
    ("(x == 1) + 2 * (x >= 3 && x != 4)", lambda x: (x == 1) + 2 * ((x >= 3) & (x != 4))),
    ("min(x, 3) + max(x, 1)", lambda x: numpy.minimum(x, 3) + numpy.maximum(x, 1)),
]


def kind_of(values, float_type):
    """Returns the type of an expression's values."""
    return {"f": float_type, "i": "int64"}.get(values.dtype.kind, "uint64")


def converted(values):
    """Returns elements in a type in which an expression's values are exact."""
    return values.astype(kind_of(values, "float64"))


@pytest.mark.parametrize("dtype", TYPES)
def test_expressions_of_every_type_match_numpy(dtype):
    values = small(dtype, (4, 30, 11))
    numbers = converted(values)
    for text, function in EXPRESSIONS:
        expression = warpfold.expr(text)
        expected = function(numbers)
        for axis in [None, 0, 1, (0, 2), -1]:
            for name in ["sum", "min", "max"]:
                found = getattr(expression, name)(values, axis)
                assert found.dtype == ("float64" if dtype == "float64" else kind_of(values, "float32"))
                same = getattr(expected.astype(found.dtype), name)(axis)
                numpy.testing.assert_array_equal(found, same, f"{name} of {text} along {axis}")


def test_only_elements_that_meet_the_condition_are_reduced():
    values = numpy.array([[1.0, -2.0, 3.0], [-4.0, numpy.nan, -6.0]], "float32")
    positive = warpfold.expr("x + 0.5", where="x > 0")
    numpy.testing.assert_array_equal(positive.sum(values, axis=1), [5, 0])
    numpy.testing.assert_array_equal(positive.min(values, axis=1, keepdims=True), [[1.5], [numpy.inf]])
    numpy.testing.assert_array_equal(positive.max(values, dim=1, keepdim=True), [[3.5], [-numpy.inf]])
    assert warpfold.expr("is_nan(x) || x < -5").sum(values) == 2
    assert warpfold.expr("x % 2 == 0").sum(numpy.arange(11)) == 6


def test_rows_of_expressions_are_never_dropped():
    # Calls are cached by the address of a row.
    values = numpy.arange(5.0)
    found = [warpfold.expr(f"x + {i}").sum(values) for i in range(50)]
    assert found == [10 + 5 * i for i in range(50)]
    rows = [warpfold.expr("x + 1")._rows["sum"] for _ in range(2)]
    assert rows[0] is rows[1]
    assert rows[0] is not warpfold.expr("x + 1", where="x > 0")._rows["sum"]


def test_empty_arrays():
    assert warpfold.expr("x + 1").sum(numpy.zeros(0)) == 0
    with pytest.raises(ValueError, match="^min of no elements"):
        warpfold.expr("x").min(numpy.zeros((0, 3)), axis=0)
    assert warpfold.expr("x").max(numpy.zeros((3, 0)), axis=0).shape == (0,)


def test_wrong_expressions_are_refused_with_a_caret():
    with pytest.raises(ValueError) as caught:
        warpfold.expr("x * y")
    assert str(caught.value) == "expression: unknown name `y`; the element is `x`\n  x * y\n      ^"
    with pytest.raises(ValueError, match="`%` is for integers, but values are floats"):
        warpfold.expr("x % 2").sum(numpy.ones(3))
    with pytest.raises(ValueError, match="a condition is needed"):
        warpfold.expr("x", where="x")
    with pytest.raises(ValueError, match="a float, but values are integers"):
        warpfold.expr("x % 2 + 1.5")
    assert warpfold.expr("x & 18446744073709551615").sum(numpy.ones(3, "uint8")) == 3
    with pytest.raises(TypeError, match="^text 3 of an expression; it must be a string"):
        warpfold.expr(3)
    with pytest.raises(TypeError, match="^where .* of an expression; it must be a string"):
        warpfold.expr("x", where=numpy.ones(3) > 0)
    with pytest.raises(ValueError, match="^an expression on the CPU; .* device=\"sim\"$"):
        warpfold.expr("x").sum(numpy.ones(3), device="cpu")
    with pytest.raises(ValueError, match="from run to run only"):
        warpfold.expr("x").sum(numpy.ones(3), determinism="everywhere")
    assert warpfold.expr("x").sum(numpy.ones(3, int), determinism="everywhere") == 3
    assert warpfold.expr("x").max(numpy.ones(3), determinism="everywhere") == 1
    assert repr(warpfold.expr("x", where="x > 0")) == "warpfold.expr('x', where='x > 0')"


def test_pytorchs_tensors():
    torch = pytest.importorskip("torch")
    values = torch.arange(12.0).reshape(3, 4)
    squares = warpfold.expr("x * x")
    assert torch.equal(squares.sum(values, axis=1), (values * values).sum(1))
    assert squares.max([values, values + 1]) == 144
    below = warpfold.expr("x - 1").max(torch.tensor([0, 5], dtype=torch.uint8))
    assert below.dtype == torch.uint64 and below.item() == 2**64 - 1
    with pytest.raises(TypeError, match="^an expression of a tensor that PyTorch differentiates; call `detach"):
        squares.sum(values.requires_grad_())
    with pytest.raises(TypeError, match="^axis or keepdims of an expression for a list of arrays"):
        squares.sum([values.detach()], axis=0)
    if torch.cuda.is_available():
        on_gpu = values.detach().cuda()
        for _ in range(2):
            assert torch.equal(squares.sum(on_gpu, axis=1).cpu(), (on_gpu * on_gpu).sum(1).cpu())
        assert squares.sum([on_gpu, on_gpu]) == 2 * (on_gpu * on_gpu).sum()
