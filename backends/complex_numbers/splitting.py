"""Rewrite programs on complex numbers to programs on their real and imaginary parts.

This is for compilers that have no code for complex numbers, or bad code. Each complex value becomes
two real ones: arguments of ``main`` are split where they enter, and results are joined where they
leave. In between, the arguments and results of functions, loops and branches are pairs too. Ops
without a rule (`rules`), such as calls of Python, get joined operands, and their results are split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from gnomon.backends.complex_numbers.parts import Parts, Value, joined
from gnomon.backends.narrow import mentions
from gnomon.dialects.barrier import optimization_barrier
from gnomon.dialects.body import PLAIN, Body, clone_into, create, operands_of, results_of
from gnomon.dialects.contract import Instance, all_operations, attach_bodies, instance_of, lookup
from gnomon.dialects.emit import ops
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost, Form
from gnomon.dialects.types import TensorType, is_complex, mlir_type, real_dtype, type_of
from gnomon.passes.fold_constants import fold_constants

__all__ = ["split_complex_numbers"]

_CALL = "func.call"

# A pass over memory takes as long as this many additions.
_CHEAP = 16
# The costs of arithmetic on complex numbers, in additions of real numbers. Other ops cost one for
# real numbers, and two for complex ones.
_COSTS = {
    **dict.fromkeys(("conj", "neg", "convert", "select"), 0),
    **dict.fromkeys(("mul", "square", "integer_pow"), 6),
    **dict.fromkeys(("abs", "div"), 17),
}
_FREE = (Form.CREATION, Form.VIEW, Form.JOIN, Form.IDENTITY, Form.HOST)
_EXPENSIVE = (Form.CONTROL, Form.CONTRACTION, Form.REDUCTION, Form.SCAN)

# The attributes of control-flow ops that are numbers of operands, in the order of the operands.
_COUNTS = {"while": ("cond_consts", "body_consts"), "scan": ("consts", "carry")}


def split_complex_numbers(
    program: Program,
    rules: Mapping[str, Callable[[Instance], Sequence[Value]]],
    *,
    apart: bool = False,
) -> None:
    """Rewrite every function of a program that has complex values.

    Args:
      program: the program.
      rules: the ops that are computed on parts, by full name.
      apart: whether values are split and joined in separate kernels, if the program computes enough
        with each number to pay for them.
    """
    bodies = [program.body(symbol_name(f)) for f in program.functions]
    if not any(mentions(body, is_complex) for body in bodies):
        return
    splitter = _Splitter(rules, apart and _is_expensive(bodies))
    for function in program.functions:
        name = symbol_name(function)
        body = program.body(name)
        if not mentions(body, is_complex):
            continue
        public = "sym_visibility" not in function.attributes
        rewritten = splitter.public_body(body) if public else splitter.body(body)
        location = function.location
        program.erase(name)
        program.add(name, rewritten, public=public, location=location)
    # The imaginary part of an iota is a splat, views of which IREE 3.13 rejects in some kernels.
    fold_constants(program)


def _is_expensive(bodies: Sequence[Body]) -> bool:
    """Whether a program's computation on each number costs more than a pass over memory."""
    cost = 0
    for op in chain.from_iterable(all_operations(body) for body in bodies):
        definition = lookup(op)
        is_function = definition.cost in (Cost.ROOT, Cost.FUNCTION) or definition.name == "sign"
        if definition.form in _EXPENSIVE or is_function:
            return True
        if definition.form in _FREE or definition.cost is Cost.NOTHING:
            continue
        values = [*operands_of(op), *results_of(op)]
        is_wide = any(is_complex(type_of(v).dtype) for v in values)
        cost += _COSTS.get(definition.name, 2 if is_wide else 1)
    return cost > _CHEAP


