"""Negated parts of concatenations: multiplied by -1.

IREE makes one operation of the rotation ``concatenate([-x[n:], x[:n]])`` that rotary embeddings
apply, but takes any concatenation for it whose first two parts are ``-x[n:2 * n]`` and ``x[:n]``,
and whose result has the type of ``x``. If there are more parts, as in the product of quaternions or
a rotation of some of the features, the result has other elements, or the program is refused. IREE
does not recognize a product with -1, which is the same number. (It does recognize a difference from
-0.) Complex numbers are pairs of floats by then, or are negated by an operation of their own.
"""

from __future__ import annotations

from gnomon.backends.iree.legalize.after_lowering.strided_views import operations
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import stablehlo, stablehlo_full
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_floating, type_of

__all__ = ["LEGALIZATIONS", "multiply_negated_parts"]

_CONCATENATE, _NEGATE = "stablehlo.concatenate", "stablehlo.negate"
_VIEWS = ("stablehlo.reshape", "stablehlo.broadcast_in_dim")


def multiply_negated_parts(module: ir.Module, target: Target) -> bool:
    """Replace negations of parts of concatenations by products with -1, in place."""
    found: dict[ir.Operation, None] = {}
    for function in module.body.operations:
        for op in operations(function.operation):
            if op.name == _CONCATENATE and not _is_whole_rotation(op):
                negations = (_negation(part) for part in op.operands)
                found.update((n, None) for n in negations if n is not None)
    for negation in found:
        (x,), (result,) = negation.operands, negation.results
        with ir.InsertionPoint(negation), negation.location:
            (product,) = stablehlo("multiply", [x, stablehlo_full(type_of(x), -1)], [type_of(x)])
        result.replace_all_uses_with(product)
        negation.erase()
    return bool(found)


def _is_whole_rotation(op: ir.Operation) -> bool:
    """Whether a concatenation has two parts, and is no part of another, which may join them."""
    (result,) = op.results
    users = [use.owner.operation for use in result.uses]
    return len(op.operands) == 2 and all(user.name not in (_CONCATENATE, *_VIEWS) for user in users)


def _negation(part: ir.Value) -> ir.Operation | None:
    """The negation of floats that a part is, or is a view of."""
    while not isinstance(part.owner, ir.Block):
        op = part.owner.operation
        if op.name == _NEGATE:
            return op if is_floating(type_of(part).dtype) else None
        if op.name not in _VIEWS:
            return None
        part = op.operands[0]
    return None


LEGALIZATIONS = (
    Legalization(
        name="negated-parts",
        # After control flow has become selections, and small arrays are made of their elements.
        stage=Stage.LAST,
        kind=Kind.MISCOMPILED,
        doc="multiply by -1 instead of negating, in parts of a concatenation",
        upstream="IREE 3.13 takes `concatenate([-x[n:2 * n], x[:n], ...])` of the size of `x` for "
        "a rotation by half of `x`, though there are more parts",
        texts=("negated_parts_of_concatenations",),
        reproducer="`concatenate([-x[2:4], x[:2], x[4:]])` of f32[8] is wrong, and "
        "`array([-x[1], x[0], x[2]])` does not compile",
        run=multiply_negated_parts,
        needs=frozenset({_NEGATE}),
    ),
)
