"""Arithmetic with twice the digits of a format, for the few steps that would lose the last digits.

A `Pair` is the unevaluated sum of two numbers of one format. The functions take a namespace of
ops, like the algorithms that use them: `evaluated`, `lowered` or `emitted`. A namespace whose
``keeps_errors`` is false serves results that are rounded to a narrower format; there all low parts
are absent, and nothing is computed for them.

T. J. Dekker, A floating-point technique for extending the available precision, 1971. Products are
split by masks on bits, so that every partial product is exact: a compiler that contracts a partial
product and a sum gets the same result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gnomon.dialects.elementwise.expansion import dtype_of

__all__ = [
    "Pair", "backwards", "exact_product", "exact_sum", "exponential", "horner", "joined",
    "logarithm", "polynomial", "product", "quotient", "scaled", "sum_of_lows",
]  # fmt: skip

Value = Any


class Pair(NamedTuple):
    """A number and its rounding error; the error is ``None`` if it is not kept."""

    high: Value
    low: Value | None = None


class _Format(NamedTuple):
    """The constants of a format.

    Attributes:
      integer: the signed integer of its width.
      mantissa: the number of stored bits of the mantissa.
      low: the number of bits in the lower half of a mantissa; products of halves are exact.
      bias: the bias of the exponent.
      ln2: log(2) in two parts; products of the first with an exponent are exact.
      terms: the number of terms of the series of the exponential.
    """

    integer: np.dtype
    mantissa: int
    low: int
    bias: int
    ln2: tuple[float, float]
    terms: int


_FORMATS = {
    np.dtype(np.float64): _Format(
        integer=np.dtype(np.int64),
        mantissa=52,
        low=27,
        bias=1023,
        ln2=(0xB17217F7 / 2.0**32, 0xD1CF79ABC9E3B398 / 2.0**96),
        terms=12,
    ),
    np.dtype(np.float32): _Format(
        integer=np.dtype(np.int32),
        mantissa=23,
        low=12,
        bias=127,
        ln2=(0x58B9 / 2.0**15, 1.428606820309417e-6),
        terms=7,
    ),
}


def horner(o: Any, t: Value, coefficients: Sequence[float]) -> Value:
    """Evaluate a polynomial; the coefficient of the lowest power comes first."""
    total = o.full_like(t, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = o.add(o.mul(total, t), o.full_like(t, coefficient))
    return total


def polynomial(
    o: Any,
    t: Value,
    coefficients: Sequence[float],
    steps: int = 1,
    t_low: Value | None = None,
) -> Pair:
    """A polynomial, whose last steps of Horner's rule keep their errors.

    Args:
      o: the namespace of ops.
      t: the variable, at most about 1 in absolute value.
      coefficients: the coefficient of the lowest power comes first.
      steps: the number of the steps. One is enough if the first coefficient dominates.
      t_low: the rounding error of ``t``, which counts if there are two steps.
    """
    total = Pair(horner(o, t, coefficients[steps:]))
    for coefficient in reversed(coefficients[:steps]):
        moved = product(o, total, Pair(t, t_low)) if steps > 1 else Pair(o.mul(total.high, t))
        found = exact_sum(o, o.full_like(t, coefficient), moved.high)
        total = Pair(found.high, sum_of_lows(o, found.low, moved.low))
    return total


def backwards(
    o: Any, terms: Value, start: Pair, step: Callable[..., Pair], *constants: Value
) -> Pair:
    """The value after a step for each number from the last term down to 1.

    Args:
      o: the namespace of ops.
      terms: the number of terms.
      start: the value after the last term.
      step: a function of a number, the value so far, and the constants.
      constants: further operands of the step.
    """
    parts = [part for part in start if part is not None] if o.keeps_errors else [start.high]

    def advance(*values: Value) -> list[Value]:
        given, (n, *total) = values[: len(constants)], values[len(constants) :]
        found = step(n, Pair(*total), *given)
        return [o.sub(n, o.full_like(n, 1)), *(part for part in found if part is not None)]

    def pending(n: Value, *total: Value) -> Value:
        return o.ge(n, o.full_like(n, 1))

    return Pair(*o.loop(pending, advance, list(constants), [terms, *parts])[1:])


def sum_of_lows(o: Any, *terms: Value | None) -> Value | None:
    """The sum of the low parts that are kept."""
    total: Value | None = None
    for term in terms:
        if term is not None:
            total = term if total is None else o.add(total, term)
    return total


def joined(o: Any, x: Pair) -> Value:
    """A pair rounded to one number."""
    return x.high if x.low is None else o.add(x.high, x.low)


def exact_sum(o: Any, a: Value, b: Value) -> Pair:
    """A sum and its rounding error."""
    total = o.add(a, b)
    if not o.keeps_errors:
        return Pair(total)
    part = o.sub(total, a)
    return Pair(total, o.add(o.sub(a, o.sub(total, part)), o.sub(b, part)))


def _halves(o: Any, x: Value) -> tuple[Value, Value]:
    """A number as the sum of two with half of the bits."""
    format_ = _FORMATS[dtype_of(x)]
    bits = o.bitcast_convert(x, dtype=format_.integer)
    upper = o.and_(bits, o.full_like(bits, -(1 << format_.low)))
    high = o.bitcast_convert(upper, dtype=dtype_of(x))
    return high, o.sub(x, high)


def exact_product(o: Any, a: Value, b: Value) -> Pair:
    """A product and its rounding error."""
    rounded = o.mul(a, b)
    if not o.keeps_errors:
        return Pair(rounded)
    a1, a2 = _halves(o, a)
    b1, b2 = (a1, a2) if a is b else _halves(o, b)
    lost = o.sub(o.mul(a1, b1), rounded)
    for left, right in ((a1, b2), (a2, b1), (a2, b2)):
        lost = o.add(lost, o.mul(left, right))
    return Pair(rounded, lost)


def product(o: Any, a: Pair, b: Pair) -> Pair:
    """The product of two pairs."""
    high, lost = exact_product(o, a.high, b.high)
    cross = [
        o.mul(left, right)
        for left, right in ((a.high, b.low), (a.low, b.high))
        if left is not None and right is not None
    ]
    return Pair(high, sum_of_lows(o, lost, *cross))


def quotient(o: Any, a: Pair, b: Pair) -> Pair:
    """The quotient of two pairs."""
    high = o.div(a.high, b.high)
    if not o.keeps_errors:
        return Pair(high)
    back, lost = exact_product(o, high, b.high)
    rest = o.sub(o.sub(a.high, back), lost)
    if a.low is not None:
        rest = o.add(rest, a.low)
    if b.low is not None:
        rest = o.sub(rest, o.mul(high, b.low))
    return Pair(high, o.div(rest, b.high))


def logarithm(o: Any, x: Pair, precise: bool = False) -> Pair:
    """The logarithm of a positive normal number, with 6 bits more than the format has.

    The exponent's multiple of log(2) and the first term of 2 atanh(s) are pairs; the other terms,
    which are a hundredth of the first, have the digits of the format.

    Args:
      o: the namespace of ops.
      x: the number.
      precise: whether the second term is a pair, too, for 12 bits more than the format has.
    """
    if not o.keeps_errors:
        return Pair(o.log(x.high))
    dtype = dtype_of(x.high)
    format_ = _FORMATS[dtype]
    bits = o.bitcast_convert(x.high, dtype=format_.integer)
    # The exponent for which the mantissa is around 1, from sqrt(1/2) to sqrt(2).
    root_half = int(np.array(math.sqrt(0.5), dtype).view(format_.integer))
    places = o.full_like(bits, format_.mantissa)
    exponent = o.shift_right_arithmetic(o.sub(bits, o.full_like(bits, root_half)), places)
    moved = o.sub(bits, o.shift_left(exponent, places))
    mantissa = o.bitcast_convert(moved, dtype=dtype)
    one = o.full_like(mantissa, 1)
    excess, total = o.sub(mantissa, one), o.add(mantissa, one)
    total_lost = o.sub(mantissa, o.sub(total, one))
    s = quotient(o, Pair(excess), Pair(total, total_lost))
    square = o.mul(s.high, s.high)
    count = 12 if dtype.itemsize == 8 else 5
    coefficients = [2 / (2 * k + 3) for k in range(count)]
    doubled = Pair(o.add(s.high, s.high), o.add(s.low, s.low))
    if precise:
        cube = product(o, s, product(o, s, s))
        first = float(dtype.type(coefficients[0]))
        missing = float(Fraction(2, 3) - Fraction(first))
        factor = Pair(o.full_like(square, first), o.full_like(square, missing))
        third = product(o, cube, factor)
        series = horner(o, square, coefficients[1:])
        tail = o.mul(o.mul(cube.high, square), series)
        found = exact_sum(o, doubled.high, third.high)
        doubled = Pair(found.high, sum_of_lows(o, found.low, doubled.low, third.low))
    else:
        tail = o.mul(o.mul(s.high, square), horner(o, square, coefficients))
    n = o.convert(exponent, dtype=dtype)
    high, lost = exact_sum(o, o.mul(n, o.full_like(n, format_.ln2[0])), doubled.high)
    low = sum_of_lows(
        o, lost, doubled.low, o.mul(n, o.full_like(n, format_.ln2[1])), tail,
        None if x.low is None else o.div(x.low, x.high),
    )  # fmt: skip
    return Pair(*exact_sum(o, high, low))


def exponential(o: Any, x: Pair) -> tuple[Pair, Value | None]:
    """A pair m and a number n such that ``exp(x) = m * 2**n``, for a finite x of moderate size.

    Where errors are not kept, m is the exponential itself, and n is absent.
    """
    if not o.keeps_errors:
        return Pair(o.exp(x.high)), None
    format_ = _FORMATS[dtype_of(x.high)]
    one = o.full_like(x.high, 1)
    scale = o.full_like(x.high, 1 / math.log(2))
    n = o.floor(o.add(o.mul(x.high, scale), o.full_like(x.high, 0.5)))
    rest = o.sub(x.high, o.mul(n, o.full_like(n, format_.ln2[0])))
    low = o.neg(o.mul(n, o.full_like(n, format_.ln2[1])))
    if x.low is not None:
        low = o.add(low, x.low)
    r = exact_sum(o, rest, low)
    series = horner(o, r.high, [1 / math.factorial(k) for k in range(2, format_.terms + 2)])
    tail = o.mul(o.mul(r.high, r.high), series)
    total, lost = exact_sum(o, one, r.high)
    return Pair(total, o.add(lost, o.add(o.mul(r.low, total), tail))), n


def scaled(o: Any, value: Value, n: Value | None) -> Value:
    """``value * 2**n`` for the exponent of an `exponential`, in two steps that do not overflow."""
    if n is None:
        return value
    dtype = dtype_of(value)
    format_ = _FORMATS[dtype]
    first = o.floor(o.mul(n, o.full_like(n, 0.5)))
    for part in (first, o.sub(n, first)):
        bits = o.convert(o.add(part, o.full_like(part, format_.bias)), dtype=format_.integer)
        bits = o.shift_left(bits, o.full_like(bits, format_.mantissa))
        value = o.mul(value, o.bitcast_convert(bits, dtype=dtype))
    return value
