"""Integer polynomials of variables, quotients, remainders, maxima and minima, in a normal form.

A polynomial is a tuple of pairs (monomial, nonzero coefficient) in a fixed order. A monomial is a
tuple of pairs (atom, power). An atom is the name of a variable, or an `Operation` on polynomials.
Equal polynomials are equal tuples.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias


class Operation(NamedTuple):
    """``floordiv``, ``mod``, ``max`` or ``min`` of two polynomials."""

    kind: str
    arguments: tuple[Any, Any]


Atom: TypeAlias = "str | Operation"
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]
Polynomial: TypeAlias = tuple[tuple[Monomial, int], ...]

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "max": max,
    "min": min,
}
ZERO: Polynomial = ()
TWO: Polynomial = (((), 2),)


def constant(value: int) -> Polynomial:
    """A polynomial of degree 0."""
    return (((), int(value)),) if value else ZERO


def atom(which: Atom) -> Polynomial:
    """The polynomial that consists of one variable or operation."""
    return ((((which, 1),), 1),)


def constant_value(poly: Polynomial) -> int | None:
    """The value of a constant polynomial; None if it is not constant."""
    if not poly:
        return 0
    return poly[0][1] if len(poly) == 1 and not poly[0][0] else None


def _atom_key(which: Atom) -> tuple[Any, ...]:
    return (0, which) if isinstance(which, str) else (1, _atom_text(which))


def _order(monomial: Monomial) -> tuple[Any, ...]:
    degree = sum(power for _, power in monomial)
    return degree, [(_atom_key(which), power) for which, power in monomial]


def collected(terms: Mapping[Monomial, int] | Iterable[tuple[Monomial, int]]) -> Polynomial:
    """The normal form of a sum of terms."""
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms.items() if isinstance(terms, Mapping) else terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    found = [(m, c) for m, c in total.items() if c]
    return tuple(sorted(_paired_halves(found), key=lambda term: _order(term[0]), reverse=True))


def _paired_halves(terms: list[tuple[Monomial, int]]) -> Iterable[tuple[Monomial, int]]:
    """Terms in which no two halves ``x // 2`` are of polynomials that differ by a number.

    ``x // 2 + (x + 1) // 2`` is ``x``. So the padding of windows, ``total // 2`` at one end and the
    rest at the other, is ``total``.
    """
    found: dict[Polynomial, tuple[int, Monomial]] = {}
    for monomial, _ in terms:
        halved = _halved(monomial)
        if halved is None:
            continue
        rest, number = _without_number(halved)
        if rest not in found:
            found[rest] = number, monomial
            continue
        # The lower one stays.
        (low, lower), (high, higher) = sorted([found[rest], (number, monomial)])
        factor = dict(terms)[higher]
        whole, odd = divmod(high - low, 2)
        value = constant(whole)
        if odd:
            value = collected([*value, *rest, *constant(low), (lower, -1)])
        else:
            value = collected([*value, (lower, 1)])
        return collected([*(t for t in terms if t[0] != higher), *scale(value, factor)])
    return terms


def _halved(monomial: Monomial) -> Polynomial | None:
    """The polynomial ``x`` if the monomial is ``x // 2``."""
    if len(monomial) != 1:
        return None
    ((which, power),) = monomial
    if not isinstance(which, Operation) or which.kind != "floordiv" or power != 1:
        return None
    halved: Polynomial
    halved, divisor = which.arguments
    return halved if divisor == TWO else None


def _without_number(x: Polynomial) -> tuple[Polynomial, int]:
    """A polynomial without its constant term, and that term."""
    return (x[:-1], x[-1][1]) if x and not x[-1][0] else (x, 0)


def add(x: Polynomial, y: Polynomial) -> Polynomial:
    """The sum."""
    return collected([*x, *y])


def scale(x: Polynomial, factor: int) -> Polynomial:
    """A polynomial times a number."""
    return tuple((m, c * factor) for m, c in x) if factor else ZERO


def subtract(x: Polynomial, y: Polynomial) -> Polynomial:
    """The difference."""
    return add(x, scale(y, -1))


def product(x: Monomial, y: Monomial) -> Monomial:
    """The product of monomials."""
    powers: dict[Atom, int] = {}
    for which, power in (*x, *y):
        powers[which] = powers.get(which, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: _atom_key(item[0])))


def multiply(x: Polynomial, y: Polynomial) -> Polynomial:
    """The product."""
    return collected([(product(m, n), c * d) for m, c in x for n, d in y])


def quotient(x: Monomial, y: Monomial) -> Monomial | None:
    """``x / y``, or None if ``y`` does not divide ``x``."""
    powers = dict(x)
    for which, power in y:
        left = powers.get(which, 0) - power
        if left < 0:
            return None
        powers[which] = left
    return tuple((which, power) for which, power in powers.items() if power)


