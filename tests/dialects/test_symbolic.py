"""Symbolic dimensions: their algebra against Python's integers, and bounds against enumeration."""

from __future__ import annotations

import itertools
import operator
import pickle
import random

import numpy as np
import pytest

from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon.dialects.refinement import refined
from gnomon.dialects.symbolic.dimension import (
    Dimension,
    SymbolicScope,
    is_symbolic_dim,
    larger,
    smaller,
    substituted,
)
from gnomon.dialects.symbolic.errors import InconclusiveDimensionOperation
from gnomon.dialects.types import TensorType, mlir_type, tensor_type

VALUES = [{"a": a, "b": b} for a, b in itertools.product((1, 2, 3, 7, 12), (1, 2, 5, 8))]


def value_of(size, values):
    return substituted(size.polynomial, values) if is_symbolic_dim(size) else size


def random_expression(rng, scope, depth):
    """An expression as a dimension, and as a function of the values of its variables."""
    if not depth:
        name = rng.choice("ab")
        if rng.random() < 0.3:
            n = rng.randint(-3, 6)
            return n, lambda values: n
        return scope.parse(name), lambda values: values[name]
    x, fx = random_expression(rng, scope, depth - 1)
    y, fy = random_expression(rng, scope, depth - 1)
    kind = rng.choice(["add", "sub", "mul", "floordiv", "mod", "max", "min"])
    if kind in ("floordiv", "mod"):
        n = rng.choice([1, 2, 3, 4, -2])
        y, fy = n, lambda values: n
    combine = {"max": larger, "min": smaller}.get(kind) or getattr(operator, kind)
    exact = {"max": max, "min": min}.get(kind) or getattr(operator, kind)
    return combine(x, y), lambda values: exact(fx(values), fy(values))


@pytest.mark.parametrize("seed", range(40))
def test_arithmetic_is_that_of_integers_and_bounds_hold(seed) -> None:
    rng, scope = random.Random(seed), SymbolicScope()
    for _ in range(10):
        size, exact = random_expression(rng, scope, rng.randint(1, 3))
        found = [value_of(size, values) for values in VALUES]
        assert found == [exact(values) for values in VALUES], size
        if is_symbolic_dim(size):
            low, high = scope.bounds(size.polynomial)
            assert low <= min(found) <= max(found) <= high, size
            assert scope.parse(str(size)) == size
            assert hash(scope.parse(str(size))) == hash(size)


def decisions(size, other):
    """The answers of comparisons; None where they have none."""
    found = []
    for compare in (operator.ge, operator.gt, operator.le, operator.lt):
        try:
            found.append(compare(size, other))
        except InconclusiveDimensionOperation:
            found.append(None)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_comparisons_that_are_decided_hold_for_all_values(seed) -> None:
    rng = random.Random(seed)
    scope = SymbolicScope(["a >= 2", "mod(a, 2) == 0", "b <= a"])
    allowed = [v for v in VALUES if v["a"] >= 2 and v["a"] % 2 == 0 and v["b"] <= v["a"]]
    for _ in range(10):
        (x, fx), (y, fy) = (random_expression(rng, scope, 2) for _ in range(2))
        answers = decisions(x, y)
        for values in allowed:
            one, other = fx(values), fy(values)
            exact = [one >= other, one > other, one <= other, one < other]
            assert all(a is None or a == e for a, e in zip(answers, exact, strict=True)), (x, y)
            assert (x == y) <= (one == other)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a - a//2 >= 1", True),
        ("2*(a//2) <= a", True),
        ("a*b >= a", True),
        ("a % 3 <= 2", True),
        ("(a + 1)//2 >= 1", True),
        ("a > b", None),
        ("a % 3 < 2", None),
        ("a - 1 > 0", None),
    ],
)
def test_comparisons_decided_by_bounds(text, expected) -> None:
    scope = SymbolicScope()
    names = {"a": scope.parse("a"), "b": scope.parse("b")}
    if expected is None:
        with pytest.raises(InconclusiveDimensionOperation, match="inconclusive"):
            eval(text, names)
    else:
        assert eval(text, names) is expected


