"""Elementwise arithmetic: sums, products, quotients, squares, signs, rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.dialects import work_rules
from gnomon.dialects.attributes import STRING
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    binary,
    jvp_linear,
    lowered,
    nary,
    require,
    stablehlo,
    unary,
)
from gnomon.dialects.contract import ZERO_TANGENT, Instance, Rule
from gnomon.dialects.elementwise.evaluation import from_parts, same_dtype
from gnomon.dialects.emit import add_tangents, convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost, linear, multilinear
from gnomon.dialects.types import (
    ANY,
    BOOL,
    COMPLEX,
    FLOATING,
    INTEGER,
    NUMERIC,
    SIGNED,
    UNSIGNED,
    is_complex,
    is_floating,
    is_integer,
    real_dtype,
    type_of,
)

# ------------------------------------------------------------------------------ sums and products


def _jvp_add(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    return [add_tangents(*tangents)]


def _jvp_sub(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    a, b = tangents
    if b is None:
        return [a]
    return [ops.neg(b) if a is None else ops.sub(a, b)]


def _transpose_mul(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (ct,) = cotangents
    x, y = inst.operands
    return [ops.mul(ct, y) if linear[0] else None, ops.mul(x, ct) if linear[1] else None]


def _lower_by_dtype(number: str, truth: str) -> Rule:
    """Lower to one op for numbers and another for bools: compilers disagree on sums of i1."""

    def rule(inst: Instance) -> list[ir.Value]:
        name = truth if inst.type.dtype == BOOL else number
        return stablehlo(name, inst.operands, inst.result_types)

    return rule


add = nary(
    "add",
    2,
    doc="x + y; logical or on bool",
    cost=Cost.OPERATION,
    dtypes=ANY,
    evaluate=np.add,
    jvp=_jvp_add,
    linear=linear(),
    transpose=lambda inst, cts, linear: [cts[0] if is_linear else None for is_linear in linear],
    stablehlo=("add",),
    lower=_lower_by_dtype("add", "or"),
)
sub = binary(
    "sub",
    doc="x - y",
    cost=Cost.OPERATION,
    dtypes=NUMERIC,
    evaluate=np.subtract,
    rule=_jvp_sub,
    linear=linear(),
    transpose=lambda inst, cts, linear: [
        cts[0] if linear[0] else None,
        ops.neg(cts[0]) if linear[1] else None,
    ],
    lower="subtract",
)
mul = binary(
    "mul",
    doc="x * y; logical and on bool",
    cost=Cost.OPERATION,
    dtypes=ANY,
    evaluate=np.multiply,
    jvp=(lambda x, y, out: y, lambda x, y, out: x),
    linear=multilinear(0, 1),
    transpose=_transpose_mul,
    stablehlo=("multiply",),
    lower=_lower_by_dtype("multiply", "and"),
)
neg = unary(
    "neg",
    doc="-x",
    cost=Cost.OPERATION,
    dtypes=NUMERIC,
    evaluate=same_dtype(np.negative),
    rule=jvp_linear,
    linear=linear(),
    transpose=lambda inst, cts, linear: [ops.neg(cts[0])],
    lower="negate",
)

# --------------------------------------------------------------------------------------- quotients


def _evaluate_div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":
        return np.divide(x, y)
    if is_integer(x.dtype):
        return _integer_quotient(x, y)
    quotient = np.divide(x, y)
    return _with_infinities(x, y, quotient) if is_complex(x.dtype) else quotient


@same_dtype
def _integer_quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    quotient = np.floor_divide(x - np.fmod(x, y), y)
    if np.count_nonzero(y) == y.size:
        return quotient
    return np.where(y == 0, np.array(-1).astype(x.dtype), quotient)


def _with_infinities(x: np.ndarray, y: np.ndarray, quotient: np.ndarray) -> np.ndarray:
    """Complex quotients with one infinite operand, as in C; NumPy gives nan for them."""
    lost = np.isnan(quotient.real) & np.isnan(quotient.imag)
    if not lost.any():
        return quotient
    for numerator, factor in ((True, np.inf), (False, 0)):
        infinite, finite = (x, y) if numerator else (y, x)
        rule = lost & np.isinf(infinite) & np.isfinite(finite)
        # Replace an infinite part by one and a finite part next to it by zero.
        a, b = (np.copysign(np.isinf(p), p).astype(p.dtype) for p in (infinite.real, infinite.imag))
        c, d = finite.real, finite.imag
        sign = 1 if numerator else -1
        limit = from_parts(factor * (a * c + b * d), factor * (sign * (b * c - a * d)), x.dtype)
        quotient = np.where(rule, limit, quotient)
    return quotient


@same_dtype
def _evaluate_rem(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    remainder = np.fmod(x, y)
    if is_floating(x.dtype) or np.count_nonzero(y) == y.size:
        return remainder
    return np.where(y == 0, x, remainder)


def _jvp_rem(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    a, b = tangents
    if b is None:
        return [a]
    x, y = inst.operands
    # x - out is a multiple of y up to rounding, so round the quotient to the nearest integer.
    multiple = ops.round(ops.div(ops.sub(x, outs[0]), y), rounding_method="TO_NEAREST_EVEN")
    return [add_tangents(a, ops.neg(ops.mul(b, multiple)))]


def _jvp_div(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    _, y = inst.operands
    a, b = tangents
    first = None if a is None else ops.div(a, y)
    second = None if b is None else ops.mul(ops.neg(b), ops.div(outs[0], y))
    return [add_tangents(first, second)]


div = binary(
    "div",
    doc="x / y; on integers the quotient rounds toward zero, and x / 0 has all bits set",
    cost=Cost.DIVISION,
    dtypes=NUMERIC,
    evaluate=_evaluate_div,
    rule=_jvp_div,
    linear=multilinear(0),
    transpose=lambda inst, cts, linear: [
        ops.div(cts[0], inst.operands[1]) if linear[0] else None,
        None,
    ],
    lower="divide",
)
rem = binary(
    "rem",
    doc="the remainder of x / y with the sign of x; on integers, x if y is 0",
    cost=Cost.FUNCTION,
    work=work_rules.elementwise,
    dtypes=(*INTEGER, *FLOATING),
    evaluate=_evaluate_rem,
    rule=_jvp_rem,
    lower="remainder",
)


# The square of x + iy is (x - y)(x + y) + 2xyi; the real part as x² - y² would be nan if both
# squares overflow. A factor that is zero is the product, since the other one may overflow.
@same_dtype
def _evaluate_square(x: np.ndarray) -> np.ndarray:
    if not is_complex(x.dtype):
        return np.multiply(x, x)
    a, b = x.real, x.imag
    less, more, cross = a - b, a + b, a * b
    real = np.where(less == 0, less, np.where(more == 0, more, less * more))
    return from_parts(real, cross + cross, x.dtype)


def _lower_square(inst: Instance) -> list[ir.Value]:
    x = inst.operand
    if not is_complex(inst.type.dtype):
        return stablehlo("multiply", [x, x], inst.result_types)
    a, b = lowered.real(x), lowered.imag(x)
    return [lowered.complex(*square_of_parts(lowered, a, b, lowered.full_like(a, 0)))]


def square_of_parts(o: Any, a: ir.Value, b: ir.Value, zero: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The parts of the square of ``a + ib``; ``o`` is a namespace of ops, such as `lowered`."""
    less, more, cross = o.sub(a, b), o.add(a, b), o.mul(a, b)
    product = o.select(o.eq(more, zero), more, o.mul(less, more))
    return o.select(o.eq(less, zero), less, product), o.add(cross, cross)


