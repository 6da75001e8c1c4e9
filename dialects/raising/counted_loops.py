"""Loops that count: a ``while`` with a known number of iterations becomes a ``gnomon.scan``.

JAX prints ``lax.scan`` as a ``while`` that counts from 0 to a literal, reads rows of arrays at the
counter, and writes rows of others. Reverse mode differentiates a scan and not a ``while``, so this
form is recognized. Arrays that are read row by row become inputs of the scan, arrays that are
written row by row become its stacked outputs, and values that do not change its constants.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from gnomon.dialects.body import Body, clone_into, operands_of
from gnomon.dialects.contract import params_of
from gnomon.dialects.emit import constant_value, ops, reshape
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_integer, type_of

__all__ = ["as_scan"]

# A scan has at most this many iterations.
_MAX_LENGTH = 2**31 - 1


class _Counter(NamedTuple):
    """The carry that counts.

    Attributes:
      number: its number among the carries.
      start: its first value.
      length: the number of iterations.
    """

    number: int
    start: int
    length: int


class _Loop:
    """A body with the operands of its arguments: constants, then carries."""

    def __init__(self, body: Body, consts: Sequence[ir.Value], carry: Sequence[ir.Value]) -> None:
        self.arguments = body.arguments
        self.results = body.results
        self.operations = list(body.operations)
        self.outer = dict(zip(self.arguments, [*consts, *carry], strict=True))
        self.carried = self.arguments[len(consts) :]

    def literal(self, value: ir.Value) -> int | None:
        """The number that a value is, if it is a literal, inside or outside."""
        stored = constant_value(self.outer.get(value, value))
        if stored is None or stored.ndim or not is_integer(stored.dtype):
            return None
        return int(stored)


def as_scan(
    cond: Body,
    body: Body,
    for_cond: Sequence[ir.Value],
    for_body: Sequence[ir.Value],
    carry: Sequence[ir.Value],
) -> list[ir.Value] | None:
    """The results of a loop as those of a scan; None if its iterations are not counted.

    Args:
      cond, body: the bodies of a ``gnomon.while``.
      for_cond, for_body: the constants of each.
      carry: the initial values.
    """
    loop = _Loop(body, for_body, carry)
    counter = _counter(_Loop(cond, for_cond, carry), loop)
    if counter is None:
        return None
    index = loop.carried[counter.number]
    # Invariants are constants, unless all their uses are reads of a row.
    invariant = [a for a in loop.arguments if a not in loop.carried]
    invariant += [a for a, r in zip(loop.carried, loop.results, strict=True) if a == r]
    uses = defaultdict(list)
    for op in loop.operations:
        for operand in operands_of(op):
            uses[operand].append(op)
    reads: dict[ir.Value, ir.Value] = {}
    inputs = []
    for argument in invariant:
        readers = uses[argument]
        if readers and all(_reads_row(op, argument, index, counter, loop) for op in readers):
            inputs.append(argument)
            reads |= {op.results[0]: argument for op in readers}
    constants = [a for a in invariant if a not in inputs]
    written = {
        argument: result.owner
        for argument, result in zip(loop.carried, loop.results, strict=True)
        if len(uses[argument]) == 1
        and not uses[result]
        and loop.results.count(result) == 1
        and _writes_row(result, argument, index, counter, loop)
    }
    kept = [a for a in loop.carried if a not in invariant and a not in written]

    def emit(*arguments: ir.Value) -> list[ir.Value]:
        env = dict(zip([*constants, *kept], arguments, strict=False))
        rows = dict(zip(inputs, arguments[len(constants) + len(kept) :], strict=True))
        dropped = {op.results[0] for op in written.values()}
        for op in loop.operations:
            result = op.results[0] if len(op.results) else None
            if result in reads:
                env[result] = reshape(rows[reads[result]], type_of(result).shape)
            elif result not in dropped:
                clone_into(op, env)
        results = dict(zip(loop.carried, loop.results, strict=True))
        updates = [env[operands_of(op)[1]] for op in written.values()]
        return [
            *(env[results[a]] for a in kept),
            *(reshape(u, type_of(u).shape[1:]) for u in updates),
        ]

    outer = [loop.outer[a] for a in (*constants, *kept, *inputs)]
    types = [type_of(v) for v in outer[: len(constants) + len(kept)]]
    rows = [type_of(v) for v in outer[len(types) :]]
    types += [t.with_shape(t.shape[1:]) for t in rows]
    values = ops.scan(
        *outer,
        consts=len(constants),
        carry=len(kept),
        length=counter.length,
        reverse=False,
        unroll=1,
        bodies=[Body.build(types, emit)],
    )
    found = dict(zip([*kept, *written], values, strict=True))
    return [found.get(a, loop.outer[a]) for a in loop.carried]


def _counter(cond: _Loop, body: _Loop) -> _Counter | None:
    (tested,) = cond.results
    if isinstance(tested.owner, ir.Block) or tested.owner.name != "gnomon.lt":
        return None
    index, limit = operands_of(tested.owner.operation)
    if index not in cond.carried:
        return None
    number = cond.carried.index(index)
    # A carry is a literal only if the loop does not change it.
    if limit in cond.carried:
        other = cond.carried.index(limit)
        if body.results[other] != body.carried[other]:
            return None
    end, start = cond.literal(limit), cond.literal(index)
    argument, result = body.carried[number], body.results[number]
    if end is None or start is None or isinstance(result.owner, ir.Block):
        return None
    if result.owner.name != "gnomon.add":
        return None
    operands = operands_of(result.owner.operation)
    others = [v for v in operands if v != argument]
    if len(others) != 1 or _constant_in(body, others[0]) != 1:
        return None
    length = max(end - start, 0)
    return _Counter(number, start, length) if length <= _MAX_LENGTH else None


def _constant_in(loop: _Loop, value: ir.Value) -> int | None:
    """The number that a value is in each iteration."""
    if value in loop.carried:
        number = loop.carried.index(value)
        if loop.results[number] != value:
            return None
    return loop.literal(value)


def _is_row(
    indices: Sequence[ir.Value],
    sizes: Sequence[int],
    array: ir.Value,
    index: ir.Value,
    counter: _Counter,
    loop: _Loop,
) -> bool:
    """Whether a slice of an array is the row at the counter, which passes all rows."""
    shape = type_of(array).shape
    return (
        counter.start == 0
        and bool(shape)
        and shape[0] == counter.length
        and tuple(sizes) == (1, *shape[1:])
        and indices[0] == index
        and all(_constant_in(loop, i) == 0 for i in indices[1:])
    )


def _reads_row(
    op: ir.Operation, array: ir.Value, index: ir.Value, counter: _Counter, loop: _Loop
) -> bool:
    if op.name != "gnomon.dynamic_slice":
        return False
    operand, *indices = operands_of(op)
    sizes = params_of(op)["sizes"]
    return operand == array and _is_row(indices, sizes, array, index, counter, loop)


def _writes_row(
    result: ir.Value, array: ir.Value, index: ir.Value, counter: _Counter, loop: _Loop
) -> bool:
    if isinstance(result.owner, ir.Block) or result.owner.name != "gnomon.dynamic_update_slice":
        return False
    operand, update, *indices = operands_of(result.owner.operation)
    return operand == array and _is_row(indices, type_of(update).shape, array, index, counter, loop)
