"""``expand-transformations``: replace transformations by derived functions.

Inner transformations are expanded first, before the function that contains them is transformed.
The engines therefore never encounter a transformation, except ``gnomon.shard_map`` in a program
that is partitioned over a mesh: it is not expanded there, and has rules of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.dialects.body import Body, erase, operands_of, results_of
from gnomon.dialects.contract import MappedAxis, params_of
from gnomon.dialects.functions import (
    TRANSFORMATIONS,
    Program,
    call,
    callee,
    emit_call,
    symbol_users,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.shardy import mesh_of
from gnomon.passes.differentiate import Differentiator
from gnomon.passes.hoist_invariants import hoist_invariants
from gnomon.passes.map_over_mesh import map_over_mesh
from gnomon.passes.vectorize import Vectorizer


class Expander:
    """Expands the transformations of one program; derived functions are added to the program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.differentiator = Differentiator(program)
        self.vectorizer = Vectorizer(program)
        self._partitioned = mesh_of(program.module) is not None
        self._expanded: set[str] = set()
        self._derived: dict[tuple[str, ...], str] = {}

    def expand(self, name: str) -> None:
        """Expand all transformations that are reachable from a function."""
        if name in self._expanded:
            return
        self._expanded.add(name)
        self.expand_body(self.program.body(name))

    def expand_body(self, body: Body) -> None:
        """Expand all transformations in a body and in its callees."""
        for op in symbol_users(body):
            self.expand(callee(op))
            if op.name in TRANSFORMATIONS and not self._is_kept(op):
                self._replace(op)
        hoist_invariants(body)

    def _is_kept(self, op: ir.Operation) -> bool:
        return self._partitioned and op.name == "gnomon.shard_map"

    def derive(self, op: ir.Operation) -> str:
        """Derive the function for a transformation op whose callee is already expanded."""
        key = (op.name, *(f"{name}={op.attributes[name]}" for name in op.attributes))
        if key not in self._derived:
            kind = op.name.removeprefix("gnomon.")
            body = getattr(self, f"_{kind}")(self.program.body(callee(op)), params_of(op))
            location = self.program.function(callee(op)).location
            name = callee(op)
            self._derived[key] = self.program.add(
                f"{name}.{kind}", body, like=name, location=location
            )
            self._expanded.add(self._derived[key])
        return self._derived[key]

    def _replace(self, op: ir.Operation) -> None:
        with op.location:
            derived = self.derive(op)
            with ir.InsertionPoint(op):
                results = emit_call(self.program, call, derived, operands_of(op))
        for old, new in zip(results_of(op), results, strict=True):
            old.replace_all_uses_with(new)
        erase(op)

    def _jvp(self, body: Body, params: dict) -> Body:  # type: ignore[type-arg]
        wrt = params["wrt"]
        nonzero = [i in set(wrt) for i in range(len(body.argument_types))]
        derived, _ = self.differentiator.jvp(body, nonzero, instantiate=True)
        order = sorted(wrt)
        if list(wrt) == order:
            return derived
        count = len(body.argument_types)
        types = body.argument_types

        def emit(*arguments: ir.Value) -> list[ir.Value]:
            tangents = dict(zip(wrt, arguments[count:], strict=True))
            return derived.inline([*arguments[:count], *(tangents[i] for i in order)])

        return Body.build([*types, *(types[i] for i in wrt)], emit)

    def _vjp(self, body: Body, params: dict) -> Body:  # type: ignore[type-arg]
        return self.differentiator.vjp(body, params["wrt"], params["outputs"])

    def _vmap(self, body: Body, params: dict) -> Body:  # type: ignore[type-arg]
        axis = MappedAxis(params["axis_size"], params["axis_name"])
        return self.vectorizer.vmap(body, params["in_axes"], params["out_axes"], axis)

    def _shard_map(self, body: Body, params: dict) -> Body:  # type: ignore[type-arg]
        return map_over_mesh(self.vectorizer, body, params)


def mapped_results(
    program: Program, body: Body, mapped: Sequence[bool], axis: MappedAxis
) -> list[bool]:
    """The mask of the results of a body that depend on the mapped arguments."""
    expander = Expander(program)
    expander.expand_body(body)
    return expander.vectorizer.batch(body, mapped, axis)[1]


def expand_transformations(program: Program) -> None:
    """Expand every function of a program."""
    expander = Expander(program)
    for function in program.functions:
        expander.expand(ir.StringAttr(function.attributes["sym_name"]).value)


__all__ = ["Expander", "expand_transformations", "mapped_results"]
