"""Rewriting of programs by a table of rules by op name, applied to inner bodies first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gnomon.dialects.body import Body, erase, results_of
from gnomon.dialects.contract import Instance, bodies_of, instance_of, lookup
from gnomon.dialects.functions import Program, call, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, mlir_type

__all__ = ["Outlined", "Rule", "SpecialCase", "merged", "rewrite"]

Rule: TypeAlias = "Callable[[Instance], Sequence[ir.Value] | None]"
"""Emits the replacement of an op and returns its results, or returns None to keep the op."""


@dataclass(frozen=True)
class Outlined:
    """A rule whose code is emitted once for each list of operand types, as a function.

    Used for ops without parameters whose code is long. Each op becomes a call of the function.
    `simplify-lowered` inlines the calls, which takes less time than emitting the code again.
    """

    rule: Rule

    def __call__(self, inst: Instance) -> Sequence[ir.Value] | None:
        """Apply the rule in place, without outlining."""
        return self.rule(inst)


@dataclass(frozen=True)
class SpecialCase:
    """A rule for some instances of an op, tried before a more general rule of the same op.

    If it returns None, the general rule applies, if there is one.
    """

    rule: Rule
    otherwise: Rule | None = None

    def __call__(self, inst: Instance) -> Sequence[ir.Value] | None:
        """Apply the rule, or if it returns None, the general one."""
        values = self.rule(inst)
        if values is None and self.otherwise is not None:
            values = self.otherwise(inst)
        return values


def merged(*tables: Mapping[str, Rule]) -> dict[str, Rule]:
    """Merge tables of rules into one.

    Raises:
      ValueError: two tables have a rule for the same op, unless exactly one of the two rules is a
        `SpecialCase`.
    """
    rules: dict[str, Rule] = {}
    for name, rule in (entry for table in tables for entry in table.items()):
        other = rules.get(name)
        if other is None:
            rules[name] = rule
            continue
        special = [r for r in (other, rule) if isinstance(r, SpecialCase) and r.otherwise is None]
        if len(special) != 1:
            raise ValueError(
                f"two rules rewrite {name}, and exactly one of them must be a `SpecialCase`"
            )
        (first,) = special
        rules[name] = SpecialCase(first.rule, rule if first is other else other)
    return rules


_Types = tuple[TensorType, ...]


@dataclass
class _Rewriter:
    program: Program
    rules: Mapping[str, Rule]
    # The names of the functions of `Outlined` rules by op and operand types; None if the rule keeps
    # the op.
    outlined: dict[tuple[str, _Types], str | None] = field(default_factory=dict)

    def body(self, body: Body) -> None:
        for op in body.operations:
            if lookup(op).is_control_flow:
                for inner in bodies_of(op):
                    self.body(inner)
            rule = self.rules.get(op.name)
            if rule is None:
                continue
            inst = instance_of(op)
            with ir.InsertionPoint(op), op.location:
                values = self._call(rule, inst) if isinstance(rule, Outlined) else rule(inst)
            if values is None:
                continue
            for old, new in zip(results_of(op), values, strict=True):
                old.replace_all_uses_with(new)
            erase(op)

    def _call(self, rule: Outlined, inst: Instance) -> Sequence[ir.Value] | None:
        key = inst.op.full_name, tuple(inst.operand_types)
        if key not in self.outlined:
            self.outlined[key] = self._outline(rule, inst)
        name = self.outlined[key]
        if name is None:
            return None
        return list(
            ir.Operation.create(
                call.full_name,
                results=[mlir_type(t) for t in inst.result_types],
                operands=list(inst.operands),
                attributes=call.encode({"callee": name}),
            ).results
        )

    def _outline(self, outlined: Outlined, inst: Instance) -> str | None:
        body = Body.open(inst.operand_types)
        with ir.InsertionPoint(body.block), ir.Location.unknown():
            types = inst.operand_types, inst.result_types
            values = outlined.rule(Instance(inst.op, body.arguments, *types, inst.params))
        if values is None:
            return None
        body.close(values)
        return self.program.add(inst.op.name, body)


def rewrite(program: Program, rules: Mapping[str, Rule]) -> None:
    """Apply rules, by full op name, to every op of a program.

    The code that a rule emits is not rewritten again.
    """
    rewriter = _Rewriter(program, rules)
    for function in program.functions:
        rewriter.body(program.body(symbol_name(function)))
