"""Ops that only move elements: each is linear, total, and exact in every dtype."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import INT, INTS
from gnomon.dialects.combinators import (
    LowerTo,
    Tangents,
    Values,
    describe,
    jvp_linear,
    normalized,
    require,
    stablehlo,
    to_front,
)
from gnomon.dialects.contract import Instance, MappedAxis, Op
from gnomon.dialects.emit import move_dim, ops, slice_along
from gnomon.dialects.emit import reshape as reshaped
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, linear
from gnomon.dialects.types import TensorType

Dims = Sequence[int | None]
Batched: TypeAlias = "tuple[list[ir.Value], list[int | None]]"

# Up to this many elements, a copy is faster than creating a broadcast view.
_SMALL = 1 << 14


def _shifted(dims: Sequence[int], batch_dim: int) -> tuple[int, ...]:
    """Renumber dimensions of the unbatched operand for the batched one."""
    return tuple(d + (d >= batch_dim) for d in dims)


def inserted(values: Sequence[int], batch_dim: int, value: int) -> tuple[int, ...]:
    """Insert ``value`` for the batch dimension into a list with one entry per dimension."""
    return (*values[:batch_dim], value, *values[batch_dim:])


# -------------------------------------------------------------------------------- broadcast_in_dim


def _infer_broadcast(x: TensorType, *, shape: tuple[int, ...], dims: tuple[int, ...]) -> TensorType:
    require(
        len(dims) == x.rank
        and all(a < b for a, b in itertools.pairwise(dims))
        and all(0 <= d < len(shape) for d in dims),
        "broadcast_in_dim",
        f"dims {tuple(dims)} must name, in increasing order, a dimension of shape {tuple(shape)} "
        f"for each dimension of {x}",
    )
    require(
        all(n in (1, shape[d]) for n, d in zip(x.shape, dims, strict=True))
        and all(n >= 0 for n in shape),
        "broadcast_in_dim",
        f"the sizes of {x} must be 1 or those of shape {tuple(shape)} at dims {tuple(dims)}",
    )
    return x.with_shape(shape)


def _evaluate_broadcast(
    x: np.ndarray, *, shape: tuple[int, ...], dims: tuple[int, ...]
) -> np.ndarray:
    rank = len(shape)
    if dims and dims[0] != rank - len(dims):
        aligned = [1] * rank
        for n, d in zip(x.shape, dims, strict=True):
            aligned[d] = n
        x = x.reshape(aligned)
    if math.prod(shape) > _SMALL:
        return np.broadcast_to(x, shape)
    result = np.empty(shape, x.dtype)
    result[...] = x
    return result


def _transpose_broadcast(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (ct,) = cotangents
    (x,), shape, dims = inst.operand_types, inst.params["shape"], inst.params["dims"]
    kept = {d for n, d in zip(x.shape, dims, strict=True) if n == shape[d]}
    axes = tuple(d for d in range(len(shape)) if d not in kept)
    return [reshaped(ops.reduce_sum(ct, axes=axes) if axes else ct, x.shape)]


def _batch_broadcast(inst: Instance, operands: Values, dims: Dims, axis: MappedAxis) -> Batched:
    (x,), (at,) = operands, dims
    assert at is not None
    shape, into = inst.params["shape"], inst.params["dims"]
    to = into[at - 1] + 1 if at else 0
    params = {
        "shape": inserted(shape, to, axis.size),
        "dims": inserted(_shifted(into, to), at, to),
    }
    return inst.op.build([x], params), [to]


broadcast_in_dim = Op(
    name="broadcast_in_dim",
    doc="x broadcast along new dimensions and along dimensions of size 1",
    example='%r = "gnomon.broadcast_in_dim"(%x) {shape = array<i64: 2, 4>, dims = array<i64: 1>} '
    ": (tensor<4xf32>) -> tensor<2x4xf32>",
    attributes={"shape": INTS, "dims": INTS},
    operands=("x",),
    form=Form.VIEW,
    work=work_rules.nothing,
    infer=_infer_broadcast,
    evaluate=_evaluate_broadcast,
    jvp=jvp_linear,
    linear=linear(),
    transpose=_transpose_broadcast,
    batch=_batch_broadcast,
    sharding=sharding_rules.expanded,
    lower=LowerTo("broadcast_in_dim", broadcast_dimensions="dims"),
)


# ----------------------------------------------------------------------------------------- reshape


def _infer_reshape(x: TensorType, *, shape: tuple[int, ...]) -> TensorType:
    result = x.with_shape(shape)
    require(
        result.size == x.size and all(n >= 0 for n in shape),
        "reshape",
        f"{x} has {x.size} elements, but shape {tuple(shape)} has {result.size}",
    )
    return result


def _batch_reshape(inst: Instance, operands: Values, dims: Dims, axis: MappedAxis) -> Batched:
    (x,), (at,) = operands, dims
    assert at is not None
    shape = (axis.size, *inst.params["shape"])
    return inst.op.build([move_dim(x, at, 0)], {"shape": shape}), [0]


reshape = Op(
    name="reshape",
    doc="the same elements, in row-major order, in another shape",
    example='%r = "gnomon.reshape"(%x) {shape = array<i64: 2, 2>} '
    ": (tensor<4xf32>) -> tensor<2x2xf32>",
    attributes={"shape": INTS},
    operands=("x",),
    form=Form.VIEW,
    work=work_rules.nothing,
    infer=_infer_reshape,
    evaluate=lambda x, *, shape: x.reshape(shape),
    jvp=jvp_linear,
    linear=linear(),
    transpose=lambda inst, cts, linear: [reshaped(cts[0], inst.operand_types[0].shape)],
    batch=_batch_reshape,
    sharding=sharding_rules.reshaped,
    lower=LowerTo("reshape"),
)


# --------------------------------------------------------------------------------------- transpose


def _infer_transpose(x: TensorType, *, permutation: tuple[int, ...]) -> TensorType:
    require(
        sorted(permutation) == list(range(x.rank)),
        "transpose",
        f"{tuple(permutation)} is not a permutation of the {x.rank} dimensions of {x}",
    )
    return x.with_shape(tuple(x.shape[d] for d in permutation))


def _transpose_transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    permutation = inst.params["permutation"]
    inverse = tuple(permutation.index(d) for d in range(len(permutation)))
    return inst.op.build([cotangents[0]], {"permutation": inverse})


def _batch_transpose(inst: Instance, operands: Values, dims: Dims, axis: MappedAxis) -> Batched:
    (x,), (at,) = operands, dims
    assert at is not None
    permutation = (at, *_shifted(inst.params["permutation"], at))
    return inst.op.build([x], {"permutation": permutation}), [0]


transpose = Op(
    name="transpose",
    doc="permute the dimensions: dimension i of the result is dimension permutation[i] of x",
    example='%r = "gnomon.transpose"(%x) {permutation = array<i64: 1, 0>} '
    ": (tensor<2x3xf32>) -> tensor<3x2xf32>",
    attributes={"permutation": INTS},
    operands=("x",),
    form=Form.VIEW,
    work=work_rules.nothing,
    infer=_infer_transpose,
    evaluate=lambda x, *, permutation: x.transpose(permutation),
    jvp=jvp_linear,
    linear=linear(),
    transpose=_transpose_transpose,
    batch=_batch_transpose,
    sharding=sharding_rules.transposed,
    lower=LowerTo("transpose", permutation="permutation"),
)


# ------------------------------------------------------------------------------------- concatenate


def _infer_concatenate(*parts: TensorType, dimension: int) -> TensorType:
    require(bool(parts), "concatenate", "at least one operand is needed")
    first = parts[0]
    require(
        0 <= dimension < first.rank,
        "concatenate",
        f"dimension {dimension} is out of range for {first}",
    )
    others = [(*t.shape[:dimension], *t.shape[dimension + 1 :]) for t in parts]
    require(
        all(t.dtype == first.dtype and t.rank == first.rank for t in parts)
        and all(o == others[0] for o in others),
        "concatenate",
        f"operands must have one dtype and agree in all dimensions except {dimension}, "
        f"got {describe(parts)}",
    )
    total = sum(t.shape[dimension] for t in parts)
    return first.with_shape((*first.shape[:dimension], total, *first.shape[dimension + 1 :]))


def _transpose_concatenate(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (ct,), dimension = cotangents, inst.params["dimension"]
    result: list[ir.Value | None] = []
    offset = 0
    for type_, is_linear in zip(inst.operand_types, linear, strict=True):
        size = type_.shape[dimension]
        result.append(slice_along(ct, dimension, offset, offset + size) if is_linear else None)
        offset += size
    return result


def _batch_concatenate(inst: Instance, operands: Values, dims: Dims, axis: MappedAxis) -> Batched:
    parts = to_front(operands, dims, axis)
    return inst.op.build(parts, {"dimension": inst.params["dimension"] + 1}), [0]


_EXAMPLE_CONCATENATE = """\
%operands = builtin.unrealized_conversion_cast %x, %y
    : tensor<4xf32>, tensor<2xf32> to tuple<tensor<4xf32>, tensor<2xf32>>
