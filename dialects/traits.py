"""Traits: what a compiler needs to know about an op, besides its rules.

Each op declares its `Form`; an elementwise op declares its `Cost`; an op with a transpose rule
declares its `Linearity`. `Op` checks this when the op is registered. A pass asks an operation for
its traits, and never lists names of ops that a trait distinguishes:

- `form_of` and `cost_of` take the name of an operation of the dialect, or of a StableHLO operation
  that an op of the dialect lowers to one-to-one;
- `names_of` returns the names of all ops of some forms and costs, for tables by name.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from typing import NamedTuple

__all__ = [
    "BODIES",
    "Cost",
    "Form",
    "Linearity",
    "Traits",
    "cost_of",
    "form_of",
    "linear",
    "multilinear",
    "names_of",
    "register_traits",
]


class Form(enum.Enum):
    """How the elements of an op's results depend on the elements of its operands."""

    CREATION = "the elements follow from the parameters and the position"
    ELEMENTWISE = "an element is a function of the operands' elements at the same index"
    IDENTITY = "the results are the operands"
    VIEW = "an element is an element of the only operand, at an index that the parameters fix"
    JOIN = "an element is an element of one of several operands, which the parameters fix"
    REINTERPRETATION = "the bits of the operand's elements, read as another dtype"
    INDEXING = "an element is an element of an operand, at an index that operands determine"
    SCATTER = "updates are combined with the elements at indices that an operand determines"
    REDUCTION = "an element combines all elements of the operand along dimensions"
    SCAN = "an element combines the elements before it along a dimension"
    WINDOW = "an element combines the elements of a window of the operand"
    CONTRACTION = "an element is a sum of products of elements of two operands"
    SORT = "an element is at the position of its rank along a dimension"
    FOURIER = "an element depends on all elements along the last dimensions"
    MATRIX = "a function of matrices that factorizes or solves"
    RANDOM = "random bits, from a state"
    COLLECTIVE = "combines or moves the values of the members of an axis"
    CALLBACK = "calls a Python function of the user"
    HOST = "calls a function on the host"
    CONTROL = "runs its bodies, or a function"
    STRUCTURE = "a part of another op"


class Cost(enum.IntEnum):
    """The cost of an element of an elementwise op, in classes that processors distinguish."""

    NOTHING = 0  # takes a part, or names the value
    OPERATION = 1  # one instruction, or a few
    DIVISION = 2
    ROOT = 3
    FUNCTION = 4  # many instructions, or a call of the C library


class Linearity(NamedTuple):
    """The operands in which an op is linear.

    Attributes:
      groups: sets of operands; the op is linear in the operands of a group together, while the
        others are fixed. ``None`` is a group of all operands.
      has_factors: whether the operands outside of a group are factors, not indices or conditions.
      in_bodies: whether the linearity is that of the bodies, or of the function that is called.
    """

    groups: tuple[tuple[int, ...] | None, ...] = ()
    has_factors: bool = False
    in_bodies: bool = False

    def group_of(self, operands: Collection[int], count: int) -> tuple[int, ...] | None:
        """The first group that contains these of ``count`` operands; ``None`` if there is none."""
        for group in self.groups:
            positions = tuple(range(count)) if group is None else group
            if set(operands) <= set(positions):
                return positions
        return None


def linear(*operands: int) -> Linearity:
    """Linear in the operands at these positions together; by default, in all operands."""
    return Linearity((operands or None,))


def multilinear(*groups: int | tuple[int, ...]) -> Linearity:
    """Linear in each group of operands, while the others, which are factors, are fixed."""
    return Linearity(tuple(g if isinstance(g, tuple) else (g,) for g in groups), has_factors=True)


BODIES = Linearity(in_bodies=True)


class Traits(NamedTuple):
    """The traits that an op shares with the StableHLO operation that it lowers to.

    Attributes:
      form: see `Form`.
      cost: see `Cost`; ``None`` if the op is not elementwise.
    """

    form: Form
    cost: Cost | None


# By the full names of operations of the dialect and of StableHLO.
_TRAITS: dict[str, Traits] = {}


def register_traits(name: str, traits: Traits, lowered: Iterable[str]) -> None:
    """Register the traits of an op, and of the StableHLO operations that it lowers to one-to-one.

    Raises:
      ValueError: another op with other traits lowers to the same operation.
    """
    for full_name in (*(f"stablehlo.{other}" for other in lowered), name):
        if (known := _TRAITS.setdefault(full_name, traits)) != traits:
            raise ValueError(f"op {name}: {full_name} is {known}, from another op; got {traits}")


def form_of(name: str) -> Form | None:
    """The form of an operation; ``None`` if no op of the dialect lowers to it one-to-one."""
    traits = _TRAITS.get(name)
    return traits.form if traits is not None else None


def cost_of(name: str) -> Cost | None:
    """The cost of an elementwise operation; ``None`` if it is not elementwise."""
    traits = _TRAITS.get(name)
    return traits.cost if traits is not None else None


def names_of(dialect: str, *forms: Form, costs: Collection[Cost] | None = None) -> frozenset[str]:
    """The full names of the operations of a dialect that have one of these forms.

    Args:
      dialect: ``"gnomon"`` or ``"stablehlo"``.
      costs: the costs of the operations; by default, any.
    """
    return frozenset(
        name
        for name, (form, cost) in _TRAITS.items()
        if name.startswith(f"{dialect}.") and form in forms and (costs is None or cost in costs)
    )
