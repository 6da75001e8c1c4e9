"""Regions that combine scalars: those of reductions, windows, scatters and sorts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnomon.backends.kernels.code import Code, Element, Pair, Variable
from gnomon.backends.kernels.movements import splat
from gnomon.backends.kernels.values import Value
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType

if TYPE_CHECKING:
    from gnomon.backends.kernels.builder import Builder

__all__ = ["Total", "combined", "fold", "started"]


class Total:
    """A variable that holds an element of an array."""

    def __init__(self, code: Code, start: Element) -> None:
        self._code = code
        parts = (start.re, start.im) if isinstance(start, Pair) else (start,)
        self._variables: list[Variable] = [code.variable(p.type, p) for p in parts]

    def get(self) -> Element:
        """The element that it holds now."""
        parts = [self._code.value(v) for v in self._variables]
        return parts[0] if len(parts) == 1 else Pair(*parts)

    def set(self, element: Element) -> None:
        """Give it another element."""
        parts = (element.re, element.im) if isinstance(element, Pair) else (element,)
        for variable, part in zip(self._variables, parts, strict=True):
            self._code.assign(variable, part)


def combined(
    builder: Builder, block: ir.Block, types: Sequence[TensorType], values: Sequence[Element]
) -> list[Element]:
    """The results of a region for elements."""
    scalars = [splat(t.with_shape(()), v) for t, v in zip(types, values, strict=True)]
    return builder.inline(block, scalars)


def started(builder: Builder, initial: Sequence[Value]) -> list[Total]:
    """Variables that hold the initial values of a fold."""
    return [Total(builder.code, start.element(builder, ())) for start in initial]


def fold(
    builder: Builder,
    block: ir.Block,
    types: Sequence[TensorType],
    totals: Sequence[Total],
    elements: Sequence[Element],
    *,
    elements_first: bool = False,
) -> None:
    """Combine one element of each input with the totals, and assign the results to the totals.

    Args:
      builder: the writer of the code.
      block: the region that combines them.
      types: the types of the inputs.
      totals: the variables.
      elements: the elements.
      elements_first: whether the region takes the elements before the totals.
    """
    before = [total.get() for total in totals]
    pairs = [*elements, *before] if elements_first else [*before, *elements]
    for total, value in zip(totals, combined(builder, block, [*types, *types], pairs), strict=True):
        total.set(value)
