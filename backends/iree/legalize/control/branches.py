"""Branches: where all are cheap, all are computed and the result selected.

IREE runs a ``stablehlo.case`` by a decision on the host, which splits the program around it into
kernels of their own and waits for the index. Inside of loops it also fails to schedule some of them
(``failed to solve for timepoint coverage``, seen for the gradient of a scan with a cond).
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

# The number of arithmetic operations in all branches together up to which it is cheaper to compute
# them all than to decide on the host.
_CHEAP_FLOPS = 1e5


def _must_be_chosen(body: Body) -> bool:
    """Whether a body is more than arithmetic: it decides or calls Python in turn."""
    return any(lookup(op).is_control_flow or has_effects(op) for op in body.operations)


def _switch(inst: Instance) -> Sequence[ir.Value] | None:
    if any(_must_be_chosen(body) for body in inst.bodies):
        return None
    if sum(estimate(body).flops for body in inst.bodies) > _CHEAP_FLOPS:
        return None
    index, *operands = inst.operands
    results = inst.bodies[0].inline(operands)
    for i, body in enumerate(inst.bodies[1:], start=1):
        # An index below zero means the first branch, and one that is too large the last.
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
        doc="compute all branches and select the result, where all are cheap",
        upstream="IREE 3.13 decides on the host, waits for the index, and inside of loops refuses "
        "some branches (``failed to solve for timepoint coverage``)",
        reproducer="three branches of one operation each take five kernels instead of one",
        rules=always({"gnomon.switch": _switch}),
    ),
)