square = unary(
    "square",
    doc="x * x",
    cost=Cost.OPERATION,
    dtypes=NUMERIC,
    evaluate=_evaluate_square,
    jvp=lambda x, out: ops.add(x, x),
    lower=_lower_square,
)

# ------------------------------------------------------------------------------------------- signs


def _evaluate_abs(x: np.ndarray) -> np.ndarray:
    magnitude = np.abs(x)
    return magnitude.astype(x.dtype) if magnitude.dtype.kind == "i" else magnitude


@same_dtype
def _evaluate_sign(x: np.ndarray) -> np.ndarray:
    if is_complex(x.dtype):
        # NumPy's result is wrong where the absolute value overflows.
        scale = np.where(np.isfinite(x) & (np.abs(x) > 1), x.real.dtype.type(0.25), 1)
        x = from_parts(x.real * scale, x.imag * scale, x.dtype)
    sign = np.sign(x)
    # NumPy drops the sign of zero.
    return np.copysign(sign, x) if is_floating(x.dtype) else sign


def _lower_sign(inst: Instance) -> list[ir.Value]:
    if inst.type.dtype not in UNSIGNED:
        return stablehlo("sign", inst.operands, inst.result_types)
    # StableHLO's sign does not take unsigned integers.
    return stablehlo(
        "minimum", [inst.operand, lowered.full_like(inst.operand, 1)], inst.result_types
    )


