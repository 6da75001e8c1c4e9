"""Regions that combine scalars: those of reductions, windows, scatters and sorts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnomon.backends.standalone_c.movements import splat
from gnomon.backends.standalone_c.types import of_type
from gnomon.backends.standalone_c.values import Value
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType

if TYPE_CHECKING:
    from gnomon.backends.standalone_c.emitter import Emitter

__all__ = ["combined", "fold", "started"]


def combined(
    emitter: Emitter, block: ir.Block, types: Sequence[TensorType], values: Sequence[str]
) -> list[str]:
    """The results of a region for scalars that are given as C expressions."""
    scalars = [splat(t.with_shape(()), v) for t, v in zip(types, values, strict=True)]
    return emitter.inline(block, scalars)


def started(emitter: Emitter, types: Sequence[TensorType], initial: Sequence[Value]) -> list[str]:
    """New variables that hold the initial values of a fold."""
    totals = []
    for type_, start in zip(types, initial, strict=True):
        total = emitter.name("a")
        emitter.line(f"{of_type(type_).computed} {total} = {start.element(emitter, ())};")
        totals.append(total)
    return totals


def fold(
    emitter: Emitter,
    block: ir.Block,
    types: Sequence[TensorType],
    totals: Sequence[str],
    elements: Sequence[str],
    *,
    elements_first: bool = False,
) -> None:
    """Combine one element of each input with the totals, and assign the results to the totals.

    Args:
      emitter: the writer of the code.
      block: the region that combines them.
      types: the types of the inputs.
      totals: the variables.
      elements: the expressions of the elements.
      elements_first: whether the region takes the elements before the totals.
    """
    pairs = [*elements, *totals] if elements_first else [*totals, *elements]
    new = combined(emitter, block, [*types, *types], pairs)
    # All results are computed before a total changes: each of them may depend on every total.
    held = [emitter.local(of_type(t).computed, v) for t, v in zip(types, new, strict=True)]
    for total, value in zip(totals, held, strict=True):
        emitter.line(f"{total} = {value};")