def exact_quotient(x: Polynomial, y: Polynomial) -> Polynomial | None:
    """The polynomial ``q`` with ``q * y == x``; None if there is none."""
    found: list[tuple[Monomial, int]] = []
    left = x
    while left:
        step = _leading_quotient(left, y)
        if step is None:
            return None
        found.append(step)
        left = subtract(left, multiply((step,), y))
        if len(found) > 64:
            return None
    return collected(found)


def _leading_quotient(x: Polynomial, y: Polynomial) -> tuple[Monomial, int] | None:
    (top, coefficient), (divisor, factor) = x[0], y[0]
    monomial = quotient(top, divisor)
    return None if monomial is None or coefficient % factor else (monomial, coefficient // factor)


def floor_divide(x: Polynomial, y: Polynomial) -> Polynomial:
    """``x // y``: the terms that ``y`` divides, plus an operation on the rest."""
    divisor, value = constant_value(y), constant_value(x)
    if divisor == 0:
        raise ZeroDivisionError("division of a symbolic dimension by zero")
    if divisor is not None and value is not None:
        return constant(value // divisor)
    whole = exact_quotient(x, y)
    if whole is not None:
        return whole
    if divisor is None:
        return atom(Operation("floordiv", (x, y)))
    # Terms that the divisor divides can be moved out of the floor.
    out = collected([(m, c // divisor) for m, c in x if m and c % divisor == 0])
    rest = subtract(x, scale(out, divisor))
    number = dict(rest).get((), 0)
    if out:
        out = add(out, constant(number // divisor))
        rest = add(rest, constant(-(number // divisor) * divisor))
    common = math.gcd(divisor, *(c for _, c in rest))
    if common > 1:
        rest, divisor = tuple((m, c // common) for m, c in rest), divisor // common
    value = constant_value(rest)
    if value is not None:
        return add(out, constant(value // divisor))
    return add(out, atom(Operation("floordiv", (rest, constant(divisor)))))


def remainder(x: Polynomial, y: Polynomial) -> Polynomial:
    """``x % y``, with the sign of ``y`` as in Python."""
    divisor, value = constant_value(y), constant_value(x)
    if divisor == 0:
        raise ZeroDivisionError("remainder of a symbolic dimension by zero")
    if divisor is not None and value is not None:
        return constant(value % divisor)
    if exact_quotient(x, y) is not None:
        return ZERO
    if divisor is not None:
        x = collected([(m, c % divisor) for m, c in x])
        value = constant_value(x)
        if value is not None:
            return constant(value % divisor)
    return atom(Operation("mod", (x, y)))


def operate(kind: str, x: Polynomial, y: Polynomial) -> Polynomial:
    """Apply the operation with a given name."""
    if kind == "floordiv":
        return floor_divide(x, y)
    if kind == "mod":
        return remainder(x, y)
    one, other = constant_value(x), constant_value(y)
    if one is not None and other is not None:
        return constant(OPERATIONS[kind](one, other))
    if x == y:
        return x
    return atom(Operation(kind, (x, y)))


def atoms(poly: Polynomial) -> Iterator[Atom]:
    """The atoms of a polynomial, without those in arguments of operations."""
    for monomial, _ in poly:
        for which, _ in monomial:
            yield which


def variables(poly: Polynomial) -> set[str]:
    """The names of all variables of a polynomial."""
    found: set[str] = set()
    for which in atoms(poly):
        if isinstance(which, str):
            found.add(which)
        else:
            found.update(*map(variables, which.arguments))
    return found


def evaluate(poly: Polynomial, values: Mapping[str, Any], operate: Callable[..., Any]) -> Any:
    """The value of a polynomial for values of its variables, which may be symbolic themselves.

    Args:
      poly: the polynomial.
      values: the value of each variable, by name.
      operate: computes an operation from its name and two values.
    """
    total: Any = 0
    for monomial, coefficient in poly:
        term: Any = coefficient
        for which, power in monomial:
            value = (
                values[which]
                if isinstance(which, str)
                else operate(which.kind, *(evaluate(a, values, operate) for a in which.arguments))
            )
            for _ in range(power):
                term = value * term
        total = term + total
    return total


@functools.cache
def _atom_text(which: Atom) -> str:
    if isinstance(which, str):
        return which
    return f"{which.kind}({', '.join(map(text, which.arguments))})"


def text(poly: Polynomial) -> str:
    """A polynomial in the syntax that `parsing` reads."""
    parts = []
    for monomial, coefficient in poly:
        factors = [
            _atom_text(which) + (f"^{power}" if power > 1 else "") for which, power in monomial
        ]
        size = abs(coefficient)
        if size != 1 or not factors:
            factors.insert(0, str(size))
        term = "*".join(factors)
        if coefficient < 0:
            parts.append(f"- {term}")
        else:
            parts.append(f"+ {term}" if parts else term)
    # A constant alone is a plain number.
    value = constant_value(poly)
    return str(value) if value is not None else " ".join(parts)
