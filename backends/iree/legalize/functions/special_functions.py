"""Functions that IREE computes inexactly, wrongly at their edges, or not at all.

The faults of IREE 3.13, and the remedies:

- sin, cos and tan of f32 lose more digits the larger the argument is. Here it is multiplied by
  1/(2 pi) with enough digits for every f32, and the reduced angle goes into a polynomial in f64.
- cbrt of f64 does not compile, and cbrt of f32 is wrong at zero. Here it is Halley's iteration.
- exp2, tanh, arc tangents and functions derived from them lose up to 67 units in the last place,
  and in f64 they call a library: see `exponentials`, `logarithms` and `arcs`.
- pow gives nan for negative bases. Here it is the power of the magnitude, with selects for the
  sign and the edge cases.

The 16-bit formats are computed in f32 and rounded once. On targets without f64, functions of f32
use only f32 and integers: see `functions_in_f32`. On targets that link no library, the functions of
f64 for which the compiler would call one are written out too. `tools/accuracy` measures each
function in each of these forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from gnomon.backends.iree.legalize.functions import (
    angles,
    arcs,
    exponentials,
    functions_in_f32,
    logarithms,
)
from gnomon.backends.iree.legalize.functions.conversions import rounded
from gnomon.backends.iree.legalize.functions.double_length import polynomial, positive_power
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets, always
from gnomon.backends.iree.legalize.refusals import refuse
from gnomon.backends.iree.targets import Target
from gnomon.backends.rewriting import Outlined, Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import FLOATING, is_floating, type_of

__all__ = ["LEGALIZATIONS"]

_F32 = np.dtype(np.float32)
_F64 = np.dtype(np.float64)

Emit: TypeAlias = "Callable[..., ir.Value]"


def _in_f32(emit: Emit) -> Rule:
    """The rule for f32 and the 16-bit formats, from a function that is written for f32."""

    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        dtype = inst.type.dtype
        if not is_floating(dtype) or dtype.itemsize not in (2, 4) or inst.type.size == 0:
            return None
        return [rounded(emit(*(convert(x, _F32) for x in inst.operands)), dtype)]

    return rule


def _in_f32_or_f64(emit: Emit) -> Rule:
    """The same rule, and one for f64, from a function that is written for both."""
    narrow = _in_f32(emit)

    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        if inst.type.dtype == _F64 and inst.type.size:
            return [emit(*inst.operands)]
        return narrow(inst)

    return rule


def _has_sign(x: ir.Value) -> ir.Value:
    """Whether the sign bit is set, which includes -0 and some nans."""
    bits = ops.bitcast_convert(x, dtype=np.dtype(f"i{type_of(x).dtype.itemsize}"))
    return ops.lt(bits, full_like(bits, 0))


def _with_sign(magnitude: ir.Value, sign: ir.Value) -> ir.Value:
    return ops.select(sign, ops.neg(magnitude), magnitude)


def _is_infinite(x: ir.Value) -> ir.Value:
    return ops.eq(ops.abs(x), full_like(x, np.inf))


# --------------------------------------------------------------------------------- sine and cosine

# floor(2/pi * 2**200): 200 bits of 2/pi. Below, 1/(2 pi) in pieces of 29 bits, whose products with
# the 24 bits of an f32 are exact in f64.
_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE
_PIECE_BITS = 29
_PIECES = tuple(
    math.ldexp((_TWO_OVER_PI << 1) >> (203 - _PIECE_BITS * (k + 1)) & (1 << 29) - 1, -29 * (k + 1))
    for k in range(7)
)
# Products with the later pieces are less than a turn for every f32.
_ROUNDED_PIECES = 5
# sin(2 pi t) / t as a minimax polynomial in t**2, for t up to 1/4; its error is at most 2e-11.
_SINE = (
    6.283185307046691,
    -41.34170209692564,
    81.60522369008567,
    -76.70417025049954,
    42.007797108698526,
    -14.381390588162231,
)


def _minus_nearest_integer(x: ir.Value) -> ir.Value:
    """``x`` minus the nearest integer, exactly."""
    return ops.sub(x, ops.round(x, rounding_method="TO_NEAREST_EVEN"))


def _turns(x: ir.Value) -> ir.Value:
    """``x / (2 pi)`` of an f32 value in f64, minus the nearest integer: from -1/2 to 1/2.

    It is the sum of the products with the pieces of 1/(2 pi). Each product is exact, and its whole
    turns are removed before it is added.
    """
    wide = convert(x, _F64)
    total: ir.Value | None = None
    for k, piece in reversed(list(enumerate(_PIECES))):
        product = ops.mul(wide, full_like(wide, piece))
        part = _minus_nearest_integer(product) if k < _ROUNDED_PIECES else product
        total = part if total is None else ops.add(total, part)
    assert total is not None
    return _minus_nearest_integer(total)


def _sine_up_to_quarter(turns: ir.Value) -> ir.Value:
    """The sine of an angle of at most a quarter of a turn to either side."""
    return ops.mul(turns, polynomial(ops.mul(turns, turns), _SINE))


def _sine(turns: ir.Value) -> ir.Value:
    # The sine is symmetric about a quarter turn.
    size = ops.abs(turns)
    size = ops.min(size, ops.sub(full_like(size, 0.5), size))
    return _with_sign(_sine_up_to_quarter(size), _has_sign(turns))


def _cosine(turns: ir.Value) -> ir.Value:
    return _sine_up_to_quarter(ops.sub(full_like(turns, 0.25), ops.abs(turns)))


def _identity_if_tiny(x: ir.Value, value: ir.Value) -> ir.Value:
    """``value`` as f32, or ``x`` where ``x`` is so small that the two are equal."""
    is_tiny = ops.lt(ops.abs(x), full_like(x, 2.0**-13))
    return ops.select(is_tiny, x, convert(value, _F32))


def _sin(x: ir.Value) -> ir.Value:
    return _identity_if_tiny(x, _sine(_turns(x)))


def _cos(x: ir.Value) -> ir.Value:
    return convert(_cosine(_turns(x)), _F32)


def _tan(x: ir.Value) -> ir.Value:
    turns = _turns(x)
    return _identity_if_tiny(x, ops.div(_sine(turns), _cosine(turns)))


# -------------------------------------------------------------------------------------------- cbrt

# The bits of an f64, divided by 3 and plus this, are about the bits of its cube root.
_CBRT_BITS = 0x2A9F7893 << 32
_I64 = np.dtype(np.int64)


def _subnormal(x: ir.Value, wide: np.dtype) -> tuple[ir.Value, ir.Value]:
    """Whether an f32 or f64 value is subnormal or zero, and its magnitude if it is.

    The magnitude is counted in units of the smallest positive number, in the dtype ``wide``. It is
    read from the bits, since compiled arithmetic flushes subnormal numbers to zero.
    """
    dtype = type_of(x).dtype
    info = np.finfo(dtype)
    integer = np.dtype(f"i{dtype.itemsize}")
    bits = ops.bitcast_convert(x, dtype=integer)
    bits = ops.and_(bits, full_like(bits, np.iinfo(integer).max))
    is_subnormal = ops.lt(bits, full_like(bits, 1 << info.nmant))
    return is_subnormal, convert(bits, wide)


def _cube_root(x: ir.Value) -> ir.Value:
    """Cube root of a positive normal f64 number."""
    bits = ops.bitcast_convert(x, dtype=_I64)
    third = ops.div(bits, full_like(bits, 3))
    root = ops.bitcast_convert(ops.add(third, full_like(bits, _CBRT_BITS)), dtype=_F64)
    two = full_like(root, 2)
    for _ in range(4):
        # Halley's step, as a small correction of the root, without a cube, which may overflow.
        other = ops.div(x, ops.mul(root, root))
        change = ops.div(ops.sub(other, root), ops.add(ops.mul(two, root), other))
        root = ops.add(root, ops.mul(root, change))
    return root


def _cbrt(wide: np.dtype, root_of: Emit) -> Emit:
    def cbrt(x: ir.Value) -> ir.Value:
        dtype = type_of(x).dtype
        widened = convert(x, wide)
        is_subnormal, units = _subnormal(x, wide)
        # The unit is a power of 2 (2**-149 of f32). Splitting its exponent by 3 leaves a factor
        # with an exact cube root, and a small rest that scales the magnitude.
        info = np.finfo(dtype)
        exponent = int(info.minexp - info.nmant)
        units = ops.mul(units, full_like(units, 2.0 ** (exponent % 3)))
        scaled = ops.select(is_subnormal, units, ops.abs(widened))
        is_edge = ops.or_(ops.eq(units, full_like(units, 0)), ops.not_(ops.is_finite(x)))
        scaled = ops.select(is_edge, full_like(scaled, 1), scaled)
        root = root_of(scaled)
        back = ops.mul(root, full_like(root, 2.0 ** (exponent // 3)))
        root = ops.select(is_subnormal, back, root)
        root = convert(_with_sign(root, _has_sign(widened)), dtype)
        return ops.select(is_edge, x, root)

    return cbrt


# --------------------------------------------------------------------------------------------- pow


def _wide_power(x: ir.Value, y: ir.Value) -> ir.Value:
    """The power of a positive finite number."""
    if type_of(x).dtype == _F64:
        return positive_power(x, y)
    return convert(ops.exp(ops.mul(convert(y, _F64), ops.log(convert(x, _F64)))), _F32)


def _pow(positive: Emit) -> Emit:
    def pow(x: ir.Value, y: ir.Value) -> ir.Value:
        zero, one, inf = full_like(x, 0), full_like(x, 1), full_like(x, np.inf)
        size = ops.abs(x)
        is_regular = ops.and_(ops.is_finite(size), ops.gt(size, zero))
        base = ops.select(is_regular, size, one)
        exponent = ops.select(ops.is_finite(y), y, zero)
        power = positive(base, exponent)

        # A base of zero or infinity, or an infinite exponent, gives zero or infinity.
        grows = ops.eq(ops.gt(size, one), ops.gt(y, zero))
        extreme = ops.select(grows, inf, zero)
        is_extreme = ops.or_(ops.not_(is_regular), _is_infinite(y))
        power = ops.select(is_extreme, extreme, power)

        is_whole = ops.eq(ops.floor(y), y)
        half = ops.mul(y, full_like(y, 0.5))
        is_odd = ops.and_(is_whole, ops.ne(ops.floor(half), half))
        power = _with_sign(power, ops.and_(_has_sign(x), is_odd))
        lost = ops.and_(ops.and_(ops.lt(x, zero), is_regular), ops.not_(is_whole))
        lost = ops.or_(lost, ops.or_(ops.ne(x, x), ops.ne(y, y)))
        power = ops.select(lost, full_like(x, np.nan), power)
        is_one = ops.or_(ops.eq(y, zero), ops.eq(x, one))
        is_one = ops.or_(is_one, ops.and_(ops.eq(size, one), _is_infinite(y)))
        return ops.select(is_one, one, power)

    return pow


# ----------------------------------------------------------------------------------------- tables

# Functions that are computed in the format of the argument, on all targets.
_IN_FORMAT: dict[str, Rule] = {
    "gnomon.exp": Outlined(_in_f32_or_f64(exponentials.exp)),
    "gnomon.exp2": Outlined(_in_f32_or_f64(exponentials.exp2)),
    "gnomon.expm1": Outlined(_in_f32_or_f64(exponentials.expm1)),
    "gnomon.logistic": Outlined(_in_f32_or_f64(exponentials.logistic)),
    "gnomon.sinh": Outlined(_in_f32_or_f64(exponentials.sinh)),
    "gnomon.cosh": Outlined(_in_f32_or_f64(exponentials.cosh)),
    "gnomon.tanh": Outlined(_in_f32_or_f64(exponentials.tanh)),
    "gnomon.log": Outlined(_in_f32_or_f64(logarithms.log)),
    "gnomon.log1p": Outlined(_in_f32_or_f64(logarithms.log1p)),
    "gnomon.asinh": Outlined(_in_f32_or_f64(logarithms.asinh)),
    "gnomon.acosh": Outlined(_in_f32_or_f64(logarithms.acosh)),
    "gnomon.atanh": Outlined(_in_f32_or_f64(logarithms.atanh)),
    "gnomon.asin": Outlined(_in_f32_or_f64(arcs.asin)),
    "gnomon.acos": Outlined(_in_f32_or_f64(arcs.acos)),
    "gnomon.atan": Outlined(_in_f32_or_f64(arcs.atan)),
    "gnomon.atan2": Outlined(_in_f32_or_f64(arcs.atan2)),
}


def _from_compilers_exp(emit: Emit) -> Rule:
    return Outlined(_in_f32_or_f64(partial(emit, exp=exponentials.compilers_exp)))


def _only_f64(emit: Emit) -> Rule:
    """The rule of a function for f64 alone; for f32, the compiler's code is kept."""

    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        if inst.type.dtype != _F64 or inst.type.size == 0:
            return None
        return [emit(*inst.operands)]

    return rule


