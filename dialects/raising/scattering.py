"""``scatter``: elements of updates whose index is out of bounds are dropped, one by one.

The dialect drops or keeps whole windows instead. So a window of more than one element along an
indexed dimension is first split into elements, each with its own index.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.dialects.body import Body
from gnomon.dialects.emit import convert, full, ops, reshape, slice_along, transpose
from gnomon.dialects.indexing.windows import Dimensions
from gnomon.dialects.mlir import ir, stablehlo
from gnomon.dialects.raising.indexing import index_rows
from gnomon.dialects.raising.reduction import combiner_of
from gnomon.dialects.raising.source import Region, Source, raises
from gnomon.dialects.raising.structural import broadcast
from gnomon.dialects.types import BOOL, TensorType, type_of

_SCATTERS = {
    "add": "scatter_add",
    "multiply": "scatter_mul",
    "maximum": "scatter_max",
    "minimum": "scatter_min",
    "second": "scatter",
}
# Of bools, the scatters that combine as these ops do.
_OF_BOOLS = {"or": "scatter_max", "and": "scatter_min"}
_I32, _I64 = np.dtype(np.int32), np.dtype(np.int64)


@raises("scatter")
def _scatter(source: Source) -> list[ir.Value]:
    count = len(source.operation.results)
    operands, updates = source.operands[:count], source.operands[count + 1 :]
    numbers = stablehlo.ScatterDimensionNumbers(source.attribute("scatter_dimension_numbers"))
    dims = Dimensions(
        tuple(numbers.update_window_dims),
        tuple(numbers.inserted_window_dims),
        tuple(numbers.scattered_dims_to_operand_dims),
        tuple(numbers.input_batching_dims),
        tuple(numbers.scatter_indices_batching_dims),
    )
    if type_of(operands[0]).size == 0 or type_of(updates[0]).size == 0:
        return operands
    rows = index_rows(source.operands[count], numbers.index_vector_dim)
    rows = _wide_enough(rows)
    unique = source.flag("unique_indices")
    name = _name(source.region, count, type_of(operands[0]).dtype)
    if name == "first":
        return operands
    if name is not None and not _split_dims(dims, type_of(operands[0]), type_of(updates[0])):
        scattered = getattr(ops, name)(
            operands[0],
            rows,
            updates[0],
            **dims.as_scatter(),
            mode="drop",
            unique_indices=unique,
            indices_are_sorted=source.flag("indices_are_sorted"),
        )
        return [scattered]
    flat = [reshape(x, (type_of(x).size,)) for x in operands]
    # Where windows overlap, they are written one after the other.
    rank = type_of(updates[0]).rank
    batch = [d for d in range(rank) if d not in dims.window]
    updates = [transpose(u, (*batch, *dims.window)) for u in updates]
    dims = dims._replace(window=tuple(range(len(batch), rank)))
    positions = _flat_positions(type_of(operands[0]), rows, type_of(updates[0]), dims)
    parts = [reshape(u, (type_of(u).size,)) for u in updates]
    results = combine_at(source.region, flat, positions, parts, unique=unique)
    return [reshape(r, type_of(x).shape) for r, x in zip(results, operands, strict=True)]


def _wide_enough(rows: ir.Value) -> ir.Value:
    """Signed indices of a dtype that holds all sizes."""
    dtype = type_of(rows).dtype
    if dtype.kind == "i" and dtype.itemsize >= _I32.itemsize:
        return rows
    return convert(rows, _I64)


def _name(region: Region, count: int, dtype: np.dtype) -> str | None:
    if count != 1:
        return None
    name = region.combiner()
    if name in ("first", "second"):
        return _SCATTERS.get(name, name)
    combiner = combiner_of(region, dtype)
    if dtype == BOOL:
        return _OF_BOOLS.get(combiner or "")
    return _SCATTERS.get(combiner or "")


def _window_dims(dims: Dimensions, operand: TensorType) -> dict[int, int]:
    """The dimension of the updates for each operand dimension that windows extend along."""
    return dict(zip(dims.kept(operand.rank), dims.window, strict=True))


def _split_dims(dims: Dimensions, operand: TensorType, updates: TensorType) -> list[int]:
    """The indexed operand dimensions along which windows have several elements."""
    own = _window_dims(dims, operand)
    return [d for d in dims.start_map if d in own and updates.shape[own[d]] > 1]


def _flat_positions(
    operand: TensorType, rows: ir.Value, updates: TensorType, dims: Dimensions
) -> ir.Value:
    """The position in the flat operand of each element of the updates; its size if out of bounds.

    The result has the shape ``[elements, 1]``.
    """
    shape = updates.shape
    dtype = _I64
    rows = convert(rows, dtype)
    own = _window_dims(dims, operand)
    batch = [d for d in range(len(shape)) if d not in dims.window]
    full_type = TensorType(shape, dtype)

    def ramp(dimension: int) -> ir.Value:
        numbered: ir.Value = ops.iota(dtype=dtype, shape=shape, dimension=dimension)
        return numbered

    position, inside = full(full_type, 0), full(full_type.with_dtype(BOOL), True)
    stride = 1
    for d in reversed(range(operand.rank)):
        coordinate = ramp(own[d]) if d in own else full(full_type, 0)
        if d in dims.start_map:
            nth = dims.start_map.index(d)
            rank = type_of(rows).rank
            component = slice_along(rows, rank - 1, nth, nth + 1)
            component = reshape(component, type_of(rows).shape[:-1])
            coordinate = ops.add(coordinate, broadcast(component, shape, batch))
        elif d in dims.operand_batching:
            along = dims.indices_batching[dims.operand_batching.index(d)]
            coordinate = ramp(batch[along])
        at_least = ops.ge(coordinate, full(full_type, 0))
        below = ops.lt(coordinate, full(full_type, operand.shape[d]))
        inside = ops.and_(inside, ops.and_(at_least, below))
        position = ops.add(position, ops.mul(coordinate, full(full_type, stride)))
        stride *= operand.shape[d]
    kept = ops.select(inside, position, full(full_type, operand.size))
    return reshape(kept, (updates.size, 1))


def combine_at(
    region: Region,
    operands: Sequence[ir.Value],
    positions: ir.Value,
    updates: Sequence[ir.Value],
    *,
    unique: bool,
) -> list[ir.Value]:
    """Combine elements of flat operands with updates, in order; positions past the end are skipped.

    Args:
      region: the function of the elements, then the updates.
      operands: arrays of one dimension.
      positions: the position of each update, ``[updates, 1]``.
      updates: arrays of one dimension.
      unique: whether the positions differ.
    """
    name = _name(region, len(operands), type_of(operands[0]).dtype)
    if name == "first":
        return list(operands)
    if name is None:
        return _combine_in_order(region, operands, positions, updates)
    scattered = getattr(ops, name)(
        operands[0],
        positions,
        updates[0],
        update_window_dims=(),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        operand_batching_dims=(),
        scatter_indices_batching_dims=(),
        mode="drop",
        unique_indices=unique,
        indices_are_sorted=False,
    )
    return [scattered]


def _combine_in_order(
    region: Region,
    operands: Sequence[ir.Value],
    positions: ir.Value,
    updates: Sequence[ir.Value],
) -> list[ir.Value]:
    """A loop over the updates: the function is arbitrary, and positions may repeat."""
    captured = region.captured
    count, (length, _) = len(operands), type_of(positions).shape
    places = reshape(positions, (length,))
    size = type_of(operands[0]).size
    inner = region.close()
    types = [type_of(v) for v in (*captured, *operands)]
    step_types = [type_of(v).with_shape(()) for v in (places, *updates)]

    def step(*arguments: ir.Value) -> list[ir.Value]:
        constants, rest = arguments[: len(captured)], arguments[len(captured) :]
        state, (place, *new) = rest[:count], rest[count:]
        old = [reshape(ops.dynamic_slice(s, place, sizes=(1,)), ()) for s in state]
        made = inner.inline([*constants, *old, *new])
        inside = ops.lt(place, full(type_of(place), size))
        results = []
        for s, before, after in zip(state, old, made, strict=True):
            value = reshape(ops.select(inside, after, before), (1,))
            results.append(ops.dynamic_update_slice(s, value, place))
        return results

    body = Body.build([*types, *step_types], step)
    results: list[ir.Value] = ops.scan(
        *captured,
        *operands,
        places,
        *updates,
        consts=len(captured),
        carry=count,
        length=length,
        reverse=False,
        unroll=1,
        bodies=[body],
    )
    return results[:count]


__all__ = ["combine_at"]
