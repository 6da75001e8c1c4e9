"""Rules that expand special functions into loops and elementary functions.

Series that lose digits in f32 are computed in f64 on targets that have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from gnomon.backends.functions.rules import Rounded
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
from gnomon.dialects.mlir import ir

__all__ = ["integral_rules", "series_rules"]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def _expanded(algorithm: Callable[..., ir.Value], rounded: Rounded) -> Rule:
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


def _series(series: Series, rounded: Rounded, *, f64: bool) -> Rule:
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


def series_rules(*, f64: bool = True, rounded: Rounded = convert) -> dict[str, Rule]:
    """The rules of series and polynomials, on a target with or without f64."""
    return {name: _series(series, rounded, f64=f64) for name, series in SERIES.items()}


def integral_rules(rounded: Rounded = convert) -> dict[str, Rule]:
    """The rules of incomplete gamma and beta functions, on a target with f64."""
    return {name: _expanded(algorithm, rounded) for name, algorithm in WITH_LOOPS.items()}
