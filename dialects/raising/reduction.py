"""``reduce``: the reductions of the dialect, or a tree of combinations for any other function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from gnomon.dialects.combinators import highest, lowest
from gnomon.dialects.emit import (
    broadcast_scalar,
    constant_value,
    ops,
    reshape,
    slice_along,
    transpose,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.positions import extremum_with_position
from gnomon.dialects.raising.source import Region, Source, raises
from gnomon.dialects.types import BOOL, is_complex, type_of

# The op that combines two values, by the name of StableHLO's.
COMBINE = {
    "add": "add",
    "multiply": "mul",
    "maximum": "max",
    "minimum": "min",
    "and": "and",
    "or": "or",
    "xor": "xor",
}
_REDUCTIONS = {
    "add": "reduce_sum",
    "multiply": "reduce_prod",
    "maximum": "reduce_max",
    "minimum": "reduce_min",
    "and": "reduce_and",
    "or": "reduce_or",
    "xor": "reduce_xor",
}
_IDENTITIES: dict[str, Callable[[np.dtype], np.ndarray]] = {
    "add": lambda dtype: np.zeros((), dtype),
    "multiply": lambda dtype: np.ones((), dtype),
    "maximum": lowest,
    "minimum": highest,
    "and": lambda dtype: np.array(True if dtype == BOOL else -1).astype(dtype),
    "or": lambda dtype: np.zeros((), dtype),
    "xor": lambda dtype: np.zeros((), dtype),
}


def combiner_of(region: Region, dtype: np.dtype) -> str | None:
    """The name of the op that a region combines values with, if the dialect reduces with it."""
    name = region.combiner()
    if dtype == BOOL:
        name = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}.get(
            name or "", name
        )
    return name if name in COMBINE else None


def is_identity(value: ir.Value, combiner: str) -> bool:
    """Whether a scalar is a literal that leaves the other operand of a combination unchanged."""
    stored = constant_value(value)
    dtype = type_of(value).dtype
    if stored is None or is_complex(dtype):
        return False
    identity = np.asarray(_IDENTITIES[combiner](dtype))
    return bool((stored == identity).all())


def combined_with(reduced: ir.Value, initial: ir.Value, combiner: str) -> ir.Value:
    """Combine a reduced array with the initial value, unless that is the identity."""
    if is_identity(initial, combiner):
        return reduced
    spread = broadcast_scalar(initial, type_of(reduced).shape)
    result: ir.Value = getattr(ops, COMBINE[combiner])(spread, reduced)
    return result


@raises("reduce")
def _reduce(source: Source) -> list[ir.Value]:
    count = len(source.operands) // 2
    operands, initial = source.operands[:count], source.operands[count:]
    axes, region = source.ints("dimensions"), source.region
    type_ = type_of(operands[0])
    combiner = combiner_of(region, type_.dtype) if count == 1 else None
    if combiner is not None and type_of(initial[0]) == type_.with_shape(()):
        reduced = getattr(ops, _REDUCTIONS[combiner])(operands[0], axes=axes)
        return [combined_with(reduced, initial[0], combiner)]
    extremum = extremum_with_position(operands, initial, axes, region)
    if extremum is not None:
        return extremum
    kept = [d for d in range(type_.rank) if d not in axes]
    length = math.prod(type_.shape[d] for d in axes)
    width = math.prod(type_.shape[d] for d in kept)
    shape = tuple(type_.shape[d] for d in kept)
    seeds = [broadcast_scalar(v, (width,)) for v in initial]
    rows = [reshape(transpose(x, (*axes, *kept)), (length, width)) for x in operands]
    if not length or not width:
        return [reshape(s, shape) for s in seeds]
    folded = fold_rows(rows, length, lambda a, b: combine_elements(region, [*a, *b]))
    return [reshape(r, shape) for r in combine_elements(region, [*seeds, *folded])]


def combine_elements(region: Region, operands: Sequence[ir.Value]) -> list[ir.Value]:
    """Apply a region of scalars to arrays of one shape, element by element."""
    shape = type_of(operands[0]).shape
    size = math.prod(shape)
    return [
        reshape(r, shape) for r in region.vectorize([reshape(x, (size,)) for x in operands], size)
    ]


def fold_rows(
    rows: Sequence[ir.Value],
    length: int,
    combine: Callable[[Sequence[ir.Value], Sequence[ir.Value]], Sequence[ir.Value]],
) -> list[ir.Value]:
    """Combine all rows of arrays in a balanced tree, which keeps the order of the rows."""
    values = list(rows)
    while length > 1:
        half, odd = divmod(length, 2)
        last = [slice_along(v, 0, length - 1, length) for v in values] if odd else []
        even = [slice_along(v, 0, 0, 2 * half, 2) for v in values]
        uneven = [slice_along(v, 0, 1, 2 * half, 2) for v in values]
        values = list(combine(even, uneven))
        if odd:
            values = [ops.concatenate(v, r, dimension=0) for v, r in zip(values, last, strict=True)]
        length = half + odd
    return [reshape(v, type_of(v).shape[1:]) for v in values]


__all__ = [
    "COMBINE",
    "combine_elements",
    "combined_with",
    "combiner_of",
    "fold_rows",
    "is_identity",
]
