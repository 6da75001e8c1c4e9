"""Elementwise functions of an operand that is reshaped, transposed or broadcast.

IREE 3.13 moves such a function before the op that rearranges its operand. In most programs, its
simplification moves all of them. If one is left, the conversion to IREE's own dialects attempts the
same and fails with "failed to legalize unresolved materialization", as in the Hessian of a softmax.
This pass moves all of them first, so that none is left. The program does not become slower, since a
moved function has as many elements or fewer.
"""

from __future__ import annotations

from gnomon.backends.iree.legalize.after_lowering.strided_views import operations_named
from gnomon.backends.iree.legalize.aliases import REARRANGES, name_of
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType, mlir_type, type_of

__all__ = ["LEGALIZATIONS", "move_functions"]

_FUNCTIONS = frozenset(
    f"stablehlo.{name}"
    for op in REGISTRY.values()
    if op.form is Form.ELEMENTWISE and op.operands is not ... and len(op.operands) == 1
    for name in op.stablehlo
)


def move_functions(module: ir.Module, target: Target) -> bool:
    """Move functions before the ops that rearrange their operands, in place."""
    changed = False
    for function in module.body.operations:
        for op in operations_named(_FUNCTIONS, function.operation):
            if _rearrangement(op.operands[0]) is not None:
                _move(op)
                changed = True
    return changed


def _rearrangement(value: ir.Value) -> ir.Operation | None:
    """The operation that makes a value by rearranging elements, or None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or name_of(owner) not in REARRANGES:
        return None
    return owner.operation


def _move(op: ir.Operation) -> None:
    """Move a function past all rearrangements of its operand."""
    dtype = type_of(op.results[0]).dtype
    chain: list[ir.Operation] = []
    source = op.operands[0]
    while (rearrangement := _rearrangement(source)) is not None:
        chain.append(rearrangement)
        source = rearrangement.operands[0]
    with ir.InsertionPoint(op), op.location:
        value = _like(op, source, type_of(source).with_dtype(dtype))
        for rearrangement in reversed(chain):
            type_ = type_of(rearrangement.results[0]).with_dtype(dtype)
            value = _like(rearrangement, value, type_)
    op.results[0].replace_all_uses_with(value)
    op.erase()
    for rearrangement in chain:
        if any(True for _ in rearrangement.results[0].uses):
            break
        rearrangement.erase()


def _like(op: ir.Operation, operand: ir.Value, type_: TensorType) -> ir.Value:
    """A copy of an operation, with another operand and result type."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    created = ir.Operation.create(
        op.name, results=[mlir_type(type_)], operands=[operand], attributes=attributes
    )
    return created.results[0]


LEGALIZATIONS = (
    Legalization(
        name="moved-functions",
        stage=Stage.LOWERED,
        kind=Kind.REFUSED,
        doc="compute functions of one operand before it is reshaped, transposed or broadcast",
        upstream="IREE 3.13 moves functions in the middle of a conversion to its dialects, and "
        "fails",
        texts=("functions_of_rearranged_operands",),
        reproducer="the Hessian of a softmax is refused",
        run=move_functions,
        needs=_FUNCTIONS,
    ),
)
