"""``gather``: the windows of an operand that start at given indices."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import BOOL as FLAG
from gnomon.dialects.attributes import DENSE, INTS, STRING, Kind
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    parse,
    require,
    require_dtype,
    require_linear_in,
    stablehlo,
    stablehlo_full,
)
from gnomon.dialects.contract import Instance, MappedAxis, Op, TypeRuleError
from gnomon.dialects.emit import move_dim, ops, zeros
from gnomon.dialects.indexing.windows import (
    GATHER_NAMES,
    Dimensions,
    Dims,
    Windows,
    broadcast,
    check_dimensions,
    element_count,
    mask_in_bounds,
    resolve,
    signed_indices,
    starts_of,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, linear
from gnomon.dialects.types import (
    ANY,
    BOOL,
    SIGNED,
    TensorType,
    is_complex,
    is_inexact,
    short_name,
    type_of,
)

# The treatment of reads out of bounds. "promise_in_bounds" leaves it undefined; the implementation
# clamps, as XLA does.
MODES = ("clip", "fill", "promise_in_bounds")


# ---------------------------------------------------------------------------------- the fill value


def default_fill_value(dtype: np.dtype) -> Any:
    """The default fill value for reads out of bounds: NaN, an extreme integer, or True."""
    if is_inexact(dtype):
        return np.array(np.nan, dtype)
    if dtype == BOOL:
        return np.array(True)
    limits = _integer_limits(dtype)
    return np.array(limits[0] if dtype in SIGNED else limits[1]).astype(dtype)


def _integer_limits(dtype: np.dtype) -> tuple[int, int]:
    name = short_name(dtype)
    bits = int(name[1:])
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype in SIGNED else (0, 2**bits - 1)


def _encode_scalar(value: Any) -> ir.Attribute:
    if value is None:
        raise TypeRuleError(
            "gnomon.gather: fill_value must be a number, got None; pass 0 if the mode is not 'fill'"
        )
    array = np.asarray(value)
    # MLIR's bindings cannot represent complex elements, so the parts are stored.
    return DENSE.encode(np.stack([array.real, array.imag]) if is_complex(array.dtype) else array)


def _decode_scalar(attribute: ir.Attribute) -> np.ndarray:
    array = DENSE.decode(attribute)
    if array.shape == (2,):
        return np.asarray(array[0] + 1j * array[1])
    if array.shape != ():
        raise TypeError(f"expected one number (or the two parts of one), got {attribute}")
    return array


SCALAR = Kind("scalar", _encode_scalar, _decode_scalar)


# --------------------------------------------------------------------------------------- type rule


def _result_shape(dims: Dimensions, indices: Dims, sizes: Dims, operand_rank: int) -> Dims:
    window = iter([sizes[d] for d in dims.kept(operand_rank)])
    batch = iter(indices[:-1])
    rank = len(indices) - 1 + len(dims.window)
    return tuple(next(window if d in dims.window else batch) for d in range(rank))


def _infer(operand: TensorType, indices: TensorType, **params: Any) -> TensorType:
    require_dtype("gather", operand, ANY)
    dims, sizes, mode = Dimensions.of_gather(params), params["slice_sizes"], params["mode"]
    require(mode in MODES, "gather", f"mode must be one of {', '.join(MODES)}; got '{mode}'")
    require(
        np.ndim(params["fill_value"]) == 0,
        "gather",
        f"fill_value must be one number, got {params['fill_value']!r}",
    )
    result_rank = indices.rank - 1 + len(dims.window)
    check_dimensions("gather", GATHER_NAMES, dims, operand, indices, result_rank)
    require(
        len(sizes) == operand.rank and all(s >= 0 for s in sizes),
        "gather",
        f"slice_sizes must give a size for each dimension of {operand}, got {tuple(sizes)}",
    )
    for name, left_out, allowed in (
        ("collapsed_slice_dims", dims.collapsed, (1,)),
        ("operand_batching_dims", dims.operand_batching, (0, 1)),
    ):
        wrong = [d for d in left_out if sizes[d] not in allowed]
        require(
            not wrong,
            "gather",
            f"slice_sizes {tuple(sizes)} must be 1 at {name} {left_out}; dimensions {wrong} "
            "are not",
        )
    shape = _result_shape(dims, indices.shape, sizes, operand.rank)
    require(
        element_count(shape) == 0 or all(s <= n for s, n in zip(sizes, operand.shape, strict=True)),
        "gather",
        f"slice_sizes {tuple(sizes)} must not exceed the operand {operand}",
    )
    return operand.with_shape(shape)


# -------------------------------------------------------------------------------------- evaluation


@functools.lru_cache(maxsize=4096)
def _windows(operand: Dims, indices: Dims, sizes: Dims, *numbers: Dims) -> tuple[Dims, Windows]:
    dims = Dimensions(*numbers)
    shape = _result_shape(dims, indices, sizes, len(operand))
    return shape, resolve(operand, indices, dims, sizes)


def _evaluate(
    operand: np.ndarray,
    indices: np.ndarray,
    *,
    offset_dims: Dims,
    collapsed_slice_dims: Dims,
    start_index_map: Dims,
    operand_batching_dims: Dims,
    start_indices_batching_dims: Dims,
    slice_sizes: Dims,
    mode: str,
    fill_value: Any,
    unique_indices: bool,
    indices_are_sorted: bool,
) -> np.ndarray:
    shape, windows = _windows(
        operand.shape,
        indices.shape,
        slice_sizes,
        offset_dims,
        collapsed_slice_dims,
        start_index_map,
        operand_batching_dims,
        start_indices_batching_dims,
    )
    if 0 in shape:
        return np.empty(shape, operand.dtype)
    starts = starts_of(indices)
    in_bounds = windows.rows_in_bounds(starts) if mode == "fill" else None
    axis = windows.take_axis
    if axis is not None and operand.flags.c_contiguous:
        permutation = windows.take_permutation
        (row,) = windows.indices(starts)
        out = np.asarray(operand.take(row, axis, mode="clip"))
        batch_first = out
        if in_bounds is not None and axis > 0:
            rank = len(windows.batch_shape)
            batch_first = np.moveaxis(out, range(axis, axis + rank), range(rank))
    else:
        permutation = windows.permutation
        # With "fill" the mask is known: clamp only if some row is out of bounds.
        if mode != "fill" or in_bounds is not None:
            starts = windows.clamp(starts)
        out = np.asarray(windows.view(operand)[windows.indices(starts)])
        out = out.reshape(windows.batch_shape + windows.window_shape)
        batch_first = out
    if in_bounds is not None:
        batch_first[~in_bounds] = np.asarray(fill_value).astype(operand.dtype)
    return out if permutation is None else out.transpose(permutation)


# --------------------------------------------------------------------------------- transformations


def _jvp(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    tangent = tangents[0]
    if tangent is None:
        return [None]
    params = inst.params | {"fill_value": 0}
    return inst.op.build([tangent, inst.operands[1]], params)


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    require_linear_in(inst, linear, 0)
    (cotangent,) = cotangents
    if cotangent is None:
        return [None, None]
    params = inst.params
    added = ops.scatter_add(
        zeros(inst.operand_types[0]),
        inst.operands[1],
        cotangent,
        **Dimensions.of_gather(params).as_scatter(),
        mode="drop" if params["mode"] == "fill" else params["mode"],
        unique_indices=params["unique_indices"],
        indices_are_sorted=params["indices_are_sorted"],
    )
    return [added, None]


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int]]:
    (operand, indices), (operand_dim, indices_dim) = operands, dims
    params = dict(inst.params)
    numbers = Dimensions.of_gather(params)
    sizes = list(params["slice_sizes"])
    if indices_dim is None:
        # Every window spans the whole batch dimension, so no data moves.
        assert operand_dim is not None
        numbers = numbers.with_operand_dim(operand_dim)
        sizes.insert(operand_dim, axis.size)
        nth = numbers.kept(type_of(operand).rank).index(operand_dim)
        before, after = numbers.window[:nth], numbers.window[nth:]
        result_dim = after[0] if after else inst.type.rank
        window = (*before, result_dim, *(d + 1 for d in after))
        numbers = numbers._replace(window=window)
    else:
        result_dim = 0
        indices = move_dim(indices, indices_dim, 0)
        if operand_dim is None:
            # Batch elements may read the same positions, and each has its own order.
            params |= {"unique_indices": False, "indices_are_sorted": False}
        else:
            numbers = numbers.with_operand_dim(operand_dim)
            sizes.insert(operand_dim, min(axis.size, 1))
        numbers = numbers.with_leading_batch(operand_dim)
    params |= numbers.as_gather()
    params["slice_sizes"] = tuple(sizes)
    return inst.op.build([operand, indices], params), [result_dim]


# --------------------------------------------------------------------------------------- lowering


@functools.cache
def _dimension_numbers(dims: Dimensions, index_vector_dim: int) -> ir.Attribute:
    return parse(
        f"#stablehlo.gather<offset_dims = {list(dims.window)}, "
        f"collapsed_slice_dims = {list(dims.collapsed)}, "
        f"operand_batching_dims = {list(dims.operand_batching)}, "
        f"start_indices_batching_dims = {list(dims.indices_batching)}, "
        f"start_index_map = {list(dims.start_map)}, index_vector_dim = {index_vector_dim}>"
    )


def _lower(inst: Instance) -> list[ir.Value]:
    params = inst.params
    dims, sizes = Dimensions.of_gather(params), params["slice_sizes"]
    operand_type, indices_type = inst.operand_types
    type_ = inst.type
    if type_.size == 0:
        return [stablehlo_full(type_, 0)]
    operand, indices = inst.operands
    starts = signed_indices(indices, operand_type.shape)
    # StableHLO's gather clamps the starts by definition.
    (gathered,) = stablehlo(
        "gather",
        [operand, starts],
        [type_],
        dimension_numbers=_dimension_numbers(dims, indices_type.rank - 1),
        slice_sizes=INTS.encode(sizes),
        indices_are_sorted=ir.BoolAttr.get(params["indices_are_sorted"]),
    )
    if params["mode"] != "fill" or not dims.start_map:
        return [gathered]
    bounds = [operand_type.shape[d] - sizes[d] for d in dims.start_map]
    rows = mask_in_bounds(starts, bounds)
    batch_dims = [d for d in range(type_.rank) if d not in dims.window]
    mask = broadcast(rows, type_.shape, batch_dims)
    value = np.asarray(params["fill_value"]).astype(type_.dtype)
    fill = stablehlo_full(type_, value)
    return stablehlo("select", [mask, gathered, fill], [type_])


gather = Op(
    name="gather",
    doc="the windows of an operand that start at the rows of indices, with XLA's dimension numbers",
    example=(
        '%r = "gnomon.gather"(%x, %i) {offset_dims = array<i64: 1>, '
        "collapsed_slice_dims = array<i64: 0>, start_index_map = array<i64: 0>, "
        "operand_batching_dims = array<i64>, start_indices_batching_dims = array<i64>, "
        'slice_sizes = array<i64: 1, 3>, mode = "fill", '
        "fill_value = dense<0.0> : tensor<f32>, unique_indices = false, "
        "indices_are_sorted = false} : (tensor<8x3xf32>, tensor<5x1xi32>) -> tensor<5x3xf32>"
    ),
    attributes={
        **dict.fromkeys(GATHER_NAMES, INTS),
        "slice_sizes": INTS,
        "mode": STRING,
        "fill_value": SCALAR,
        "unique_indices": FLAG,
        "indices_are_sorted": FLAG,
    },
    operands=("operand", "indices"),
    form=Form.INDEXING,
    stablehlo=("gather",),
    work=work_rules.nothing,
    infer=_infer,
    evaluate=_evaluate,
    jvp=_jvp,
    linear=linear(0),
    transpose=_transpose,
    batch=_batch,
    sharding=sharding_rules.gathered,
    lower=_lower,
)