_WIDE: dict[str, Rule] = {
    **_IN_FORMAT,
    "gnomon.log": Outlined(_only_f64(logarithms.log)),
    "gnomon.exp": Outlined(_in_f32_or_f64(exponentials.compilers_exp)),
    "gnomon.logistic": _from_compilers_exp(exponentials.logistic),
    "gnomon.sinh": _from_compilers_exp(exponentials.sinh),
    "gnomon.cosh": _from_compilers_exp(exponentials.cosh),
    "gnomon.tanh": _from_compilers_exp(exponentials.tanh),
    "gnomon.sin": Outlined(_in_f32(_sin)),
    "gnomon.cos": Outlined(_in_f32(_cos)),
    "gnomon.tan": Outlined(_in_f32(_tan)),
    "gnomon.cbrt": Outlined(_in_f32_or_f64(_cbrt(_F64, _cube_root))),
    "gnomon.pow": Outlined(_in_f32_or_f64(_pow(_wide_power))),
}
_NARROW: dict[str, Rule] = {
    **_IN_FORMAT,
    "gnomon.sin": Outlined(_in_f32(angles.sine)),
    "gnomon.cos": Outlined(_in_f32(angles.cosine)),
    "gnomon.tan": Outlined(_in_f32(angles.tangent)),
    "gnomon.cbrt": Outlined(_in_f32(_cbrt(_F32, functions_in_f32.cube_root))),
    "gnomon.pow": Outlined(_in_f32(_pow(positive_power))),
}


