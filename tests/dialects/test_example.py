"""Every op's example parses, verifies, uses its op, and evaluates."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import pytest

from gnomon.backends.reference import Evaluator
from gnomon.dialects import callbacks
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.contract import REGISTRY, Facet, Op, Verdict
from gnomon.dialects.example import MEMBERS, example_program, example_text
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType

NAMES = sorted(REGISTRY)


def operand(type_: TensorType, rng: np.random.Generator) -> np.ndarray:
    """Numbers between 0 and 1, small indices, or true: values for which most ops are defined."""
    if type_.dtype.kind in "iu":
        return rng.integers(0, 3, type_.shape).astype(type_.dtype)
    if type_.dtype.kind == "b":
        return np.ones(type_.shape, bool)
    return rng.uniform(0.1, 0.9, type_.shape).astype(type_.dtype)


def evaluate(program: Program) -> list[np.ndarray]:
    """The results of ``@main`` on drawn operands."""
    rng = np.random.default_rng(0)
    return Evaluator(program)(
        "main", *(operand(t, rng) for t in program.signature("main").arguments)
    )


def altered(op: Op, **facets: Any) -> Op:
    """A copy of an op with other facets, which is not in the registry."""
    copy = object.__new__(Op)
    for field in dataclasses.fields(Op):
        object.__setattr__(copy, field.name, facets.get(field.name, getattr(op, field.name)))
    return copy


def only_raises(facet: Facet) -> bool:
    """Whether a rule is declared to raise for all operands."""
    if isinstance(facet, Verdict):
        return False
    returned = getattr(facet, "__annotations__", {}).get("return")
    return returned in ("NoReturn", NoReturn)


@pytest.fixture
def callback(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callback]:
    """The callback that examples refer to, which returns its operands if results are expected."""
    made = Callback(lambda *arrays: arrays)
    monkeypatch.setitem(callbacks._callbacks, 0, made)
    yield made


@pytest.mark.parametrize("name", NAMES)
def test_the_example_uses_its_op(name: str) -> None:
    found = set()

    def visit(operation: ir.Operation) -> ir.WalkResult:
        found.add(operation.name)
        return ir.WalkResult.ADVANCE

    module = example_program(REGISTRY[name]).module.operation
    assert module.verify()
    module.walk(visit)
    assert name in found


@pytest.mark.parametrize("name", NAMES)
def test_the_example_is_evaluated(name: str, callback: Callback) -> None:
    op = REGISTRY[name]
    program = example_program(op)
    results = program.signature("main").results
    callback.function = lambda *arrays: arrays[: len(results)]
    if only_raises(op.evaluate):
        with pytest.raises(TypeError):
            evaluate(program)
        return
    given = evaluate(program)
    assert [TensorType(r.shape, r.dtype) for r in given] == list(results)
    assert results or op.effects


def test_a_broken_example_is_an_error() -> None:
    op = REGISTRY["gnomon.add"]
    for example in (
        '%r = "gnomon.add"(%x, %y) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>',
        '%r = "gnomon.add"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
        '%r = "gnomon.add"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi32>',
        '%r = "gnomon.add"(%x, %y) ({ ... }) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>',
        '%r = "gnomon.no_op"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>',
    ):
        with pytest.raises(ValueError, match=r"the example of gnomon\.add"):
            example_program(altered(op, example=example))


def test_values_that_are_not_defined_are_arguments_and_those_not_used_results() -> None:
    text = '%a = "gnomon.sin"(%x) : (tensor<3xf32>) -> tensor<3xf32>\n' + REGISTRY[
        "gnomon.threefry2x32"
    ].example.replace("%x0", "%k0")
    program = example_program(altered(REGISTRY["gnomon.sin"], example=text))
    wide, bits = (TensorType((3,), np.dtype("f4")), TensorType((4,), np.dtype("u4")))
    assert program.signature("main") == ((wide, bits, bits, bits), (wide, bits, bits))


def test_collectives_are_mapped_over_their_axis() -> None:
    program = example_program(REGISTRY["gnomon.psum"])
    (given,) = evaluate(program)
    ((argument,), _) = program.signature("main")
    x = operand(argument, np.random.default_rng(0))
    assert given.shape == (MEMBERS, 4)
    np.testing.assert_allclose(given, np.broadcast_to(x.sum(0), x.shape), rtol=1e-6)


def test_lines_of_examples_are_short() -> None:
    lines = {len(line) for op in REGISTRY.values() for line in example_text(op).splitlines()}
    assert max(lines) <= 100
