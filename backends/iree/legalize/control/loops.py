"""Loops: ``gnomon.while`` where a carry that every iteration passes on is a constant of the loop.

What else IREE needs of a loop is done when it is StableHLO: see `forms`.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, always
from gnomon.dialects.body import Body
from gnomon.dialects.contract import Instance
from gnomon.dialects.control_flow import while_
from gnomon.dialects.control_flow.bodies import split
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["LEGALIZATIONS"]


def legalize_while(inst: Instance) -> Sequence[ir.Value]:
    """The rule of ``gnomon.while``."""
    for_cond, for_body, carry = split(
        inst.operands, inst.params["cond_consts"], inst.params["body_consts"]
    )
    cond, body = inst.bodies
    passed = body.arguments[len(for_body) :]
    varies = [new != old for new, old in zip(body.results, passed, strict=True)]
    moving = [i for i, v in enumerate(varies) if v]
    still = [i for i, v in enumerate(varies) if not v]
    if not moving:
        # The condition never changes: the loop runs not at all or forever.
        moving, still = list(range(len(carry))), []

    constants = [carry[i] for i in still]
    state = [carry[i] for i in moving]

    def arrange(fixed: Sequence[ir.Value], moved: Sequence[ir.Value]) -> list[ir.Value]:
        """All carries in their order."""
        values = dict(zip([*still, *moving], [*fixed, *moved], strict=True))
        return [values[i] for i in range(len(carry))]

    def emit_cond(*arguments: ir.Value) -> list[ir.Value]:
        consts, fixed, moved = split(arguments, len(for_cond), len(still))
        return cond.inline([*consts, *arrange(fixed, moved)])

    def emit_body(*arguments: ir.Value) -> list[ir.Value]:
        consts, fixed, moved = split(arguments, len(for_body), len(still))
        new = body.inline([*consts, *arrange(fixed, moved)])
        return [new[i] for i in moving]

    cond_types = [type_of(v) for v in (*for_cond, *constants, *state)]
    body_types = [type_of(v) for v in (*for_body, *constants, *state)]
    results = while_.build(
        [*for_cond, *constants, *for_body, *constants, *state],
        {
            "cond_consts": len(for_cond) + len(constants),
            "body_consts": len(for_body) + len(constants),
        },
        [Body.build(cond_types, emit_cond), Body.build(body_types, emit_body)],
    )
    return arrange(constants, results)


LEGALIZATIONS = (
    Legalization(
        name="constant-carries",
        stage=Stage.REWRITE,
        kind=Kind.REFUSED,
        doc="make carries that each iteration passes on constants of the loop",
        upstream="IREE 3.13 prunes the two regions of a loop differently, and fails to verify it",
        rules=always({"gnomon.while": legalize_while}),
    ),
)