# ------------------------------------------------------------------------------ without a library


_EXPANSIONS: dict[str, Rule] = {
    **_WIDE,
    "gnomon.sin": Outlined(_in_f32_or_f64(angles.sine)),
    "gnomon.cos": Outlined(_in_f32_or_f64(angles.cosine)),
    "gnomon.tan": Outlined(_in_f32_or_f64(angles.tangent)),
}


def _refused_in(dtypes: Sequence[np.dtype], refusal: Rule) -> Rule:
    def chosen(inst: Instance) -> Sequence[ir.Value] | None:
        if inst.type.dtype in dtypes and inst.type.size:
            return refusal(inst)
        return None

    return chosen


def _round(inst: Instance) -> Sequence[ir.Value] | None:
    dtype = inst.type.dtype
    x = convert(inst.operand, _F32)
    size = ops.abs(x)
    below = ops.floor(size)
    rest = ops.sub(size, below)
    half = full_like(x, 0.5)
    up = ops.ge(rest, half)
    if inst.params["rounding_method"] == "TO_NEAREST_EVEN":
        pairs = ops.mul(below, half)
        is_odd = ops.ne(ops.floor(pairs), pairs)
        up = ops.or_(ops.gt(rest, half), ops.and_(ops.eq(rest, half), is_odd))
    whole = ops.select(up, ops.add(below, full_like(x, 1)), below)
    return [rounded(_with_sign(whole, _has_sign(x)), dtype)]


