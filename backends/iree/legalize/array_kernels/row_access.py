"""Where the elements of a value are in the array that it is a view of, row by row.

A function of rows reads some arrays element by element (the operand of a softmax), some in each row
again (the scale of a layer normalization), and some once for each row (a mean). Reshapes and
broadcasts tell which, and compute nothing. So a value is looked through all of them to its source:
the value that is computed, or in memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from gnomon.backends.iree.legalize.array_kernels.code import is_splat
from gnomon.backends.iree.legalize.array_kernels.layout import dense, merged_dims, reshaped
from gnomon.backends.iree.legalize.loop_kernels.attributes import integer, integers
from gnomon.backends.iree.legalize.loop_kernels.values import size_of
from gnomon.dialects.mlir import ir

__all__ = ["VIEWS", "Access", "Rows", "access", "is_literal", "is_view", "producer", "source_of"]

_BROADCAST, _RESHAPE = "stablehlo.broadcast_in_dim", "stablehlo.reshape"
_BARRIER, _IOTA = "stablehlo.optimization_barrier", "stablehlo.iota"
VIEWS = frozenset({_BROADCAST, _RESHAPE, _BARRIER})
"""The ops that a value is looked through."""


@dataclass(frozen=True)
class Rows:
    """The rows of an array, in row-major order, whatever its shape.

    Attributes:
      count: the number of rows.
      length: the number of elements in each.
    """

    count: int
    length: int

    @property
    def size(self) -> int:
        """The number of all elements."""
        return self.count * self.length


class Access(NamedTuple):
    """How a value that has an element for each of the rows' elements, or for each row, is read.

    Attributes:
      source: the value whose memory is read.
      rows: how the position in the source depends on the row: sizes and strides of dimensions, the
        outer one first, into which the number of the row is split. Empty if it does not.
      column: the distance in the source of neighbours in a row; 0 for one number in each row.
      is_ramp: whether the source is an iota, of which the positions are the elements.
    """

    source: ir.Value
    rows: tuple[tuple[int, int], ...]
    column: int
    is_ramp: bool = False

    def is_whole(self, rows: Rows) -> bool:
        """Whether each element is read once, in order."""
        if size_of(self.source.type) != rows.size or self.is_ramp:
            return False
        in_order = ((rows.count, rows.length),) if rows.count > 1 else ()
        return self.column == 1 and self.rows == in_order

    def is_per_row(self, rows: Rows) -> bool:
        """Whether each row reads the one number that the source has for it."""
        if size_of(self.source.type) != rows.count or self.is_ramp:
            return False
        return self.column == 0 and self.rows == (((rows.count, 1),) if rows.count > 1 else ())


def producer(value: ir.Value) -> ir.Operation | None:
    """The op that computes a value; None for the argument of a block."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _is_ramp(value: ir.Value) -> bool:
    """Whether a value is an iota."""
    op = producer(value)
    return op is not None and op.name == _IOTA


def is_literal(value: ir.Value) -> bool:
    """Whether a value is a literal with equal elements."""
    op = producer(value)
    return op is not None and is_splat(op)


def is_view(op: ir.Operation) -> bool:
    """Whether an op only passes on its operand's elements, in another shape or repeated."""
    return op.name in VIEWS and len(op.operands) == 1


def source_of(value: ir.Value) -> ir.Value:
    """The value that a value is a view of."""
    return _strided(value)[0]


def _strided(value: ir.Value) -> tuple[ir.Value, tuple[int, ...]]:
    """The value that a value is a view of, and the strides of the view."""
    shape = tuple(value.type.shape)
    op = producer(value)
    if op is not None and op.name == _IOTA:
        along = integer(op, "iota_dimension")
        return value, tuple(int(d == along and n != 1) for d, n in enumerate(shape))
    if op is None or not is_view(op):
        return value, dense(shape)
    (operand,) = op.operands
    source, inner = _strided(operand)
    if op.name == _BARRIER:
        return source, inner
    before = tuple(operand.type.shape)
    if op.name == _RESHAPE:
        strides = reshaped(before, inner, shape)
        return (value, dense(shape)) if strides is None else (source, strides)
    spread = [0] * len(shape)
    for d, n, stride in zip(integers(op, "broadcast_dimensions"), before, inner, strict=True):
        spread[d] = stride if n != 1 else 0
    return source, tuple(spread)


def access(value: ir.Value, rows: Rows) -> Access | None:
    """How a value of one or of all elements of each row is read; None if that is not regular."""
    source, strides = _strided(value)
    shape = tuple(value.type.shape)
    size = math.prod(shape)
    if size == 1 or is_literal(source):
        return Access(source, (), 0)
    if size == rows.count:
        return Access(source, _merged(shape, strides), 0, _is_ramp(source))
    assert size == rows.size
    split, columns = len(shape), 1
    while columns < rows.length and split:
        split -= 1
        columns *= shape[split]
    if columns != rows.length:
        return None
    inner = _merged(shape[split:], strides[split:])
    if len(inner) > 1:
        return None
    column = inner[0][1] if inner else 0
    if column not in (0, 1):
        return None
    return Access(source, _merged(shape[:split], strides[:split]), column, _is_ramp(source))


def _merged(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """The sizes and strides of merged dimensions; none if all strides are zero."""
    sizes, merged = merged_dims(shape, [strides])
    dims = tuple((n, s) for n, (s,) in zip(sizes, merged, strict=True))
    return dims if any(s for _, s in dims) else ()