def _jvp_abs(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value]:
    (tangent,) = tangents
    x, out = inst.operand, outs[0]
    if not is_complex(type_of(x).dtype):
        # At 0 the derivative is 1, as in JAX.
        return [ops.select(ops.ge(x, full_like(x, 0)), tangent, ops.neg(tangent))]
    safe = ops.select(ops.eq(out, full_like(out, 0)), full_like(out, 1), out)
    magnitude = convert(safe, type_of(x).dtype)
    return [ops.real(ops.mul(tangent, ops.div(ops.conj(x), magnitude)))]


abs_ = unary(
    "abs",
    doc="the absolute value; for complex numbers the magnitude, a real number",
    cost=Cost.OPERATION,
    dtypes=(*SIGNED, *FLOATING, *COMPLEX),
    evaluate=_evaluate_abs,
    rule=_jvp_abs,
    result_dtype=real_dtype,
    lower="abs",
)
sign = unary(
    "sign",
    doc="-1, 0 or 1 with the sign of x (zeros keep their sign); x / |x| on complex numbers",
    cost=Cost.OPERATION,
    dtypes=NUMERIC,
    evaluate=_evaluate_sign,
    # Zero by convention on complex numbers as well, where the function is not holomorphic.
    jvp=ZERO_TANGENT,
    stablehlo=("sign",),
    lower=_lower_sign,
)

# ---------------------------------------------------------------------------------------- rounding


def _evaluate_round(x: np.ndarray, rounding_method: str) -> np.ndarray:
    if rounding_method == "TO_NEAREST_EVEN":
        return np.rint(x)
    # x + 0.5 may round up for x just below a half, so compare the fractional part instead.
    whole = np.trunc(x)
    up = np.abs(x - whole) >= x.dtype.type(0.5)
    return np.where(up, whole + np.copysign(x.dtype.type(1), x), whole)


ROUNDING = {"AWAY_FROM_ZERO": "round_nearest_afz", "TO_NEAREST_EVEN": "round_nearest_even"}


def _round_dtype(dtype: np.dtype, rounding_method: str) -> np.dtype:
    require(
        rounding_method in ROUNDING,
        "round",
        f"rounding_method must be one of {', '.join(ROUNDING)}, got {rounding_method!r}",
    )
    return dtype


floor = unary(
    "floor",
    doc="the largest integer not above x",
    cost=Cost.OPERATION,
    dtypes=FLOATING,
    evaluate=np.floor,
    jvp=ZERO_TANGENT,
    lower="floor",
)
ceil = unary(
    "ceil",
    doc="the smallest integer not below x",
    cost=Cost.OPERATION,
    dtypes=FLOATING,
    evaluate=np.ceil,
    jvp=ZERO_TANGENT,
    lower="ceil",
)
round_ = unary(
    "round",
    doc="the nearest integer; halves round AWAY_FROM_ZERO or TO_NEAREST_EVEN",
    cost=Cost.OPERATION,
    dtypes=FLOATING,
    evaluate=_evaluate_round,
    jvp=ZERO_TANGENT,
    stablehlo=("round_nearest_even", "round_nearest_afz"),
    lower=lambda inst: stablehlo(
        ROUNDING[inst.params["rounding_method"]], inst.operands, inst.result_types
    ),
    result_dtype=_round_dtype,
    attributes={"rounding_method": STRING},
    example='%r = "gnomon.round"(%x) {rounding_method = "TO_NEAREST_EVEN"} '
    ": (tensor<4xf32>) -> tensor<4xf32>",
)
