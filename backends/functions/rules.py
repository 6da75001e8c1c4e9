"""Rules that rewrite elementary functions as arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from gnomon.backends.functions import angles, arcs, exponentials, logarithms, sines_in_f64
from gnomon.backends.functions.cube_roots import cbrt_in
from gnomon.backends.functions.powers import pow_by, power_in_f64
from gnomon.backends.rewriting import Outlined, Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import convert
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_floating

__all__ = ["ARITHMETIC", "Emit", "Rounded", "arithmetic_rules", "in_f32", "in_f32_or_f64"]

_F32 = np.dtype(np.float32)
_F64 = np.dtype(np.float64)

Emit: TypeAlias = "Callable[..., ir.Value]"
Rounded: TypeAlias = "Callable[[ir.Value, np.dtype], ir.Value]"
"""Emits the conversion of an f32 value to another floating dtype, rounded once."""

# Functions of values of f32 or f64, computed in their own format.
ARITHMETIC: dict[str, Emit] = {
    "exp": exponentials.exp,
    "exp2": exponentials.exp2,
    "expm1": exponentials.expm1,
    "logistic": exponentials.logistic,
    "sinh": exponentials.sinh,
    "cosh": exponentials.cosh,
    "tanh": exponentials.tanh,
    "log": logarithms.log,
    "log1p": logarithms.log1p,
    "asinh": logarithms.asinh,
    "acosh": logarithms.acosh,
    "atanh": logarithms.atanh,
    "asin": arcs.asin,
    "acos": arcs.acos,
    "atan": arcs.atan,
    "atan2": arcs.atan2,
    "sin": angles.sine,
    "cos": angles.cosine,
    "tan": angles.tangent,
}
# Functions of f32 that are shorter in arithmetic of f64.
_BY_F64: dict[str, Emit] = {
    "sin": sines_in_f64.sin,
    "cos": sines_in_f64.cos,
    "tan": sines_in_f64.tan,
}


def in_f32(emit: Emit, rounded: Rounded = convert) -> Rule:
    """The rule for f32 and the 16-bit formats, from a function that is written for f32."""

    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        dtype = inst.type.dtype
        if not is_floating(dtype) or dtype.itemsize not in (2, 4) or inst.type.size == 0:
            return None
        return [rounded(emit(*(convert(x, _F32) for x in inst.operands)), dtype)]

    return rule


def in_f32_or_f64(emit: Emit, rounded: Rounded = convert) -> Rule:
    """The same rule, and one for f64, from a function that is written for both."""
    narrow = in_f32(emit, rounded)

    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        if inst.type.dtype == _F64 and inst.type.size:
            return [emit(*inst.operands)]
        return narrow(inst)

    return rule


def arithmetic_rules() -> dict[str, Rule]:
    """The rules that leave no elementary function to a library, for a processor with f64."""
    power = power_in_f64(exponentials.exp, logarithms.log)
    own: dict[str, Emit] = {**ARITHMETIC, "cbrt": cbrt_in(_F64), "pow": pow_by(power)}

    def rule(name: str) -> Rule:
        narrow, wide = in_f32(_BY_F64.get(name, own[name])), in_f32_or_f64(own[name])

        def chosen(inst: Instance) -> Sequence[ir.Value] | None:
            return wide(inst) if inst.type.dtype == _F64 else narrow(inst)

        return Outlined(chosen)

    return {f"gnomon.{name}": rule(name) for name in own}
