"""Functionalize checks: turn them into additional results of a body.

The state that is threaded through the body consists of the number of the first failed check (0 for
none) and the payload of every check. All checks of the body and of its callees are counted first,
so that the state has one type, which loops carry and branches return as a whole.

In addition to the user's own checks, checks of ops can be added: results are not nan, divisors are
not zero, indices are in bounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from gnomon.dialects.body import Body, clone_into, operands_of, results_of
from gnomon.dialects.callbacks import Callback, callback_of
from gnomon.dialects.check import check
from gnomon.dialects.contract import ENGINE, bodies_of, lookup, params_of
from gnomon.dialects.control_flow import scan, switch, while_
from gnomon.dialects.control_flow.bodies import split
from gnomon.dialects.emit import constant, convert, ops, zeros
from gnomon.dialects.functions import Program, callee
from gnomon.dialects.indexing.windows import Dimensions
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost, Form, cost_of, form_of
from gnomon.dialects.types import TensorType, is_floating, is_inexact, is_integer, type_of
from gnomon.passes.expand import Expander

USER, NAN, DIVISION, INDEX = "user", "nan", "division", "index"
"""The kinds of checks."""

_I32 = np.dtype(np.int32)
_CODE = TensorType((), _I32)

# Forms of ops that return nan only if an operand is nan, and other such ops.
_NO_NEW_NAN_FORMS = (
    *(Form.CREATION, Form.IDENTITY, Form.VIEW, Form.JOIN, Form.REINTERPRETATION, Form.INDEXING),
    *(Form.SORT, Form.CALLBACK),
)
_NO_NEW_NAN = frozenset(
    f"gnomon.{name}"
    for name in (
        *("conj", "neg", "abs", "sign", "max", "min", "clamp", "select", "convert", "scatter"),
        *("reduce_max", "reduce_min", "cummax", "cummin"),
    )
)


class Site(NamedTuple):
    """A check in a program: the function that formats its message, and the payload's types."""

    callback: Callback
    payload: tuple[TensorType, ...]


# The values of a check: whether it failed, and its payload.
Finding: TypeAlias = "tuple[ir.Value, list[ir.Value]]"


class Checked(NamedTuple):
    """A body that returns the outcome of its checks.

    Attributes:
      body: returns the number of the first failed check, counted from 1, or 0; then the payload of
        each check; then the results.
      sites: the checks.
    """

    body: Body
    sites: list[Site]


def functionalize_checks(program: Program, body: Body, kinds: frozenset[str]) -> Checked:
    """Replace the checks of a body and of its callees by values.

    Args:
      program: the functions that the body calls, with transformations expanded.
      body: a detached body.
      kinds: the kinds of checks to make: the user's, and those that are added to ops.
    """
    Expander(program).expand_body(body)
    counting = _Functionalizer(program, kinds, [])
    counting.count(body)
    sites = counting.sites
    functionalizer = _Functionalizer(program, kinds, sites)
    payload = [t for site in sites for t in site.payload]

    def emit(*arguments: ir.Value) -> list[ir.Value]:
        state = [zeros(_CODE), *(zeros(t) for t in payload)]
        results, state = functionalizer.run(body, arguments, state)
        return [*state, *results]

    return Checked(Body.build(body.argument_types, emit), sites)


