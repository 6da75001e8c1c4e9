"""The specialization of programs with symbolic dimensions for given sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gnomon.dialects.body import PLAIN, Body, create, operands_of, results_of
from gnomon.dialects.contract import REGISTRY, attach_bodies, bodies_of
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.encoding import Substitution
from gnomon.dialects.types import tensor_type


def refined(source: Program, values: Mapping[str, Any]) -> Program:
    """A copy of a program in which sizes replace the variables of symbolic dimensions.

    Operations are rebuilt, not cloned: whether operands are packed depends on whether their types
    are equal, and types with different symbolic dimensions may become equal. The copy is verified,
    so the type rule of each operation holds for the sizes.

    Args:
      source: a program before its transformations are expanded.
      values: the size of each variable, which may be symbolic itself.

    Raises:
      ValueError: a type rule does not hold for the sizes.
    """
    substitution, target = Substitution(values), Program()
    for function in source.functions:
        name = symbol_name(function)
        target.add(
            name,
            _copied(source.body(name), substitution),
            public="sym_visibility" not in function.attributes,
            location=function.location,
        )
    try:
        target.module.operation.verify()
    except ir.MLIRError as error:
        given = ", ".join(f"{name} = {value}" for name, value in values.items())
        raise ValueError(f"the program is not valid for {given}: {error}") from error
    return target


def _copied(body: Body, substitution: Substitution) -> Body:
    types = [tensor_type(substitution.type(a.type)) for a in body.arguments]
    copy = Body.open(types, body.terminator.location)
    values = dict(zip(body.arguments, copy.arguments, strict=True))
    with ir.InsertionPoint(copy.block):
        for op in body.operations:
            with op.location:
                _copy(op, values, substitution)
    copy.close([values[r] for r in body.results], body.terminator.location)
    return copy


def _copy(op: ir.Operation, values: dict[ir.Value, ir.Value], substitution: Substitution) -> None:
    """Rebuild an operation for the sizes at the current insertion point."""
    found = results_of(op)
    operands = [values[x] for x in operands_of(op)]
    types = [substitution.type(r.type) for r in found]
    named = [op.attributes[i] for i in range(len(op.attributes))]
    attributes = {each.name: substitution.attribute(each.attr) for each in named}
    results: list[ir.Value]
    if op.name in PLAIN:
        made = ir.Operation.create(op.name, results=types, operands=operands, attributes=attributes)
        results = list(made.results)
    else:
        made, results = create(op.name, types, operands, attributes, len(op.regions))
        if op.regions:
            bodies = [_copied(inner, substitution) for inner in bodies_of(op)]
            attach_bodies(REGISTRY[op.name], made, bodies)
    values.update(zip(found, results, strict=True))
