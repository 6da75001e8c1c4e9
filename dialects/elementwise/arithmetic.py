"""Elementwise arithmetic: sums, products, quotients, signs, integer powers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.dialects.combinators import Tangents, Values, binary, jvp_linear, nary, unary
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import add_tangents, convert, full_like, ops, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import (
    ANY,
    COMPLEX,
    FLOATING,
    NUMERIC,
    SIGNED,
    is_complex,
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


add = nary(
    "add",
    2,
    doc="x + y; logical or on bool",
    dtypes=ANY,
    evaluate=np.add,
    jvp=_jvp_add,
    transpose=lambda inst, cts, linear: [cts[0] if is_linear else None for is_linear in linear],
    lower="add",
)
sub = binary(
    "sub",
    doc="x - y",
    dtypes=NUMERIC,
    evaluate=np.subtract,
    rule=_jvp_sub,
    transpose=lambda inst, cts, linear: [
        cts[0] if linear[0] else None,
        ops.neg(cts[0]) if linear[1] else None,
    ],
    lower="subtract",
)
mul = binary(
    "mul",
    doc="x * y; logical and on bool",
    dtypes=ANY,
    evaluate=np.multiply,
    jvp=(lambda x, y, out: y, lambda x, y, out: x),
    transpose=_transpose_mul,
    lower="multiply",
)
neg = unary(
    "neg",
    doc="-x",
    dtypes=NUMERIC,
    evaluate=np.negative,
    rule=jvp_linear,
    transpose=lambda inst, cts, linear: [ops.neg(cts[0])],
    lower="negate",
)

# --------------------------------------------------------------------------------------- quotients


def _evaluate_div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if not is_integer(x.dtype):
        return np.divide(x, y)
    quotient = np.floor_divide(x - np.fmod(x, y), y)
    if np.all(y):
        return quotient
    return np.where(y == 0, np.array(-1).astype(x.dtype), quotient)


def _jvp_div(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    _, y = inst.operands
    a, b = tangents
    first = None if a is None else ops.div(a, y)
    second = None if b is None else ops.mul(ops.neg(b), ops.div(outs[0], y))
    return [add_tangents(first, second)]


div = binary(
    "div",
    doc="x / y; on integers the quotient rounds to zero, and x / 0 has all bits set",
    dtypes=NUMERIC,
    evaluate=_evaluate_div,
    rule=_jvp_div,
    transpose=lambda inst, cts, linear: [
        ops.div(cts[0], inst.operands[1]) if linear[0] else None,
        None,
    ],
    lower="divide",
)

# ------------------------------------------------------------------------------------------- signs


def _evaluate_sign(x: np.ndarray) -> np.ndarray:
    sign = np.sign(x)
    return sign if is_integer(x.dtype) or is_complex(x.dtype) else np.copysign(sign, x)


def _jvp_abs(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value]:
    (tangent,) = tangents
    x, out = inst.operand, outs[0]
    if not is_complex(type_of(x).dtype):
        return [ops.mul(tangent, ops.sign(x))]
    magnitude = convert(
        ops.select(ops.eq(out, full_like(out, 0)), full_like(out, 1), out), type_of(x).dtype
    )
    return [ops.real(ops.mul(tangent, ops.div(ops.conj(x), magnitude)))]


def _jvp_sign(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    (tangent,) = tangents
    if not is_complex(inst.type.dtype):
        return [None]
    x, out = inst.operand, outs[0]
    magnitude = ops.abs(x)
    safe = ops.select(
        ops.eq(magnitude, full_like(magnitude, 0)), full_like(magnitude, 1), magnitude
    )
    scaled = ops.div(tangent, convert(safe, inst.type.dtype))
    along = ops.real(ops.mul(ops.conj(out), scaled))
    return [ops.sub(scaled, ops.mul(out, convert(along, inst.type.dtype)))]


abs_ = unary(
    "abs",
    doc="absolute value; of a complex number its magnitude, a real number",
    dtypes=(*SIGNED, *FLOATING, *COMPLEX),
    evaluate=np.abs,
    rule=_jvp_abs,
    result_dtype=real_dtype,
    lower="abs",
)
sign = unary(
    "sign",
    doc="-1, 0 or 1 with the sign of x (zeros keep their sign); x / |x| on complex",
    dtypes=NUMERIC,
    evaluate=_evaluate_sign,
    rule=_jvp_sign,
    lower="sign",
)
