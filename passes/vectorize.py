"""Vectorization: turn a body that is mapped along an axis into a body on batched values.

The walk tracks the position of each value's batch dimension, if it has one. An op without batched
operands is not changed; the others are rewritten by their batching rules. This module names no op.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.dialects.body import Body, clone_into, operands_of, results_of
from gnomon.dialects.contract import ENGINE, MappedAxis, Verdict, bodies_of, instance_of, lookup
from gnomon.dialects.emit import at_dim, move_dim
from gnomon.dialects.functions import Program, call, callee, emit_call, with_axis
from gnomon.dialects.mlir import ir

Mask = tuple[bool, ...]


class Vectorizer:
    """Vectorizes the bodies of one program, to which it adds each derived function once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._functions: dict[tuple[str, Mask, MappedAxis], tuple[str, list[bool]]] = {}

    def batch(
        self,
        body: Body,
        mapped: Sequence[bool],
        axis: MappedAxis,
        force: bool | Sequence[bool] = False,
    ) -> tuple[Body, list[bool]]:
        """A body on batched values, whose batch dimension is the leading one.

        Args:
          body: the body to vectorize; it is not changed.
          mapped: the mask of the batched arguments.
          axis: the size and name of the mapped axis.
          force: the mask of the results that must be batched; unbatched ones are broadcast.

        Returns:
          The new body and the mask of its batched results.
        """
        types = [
            with_axis(t, 0 if m else -1, axis.size)
            for t, m in zip(body.argument_types, mapped, strict=True)
        ]
        out_mapped: list[bool] = []

        def emit(*arguments: ir.Value) -> list[ir.Value]:
            dims = [0 if m else None for m in mapped]
            results, out_dims = self._trace(body, arguments, dims, axis)
            forced = [force] * len(results) if isinstance(force, bool) else list(force)
            out_mapped[:] = [d is not None or w for d, w in zip(out_dims, forced, strict=True)]
            return [
                at_dim(r, d, axis.size) if m else r
                for r, d, m in zip(results, out_dims, out_mapped, strict=True)
            ]

        return Body.build(types, emit), out_mapped

    def vmap(
        self,
        body: Body,
        in_axes: Sequence[int],
        out_axes: Sequence[int],
        axis: MappedAxis,
    ) -> Body:
        """A body mapped along given axes of arguments and results; ``-1`` means not mapped."""
        types = [
            with_axis(t, a, axis.size) for t, a in zip(body.argument_types, in_axes, strict=True)
        ]

        def emit(*arguments: ir.Value) -> list[ir.Value]:
            dims = [None if a < 0 else a for a in in_axes]
            results, out_dims = self._trace(body, arguments, dims, axis)
            placed = []
            for i, (result, dim, out_axis) in enumerate(
                zip(results, out_dims, out_axes, strict=True)
            ):
                if out_axis < 0 and dim is not None:
                    raise ValueError(
                        f"vmap: out_axes says that result {i} is not mapped, but it depends on a "
                        "mapped argument; give it an axis"
                    )
                placed.append(result if out_axis < 0 else at_dim(result, dim, axis.size, out_axis))
            return placed

        return Body.build(types, emit)

    def _trace(
        self,
        body: Body,
        arguments: Sequence[ir.Value],
        dims: Sequence[int | None],
        axis: MappedAxis,
    ) -> tuple[list[ir.Value], list[int | None]]:
        """Emit the batched ops at the current insertion point."""
        env = dict(zip(body.arguments, arguments, strict=True))
        dim_of: dict[ir.Value, int] = {
            a: d for a, d in zip(body.arguments, dims, strict=True) if d is not None
        }
        for op in body.operations:
            definition = lookup(op)
            op_dims = [dim_of.get(operand) for operand in operands_of(op)]
            with op.location:
                unbatched = all(d is None for d in op_dims)
                if unbatched and not self._concerns_axis(op, axis):
                    clone_into(op, env)
                    continue
                operands = [env[operand] for operand in operands_of(op)]
                rule = definition.batch
                if rule is ENGINE:
                    results, out_dims = self._batch_call(callee(op), operands, op_dims, axis)
                elif isinstance(rule, Verdict):
                    raise TypeError(f"vmap of {op.name}: {rule.value} ({op.location})")
                else:
                    inst = instance_of(op, operands, self)
                    results, out_dims = rule(inst, operands, op_dims, axis)
            for result, out, dim in zip(results_of(op), results, out_dims, strict=True):
                env[result] = out
                if dim is not None:
                    dim_of[result] = dim
        results = body.results
        return [env[r] for r in results], [dim_of.get(r) for r in results]

    def _concerns_axis(self, op: ir.Operation, axis: MappedAxis) -> bool:
        """Whether an op without batched operands, or one nested in it, names the mapped axis."""
        if not axis.name:
            return False
        definition = lookup(op)
        if definition.collective:
            return axis.name in instance_of(op).params["axes"]
        bodies = bodies_of(op) if definition.is_control_flow else []
        if definition.batch is ENGINE:
            bodies.append(self.program.body(callee(op)))
        return any(self._concerns_axis(inner, axis) for b in bodies for inner in b.operations)

    def _batch_call(
        self,
        name: str,
        operands: Sequence[ir.Value],
        dims: Sequence[int | None],
        axis: MappedAxis,
    ) -> tuple[list[ir.Value], list[int | None]]:
        mapped = tuple(d is not None for d in dims)
        key = (name, mapped, axis)
        if key not in self._functions:
            body, out_mapped = self.batch(self.program.body(name), mapped, axis)
            self._functions[key] = self.program.add(f"{name}.vmap", body, like=name), out_mapped
        derived, out_mapped = self._functions[key]
        front = [x if d is None else move_dim(x, d, 0) for x, d in zip(operands, dims, strict=True)]
        values = emit_call(self.program, call, derived, front)
        return values, [0 if m else None for m in out_mapped]


__all__ = ["Vectorizer"]
