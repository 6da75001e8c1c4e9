"""Groups of members over several named axes together.

A collective over one axis takes groups as a parameter. A collective over several axes acts along
one axis after the other, which is impossible if groups cross the axes. So each member gets the
values of all members, and selects those of its group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._arrays.array import Array
from gnomon._tracing.bind import as_operand, bind
from gnomon.dialects.contract import Op
from gnomon.dialects.emit import ops
from gnomon.lax._creation import full_like
from gnomon.lax._named_axes import Groups, bind_over, sizes_of, varying_over
from gnomon.lax._operands import broadcast
from gnomon.lax._selection import select
from gnomon.lax._slicing import dynamic_index_in_dim
from gnomon.lax._structural import concatenate, reshape

__all__ = ["own_position", "reduced_within_groups", "values_of_group"]


def _padded(groups: Groups) -> list[tuple[int, ...]]:
    """The groups, padded to one size by repeating their first member."""
    size = max(map(len, groups))
    return [(*group, *(group[0],) * (size - len(group))) for group in groups]


def _row(table: Any, index: Array) -> Array:
    """The row of a table of constants that belongs to this member."""
    return dynamic_index_in_dim(as_operand(table), index, 0, keepdims=False)


def own_position(groups: Groups, index: Array) -> Array:
    """The position of this member in its group; ``index`` is its index among all members."""
    places = {member: place for group in groups for place, member in enumerate(group)}
    return _row(np.array([places[i] for i in range(len(places))], np.int32), index)


def values_of_group(x: Array, names: Sequence[str], groups: Groups, index: Array) -> Array:
    """The values of the members of this member's group, stacked along a new first dimension.

    Args:
      x: the value of this member.
      names: the axes.
      groups: the groups; a smaller one is padded by its first member.
      index: the index of this member among all members, in row-major order of the axes.
    """
    sizes = sizes_of(tuple(names))
    every = varying_over(x, names)
    for name, size in zip(reversed(names), reversed(sizes), strict=True):
        every = bind_over(ops.all_gather, (name,), every, groups=(), dimension=0, size=size)
    every = reshape(every, (math.prod(sizes), *x.shape))
    rows = {member: group for group in _padded(groups) for member in group}
    members = _row(np.array([rows[i] for i in range(len(rows))], np.int32), index)
    chosen = [
        dynamic_index_in_dim(every, dynamic_index_in_dim(members, k, 0, keepdims=False), 0)
        for k in range(members.shape[0])
    ]
    return concatenate(chosen, 0)


def reduced_within_groups(
    reduction: Op, x: Array, names: Sequence[str], groups: Groups, index: Array
) -> Array:
    """The sum, maximum or minimum over the members of this member's group; see `values_of_group`.

    Members that are repeated to pad a group do not change an extremum; in sums they count as zeros.
    """
    values = values_of_group(x, names, groups, index)
    size = values.shape[0]
    if reduction is ops.reduce_sum and any(len(group) < size for group in groups):
        counts = {member: len(group) for group in groups for member in group}
        mask = np.array([[k < counts[i] for k in range(size)] for i in range(len(counts))])
        own = reshape(_row(mask, index), (size, *(1,) * x.ndim))
        values = select(broadcast(own, values.shape), values, full_like(values, 0))
    return bind(reduction, values, axes=(0,))
