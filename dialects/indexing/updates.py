"""The windows that updates of a scatter cover."""

from __future__ import annotations

from gnomon.dialects.contract import Instance
from gnomon.dialects.indexing.windows import Dimensions, Dims

__all__ = ["sizes_of", "window_sizes", "writes_nothing"]


def window_sizes(dims: Dimensions, operand_rank: int, updates: Dims) -> Dims:
    """The window size in each operand dimension."""
    sizes = [1] * operand_rank
    for operand_dim, update_dim in zip(dims.kept(operand_rank), dims.window, strict=True):
        sizes[operand_dim] = updates[update_dim]
    return tuple(sizes)


def sizes_of(inst: Instance) -> Dims:
    """The window size of a scatter in each operand dimension."""
    operand, _, updates = inst.operand_types
    return window_sizes(Dimensions.of_scatter(inst.params), operand.rank, updates.shape)


def writes_nothing(inst: Instance) -> bool:
    """Whether there are no updates, so that the result is the operand."""
    operand, _, updates = inst.operand_types
    return operand.size == 0 or updates.size == 0
