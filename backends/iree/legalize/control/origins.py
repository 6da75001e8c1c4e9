"""Updates that are computed from the array that they update.

A kernel that computed such an update in place would write into the buffer that its other threads
still read. So the update is stored first. After kernels are formed, `in_place` chooses the buffer
for it.
"""

from __future__ import annotations

from gnomon.dialects.mlir import ir

__all__ = ["updates_its_origin"]

_CONSTANT = "stablehlo.constant"


def updates_its_origin(update: ir.Value) -> bool:
    """Whether a value updates an array that it is computed from or shares an origin with.

    Origins are searched within the block; literals do not count.
    """
    return any(
        use.owner.name == "stablehlo.dynamic_update_slice"
        and use.operand_number == 1
        and not _origins(update).isdisjoint(_origins(use.owner.operands[0]))
        for use in update.uses
    )


def _origins(start: ir.Value) -> set[ir.Value]:
    found: set[ir.Value] = set()
    pending = [start]
    while pending:
        value = pending.pop()
        owner = value.owner
        if value in found or (not isinstance(owner, ir.Block) and owner.name == _CONSTANT):
            continue
        found.add(value)
        if not isinstance(owner, ir.Block):
            pending.extend(owner.operands)
            if len(owner.operation.regions):
                pending.extend(_captured(owner.operation))
    return found


def _captured(op: ir.Operation) -> list[ir.Value]:
    values: list[ir.Value] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        values.extend(inner.operands)
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    return values
