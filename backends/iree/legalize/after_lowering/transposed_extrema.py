"""Positions of extrema that are transposed: stored before they are transposed.

IREE moves a transpose into the operation that makes its operand. If that is a reduction with
several results, such as the one in ``argmin(x, 2).T``, IREE keeps only the transposed result but
does not change the reduction's body, and compilation fails (``'linalg.yield' op expected number of
yield values (2)``). A barrier after the reduction stops the transpose, even one that follows other
ops.
"""

from __future__ import annotations

from gnomon.backends.iree.legalize.after_lowering.strided_views import operations
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import stablehlo
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["LEGALIZATIONS", "store_transposed_extrema"]

_REDUCE, _TRANSPOSE = "stablehlo.reduce", "stablehlo.transpose"


def store_transposed_extrema(module: ir.Module, target: Target) -> bool:
    """Put barriers after multi-result reductions with a transposed result, in place."""
    found: list[ir.Value] = []
    for function in module.body.operations:
        # Values on which a transpose depends. The walk is backwards: uses come before definitions.
        transposed: set[ir.Value] = set()
        for op in reversed(list(operations(function.operation))):
            if op.name == _TRANSPOSE or any(x in transposed for x in op.results):
                transposed.update(op.operands)
            if op.name == _REDUCE and len(op.results) > 1:
                found += [x for x in op.results if x in transposed]
    for value in found:
        with ir.InsertionPoint.after(value.owner), value.owner.location:
            (stored,) = stablehlo("optimization_barrier", [value], [type_of(value)])
        value.replace_all_uses_except(stored, stored.owner.operation)
    return bool(found)


LEGALIZATIONS = (
    Legalization(
        name="transposed-extrema",
        stage=Stage.LOWERED,
        kind=Kind.REFUSED,
        doc="store the results of a multi-result reduction if one of them is transposed",
        upstream="IREE 3.13 moves the transpose into the reduction, and drops the other results "
        "but not the values that the body yields for them",
        texts=("transposed_positions_of_extrema",),
        reproducer="`argmin(x, 2).T` of i32[2,2,3] does not compile",
        run=store_transposed_extrema,
        needs=frozenset({_REDUCE}),
    ),
)
