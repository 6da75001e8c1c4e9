"""Traits: registration refuses an op without them, and lowered programs have them."""

import dataclasses
from typing import Any

import pytest

from gnomon.dialects.contract import REGISTRY, Op, Verdict
from gnomon.dialects.emit import ops
from gnomon.dialects.example import example_program
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost, Form, cost_of, form_of, linear, names_of
from gnomon.passes.pipeline import EXPAND, LOWER, run_passes

# Operations of lowered programs that no op lowers to one-to-one.
COMPOSED = {
    # Structure, calls, and what a target resolves.
    *("return", "custom_call", "composite", "get_dimension_size", "partition_id", "replica_id"),
    # Parts of several ops of the dialect each.
    *("all_gather", "all_reduce", "all_to_all", "collective_permute", "reduce_scatter", "if"),
}


def _facets(op: Op) -> dict[str, Any]:
    return {f.name: getattr(op, f.name) for f in dataclasses.fields(op) if f.init}


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("exp", {"cost": None}, "declare a cost"),
        ("reshape", {"cost": Cost.OPERATION}, "declare a cost"),
        ("neg", {"linear": None}, "in which operands"),
        ("exp", {"linear": linear()}, "in which operands"),
        ("pow", {"name": "pow_of_bits", "form": Form.VIEW, "cost": None}, "stablehlo.power is"),
    ],
)
def test_registration_fails(name: str, changed: dict[str, Any], message: str) -> None:
    """An op without a trait, or with one that another op contradicts, is not registered."""
    with pytest.raises((TypeError, ValueError), match=message):
        Op(**{**_facets(getattr(ops, name)), **changed})
    assert "gnomon.pow_of_bits" not in REGISTRY


def test_the_form_is_mandatory() -> None:
    """No op has a default form."""
    facets = _facets(ops.exp)
    del facets["form"]
    with pytest.raises(TypeError, match="form"):
        Op(**facets)


def test_traits_by_name() -> None:
    """Operations of both dialects have traits; others have none."""
    assert form_of("gnomon.exp") is form_of("stablehlo.exponential") is Form.ELEMENTWISE
    assert cost_of("gnomon.sqrt") is cost_of("stablehlo.sqrt") is Cost.ROOT
    assert form_of("stablehlo.reduce") is form_of("gnomon.reduce_sum") is Form.REDUCTION
    assert cost_of("gnomon.reduce_sum") is None
    assert form_of("arith.addf") is None
    assert "stablehlo.divide" in names_of("stablehlo", Form.ELEMENTWISE, costs=[Cost.DIVISION])
    assert "gnomon.div" not in names_of("gnomon", Form.ELEMENTWISE, costs=[Cost.ROOT])


def test_groups() -> None:
    """`fma` is linear in either factor together with the summand."""
    linearity = ops.fma.linear
    assert linearity.group_of([0], 3) == linearity.group_of([0, 2], 3) == (0, 2)
    assert linearity.group_of([1, 2], 3) == (1, 2)
    assert linearity.group_of([0, 1], 3) is None


def test_every_lowered_operation_has_traits() -> None:
    """A new lowering whose StableHLO operation has no traits would silently get none."""
    missing = {}
    for op in REGISTRY.values():
        if isinstance(op.lower, Verdict) or not op.full_name.startswith("gnomon."):
            continue
        program = example_program(op)
        try:
            run_passes(program.module, [*EXPAND, *LOWER])
        except Exception:
            continue

        def check(operation: ir.Operation, op: Op = op) -> ir.WalkResult:
            name = operation.name
            known = form_of(name) or name.removeprefix("stablehlo.") in COMPOSED
            if name.startswith("stablehlo.") and not known:
                missing[name] = op.name
            return ir.WalkResult.ADVANCE

        program.module.operation.walk(check)
    assert not missing