def test_constraints() -> None:
    scope = SymbolicScope(["a >= 4", "mod(a, 2) == 0", "2*a == c", "b <= a"])
    a, b, c = map(scope.parse, "abc")
    assert a >= 3
    assert a % 2 == 0
    assert a // 2 * 2 == a
    assert hash(a // 2 * 2) == hash(a)
    assert c == 2 * a
    assert a - b >= 0
    with pytest.raises(InconclusiveDimensionOperation):
        assert b >= 2


def test_constants_are_integers() -> None:
    scope = SymbolicScope()
    a = scope.parse("a")
    assert type(a - a) is int
    assert type((4 * a + 2) % 4) is int
    assert scope.parse("max(3, 2)") == 3
    assert not is_symbolic_dim(3)


def test_python_cannot_use_a_dimension_as_an_integer() -> None:
    a = SymbolicScope().parse("a")
    for use in (range, int, float, lambda n: [0] * n, lambda n: np.zeros(n)):
        with pytest.raises(InconclusiveDimensionOperation, match="requires a constant"):
            use(a)


def test_scopes_are_not_mixed() -> None:
    one, other = SymbolicScope().parse("a"), SymbolicScope().parse("a")
    assert one != other
    with pytest.raises(ValueError, match="Invalid mixing of symbolic scopes"):
        one + other
    with pytest.raises(ValueError, match="Invalid mixing of symbolic scopes"):
        mlir_type(TensorType((one, other), np.dtype(np.float32)))


def test_pickles_keep_the_scope() -> None:
    scope = SymbolicScope(["a >= 2"])
    size = scope.parse("2*a + 1")
    assert pickle.loads(pickle.dumps(size)) == size


def test_types_go_to_text_and_back() -> None:
    ensure_context()
    scope = SymbolicScope()
    type_ = TensorType((scope.parse("2*b + 1"), 3), np.dtype(np.float32))
    text = str(mlir_type(type_))
    assert '{gnomon.dims = ["2*b + 1", 3], gnomon.scope = ' in text
    assert tensor_type(ir.Type.parse(text, context())) == type_
    with pytest.raises(TypeError, match="static or symbolic"):
        tensor_type(ir.Type.parse("tensor<?xf32>", context()))


PROGRAM = """
func.func @f(%x: tensor<?x3xf32, {{gnomon.dims = ["b", 3], gnomon.scope = {scope} : i64}}>)
    -> tensor<?xf32, {{gnomon.dims = ["3*b"], gnomon.scope = {scope} : i64}}> {{
  %r = "gnomon.reshape"(%x) {{shape = {{gnomon.dims = ["{size}"], gnomon.scope = {scope} : i64}}}}
    : (tensor<?x3xf32, {{gnomon.dims = ["b", 3], gnomon.scope = {scope} : i64}}>)
    -> tensor<?xf32, {{gnomon.dims = ["{size}"], gnomon.scope = {scope} : i64}}>
  return %r : tensor<?xf32, {{gnomon.dims = ["{size}"], gnomon.scope = {scope} : i64}}>
}}
"""


def test_sizes_replace_variables_in_a_program() -> None:
    ensure_context()
    scope = SymbolicScope().number
    module = ir.Module.parse(PROGRAM.format(scope=scope, size="3*b"), context())
    text = str(refined(Program(module), {"b": 4}).module)
    assert '"gnomon.reshape"(%arg0) {shape = array<i64: 12>}' in text
    assert "tensor<4x3xf32>) -> tensor<12xf32>" in text
    assert "gnomon.dims" not in text


@pytest.mark.parametrize("size", [0, -1, 2**31])
def test_sizes_that_no_array_has_are_refused(size) -> None:
    ensure_context()
    scope = SymbolicScope().number
    module = ir.Module.parse(PROGRAM.format(scope=scope, size="3*b"), context())
    if size:
        with pytest.raises(ValueError, match="a symbolic dimension must be in"):
            refined(Program(module), {"b": size})
    else:
        assert "tensor<0x3xf32>" in str(refined(Program(module), {"b": size}).module)


PACKED = """
func.func @f(%x: tensor<?xf32, {{gnomon.dims = ["a"], gnomon.scope = {scope} : i64}}>,
    %y: tensor<?xf32, {{gnomon.dims = ["b"], gnomon.scope = {scope} : i64}}>)
    -> tensor<?xf32, {{gnomon.dims = ["b + a"], gnomon.scope = {scope} : i64}}> {{
  %p = builtin.unrealized_conversion_cast %x, %y
    : tensor<?xf32, {{gnomon.dims = ["a"], gnomon.scope = {scope} : i64}}>,
      tensor<?xf32, {{gnomon.dims = ["b"], gnomon.scope = {scope} : i64}}>
    to tuple<tensor<?xf32, {{gnomon.dims = ["a"], gnomon.scope = {scope} : i64}}>,
             tensor<?xf32, {{gnomon.dims = ["b"], gnomon.scope = {scope} : i64}}>>
  %r = "gnomon.concatenate"(%p) {{dimension = 0 : i64}}
    : (tuple<tensor<?xf32, {{gnomon.dims = ["a"], gnomon.scope = {scope} : i64}}>,
             tensor<?xf32, {{gnomon.dims = ["b"], gnomon.scope = {scope} : i64}}>>)
    -> tensor<?xf32, {{gnomon.dims = ["b + a"], gnomon.scope = {scope} : i64}}>
  return %r : tensor<?xf32, {{gnomon.dims = ["b + a"], gnomon.scope = {scope} : i64}}>
}}
"""


@pytest.mark.parametrize(("b", "packed"), [(3, True), (2, False)])
def test_operands_are_packed_as_their_sizes_say(b, packed) -> None:
    ensure_context()
    module = ir.Module.parse(PACKED.format(scope=SymbolicScope().number), context())
    text = str(refined(Program(module), {"a": 2, "b": b}).module)
    assert f"-> tensor<{2 + b}xf32>" in text
    assert ("unrealized_conversion_cast" in text) == packed


def test_a_program_that_does_not_hold_for_all_sizes_is_refused() -> None:
    ensure_context()
    scope = SymbolicScope().number
    with pytest.raises(ir.MLIRError, match="elements"):
        ir.Module.parse(PROGRAM.format(scope=scope, size="b + 2"), context())


def test_repr_is_the_expression() -> None:
    scope = SymbolicScope()
    a, b = map(scope.parse, "ab")
    assert isinstance(a, Dimension)
    shown = [a - b, -a, (a + 1) * (b - 1), 2 * (a // 2), (a - b) * (a + b), -3 * b + 2 * a + 1]
    assert list(map(repr, shown)) == [
        "- b + a",
        "- a",
        "a*b + b - a - 1",
        "2*floordiv(a, 2)",
        "- b^2 + a^2",
        "- 3*b + 2*a + 1",
    ]


@pytest.mark.parametrize("window", [1, 2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_both_ends_of_a_padding_are_all_of_it(window, stride) -> None:
    """Half at one end and the rest at the other: "SAME" gives ``ceil(a / stride)`` windows."""
    a = SymbolicScope().parse("a")
    total = larger(0, (-(-a // stride) - 1) * stride + window - a)
    low = total // 2
    windows = (a + low + (total - low) - window) // stride + 1
    if window >= stride:
        assert str(windows) == str(-(-a // stride))
    for values in VALUES:
        size, expected = values["a"], -(-values["a"] // stride)
        if window < stride:
            expected = (
                size + max(0, (expected - 1) * stride + window - size) - window
            ) // stride + 1
        assert value_of(windows, values) == expected
