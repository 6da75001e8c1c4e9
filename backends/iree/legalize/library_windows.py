"""Convolutions for NumPy's BLAS: products whose left operand consists of windows of one array.

The legalization of convolutions concatenates a slice of the input for each position in the kernel,
and multiplies these columns by the weights (`reductions/convolution`). If they were stored, they
would take the memory of the input once for each position in the kernel. The native function copies
only a panel of rows, which stays in the processor's cache, and multiplies it at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gnomon.dialects.mlir import ir

__all__ = ["Windows", "windows_of"]

# The numbers of dimensions that the native function takes.
_ROWS, _PLACES = 4, 3

# A dimension: its size and its stride.
_Dim = tuple[int, int]


class Windows(NamedTuple):
    """A matrix whose rows are windows of an array.

    Attributes:
      value: the array.
      offset: the position of the first window in the array.
      rows: the dimensions of the windows' positions.
      places: the dimensions of the positions in a window; a stride is negative where the kernel is
        reversed.
      depth: the number of neighbouring elements at each of these positions.
    """

    value: ir.Value
    offset: int
    rows: tuple[_Dim, ...]
    places: tuple[_Dim, ...]
    depth: int

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        count, places = (math.prod(n for n, _ in dims) for dims in (self.rows, self.places))
        return count, places * self.depth

    def numbers(self) -> list[int]:
        """The integer parameters of the native function, in order."""
        found: list[int] = []
        for dims, rank in ((self.rows, _ROWS), (self.places, _PLACES)):
            padded = [(1, 0)] * (rank - len(dims)) + list(dims)
            found += [n for n, _ in padded]
            found += [stride for _, stride in padded]
        return [*found, self.depth, self.offset]


def windows_of(value: ir.Value) -> Windows | None:
    """The windows of one array that a matrix consists of; None for any other matrix.

    Only a matrix with one use qualifies: for any other use it would be stored anyway.
    """
    columns, has_one_use = _before_reshapes(value)
    owner = columns.owner
    if not has_one_use or isinstance(owner, ir.Block) or owner.name != "stablehlo.concatenate":
        return None
    op = owner.operation
    width = _shape(value)[-1]
    last = len(_shape(columns)) - 1
    if ir.IntegerAttr(op.attributes["dimension"]).value != last or _shape(columns)[last] != width:
        return None
    slices = [_slice(x) for x in op.operands]
    first = slices[0]
    if first is None:
        return None
    starts = []
    for one in slices:
        if one is None or (one.source, one.sizes, one.steps) != (
            first.source, first.sizes, first.steps
        ):  # fmt: skip
            return None
        starts.append(one.start)
    return _from_slices(first, starts)


class _Slice(NamedTuple):
    """A slice of an array, whose last dimension becomes the last one of a part.

    Attributes:
      source: the array.
      start: the position of its first element.
      sizes, steps: the sizes, and the strides in the array.
    """

    source: ir.Value
    start: int
    sizes: tuple[int, ...]
    steps: tuple[int, ...]


def _slice(part: ir.Value) -> _Slice | None:
    value, _ = _before_reshapes(part)
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.slice":
        return None
    op = owner.operation
    (source,) = op.operands
    starts, _, strides = (
        list(ir.DenseI64ArrayAttr(op.attributes[f"{name}"]))
        for name in ("start_indices", "limit_indices", "strides")
    )
    sizes = _shape(value)
    if not sizes or sizes[-1] != _shape(part)[-1] or strides[-1] != 1 or 0 in sizes:
        return None
    shape = _shape(source)
    dense = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    return _Slice(
        _before_reshapes(source)[0],
        sum(n * step for n, step in zip(starts, dense, strict=True)),
        tuple(sizes),
        tuple(n * step for n, step in zip(strides, dense, strict=True)),
    )


def _from_slices(one: _Slice, starts: Sequence[int]) -> Windows | None:
    rows = _collapse(list(zip(one.sizes[:-1], one.steps[:-1], strict=True)))
    places = _grid([start - starts[0] for start in starts])
    if places is None or len(rows) > _ROWS:
        return None
    depth = one.sizes[-1]
    places = _collapse(places)
    if places and places[-1][1] == depth:
        depth *= places.pop()[0]
    if len(places) > _PLACES:
        return None
    return Windows(one.source, starts[0], tuple(rows), tuple(places), depth)


def _grid(offsets: Sequence[int]) -> list[_Dim] | None:
    """The dimensions of a grid that has these offsets in row-major order; None if there is none."""
    if len(offsets) == 1:
        return []
    step = offsets[1] - offsets[0]
    count = next(
        (i for i in range(2, len(offsets)) if offsets[i] - offsets[i - 1] != step), len(offsets)
    )
    if len(offsets) % count:
        return None
    outer = offsets[::count]
    if any(offsets[i] != outer[i // count] + i % count * step for i in range(len(offsets))):
        return None
    rest = _grid(outer)
    return None if rest is None else [*rest, (count, step)]


def _collapse(dims: Sequence[_Dim]) -> list[_Dim]:
    """Drop dimensions of size one, and join neighbours whose steps form a single run."""
    found: list[_Dim] = []
    for size, step in dims:
        if size == 1:
            continue
        if found and found[-1][1] == size * step:
            found[-1] = (found[-1][0] * size, step)
        else:
            found.append((size, step))
    return found


def _shape(value: ir.Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def _before_reshapes(value: ir.Value) -> tuple[ir.Value, bool]:
    """The value before all reshapes, and whether it and each reshaped value have only one use."""
    once = _has_one_use(value)
    while isinstance(value, ir.OpResult) and value.owner.name == "stablehlo.reshape":
        (value,) = value.owner.operation.operands
        once = once and _has_one_use(value)
    return value, once


def _has_one_use(value: ir.Value) -> bool:
    uses = iter(value.uses)
    return next(uses, None) is not None and next(uses, None) is None
