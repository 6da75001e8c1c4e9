"""The representation of floating point numbers: finiteness, neighbours, rounding to a format."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from gnomon.dialects.attributes import INT
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    binary,
    jvp_linear,
    lowered,
    require,
    stablehlo,
    unary,
)
from gnomon.dialects.contract import ZERO_TANGENT, Instance
from gnomon.dialects.elementwise.expansion import widen_bytes
from gnomon.dialects.emit import ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost, linear, multilinear
from gnomon.dialects.types import BOOL, FLOATING, type_of

is_finite = unary(
    "is_finite",
    doc="true if x is neither infinite nor nan",
    cost=Cost.OPERATION,
    dtypes=FLOATING,
    evaluate=np.isfinite,
    jvp=ZERO_TANGENT,
    lower="is_finite",
    result_dtype=lambda dtype: BOOL,
    example='%r = "gnomon.is_finite"(%x) : (tensor<4xf32>) -> tensor<4xi1>',
)

# --------------------------------------------------------------------------------------- nextafter


def _evaluate_nextafter(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    # NumPy returns x, not y, for two f16 zeros of different signs.
    return np.where(x == y, y, np.nextafter(x, y))


def _jvp_nextafter(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    # The distance to x is one unit in the last place, which is piecewise constant.
    return [tangents[0]]


def following_bits(
    build: Any, x: ir.Value, y: ir.Value, bits: ir.Value, target: ir.Value, dtype: np.dtype
) -> ir.Value:
    """The bits of the number of a format that follows x toward y.

    Args:
      build: `emitted`, or `lowered` for StableHLO.
      x, y: numbers of the format, perhaps in a wider dtype.
      bits, target: their bits in the format, signed integers.
      dtype: the format.
    """
    integer = type_of(bits).dtype

    def full(value: int) -> ir.Value:
        result: ir.Value = build.full_like(bits, value)
        return result

    up = build.lt(x, y)
    if dtype == ml_dtypes.float8_e8m0fnu:
        # All numbers of this format are positive.
        moved = build.add(bits, build.select(up, full(1), full(-1)))
    else:
        # The bit pattern grows by one away from zero and falls by one toward zero.
        zero, sign = build.full_like(x, 0), full(int(np.iinfo(integer).min))
        outwards = build.eq(up, build.gt(x, zero))
        stepped = build.add(bits, build.select(outwards, full(1), full(-1)))
        from_zero = build.or_(build.and_(target, sign), full(1))
        moved = build.select(build.eq(x, zero), from_zero, stepped)
        if not np.signbit(np.array(-0.0, dtype)):
            # In place of -0, this format has a nan.
            moved = build.select(build.eq(moved, sign), full(0), moved)
    reached = build.select(build.eq(x, y), target, moved)
    is_nan = build.or_(build.ne(x, x), build.ne(y, y))
    nan = int(np.array(np.nan, dtype).view(integer))
    following: ir.Value = build.select(is_nan, full(nan), reached)
    return following


def _lower_nextafter(inst: Instance) -> list[ir.Value]:
    x, y = inst.operands
    dtype = inst.type.dtype
    integer = np.dtype(f"int{8 * dtype.itemsize}")
    bits, target = (lowered.bitcast_convert(v, dtype=integer) for v in (x, y))
    following = following_bits(lowered, x, y, bits, target, dtype)
    return [lowered.bitcast_convert(following, dtype=dtype)]


nextafter = binary(
    "nextafter",
    doc="the next representable number after x toward y; y if they are equal",
    cost=Cost.OPERATION,
    dtypes=FLOATING,
    evaluate=_evaluate_nextafter,
    rule=_jvp_nextafter,
    linear=multilinear(0),
    transpose=lambda inst, cts, linear: [cts[0], None],
    lower=_lower_nextafter,
)

# -------------------------------------------------------------------------------- reduce_precision


def _reduce_precision_dtype(dtype: np.dtype, exponent_bits: int, mantissa_bits: int) -> np.dtype:
    require(
        exponent_bits >= 1 and mantissa_bits >= 0,
        "reduce_precision",
        "a format needs at least one exponent bit and a non-negative number of mantissa bits, got "
        f"exponent_bits={exponent_bits}, mantissa_bits={mantissa_bits}",
    )
    return dtype


def _evaluate_reduce_precision(x: np.ndarray, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    dtype = x.dtype
    if dtype.itemsize == 1:
        # The 8-bit formats differ in encoding (some lack infinities or -0): round in f32.
        wide = _evaluate_reduce_precision(x.astype(np.float32), exponent_bits, mantissa_bits)
        return wide.astype(dtype)
    info = ml_dtypes.finfo(dtype)
    word = np.dtype(f"uint{info.bits}").type
    bits = x.view(word)
    sign = bits & word(1 << (info.bits - 1))
    magnitude = bits ^ sign
    infinity = word(((1 << info.nexp) - 1) << info.nmant)
    is_nan = magnitude > infinity
    if mantissa_bits < info.nmant:
        dropped = info.nmant - mantissa_bits
        half = word((1 << (dropped - 1)) - 1)
        odd = (magnitude >> word(dropped)) & word(1)
        magnitude = (magnitude + half + odd) & ~word((1 << dropped) - 1)
    if exponent_bits < info.nexp:
        bias = (1 << (info.nexp - 1)) - 1
        largest = (1 << (exponent_bits - 1)) - 1
        exponent = magnitude >> word(info.nmant)
        magnitude = np.where(exponent > word(bias + largest), infinity, magnitude)
        magnitude = np.where(exponent <= word(bias - largest), word(0), magnitude)
    return np.where(is_nan, x, (sign | magnitude).view(dtype))


def _transpose_reduce_precision(
    inst: Instance, cotangents: Tangents, linear: list[bool]
) -> list[ir.Value | None]:
    return [ops.reduce_precision(cotangents[0], **inst.params)]


def _lower_reduce_precision(inst: Instance) -> list[ir.Value]:
    i32 = ir.IntegerType.get_signless(32)
    bits = {name: ir.IntegerAttr.get(i32, n) for name, n in inst.params.items()}
    return stablehlo("reduce_precision", inst.operands, inst.result_types, **bits)


reduce_precision = unary(
    "reduce_precision",
    doc="x rounded to a format of fewer bits: ties to even, overflow to infinity, underflow to 0",
    cost=Cost.OPERATION,
    dtypes=FLOATING,
    evaluate=_evaluate_reduce_precision,
    rule=jvp_linear,
    linear=linear(),
    transpose=_transpose_reduce_precision,
    stablehlo=("reduce_precision",),
    lower=widen_bytes(_lower_reduce_precision),
    result_dtype=_reduce_precision_dtype,
    attributes={"exponent_bits": INT, "mantissa_bits": INT},
    example='%r = "gnomon.reduce_precision"(%x) '
    "{exponent_bits = 5 : i64, mantissa_bits = 10 : i64} : (tensor<4xf32>) -> tensor<4xf32>",
)
