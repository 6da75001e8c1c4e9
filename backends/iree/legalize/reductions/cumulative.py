"""Cumulative ops of complex numbers, as parallel scans.

IREE 3.13 does not compile windows of complex numbers whose region contains elementary functions, as
that of cumlogsumexp does. For targets without complex selects, it also crashes on cumulative
products and extrema of complex numbers. Windows of real numbers compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets, always
from gnomon.backends.rewriting import Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.cumulative import logaddexp, prefix_scan
from gnomon.dialects.elementwise.expansion import emitted
from gnomon.dialects.emit import ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_complex

__all__ = ["LEGALIZATIONS"]


def _scanned(combine: Callable[[ir.Value, ir.Value], ir.Value]) -> Rule:
    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        if not is_complex(inst.type.dtype):
            return None
        axis, reverse = inst.params["axis"], inst.params["reverse"]
        x = ops.rev(inst.operand, dims=(axis,)) if reverse else inst.operand
        (result,) = prefix_scan(lambda a, b: [combine(*a, *b)], [x], axis)
        return [ops.rev(result, dims=(axis,)) if reverse else result]

    return rule


LEGALIZATIONS = (
    Legalization(
        name="complex-cumulative-logsumexp",
        stage=Stage.DECOMPOSE,
        kind=Kind.REFUSED,
        doc="write cumlogsumexp of complex numbers as a parallel scan",
        upstream="IREE 3.13 refuses windows of complex numbers whose region rounds a number",
        texts=("roundings_in_windows",),
        reproducer="`cumlogsumexp` of three complex numbers does not compile",
        rules=always(
            {
                "gnomon.cumlogsumexp": _scanned(
                    lambda before, after: logaddexp(emitted, before, after)
                )
            }
        ),
    ),
    Legalization(
        name="complex-cumulative-products",
        stage=Stage.DECOMPOSE,
        kind=Kind.REFUSED,
        doc="write cumulative products and extrema of complex numbers as parallel scans",
        upstream="IREE 3.13 crashes on them for targets without selects of complex numbers",
        texts=("windows_of_complex_numbers_on_vulkan",),
        reproducer="`cumprod` of complex64 for `vulkan:portable` crashes the compiler",
        targets=Targets.where(complex_selects=False),
        rules=always(
            {
                "gnomon.cumprod": _scanned(ops.mul),
                "gnomon.cummax": _scanned(ops.max),
                "gnomon.cummin": _scanned(ops.min),
            }
        ),
    ),
)
