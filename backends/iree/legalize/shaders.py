"""Functions that shaders lack, in a StableHLO module.

SPIR-V has no ``log1p``: IREE takes ``log(1 + x)``, which loses all digits of a small argument. Many
lowerings end in that function, so it is replaced when everything is lowered.
"""

from __future__ import annotations

from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import lowered
from gnomon.dialects.elementwise.expansion import literal
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_floating, type_of

__all__ = ["legalize_for_shaders"]


def legalize_for_shaders(module: ir.Module, target: Target) -> None:
    """Rewrite a StableHLO module in place, where the target's code is shaders."""
    if target.code not in ("spirv", "msl"):
        return
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "stablehlo.log_plus_one" and is_floating(type_of(op.results[0]).dtype):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(_log1p(op.operands[0]))
        op.erase()


# 2 atanh(s) / s, in powers of s squared: its error is below the spacing of f32 up to s = 1/3.
_SERIES = tuple(2 / (2 * k + 1) for k in range(9))


def _log1p(x: ir.Value) -> ir.Value:
    """``2 atanh(x / (2 + x))`` for small arguments, ``log(1 + x)`` for others.

    No difference is taken in which roundings would have to cancel: a driver may simplify that.
    """
    small = lowered.div(x, lowered.add(x, literal(x, 2)))
    square = lowered.mul(small, small)
    series = literal(x, _SERIES[-1])
    for coefficient in reversed(_SERIES[:-1]):
        series = lowered.add(lowered.mul(series, square), literal(x, coefficient))
    near = lowered.mul(small, series)
    far = lowered.log(lowered.add(x, literal(x, 1)))
    return lowered.select(lowered.lt(lowered.abs(x), literal(x, 0.5)), near, far)
