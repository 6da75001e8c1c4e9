"""Gathers, scatters and slice updates; reversed and cumulative elements of some dtypes.

The faults of IREE 3.13, and the remedies:

- It can scatter only rows. Every scatter becomes one of whole rows of a matrix, whose row numbers
  are computed from the indices, the batching dimensions and the window's narrow dimensions.
- An unsigned start of 64 bits is taken for a signed one, and clamped to 0 if it is 2^63 or more.
- An index out of bounds writes beyond the buffer. Such updates go to an additional row, which is
  sliced off afterwards. Appending that row also copies the operand, so that an update computed from
  the operand never reads what the scatter has overwritten. On CPUs, a kernel of our own scatters
  numbers of most dtypes into such a copy, and skips these updates
  (`array_kernels.single_ops`).
- A gather out of bounds reads beyond the buffer. Its start indices are clamped first.
- An array that is updated by a slice of itself is overwritten while it is read. A barrier precedes
  the update.
- An argument whose last use is an update is overwritten, although it belongs to the caller. The
  update works on a copy (`in_place`).
- Unsigned integers and bools: see `storage`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.backends.iree.legalize.array_kernels.single_ops import has_scatter_kernels
from gnomon.backends.iree.legalize.data_movement.storage import Storage, storage_of
from gnomon.backends.iree.legalize.fusion.stored_values import is_widened
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.backends.rewriting import Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import (
    constant,
    convert,
    full,
    full_like,
    ops,
    reshape,
    slice_along,
    transpose,
)
from gnomon.dialects.indexing.windows import Dimensions, Dims
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.dialects.traits import Form, names_of
from gnomon.dialects.types import SIGNED, TensorType, type_of

__all__ = ["LEGALIZATIONS"]

_I32 = np.dtype(np.int32)
_I64 = np.dtype(np.int64)


# ----------------------------------------------------------------------------------------- indices


def _signed(indices: ir.Value, bound: int) -> ir.Value:
    """Indices as i32, or as i64 where they or ``bound`` need it; none wraps into bounds."""
    dtype = type_of(indices).dtype
    target = _I32 if bound < 2**31 else _I64
    if dtype in SIGNED:
        return convert(indices, target if dtype.itemsize <= target.itemsize else dtype)
    if dtype.itemsize < target.itemsize:
        return convert(indices, target)
    # As signed numbers of the same width, large ones would be negative; they become the largest.
    same_width = np.dtype(f"i{dtype.itemsize}")
    signed = ops.bitcast_convert(indices, dtype=same_width)
    largest = np.iinfo(same_width if same_width.itemsize <= target.itemsize else target).max
    beyond = ops.or_(
        ops.lt(signed, full_like(signed, 0)), ops.gt(signed, full_like(signed, largest))
    )
    return convert(ops.select(beyond, full_like(signed, largest), signed), target)


def _row_vector(starts: ir.Value, values: Sequence[int]) -> ir.Value:
    """A literal for each component of an index, repeated for all indices."""
    type_ = type_of(starts)
    literal = constant(np.array(values, type_.dtype))
    return ops.broadcast_in_dim(literal, shape=type_.shape, dims=(type_.rank - 1,))


def _clamped(starts: ir.Value, bounds: Sequence[int]) -> ir.Value:
    low = ops.max(starts, full_like(starts, 0))
    return ops.min(low, _row_vector(starts, bounds))


def _in_bounds(starts: ir.Value, bounds: Sequence[int]) -> ir.Value:
    """A bool for each index: whether its whole window is in bounds."""
    above = ops.ge(starts, full_like(starts, 0))
    inside = ops.and_(above, ops.le(starts, _row_vector(starts, bounds)))
    rank = type_of(inside).rank
    if type_of(inside).shape[-1] == 1:
        return reshape(inside, type_of(inside).shape[:-1])
    return ops.reduce_and(inside, axes=(rank - 1,))


def _component(starts: ir.Value, k: int) -> ir.Value:
    """Component ``k`` of all indices."""
    shape = type_of(starts).shape
    return reshape(slice_along(starts, len(shape) - 1, k, k + 1), shape[:-1])


# ---------------------------------------------------------------------------------------- scatters


def _scatter(inst: Instance, target: Target) -> Sequence[ir.Value] | None:
    operand_type, indices_type, updates_type = inst.operand_types
    if operand_type.size == 0 or updates_type.size == 0:
        return [inst.operands[0]]
    operand, indices, updates = inst.operands
    storage = storage_of(inst.op.name, operand_type.dtype)
    operand, updates = storage.store(operand), storage.store(updates)
    shape = operand_type.shape
    rank, mode = len(shape), inst.params["mode"]
    dims = Dimensions.of_scatter(inst.params)
    kept = dims.kept(rank)
    sizes = [1] * rank
    for d, w in zip(kept, dims.window, strict=True):
        sizes[d] = updates_type.shape[w]
    # Dimensions that windows cover wholly make up the row; the others determine its number.
    whole = [d for d in kept if sizes[d] == shape[d]]
    places = [d for d in range(rank) if d not in whole]
    narrow = [d for d in kept if d not in whole]
    count, width = math.prod(shape[d] for d in places), math.prod(shape[d] for d in whole)

    batch_shape = indices_type.shape[:-1]
    starts = _signed(indices, max((count, *shape)))
    bounds = [shape[d] - sizes[d] for d in dims.start_map]
    inside = None
    if dims.start_map:
        if mode != "clip":
            inside = _in_bounds(starts, bounds)
        starts = _clamped(starts, bounds)
    if count < 2**31:
        # IREE rejects two scatters that share 64-bit indices.
        starts = convert(starts, _I32)
    if math.prod(batch_shape) == 1:
        written = _update_window(storage.op, operand, starts, inside, updates, dims, sizes)
        return [storage.load(written, operand_type)]
    numbers = _row_numbers(starts, inside, dims, shape, sizes, places, narrow, batch_shape, count)

    window_of = dict(zip(kept, dims.window, strict=True))
    batch_dims = [d for d in range(updates_type.rank) if d not in dims.window]
    order = [*batch_dims, *(window_of[d] for d in narrow), *(window_of[d] for d in whole)]
    rows = transpose(operand, [*places, *whole])
    rows = reshape(rows, (count, width))
    new_count = updates_type.size // width
    new_rows = reshape(transpose(updates, order), (new_count, width))
    written = _scatter_rows(inst, storage, rows, numbers, new_rows, target)
    ordered = reshape(written, [shape[d] for d in (*places, *whole)])
    back = [(*places, *whole).index(d) for d in range(rank)]
    return [storage.load(transpose(ordered, back), operand_type)]


def _row_numbers(
    starts: ir.Value,
    inside: ir.Value | None,
    dims: Dimensions,
    shape: Dims,
    sizes: Sequence[int],
    places: Sequence[int],
    narrow: Sequence[int],
    batch_shape: Dims,
    outside: int,
) -> ir.Value:
    """The row of each update, as ``[updates, 1]``; ``outside`` for those out of bounds."""
    dtype = type_of(starts).dtype
    full_shape = (*batch_shape, *(sizes[d] for d in narrow))
    batch = tuple(range(len(batch_shape)))
    along = dict(zip(dims.operand_batching, dims.indices_batching, strict=True))
    component = {d: k for k, d in enumerate(dims.start_map)}
    total = full(TensorType(full_shape, dtype), 0)
    stride = 1
    for d in reversed(places):
        terms = []
        if d in component:
            start = _component(starts, component[d])
            terms.append(ops.broadcast_in_dim(start, shape=full_shape, dims=batch))
        if d in along:
            terms.append(ops.iota(dtype=dtype, shape=full_shape, dimension=along[d]))
        if d in narrow:
            at = len(batch_shape) + narrow.index(d)
            terms.append(ops.iota(dtype=dtype, shape=full_shape, dimension=at))
        for term in terms:
            scaled = term if stride == 1 else ops.mul(term, full_like(term, stride))
            total = ops.add(total, scaled)
        stride *= shape[d]
    if inside is not None:
        mask = ops.broadcast_in_dim(inside, shape=full_shape, dims=batch)
        total = ops.select(mask, total, full_like(total, outside))
    return reshape(total, (math.prod(full_shape), 1))


def _scatter_rows(
    inst: Instance,
    storage: Storage,
    rows: ir.Value,
    numbers: ir.Value,
    new_rows: ir.Value,
    target: Target,
) -> ir.Value:
    """Scatter whole rows, without those out of bounds, which a kernel of ours skips.

    For kernels of the compiler, they go to one more row of a copy.
    """
    type_ = type_of(rows)
    count, width = type_.shape
    params = {
        **Dimensions((1,), (0,), (0,), (), ()).as_scatter(),
        "mode": "promise_in_bounds",
        "unique_indices": inst.params["unique_indices"],
        "indices_are_sorted": False,
    }
    if has_scatter_kernels(type_.dtype, target):
        return getattr(ops, storage.op)(rows, numbers, new_rows, **params)
    spare = full(type_.with_shape((1, width)), 0)
    copy = ops.concatenate(rows, spare, dimension=0)
    numbers, new_rows = map(_stored_if_widened, (numbers, new_rows))
    written = getattr(ops, storage.op)(copy, numbers, new_rows, **params)
    return slice_along(written, 0, 0, count)


def _stored_if_widened(value: ir.Value) -> ir.Value:
    """A value that a scatter reads, from memory if it is converted from a narrower dtype.

    IREE repeats widening conversions in the kernels that use them. For CUDA it rejects a scatter
    that contains one. For CPUs it converts all elements first, into memory on the stack, of which
    it allows 32 KiB.
    """
    if not is_widened(value):
        return value
    (stored,) = ops.optimization_barrier.build([value], {})
    return stored


# The op that combines the old row and the update.
_COMBINE = {"scatter_add": "add", "scatter_mul": "mul", "scatter_min": "min", "scatter_max": "max"}


def _update_window(
    name: str,
    operand: ir.Value,
    starts: ir.Value,
    inside: ir.Value | None,
    updates: ir.Value,
    dims: Dimensions,
    sizes: Sequence[int],
) -> ir.Value:
    """Read the only window, combine it with the update and write it back, as in ``x.at[i].add(y)``.

    The rest of the operand is neither copied nor transposed. This also avoids some scatters that
    IREE rejects, of one number that was sliced out of an array ("expected rank to be smaller or
    equal to the other rank").
    """
    component = {d: reshape(_component(starts, k), ()) for k, d in enumerate(dims.start_map)}
    zero = constant(np.zeros((), type_of(starts).dtype))
    at = [component.get(d, zero) for d in range(len(sizes))]
    old = ops.dynamic_slice(operand, *at, sizes=tuple(sizes))
    combine = _COMBINE.get(name)
    new = reshape(updates, sizes)
    new = new if combine is None else getattr(ops, combine)(old, new)
    if inside is not None:
        mask = ops.broadcast_in_dim(reshape(inside, ()), shape=tuple(sizes), dims=())
        new = ops.select(mask, new, old)
    return _update_slice(operand, new, at)


# ------------------------------------------------------------------------------------------ gather


def _largest(shape: Sequence[Any]) -> int:
    """The largest size; symbolic ones are left out, since they have 32 bits."""
    return max((n for n in shape if not is_symbolic_dim(n)), default=0)


def _gather(inst: Instance) -> Sequence[ir.Value] | None:
    operand_type, _ = inst.operand_types
    type_ = inst.type
    if type_.size == 0:
        return None
    operand, indices = inst.operands
    params = dict(inst.params)
    dims, sizes, fill = Dimensions.of_gather(params), params["slice_sizes"], params["fill_value"]
    storage = storage_of("gnomon.gather", operand_type.dtype)
    operand = storage.store(operand)
    params |= {"mode": "promise_in_bounds", "fill_value": 0}
    starts, inside = _signed(indices, _largest(operand_type.shape)), None
    if dims.start_map:
        bounds = [operand_type.shape[d] - sizes[d] for d in dims.start_map]
        if inst.params["mode"] == "fill":
            inside = _in_bounds(starts, bounds)
        starts = _clamped(starts, bounds)
    read = storage.load(ops.gather(operand, starts, **params), type_)
    if inside is None:
        return [read]
    batch_dims = tuple(d for d in range(type_.rank) if d not in dims.window)
    mask = ops.broadcast_in_dim(inside, shape=type_.shape, dims=batch_dims)
    return [ops.select(mask, read, full(type_, fill))]


# ------------------------------------------------------------------------------------------ slices


def _dynamic_update_slice(inst: Instance) -> Sequence[ir.Value] | None:
    operand, update, *indices = inst.operands
    if inst.operand_types[1].size == 0:
        return [operand]
    if not indices:
        return [update]
    storage = storage_of("gnomon.dynamic_update_slice", inst.type.dtype)
    starts = _signed_starts(indices, inst.type)
    updated = _update_slice(storage.store(operand), storage.store(update), starts)
    return [storage.load(updated, inst.type)]


def _dynamic_slice(inst: Instance) -> Sequence[ir.Value] | None:
    operand, *indices = inst.operands
    starts = _signed_starts(indices, inst.operand_types[0])
    return None if starts == indices else inst.op.build([operand, *starts], inst.params)


def _signed_starts(indices: list[ir.Value], operand: TensorType) -> list[ir.Value]:
    """The starts of a slice, none of which is an unsigned number of 64 bits."""
    if not indices or type_of(indices[0]).dtype != np.uint64:
        return indices
    return [_signed(index, _largest(operand.shape)) for index in indices]


def _update_slice(operand: ir.Value, update: ir.Value, starts: Sequence[ir.Value]) -> ir.Value:
    """Write a slice, of the operand or of a copy of it."""
    # Without the barrier, an update that is a slice of the operand is overwritten while it is read.
    indices: list[ir.Value]
    update, *indices = ops.optimization_barrier.build([update, *starts], {})
    return ops.dynamic_update_slice(operand, update, *indices)


# ----------------------------------------------------------------- reversed and cumulative elements


def _stored(inst: Instance) -> Sequence[ir.Value] | None:
    """An op of one operand, on its stored elements."""
    storage = storage_of(inst.op.name, inst.type.dtype)
    if storage.is_plain or inst.type.size == 0:
        return None
    (result,) = inst.op.build([storage.store(inst.operand)], inst.params)
    return [storage.load(result, inst.type)]


_SCATTERS = names_of("gnomon", Form.SCATTER)

_RULES: dict[str, Rule] = {
    "gnomon.gather": _gather,
    "gnomon.dynamic_slice": _dynamic_slice,
    "gnomon.dynamic_update_slice": _dynamic_update_slice,
    **dict.fromkeys(
        ("gnomon.rev", "gnomon.cumsum", "gnomon.cumprod", "gnomon.cummax", "gnomon.cummin"), _stored
    ),
}


def _rules(target: Target) -> dict[str, Rule]:
    return {**_RULES, **dict.fromkeys(_SCATTERS, lambda inst: _scatter(inst, target))}


LEGALIZATIONS = (
    Legalization(
        name="indexing",
        stage=Stage.REWRITE,
        kind=Kind.MISCOMPILED,
        doc="scatter whole rows of a matrix, clamp or drop indices, separate updates from their "
        "operands",
        upstream="IREE 3.13 can scatter only rows, writes and reads beyond a buffer, and "
        "overwrites an operand while the update is computed from it",
        texts=("updates_by_their_own_operand", "gathers_out_of_bounds"),
        reproducer="an update of x at 3 by `x[:5]` reads what it has written",
        rules=_rules,
    ),
)
