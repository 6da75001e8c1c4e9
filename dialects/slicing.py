"""Slices and pads: the transpose of each is the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import INTS
from gnomon.dialects.combinators import (
    LowerTo,
    Tangents,
    Values,
    jvp_linear,
    require,
    stablehlo,
    to_front,
)
from gnomon.dialects.contract import Instance, MappedAxis, Op
from gnomon.dialects.emit import full, ops, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.structural import inserted
from gnomon.dialects.symbolic.dimension import surely_at_most
from gnomon.dialects.traits import Form, linear
from gnomon.dialects.types import BOOL, TensorType, type_of

Dims = Sequence[int | None]
Batched: TypeAlias = "tuple[list[ir.Value], list[int | None]]"


# ------------------------------------------------------------------------------------------- slice


def _infer_slice(
    x: TensorType, *, start: tuple[int, ...], limit: tuple[int, ...], strides: tuple[int, ...]
) -> TensorType:
    require(
        len(start) == len(limit) == len(strides) == x.rank,
        "slice",
        f"start {tuple(start)}, limit {tuple(limit)} and strides {tuple(strides)} must give "
        f"one number for each of the {x.rank} dimensions of {x}",
    )
    require(
        all(0 <= a <= b <= n for a, b, n in zip(start, limit, x.shape, strict=True)),
        "slice",
        f"0 <= start <= limit <= size must hold in every dimension of {x}, "
        f"got start {tuple(start)}, limit {tuple(limit)}",
    )
    require(all(s > 0 for s in strides), "slice", f"strides {tuple(strides)} must be positive")
    return x.with_shape(
        tuple(-((a - b) // s) for a, b, s in zip(start, limit, strides, strict=True))
    )


def _evaluate_slice(
    x: np.ndarray, *, start: tuple[int, ...], limit: tuple[int, ...], strides: tuple[int, ...]
) -> np.ndarray:
    index: tuple[Any, ...] = (*map(slice, start, limit, strides), ...)
    return x[index]


def _transpose_slice(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (x,), (result,) = inst.operand_types, inst.result_types
    start, strides = inst.params["start"], inst.params["strides"]
    covered = (
        a + (n if s == 1 else (n - 1) * s + 1 if n else 0)
        for a, n, s in zip(start, result.shape, strides, strict=True)
    )
    high = tuple(n - c for n, c in zip(x.shape, covered, strict=True))
    interior = tuple(s - 1 for s in strides)
    zero = zeros(result.with_shape(()))
    return [ops.pad(cotangents[0], zero, low=start, high=high, interior=interior)]


def _batch_slice(inst: Instance, operands: Values, dims: Dims, axis: MappedAxis) -> Batched:
    (x,), (at,) = operands, dims
    assert at is not None
    params = {
        "start": inserted(inst.params["start"], at, 0),
        "limit": inserted(inst.params["limit"], at, axis.size),
        "strides": inserted(inst.params["strides"], at, 1),
    }
    return inst.op.build([x], params), [at]


def _lower_slice(inst: Instance) -> list[ir.Value]:
    """A slice of StableHLO; dimensions with up to one element have the stride 1.

    IREE 3.13 refuses a slice of a literal with another stride there.
    """
    start, limit, strides = (list(inst.params[name]) for name in ("start", "limit", "strides"))
    for axis, size in enumerate(inst.type.shape):
        if surely_at_most(size, 1):
            limit[axis], strides[axis] = start[axis] + size, 1
    attributes = {"start_indices": start, "limit_indices": limit, "strides": strides}
    encoded = {name: INTS.encode(tuple(numbers)) for name, numbers in attributes.items()}
    return stablehlo("slice", inst.operands, inst.result_types, **encoded)


slice_ = Op(
    name="slice",
    doc="every strides-th element from start up to, not including, limit in each dimension",
    example='%r = "gnomon.slice"(%x) '
    "{start = array<i64: 1>, limit = array<i64: 6>, strides = array<i64: 2>} "
    ": (tensor<8xf32>) -> tensor<3xf32>",
    attributes={"start": INTS, "limit": INTS, "strides": INTS},
    operands=("x",),
    form=Form.VIEW,
    stablehlo=("slice",),
    work=work_rules.nothing,
    infer=_infer_slice,
    evaluate=_evaluate_slice,
    jvp=jvp_linear,
    linear=linear(),
    transpose=_transpose_slice,
    batch=_batch_slice,
    sharding=sharding_rules.resized,
    lower=_lower_slice,
)


# --------------------------------------------------------------------------------------------- pad


def _padded(n: int, low: int, high: int, interior: int) -> int:
    return low + high + n + max(n - 1, 0) * interior


class PaddedRange(NamedTuple):
    """The elements of a padded dimension that negative padding does not cut off.

    Attributes:
      first, last: the range of the elements; the last one is not included.
      begin: the position of the first of these in the result.
      step: the distance between neighbours in the result.
    """

    first: int
    last: int
    begin: int
    step: int


def padded_range(size: int, low: int, high: int, interior: int) -> PaddedRange:
    """The elements that remain of a dimension, and where they are in the result."""
    step = interior + 1
    first = max(0, -(low // step))
    end = _padded(size, low, high, interior)
    last = max(first, min(size, (end - 1 - low) // step + 1))
    return PaddedRange(first, last, low + first * step, step)


def _infer_pad(
    x: TensorType,
    value: TensorType,
    *,
    low: tuple[int, ...],
    high: tuple[int, ...],
    interior: tuple[int, ...],
) -> TensorType:
    given = f"low {tuple(low)}, high {tuple(high)}, interior {tuple(interior)}"
    require(
        value.rank == 0 and value.dtype == x.dtype,
        "pad",
        f"the padding value must be a rank-0 array of the operand's dtype; got {value} for {x}",
    )
    require(
        len(low) == len(high) == len(interior) == x.rank,
        "pad",
        f"one number is needed for each of the {x.rank} dimensions of {x}, got {given}",
    )
    require(all(i >= 0 for i in interior), "pad", f"interior padding must be >= 0, got {given}")
    shape = tuple(map(_padded, x.shape, low, high, interior))
    require(
        all(n >= 0 for n in shape),
        "pad",
        f"negative padding removes too many elements: {x} with {given} would have shape {shape}",
    )
    return x.with_shape(shape)


def _evaluate_pad(
    x: np.ndarray,
    value: np.ndarray,
    *,
    low: tuple[int, ...],
    high: tuple[int, ...],
    interior: tuple[int, ...],
) -> np.ndarray:
    result = np.empty(tuple(map(_padded, x.shape, low, high, interior)), x.dtype)
    result[...] = value
    place_padded(result, x, low, high, interior)
    return result


def place_padded(
    result: np.ndarray,
    x: np.ndarray,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
) -> None:
    """Write the elements of an array to their places in the padded result."""
    ranges = list(map(padded_range, x.shape, low, high, interior))
    target = (slice(r.begin, r.begin + (r.last - r.first) * r.step, r.step) for r in ranges)
    result[tuple(target)] = x[tuple(slice(r.first, r.last) for r in ranges)]


def _transpose_pad(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (ct,) = cotangents
    x, value = inst.operand_types
    low, high, interior = (inst.params[name] for name in ("low", "high", "interior"))
    none = (0,) * x.rank
    ct_x = ct_value = None
    if linear[0]:
        ct_x = ct
        if any(low) or any(high):
            cut = {"low": tuple(-n for n in low), "high": tuple(-n for n in high)}
            ct_x = ops.pad(ct, zeros(value), interior=none, **cut)
        if any(interior):
            strides = tuple(i + 1 for i in interior)
            ct_x = ops.slice(ct_x, start=none, limit=type_of(ct_x).shape, strides=strides)
    if linear[1]:
        only_padding = ops.select(_is_padding(inst), ct, zeros(inst.type))
        ct_value = ops.reduce_sum(only_padding, axes=tuple(range(x.rank)))
    return [ct_x, ct_value]


def _is_padding(inst: Instance) -> ir.Value:
    """A mask of the result's shape that is true at the padding."""
    x = inst.operand_types[0].with_dtype(BOOL)
    return ops.pad(full(x, False), full(x.with_shape(()), True), **inst.params)


