"""Groups of members: a collective over a named axis that acts within each group.

Groups are lists of positions along the axis. No groups at all mean one group of all members.
Groups of one size are handled together: the batch dimension is permuted and split into one of
groups and one of their members, and the collective acts on the latter.
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
    """Check that groups cover the members once and, if ``size`` is given, that all have it."""
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
      x: a value with the batch dimension in front.
      groups: cover the members.
      size: the number of members.
      act: takes a value with two leading dimensions, groups and their members, and the size of
        the latter; gives one with the same two leading dimensions.
    Returns:
      The results with the batch dimension in front.
    """
    require(
        sum(map(len, groups)) == size,
        "axis_index_groups",
        f"the groups {groups} cover another number of members than the {size} of the axis",
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