def _without_library(target: Target) -> dict[str, Rule]:
    refusal = refuse(target, "it has no library of functions")
    return {**_EXPANSIONS, "gnomon.rem": _refused_in((_F64,), refusal)}


def _rounding_rules(target: Target) -> dict[str, Rule]:
    refusal = _refused_in(FLOATING, refuse(target, "it has no library of functions"))
    return {"gnomon.rem": refusal, "gnomon.round": _round}


_LOSES_DIGITS = (
    "IREE 3.13 loses up to 67 units in the last place, is wrong for edge cases of `pow` and "
    "`cbrt`, and does not reduce large angles"
)

LEGALIZATIONS = (
    Legalization(
        name="functions",
        stage=Stage.REWRITE,
        kind=Kind.MISCOMPILED,
        doc="write elementary functions to within a few units in the last place, f32 by way of f64",
        upstream=f"{_LOSES_DIGITS}; for f64 it calls a library, or refuses the function",
        texts=("powers", "sines_of_large_arguments", "cube_roots", "quadrants_of_atan2"),
        reproducer="`sin(3e7)` of f32 is wrong",
        targets=Targets.where(f64=True, libm=("system", "device")),
        rules=always(_WIDE),
    ),
    Legalization(
        name="functions-without-library",
        stage=Stage.REWRITE,
        kind=Kind.REFUSED,
        doc="write all elementary functions in arithmetic, those of f64 too",
        upstream=f"{_LOSES_DIGITS}; for f64 it calls a library",
        texts=("powers", "sines_of_large_arguments", "sines_of_f64"),
        reproducer="`sin` of f64 for `x86-64-v3` does not link",
        targets=Targets.where(f64=True, libm="none"),
        rules=_without_library,
    ),
    Legalization(
        name="functions-without-f64",
        stage=Stage.REWRITE,
        kind=Kind.MISCOMPILED,
        doc="write elementary functions of f32 in arithmetic of f32 and 32-bit integers",
        upstream=_LOSES_DIGITS,
        texts=("powers", "sines_of_large_arguments"),
        reproducer="`sin(3e10)` of f32 on `vulkan:portable` is 0",
        targets=Targets.where(f64=False),
        rules=always(_NARROW),
    ),
    Legalization(
        name="roundings",
        stage=Stage.REWRITE_AGAIN,
        kind=Kind.REFUSED,
        doc="round by `floor`; refuse remainders",
        upstream="IREE 3.13 calls a library to round and for remainders, and links none",
        issue="https://github.com/iree-org/iree/issues/20165",
        reproducer="`round` for `wasm32` does not link",
        targets=Targets.where(rounds=False),
        rules=_rounding_rules,
    ),
)
