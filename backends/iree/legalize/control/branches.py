"""Branches: if all are cheap, all are computed, and the result is selected.

IREE chooses the branch of a ``stablehlo.case`` on the host, which waits for the index and keeps the
branches from being fused with the program around them. Inside loops, IREE also fails to schedule
some branches (``failed to solve for timepoint coverage``, seen for the gradient of a scan with a
cond).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, always
from gnomon.dialects.body import Body
from gnomon.dialects.contract import Instance, has_effects, lookup
from gnomon.dialects.emit import broadcast_scalar, constant, ops
from gnomon.dialects.mlir import ir
from gnomon.passes.cost import estimate

__all__ = ["LEGALIZATIONS"]

# Up to this many arithmetic operations in all branches, computing all of them is cheaper
# than deciding on the host.
_CHEAP_FLOPS = 1e5


def _must_not_be_speculated(body: Body) -> bool:
    """Whether a body must run only when it is chosen: it has control flow or effects."""
    return any(lookup(op).is_control_flow or has_effects(op) for op in body.operations)


def _switch(inst: Instance) -> Sequence[ir.Value] | None:
    if any(_must_not_be_speculated(body) for body in inst.bodies):
        return None
    if sum(estimate(body).operations for body in inst.bodies) > _CHEAP_FLOPS:
        return None
    index, *operands = inst.operands
    results = inst.bodies[0].inline(operands)
    for i, body in enumerate(inst.bodies[1:], start=1):
        # An index below zero chooses the first branch, and one that is too large the last.
        chosen = ops.ge(index, constant(np.asarray(i, np.int32)))
        results = [
            ops.select(broadcast_scalar(chosen, type_.shape), new, old)
            for new, old, type_ in zip(
                body.inline(operands), results, inst.result_types, strict=True
            )
        ]
    return results


LEGALIZATIONS = (
    Legalization(
        name="cheap-branches",
        stage=Stage.REWRITE,
        kind=Kind.SLOW,
        doc="compute all branches and select the result, if all are cheap",
        upstream="IREE 3.13 decides on the host, which waits for the index, and fails to schedule "
        "some branches in loops (``failed to solve for timepoint coverage``)",
        reproducer="three branches of one operation each take five kernels instead of one",
        rules=always({"gnomon.switch": _switch}),
    ),
)
