"""Functions that lose the digits of small arguments, rewritten in StableHLO.

IREE computes ``log1p`` as ``log(1 + x)`` and ``expm1`` as ``exp(x) - 1`` in f64, which gives 0 for
1e-20. For SPIR-V it corrects both in f32 by rounding errors that cancel, which a driver may
simplify away: lavapipe's ``log1p`` of 1e-7 is off by a fifth. IREE's sine of f32 has an error of
6e-8 for small arguments. Many lowerings end in these functions, so they are rewritten after the
lowering.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import lowered
from gnomon.dialects.elementwise.expansion import literal
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_floating, type_of

__all__ = ["LEGALIZATIONS", "keep_small_digits"]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_SINE = "stablehlo.sine"


def keep_small_digits(module: ir.Module, target: Target) -> bool:
    """Rewrite the functions of a StableHLO module that a target computes inaccurately, in place."""
    shaders = target.code in ("spirv", "msl")
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _REWRITES:
            dtype = type_of(op.results[0]).dtype
            if op.name == _SINE:
                is_lost = dtype == _F32
            else:
                is_lost = dtype == _F64 or (shaders and is_floating(dtype))
            if is_lost:
                found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(_REWRITES[op.name](op.operands[0]))
        op.erase()
    return bool(found)


def _series(x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    total = literal(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = lowered.add(lowered.mul(total, x), literal(x, coefficient))
    return total


# 2 atanh(s) / s in powers of s**2, and (exp(x) - 1) / x in powers of x. Their errors are smaller
# than the dtype's epsilon up to s = 1/3 and x = 1/2.
_ATANH = tuple(2 / (2 * k + 1) for k in range(17))
_EXP = tuple(1 / math.factorial(k + 1) for k in range(16))
_TERMS_OF_F32 = 9


def _coefficients_for(x: ir.Value, coefficients: Sequence[float]) -> Sequence[float]:
    return coefficients if type_of(x).dtype == _F64 else coefficients[:_TERMS_OF_F32]


def _log1p(x: ir.Value) -> ir.Value:
    """``2 atanh(x / (2 + x))`` for small arguments, ``log(1 + x)`` for others.

    Neither relies on rounding errors that cancel, which a driver may simplify away.
    """
    small = lowered.div(x, lowered.add(x, literal(x, 2)))
    near = lowered.mul(small, _series(lowered.mul(small, small), _coefficients_for(x, _ATANH)))
    far = lowered.log(lowered.add(x, literal(x, 1)))
    return lowered.select(lowered.lt(lowered.abs(x), literal(x, 0.5)), near, far)


def _expm1(x: ir.Value) -> ir.Value:
    near = lowered.mul(x, _series(x, _coefficients_for(x, _EXP)))
    far = lowered.sub(lowered.exp(x), literal(x, 1))
    return lowered.select(lowered.lt(lowered.abs(x), literal(x, 0.5)), near, far)


def _sine(x: ir.Value) -> ir.Value:
    near = lowered.mul(x, _series(lowered.mul(x, x), (1, -1 / 6)))
    return lowered.select(lowered.lt(lowered.abs(x), literal(x, 1 / 32)), near, lowered.sin(x))


_REWRITES = {
    "stablehlo.log_plus_one": _log1p,
    "stablehlo.exponential_minus_one": _expm1,
    _SINE: _sine,
}


LEGALIZATIONS = (
    Legalization(
        name="small-arguments",
        stage=Stage.LOWERED,
        kind=Kind.INACCURATE,
        doc="write log1p, expm1 and sine of small arguments by their series",
        upstream="IREE 3.13 computes log1p(x) as log(1 + x) and expm1(x) as exp(x) - 1 in f64; for "
        "SPIR-V it loses digits of log1p of f32; its sine of f32 has an error of 6e-8",
        texts=("logarithms_near_one", "sines_of_small_complex_numbers"),
        reproducer="`cumlogsumexp` of f64 loses terms below 1e-16",
        run=keep_small_digits,
        needs=frozenset(_REWRITES),
    ),
)