class _Functionalizer:
    """Walks bodies twice in the same order: to count the checks, and to emit them."""

    def __init__(self, program: Program, kinds: frozenset[str], sites: list[Site]) -> None:
        self.program = program
        self.kinds = kinds
        self.sites = sites
        self._next = 0

    # ----------------------------------------------------------------------------------- counting

    def count(self, body: Body) -> None:
        """Append the checks of a body, in the order in which `run` emits them."""
        for op in body.operations:
            for inner in self._inner(op):
                self.count(inner)
            self.sites += self._sites_of(op)

    def has_checks(self, body: Body) -> bool:
        """Whether a body contains any check."""
        return any(
            self._sites_of(op) or any(map(self.has_checks, self._inner(op)))
            for op in body.operations
        )

    def _inner(self, op: ir.Operation) -> list[Body]:
        """The bodies that run as part of an op and may contain checks."""
        definition = lookup(op)
        if definition.evaluate is ENGINE:
            return [self.program.body(callee(op))]
        if definition in (switch, while_, scan):
            return bodies_of(op)
        return bodies_of(op)[:1] if definition.inline is not None else []

    def _sites_of(self, op: ir.Operation) -> list[Site]:
        if op.name == check.full_name:
            if USER not in self.kinds:
                return []
            types = tuple(type_of(v) for v in operands_of(op)[1:])
            return [Site(callback_of(params_of(op)["callback"]), types)]
        if self._inner(op):
            return []
        where = _where(op.location)
        name = op.name.removeprefix("gnomon.")
        sites = []
        if DIVISION in self.kinds and _divides(op):
            sites.append(Site(Callback(lambda: (f"division by zero{where}",)), ()))
        if INDEX in self.kinds and _indexed(op) is not None:
            shape = type_of(operands_of(op)[0]).shape
            index = TensorType((), _I32)
            sites.append(Site(Callback(_out_of_bounds(shape, where)), (index, index)))
        if NAN in self.kinds and _may_make_nan(op):
            text = f"nan generated by primitive: {name}.{where}"
            sites.append(Site(Callback(lambda: (text,)), ()))
        return sites

    # ----------------------------------------------------------------------------------- emission

    def run(
        self, body: Body, arguments: Sequence[ir.Value], state: list[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """Emit a body with its checks at the insertion point; return results and state."""
        env = dict(zip(body.arguments, arguments, strict=True))
        for op in body.operations:
            with op.location:
                state = self._op(op, env, state)
        return [env[r] for r in body.results], state

    def _op(
        self, op: ir.Operation, env: dict[ir.Value, ir.Value], state: list[ir.Value]
    ) -> list[ir.Value]:
        operands = [env[v] for v in operands_of(op)]
        if op.name == check.full_name:
            if USER in self.kinds:
                state = self._record(state, ops.not_(operands[0]), operands[1:])
            return state
        inner = self._inner(op)
        if not any(map(self.has_checks, inner)):
            clone_into(op, env)
            if not inner:
                for failed, payload in self._findings(op, env):
                    state = self._record(state, failed, payload)
            return state
        definition = lookup(op)
        if definition is switch:
            results, state = self._switch(op, operands, state)
        elif definition is while_:
            results, state = self._while(op, operands, state)
        elif definition is scan:
            results, state = self._scan(op, operands, state)
        else:  # a call, or an op that is defined by its body
            results, state = self.run(inner[0], operands, state)
        env.update(zip(results_of(op), results, strict=True))
        return state

    def _record(
        self, state: list[ir.Value], failed: ir.Value, payload: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """The state after a check; an earlier failure takes precedence."""
        at = 1 + sum(len(site.payload) for site in self.sites[: self._next])
        self._next += 1
        code, new = state[0], list(state)
        first = ops.and_(failed, ops.eq(code, zeros(_CODE)))
        new[0] = ops.select(first, constant(np.int32(self._next)), code)
        for i, value in enumerate(payload):
            shape = type_of(value).shape
            chosen = ops.broadcast_in_dim(first, shape=shape, dims=()) if shape else first
            new[at + i] = ops.select(chosen, value, state[at + i])
        return new

    def _findings(self, op: ir.Operation, env: dict[ir.Value, ir.Value]) -> list[Finding]:
        """The checks of an op without bodies, in the order of `_sites_of`."""
        operands = [env[v] for v in operands_of(op)]
        findings: list[Finding] = []
        if DIVISION in self.kinds and _divides(op):
            divisor = operands[1]
            findings.append((_any(ops.eq(divisor, zeros(type_of(divisor)))), []))
        if INDEX in self.kinds and (find := _indexed(op)) is not None:
            findings.append(find(operands))
        if NAN in self.kinds and _may_make_nan(op):
            values = [env[r] for r in results_of(op)]
            bad = [_any(ops.ne(v, v)) for v in values if is_inexact(type_of(v).dtype)]
            failed = bad[0]
            for other in bad[1:]:
                failed = ops.or_(failed, other)
            findings.append((failed, []))
        return findings

    # ------------------------------------------------------------------------------- control flow

    def _switch(
        self, op: ir.Operation, operands: list[ir.Value], state: list[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        index, *values = operands
        types = [type_of(v) for v in (*values, *state)]
        bodies = []
        for body in bodies_of(op):

            def emit(*inputs: ir.Value, body: Body = body) -> list[ir.Value]:
                arguments, entering = split(inputs, len(values))
                results, leaving = self.run(body, arguments, entering)
                return [*leaving, *results]

            bodies.append(Body.build(types, emit))
        out = switch.build([index, *values, *state], {}, bodies)
        return out[len(state) :], out[: len(state)]

    def _scan(
        self, op: ir.Operation, operands: list[ir.Value], state: list[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        params = params_of(op)
        consts, carry, xs = split(operands, params["consts"], params["carry"])
        (body,) = bodies_of(op)

        def emit(*inputs: ir.Value) -> list[ir.Value]:
            fixed, entering, others = split(inputs, len(consts), len(state))
            results, leaving = self.run(body, [*fixed, *others], entering)
            return [*leaving, *results]

        types = [
            *(type_of(v) for v in (*consts, *state, *carry)),
            *(type_of(x).with_shape(type_of(x).shape[1:]) for x in xs),
        ]
        out = scan.build(
            [*consts, *state, *carry, *xs],
            {**params, "carry": len(state) + len(carry)},
            [Body.build(types, emit)],
        )
        return out[len(state) :], out[: len(state)]

    def _while(
        self, op: ir.Operation, operands: list[ir.Value], state: list[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """Rebuild a loop with its condition as a carry: a condition region returns no state."""
        params = params_of(op)
        for_cond, for_body, carry = split(operands, params["cond_consts"], params["body_consts"])
        cond, body = bodies_of(op)
        start = self._next
        (running,), state = self.run(cond, [*for_cond, *carry], state)

        def emit(*inputs: ir.Value) -> list[ir.Value]:
            tested, consts, _, entering, values = split(
                inputs, len(for_cond), len(for_body), 1, len(state)
            )
            new, leaving = self.run(body, [*consts, *values], entering)
            after, self._next = self._next, start
            (again,), leaving = self.run(cond, [*tested, *new], leaving)
            self._next = after
            return [again, *leaving, *new]

        entering = [running, *state, *carry]
        types = [type_of(v) for v in entering]
        consts = [*for_cond, *for_body]
        out = while_.build(
            [*consts, *entering],
            {"cond_consts": 0, "body_consts": len(consts)},
            [
                Body.build(types, lambda going, *carried: [going]),
                Body.build([*(type_of(v) for v in consts), *types], emit),
            ],
        )
        _, state, results = split(out, 1, len(state))
        return results, state


# ------------------------------------------------------------------------------- checks of ops


_FILE_AND_LINE = re.compile(r'"([^"]*)":(\d+):')


def _where(location: ir.Location) -> str:
    """The user's file and line, to append to a message."""
    match = _FILE_AND_LINE.search(str(location))
    return f" ({match[1]}:{match[2]})" if match else ""


def _any(mask: ir.Value) -> ir.Value:
    rank = type_of(mask).rank
    return ops.reduce_or(mask, axes=tuple(range(rank))) if rank else mask


def _may_make_nan(op: ir.Operation) -> bool:
    is_part = cost_of(op.name) is Cost.NOTHING
    if is_part or form_of(op.name) in _NO_NEW_NAN_FORMS or op.name in _NO_NEW_NAN:
        return False
    return any(is_inexact(type_of(r).dtype) for r in results_of(op))


def _divides(op: ir.Operation) -> bool:
    if op.name not in ("gnomon.div", "gnomon.rem"):
        return False
    dtype = type_of(operands_of(op)[1]).dtype
    return op.name == "gnomon.div" or is_integer(dtype) or is_floating(dtype)


def _out_of_bounds(shape: tuple[int, ...], where: str) -> Callable[..., tuple[str]]:
    def message(index: np.ndarray, axis: np.ndarray) -> tuple[str]:
        return (
            f"out-of-bounds indexing for array of shape {shape}: index {int(index)} is out of "
            f"bounds for axis {int(axis)} with size {shape[int(axis)]}.{where}",
        )

    return message


def _indexed(op: ir.Operation) -> Callable[[list[ir.Value]], Finding] | None:
    """A function that checks the indices of an op, or None if none can be out of bounds."""
    name = op.name.removeprefix("gnomon.")
    operands = operands_of(op)
    if name in ("dynamic_slice", "dynamic_update_slice"):
        shape = type_of(operands[0]).shape
        if not shape:
            return None
        window_shape = (
            params_of(op)["sizes"] if name == "dynamic_slice" else type_of(operands[1]).shape
        )
        first = 1 if name == "dynamic_slice" else 2

        def starts(values: list[ir.Value]) -> Finding:
            parts = [ops.reshape(convert(v, _I32), shape=(1,)) for v in values[first:]]
            indices = ops.concatenate(*parts, dimension=0) if len(parts) > 1 else parts[0]
            return _finding(indices, range(len(shape)), shape, window_shape)

        return starts
    if name != "gather" and not (name == "scatter" or name.startswith("scatter_")):
        return None
    params = params_of(op)
    shape = type_of(operands[0]).shape
    if name == "gather":
        dims, sizes = Dimensions.of_gather(params), params["slice_sizes"]
        axes = params["start_index_map"]
    else:
        dims, axes = Dimensions.of_scatter(params), params["scatter_dims_to_operand_dims"]
        updates = type_of(operands[2]).shape
        window = iter(updates[d] for d in params["update_window_dims"])
        kept = set(dims.kept(len(shape)))
        sizes = tuple(next(window) if d in kept else 1 for d in range(len(shape)))
    if not axes or not type_of(operands[1]).size:
        return None
    return lambda values: _finding(convert(values[1], _I32), axes, shape, sizes)


def _finding(
    indices: ir.Value, axes: Sequence[int], shape: Sequence[int], window_shape: Sequence[int]
) -> Finding:
    """Whether a start index is out of bounds; the payload is the first such index and its axis.

    Args:
      indices: the start indices; the last dimension runs over ``axes``.
      axes: the dimensions of the operand that are indexed.
      shape: the shape of the operand.
      window_shape: the shape of the slices.
    """
    type_ = type_of(indices)
    count = math.prod(type_.shape)
    last = np.asarray([shape[a] - window_shape[a] for a in axes], np.int32)
    bounds = constant(np.broadcast_to(last, type_.shape))
    outside = ops.or_(ops.lt(indices, zeros(type_)), ops.gt(indices, bounds))
    flat = ops.reshape(outside, shape=(count,))
    first = ops.argmax(flat, axis=0, index_dtype=_I32)

    def at_first(x: ir.Value) -> ir.Value:
        whole = ops.reshape(x, shape=(count,))
        return ops.reshape(ops.dynamic_slice(whole, first, sizes=(1,)), shape=())

    places = np.broadcast_to(np.asarray(tuple(axes), np.int32), type_.shape)
    return _any(outside), [at_first(indices), at_first(constant(places))]


__all__ = ["DIVISION", "INDEX", "NAN", "USER", "Checked", "Site", "functionalize_checks"]
