"""Loops that stay StableHLO, in programs that call functions of the host.

IREE refuses or crashes on many loops whose carries pass through, swap places or stand for each
other, because its simplifications of ``scf.while`` prune the two regions differently. Where each
carry leaves the body as ``select(condition, new, old)``, the condition computed again from the
carries on entry, where it always holds, nothing is left to prune.

What such a loop or a branch gives is copied before it is updated (`ownership`).
"""

from __future__ import annotations

import itertools

from gnomon.backends.iree.legalize.ownership import updates_shared_result
from gnomon.dialects.mlir import ir

__all__ = ["guard_loops"]

_WHILE, _CASE = "stablehlo.while", "stablehlo.case"


def guard_loops(module: ir.Module) -> None:
    """Rewrite the loops of a module that stays StableHLO, in place."""
    numbers = itertools.count(1)
    for update in _shared_updates(module):
        update.operands[0] = _copy(update, next(numbers))
    for op in module.body.operations:
        for block in op.operation.regions[0].blocks:
            _guard_loops_of(block)


def _shared_updates(module: ir.Module) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if updates_shared_result(op):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _copy(update: ir.Operation, number: int) -> ir.Value:
    """What an op updates, in a buffer of its own: a choice that the compiler cannot foresee.

    Two copies must not look alike, or they become one. Hence the number.
    """
    value = update.operands[0]
    type_ = ir.RankedTensorType(value.type)
    scalar = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    bool_ = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
    splat = ir.DenseElementsAttr.get_splat(scalar, ir.IntegerAttr.get(scalar.element_type, number))
    equal = ir.Attribute.parse("#stablehlo<comparison_direction EQ>")
    with ir.InsertionPoint(update), update.location:
        literal = _create("stablehlo.constant", scalar, value=splat)
        hidden = _create("stablehlo.optimization_barrier", scalar, literal)
        chosen = _create("stablehlo.compare", bool_, hidden, literal, comparison_direction=equal)
        integral = isinstance(type_.element_type, ir.IntegerType)
        other = _create("stablehlo.not" if integral else "stablehlo.negate", type_, value)
        return _create("stablehlo.select", type_, chosen, value, other)


def _create(name: str, type_: ir.Type, *operands: ir.Value, **attributes: ir.Attribute) -> ir.Value:
    return ir.Operation.create(
        name, results=[type_], operands=list(operands), attributes=attributes
    ).results[0]


def _guard_loops_of(block: ir.Block) -> None:
    for op in _operations(block):
        for region in op.regions if op.name in (_WHILE, _CASE) else ():
            _guard_loops_of(region.blocks[0])
        if op.name == _WHILE:
            _guard_loop(op)


def _terminator(block: ir.Block) -> ir.Operation:
    return block.operations[len(block.operations) - 1].operation


def _operations(block: ir.Block) -> list[ir.Operation]:
    return [op.operation for op in block.operations][:-1]


def _guard_loop(loop: ir.Operation) -> None:
    cond, body = (region.blocks[0] for region in loop.regions)
    terminator = _terminator(body)
    values: dict[ir.Value, ir.Value] = dict(zip(cond.arguments, body.arguments, strict=True))

    def rename(op: ir.Operation) -> ir.WalkResult:
        for i, value in enumerate(op.operands):
            if value in values:
                op.operands[i] = values[value]
        return ir.WalkResult.ADVANCE

    with ir.InsertionPoint(terminator), loop.location:
        for op in _operations(cond):
            clone = op.clone()
            clone.walk(rename)
            values.update(zip(op.results, clone.results, strict=True))
        tested = _terminator(cond).operands[0]
        running = values.get(tested, tested)
        for i, (new, old) in enumerate(zip(terminator.operands, body.arguments, strict=True)):
            type_ = ir.RankedTensorType(new.type)
            wide = ir.RankedTensorType.get(type_.shape, running.type.element_type)
            predicate = running
            if type_.rank:
                dims = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
                predicate = ir.Operation.create(
                    "stablehlo.broadcast_in_dim",
                    results=[wide],
                    operands=[running],
                    attributes=dims,
                ).results[0]
            chosen = ir.Operation.create(
                "stablehlo.select", results=[type_], operands=[predicate, new, old]
            )
            terminator.operands[i] = chosen.results[0]
