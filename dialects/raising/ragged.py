"""``chlo.ragged_dot``: products of groups of rows, each group with its own matrix."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from gnomon.dialects.emit import convert, move_dim, ops, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.contraction import product
from gnomon.dialects.raising.elementwise import iota
from gnomon.dialects.raising.source import RaiseError, Source, raises
from gnomon.dialects.raising.structural import broadcast
from gnomon.dialects.types import TensorType, type_of

_LIST = re.compile(r"(\w+) = \[([\d, ]*)\]")
_I64 = np.dtype(np.int64)

Dims = tuple[int, ...]


def _dimension_numbers(source: Source) -> dict[str, Dims]:
    """The dimension numbers; the bindings have no class for CHLO's attribute."""
    text = str(source.attribute("ragged_dot_dimension_numbers"))
    # Empty lists are not printed.
    found: dict[str, Dims] = defaultdict(tuple)
    for name, numbers in _LIST.findall(text):
        found[name] = tuple(int(n) for n in numbers.split(",") if n.strip())
    return found


@raises("chlo.ragged_dot")
def _ragged_dot(source: Source) -> ir.Value:
    lhs, rhs, sizes = source.operands
    numbers = _dimension_numbers(source)
    batch = numbers["lhs_batching_dimensions"], numbers["rhs_batching_dimensions"]
    contracting = numbers["lhs_contracting_dimensions"], numbers["rhs_contracting_dimensions"]
    (ragged,) = numbers["lhs_ragged_dimensions"]
    if ragged in batch[0]:
        raise RaiseError("its groups are along a batch dimension")
    # One copy of the left operand for each group, in which the rows of the other groups are zero.
    parted = _parted(lhs, sizes, ragged, batch[0])
    shifted = tuple(d + 1 for d in batch[0])
    own, other = tuple(d + 1 for d in contracting[0]), contracting[1]
    dtype = source.type.dtype
    if ragged in contracting[0]:
        made = product(parted, rhs, (own, other), (shifted, batch[1]), dtype)
        return move_dim(made, len(shifted), 0)
    group = numbers["rhs_group_dimensions"]
    return product(parted, rhs, ((0, *own), (*group, *other)), (shifted, batch[1]), dtype)


def _parted(x: ir.Value, sizes: ir.Value, ragged: int, batch: Sequence[int]) -> ir.Value:
    """Copies of an array along a new first dimension, each with the elements of one group."""
    sizes = convert(sizes, _I64)
    type_, last = type_of(x), type_of(sizes).rank - 1
    ends = ops.cumsum(sizes, axis=last, reverse=False)
    shape = (type_of(sizes).shape[last], *type_.shape)
    # The sizes are those of each batch element, or the same for all.
    dims = (*(d + 1 for d in batch[:last]), 0)
    position = iota(TensorType(shape, _I64), ragged + 1)
    before = ops.lt(position, broadcast(ends, shape, dims))
    from_start = ops.ge(position, broadcast(ops.sub(ends, sizes), shape, dims))
    copies = broadcast(x, shape, tuple(range(1, len(shape))))
    kept: ir.Value = ops.select(ops.and_(before, from_start), copies, zeros(type_of(copies)))
    return kept
