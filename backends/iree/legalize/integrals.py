"""Incomplete gamma and beta functions: expanded before everything else is legalized.

Their algorithms have loops, and functions in them, that IREE takes only in the forms of the other
rooms. They need f64; where a target has none, Python computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gnomon.backends.iree.legalize.conversions import rounded
from gnomon.backends.iree.legalize.refusals import refuse
from gnomon.backends.iree.targets import Target
from gnomon.backends.rewriting import Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.elementwise.expansion import WITH_LOOPS, emitted
from gnomon.dialects.emit import convert, zeros
from gnomon.dialects.host_call import call_on_host
from gnomon.dialects.mlir import ir

__all__ = ["integral_rules"]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def _expanded(algorithm: Callable[..., ir.Value]) -> Rule:
    def rule(inst: Instance) -> Sequence[ir.Value]:
        if inst.type.size == 0:
            return [zeros(inst.type)]
        dtype = inst.type.dtype
        value = algorithm(emitted, *(convert(x, _F64) for x in inst.operands))
        return [value if dtype == _F64 else rounded(convert(value, _F32), dtype)]

    return rule


def integral_rules(target: Target) -> dict[str, Rule]:
    """The rules of this room for a target."""
    capabilities = target.capabilities
    if capabilities.f64:
        return {name: _expanded(algorithm) for name, algorithm in WITH_LOOPS.items()}
    if capabilities.host_calls:
        return dict.fromkeys(WITH_LOOPS, call_on_host)
    reason = "it is computed in f64, and its programs cannot call Python"
    return dict.fromkeys(WITH_LOOPS, refuse(target, reason))