%r = "gnomon.concatenate"(%operands) {dimension = 0 : i64}
    : (tuple<tensor<4xf32>, tensor<2xf32>>) -> tensor<6xf32>"""


concatenate = Op(
    name="concatenate",
    doc="the operands, concatenated along a dimension",
    example=_EXAMPLE_CONCATENATE,
    attributes={"dimension": INT},
    operands=...,
    form=Form.JOIN,
    work=work_rules.nothing,
    infer=_infer_concatenate,
    evaluate=lambda *parts, dimension: np.concatenate(parts, dimension),
    jvp=jvp_linear,
    linear=linear(),
    transpose=_transpose_concatenate,
    batch=_batch_concatenate,
    sharding=sharding_rules.concatenated,
    lower=LowerTo("concatenate", dimension="dimension"),
)


# --------------------------------------------------------------------------------------------- rev


def _infer_rev(x: TensorType, *, dims: tuple[int, ...]) -> TensorType:
    normalized(dims, x.rank, "rev")
    return x


def _evaluate_rev(x: np.ndarray, *, dims: tuple[int, ...]) -> np.ndarray:
    index: list[Any] = [slice(None, None, -1 if d in dims else 1) for d in range(x.ndim)]
    selected = (*index, ...)
    return x[selected]


def _batch_rev(inst: Instance, operands: Values, dims: Dims, axis: MappedAxis) -> Batched:
    (x,), (at,) = operands, dims
    assert at is not None
    return inst.op.build([x], {"dims": _shifted(inst.params["dims"], at)}), [at]


def _lower_rev(inst: Instance) -> list[ir.Value]:
    if not inst.params["dims"]:
        return list(inst.operands)
    dims = INTS.encode(inst.params["dims"])
    return stablehlo("reverse", inst.operands, inst.result_types, dimensions=dims)


rev = Op(
    name="rev",
    doc="x with the order of its elements reversed along dims",
    example='%r = "gnomon.rev"(%x) {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>',
    attributes={"dims": INTS},
    operands=("x",),
    form=Form.VIEW,
    stablehlo=("reverse",),
    work=work_rules.nothing,
    infer=_infer_rev,
    evaluate=_evaluate_rev,
    jvp=jvp_linear,
    linear=linear(),
    transpose=lambda inst, cts, linear: [ops.rev(cts[0], dims=inst.params["dims"])],
    batch=_batch_rev,
    sharding=sharding_rules.resized,
    lower=_lower_rev,
)
