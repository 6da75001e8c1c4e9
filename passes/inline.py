"""``inline-calls``: replace each call by the body of the function that it calls.

Ops that mean what their body says (`Op.inline`: custom derivatives, checkpoints) are calls of a
function that has no name, and are replaced alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gnomon.dialects.body import Body, erase, operands_of, results_of
from gnomon.dialects.contract import bodies_of, instance_of, lookup
from gnomon.dialects.functions import Program, callee, symbol_users
from gnomon.dialects.mlir import ir


class RecursiveCallError(ValueError):
    """A function that reaches itself: a traced program never has one, hand-written IR may."""


def inline_calls(program: Program) -> None:
    """Inline all calls in all functions, callees first.

    The operations of a private function that is called once are moved, and the function is gone.
    """
    inliner = _Inliner(program)
    for name in program.names:
        if name in program:
            inliner.visit(name)


class _Inliner:
    def __init__(self, program: Program) -> None:
        self.program = program
        self._done: set[str] = set()
        self._callers: list[str] = []
        names = program.names
        users = Counter(callee(op) for n in names for op in symbol_users(program.body(n)))
        self._called_once = {
            n for n in names if users[n] == 1 and "sym_visibility" in program.function(n).attributes
        }

    def visit(self, name: str) -> None:
        """Inline the calls in a function."""
        if name in self._callers:
            path = " -> ".join((*self._callers, name))
            raise RecursiveCallError(f"the call graph has a cycle: {path}")
        if name not in self._done:
            self._callers.append(name)
            self._inline(self.program.body(name))
            self._callers.pop()
            self._done.add(name)

    def _inline(self, body: Body) -> None:
        for op in body.operations:
            if op.name == "func.call":
                self.visit(callee(op))
                with ir.InsertionPoint(op), op.location:
                    results = self._called(callee(op), operands_of(op))
                _replace(op, results)
                continue
            definition = lookup(op)
            if not definition.is_control_flow:
                continue
            bodies = bodies_of(op)
            if definition.inline is None:
                for inner in bodies:
                    self._inline(inner)
                continue
            self._inline(bodies[0])
            with ir.InsertionPoint(op), op.location:
                results = definition.inline(instance_of(op))
            _replace(op, results)

    def _called(self, name: str, operands: Sequence[ir.Value]) -> list[ir.Value]:
        body = self.program.body(name)
        if name not in self._called_once:
            return body.inline(operands)
        results = body.splice(operands)
        self.program.erase(name)
        return results


def _replace(op: ir.Operation, values: Sequence[ir.Value]) -> None:
    for old, new in zip(results_of(op), values, strict=True):
        old.replace_all_uses_with(new)
    erase(op)
