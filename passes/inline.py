"""``inline-calls``: replace each call by the body of the function that it calls.

Ops that mean what their body says (`Op.inline`: custom derivatives, checkpoints) are calls of a
function that has no name, and are replaced alike.
"""

from __future__ import annotations

from gnomon.dialects.body import Body, erase, operands_of, results_of
from gnomon.dialects.contract import bodies_of, instance_of, lookup
from gnomon.dialects.functions import Program, callee, symbol_name
from gnomon.dialects.mlir import ir


class RecursiveCallError(ValueError):
    """A function that reaches itself: a traced program never has one, hand-written IR may."""


def inline_calls(program: Program) -> None:
    """Inline all calls in all functions, callees first."""
    done: set[str] = set()

    def visit(name: str, callers: tuple[str, ...]) -> None:
        if name in callers:
            path = " -> ".join((*callers, name))
            raise RecursiveCallError(f"the call graph has a cycle: {path}")
        if name not in done:
            _inline(program.body(name), lambda inner: visit(inner, (*callers, name)), program)
            done.add(name)

    for function in program.functions:
        visit(symbol_name(function), ())


def _inline(body: Body, visit, program: Program) -> None:  # type: ignore[no-untyped-def]
    for op in body.operations:
        if op.name == "func.call":
            name = callee(op)
            visit(name)
            with ir.InsertionPoint(op), op.location:
                results = program.body(name).inline(operands_of(op))
            for old, new in zip(results_of(op), results, strict=True):
                old.replace_all_uses_with(new)
            erase(op)
            continue
        definition = lookup(op)
        if not definition.is_control_flow:
            continue
        bodies = bodies_of(op)
        if definition.inline is None:
            for inner in bodies:
                _inline(inner, visit, program)
            continue
        _inline(bodies[0], visit, program)
        with ir.InsertionPoint(op), op.location:
            results = definition.inline(instance_of(op))
        for old, new in zip(results_of(op), results, strict=True):
            old.replace_all_uses_with(new)
        erase(op)
