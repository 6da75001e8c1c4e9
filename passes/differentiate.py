"""Forward and reverse mode differentiation of bodies.

Forward mode walks a body once and emits, next to each op, the tangents given by the op's jvp rule.
Reverse mode is linearize and transpose:

* *linearize* runs forward mode, then partitions the ops. Those that depend on a tangent form the
  linear body, the others the forward body. The forward values that the linear body uses are the
  residuals. The ``linearize`` rules of region ops split the regions in the same way.
* *transpose* walks the linear body backwards and passes each op's cotangents to its transpose rule.

A tangent of ``None`` is a symbolic zero, for which no code is emitted. This module names no op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from gnomon.dialects.body import Body, clone_into, erase, operands_of, results_of
from gnomon.dialects.contract import ENGINE, Instance, Verdict, has_effects, instance_of, lookup
from gnomon.dialects.cotangents import add_cotangents
from gnomon.dialects.emit import zeros
from gnomon.dialects.functions import Program, call, callee, emit_call
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, is_inexact, type_of

Mask = tuple[bool, ...]
Tangent: TypeAlias = "ir.Value | None"


class DifferentiationError(TypeError, NotImplementedError):
    """A program cannot be differentiated as requested; the message names the op and the line."""


class Linearized(NamedTuple):
    """A body split into a part independent of the tangents and a part linear in them.

    Attributes:
      forward: maps primal arguments to results and residuals.
      linear: maps residuals and the nonzero tangents to the tangents of the results in
        ``out_nonzero``.
      out_nonzero: the mask of the results that have a tangent.
      residual_types: the types of the residuals.
      residual_arguments: for each residual, the index of the primal argument that it equals, or
        ``None``.
    """

    forward: Body
    linear: Body
    out_nonzero: list[bool]
    residual_types: list[TensorType]
    residual_arguments: list[int | None]


def _mask(flags: bool | Sequence[bool], count: int) -> list[bool]:
    return [flags] * count if isinstance(flags, bool) else list(flags)


class Differentiator:
    """Differentiates the bodies of one program, to which it adds each derived function once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._jvp_functions: dict[tuple[str, Mask], tuple[str, list[bool]]] = {}
        self._linearized_functions: dict[tuple[str, Mask], tuple[str, str, Linearized]] = {}
        self._transposed_functions: dict[tuple[str, Mask, Mask], str] = {}
        self._transposed_callees: dict[tuple[str, Mask, Mask], tuple[str, list[bool]]] = {}

    # ------------------------------------------------------------------------------ forward mode

    def jvp(
        self, body: Body, nonzero: Sequence[bool], instantiate: bool | Sequence[bool] = False
    ) -> tuple[Body, list[bool]]:
        """A body that maps primals and nonzero tangents to results and their tangents.

        Args:
          body: the body to differentiate; it is not changed.
          nonzero: the mask of the arguments that have a tangent.
          instantiate: the mask of the results that get a tangent even if it is zero.

        Returns:
          The new body and the mask of the results that have a tangent in it.
        """
        return self._forward(body, nonzero, instantiate, split=False)

    def _forward(
        self,
        body: Body,
        nonzero: Sequence[bool],
        instantiate: bool | Sequence[bool],
        split: bool,
    ) -> tuple[Body, list[bool]]:
        types = body.argument_types
        tangent_types = [t for t, nz in zip(types, nonzero, strict=True) if nz]
        out_nonzero: list[bool] = []

        def emit(*arguments: ir.Value) -> list[ir.Value]:
            primals = arguments[: len(types)]
            incoming = iter(arguments[len(types) :])
            tangents = [next(incoming) if nz else None for nz in nonzero]
            results, out_tangents = self._trace(body, primals, tangents, split)
            instantiated_results = _mask(instantiate, len(results))
            for i, result in enumerate(results):
                type_ = type_of(result)
                if out_tangents[i] is None and instantiated_results[i] and is_inexact(type_.dtype):
                    out_tangents[i] = zeros(type_)
            out_nonzero[:] = [t is not None for t in out_tangents]
            return [*results, *(t for t in out_tangents if t is not None)]

        return Body.build([*types, *tangent_types], emit), out_nonzero

    def _trace(
        self, body: Body, primals: Sequence[ir.Value], tangents: Sequence[Tangent], split: bool
    ) -> tuple[list[ir.Value], list[Tangent]]:
        """Emit primal and tangent ops at the current insertion point."""
        env = dict(zip(body.arguments, primals, strict=True))
        tangent_of: dict[ir.Value, ir.Value] = {
            a: t for a, t in zip(body.arguments, tangents, strict=True) if t is not None
        }
        for op in body.operations:
            incoming = [tangent_of.get(operand) for operand in operands_of(op)]
            with op.location:
                if all(t is None for t in incoming):
                    clone_into(op, env)
                    continue
                outs, outgoing = self._jvp_op(op, env, incoming, split)
            for result, out, tangent in zip(results_of(op), outs, outgoing, strict=True):
                env[result] = out
                if tangent is not None:
                    tangent_of[result] = tangent
        results = body.results
        return [env[r] for r in results], [tangent_of.get(r) for r in results]

    def _jvp_op(
        self,
        op: ir.Operation,
        env: dict[ir.Value, ir.Value],
        tangents: list[Tangent],
        split: bool,
    ) -> tuple[Sequence[ir.Value], Sequence[Tangent]]:
        definition = lookup(op)
        rule = definition.jvp
        operands = [env[operand] for operand in operands_of(op)]
        if rule is ENGINE:
            emit = self._linearize_call if split else self._jvp_call
            return emit(callee(op), operands, tangents)
        if definition.linearize is not None:
            inst = instance_of(op, operands, self)
            chosen: Any = definition.linearize if split else rule
            outs, outgoing = chosen(inst, tangents)
            return outs, outgoing
        outs = clone_into(op, env)
        if isinstance(rule, Verdict):
            if rule is not Verdict.ZERO_TANGENT:
                raise DifferentiationError(f"{op.name} has no jvp: {rule.value} ({op.location})")
            return outs, [None] * len(outs)
        return outs, rule(instance_of(op, operands, self), outs, tangents)

    def _jvp_call(
        self, name: str, operands: Sequence[ir.Value], tangents: Sequence[Tangent]
    ) -> tuple[list[ir.Value], list[Tangent]]:
        nonzero = tuple(t is not None for t in tangents)
        key = (name, nonzero)
        if key not in self._jvp_functions:
            body, out_nonzero = self.jvp(self.program.body(name), nonzero)
            self._jvp_functions[key] = self.program.add(f"{name}.jvp", body, like=name), out_nonzero
        derived, out_nonzero = self._jvp_functions[key]
        arguments = [*operands, *(t for t in tangents if t is not None)]
        values = emit_call(self.program, call, derived, arguments)
        return _split_tangents(values, out_nonzero)

    # --------------------------------------------------------------------------------- linearize

    def linearize(
        self, body: Body, nonzero: Sequence[bool], instantiate: bool | Sequence[bool] = False
    ) -> Linearized:
        """Split the derivative of a body into a forward and a linear body."""
        joint, out_nonzero = self._forward(body, nonzero, instantiate, split=True)
        return split_linear(joint, len(body.argument_types), out_nonzero)

    def _linearize_call(
        self, name: str, operands: Sequence[ir.Value], tangents: Sequence[Tangent]
    ) -> tuple[list[ir.Value], list[Tangent]]:
        forward, linear, parts = self.linearize_function(
            name, tuple(t is not None for t in tangents)
        )
        count = len(parts.out_nonzero)
        values = emit_call(self.program, call, forward, operands)
        arguments = [*values[count:], *(t for t in tangents if t is not None)]
        outgoing = iter(emit_call(self.program, call, linear, arguments))
        return values[:count], [next(outgoing) if nz else None for nz in parts.out_nonzero]

    def linearize_function(self, name: str, nonzero: Mask) -> tuple[str, str, Linearized]:
        """The names of a function's forward and linear functions, and the split; cached."""
        key = (name, nonzero)
        if key not in self._linearized_functions:
            parts = self.linearize(self.program.body(name), nonzero)
            forward = self.program.add(f"{name}.forward", parts.forward, like=name)
            linear = self.program.add(f"{name}.linear", parts.linear, like=name)
            self._linearized_functions[key] = forward, linear, parts
        return self._linearized_functions[key]

    # --------------------------------------------------------------------------------- transpose

    def transpose(self, body: Body, linear: Sequence[bool], nonzero: Sequence[bool]) -> Body:
        """The transpose of a body that is linear in some arguments.

        Args:
          body: the body to transpose.
          linear: the mask of the arguments in which it is linear.
          nonzero: the mask of the results that have a cotangent.

        Returns:
          A body that maps the other arguments and those cotangents to the cotangents of the linear
          arguments.
        """
        return self._transpose(body, linear, nonzero, instantiate=True)[0]

    def transpose_without_zeros(
        self, body: Body, linear: Sequence[bool], nonzero: Sequence[bool]
    ) -> tuple[Body, list[bool]]:
        """The transpose of a body without the cotangents that are zero.

        The caller may multiply a cotangent by infinity; of a zero, the product would be nan.

        Returns:
          See `transpose`, and the mask of the body's arguments whose cotangents it returns.
        """
        return self._transpose(body, linear, nonzero, instantiate=False)

    def _transpose(
        self, body: Body, linear: Sequence[bool], nonzero: Sequence[bool], instantiate: bool
    ) -> tuple[Body, list[bool]]:
        present: list[bool] = []
        types = body.argument_types
        constant_types = [t for t, is_linear in zip(types, linear, strict=True) if not is_linear]
        cotangent_types = [t for t, nz in zip(body.result_types, nonzero, strict=True) if nz]

        def emit(*arguments: ir.Value) -> list[ir.Value]:
            constants = iter(arguments[: len(constant_types)])
            incoming = iter(arguments[len(constant_types) :])
            operands = [None if is_linear else next(constants) for is_linear in linear]
            cotangents = [next(incoming) if nz else None for nz in nonzero]
            outgoing = self._backward(body, operands, cotangents)
            for i, type_ in enumerate(types):
                if linear[i] and outgoing[i] is None and instantiate:
                    outgoing[i] = zeros(type_)
            found = [
                ct if is_linear else None for ct, is_linear in zip(outgoing, linear, strict=True)
            ]
            present[:] = [ct is not None for ct in found]
            return [ct for ct in found if ct is not None]

        return Body.build([*constant_types, *cotangent_types], emit), present

    def _backward(
        self, body: Body, operands: Sequence[Tangent], cotangents: Sequence[Tangent]
    ) -> list[Tangent]:
        """The cotangents of the arguments; ``operands`` is ``None`` for each linear argument."""
        env: dict[ir.Value, ir.Value] = {
            a: v for a, v in zip(body.arguments, operands, strict=True) if v is not None
        }
        linear_ops: list[ir.Operation] = []
        linear = {a for a, v in zip(body.arguments, operands, strict=True) if v is None}
        for op in body.operations:
            if any(operand in linear for operand in operands_of(op)):
                linear_ops.append(op)
                linear.update(results_of(op))
            else:
                with op.location:
                    clone_into(op, env)
        cotangent_of: dict[ir.Value, ir.Value] = {}

        def accumulate(value: ir.Value, cotangent: ir.Value) -> None:
            known = cotangent_of.get(value)
            cotangent_of[value] = cotangent if known is None else add_cotangents(known, cotangent)

        for result, ct in zip(body.results, cotangents, strict=True):
            if ct is not None and result in linear:
                accumulate(result, ct)
        for op in reversed(linear_ops):
            incoming = [cotangent_of.pop(result, None) for result in results_of(op)]
            if all(ct is None for ct in incoming):
                continue
            with op.location:
                outgoing = self._transpose_op(op, env, linear, incoming)
                for operand, ct in zip(operands_of(op), outgoing, strict=True):
                    if ct is not None and operand in linear:
                        accumulate(operand, ct)
        return [cotangent_of.get(a) for a in body.arguments]

    def _transpose_op(
        self,
        op: ir.Operation,
        env: dict[ir.Value, ir.Value],
        linear: set[ir.Value],
        cotangents: list[Tangent],
    ) -> Sequence[Tangent]:
        definition = lookup(op)
        flags = [operand in linear for operand in operands_of(op)]
        operands = [
            None if is_linear else env[operand]
            for operand, is_linear in zip(operands_of(op), flags, strict=True)
        ]
        rule = definition.transpose
        if rule is ENGINE:
            return self._transpose_call(callee(op), operands, cotangents)
        if isinstance(rule, Verdict):
            raise DifferentiationError(
                f"reverse-mode differentiation reached {op.name}, which has no transpose: "
                f"{rule.value} ({op.location})"
            )
        inst = instance_of(op, operands, self)
        return rule(inst, cotangents, flags)

    def _transpose_call(
        self, name: str, operands: Sequence[Tangent], cotangents: Sequence[Tangent]
    ) -> list[Tangent]:
        linear = tuple(v is None for v in operands)
        nonzero = tuple(ct is not None for ct in cotangents)
        key = (name, linear, nonzero)
        if key not in self._transposed_callees:
            body, mask = self.transpose_without_zeros(self.program.body(name), linear, nonzero)
            added = self.program.add(f"{name}.transpose", body, like=name)
            self._transposed_callees[key] = added, mask
        transposed, mask = self._transposed_callees[key]
        arguments = [v for v in (*operands, *cotangents) if v is not None]
        outgoing = iter(emit_call(self.program, call, transposed, arguments))
        return [next(outgoing) if nz else None for nz in mask]

    def transpose_function(self, name: str, linear: Mask, nonzero: Mask) -> str:
        """The name of the transpose of a function; cached."""
        key = (name, linear, nonzero)
        if key not in self._transposed_functions:
            body = self.transpose(self.program.body(name), linear, nonzero)
            self._transposed_functions[key] = self.program.add(f"{name}.transpose", body, like=name)
        return self._transposed_functions[key]

    # ------------------------------------------------------------------------------ reverse mode

    def vjp(self, body: Body, wrt: Sequence[int], outputs: Sequence[int]) -> Body:
        """A body that also takes cotangents of results and returns cotangents of arguments.

        Args:
          body: the body to differentiate; it is not changed.
          wrt: the indices of the arguments whose cotangents follow the results.
          outputs: the indices of the results whose cotangents follow the arguments.
        """
        types, result_types = body.argument_types, body.result_types
        parts = self.linearize(body, [i in set(wrt) for i in range(len(types))])
        seeded = [i in set(outputs) for i in range(len(result_types))]
        present = [seeded[i] for i, nz in enumerate(parts.out_nonzero) if nz]
        linear = [False] * len(parts.residual_types) + [True] * len(wrt)
        backward = self.transpose(parts.linear, linear, present)

        def emit(*arguments: ir.Value) -> list[ir.Value]:
            primals, incoming = arguments[: len(types)], arguments[len(types) :]
            values = parts.forward.splice(primals)
            results, residuals = values[: len(result_types)], values[len(result_types) :]
            cotangents = [
                ct for i, ct in zip(outputs, incoming, strict=True) if parts.out_nonzero[i]
            ]
            by_argument = dict(
                zip(sorted(wrt), backward.splice([*residuals, *cotangents]), strict=True)
            )
            return [*results, *(by_argument[i] for i in wrt)]

        return Body.build([*types, *(result_types[i] for i in outputs)], emit)


