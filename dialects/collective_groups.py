"""Groups of members: a collective over a named axis may act within each group.

Groups are lists of positions along the axis. An empty list of groups means one group of all
members. Groups of equal size are handled together: the batch dimension is permuted and split into
a dimension of groups and a dimension of members, and the collective acts along the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gnomon.dialects.combinators import require
from gnomon.dialects.emit import constant, ops, reshape, take
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

Groups = Sequence[Sequence[int]]


def check_groups(op: str, groups: Groups, *, size: int | None = None) -> None:
    """Check that groups cover each member once and, if ``size`` is given, have that size."""
    members = sorted(i for group in groups for i in group)
    require(
        members == list(range(len(members))),
        op,
        f"the groups {groups} do not cover the members once each",
    )
    if size is not None:
        require(
            all(len(group) == size for group in groups),
            op,
            f"each of the groups {groups} must have {size} members",
        )


def apply_within_groups(
    x: ir.Value, groups: Groups, size: int, act: Callable[[ir.Value, int], ir.Value]
) -> ir.Value:
    """Apply a function within each group.

    Args:
      x: a value with a leading batch dimension.
      groups: the groups, which cover each member once.
      size: the number of members.
      act: takes a value whose two leading dimensions are groups and members, and the number of
        members in a group; returns a value with the same two leading dimensions.
    Returns:
      The results, with a leading batch dimension.
    """
    require(
        sum(map(len, groups)) == size,
        "axis_index_groups",
        f"the groups {groups} must cover the {size} members of the axis",
    )
    order: list[int] = []
    parts = []
    for length in sorted({len(group) for group in groups}):
        members = [i for group in groups if len(group) == length for i in group]
        order += members
        chosen = take(x, constant(np.array(members, np.int32)), 0)
        rest = type_of(chosen).shape[1:]
        result = act(reshape(chosen, (len(members) // length, length, *rest)), length)
        parts.append(reshape(result, (len(members), *type_of(result).shape[2:])))
    joined = parts[0] if len(parts) == 1 else ops.concatenate(*parts, dimension=0)
    return take(joined, constant(np.argsort(order).astype(np.int32)), 0)


__all__ = ["Groups", "apply_within_groups", "check_groups"]
