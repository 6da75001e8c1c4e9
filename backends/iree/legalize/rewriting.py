"""How a program is rewritten: rules by op name, applied to every body, innermost first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gnomon.dialects.body import Body, erase, results_of
from gnomon.dialects.contract import Instance, bodies_of, instance_of, lookup
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir

__all__ = ["Rule", "rewrite"]

Rule = Callable[[Instance], Sequence[ir.Value] | None]
"""Emits what takes the place of an op and returns its results; None leaves the op as it is."""


def rewrite(program: Program, rules: Mapping[str, Rule]) -> None:
    """Apply rules, by full op name, to every op of a program.

    What a rule emits is not looked at again.
    """
    for function in program.functions:
        _rewrite_body(program.body(symbol_name(function)), rules)


def _rewrite_body(body: Body, rules: Mapping[str, Rule]) -> None:
    for op in body.operations:
        if lookup(op).is_control_flow:
            for inner in bodies_of(op):
                _rewrite_body(inner, rules)
        rule = rules.get(op.name)
        if rule is None:
            continue
        with ir.InsertionPoint(op), op.location:
            values = rule(instance_of(op))
        if values is None:
            continue
        for old, new in zip(results_of(op), values, strict=True):
            old.replace_all_uses_with(new)
        erase(op)
