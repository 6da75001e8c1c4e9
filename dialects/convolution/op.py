"""``conv_general_dilated``: every convolution, and every derivative of one.

Batch groups, feature groups, dilation of both operands and padding of either sign make the op
closed under batching and under differentiation with respect to either operand.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import DTYPE, INT, INT_LISTS, INTS, STRING
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    jvp_linear_in,
    padded,
    parse,
    require,
    require_dtype,
    stablehlo,
    stablehlo_full,
)
from gnomon.dialects.contract import Instance, MappedAxis, Op
from gnomon.dialects.convolution.evaluation import evaluate
from gnomon.dialects.convolution.geometry import OP, Geometry, permuted
from gnomon.dialects.emit import convert, move_dim, ops, reshape, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import any_symbolic
from gnomon.dialects.traits import Form, multilinear
from gnomon.dialects.types import (
    NUMERIC,
    TensorType,
    is_complex,
    is_integer,
    short_name,
    type_of,
)
from gnomon.dialects.window_folds import dilated
from gnomon.dialects.work_rules import Types, Work

PRECISIONS = ("default", "high", "highest")


def _kind(dtype: np.dtype) -> str:
    if is_integer(dtype):
        return "integer"
    return "complex" if is_complex(dtype) else "floating"


def _infer(
    lhs: TensorType, rhs: TensorType, *, dtype: np.dtype, precision: str, **params: Any
) -> TensorType:
    require_dtype(OP, lhs, NUMERIC)
    require(
        lhs.dtype == rhs.dtype,
        OP,
        f"operands must have one dtype, got {lhs} and {rhs}; convert one of them",
    )
    accepted = {_kind(lhs.dtype)} | ({"floating"} if is_integer(lhs.dtype) else set())
    require(
        np.dtype(dtype) in NUMERIC and _kind(np.dtype(dtype)) in accepted,
        OP,
        f"the result dtype of {short_name(lhs.dtype)} operands must be of kind "
        f"{' or '.join(sorted(accepted))}, got {short_name(np.dtype(dtype))}",
    )
    parts = precision.split(",")
    require(
        len(parts) in (1, 2) and all(p in PRECISIONS for p in parts),
        OP,
        f"precision must be one of {', '.join(PRECISIONS)}, or two of them joined by a comma; "
        f"got '{precision}'",
    )
    geometry = Geometry.of(params)
    geometry.check(lhs, rhs)
    return TensorType(geometry.out_shape(lhs.shape, rhs.shape), np.dtype(dtype))


# ---------------------------------------------------------------------------------- transposition


def _swap_precision(precision: str) -> str:
    return ",".join(reversed(precision.split(",")))


def _split_dim(x: ir.Value, dim: int, groups: int) -> ir.Value:
    """Split dimension ``dim`` into two, the groups first."""
    shape = type_of(x).shape
    return reshape(x, (*shape[:dim], groups, shape[dim] // groups, *shape[dim + 1 :]))


def _merge_dim(x: ir.Value, dim: int, into: int) -> ir.Value:
    """Merge dimension ``dim``, as the major part, into dimension ``into`` of the others."""
    moved = move_dim(x, dim, into)
    shape = type_of(moved).shape
    return reshape(moved, (*shape[:into], shape[into] * shape[into + 1], *shape[into + 2 :]))


def _by_lhs(inst: Instance, cotangent: ir.Value, rhs: ir.Value, dtype: np.dtype) -> ir.Value:
    """The cotangent of ``lhs``: convolve the cotangent with the reversed kernel.

    The cotangent is dilated by the window strides.
    """
    g = Geometry.of(inst.params)
    lhs_type, rhs_type = inst.operand_types
    sizes, kernel = (
        permuted(t.shape, s)[2:] for t, s in ((lhs_type, g.lhs_spec), (rhs_type, g.rhs_spec))
    )
    out_sizes = permuted(inst.type.shape, g.out_spec)[2:]
    padding = []
    for d in range(g.rank):
        low = dilated(kernel[d], g.rhs_dilation[d]) - 1 - g.padding[d][0]
        span = dilated(sizes[d], g.lhs_dilation[d])
        high = span - dilated(out_sizes[d], g.window_strides[d]) + g.padding[d][0]
        padding.append((low, high))
    # Exchange the kernel's features in each group: [(group, out), in] -> [(group, in), out].
    out_dim, in_dim = g.rhs_spec[:2]
    split = _split_dim(rhs, out_dim, g.groups)
    kernel_value = _merge_dim(split, out_dim, in_dim)
    if g.rank:
        kernel_value = ops.rev(kernel_value, dims=tuple(sorted(g.rhs_spec[2:])))
    # Batch groups come out as feature groups: move them back into the batch dimension.
    batch_dim, feature_dim = g.lhs_spec[:2]
    result = ops.conv_general_dilated(
        cotangent,
        kernel_value,
        **Geometry(
            lhs_spec=g.out_spec,
            rhs_spec=(in_dim, out_dim, *g.rhs_spec[2:]),
            out_spec=g.lhs_spec,
            window_strides=g.lhs_dilation,
            padding=tuple(padding),
            lhs_dilation=g.window_strides,
            rhs_dilation=g.rhs_dilation,
            feature_group_count=g.groups,
            batch_group_count=1,
        ).params,
        dtype=dtype,
        precision=inst.params["precision"],
    )
    if g.batch_group_count > 1:
        split = _split_dim(result, feature_dim, g.groups)
        result = _merge_dim(split, feature_dim, batch_dim)
    return result


def _by_rhs(inst: Instance, cotangent: ir.Value, lhs: ir.Value, dtype: np.dtype) -> ir.Value:
    """The cotangent of ``rhs``: convolve ``lhs`` with the cotangent as kernel.

    The kernel is dilated by the window strides. The batch and feature dimensions of ``lhs`` are
    exchanged, so feature groups become batch groups.
    """
    g = Geometry.of(inst.params)
    lhs_type, rhs_type = inst.operand_types
    sizes, kernel = (
        permuted(lhs_type.shape, g.lhs_spec)[2:],
        permuted(rhs_type.shape, g.rhs_spec)[2:],
    )
    out_sizes = permuted(inst.type.shape, g.out_spec)[2:]
    padding = []
    for d in range(g.rank):
        low = g.padding[d][0]
        window = dilated(out_sizes[d], g.window_strides[d])
        high = dilated(kernel[d], g.rhs_dilation[d]) - 1 + window
        high -= dilated(sizes[d], g.lhs_dilation[d]) + low
        padding.append((low, high))
    (batch, feature, *lhs_space), (n, out, *out_space) = g.lhs_spec, g.out_spec
    (rhs_out, rhs_in, *rhs_space) = g.rhs_spec
    return ops.conv_general_dilated(
        lhs,
        cotangent,
        **Geometry(
            lhs_spec=(feature, batch, *lhs_space),
            rhs_spec=(out, n, *out_space),
            out_spec=(rhs_in, rhs_out, *rhs_space),
            window_strides=g.rhs_dilation,
            padding=tuple(padding),
            lhs_dilation=g.lhs_dilation,
            rhs_dilation=g.window_strides,
            feature_group_count=g.batch_group_count,
            batch_group_count=g.feature_group_count,
        ).params,
        dtype=dtype,
        precision=_swap_precision(inst.params["precision"]),
    )


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (cotangent,) = cotangents
    if cotangent is None:
        return [None, None]
    which = list(linear).index(True)
    own, other = inst.operand_types[which], inst.operand_types[1 - which]
    found: list[ir.Value | None] = [None, None]
    if 0 in (own.size, other.size, inst.type.size):
        found[which] = zeros(own)
        return found
    # The result dtype may be wider or narrower than the operands'; compute in the wider one.
    dtype = max(inst.type.dtype, other.dtype, key=lambda d: d.itemsize)
    rule = _by_rhs if which else _by_lhs
    result = rule(inst, convert(cotangent, dtype), convert(inst.operands[1 - which], dtype), dtype)
    found[which] = convert(result, own.dtype)
    return found


# --------------------------------------------------------------------------------------- batching


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int]]:
    """Batch as one convolution with a larger batch dimension, more features, or more groups."""
    if axis.size == 0:
        return [zeros(inst.type.with_shape((0, *inst.type.shape)))], [0]
    g = Geometry.of(inst.params)
    params = dict(inst.params)
    (lhs, rhs), (lhs_dim, rhs_dim) = operands, dims
    by_batch = g.batch_group_count > 1
    batch_dim, feature_dim = g.lhs_spec[:2]
    out_batch, out_feature = g.out_spec[:2]
    size = axis.size
    if lhs_dim is not None and rhs_dim is not None:
        lhs = _merge_dim(lhs, lhs_dim, batch_dim if by_batch else feature_dim)
        rhs = _merge_dim(rhs, rhs_dim, g.rhs_spec[0])
        name = "batch_group_count" if by_batch else "feature_group_count"
        params[name] *= size
        (out,) = inst.op.build([lhs, rhs], params)
        return [_split_dim(out, out_feature, size)], [out_feature]
    if lhs_dim is not None:
        lhs = _merge_within(lhs, lhs_dim, batch_dim, g.batch_group_count)
        (out,) = inst.op.build([lhs, rhs], params)
        return [_split_dim(out, out_batch, size)], [out_batch]
    assert rhs_dim is not None
    rhs = _merge_within(rhs, rhs_dim, g.rhs_spec[0], g.groups)
    (out,) = inst.op.build([lhs, rhs], params)
    # [(group, stack, feature)] -> [stack, (group, feature)]
    shape = type_of(out).shape
    before, after = shape[:out_feature], shape[out_feature + 1 :]
    each = shape[out_feature] // (g.groups * size)
    parted = reshape(out, (*before, g.groups, size, each, *after))
    moved = move_dim(parted, out_feature + 1, out_feature)
    return [reshape(moved, (*before, size, g.groups * each, *after))], [out_feature]


def _merge_within(x: ir.Value, dim: int, into: int, groups: int) -> ir.Value:
    """Merge the batch dimension into a grouped dimension, within each group."""
    moved = move_dim(x, dim, into)  # [..., stack, (group, rest), ...]
    shape = type_of(moved).shape
    size, whole = shape[into], shape[into + 1]
    before, after = shape[:into], shape[into + 2 :]
    if groups > 1:
        parted = reshape(moved, (*before, size, groups, whole // groups, *after))
        moved = move_dim(parted, into, into + 1)
    return reshape(moved, (*before, size * whole, *after))


# --------------------------------------------------------------------------------------- lowering


def _dimension_text(spec: Sequence[int], first: str, second: str) -> str:
    names = [""] * len(spec)
    names[spec[0]], names[spec[1]] = first, second
    for position, d in enumerate(spec[2:]):
        names[d] = str(position)
    return f"[{', '.join(names)}]"


@functools.cache
def _stablehlo_attributes(g: Geometry, precision: str) -> dict[str, ir.Attribute]:
    numbers = (
        f"{_dimension_text(g.lhs_spec, 'b', 'f')}x{_dimension_text(g.rhs_spec, 'o', 'i')}->"
        f"{_dimension_text(g.out_spec, 'b', 'f')}"
    )
    precisions = [f"#stablehlo<precision {p.upper()}>" for p in precision.split(",")]
    pads = [list(p) for p in g.padding] if g.rank else ""
    return {
        "dimension_numbers": parse(f"#stablehlo.conv<{numbers}>"),
        "window_strides": INTS.encode(g.window_strides),
        "padding": parse(f"dense<{pads}> : tensor<{g.rank}x2xi64>"),
        "lhs_dilation": INTS.encode(g.lhs_dilation),
        "rhs_dilation": INTS.encode(g.rhs_dilation),
        "feature_group_count": INT.encode(g.feature_group_count),
        "batch_group_count": INT.encode(g.batch_group_count),
        "precision_config": parse(f"[{precisions[0]}, {precisions[-1]}]"),
    }


def _lower(inst: Instance) -> list[ir.Value]:
    if inst.type.size == 0 or any(t.size == 0 for t in inst.operand_types):
        return [stablehlo_full(inst.type, 0)]
    geometry, operands = Geometry.of(inst.params), list(inst.operands)
    if any(any_symbolic(pads) for pads in geometry.padding):
        operands[0], geometry = _padded_before(operands[0], geometry)
    attributes = _stablehlo_attributes(geometry, inst.params["precision"])
    return stablehlo("convolution", operands, inst.result_types, **attributes)


def _padded_before(lhs: ir.Value, g: Geometry) -> tuple[ir.Value, Geometry]:
    """Pad and dilate before the convolution, which has no form with padding that is an operand."""
    type_ = type_of(lhs)
    low, high, dilation = [0] * type_.rank, [0] * type_.rank, [1] * type_.rank
    for d, (before, after), apart in zip(g.lhs_spec[2:], g.padding, g.lhs_dilation, strict=True):
        low[d], high[d], dilation[d] = before, after, apart
    zero = stablehlo_full(type_.with_shape(()), 0)
    none, ones = ((0, 0),) * g.rank, (1,) * g.rank
    return padded(lhs, zero, low, high, dilation), replace(g, padding=none, lhs_dilation=ones)


def _work(operands: Types, results: Types, *, rhs_spec: Sequence[int], **params: Any) -> Work:
    """Of all products with an element of a window, those with padding too."""
    features = operands[1].shape[rhs_spec[0]]
    return Work(flops=2.0 * results[0].size * operands[1].size / max(features, 1))


conv_general_dilated = Op(
    name=OP,
    doc="sums of products over sliding windows, with strides, padding, dilation and groups",
    example=(
        '%r = "gnomon.conv_general_dilated"(%lhs, %rhs) {lhs_spec = array<i64: 0, 1, 2>, '
        "rhs_spec = array<i64: 0, 1, 2>, out_spec = array<i64: 0, 1, 2>, "
        "window_strides = array<i64: 1>, padding = [array<i64: 1, 1>], "
        "lhs_dilation = array<i64: 1>, rhs_dilation = array<i64: 1>, "
        "feature_group_count = 1 : i64, batch_group_count = 1 : i64, "
        'dtype = f32, precision = "default"} : (tensor<2x3x8xf32>, tensor<4x3x3xf32>) '
        "-> tensor<2x4x8xf32>"
    ),
    attributes={
        "lhs_spec": INTS,
        "rhs_spec": INTS,
        "out_spec": INTS,
        "window_strides": INTS,
        "padding": INT_LISTS,
        "lhs_dilation": INTS,
        "rhs_dilation": INTS,
        "feature_group_count": INT,
        "batch_group_count": INT,
        "dtype": DTYPE,
        "precision": STRING,
    },
    operands=("lhs", "rhs"),
    form=Form.CONTRACTION,
    stablehlo=("convolution",),
    work=_work,
    infer=_infer,
    evaluate=evaluate,
    jvp=jvp_linear_in(0, 1),
    linear=multilinear(0, 1),
    transpose=_transpose,
    batch=_batch,
    sharding=sharding_rules.convolution,
    lower=_lower,
)
