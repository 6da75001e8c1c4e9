"""Factors that are converted from unsigned integers or bools, in products with vectors.

IREE 3.13 moves a conversion into a product of a matrix and a vector, or of two vectors, and
converts there as if the integers were signed: it silently takes 200 of ``uint8`` for -56. With
bools, compilation fails. A barrier after the conversion keeps it out of the product. Products of
two matrices are correct.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gnomon.backends.iree.legalize.after_lowering.strided_views import operations
from gnomon.backends.iree.legalize.aliases import REARRANGES, name_of
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects import mlir
from gnomon.dialects.combinators import stablehlo
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["LEGALIZATIONS", "store_unsigned_factors"]


_DOT = "stablehlo.dot_general"


def store_unsigned_factors(module: ir.Module, target: Target) -> bool:
    """Put barriers after such conversions, in a StableHLO module, in place."""
    found: dict[ir.Value, None] = {}
    for function in module.body.operations:
        for op in operations(function.operation):
            if op.name == _DOT and _has_vector(op):
                found.update(dict.fromkeys(_conversions(op)))
    for value in found:
        with ir.InsertionPoint.after(value.owner), value.owner.location:
            (stored,) = stablehlo("optimization_barrier", [value], [type_of(value)])
        value.replace_all_uses_except(stored, stored.owner.operation)
    return bool(found)


def _has_vector(op: ir.Operation) -> bool:
    """Whether one factor has, apart from sizes of 1, only batch and contracted dimensions."""
    numbers = mlir.stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    left = (*numbers.lhs_batching_dimensions, *numbers.lhs_contracting_dimensions)
    right = (*numbers.rhs_batching_dimensions, *numbers.rhs_contracting_dimensions)
    return any(
        math.prod(n for d, n in enumerate(type_of(x).shape) if d not in bound) == 1
        for x, bound in zip(op.operands, (left, right), strict=True)
    )


def _conversions(op: ir.Operation) -> Iterator[ir.Value]:
    for value in op.operands:
        while not isinstance(value.owner, ir.Block) and name_of(value.owner) in REARRANGES:
            value = value.owner.operation.operands[0]
        if isinstance(value.owner, ir.Block) or value.owner.operation.name != "stablehlo.convert":
            continue
        if type_of(value.owner.operation.operands[0]).dtype.kind in "ub":
            yield value


LEGALIZATIONS = (
    Legalization(
        name="unsigned-factors",
        stage=Stage.LOWERED,
        kind=Kind.MISCOMPILED,
        doc="store factors that are converted from unsigned integers or bools",
        upstream="IREE 3.13 converts them as if they were signed, in products with a vector",
        texts=("unsigned_operands_of_products",),
        reproducer="a product of uint8 with a vector takes 200 for -56",
        run=store_unsigned_factors,
        needs=frozenset({_DOT}),
    ),
)
