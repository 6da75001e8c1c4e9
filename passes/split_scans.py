"""``split-scans``: move contractions that need not run in sequence out of loops.

An iteration of a recurrent network contracts small matrices. In a compiled loop, each contraction
is a kernel that leaves most of the processor idle. Only ops that depend on the carries, and on
which the carries depend, must run in sequence. Two rewrites of ``gnomon.scan`` replace many small
contractions by one large one:

* *before*: a contraction that depends on no carry (``x @ W`` of each input) is computed for all
  iterations at once, before the loop, which reads slices of the result;
* *after*: a contraction on which no carry depends is computed after the loop, from operands that
  the loop stacks. The same holds for a contraction that is only summed over the iterations, a carry
  ``c + h.T @ d``, which the backward pass contains for every weight: its operands are contracted
  over the iterations as well.

Large contractions stay in the loop: they would gain nothing, and their operands would have to be
stacked. The rewrites change the order of summation, and so the rounding.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from gnomon.dialects.body import PLAIN, Body, clone_into, erase, operands_of, results_of
from gnomon.dialects.contract import (
    ENGINE,
    MappedAxis,
    Verdict,
    bodies_of,
    has_effects,
    is_literal,
    lookup,
    params_of,
)
from gnomon.dialects.control_flow import scan
from gnomon.dialects.control_flow.bodies import split
from gnomon.dialects.emit import convert, ops, scale
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import surely_at_most
from gnomon.dialects.types import BOOL, type_of
from gnomon.passes.vectorize import Vectorizer

# A contraction with more operations keeps a processor busy by itself and stays in the loop.
MAX_FLOPS = 1 << 25
# The maximum number of bytes that a rewrite may stack in addition to the loop's own results.
MAX_STACKED = 1 << 26

_DOT, _ADD = "gnomon.dot_general", "gnomon.add"
# Linear ops of one operand that commute with a sum over the iterations.
_MOVES = frozenset({"gnomon.transpose", "gnomon.reshape", "gnomon.neg"})


def split_scans(program: Program) -> None:
    """Rewrite all scans of a program in place, inner ones first."""
    vectorizer = Vectorizer(program)
    for function in program.functions:
        _split_in(program.body(symbol_name(function)), vectorizer)


def _split_in(body: Body, vectorizer: Vectorizer) -> None:
    for op in body.region_operations:
        for inner in bodies_of(op):
            _split_in(inner, vectorizer)
    for rewrite in (_before, _after):
        for op in body.region_operations:
            if lookup(op) is not scan or surely_at_most(params_of(op)["length"], 1):
                continue
            with ir.InsertionPoint(op), op.location:
                values = rewrite(_Scan(op), vectorizer)
            if values is not None:
                for old, new in zip(results_of(op), values, strict=True):
                    old.replace_all_uses_with(new)
                erase(op)


class _Scan:
    """The parts of a scan.

    Attributes:
      consts, carry, xs: its operands.
      body: its body.
      entering, leaving, ys: the carries as arguments and results of the body, and its other
        results.
    """

    def __init__(self, op: ir.Operation) -> None:
        self.params = params_of(op)
        counts = self.params["consts"], self.params["carry"]
        self.consts, self.carry, self.xs = split(operands_of(op), *counts)
        (self.body,) = bodies_of(op)
        self.const_arguments, self.entering, self.x_arguments = split(self.body.arguments, *counts)
        self.leaving, self.ys = split(self.body.results, len(self.carry))
        self.length: int = self.params["length"]

    def nbytes(self, values: Sequence[ir.Value]) -> int:
        """The size in bytes of values of the body, stacked over all iterations."""
        types = map(type_of, values)
        return self.length * sum(t.nbytes for t in types)

    def rebuilt(
        self,
        carried: Sequence[int],
        xs: Sequence[ir.Value],
        given: Sequence[ir.Value],
        ys: Sequence[ir.Value],
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """Rebuild the scan with a subset of its carries, more inputs, and other stacked results.

        Args:
          carried: positions of the carries to keep.
          xs: additional stacked inputs.
          given: the values of the body that the slices of ``xs`` replace.
          ys: the values of the body to stack.

        Returns:
          The final carries and the stacked results.
        """
        carry = [self.carry[i] for i in carried]
        operands = [*self.consts, *carry, *self.xs, *xs]
        entering = [self.entering[i] for i in carried]
        arguments = [*self.const_arguments, *entering, *self.x_arguments, *given]
        wanted = [*(self.leaving[i] for i in carried), *ys]

        def emit(*values: ir.Value) -> list[ir.Value]:
            env = dict(zip(arguments, values, strict=True))
            return _inlined(self.body, env, wanted, effects=True)

        body = Body.build([type_of(a) for a in arguments], emit)
        if not wanted and not any(map(has_effects, body.operations)):
            return [], []
        values = scan.build(operands, {**self.params, "carry": len(carry)}, [body])
        return values[: len(carry)], values[len(carry) :]


def _needed(
    body: Body, available: Container[ir.Value], values: Iterable[ir.Value], *, effects: bool = False
) -> list[ir.Operation]:
    """The ops, in order, that compute the wanted values of a body from given values.

    Args:
      effects: whether to include ops with effects in any case.
    """
    needed = {v for v in values if v not in available}
    needed_ops: list[ir.Operation] = []
    for op in reversed(list(body.operations)):
        if any(r in needed for r in results_of(op)) or (effects and has_effects(op)):
            needed_ops.append(op)
            needed.update(v for v in operands_of(op) if v not in available)
    return needed_ops[::-1]


def _inlined(
    body: Body, env: dict[ir.Value, ir.Value], values: Sequence[ir.Value], *, effects: bool = False
) -> list[ir.Value]:
    """Compute values of a body from those in ``env``, at the current insertion point."""
    for op in _needed(body, env, values, effects=effects):
        clone_into(op, env)
    return [env[v] for v in values]


def _is_movable(op: ir.Operation) -> bool:
    """Whether an op can be computed for all iterations at once."""
    definition = lookup(op)
    rule = definition.batch
    return (
        (op.name in PLAIN or op.name == "gnomon.concatenate")
        and not (has_effects(op) or definition.collective)
        and not (rule is ENGINE or isinstance(rule, Verdict))
    )


def _is_small_contraction(op: ir.Operation) -> bool:
    if op.name != _DOT:
        return False
    lhs, _ = operands_of(op)
    depth = math.prod(type_of(lhs).shape[d] for d in params_of(op)["lhs_contracting"])
    size = type_of(op.results[0]).size
    return 0 < 2 * size * depth <= MAX_FLOPS


# ------------------------------------------------------------------------------- before the loop


def _before(loop: _Scan, vectorizer: Vectorizer) -> list[ir.Value] | None:
    late = set(loop.entering)
    varies = set(loop.x_arguments)
    early: list[ir.Value] = []
    for op in loop.body.operations:
        operands = operands_of(op)
        if is_literal(op):
            continue
        if any(v in late for v in operands) or not _is_movable(op):
            late.update(results_of(op))
        elif any(v in varies for v in operands):
            varies.update(results_of(op))
            if _is_small_contraction(op):
                early.append(op.results[0])
    computed = [r for op in _needed(loop.body, (), early) for r in results_of(op)]
    if not early or loop.nbytes(computed) > MAX_STACKED:
        return None
    arguments = [*loop.const_arguments, *loop.x_arguments]
    mapped = [*(False for _ in loop.consts), *(True for _ in loop.xs)]
    before_loop, _ = _for_all(loop, vectorizer, arguments, mapped, early)
    stacked = before_loop.inline([*loop.consts, *loop.xs])
    final, ys = loop.rebuilt(range(len(loop.carry)), stacked, early, loop.ys)
    return [*final, *ys]


def _for_all(
    loop: _Scan,
    vectorizer: Vectorizer,
    arguments: Sequence[ir.Value],
    mapped: Sequence[bool],
    results: Sequence[ir.Value],
    force: bool | Sequence[bool] = False,
) -> tuple[Body, list[bool]]:
    """A body that computes values of the loop's body for all iterations at once.

    Args:
      arguments: the values of the loop's body that become arguments; those in ``mapped`` are
        stacked over the iterations.
      results: the values of the loop's body to return.
      force: the mask of the results to stack even if they are the same in every iteration.

    Returns:
      The body, and the mask of the results that are stacked.
    """
    iteration = Body.build(
        [type_of(v) for v in arguments],
        lambda *values: _inlined(loop.body, dict(zip(arguments, values, strict=True)), results),
    )
    return vectorizer.batch(iteration, mapped, MappedAxis(loop.length), force)


# --------------------------------------------------------------------------------- after the loop


class _Sum(NamedTuple):
    """A carry to which the iterations only add: its index, the addend, and the addition."""

    at: int
    term: ir.Value
    addition: ir.Operation


def _sum_of(loop: _Scan, at: int) -> _Sum | None:
    entering, leaving = loop.entering[at], loop.leaving[at]
    owner = leaving.owner
    if isinstance(owner, ir.Block) or owner.name != _ADD or type_of(leaving).dtype == BOOL:
        return None
    x, y = owner.operands
    if entering not in (x, y) or len(list(entering.uses)) != 1 or len(list(leaving.uses)) != 1:
        return None
    return _Sum(at, y if entering == x else x, owner.operation)


def _after(loop: _Scan, vectorizer: Vectorizer) -> list[ir.Value] | None:
    sums = [s for s in (_sum_of(loop, i) for i in range(len(loop.carry))) if s is not None]
    moved = _moved(loop, sums)
    if not moved:
        return None
    results = {r for op in moved for r in results_of(op)}
    literals = [r for op in loop.body.operations if is_literal(op) for r in results_of(op)]
    # The values that the loop must stack, in addition to its inputs and results.
    ready = {*loop.const_arguments, *loop.x_arguments, *loop.ys, *results, *literals}
    used = dict.fromkeys(v for op in moved for v in operands_of(op))
    frontier = [v for v in used if v not in ready]
    available = ready | set(frontier)
    sums = [s for s in sums if _is_made_of(s.term, available)]
    moved_ys = [i for i, y in enumerate(loop.ys) if y in results]
    if not (sums or moved_ys) or loop.nbytes(frontier) > MAX_STACKED:
        return None

    summed = {s.at for s in sums}
    carried = [i for i in range(len(loop.carry)) if i not in summed]
    kept_ys = [i for i in range(len(loop.ys)) if i not in moved_ys]
    stacked = [*(loop.ys[i] for i in kept_ys), *frontier]
    final, ys = loop.rebuilt(carried, [], [], stacked)

    inputs = dict(zip(loop.const_arguments, loop.consts, strict=True))
    mapped = dict.fromkeys(inputs, False)
    for_all = {
        **dict(zip(stacked, ys, strict=True)),
        **dict(zip(loop.x_arguments, loop.xs, strict=True)),
    }
    inputs |= for_all
    mapped |= dict.fromkeys(for_all, True)
    leaves = [leaf for s in sums for leaf in _leaves(s.term, results)]
    leaving = dict.fromkeys(leaves, False) | {loop.ys[i]: True for i in moved_ys}
    after_loop, differs = _for_all(
        loop, vectorizer, list(inputs), list(mapped.values()), list(leaving), list(leaving.values())
    )
    made = after_loop.inline(list(inputs.values()))
    values = dict(zip(leaving, zip(made, differs, strict=True), strict=True))

    carries = dict(zip(carried, final, strict=True))
    for s in sums:
        carries[s.at] = ops.add(loop.carry[s.at], _total(s.term, results, values, loop.length))
    outs = dict(zip(kept_ys, ys, strict=False))
    outs |= {i: values[loop.ys[i]][0] for i in moved_ys}
    return [*(carries[i] for i in range(len(carries))), *(outs[i] for i in range(len(outs)))]


def _moved(loop: _Scan, sums: Sequence[_Sum]) -> list[ir.Operation]:
    """The ops to move after the loop: contractions and the ops that use their results."""
    summed = {s.at for s in sums}
    carried = [v for i, v in enumerate(loop.leaving) if i not in summed]
    in_order = {r for op in _needed(loop.body, (), carried, effects=True) for r in results_of(op)}
    additions = {s.addition.results[0] for s in sums}
    # An op whose result is used by an op that stays must stay as well.
    held = in_order | additions
    free: list[ir.Operation] = []
    for op in reversed(list(loop.body.operations)):
        if _is_movable(op) and not any(r in held for r in results_of(op)):
            free.append(op)
        elif not any(r in additions for r in results_of(op)):
            held.update(operands_of(op))
    moved: list[ir.Operation] = []
    after_loop: set[ir.Value] = set()
    for op in reversed(free):
        if any(v in after_loop for v in operands_of(op)) or _is_small_contraction(op):
            moved.append(op)
            after_loop.update(results_of(op))
    return moved


def _is_made_of(value: ir.Value, available: set[ir.Value]) -> bool:
    """Whether a value can be computed after the loop from available ones by one op."""
    if value in available:
        return True
    owner = value.owner
    if isinstance(owner, ir.Block) or not _is_movable(owner.operation):
        return False
    return all(v in available for v in owner.operands)


# ---------------------------------------------------------------------- sums over the iterations


def _leaves(value: ir.Value, moved: set[ir.Value]) -> list[ir.Value]:
    """The values, of all iterations, from which `_total` computes the sum of a value."""
    name = _maker(value, moved)
    if name == _ADD or name in _MOVES:
        return [leaf for v in value.owner.operands for leaf in _leaves(v, moved)]
    return list(value.owner.operands) if name == _DOT else [value]


def _maker(value: ir.Value, moved: set[ir.Value]) -> str:
    """The name of the op that defines a value, if that op is moved."""
    return value.owner.name if value in moved else ""


def _total(
    value: ir.Value,
    moved: set[ir.Value],
    values: dict[ir.Value, tuple[ir.Value, bool]],
    length: int,
) -> ir.Value:
    """The sum of a value of the body over all iterations.

    Args:
      values: the leaves, each with whether it differs between iterations.
    """
    name = _maker(value, moved)
    if name == _ADD:
        return ops.add(*(_total(v, moved, values, length) for v in value.owner.operands))
    if name in _MOVES:
        (operand,) = value.owner.operands
        env = {operand: _total(operand, moved, values, length)}
        return clone_into(value.owner.operation, env)[0]
    if name == _DOT:
        lhs, rhs = (values[v] for v in value.owner.operands)
        return _contracted(value.owner.operation, lhs, rhs, length)
    total, differs = values[value]
    return ops.reduce_sum(total, axes=(0,)) if differs else scale(total, length)


def _contracted(
    op: ir.Operation, lhs: tuple[ir.Value, bool], rhs: tuple[ir.Value, bool], length: int
) -> ir.Value:
    """A contraction summed over the iterations, the leading dimension of each stacked operand."""
    params = params_of(op)
    if lhs[1] and rhs[1]:
        for side in ("lhs", "rhs"):
            params[f"{side}_contracting"] = (0, *(d + 1 for d in params[f"{side}_contracting"]))
            params[f"{side}_batch"] = tuple(d + 1 for d in params[f"{side}_batch"])
        return ops.dot_general(lhs[0], rhs[0], **params)
    if not (lhs[1] or rhs[1]):
        return scale(ops.dot_general(lhs[0], rhs[0], **params), length)
    # Sum in the result dtype: the sum of a narrow operand needs a wider dtype.
    x, y = (
        ops.reduce_sum(convert(v, params["dtype"]), axes=(0,))
        if differs
        else convert(v, params["dtype"])
        for v, differs in (lhs, rhs)
    )
    return ops.dot_general(x, y, **params)


__all__ = ["split_scans"]
