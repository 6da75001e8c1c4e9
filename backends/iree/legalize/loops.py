"""Loops: ``gnomon.while`` in a form that IREE compiles rightly.

IREE 3.13 refuses many loops whose carries pass through, swap places or stand for each other,
crashes on others, or builds programs that fail when they run (18 of 40 random nested programs):
its simplifications of ``scf.while`` prune the two regions differently and lose track of which
buffer is which. These rewrites leave it nothing to prune:

- A carry that every iteration passes on becomes a constant of the loop.
- Each other carry leaves the body as ``select(condition, new, old)`` behind a barrier, the
  condition recomputed from the carries on entry, where it always holds. Without the barrier 3 of 80
  programs fail, without the selects 16 of 40.
- Not so a carry that is updated in place: its update is behind a barrier of its own (`scatter`),
  which is enough, and a select would copy the whole array in each iteration.

What else was tried: a barrier on the loop's results, or on its initial values (both leave some
programs that fail), or only a slice of an array selected (wrong access to buffers at run time).
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.dialects.barrier import optimization_barrier
from gnomon.dialects.body import Body, operands_of
from gnomon.dialects.contract import Instance
from gnomon.dialects.control_flow import while_
from gnomon.dialects.control_flow.bodies import split
from gnomon.dialects.emit import broadcast_scalar, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["legalize_while"]

# Ops whose result takes over the buffer of their first operand.
_IN_PLACE = frozenset(
    {
        "gnomon.dynamic_update_slice",
        *(f"gnomon.scatter{suffix}" for suffix in ("", "_add", "_mul", "_min", "_max")),
    }
)


def legalize_while(inst: Instance) -> Sequence[ir.Value]:
    """The rule of ``gnomon.while``."""
    for_cond, for_body, carry = split(
        inst.operands, inst.params["cond_consts"], inst.params["body_consts"]
    )
    cond, body = inst.bodies
    passed = body.arguments[len(for_body) :]
    results = body.results
    moving = [i for i, old in enumerate(passed) if results[i] != old]
    if not moving:
        # The condition never changes: the loop runs not at all, or forever.
        moving = list(range(len(carry)))
    still = [i for i in range(len(carry)) if i not in moving]
    guarded = [i for i in moving if not _updates_in_place(results, passed, i)] or moving
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
        cond_values, body_values, fixed, moved = split(
            arguments, len(for_cond), len(for_body), len(still)
        )
        old = arrange(fixed, moved)
        new = body.inline([*body_values, *old])
        barred = optimization_barrier.build([new[i] for i in guarded], {})
        (running,) = cond.inline([*cond_values, *old])
        for i, value in zip(guarded, barred, strict=True):
            predicate = broadcast_scalar(running, type_of(value).shape)
            new[i] = ops.select(predicate, value, old[i])
        return [new[i] for i in moving]

    cond_types = [type_of(v) for v in (*for_cond, *constants, *state)]
    body_types = [type_of(v) for v in (*for_cond, *for_body, *constants, *state)]
    final = while_.build(
        [*for_cond, *constants, *for_cond, *for_body, *constants, *state],
        {
            "cond_consts": len(for_cond) + len(constants),
            "body_consts": len(for_cond) + len(for_body) + len(constants),
        },
        [Body.build(cond_types, emit_cond), Body.build(body_types, emit_body)],
    )
    return arrange(constants, final)


def _updates_in_place(results: Sequence[ir.Value], passed: Sequence[ir.Value], index: int) -> bool:
    """Whether a carry leaves as an update of itself, and only once."""
    owner = results[index].owner
    return (
        not isinstance(owner, ir.Block)
        and owner.name in _IN_PLACE
        and operands_of(owner)[0] == passed[index]
        and results.count(results[index]) == 1
    )
