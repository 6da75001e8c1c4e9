"""Ops that move elements, tuples, and the other ops that pass their operands on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from gnomon.dialects.emit import constant, convert, full, ops, reshape, transpose
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.source import Source, raises
from gnomon.dialects.types import TensorType, type_of


def broadcast(x: ir.Value, shape: Sequence[int], dims: Sequence[int]) -> ir.Value:
    """Broadcast along new dimensions and those of size 1; ``dims`` may be in any order."""
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    moved = transpose(x, order)
    if type_of(moved).shape == tuple(shape) and list(dims) == list(range(len(shape))):
        return moved
    result: ir.Value = ops.broadcast_in_dim(
        moved, shape=tuple(shape), dims=tuple(dims[i] for i in order)
    )
    return result


@raises("broadcast_in_dim")
def _broadcast_in_dim(source: Source) -> ir.Value:
    return broadcast(source.operand, source.type.shape, source.ints("broadcast_dimensions"))


@raises("broadcast")
def _broadcast(source: Source) -> ir.Value:
    shape, rank = source.type.shape, type_of(source.operand).rank
    return broadcast(source.operand, shape, range(len(shape) - rank, len(shape)))


@raises("reshape")
def _reshape(source: Source) -> ir.Value:
    return reshape(source.operand, source.type.shape)


@raises("transpose")
def _transpose(source: Source) -> ir.Value:
    return transpose(source.operand, source.ints("permutation"))


@raises("reverse")
def _reverse(source: Source) -> ir.Value:
    reversed_: ir.Value = ops.rev(source.operand, dims=source.ints("dimensions"))
    return reversed_


@raises("concatenate")
def _concatenate(source: Source) -> ir.Value:
    joined: ir.Value = ops.concatenate(*source.operands, dimension=source.integer("dimension"))
    return joined


@raises("slice")
def _slice(source: Source) -> ir.Value:
    start, limit = source.ints("start_indices"), source.ints("limit_indices")
    sliced: ir.Value = ops.slice(
        source.operand, start=start, limit=limit, strides=source.ints("strides", (1,) * len(start))
    )
    return sliced


@raises("pad")
def _pad(source: Source) -> ir.Value:
    names = {"low": "edge_padding_low", "high": "edge_padding_high", "interior": "interior_padding"}
    padded: ir.Value = ops.pad(
        *source.operands, **{ours: source.ints(theirs) for ours, theirs in names.items()}
    )
    return padded


@raises("dynamic_slice")
def _dynamic_slice(source: Source) -> ir.Value:
    x, *indices = source.operands
    sliced: ir.Value = ops.dynamic_slice(
        x, *common_indices(indices, type_of(x)), sizes=source.ints("slice_sizes")
    )
    return sliced


@raises("dynamic_update_slice")
def _dynamic_update_slice(source: Source) -> ir.Value:
    x, update, *indices = source.operands
    updated: ir.Value = ops.dynamic_update_slice(x, update, *common_indices(indices, type_of(x)))
    return updated


def common_indices(indices: Sequence[ir.Value], type_: TensorType) -> list[ir.Value]:
    """Indices in one dtype that holds every size of the operand."""
    dtypes = {type_of(i).dtype for i in indices}
    wide = np.dtype(np.int64)
    if len(dtypes) > 1:
        return [convert(i, wide) for i in indices]
    fits = all(np.iinfo(d).max >= n for d in dtypes if d.kind in "iu" for n in type_.shape)
    return list(indices) if fits else [convert(i, wide) for i in indices]


@raises("get_dimension_size")
def _dimension_size(source: Source) -> ir.Value:
    size = type_of(source.operand).shape[source.integer("dimension")]
    return constant(np.array(size, np.int32))


@raises("map")
def _map(source: Source) -> list[ir.Value]:
    type_ = source.type
    flat = [reshape(x, (type_.size,)) for x in source.operands]
    if not type_.size:
        return [full(type_, 0)]
    return [reshape(r, type_.shape) for r in source.region.vectorize(flat, type_.size)]


# ------------------------------------------------------------------------------ values passed on


@raises("optimization_barrier")
def _optimization_barrier(source: Source) -> list[ir.Value]:
    results: list[ir.Value] = ops.optimization_barrier(*source.operands)
    return results


def width(type_: ir.Type) -> int:
    """The number of values for one value of the source: of a tuple, all its elements."""
    if isinstance(type_, ir.TupleType):
        return sum(width(type_.get_type(i)) for i in range(type_.num_types))
    return 0 if str(type_) in ("!stablehlo.token", "!mhlo.token") else 1


@raises("tuple")
def _tuple(source: Source) -> list[ir.Value]:
    return source.operands


@raises("get_tuple_element")
def _get_tuple_element(source: Source) -> list[ir.Value]:
    (operand,) = source.operation.operands
    widths = [width(operand.type.get_type(i)) for i in range(operand.type.num_types)]
    ends = [0, *itertools.accumulate(widths)]
    index = source.integer("index")
    return source.operands[ends[index] : ends[index + 1]]


@raises("sdy.sharding_constraint", "sdy.reshard")
def _sharding_constraint(source: Source) -> ir.Value:
    """An annotation for partitioning over devices; imported programs run on one."""
    return source.operand


@raises("create_token", "after_all")
def _token(source: Source) -> list[ir.Value]:
    return []
