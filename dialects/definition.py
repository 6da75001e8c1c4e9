"""The IRDL definition of the dialect, from the registry of ops."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from gnomon.dialects.body import operands_of
from gnomon.dialects.contract import (
    REGISTRY,
    STRUCTURE,
    Op,
    TypeRuleError,
    bodies_of,
    params_of,
    result_types,
)
from gnomon.dialects.mlir import context, ensure_context, ir, irdl
from gnomon.dialects.types import type_of


def _verify(operation: ir.Operation) -> bool:
    """Verify an op of the dialect: its attributes decode, and its types match the type rule."""
    op = REGISTRY[operation.name]
    try:
        params = params_of(operation, op)
        bodies = bodies_of(operation) if op.is_control_flow else ()
        if op.resolve:
            params = params | op.resolve(operation)
        given = [type_of(v) for v in operands_of(operation)]
        expected = op.infer_types(given, params, bodies)
        actual = result_types(operation)
        if expected != actual:
            raise TypeRuleError(
                f"{op.full_name}: the type rule gives ({', '.join(map(str, expected))}), "
                f"the op is declared with ({', '.join(map(str, actual))})"
            )
    except (TypeError, ValueError, IndexError) as error:
        operation.location.emit_error(f"'{op.full_name}' op breaks its type rule: {error}")
        return False
    return True


class _Verifier:
    """The verifier of ops that have a type rule."""

    @staticmethod
    def verify_invariants(op: Any) -> bool:
        """Verify an op; report what is wrong with it."""
        return _verify(op.operation)


def _define(op: Op) -> str:
    """The definition of an op."""
    names = itertools.count()
    lines: list[str] = []

    def constraints(count: int, kind: str = "any") -> list[str]:
        # Each value has its own constraint: values that share one must have equal types.
        made = [f"%{next(names)}" for _ in range(count)]
        lines.extend(f"{name} = irdl.{kind}" for name in made)
        return made

    def declare(what: str, fields: Sequence[str], kind: str = "any") -> None:
        if fields:
            pairs = zip(fields, constraints(len(fields), kind), strict=True)
            lines.append(f"irdl.{what}({', '.join(f'{name}: {c}' for name, c in pairs)})")

    if op.operands is ...:
        lines.append(f"irdl.operands(inputs: variadic {constraints(1)[0]})")
    else:
        declare("operands", [f"{name}_" for name in op.operands])
    if op.attributes:
        pairs = zip(op.attributes, constraints(len(op.attributes)), strict=True)
        fields = [f'"{name}" = {c}' for name, c in pairs]
        lines.append(f"irdl.attributes {{{', '.join(fields)}}}")
    if op.results is None:
        lines.append(f"irdl.results(outputs: variadic {constraints(1)[0]})")
    else:
        declare("results", [f"result{i}" for i in range(op.results)])
    declare("regions", [f"{name}_region" for name in _regions_of(op)], "region")
    return f"irdl.operation @{op.name} {{\n" + "\n".join(lines) + "\n}"


def _regions_of(op: Op) -> Sequence[str]:
    return ("branches",) if op.regions is ... else op.regions


def _purity() -> tuple[Any, ...]:
    """The interfaces of ops without effects, which upstream's passes may merge and remove."""

    class NoMemoryEffects(ir.MemoryEffectsOpInterface):
        """The op reads and writes no memory."""

        @staticmethod
        def get_effects(op: Any, effects: Any) -> None:
            """There are none."""

    class AlwaysSpeculatable(ir.ConditionallySpeculatable):
        """The op may run where it did not run before."""

        @staticmethod
        def get_speculatability(op: Any) -> Any:
            """It may be."""
            return ir.Speculatability.Speculatable

    return NoMemoryEffects, AlwaysSpeculatable


def _attach_traits(op: Op, purity: Iterable[Any]) -> None:
    regions = _regions_of(op)
    # A structural part of a region op has no results: if it were pure, upstream would erase it as
    # dead. A region op may contain an op with effects, which upstream's passes would not see if the
    # region op were pure. Dead region ops are dropped by ``drop-unused-results``, which looks
    # inside.
    if not (op.evaluate is STRUCTURE or op.effects or regions):
        for interface in purity:
            interface.attach(op.full_name)
    if op.terminator:
        ir.IsTerminatorTrait.attach(op.full_name)
    if regions and op.regions is not ...:
        ir.IsIsolatedFromAboveTrait.attach(op.full_name)
    if op.regions is ...:
        ir.NoTerminatorTrait.attach(op.full_name)
    if op.evaluate is not STRUCTURE:
        ir.DynamicOpTrait.attach(op.full_name, _Verifier)


def load_dialect() -> None:
    """Load the dialect with every registered op into the process's context.

    Called once, after all modules of the dialect have been imported. The bindings can define
    dialects by Python classes too (``dialects.ext``), which takes eight times as long for so many
    ops. Nothing here uses such classes.
    """
    ensure_context()
    ops = [op for op in REGISTRY.values() if op.full_name.startswith("gnomon.")]
    text = "\n".join(map(_define, ops))
    irdl.load_dialects(ir.Module.parse(f"irdl.dialect @gnomon {{\n{text}\n}}", context()))
    purity = _purity()
    for op in ops:
        _attach_traits(op, purity)
