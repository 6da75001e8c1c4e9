"""Logical and bitwise ops, shifts, counts of bits, and the high half of a product."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from gnomon.dialects.combinators import binary, lowered, stablehlo, unary
from gnomon.dialects.contract import ZERO_TANGENT, Instance, Op
from gnomon.dialects.elementwise.evaluation import same_dtype
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost
from gnomon.dialects.types import BOOL, INTEGER, SIGNED, SUB_BYTE, UNSIGNED, type_of

LOGICAL = (BOOL, *INTEGER)
_UNSIGNED = {
    d: next(u for u in UNSIGNED if ml_dtypes.iinfo(u).bits == ml_dtypes.iinfo(d).bits)
    for d in SIGNED
}
_SIGNED = {u: s for s, u in _UNSIGNED.items()}
_WORD = 64


def bit_width(dtype: np.dtype) -> int:
    """The number of bits of an integer dtype."""
    return int(ml_dtypes.iinfo(dtype).bits)


def _unsigned(x: np.ndarray) -> np.ndarray:
    """The same bits as unsigned integers, at least a byte wide."""
    plain = x.view(_UNSIGNED.get(x.dtype, x.dtype))
    return plain.astype(np.uint8) if plain.dtype in SUB_BYTE else plain


def _integer_op(name: str, arity: int, **facets: Any) -> Op:
    """Declare an op on integers, which has no tangent and an example with an integer type."""
    operands = ", ".join(("%x", "%y")[:arity])
    types = ", ".join(["tensor<4xi32>"] * arity)
    declare = (unary, binary)[arity - 1]
    return declare(
        name,
        jvp=ZERO_TANGENT,
        example=f'%r = "gnomon.{name}"({operands}) : ({types}) -> tensor<4xi32>',
        **facets,
    )


# --------------------------------------------------------------------------------------- bitwise

and_ = _integer_op(
    "and",
    2,
    doc="bitwise and; logical on bool",
    cost=Cost.OPERATION,
    dtypes=LOGICAL,
    evaluate=same_dtype(np.bitwise_and),
    lower="and",
)
or_ = _integer_op(
    "or",
    2,
    doc="bitwise or; logical on bool",
    cost=Cost.OPERATION,
    dtypes=LOGICAL,
    evaluate=same_dtype(np.bitwise_or),
    lower="or",
)
xor = _integer_op(
    "xor",
    2,
    doc="bitwise exclusive or; logical on bool",
    cost=Cost.OPERATION,
    dtypes=LOGICAL,
    evaluate=same_dtype(np.bitwise_xor),
    lower="xor",
)
not_ = _integer_op(
    "not",
    1,
    doc="bitwise complement; logical on bool",
    cost=Cost.OPERATION,
    dtypes=LOGICAL,
    evaluate=same_dtype(np.invert),
    lower="not",
)

# ---------------------------------------------------------------------------------------- shifts

# NumPy defines shifts by the width or more as StableHLO does. A negative amount is read as
# unsigned, so it exceeds the width as well.


@same_dtype
def _evaluate_shift_right_logical(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.right_shift(_unsigned(x), _unsigned(y)).astype(x.dtype)


def _evaluate_shift_right_arithmetic(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "i":
        return np.right_shift(x, y)
    # The highest bit is the sign bit, even of unsigned integers.
    signed = _SIGNED.get(x.dtype, x.dtype)
    shifted = np.right_shift(x.view(signed), y.view(signed))
    return shifted.astype(signed, copy=False).view(x.dtype)


shift_left = _integer_op(
    "shift_left",
    2,
    doc="x << y; 0 if y is not in [0, width)",
    cost=Cost.OPERATION,
    dtypes=INTEGER,
    evaluate=same_dtype(np.left_shift),
    lower="shift_left",
)
shift_right_logical = _integer_op(
    "shift_right_logical",
    2,
    doc="x >> y with zeros shifted in; 0 if y is not in [0, width)",
    cost=Cost.OPERATION,
    dtypes=INTEGER,
    evaluate=_evaluate_shift_right_logical,
    lower="shift_right_logical",
)
shift_right_arithmetic = _integer_op(
    "shift_right_arithmetic",
    2,
    doc="x >> y with the sign bit shifted in; all sign bits if y is not in [0, width)",
    cost=Cost.OPERATION,
    dtypes=INTEGER,
    evaluate=_evaluate_shift_right_arithmetic,
    lower="shift_right_arithmetic",
)

# ---------------------------------------------------------------------------------------- counts


def _evaluate_clz(x: np.ndarray) -> np.ndarray:
    smeared = _unsigned(x)
    width = bit_width(x.dtype)
    distance = 1
    while distance < width:
        smeared = np.bitwise_or(smeared, np.right_shift(smeared, smeared.dtype.type(distance)))
        distance *= 2
    return np.subtract(np.uint8(width), np.bitwise_count(smeared)).astype(x.dtype)


population_count = _integer_op(
    "population_count",
    1,
    doc="the number of bits set",
    cost=Cost.OPERATION,
    dtypes=INTEGER,
    evaluate=lambda x: np.bitwise_count(_unsigned(x)).astype(x.dtype),
    lower="popcnt",
)
clz = _integer_op(
    "clz",
    1,
    doc="the number of leading zero bits",
    cost=Cost.OPERATION,
    dtypes=INTEGER,
    evaluate=_evaluate_clz,
    lower="count_leading_zeros",
)

# ----------------------------------------------------------------------------------------- mulhi


def _evaluate_mulhi(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    dtype = x.dtype
    width = bit_width(dtype)
    if width == _WORD:
        return _high_word(x, y)
    wide = np.dtype(np.int64 if dtype in SIGNED else np.uint64)
    product = np.multiply(x.astype(wide), y.astype(wide))
    return np.right_shift(product, wide.type(width)).astype(dtype)


def _high_word(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The high 64 bits of a product of 64-bit integers, from products of halves."""
    a, b = x.view(np.uint64), y.view(np.uint64)
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & mask, b >> half, b & mask
    middle = a1 * b0 + ((a0 * b0) >> half)
    carried = a0 * b1 + (middle & mask)
    high = a1 * b1 + (middle >> half) + (carried >> half)
    if x.dtype.kind == "i":
        # Reading a negative factor as unsigned adds 2**64 to it.
        high = high - np.where(x < 0, b, np.uint64(0)) - np.where(y < 0, a, np.uint64(0))
    return high.view(x.dtype)


