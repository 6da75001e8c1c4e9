"""``drop-unused-results``: narrow ops to the results that are used.

Upstream's dead-code elimination drops an op or keeps it whole. A loop with one used carry still
computes the others and stacks every result, such as the primal results of a differentiated scan.
This pass removes from ``gnomon.switch``, ``gnomon.while`` and ``gnomon.scan`` the unused results,
the carries on which only unused results depend, and then the operands that no body reads. Other
ops whose results cost extra say by their facet ``narrow`` what computes fewer, such as eigenvalues
without vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from gnomon.dialects.body import PACK, TERMINATORS, Body, is_unpacking, operands_of, results_of
from gnomon.dialects.contract import REGISTRY, bodies_of, has_effects, instance_of, params_of
from gnomon.dialects.control_flow import scan, switch, while_
from gnomon.dialects.control_flow.bodies import (
    chosen,
    either,
    inline_values,
    is_used,
    least_fixed_point,
    needed_arguments,
    split,
    spread,
)
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir


def drop_unused_results(program: Program) -> None:
    """Narrow all ops of a program in place."""
    for function in program.functions:
        body = program.body(symbol_name(function))
        # Narrowing an inner op may leave an operand of the outer op unused, so iterate.
        while _narrow(body):
            pass


def _narrow(body: Body) -> bool:
    """Drop dead ops and narrow others, at any depth; return whether an op was narrowed."""
    changed = False
    for op in reversed([op.operation for op in body.block.operations]):
        rule = _rule_of(op)
        if _is_dead(op):
            op.erase()
            continue
        if rule is None:
            continue
        used = [is_used(r) for r in results_of(op)]
        with ir.InsertionPoint(op), op.location:
            replacement = rule(op, used)
        holder: ir.Operation | None = op
        if replacement is not None:
            holder = _replace(op, *replacement)
            changed = True
        for inner in bodies_of(holder) if holder is not None else ():
            changed |= _narrow(inner)
    return changed


def _rule_of(op: ir.Operation) -> Narrowing | None:
    definition = REGISTRY.get(op.name)
    if definition is not None and definition.narrow is not None:
        return _narrow_plain
    return _RULES.get(op.name)


def _is_dead(op: ir.Operation) -> bool:
    if any(map(is_used, op.results)) or op.name in TERMINATORS:
        return False
    # An unpacking cast has no effects itself; the op that produced the tuple may have some.
    maker = op.operands[0].owner.operation if is_unpacking(op) else op
    return not has_effects(maker) and (maker.name in _RULES or len(op.results) > 0)


def _replace(
    op: ir.Operation, values: list[ir.Value], is_kept: Sequence[bool]
) -> ir.Operation | None:
    """Replace the kept results of ``op`` by values; return the operation that defines them."""
    olds = results_of(op)
    for old, new in zip(chosen(olds, is_kept), values, strict=True):
        old.replace_all_uses_with(new)
    if olds and olds[0].owner.operation != op:
        olds[0].owner.operation.erase()
    op.erase()
    if not values:  # the op stays for its effects; the next round looks inside
        return None
    maker = values[0].owner.operation
    return maker.operands[0].owner.operation if maker.name == PACK else maker


# A narrowed op: the values of the results that it keeps, and the mask of those results.
Replacement: TypeAlias = "tuple[list[ir.Value], list[bool]]"


def _body(body: Body, arguments: Sequence[bool], results: Sequence[bool]) -> Body:
    """A copy of a body with only the arguments and results that the masks select."""
    selected = chosen(body.results, results)
    return Body.build(
        chosen(body.argument_types, arguments),
        lambda *values: inline_values(body, spread(values, arguments), selected),
    )


def _narrow_switch(op: ir.Operation, used: list[bool]) -> Replacement | None:
    index, *operands = operands_of(op)
    bodies = bodies_of(op)
    read = [False] * len(operands)
    for body in bodies:
        read = either(read, needed_arguments(body, used))
    if all(used) and all(read):
        return None
    narrow = [_body(body, read, used) for body in bodies]
    return switch.build([index, *chosen(operands, read)], {}, narrow), used


def _narrow_while(op: ir.Operation, used: list[bool]) -> Replacement | None:
    params = params_of(op)
    counts = params["cond_consts"], params["body_consts"]
    for_cond, for_body, carry = split(operands_of(op), *counts)
    cond, body = bodies_of(op)
    cond_read, tested = _cut(needed_arguments(cond, [True]), counts[0])

    def step(carry_used: list[bool]) -> tuple[list[bool], list[bool]]:
        const_read, carry_read = _cut(needed_arguments(body, carry_used), counts[1])
        return const_read, carry_read

    body_read, carry_used = least_fixed_point(either(used, tested), step)
    if all(carry_used) and all(cond_read) and all(body_read):
        return None
    operands = [
        *chosen(for_cond, cond_read),
        *chosen(for_body, body_read),
        *chosen(carry, carry_used),
    ]
    values = while_.build(
        operands,
        {"cond_consts": sum(cond_read), "body_consts": sum(body_read)},
        [
            _body(cond, [*cond_read, *carry_used], [True]),
            _body(body, [*body_read, *carry_used], carry_used),
        ],
    )
    return values, carry_used


def _narrow_scan(op: ir.Operation, used: list[bool]) -> Replacement | None:
    params = params_of(op)
    consts, carry, xs = split(operands_of(op), params["consts"], params["carry"])
    (body,) = bodies_of(op)
    carry_used, ys_used = _cut(used, len(carry))

    def step(carry_kept: list[bool]) -> tuple[list[list[bool]], list[bool]]:
        read = split(needed_arguments(body, [*carry_kept, *ys_used]), len(consts), len(carry))
        return read, read[1]

    (const_read, _, x_read), carry_kept = least_fixed_point(carry_used, step)
    results = [*carry_kept, *ys_used]
    if all(results) and all(const_read) and all(x_read):
        return None
    values = scan.build(
        [*chosen(consts, const_read), *chosen(carry, carry_kept), *chosen(xs, x_read)],
        {**params, "consts": sum(const_read), "carry": sum(carry_kept)},
        [_body(body, [*const_read, *carry_kept, *x_read], results)],
    )
    return values, results


def _narrow_plain(op: ir.Operation, used: list[bool]) -> Replacement | None:
    if all(used):
        return None
    inst = instance_of(op)
    assert inst.op.narrow is not None
    values = inst.op.narrow(inst, used)
    return None if values is None else (values, used)


def _cut(mask: list[bool], at: int) -> tuple[list[bool], list[bool]]:
    return mask[:at], mask[at:]


Narrowing: TypeAlias = "Callable[[ir.Operation, list[bool]], Replacement | None]"

_RULES: dict[str, Narrowing] = {
    switch.full_name: _narrow_switch,
    while_.full_name: _narrow_while,
    scan.full_name: _narrow_scan,
}

__all__ = ["drop_unused_results"]