@dataclass(frozen=True)
class _Splitter:
    """The rewriting of bodies.

    Attributes:
      rules: the rules by full op name.
      apart: whether values are split and joined in kernels of their own.
    """

    rules: Mapping[str, Callable[[Instance], Sequence[Value]]]
    apart: bool

    def public_body(self, body: Body) -> Body:
        """A body that splits its arguments and joins its results."""

        def emit(*arguments: ir.Value) -> list[ir.Value]:
            return [self._joined(x) for x in self._emit(body, self._split(arguments))]

        return Body.build(body.argument_types, emit)

    def body(self, body: Body) -> Body:
        """A body whose arguments and results are parts."""

        def emit(*arguments: ir.Value) -> list[ir.Value]:
            return _flat(self._emit(body, _gathered(arguments, body.argument_types)))

        return Body.build(_flat_types(body.argument_types), emit)

    def _emit(self, body: Body, arguments: Sequence[Value]) -> list[Value]:
        env: dict[ir.Value, Value] = dict(zip(body.arguments, arguments, strict=True))
        for op in body.operations:
            with op.location:
                self._rewrite(op, env)
        return [env[r] for r in body.results]

    def _rewrite(self, op: ir.Operation, env: dict[ir.Value, Value]) -> None:
        operands, results = operands_of(op), results_of(op)
        if not op.regions and not any(is_complex(type_of(v).dtype) for v in (*operands, *results)):
            clone_into(op, env)
            return
        inst = instance_of(op, [env[v] for v in operands])
        if inst.op.is_control_flow or op.name == _CALL:
            values: Sequence[Value] = self._regrouped(op, inst)
        elif (rule := self.rules.get(op.name)) is not None:
            values = rule(inst)
        else:
            given = [self._joined(x) for x in inst.operands]
            values = self._split(_recreated(op, [v.type for v in results], given))
        env.update(zip(results, values, strict=True))

    def _split(self, values: Sequence[ir.Value]) -> list[Value]:
        return [self._parts(x) if is_complex(type_of(x).dtype) else x for x in values]

    def _parts(self, x: ir.Value) -> Parts:
        found = Parts(ops.real(x), ops.imag(x))
        return Parts(*ops.optimization_barrier(*found)) if self.apart else found

    def _joined(self, x: Value) -> ir.Value:
        if not isinstance(x, Parts):
            return x
        whole = _whole(x)
        if whole is not None:
            return whole
        return joined(Parts(*ops.optimization_barrier(*x)) if self.apart else x)

    def _regrouped(self, op: ir.Operation, inst: Instance) -> list[Value]:
        """Control flow or a call with pairs among its operands and results."""
        attributes = {name: op.attributes[name] for name in op.attributes}
        start = 0
        for name in _COUNTS.get(inst.op.name, ()):
            count = inst.params[name]
            added = sum(is_complex(t.dtype) for t in inst.operand_types[start : start + count])
            attributes[name] = inst.op.attributes[name].encode(count + added)
            start += count
        types = [mlir_type(t) for t in _flat_types(inst.result_types)]
        operands = _flat(inst.operands)
        if op.name == _CALL:
            return _gathered(_recreated(op, types, operands), inst.result_types)
        created, results = create(op.name, types, operands, attributes, len(op.regions))
        attach_bodies(inst.op, created, [self.body(b) for b in inst.bodies])
        return _gathered(results, inst.result_types)


def _recreated(
    op: ir.Operation, types: Sequence[ir.Type], operands: Sequence[ir.Value]
) -> list[ir.Value]:
    """Recreate an op without regions, with other operands and result types; return its results."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    if op.name not in PLAIN:
        return create(op.name, types, operands, attributes)[1]
    created = ir.Operation.create(
        op.name, results=types, operands=list(operands), attributes=attributes
    )
    return list(created.results)


def _whole(x: Parts) -> ir.Value | None:
    """The complex value from which two values were taken as its parts, or None."""
    owners = [_before_barrier(p).owner for p in x]
    names = ("gnomon.real", "gnomon.imag")
    for owner, name in zip(owners, names, strict=True):
        if isinstance(owner, ir.Block) or owner.name != name:
            return None
    real, imag = (owner.operation.operands[0] for owner in owners)
    return real if real == imag else None


def _before_barrier(value: ir.Value) -> ir.Value:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != optimization_barrier.full_name:
        return value
    op = owner.operation
    return operands_of(op)[list(results_of(op)).index(value)]


def _flat(values: Sequence[Value]) -> list[ir.Value]:
    return list(chain.from_iterable(x if isinstance(x, Parts) else (x,) for x in values))


def _flat_types(types: Sequence[TensorType]) -> list[TensorType]:
    flat = []
    for t in types:
        flat += [t.with_dtype(real_dtype(t.dtype))] * 2 if is_complex(t.dtype) else [t]
    return flat


def _gathered(values: Sequence[ir.Value], types: Sequence[TensorType]) -> list[Value]:
    """The inverse of `_flat`."""
    rest = iter(values)
    return [Parts(next(rest), next(rest)) if is_complex(t.dtype) else next(rest) for t in types]
