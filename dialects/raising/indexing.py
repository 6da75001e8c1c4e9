"""``gather``, whose starts are clamped, and ``torch_index_select``."""

from __future__ import annotations

import numpy as np

from gnomon.dialects.emit import convert, full, move_dim, ops, reshape
from gnomon.dialects.mlir import ir, stablehlo
from gnomon.dialects.raising.source import Source, raises
from gnomon.dialects.types import BOOL, type_of


def index_rows(indices: ir.Value, index_vector_dim: int) -> ir.Value:
    """Indices with the components of each row in the last dimension."""
    type_ = type_of(indices)
    if type_.dtype == BOOL:
        indices = convert(indices, np.dtype(np.int32))
    if index_vector_dim == type_.rank:
        return reshape(indices, (*type_.shape, 1))
    return move_dim(indices, index_vector_dim, type_.rank - 1)


@raises("gather")
def _gather(source: Source) -> ir.Value:
    return gather(source, source.ints("slice_sizes"))


def gather(source: Source, sizes: tuple[int, ...]) -> ir.Value:
    """A gather of windows of a size."""
    numbers = stablehlo.GatherDimensionNumbers(source.attribute("dimension_numbers"))
    operand, indices = source.operands[:2]
    if source.type.size == 0:
        return full(source.type, 0)
    gathered: ir.Value = ops.gather(
        operand,
        index_rows(indices, numbers.index_vector_dim),
        offset_dims=tuple(numbers.offset_dims),
        collapsed_slice_dims=tuple(numbers.collapsed_slice_dims),
        start_index_map=tuple(numbers.start_index_map),
        operand_batching_dims=tuple(numbers.operand_batching_dims),
        start_indices_batching_dims=tuple(numbers.start_indices_batching_dims),
        slice_sizes=sizes,
        mode="clip",
        fill_value=np.zeros((), type_of(operand).dtype),
        unique_indices=False,
        indices_are_sorted=source.flag("indices_are_sorted"),
    )
    return gathered


@raises("torch_index_select")
def _index_select(source: Source) -> ir.Value:
    operand, indices = source.operands
    dim, batch = source.integer("dim"), source.integer("batch_dims")
    type_, index_type = type_of(operand), type_of(indices)
    batch_dims = tuple(range(batch))
    others = index_type.rank - batch
    result_dims = [d for d in range(source.type.rank) if not (d < batch or dim <= d < dim + others)]
    selected: ir.Value = ops.gather(
        operand,
        reshape(indices, (*index_type.shape, 1)),
        offset_dims=tuple(result_dims),
        collapsed_slice_dims=(dim,),
        start_index_map=(dim,),
        operand_batching_dims=batch_dims,
        start_indices_batching_dims=batch_dims,
        slice_sizes=tuple(1 if d == dim or d < batch else n for d, n in enumerate(type_.shape)),
        mode="clip",
        fill_value=np.zeros((), type_.dtype),
        unique_indices=False,
        indices_are_sorted=False,
    )
    return selected
