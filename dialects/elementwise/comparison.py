"""Comparisons and the ops that choose between values: max, min, select, clamp."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache

import numpy as np

from gnomon.dialects import extrema, sharding_rules, work_rules
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    binary,
    describe,
    larger,
    nary,
    parse,
    require,
    require_dtype,
    smaller,
    stablehlo,
)
from gnomon.dialects.contract import NOT_LINEAR, ZERO_TANGENT, Instance, MappedAxis, Op, Rule
from gnomon.dialects.elementwise.evaluation import same_dtype
from gnomon.dialects.emit import (
    add_tangents,
    at_dim,
    broadcast_scalar,
    full_like,
    ops,
    zeros,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost, Form, linear
from gnomon.dialects.types import (
    ANY,
    BOOL,
    FLOATING,
    INTEGER,
    SIGNED,
    TensorType,
    is_complex,
    is_floating,
    type_of,
)

REAL = (BOOL, *INTEGER, *FLOATING)

# ------------------------------------------------------------------------------------- comparisons


@cache
def _direction(direction: str) -> ir.Attribute:
    return parse(f"#stablehlo<comparison_direction {direction}>")


@cache
def _comparison_type(dtype: np.dtype) -> ir.Attribute:
    if is_floating(dtype) or is_complex(dtype):
        kind = "FLOAT"
    else:
        kind = "SIGNED" if dtype in SIGNED else "UNSIGNED"
    return parse(f"#stablehlo<comparison_type {kind}>")


def stablehlo_compare(direction: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """``stablehlo.compare`` of two values of one type."""
    type_ = type_of(x)
    (result,) = stablehlo(
        "compare",
        [x, y],
        [type_.with_dtype(BOOL)],
        comparison_direction=_direction(direction),
        compare_type=_comparison_type(type_.dtype),
    )
    return result


def _comparison(name: str, symbol: str, evaluate: Rule, dtypes: Collection[np.dtype]) -> Op:
    return nary(
        name,
        2,
        doc=f"x {symbol} y, a bool",
        cost=Cost.OPERATION,
        dtypes=dtypes,
        evaluate=evaluate,
        jvp=ZERO_TANGENT,
        stablehlo=("compare",),
        lower=lambda inst: [stablehlo_compare(name.upper(), *inst.operands)],
        result_dtype=lambda dtype: BOOL,
        example=f'%r = "gnomon.{name}"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>',
    )


eq = _comparison("eq", "==", np.equal, ANY)
ne = _comparison("ne", "!=", np.not_equal, ANY)
lt = _comparison("lt", "<", np.less, REAL)
le = _comparison("le", "<=", np.less_equal, REAL)
gt = _comparison("gt", ">", np.greater, REAL)
ge = _comparison("ge", ">=", np.greater_equal, REAL)

# ------------------------------------------------------------------------------------- max and min


def _extremum_slope(x: ir.Value, y: ir.Value, out: ir.Value) -> ir.Value:
    """The derivative of max or min in x: 1 if x is the result, 0 if y is, 0.5 if both are."""
    one = full_like(x, 1)
    taken = ops.select(ops.eq(x, out), one, full_like(x, 0))
    return ops.div(taken, ops.select(ops.eq(y, out), full_like(x, 2), one))


_extremum_slopes = (_extremum_slope, lambda x, y, out: _extremum_slope(y, x, out))

max_ = binary(
    "max",
    doc="the larger of x and y; nan if one is nan; logical or on bool",
    cost=Cost.OPERATION,
    dtypes=ANY,
    evaluate=same_dtype(extrema.maximum),
    jvp=_extremum_slopes,
    stablehlo=("maximum",),
    lower=lambda inst: [larger(*inst.operands)],
)
min_ = binary(
    "min",
    doc="the smaller of x and y; nan if one is nan; logical and on bool",
    cost=Cost.OPERATION,
    dtypes=ANY,
    evaluate=same_dtype(extrema.minimum),
    jvp=_extremum_slopes,
    stablehlo=("minimum",),
    lower=lambda inst: [smaller(*inst.operands)],
)

# ------------------------------------------------------------------------------------------ select


def _infer_select(predicate: TensorType, on_true: TensorType, on_false: TensorType) -> TensorType:
    types = describe((predicate, on_true, on_false))
    require(on_true == on_false, "select", f"both choices must have one type, got {types}")
    require_dtype("select", on_true, ANY)
    require(
        predicate.dtype == BOOL and predicate.shape in ((), on_true.shape),
        "select",
        f"the predicate must be a bool of the choices' shape, or of rank 0; got {types}",
    )
    return on_true


def _evaluate_select(
    predicate: np.ndarray, on_true: np.ndarray, on_false: np.ndarray
) -> np.ndarray:
    if predicate.ndim == 0:
        return on_true if predicate else on_false
    return np.where(predicate, on_true, on_false)


def _jvp_select(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    _, a, b = tangents
    if a is None and b is None:
        return [None]
    zero = zeros(inst.type)
    return [ops.select(inst.operands[0], zero if a is None else a, zero if b is None else b)]


def _transpose_select(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (ct,) = cotangents
    predicate, zero = inst.operands[0], zeros(inst.type)
    return [
        None,
        ops.select(predicate, ct, zero) if linear[1] else None,
        ops.select(predicate, zero, ct) if linear[2] else None,
    ]


def _batch_select(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int]]:
    predicate, on_true, on_false = operands
    shape = inst.type.shape
    scalar = inst.operand_types[0].rank == 0
    if scalar and dims[0] is None:
        at = next(d for d in dims[1:] if d is not None)
    else:
        at = 0
        if scalar and shape:
            # Broadcast one bool per batch element to the choices' shape.
            predicate = ops.broadcast_in_dim(predicate, shape=(axis.size, *shape), dims=(0,))
        else:
            predicate = at_dim(predicate, dims[0], axis.size, 0)
    choices = [
        at_dim(x, d, axis.size, at) for x, d in zip((on_true, on_false), dims[1:], strict=True)
    ]
    return [ops.select(predicate, *choices)], [at]


select = Op(
    name="select",
    doc="on_true where the predicate holds, on_false elsewhere; a rank-0 predicate chooses for all",
    example='%r = "gnomon.select"(%p, %a, %b) : '
    "(tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
    operands=("predicate", "on_true", "on_false"),
    form=Form.ELEMENTWISE,
    cost=Cost.OPERATION,
    stablehlo=("select",),
    work=work_rules.elementwise,
    infer=_infer_select,
    evaluate=_evaluate_select,
    jvp=_jvp_select,
    linear=linear(1, 2),
    transpose=_transpose_select,
    batch=_batch_select,
    sharding=sharding_rules.elementwise,
    lower=lambda inst: stablehlo("select", inst.operands, inst.result_types),
)

# ------------------------------------------------------------------------------------------- clamp


def _infer_clamp(low: TensorType, x: TensorType, high: TensorType) -> TensorType:
    types = describe((low, x, high))
    require_dtype("clamp", x, REAL)
    for bound in (low, high):
        require(
            bound.dtype == x.dtype and bound.shape in ((), x.shape),
            "clamp",
            f"bounds must have the operand's dtype, and its shape or rank 0; got {types}",
        )
    return x


@same_dtype
def _clamp(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return extrema.minimum(extrema.maximum(low, x), high)


def _jvp_clamp(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    shape, zero = inst.type.shape, zeros(inst.type)
    low, x, high = (
        v if type_of(v).shape == shape else broadcast_scalar(v, shape) for v in inst.operands
    )
    regions = (
        # If low > high, the result is high for every operand.
        lambda: ops.and_(ops.lt(x, low), ops.lt(low, high)),
        lambda: ops.and_(ops.gt(x, low), ops.lt(x, high)),
        lambda: ops.gt(x, high),
    )
    total = None
    for tangent, region in zip(tangents, regions, strict=True):
        if tangent is not None:
            if type_of(tangent).shape != shape:
                tangent = broadcast_scalar(tangent, shape)
            total = add_tangents(total, ops.select(region(), tangent, zero))
    return [total]


def _batch_clamp(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int]]:
    shape = inst.type.shape
    aligned = []
    for x, type_, dim in zip(operands, inst.operand_types, dims, strict=True):
        if type_.shape == shape:
            aligned.append(at_dim(x, dim, axis.size, 0))
        elif dim is None:
            aligned.append(x)
        else:
            # Broadcast one bound per batch element to the operand's shape.
            aligned.append(ops.broadcast_in_dim(x, shape=(axis.size, *shape), dims=(0,)))
    return [ops.clamp(*aligned)], [0]


clamp = Op(
    name="clamp",
    doc="x limited to [low, high], min(max(low, x), high); the bounds may have rank 0",
    example='%r = "gnomon.clamp"(%low, %x, %high) : '
    "(tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>",
    operands=("low", "x", "high"),
    form=Form.ELEMENTWISE,
    cost=Cost.OPERATION,
    stablehlo=("clamp",),
    work=work_rules.elementwise,
    infer=_infer_clamp,
    evaluate=lambda low, x, high: _clamp(x, low, high),
    jvp=_jvp_clamp,
    transpose=NOT_LINEAR,
    batch=_batch_clamp,
    sharding=sharding_rules.elementwise,
    lower=lambda inst: stablehlo("clamp", inst.operands, inst.result_types),
)
