"""Cumulative ops of complex numbers whose combination is a function.

IREE 3.13 does not compile windows of complex numbers with functions in their region: cumlogsumexp
of those is a parallel scan here. The real ones compile as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.backends.iree.legalize.rewriting import Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.cumulative import logaddexp, prefix_scan
from gnomon.dialects.elementwise.expansion import emitted
from gnomon.dialects.emit import ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_complex

__all__ = ["RULES"]


def _cumlogsumexp(inst: Instance) -> Sequence[ir.Value] | None:
    if not is_complex(inst.type.dtype):
        return None

    def combine(before: Sequence[ir.Value], after: Sequence[ir.Value]) -> list[ir.Value]:
        return [logaddexp(emitted, *before, *after)]

    axis, reverse = inst.params["axis"], inst.params["reverse"]
    x = ops.rev(inst.operand, dims=(axis,)) if reverse else inst.operand
    (result,) = prefix_scan(combine, [x], axis)
    return [ops.rev(result, dims=(axis,)) if reverse else result]


RULES: dict[str, Rule] = {"gnomon.cumlogsumexp": _cumlogsumexp}
