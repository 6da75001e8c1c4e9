"""How the variables of symbolic dimensions follow from the shapes of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gnomon.dialects.symbolic import polynomials as poly
from gnomon.dialects.symbolic.dimension import Dimension


class Step(NamedTuple):
    """A variable and the dimension that determines it, given the variables of earlier steps.

    Attributes:
      variable: the variable's name.
      argument, axis: the position of the dimension.
      factor, rest: the dimension is ``factor * variable + rest``.
    """

    variable: str
    argument: int
    axis: int
    factor: int
    rest: poly.Polynomial

    @property
    def dimension(self) -> poly.Polynomial:
        """The dimension as a polynomial."""
        term = poly.scale(poly.atom(self.variable), self.factor)
        return poly.add(term, self.rest)


def steps_for(shapes: Sequence[Sequence[Any]]) -> tuple[list[Step], frozenset[str]]:
    """The steps that solve for the variables in shapes.

    A dimension determines a variable if it is linear in that variable and all its other variables
    are already known.

    Returns:
      The steps in order, and the variables that no step determines.
    """
    symbolic = [
        (i, axis, size.polynomial)
        for i, shape in enumerate(shapes)
        for axis, size in enumerate(shape)
        if isinstance(size, Dimension)
    ]
    steps: list[Step] = []
    known: set[str] = set()
    while True:
        before = len(known)
        for i, axis, size in symbolic:
            unknown = poly.variables(size) - known
            if len(unknown) != 1:
                continue
            (variable,) = unknown
            monomial = ((variable, 1),)
            rest = tuple((m, c) for m, c in size if m != monomial)
            if len(rest) < len(size) and variable not in poly.variables(rest):
                steps.append(Step(variable, i, axis, dict(size)[monomial], rest))
                known.add(variable)
        if len(known) == before:
            needed: set[str] = set()
            for _, _, size in symbolic:
                needed |= poly.variables(size)
            return steps, frozenset(needed - known)
