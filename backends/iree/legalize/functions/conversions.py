"""Conversions that IREE compiles to a wrong value, or to a call of a missing function."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, always
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import BOOL, bfloat16, is_floating, is_integer, type_of

__all__ = ["LEGALIZATIONS", "rounded"]

_INT32 = np.dtype(np.int32)
_FLOAT16 = np.dtype(np.float16)
_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)
_COMPLEX128 = np.dtype(np.complex128)


def _to_bfloat16(x: ir.Value) -> ir.Value:
    """An f32 value rounded to bf16, with a barrier that keeps the conversion from being fused.

    LLVM fuses a conversion to f32 with a following one to bf16 into a call of ``__truncsfbf2``,
    which no library of the system provides. Our native module does, but a program for another
    machine cannot call it.
    """
    return ops.convert(ops.optimization_barrier(x)[0], dtype=bfloat16)


def rounded(x: ir.Value, dtype: np.dtype) -> ir.Value:
    """An f32 value as another floating dtype, rounded once."""
    return _to_bfloat16(x) if dtype == bfloat16 else convert(x, dtype)


def _with_digits_of_bfloat16(x: ir.Value) -> ir.Value:
    """An f32 value rounded to the numbers that bf16 has, by its bits."""
    bits = ops.bitcast_convert(x, dtype=_INT32)
    last = ops.shift_right_logical(bits, full_like(bits, 16))
    half = ops.add(ops.and_(last, full_like(bits, 1)), full_like(bits, (1 << 15) - 1))
    kept = ops.and_(ops.add(bits, half), full_like(bits, -1 << 16))
    return ops.select(ops.ne(x, x), x, ops.bitcast_convert(kept, dtype=_FLOAT32))


def _saturated(x: ir.Value, target: np.dtype) -> ir.Value:
    """A float as an integer: values out of range become the nearest limit, and nan becomes 0.

    The machine's instructions leave these cases undefined.
    """
    source = type_of(x).dtype
    if source.itemsize < _FLOAT32.itemsize:
        x, source = convert(x, _FLOAT32), _FLOAT32
    info = ml_dtypes.iinfo(target)
    # As floats the bounds round away from zero, so a value converts only strictly between them.
    low, high = (full_like(x, float(n)) for n in (info.min, info.max))
    inside = ops.and_(ops.gt(x, low), ops.lt(x, high))
    converted = ops.convert(ops.select(inside, x, full_like(x, 0)), dtype=target)
    is_above = ops.ge(x, high)
    is_below = ops.le(x, low)
    converted = ops.select(is_above, full_like(converted, info.max), converted)
    return ops.select(is_below, full_like(converted, info.min), converted)


def _into_float16(x: ir.Value) -> ir.Value:
    """An f64 value as f16, by way of f32 where the result is subnormal.

    The direct conversion gives zero for these. f32 has more than twice the digits of a subnormal
    f16, so that rounding twice gives what rounding once would.
    """
    is_small = ops.lt(ops.abs(x), full_like(x, float(np.finfo(np.float16).tiny)))
    by_f32 = convert(convert(x, _FLOAT32), _FLOAT16)
    return ops.select(is_small, by_f32, ops.convert(x, dtype=_FLOAT16))


def _into_number(inst: Instance) -> Sequence[ir.Value] | None:
    x = inst.operand
    source, target = type_of(x).dtype, inst.type.dtype
    if is_integer(target) and is_floating(source):
        return [_saturated(x, target)]
    if target == _FLOAT16 and source == _FLOAT64:
        return [_into_float16(x)]
    return None


def _into_bfloat16(inst: Instance) -> Sequence[ir.Value] | None:
    x = inst.operand
    source = type_of(x).dtype
    unfused = is_integer(source) or source in (BOOL, _FLOAT64)
    if inst.type.dtype != bfloat16 or not unfused:
        return None
    return [_to_bfloat16(ops.convert(x, dtype=_FLOAT32))]


def _exactly_into_bfloat16(inst: Instance) -> Sequence[ir.Value] | None:
    """A conversion that the user asks for: its result is rounded wherever it is used."""
    x = inst.operand
    source = type_of(x).dtype
    if inst.type.dtype != bfloat16 or not (is_floating(source) or is_integer(source)):
        return None
    # The bits are between this conversion and others, so it needs no barrier.
    return [ops.convert(_with_digits_of_bfloat16(convert(x, _FLOAT32)), dtype=bfloat16)]


def _iota(inst: Instance) -> Sequence[ir.Value] | None:
    if inst.type.dtype != bfloat16:
        return None
    return [_to_bfloat16(ops.iota(**(inst.params | {"dtype": _FLOAT32})))]


LEGALIZATIONS = (
    Legalization(
        name="saturating-conversions",
        stage=Stage.REWRITE,
        kind=Kind.MISCOMPILED,
        doc="saturate conversions of floats to integers, and round conversions of f64 to f16 once",
        upstream="IREE 3.13 gives arbitrary integers for nan, infinities and values out of range, "
        "and zero for f64 values that are subnormal in f16",
        texts=("conversions_of_f64_to_f16",),
        reproducer="infinity as int32 is not the largest int32",
        rules=always({"gnomon.convert": _into_number}),
    ),
    Legalization(
        name="rounded-conversions",
        stage=Stage.DECOMPOSE,
        kind=Kind.MISCOMPILED,
        doc="round to bf16 before a conversion to it",
        upstream="IREE 3.13 drops a conversion to bf16 and back to f32 in one kernel",
        texts=("conversions_to_bf16_and_back",),
        reproducer="`x[:1].astype(bfloat16).astype(float32)` is not rounded",
        rules=always({"gnomon.convert": _exactly_into_bfloat16}),
    ),
    Legalization(
        name="bfloat16-conversions",
        stage=Stage.REWRITE_AGAIN,
        kind=Kind.REFUSED,
        doc="convert integers and f64 to bf16 by way of f32 and integers",
        upstream="IREE 3.13 calls `__truncsfbf2` and `__truncdfbf2`, which nothing provides",
        issue="https://github.com/iree-org/iree/issues/13499",
        texts=("conversions_of_integers_to_bf16",),
        reproducer="int32 to bf16 for `x86-64-v3` does not link",
        rules=always({"gnomon.convert": _into_bfloat16, "gnomon.iota": _iota}),
    ),
)
