"""Slices at computed indices: `dynamic_slice` reads one, `dynamic_update_slice` replaces one.

The indices are rank-0 integers, one per dimension, clamped so that the slice is in bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import INTS
from gnomon.dialects.combinators import (
    LowerTo,
    Tangents,
    Values,
    describe,
    require,
    require_linear_in,
    stablehlo,
)
from gnomon.dialects.contract import Instance, MappedAxis, Op
from gnomon.dialects.emit import at_dim, constant, convert, ops, reshape, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, linear
from gnomon.dialects.types import INTEGER, TensorType, type_of

Dims = Sequence[int | None]
Batched: TypeAlias = "tuple[list[ir.Value], list[int | None]]"

_I32 = np.dtype(np.int32)


def _check_indices(op: str, x: TensorType, indices: Sequence[TensorType]) -> None:
    require(
        len(indices) == x.rank,
        op,
        f"one index is needed for each of the {x.rank} dimensions of {x}, got {len(indices)}",
    )
    require(
        all(i.rank == 0 and i.dtype in INTEGER and i == indices[0] for i in indices),
        op,
        f"indices must be rank-0 integers of one dtype, got {describe(indices)}",
    )


def _check_sizes(op: str, x: TensorType, sizes: Sequence[int]) -> None:
    require(
        len(sizes) == x.rank and all(0 <= s <= n for s, n in zip(sizes, x.shape, strict=True)),
        op,
        f"a slice of shape {tuple(sizes)} does not fit into {x}",
    )


def _window(x: np.ndarray, sizes: Sequence[int], indices: Sequence[np.ndarray]) -> tuple[Any, ...]:
    starts = [
        min(max(int(i), 0), n - size) for i, n, size in zip(indices, x.shape, sizes, strict=True)
    ]
    return (*(slice(a, a + size) for a, size in zip(starts, sizes, strict=True)), ...)


def _index_matrix(indices: Values, dims: Dims, axis: MappedAxis) -> ir.Value:
    """The indices of each batch element, ``[axis.size, rank]``, in a dtype that holds each size."""
    columns = []
    for index, dim in zip(indices, dims, strict=True):
        # Clamping is done in the dtype of the indices, and a narrow one may not hold the bound.
        wide = convert(index, _I32) if type_of(index).dtype.itemsize < 4 else index
        columns.append(reshape(at_dim(wide, dim, axis.size), (axis.size, 1)))
    return ops.concatenate(*columns, dimension=1)


def _origin(indices: Values) -> ir.Value:
    """A zero for the batch dimension, in the dtype of the other indices."""
    return constant(np.zeros((), type_of(indices[0]).dtype if indices else _I32))


# ----------------------------------------------------------------------------------- dynamic_slice


def _infer_slice(x: TensorType, *indices: TensorType, sizes: tuple[int, ...]) -> TensorType:
    _check_indices("dynamic_slice", x, indices)
    _check_sizes("dynamic_slice", x, sizes)
    return x.with_shape(sizes)


def _evaluate_slice(x: np.ndarray, *indices: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    return x[_window(x, sizes, indices)]


def _jvp_slice(inst: Instance, outs: Values, tangents: Tangents) -> Sequence[ir.Value | None]:
    if tangents[0] is None:  # only an index has a tangent, in a linear function of integers
        return [None]
    return inst.op.build([tangents[0], *inst.operands[1:]], inst.params)


def _transpose_slice(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    require_linear_in(inst, linear, 0)
    indices = inst.operands[1:]
    ct_x = ops.dynamic_update_slice(zeros(inst.operand_types[0]), cotangents[0], *indices)
    return [ct_x, *(None for _ in indices)]


def _batch_slice(inst: Instance, operands: Values, dims: Dims, axis: MappedAxis) -> Batched:
    (x, *indices), (at, *index_dims), sizes = operands, dims, inst.params["sizes"]
    if all(d is None for d in index_dims):
        assert at is not None
        indices.insert(at, _origin(indices))
        sizes = (*sizes[:at], axis.size, *sizes[at:])
        return [ops.dynamic_slice(x, *indices, sizes=sizes)], [at]
    batched = at is not None
    if batched:
        x = at_dim(x, at, axis.size)
    rank = len(sizes)
    windows = ops.gather(
        x,
        _index_matrix(indices, index_dims, axis),
        offset_dims=tuple(range(1, rank + 1)),
        collapsed_slice_dims=(),
        operand_batching_dims=(0,) if batched else (),
        start_indices_batching_dims=(0,) if batched else (),
        start_index_map=tuple(d + batched for d in range(rank)),
        slice_sizes=(1, *sizes) if batched else sizes,
        mode="clip",
        fill_value=0,
        unique_indices=batched,  # each batch element reads its own part
        indices_are_sorted=False,
    )
    return [windows], [0]


def _lower_slice(inst: Instance) -> list[ir.Value]:
    if not inst.params["sizes"]:  # the only slice of a rank-0 array is the array
        return [inst.operands[0]]
    sizes = INTS.encode(inst.params["sizes"])
    return stablehlo("dynamic_slice", inst.operands, inst.result_types, slice_sizes=sizes)


_EXAMPLE_SLICE = """\
%operands = builtin.unrealized_conversion_cast %x, %i
    : tensor<4xf32>, tensor<i32> to tuple<tensor<4xf32>, tensor<i32>>
