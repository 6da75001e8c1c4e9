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
use only f32 and integers. On targets that link no library, the functions of f64 for which the
compiler would call one are written out too. `tools/accuracy` measures each function in each of
these forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from gnomon.backends.functions import exponentials, logarithms, sines_in_f64
from gnomon.backends.functions.cube_roots import cbrt_in
from gnomon.backends.functions.double_length import positive_power
from gnomon.backends.functions.powers import pow_by, power_in_f64
from gnomon.backends.functions.rules import ARITHMETIC, Emit, in_f32, in_f32_or_f64
from gnomon.backends.functions.signs import has_sign, with_sign
from gnomon.backends.iree.legalize.functions.conversions import rounded
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets, always
from gnomon.backends.iree.legalize.refusals import refuse
from gnomon.backends.iree.targets import Target
from gnomon.backends.rewriting import Outlined, Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import FLOATING

__all__ = ["LEGALIZATIONS"]

_F32 = np.dtype(np.float32)
_F64 = np.dtype(np.float64)

# ----------------------------------------------------------------------------------------- tables


def _of_format(emit: Emit) -> Rule:
    return Outlined(in_f32_or_f64(emit, rounded))


def _of_f32(emit: Emit) -> Rule:
    return Outlined(in_f32(emit, rounded))


# Functions that are computed in the format of the argument, on all targets.
_IN_FORMAT = {f"gnomon.{name}": _of_format(emit) for name, emit in ARITHMETIC.items()}


def _from_compilers(exp: Emit, emit: Emit) -> Rule:
    return _of_format(partial(emit, exp=exp))


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
    "gnomon.exp": _of_format(exponentials.compilers_exp),
    "gnomon.logistic": _from_compilers(exponentials.compilers_decay, exponentials.logistic),
    "gnomon.sinh": _from_compilers(exponentials.compilers_exp, exponentials.sinh),
    "gnomon.cosh": _from_compilers(exponentials.compilers_exp, exponentials.cosh),
    "gnomon.tanh": _from_compilers(exponentials.compilers_exp, exponentials.tanh),
    "gnomon.sin": _of_f32(sines_in_f64.sin),
    "gnomon.cos": _of_f32(sines_in_f64.cos),
    "gnomon.tan": _of_f32(sines_in_f64.tan),
    "gnomon.cbrt": _of_format(cbrt_in(_F64)),
    "gnomon.pow": _of_format(pow_by(power_in_f64(ops.exp, ops.log))),
}
_NARROW: dict[str, Rule] = {
    **_IN_FORMAT,
    "gnomon.cbrt": _of_f32(cbrt_in(_F32)),
    "gnomon.pow": _of_f32(pow_by(partial(positive_power, exp=ops.exp))),
}


# ------------------------------------------------------------------------------ without a library


_EXPANSIONS: dict[str, Rule] = {
    **_WIDE,
    "gnomon.sin": _IN_FORMAT["gnomon.sin"],
    "gnomon.cos": _IN_FORMAT["gnomon.cos"],
    "gnomon.tan": _IN_FORMAT["gnomon.tan"],
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
    return [rounded(with_sign(whole, has_sign(x)), dtype)]


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
        doc="write elementary functions to within a few units in the last place; sines, cube roots "
        "and powers of f32 by way of f64",
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
