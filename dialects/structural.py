"""Ops that move elements and compute nothing: each is linear, total, and exact in every dtype."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.dialects.attributes import INTS
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    jvp_linear,
    lower_to,
    require,
    stablehlo,
)
from gnomon.dialects.contract import Instance, MappedAxis, Op
from gnomon.dialects.emit import move_dim, ops, reshape as reshaped
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType

Dims = Sequence[int | None]
Batched = tuple[list[ir.Value], list[int | None]]

# Up to this many elements a copy costs less than making a view with repeated elements.
_SMALL = 1 << 14


def _shifted(dims: Sequence[int], batch_dim: int) -> tuple[int, ...]:
    """Dimensions of the unbatched operand as dimensions of the batched one."""
    return tuple(d + (d >= batch_dim) for d in dims)


def _inserted(values: Sequence[int], batch_dim: int, value: int) -> tuple[int, ...]:
    """One value a dimension, with ``value`` for the batch dimension."""
    return (*values[:batch_dim], value, *values[batch_dim:])


# -------------------------------------------------------------------------------- broadcast_in_dim


def _infer_broadcast(
    x: TensorType, *, shape: tuple[int, ...], dims: tuple[int, ...]
) -> TensorType:
    require(
        len(dims) == x.rank
        and all(a < b for a, b in zip(dims, dims[1:], strict=False))
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
    if dims != tuple(range(rank - len(dims), rank)):
        aligned = [1] * rank
        for n, d in zip(x.shape, dims, strict=True):
            aligned[d] = n
        x = x.reshape(aligned)
    result = np.empty(shape, x.dtype)
    if result.size > _SMALL:
        return np.broadcast_to(x, shape)
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
        "shape": _inserted(shape, to, axis.size),
        "dims": _inserted(_shifted(into, to), at, to),
    }
    return inst.op.build([x], params), [to]


def _lower_broadcast(inst: Instance) -> list[ir.Value]:
    dims = INTS.encode(inst.params["dims"])
    return stablehlo(
        "broadcast_in_dim", inst.operands, inst.result_types, broadcast_dimensions=dims
    )


broadcast_in_dim = Op(
    name="broadcast_in_dim",
    doc="repeat along new dimensions and along dimensions of size 1",
    example='%r = "gnomon.broadcast_in_dim"(%x) {shape = array<i64: 2, 4>, dims = array<i64: 1>} '
    ": (tensor<4xf32>) -> tensor<2x4xf32>",
    attributes={"shape": INTS, "dims": INTS},
    operands=("x",),
    infer=_infer_broadcast,
    evaluate=_evaluate_broadcast,
    jvp=jvp_linear,
    transpose=_transpose_broadcast,
    batch=_batch_broadcast,
    lower=_lower_broadcast,
)


# ----------------------------------------------------------------------------------------- reshape


def _infer_reshape(x: TensorType, *, shape: tuple[int, ...]) -> TensorType:
    result = x.with_shape(shape)
    require(
        result.size == x.size and all(n >= 0 for n in shape),
        "reshape",
        f"{x} has {x.size} elements, shape {tuple(shape)} holds {result.size}",
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
    infer=_infer_reshape,
    evaluate=lambda x, *, shape: x.reshape(shape),
    jvp=jvp_linear,
    transpose=lambda inst, cts, linear: [reshaped(cts[0], inst.operand_types[0].shape)],
    batch=_batch_reshape,
    lower=lower_to("reshape"),
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


def _lower_transpose(inst: Instance) -> list[ir.Value]:
    permutation = INTS.encode(inst.params["permutation"])
    return stablehlo("transpose", inst.operands, inst.result_types, permutation=permutation)


transpose = Op(
    name="transpose",
    doc="permute the dimensions: dimension i of the result is dimension permutation[i] of x",
    example='%r = "gnomon.transpose"(%x) {permutation = array<i64: 1, 0>} '
    ": (tensor<2x3xf32>) -> tensor<3x2xf32>",
    attributes={"permutation": INTS},
    operands=("x",),
    infer=_infer_transpose,
    evaluate=lambda x, *, permutation: x.transpose(permutation),
    jvp=jvp_linear,
    transpose=_transpose_transpose,
    batch=_batch_transpose,
    lower=_lower_transpose,
)