%r = "gnomon.dynamic_slice"(%operands) {sizes = array<i64: 2>}
    : (tuple<tensor<4xf32>, tensor<i32>>) -> tensor<2xf32>"""


dynamic_slice = Op(
    name="dynamic_slice",
    doc="the slice of given sizes that starts at the indices, clamped so that it is in bounds",
    example=_EXAMPLE_SLICE,
    attributes={"sizes": INTS},
    operands=...,
    form=Form.INDEXING,
    stablehlo=("dynamic_slice",),
    work=work_rules.nothing,
    infer=_infer_slice,
    evaluate=_evaluate_slice,
    jvp=_jvp_slice,
    linear=linear(0),
    transpose=_transpose_slice,
    batch=_batch_slice,
    sharding=sharding_rules.sliced,
    lower=_lower_slice,
)


# ---------------------------------------------------------------------------- dynamic_update_slice


def _infer_update(x: TensorType, update: TensorType, *indices: TensorType) -> TensorType:
    _check_indices("dynamic_update_slice", x, indices)
    require(
        x.dtype == update.dtype,
        "dynamic_update_slice",
        f"operand and update must have one dtype, got {x} and {update}",
    )
    _check_sizes("dynamic_update_slice", x, update.shape)
    return x


def _evaluate_update(x: np.ndarray, update: np.ndarray, *indices: np.ndarray) -> np.ndarray:
    result = x.copy()
    result[_window(x, update.shape, indices)] = update
    return result


def _jvp_update(inst: Instance, outs: Values, tangents: Tangents) -> Sequence[ir.Value | None]:
    if tangents[0] is None and tangents[1] is None:
        return [None]
    pair = [
        zeros(type_) if t is None else t
        for t, type_ in zip(tangents[:2], inst.operand_types[:2], strict=True)
    ]
    return inst.op.build([*pair, *inst.operands[2:]], inst.params)


def _transpose_update(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    require_linear_in(inst, linear, 0, 1)
    (ct,), indices, update = cotangents, inst.operands[2:], inst.operand_types[1]
    return [
        ops.dynamic_update_slice(ct, zeros(update), *indices) if linear[0] else None,
        ops.dynamic_slice(ct, *indices, sizes=update.shape) if linear[1] else None,
        *(None for _ in indices),
    ]


def _batch_update(inst: Instance, operands: Values, dims: Dims, axis: MappedAxis) -> Batched:
    x, update = (at_dim(v, d, axis.size) for v, d in zip(operands[:2], dims[:2], strict=True))
    indices, index_dims = operands[2:], dims[2:]
    if all(d is None for d in index_dims):
        return [ops.dynamic_update_slice(x, update, _origin(indices), *indices)], [0]
    window = tuple(range(1, len(indices) + 1))
    updated = ops.scatter(
        x,
        _index_matrix(indices, index_dims, axis),
        update,
        update_window_dims=window,
        inserted_window_dims=(),
        operand_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
        scatter_dims_to_operand_dims=window,
        mode="clip",
        unique_indices=True,  # each batch element writes to its own part
        indices_are_sorted=False,
    )
    return [updated], [0]


_EXAMPLE_UPDATE = """\
%operands = builtin.unrealized_conversion_cast %x, %update, %i
    : tensor<4xf32>, tensor<2xf32>, tensor<i32> to tuple<tensor<4xf32>, tensor<2xf32>, tensor<i32>>
%r = "gnomon.dynamic_update_slice"(%operands)
    : (tuple<tensor<4xf32>, tensor<2xf32>, tensor<i32>>) -> tensor<4xf32>"""


dynamic_update_slice = Op(
    name="dynamic_update_slice",
    doc="x with the slice that starts at the indices, clamped to be in bounds, set to update",
    example=_EXAMPLE_UPDATE,
    operands=...,
    form=Form.INDEXING,
    work=work_rules.nothing,
    infer=_infer_update,
    evaluate=_evaluate_update,
    jvp=_jvp_update,
    linear=linear(0, 1),
    transpose=_transpose_update,
    batch=_batch_update,
    sharding=sharding_rules.updated,
    lower=LowerTo("dynamic_update_slice"),
)
