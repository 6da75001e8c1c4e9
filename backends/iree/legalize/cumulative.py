"""Cumulative ops of complex numbers whose combination is a function.

IREE 3.13 does not compile windows of complex numbers with functions in their region: cumlogsumexp
of those is a parallel scan here. The real ones compile as they are. For targets without choices
between complex numbers it crashes on their products and extrema too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gnomon.backends.iree.targets import Capabilities
from gnomon.backends.rewriting import Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.cumulative import logaddexp, prefix_scan
from gnomon.dialects.elementwise.expansion import emitted
from gnomon.dialects.emit import ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_complex

__all__ = ["cumulative_rules"]


def _scanned(combine: Callable[[ir.Value, ir.Value], ir.Value]) -> Rule:
    def rule(inst: Instance) -> Sequence[ir.Value] | None:
        if not is_complex(inst.type.dtype):
            return None
        axis, reverse = inst.params["axis"], inst.params["reverse"]
        x = ops.rev(inst.operand, dims=(axis,)) if reverse else inst.operand
        (result,) = prefix_scan(lambda a, b: [combine(*a, *b)], [x], axis)
        return [ops.rev(result, dims=(axis,)) if reverse else result]

    return rule


_LOGSUMEXP: dict[str, Rule] = {
    "gnomon.cumlogsumexp": _scanned(lambda before, after: logaddexp(emitted, before, after))
}
_OTHERS: dict[str, Rule] = {
    "gnomon.cumprod": _scanned(ops.mul),
    "gnomon.cummax": _scanned(ops.max),
    "gnomon.cummin": _scanned(ops.min),
}


def cumulative_rules(capabilities: Capabilities) -> dict[str, Rule]:
    """The rules of this room for a target."""
    return _LOGSUMEXP if capabilities.complex_selects else {**_LOGSUMEXP, **_OTHERS}
