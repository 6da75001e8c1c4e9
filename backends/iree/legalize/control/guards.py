"""Loops that stay StableHLO: uncounted ones, and all loops if the forms before do not compile.

IREE rejects or crashes on many loops whose carries pass through, swap places or equal each other,
because its simplifications of ``scf.while`` prune the two regions differently. Here each carry
leaves the body as ``select(condition, new, old)``, so that nothing can be pruned. The condition is
computed again from the carries on entry, for which it is always true.
"""

from __future__ import annotations

from gnomon.backends.iree.legalize.control.emitter import operations, terminator
from gnomon.dialects.mlir import ir

__all__ = ["guard_loops"]

_WHILE, _CASE = "stablehlo.while", "stablehlo.case"


def guard_loops(module: ir.Module) -> None:
    """Guard the carries of a StableHLO module's loops, in place.

    The module's context must allow the compiler's own dialects.
    """
    for op in module.body.operations:
        for block in op.operation.regions[0].blocks:
            _guard_loops_of(block)


def _guard_loops_of(block: ir.Block) -> None:
    for op in operations(block):
        for region in op.regions if op.name in (_WHILE, _CASE) else ():
            _guard_loops_of(region.blocks[0])
        if op.name == _WHILE:
            _guard_loop(op)


def _guard_loop(loop: ir.Operation) -> None:
    cond, body = (region.blocks[0] for region in loop.regions)
    last = terminator(body)
    values: dict[ir.Value, ir.Value] = dict(zip(cond.arguments, body.arguments, strict=True))

    def rename(op: ir.Operation) -> ir.WalkResult:
        for i, value in enumerate(op.operands):
            if value in values:
                op.operands[i] = values[value]
        return ir.WalkResult.ADVANCE

    with ir.InsertionPoint(last), loop.location:
        for op in operations(cond):
            clone = op.clone()
            clone.walk(rename)
            values.update(zip(op.results, clone.results, strict=True))
        tested = terminator(cond).operands[0]
        running = values.get(tested, tested)
        for i, (new, old) in enumerate(zip(last.operands, body.arguments, strict=True)):
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
            last.operands[i] = chosen.results[0]