def _lower_mulhi(inst: Instance) -> list[ir.Value]:
    x, y = inst.operands
    dtype = inst.type.dtype
    width = bit_width(dtype)
    if width == _WORD:
        return [_lower_high_word(x, y)]
    wide = inst.type.with_dtype(np.dtype(np.int64 if dtype in SIGNED else np.uint64))
    product = lowered.mul(*(stablehlo("convert", [v], [wide])[0] for v in (x, y)))
    high = lowered.shift_right_arithmetic if dtype in SIGNED else lowered.shift_right_logical
    return stablehlo(
        "convert", [high(product, lowered.full_like(product, width))], inst.result_types
    )


def _lower_high_word(x: ir.Value, y: ir.Value) -> ir.Value:
    type_ = type_of(x)
    u64 = np.dtype(np.uint64)
    a, b = (lowered.bitcast_convert(v, dtype=u64) for v in (x, y))
    half, mask = lowered.full_like(a, 32), lowered.full_like(a, 0xFFFFFFFF)

    def upper(v: ir.Value) -> ir.Value:
        return lowered.shift_right_logical(v, half)

    def lower(v: ir.Value) -> ir.Value:
        return lowered.and_(v, mask)

    a1, a0, b1, b0 = upper(a), lower(a), upper(b), lower(b)
    middle = lowered.add(lowered.mul(a1, b0), upper(lowered.mul(a0, b0)))
    carried = lowered.add(lowered.mul(a0, b1), lower(middle))
    high = lowered.add(lowered.add(lowered.mul(a1, b1), upper(middle)), upper(carried))
    if type_.dtype in SIGNED:
        zero, none = lowered.full_like(x, 0), lowered.full_like(a, 0)
        high = lowered.sub(high, lowered.select(lowered.lt(x, zero), b, none))
        high = lowered.sub(high, lowered.select(lowered.lt(y, zero), a, none))
    return lowered.bitcast_convert(high, dtype=type_.dtype)


mulhi = _integer_op(
    "mulhi",
    2,
    doc="the upper half of the bits of the exact product",
    cost=Cost.OPERATION,
    dtypes=INTEGER,
    evaluate=_evaluate_mulhi,
    lower=_lower_mulhi,
)
