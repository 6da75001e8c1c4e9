"""Loops: ``gnomon.while`` in a form that IREE compiles rightly.

- A carry that every iteration passes on becomes a constant of the loop.
- A condition that has effects may not be computed twice, which `guards` does: it becomes a
  carry, computed before the loop and at the end of each iteration.

What else IREE needs of a loop is done when it is StableHLO: see `host_control` and `guards`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.dialects.body import Body
from gnomon.dialects.contract import Instance, has_effects
from gnomon.dialects.control_flow import while_
from gnomon.dialects.control_flow.bodies import split
from gnomon.dialects.emit import constant, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, type_of

__all__ = ["legalize_while"]

_FLAG = TensorType((), np.dtype(np.int32))


def legalize_while(inst: Instance) -> Sequence[ir.Value]:
    """The rule of ``gnomon.while``."""
    if any(map(has_effects, inst.bodies[0].operations)):
        return _with_carried_condition(inst)
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
    if any(has_effects(op) for part in inst.bodies for op in part.operations):
        # A loop whose results nobody uses stays for its effects. Where IREE knows how it starts, it
        # tries to simplify it for ever (``maximum iteration count exceeded``).
        state = ops.optimization_barrier(*state)

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


def _with_carried_condition(inst: Instance) -> Sequence[ir.Value]:
    """The loop whose condition is a carry, in its legal form.

    The carry is an integer: IREE compiles no loop that carries a bool.
    """
    for_cond, for_body, carry = split(
        inst.operands, inst.params["cond_consts"], inst.params["body_consts"]
    )
    cond, body = inst.bodies

    def test(*arguments: ir.Value) -> ir.Value:
        return ops.convert(cond.inline(arguments)[0], dtype=_FLAG.dtype)

    def emit_cond(running: ir.Value, *state: ir.Value) -> list[ir.Value]:
        return [ops.ne(running, constant(np.zeros((), _FLAG.dtype)))]

    def emit_body(*arguments: ir.Value) -> list[ir.Value]:
        cond_values, body_values, _, state = split(arguments, len(for_cond), len(for_body), 1)
        new = body.inline([*body_values, *state])
        return [test(*cond_values, *new), *new]

    types = [type_of(v) for v in carry]
    operands = [*for_cond, *for_body, test(*for_cond, *carry), *carry]
    loop = Instance(
        while_,
        operands,
        [type_of(v) for v in operands],
        [_FLAG, *types],
        {"cond_consts": 0, "body_consts": len(for_cond) + len(for_body)},
        [
            Body.build([_FLAG, *types], emit_cond),
            Body.build([type_of(v) for v in operands], emit_body),
        ],
    )
    return legalize_while(loop)[1:]