def _split_tangents(
    values: Sequence[ir.Value], out_nonzero: Sequence[bool]
) -> tuple[list[ir.Value], list[Tangent]]:
    """Split the values of a forward-mode body into results and tangents."""
    count = len(out_nonzero)
    tangents = iter(values[count:])
    return list(values[:count]), [next(tangents) if nz else None for nz in out_nonzero]


def split_linear(joint: Body, primal_count: int, out_nonzero: list[bool]) -> Linearized:
    """Split a forward-mode body by dependence on the tangent arguments.

    Ops without operands, such as a constant or an iota, cost nothing to recompute: the linear body
    repeats them and takes no residuals for them. The joint body becomes the forward body.
    """
    arguments = joint.arguments
    primals, tangents = arguments[:primal_count], arguments[primal_count:]
    linear: set[ir.Value] = set(tangents)
    forward_ops: list[ir.Operation] = []
    linear_ops: list[ir.Operation] = []
    for op in joint.operations:
        if any(operand in linear for operand in operands_of(op)):
            linear_ops.append(op)
            linear.update(results_of(op))
        else:
            forward_ops.append(op)

    cheap = {
        r
        for op in forward_ops
        if not op.operands and not op.regions and not has_effects(op)
        for r in results_of(op)
    }
    results = joint.results
    out_count = len(out_nonzero)
    out_tangents = results[out_count:]
    live_ops = _live(linear_ops, out_tangents)
    used = [v for op in live_ops for v in operands_of(op)]
    residuals: dict[ir.Value, None] = {}
    recomputed: dict[ir.Value, ir.Operation] = {}
    for value in (*used, *out_tangents):
        if value in linear:
            continue
        if value in cheap:
            recomputed[value] = value.owner
        else:
            residuals[value] = None

    types = joint.argument_types

    def emit_linear(*values: ir.Value) -> list[ir.Value]:
        env = dict(zip((*residuals, *tangents), values, strict=True))
        for op in recomputed.values():
            clone_into(op.operation, env)
        for op in live_ops:
            with op.location:
                clone_into(op, env)
        return [env[v] for v in out_tangents]

    residual_types = [type_of(v) for v in residuals]
    position = {v: i for i, v in enumerate(primals)}
    residual_arguments = [position.get(v) for v in residuals]
    linear_body = Body.build([*residual_types, *types[primal_count:]], emit_linear)
    joint.replace_results([*results[:out_count], *residuals])
    for op in reversed(linear_ops):
        erase(op)
    joint.erase_arguments(primal_count)
    return Linearized(joint, linear_body, out_nonzero, residual_types, residual_arguments)


def _live(operations: list[ir.Operation], results: Sequence[ir.Value]) -> list[ir.Operation]:
    """The operations on which the results depend."""
    needed = set(results)
    live: list[ir.Operation] = []
    for op in reversed(operations):
        if any(r in needed for r in results_of(op)):
            live.append(op)
            needed.update(operands_of(op))
    return live[::-1]


__all__ = ["DifferentiationError", "Differentiator", "Instance", "Linearized", "split_linear"]
