"""Bounds of polynomials of dimension variables under constraints.

Variables are from 1 to 2**31 - 1. Bounds are correct, but not always tight. They come from the
intervals of the terms, and from subtracting multiples of polynomials that are known not to be
negative, either by a constraint of the user or by the definition of a quotient, remainder, maximum
or minimum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from gnomon.dialects.symbolic.polynomials import (
    ZERO,
    Atom,
    Monomial,
    Operation,
    Polynomial,
    add,
    atom,
    atoms,
    constant,
    constant_value,
    scale,
    subtract,
)

Number = Fraction | float
Terms = dict[Monomial, Fraction]

# Calls check this limit, so that indices fit into 32 bits.
LARGEST = 2**31 - 1

# The maximum number of constraints that are combined to prove one bound.
_DEPTH = 3


class Bounds:
    """Bounds under given constraints.

    Args:
      constraints: polynomials that are not negative.
    """

    def __init__(self, constraints: Sequence[Polynomial] = ()) -> None:
        self._constraints = list(constraints)
        self._found: dict[Polynomial, tuple[Number, Number]] = {}

    def __call__(self, poly: Polynomial) -> tuple[Number, Number]:
        """A lower and an upper bound; infinite if none is known."""
        value = constant_value(poly)
        if value is not None:
            return Fraction(value), Fraction(value)
        if poly not in self._found:
            # Collecting the definitions may ask for this bound again, when nothing is known yet.
            self._found[poly] = (-math.inf, math.inf)
            known = [*self._constraints, *_unique(self._definitions(poly))]
            terms = {m: Fraction(c) for m, c in poly}
            negated = {m: -c for m, c in terms.items()}
            low = self._lower(terms, known, _DEPTH)
            high = self._lower(negated, known, _DEPTH)
            self._found[poly] = (
                Fraction(math.ceil(low)) if math.isfinite(low) else low,
                Fraction(math.floor(-high)) if math.isfinite(high) else -high,
            )
        return self._found[poly]

    def _lower(self, terms: Terms, known: Sequence[Polynomial], depth: int) -> Number:
        best: Any = Fraction(0)
        for monomial, coefficient in terms.items():
            low, high = self._monomial(monomial)
            best = best + _times(coefficient, low if coefficient > 0 else high)
        if not depth or not any(terms):
            return best
        for constraint in known:
            for shared, number in constraint:
                if not shared or terms.get(shared, 0) * number <= 0:
                    continue
                factor = terms[shared] / number
                rest = dict(terms)
                for m, c in constraint:
                    left = rest.get(m, Fraction(0)) - factor * c
                    if left:
                        rest[m] = left
                    else:
                        rest.pop(m, None)
                if len(rest) <= len(terms) + 1:
                    best = max(best, self._lower(rest, known, depth - 1))
        return best

    def _monomial(self, monomial: Monomial) -> tuple[Number, Number]:
        low: Number = Fraction(1)
        high: Number = Fraction(1)
        for which, power in monomial:
            first, last = self._atom(which)
            for _ in range(power):
                corners = [_times(x, y) for x in (low, high) for y in (first, last)]
                low, high = min(corners), max(corners)
            if power % 2 == 0 and len(monomial) == 1:
                low = max(low, Fraction(0))
        return low, high

    def _atom(self, which: Atom) -> tuple[Number, Number]:
        if isinstance(which, str):
            return Fraction(1), Fraction(LARGEST)
        (first, last), (low, high) = map(self, which.arguments)
        if which.kind == "max":
            return max(first, low), max(last, high)
        if which.kind == "min":
            return min(first, low), min(last, high)
        if which.kind == "mod":
            if low > 0:
                return Fraction(0), min(high - 1, last) if first >= 0 else high - 1
            return (low + 1, Fraction(0)) if high < 0 else (-math.inf, math.inf)
        if low > 0 and first >= 0:
            least = Fraction(math.floor(_over(first, high)))
            most = _over(last, low)
            return least, Fraction(math.floor(most)) if math.isfinite(most) else most
        if low > 0 and low == high:
            ends = [_over(x, low) for x in (first, last)]
            found = [Fraction(math.floor(x)) if math.isfinite(x) else x for x in ends]
            return found[0], found[1]
        return -math.inf, math.inf

    def _definitions(self, poly: Polynomial) -> Iterator[Polynomial]:
        """Yield polynomials that are not negative by the definitions of a polynomial's atoms."""
        for monomial, _ in poly:
            if sum(power for _, power in monomial) > 1:
                yield from self._products(monomial)
        for which in _all_atoms([poly, *self._constraints]):
            if not isinstance(which, Operation):
                continue
            (x, y), itself = which.arguments, atom(which)
            if which.kind in ("max", "min"):
                for argument in (x, y):
                    difference = subtract(itself, argument)
                    yield difference if which.kind == "max" else scale(difference, -1)
                continue
            divisor = constant_value(y)
            if divisor is not None and divisor > 0 and which.kind == "floordiv":
                rest = subtract(x, scale(itself, divisor))
                yield rest
                yield subtract(constant(divisor - 1), rest)
            elif which.kind == "mod" and self(y)[0] > 0:
                yield subtract(subtract(y, constant(1)), itself)
                if self(x)[0] >= 0:
                    yield subtract(x, itself)

    def _products(self, monomial: Monomial) -> Iterator[Polynomial]:
        """Yield that a product of factors >= 1 does not grow if one factor is dropped."""
        if all(self._atom(which)[0] >= 1 for which, _ in monomial):
            for which, power in monomial:
                rest = tuple((a, p - (a == which)) for a, p in monomial if a != which or power > 1)
                yield add(((monomial, 1),), ((rest, -1),) if rest else ZERO)


def _unique(found: Iterator[Polynomial]) -> list[Polynomial]:
    return list(dict.fromkeys(found))


def _all_atoms(polynomials: Sequence[Polynomial]) -> list[Atom]:
    """All atoms of polynomials, including those in arguments of operations."""
    found: dict[Atom, None] = {}
    work = list(polynomials)
    while work:
        for which in atoms(work.pop()):
            if which not in found:
                found[which] = None
                if isinstance(which, Operation):
                    work.extend(which.arguments)
    return list(found)


def _times(x: Number, y: Number) -> Number:
    # 0 times an unbounded integer is 0.
    return Fraction(0) if x == 0 or y == 0 else x * y


def _over(x: Number, y: Number) -> Number:
    if math.isinf(y):
        return Fraction(0) if math.isfinite(x) else x
    return x / y
