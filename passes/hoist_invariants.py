"""``hoist-invariants``: loop-invariant code motion.

It runs before differentiation, because a value that is computed in the loop from constants of the
loop would become a residual and be saved once per iteration. There are two rewrites, both for
``gnomon.scan`` and ``gnomon.while``:

* a carry that the body returns unchanged becomes a constant of the loop;
* an op all of whose operands are constants of the loop moves before the loop.

An op that may not terminate stays in a loop that may run zero times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gnomon.dialects.body import Body, erase, operands_of, results_of
from gnomon.dialects.contract import bodies_of, lookup, params_of
from gnomon.dialects.control_flow import scan, while_
from gnomon.dialects.control_flow.bodies import (
    Partition,
    chosen,
    kept_in_scan,
    may_not_end,
    partition,
    split,
)
from gnomon.dialects.mlir import ir


def hoist_invariants(body: Body) -> None:
    """Rewrite all loops of a body in place, inner ones first."""
    for op in body.region_operations:
        for inner in bodies_of(op):
            hoist_invariants(inner)
        rewrite = {scan: _hoist_scan, while_: _hoist_while}.get(lookup(op))
        if rewrite is None:
            continue
        with ir.InsertionPoint(op), op.location:
            values = rewrite(op)
        if values is not None:
            for old, new in zip(results_of(op), values, strict=True):
                old.replace_all_uses_with(new)
            erase(op)


def _unchanged(body: Body, consts: int, carry: int) -> list[bool]:
    """The mask of the carries that a body returns unchanged."""
    entering = body.arguments[consts : consts + carry]
    return [r == a for r, a in zip(body.results, entering, strict=False)]


def _merged(mask: Sequence[bool], on_true: list[ir.Value], on_false: list[ir.Value]) -> list[Any]:
    """Interleave two lists by a mask."""
    true, false = iter(on_true), iter(on_false)
    return [next(true if m else false) for m in mask]


def _with_constants(
    body: Body, consts: int, constant: Sequence[bool], *, gives_carry: bool
) -> Body:
    """A body that takes the carries in the mask as constants, after the existing ones."""
    changing = [not c for c in constant]
    types = split(body.argument_types, consts, len(constant))
    argument_types = [
        *types[0],
        *chosen(types[1], constant),
        *chosen(types[1], changing),
        *types[2],
    ]

    def emit(*arguments: ir.Value) -> list[ir.Value]:
        consts_, fixed, state, slices = split(arguments, consts, sum(constant), sum(changing))
        values = body.inline([*consts_, *_merged(constant, fixed, state), *slices])
        if not gives_carry:
            return values
        carry, ys = split(values, len(constant))
        return [*chosen(carry, changing), *ys]

    return Body.build(argument_types, emit)


def _cut(body: Body, consts: int, keep_late: Callable[[ir.Operation], bool]) -> Partition:
    late = [i >= consts for i in range(len(body.arguments))]
    return partition(body, late, keep_late)


def _hoist_scan(op: ir.Operation) -> list[ir.Value] | None:
    params = params_of(op)
    consts, carry, xs = split(operands_of(op), params["consts"], params["carry"])
    (body,) = bodies_of(op)
    constant = _unchanged(body, len(consts), len(carry))
    fixed, state = chosen(carry, constant), chosen(carry, [not c for c in constant])
    inner = _with_constants(body, len(consts), constant, gives_carry=True)
    consts = [*consts, *fixed]
    parts = _cut(inner, len(consts), kept_in_scan(params["length"]))
    if not fixed and not parts.crossing:
        return None
    consts = [*consts, *parts.early.inline(consts)]
    values = scan.build(
        [*consts, *state, *xs],
        {**params, "consts": len(consts), "carry": len(state)},
        [parts.late],
    )
    final, ys = split(values, len(state))
    return [*_merged(constant, fixed, final), *ys]


def _hoist_while(op: ir.Operation) -> list[ir.Value] | None:
    params = params_of(op)
    for_cond, for_body, carry = split(operands_of(op), params["cond_consts"], params["body_consts"])
    cond, body = bodies_of(op)
    constant = _unchanged(body, len(for_body), len(carry))
    fixed, state = chosen(carry, constant), chosen(carry, [not c for c in constant])
    tested = _with_constants(cond, len(for_cond), constant, gives_carry=False)
    inner = _with_constants(body, len(for_body), constant, gives_carry=True)
    for_cond, for_body = [*for_cond, *fixed], [*for_body, *fixed]
    cond_parts = _cut(tested, len(for_cond), may_not_end)
    body_parts = _cut(inner, len(for_body), may_not_end)
    if not (fixed or cond_parts.crossing or body_parts.crossing):
        return None
    for_cond = [*for_cond, *cond_parts.early.inline(for_cond)]
    for_body = [*for_body, *body_parts.early.inline(for_body)]
    final = while_.build(
        [*for_cond, *for_body, *state],
        {"cond_consts": len(for_cond), "body_consts": len(for_body)},
        [cond_parts.late, body_parts.late],
    )
    return _merged(constant, fixed, final)


__all__ = ["hoist_invariants"]
