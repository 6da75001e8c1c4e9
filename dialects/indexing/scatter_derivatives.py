"""The derivatives of the scatter family."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gnomon.dialects.combinators import (
    Tangents,
    Values,
    require_linear_in,
)
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import add_tangents, full, full_like, ops, reshape, zeros
from gnomon.dialects.indexing.updates import sizes_of, writes_nothing
from gnomon.dialects.indexing.windows import (
    Dimensions,
    element_count,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import (
    TensorType,
    type_of,
)

UINT32 = np.dtype(np.uint32)

# A rule that gives the cotangents of the operand and of the updates; either may be None.
_Transpose: TypeAlias = "Callable[[Instance, ir.Value, Sequence[bool]], list[ir.Value | None]]"


def _transpose(rule: _Transpose) -> Callable[..., list[ir.Value | None]]:
    """The transpose rule of a scatter, from one for scatters that write something."""

    @functools.wraps(rule)
    def transpose(
        inst: Instance, cotangents: Tangents, linear: Sequence[bool]
    ) -> list[ir.Value | None]:
        require_linear_in(inst, linear, 0, 2)
        (cotangent,) = cotangents
        if cotangent is None:
            return [None, None, None]
        if writes_nothing(inst):
            return [cotangent if linear[0] else None, None, None]
        operand, updates = rule(inst, cotangent, linear)
        return [operand, None, updates]

    return transpose


def _read_back(inst: Instance, source: ir.Value, fill: Any) -> ir.Value:
    """Gather the elements of ``source`` at the positions to which the scatter writes."""
    params = inst.params
    return ops.gather(
        source,
        inst.operands[1],
        **Dimensions.of_scatter(params).as_gather(),
        slice_sizes=sizes_of(inst),
        mode="fill" if params["mode"] == "drop" else params["mode"],
        fill_value=fill,
        unique_indices=params["unique_indices"],
        indices_are_sorted=params["indices_are_sorted"],
    )


def _scatter_add_like(inst: Instance, operand: ir.Value, updates: ir.Value) -> ir.Value:
    return ops.scatter_add(operand, inst.operands[1], updates, **inst.params)


def jvp_add(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    """The tangent of `scatter_add`, which is linear in the operand and the updates."""
    operand, _, updates = tangents
    if updates is None or writes_nothing(inst):
        return [operand]
    operand = zeros(inst.type) if operand is None else operand
    return [_scatter_add_like(inst, operand, updates)]


@_transpose
def transpose_add(
    inst: Instance, cotangent: ir.Value, linear: Sequence[bool]
) -> list[ir.Value | None]:
    """The transpose of `scatter_add`: the cotangent, and its reads at the indices."""
    updates = _read_back(inst, cotangent, 0) if linear[2] else None
    return [cotangent if linear[0] else None, updates]


def _winners(inst: Instance) -> tuple[ir.Value, ir.Value]:
    """The masks of the operand elements that remain and of the updates that are written.

    Of several updates of one element, only one is written. To find it, scatter the numbers of the
    updates and read them back: an update that reads back its own number was written.
    """
    operand, indices, updates = inst.operand_types
    dims = Dimensions.of_scatter(inst.params)
    batch_shape = indices.shape[:-1]
    count = element_count(batch_shape)
    numbers = ops.iota(dtype=UINT32, shape=(count,), dimension=0)
    numbers = ops.add(numbers, full(TensorType((count,), UINT32), 1))
    batch_dims = tuple(d for d in range(updates.rank) if d not in dims.window)
    numbers = ops.broadcast_in_dim(
        reshape(numbers, batch_shape), shape=updates.shape, dims=batch_dims
    )
    none = zeros(operand.with_dtype(UINT32))
    written = ops.scatter(none, inst.operands[1], numbers, **inst.params)
    unwritten = ops.eq(written, none)
    # A dropped update reads back another number or zero, so it counts as not written.
    wins = ops.eq(numbers, _read_back(inst, written, 0))
    return unwritten, wins


def _masked(mask: ir.Value, x: ir.Value) -> ir.Value:
    return ops.select(mask, x, zeros(type_of(x)))


def jvp_set(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    """The tangent of `scatter`: that of the operand, replaced where an update is written."""
    operand, _, updates = tangents
    if writes_nothing(inst) or (operand is None and updates is None):
        return [operand]
    if inst.params["unique_indices"]:
        operand = zeros(inst.type) if operand is None else operand
        updates = zeros(inst.operand_types[2]) if updates is None else updates
        return inst.op.build([operand, inst.operands[1], updates], inst.params)
    unwritten, wins = _winners(inst)
    kept = zeros(inst.type) if operand is None else _masked(unwritten, operand)
    if updates is None:
        return [kept]
    return [_scatter_add_like(inst, kept, _masked(wins, updates))]


@_transpose
def transpose_set(
    inst: Instance, cotangent: ir.Value, linear: Sequence[bool]
) -> list[ir.Value | None]:
    """The transpose of `scatter`: the cotangent where the operand remains, and its reads."""
    unique = inst.params["unique_indices"]
    operand = updates = None
    unwritten, wins = (None, None) if unique else _winners(inst)
    if linear[0]:
        operand = (
            _masked(unwritten, cotangent)
            if unwritten is not None
            else inst.op(cotangent, inst.operands[1], zeros(inst.operand_types[2]), **inst.params)
        )
    if linear[2]:
        updates = _read_back(inst, cotangent, 0)
        updates = updates if wins is None else _masked(wins, updates)
    return [operand, updates]


def _require_unique(inst: Instance) -> None:
    if not inst.params["unique_indices"]:
        raise NotImplementedError(
            "gnomon.scatter_mul is differentiable with respect to its updates only if "
            "unique_indices is true: the derivative with respect to one factor depends on the "
            "other factors of the same element. Pass unique_indices=True if no index repeats, or "
            "multiply by the exponential of a scatter_add of logarithms"
        )


def jvp_mul(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    """The tangent of `scatter_mul`, by the product rule."""
    operand, _, updates = tangents
    if writes_nothing(inst):
        return [operand]
    if operand is not None:
        (operand,) = inst.op.build([operand, *inst.operands[1:]], inst.params)
    if updates is None:
        return [operand]
    _require_unique(inst)
    factors = _read_back(inst, inst.operands[0], 0)
    term = _scatter_add_like(inst, zeros(inst.type), ops.mul(updates, factors))
    return [add_tangents(operand, term)]


@_transpose
def transpose_mul(
    inst: Instance, cotangent: ir.Value, linear: Sequence[bool]
) -> list[ir.Value | None]:
    """The transpose of `scatter_mul`, which is linear in one of its two factors at a time."""
    if linear[0]:
        return [inst.op(cotangent, *inst.operands[1:], **inst.params), None]
    _require_unique(inst)
    return [None, _read_back(inst, ops.mul(cotangent, inst.operands[0]), 0)]


def jvp_extremal(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    """The tangent of an extremum: the mean over the operand and updates that attain it."""
    operand, _, updates = tangents
    if writes_nothing(inst) or (operand is None and updates is None):
        return [operand]
    x, _, u = inst.operands
    (out,) = outs
    one = full(inst.type, 1)
    # A nan is not equal to itself, so elements that no update reaches are told by their number.
    reached = _scatter_add_like(inst, zeros(inst.type), full_like(u, 1))
    attained = ops.or_(ops.eq(x, out), ops.eq(reached, zeros(inst.type)))
    attaining = ops.eq(u, _read_back(inst, out, 0))
    count = _scatter_add_like(inst, _masked(attained, one), _masked(attaining, full_like(u, 1)))
    # Nothing attains a nan that an update reaches; its derivative is 0.
    count = ops.max(count, one)
    kept = zeros(inst.type) if operand is None else _masked(attained, ops.div(operand, count))
    if updates is None:
        return [kept]
    # A dropped update reads a count of 1, not 0: its share is dropped but must be finite.
    share = ops.div(updates, _read_back(inst, count, 1))
    return [_scatter_add_like(inst, kept, _masked(attaining, share))]
