"""Special functions, expanded before everything else is legalized.

Their algorithms contain loops and elementary functions that must be legalized in turn, so the
expansion comes first. Incomplete gamma and beta functions need f64; for targets without it, Python
computes them, or they are refused where it cannot be called. Series that lose digits in f32 are
computed in f64 on targets that have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from gnomon.backends.iree.legalize.functions.conversions import rounded
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.legalize.refusals import refuse
from gnomon.backends.iree.targets import Target
from gnomon.backends.rewriting import Outlined, Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.elementwise.expansion import (
    SERIES,
    WITH_LOOPS,
    Series,
    emitted,
    namespace_of_loops,
)
from gnomon.dialects.emit import convert, ops, zeros
from gnomon.dialects.host_call import call_on_host
from gnomon.dialects.mlir import ir

__all__ = ["LEGALIZATIONS", "integral_rules", "series_rules"]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def _expanded(algorithm: Callable[..., ir.Value]) -> Rule:
    def rule(inst: Instance) -> Sequence[ir.Value]:
        if inst.type.size == 0:
            return [zeros(inst.type)]
        dtype = inst.type.dtype
        loops = namespace_of_loops(emitted, dtype)
        value = algorithm(emitted, loops, *(convert(x, _F64) for x in inst.operands))
        return [value if dtype == _F64 else rounded(convert(value, _F32), dtype)]

    return rule


class _RoundedToF32:
    """The dialect's ops on f64, for results that are rounded to f32 or less.

    Such results need neither corrections by rounding errors nor a power with all the digits of f64:
    for a non-negative number, `exp(y log(x))` is accurate enough, with a third of the code.
    """

    keeps_errors = False

    def __getattr__(self, name: str) -> Callable[..., ir.Value]:
        return cast("Callable[..., ir.Value]", getattr(emitted, name))

    def pow(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """``x ** y`` for a non-negative ``x``."""
        return ops.exp(ops.mul(y, ops.log(x)))


def _series(series: Series, *, f64: bool) -> Rule:
    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        dtype = inst.type.dtype
        if inst.type.size == 0:
            return [zeros(inst.type)]
        wide = _F64 if dtype == _F64 or (series.wide and f64) else _F32
        operands = list(inst.operands)
        if series.first is not None:
            own = _F64 if dtype == _F64 else _F32
            operands.append(series.first(emitted, *(convert(x, own) for x in operands)))
        namespace = _RoundedToF32() if wide != dtype and wide == _F64 else emitted
        value = series.algorithm(namespace, *(convert(x, wide) for x in operands))
        return [value if dtype == wide else rounded(convert(value, _F32), dtype)]

    return Outlined(rule)


def series_rules(target: Target) -> dict[str, Rule]:
    """The rules of series and polynomials for a target."""
    return {name: _series(series, f64=target.capabilities.f64) for name, series in SERIES.items()}


def integral_rules(target: Target) -> dict[str, Rule]:
    """The rules of incomplete gamma and beta functions for a target."""
    capabilities = target.capabilities
    if capabilities.f64:
        return {name: _expanded(algorithm) for name, algorithm in WITH_LOOPS.items()}
    if capabilities.host_calls:
        return dict.fromkeys(WITH_LOOPS, call_on_host)
    reason = "it is computed in f64, and its programs cannot call Python"
    return dict.fromkeys(WITH_LOOPS, refuse(target, reason))


LEGALIZATIONS = (
    Legalization(
        name="integrals",
        stage=Stage.DECOMPOSE,
        kind=Kind.REFUSED,
        doc="expand incomplete gamma and beta functions in f64, or leave them to Python",
        upstream="IREE 3.13 has no such functions, and compiles few of their loops",
        no_report="StableHLO has no such functions",
        reproducer="`gammainc` for `vulkan:portable` does not compile",
        rules=integral_rules,
    ),
    Legalization(
        name="series",
        stage=Stage.DECOMPOSE,
        kind=Kind.INACCURATE,
        doc="expand special functions by their series before the functions in them are rewritten",
        upstream="IREE 3.13 loses digits in the elementary functions that the series are made of",
        texts=("sines_of_large_arguments", "logarithms_near_one"),
        reproducer="`digamma` of f32 loses digits next to its poles",
        rules=series_rules,
    ),
)
