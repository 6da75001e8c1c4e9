"""The work of ops: how many numbers they compute, for estimates of what a program costs.

Each op has a rule ``work(operands, results, **params)``, on types whose sizes are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from gnomon.dialects.traits import Cost
from gnomon.dialects.types import TensorType

Types: TypeAlias = "Sequence[TensorType]"


class Work(NamedTuple):
    """The work of one execution of an op.

    Attributes:
      flops: numbers that arithmetic, comparisons, selections or conversions compute, of any dtype.
      transcendentals: evaluations of roots, exponentials and other functions that take several
        operations each.
    """

    flops: float = 0.0
    transcendentals: float = 0.0


WorkRule: TypeAlias = "Callable[..., Work]"


def nothing(operands: Types, results: Types, **params: Any) -> Work:
    """The work of an op that moves or names values, or whose work is that of its bodies."""
    return Work()


def elementwise(operands: Types, results: Types, **params: Any) -> Work:
    """One flop for each element of a result."""
    return Work(flops=results[0].size)


def transcendental(operands: Types, results: Types, **params: Any) -> Work:
    """One evaluation for each element of a result."""
    return Work(transcendentals=results[0].size)


# The work of an elementwise op, by its cost.
BY_COST: dict[Cost, WorkRule] = {
    Cost.NOTHING: nothing,
    Cost.OPERATION: elementwise,
    Cost.DIVISION: elementwise,
    Cost.ROOT: transcendental,
    Cost.FUNCTION: transcendental,
}


def per_element(flops: float) -> WorkRule:
    """Several flops for each element of all results together."""

    def rule(operands: Types, results: Types, **params: Any) -> Work:
        return Work(flops=flops * sum(t.size for t in results))

    return rule


def reduction(operands: Types, results: Types, **params: Any) -> Work:
    """One flop for each element after the first that a result combines."""
    return Work(flops=max(operands[0].size - results[0].size, 0))
