"""``inline-calls``: replace each call by the body of its callee.

Ops that are defined by their body (`Op.inline`: custom derivatives, checkpoints) are replaced in
the same way, as calls of an anonymous function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gnomon.dialects.body import Body, erase, operands_of, results_of
from gnomon.dialects.contract import bodies_of, instance_of, lookup
from gnomon.dialects.functions import Program, callee, symbol_users
from gnomon.dialects.mlir import ir


class RecursiveCallError(ValueError):
    """A function calls itself, directly or not, which only hand-written IR can express."""


def inline_calls(program: Program) -> None:
    """Inline all calls in all functions.

    The operations of a private function with a single call are moved to the caller, and the
    function is erased. In a chain of calls, each operation is thus moved only once. Other functions
    are copied after their own calls have been inlined.
    """
    inliner = _Inliner(program)
    for name in program.names:
        if not inliner.is_moved(name):
            inliner.visit(name)
    # The functions that are left are in a cycle of calls; visiting one raises the error.
    for name in program.names:
        if name in program:
            inliner.visit(name)


class _Inliner:
    def __init__(self, program: Program) -> None:
        self.program = program
        self._done: set[str] = set()
        # The stack of functions that are being visited, each called by the previous one.
        self._callers: dict[str, None] = {}
        names = program.names
        users = Counter(callee(op) for n in names for op in symbol_users(program.body(n)))
        self._called_once = {
            n for n in names if users[n] == 1 and "sym_visibility" in program.function(n).attributes
        }

    def is_moved(self, name: str) -> bool:
        """Whether the operations of a function are moved to its only caller."""
        return name in self._called_once

    def visit(self, name: str) -> None:
        """Inline all calls in a function."""
        if name not in self._done:
            self._enter(name)
            self._inline(self.program.body(name))
            self._callers.popitem()
            self._done.add(name)

    def _enter(self, name: str) -> None:
        if name in self._callers:
            path = " -> ".join((*self._callers, name))
            raise RecursiveCallError(f"the call graph has a cycle: {path}")
        self._callers[name] = None

    def _inline(self, body: Body) -> None:
        # None marks the end of the operations that were moved here from a function.
        waiting: list[ir.Operation | None] = [*body.operations][::-1]
        while waiting:
            op = waiting.pop()
            if op is None:
                self._callers.popitem()
            elif op.name != "func.call":
                self._inline_bodies(op)
            elif self.is_moved(callee(op)):
                waiting += [None, *self._move(op)[::-1]]
            else:
                self._copy(op)

    def _inline_bodies(self, op: ir.Operation) -> None:
        definition = lookup(op)
        if not definition.is_control_flow:
            return
        bodies = bodies_of(op)
        if definition.inline is None:
            for inner in bodies:
                self._inline(inner)
            return
        self._inline(bodies[0])
        with ir.InsertionPoint(op), op.location:
            results = definition.inline(instance_of(op))
        _replace(op, results)

    def _move(self, call: ir.Operation) -> list[ir.Operation]:
        """Replace the only call of a function by its operations, and return them."""
        name = callee(call)
        self._enter(name)
        body = self.program.body(name)
        moved = [*body.operations]
        with ir.InsertionPoint(call), call.location:
            results = body.splice(operands_of(call))
        _replace(call, results)
        self.program.erase(name)
        return moved

    def _copy(self, call: ir.Operation) -> None:
        """Replace a call by a copy of the callee's operations."""
        name = callee(call)
        self.visit(name)
        with ir.InsertionPoint(call), call.location:
            results = self.program.body(name).inline(operands_of(call))
        _replace(call, results)


def _replace(op: ir.Operation, values: Sequence[ir.Value]) -> None:
    for old, new in zip(results_of(op), values, strict=True):
        old.replace_all_uses_with(new)
    erase(op)