def _batch_pad(inst: Instance, operands: Values, dims: Dims, axis: MappedAxis) -> Batched:
    (x, value), (at, value_at) = operands, dims
    if value_at is None:
        assert at is not None
        params = {name: inserted(inst.params[name], at, 0) for name in inst.params}
        return inst.op.build([x, value], params), [at]
    # One padding value per batch element: pad with zeros, then select the values.
    zero = zeros(inst.operand_types[1])
    (x,) = to_front([x], [at], axis)
    params = {name: inserted(inst.params[name], 0, 0) for name in inst.params}
    padded = ops.pad(x, zero, **params)
    shape = type_of(padded).shape
    mask = ops.broadcast_in_dim(_is_padding(inst), shape=shape, dims=tuple(range(1, len(shape))))
    spread = ops.broadcast_in_dim(value, shape=shape, dims=(0,))
    return [ops.select(mask, spread, padded)], [0]


pad = Op(
    name="pad",
    doc="x with a padding value around it and between its elements; negative padding crops",
    example='%r = "gnomon.pad"(%x, %v) '
    "{low = array<i64: 1>, high = array<i64: -1>, interior = array<i64: 2>} "
    ": (tensor<3xf32>, tensor<f32>) -> tensor<7xf32>",
    attributes={"low": INTS, "high": INTS, "interior": INTS},
    operands=("x", "value"),
    form=Form.JOIN,
    work=work_rules.nothing,
    infer=_infer_pad,
    evaluate=_evaluate_pad,
    jvp=jvp_linear,
    linear=linear(),
    transpose=_transpose_pad,
    batch=_batch_pad,
    sharding=sharding_rules.resized,
    lower=LowerTo(
        "pad", edge_padding_low="low", edge_padding_high="high", interior_padding="interior"
    ),
)
