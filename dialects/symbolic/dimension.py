"""Symbolic dimensions, and the scopes of their variables."""

from __future__ import annotations

import functools
import math
import operator
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from gnomon.dialects.symbolic import polynomials as poly
from gnomon.dialects.symbolic.bounds import LARGEST, Bounds
from gnomon.dialects.symbolic.errors import InconclusiveDimensionOperation
from gnomon.dialects.symbolic.parsing import parse_constraint, parse_dimension
from gnomon.dialects.symbolic.polynomials import Polynomial

_scopes: dict[int, SymbolicScope] = {}


class SymbolicScope:
    """The variables of a program's dimensions, and what is known about them.

    Equal names in one scope are equal dimensions. Dimensions of different scopes cannot be mixed.

    Args:
      constraints_str: relations between expressions: ``==``, ``>=`` or ``<=``. Each variable is at
        least 1 without a constraint.

    Example:
      >>> from gnomon import export
      >>> scope = export.SymbolicScope(["a >= 4", "mod(a, 2) == 0"])
      >>> a, b = export.symbolic_shape("a, b", scope=scope)
      >>> a > 3, a % 2
      (True, 0)
    """

    def __init__(self, constraints_str: Sequence[str] = (), *, number: int | None = None) -> None:
        if isinstance(constraints_str, str):
            raise ValueError(
                f"constraints_str must be a sequence of strings, got the string {constraints_str!r}"
            )
        self.constraints = tuple(constraints_str)
        # Programs name their scope by a number that no other process uses.
        self.number = secrets.randbits(62) if number is None else number
        # For each monomial: a factor, and the polynomial that equals the product of both.
        self._rules: dict[poly.Monomial, tuple[int, Polynomial]] = {}
        self.relations: list[tuple[str, Polynomial, Polynomial]] = []
        known: list[Polynomial] = []
        for text in self.constraints:
            left, relation, right = parse_constraint(text, self.normalize)
            self.relations.append((relation, left, right))
            if relation == ">=":
                known.append(poly.subtract(left, right))
            elif relation == "<=":
                known.append(poly.subtract(right, left))
            else:
                known += self._equality(left, right)
        self.bounds = Bounds(known)
        _scopes[self.number] = self

    def _equality(self, left: Polynomial, right: Polynomial) -> list[Polynomial]:
        """Make `normalize` replace one side by the other; if it cannot, return constraints."""
        for one, other in ((left, right), (right, left)):
            if len(one) == 1 and one[0][1] == 1 and one[0][0]:
                ((monomial, _),) = one
                if any(_occurs(which, other) for which, _ in monomial):
                    continue
                self._rules[monomial] = 1, other
                self._divisible(monomial, other)
                return []
        difference = poly.subtract(left, right)
        return [difference, poly.scale(difference, -1)]

    def _divisible(self, monomial: poly.Monomial, other: Polynomial) -> None:
        """If the equality is ``x % n == 0``, add the rule that ``n * (x // n)`` is ``x``."""
        ((which, power), *more) = monomial
        if other or more or power > 1 or isinstance(which, str) or which.kind != "mod":
            return
        x, n = which.arguments
        size, divided = poly.constant_value(n), poly.floor_divide(x, n)
        if size is not None and len(divided) == 1 and divided[0][1] == 1:
            self._rules[divided[0][0]] = size, x

    def normalize(self, polynomial: Polynomial) -> Polynomial:
        """A polynomial with the user's equalities applied."""
        for _ in range(32 if self._rules else 0):
            terms: list[tuple[poly.Monomial, int]] = []
            changed = False
            for monomial, coefficient in polynomial:
                for pattern, (factor, replacement) in self._rules.items():
                    rest = poly.quotient(monomial, pattern)
                    if rest is not None and coefficient % factor == 0:
                        terms += poly.multiply(((rest, coefficient // factor),), replacement)
                        changed = True
                        break
                else:
                    terms.append((monomial, coefficient))
            if not changed:
                break
            polynomial = poly.collected(terms)
        return polynomial

    def dimension(self, polynomial: Polynomial) -> Any:
        """A polynomial as a dimension of this scope; an int if it is constant."""
        polynomial = self.normalize(polynomial)
        value = poly.constant_value(polynomial)
        if value is not None:
            return value
        low, high = self.bounds(polynomial)
        return int(low) if low == high else Dimension(polynomial, self)

    def parse(self, text: str) -> Any:
        """The dimension of an expression."""
        return self.dimension(parse_dimension(text, self.normalize))

    def __str__(self) -> str:
        listed = "".join(f"\n  {c}" for c in self.constraints)
        return f"scope {self.number}" + (f" with constraints:{listed}" if listed else "")


def _occurs(which: poly.Atom, polynomial: Polynomial) -> bool:
    return any(
        which == other
        or (isinstance(other, poly.Operation) and any(_occurs(which, a) for a in other.arguments))
        for other in poly.atoms(polynomial)
    )


def scope_numbered(number: int, constraints: Sequence[str] = ()) -> SymbolicScope:
    """The scope with a number; created from the constraints if the process does not have it."""
    return _scopes.get(number) or SymbolicScope(constraints, number=number)


def _binary(
    compute: Callable[[Polynomial, Polynomial], Polynomial], of_arrays: Callable[[Any, Any], Any]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: Dimension, other: Any) -> Any:
        found = self._operand(other)
        if found is None:
            return self._on_arrays(other, lambda x: of_arrays(x, other))
        return self.scope.dimension(compute(self.polynomial, found))

    def backward(self: Dimension, other: Any) -> Any:
        found = self._operand(other)
        if found is None:
            return self._on_arrays(other, lambda x: of_arrays(other, x))
        return self.scope.dimension(compute(found, self.polynomial))

    return forward, backward


def _undecided(kind: str, left: Any, right: Any) -> InconclusiveDimensionOperation:
    return InconclusiveDimensionOperation(
        f"Symbolic dimension comparison '{left}' {kind} '{right}' is inconclusive: it may hold for "
        "some sizes and not for others. Add a constraint to symbolic_shape(..., constraints=[...]) "
        "that decides it"
    )


class Dimension:
    """A size that is an expression of variables, never a constant.

    Arithmetic with integers and dimensions of the same scope gives dimensions, or integers if the
    variables cancel out; with anything else it gives arrays. ``==`` is False unless the operands
    are equal for all values of the variables. Order comparisons such as ``<`` raise
    `InconclusiveDimensionOperation` if the bounds do not decide them.
    """

    __slots__ = ("_hash", "polynomial", "scope")

    as_array: ClassVar[Callable[[Any], Any] | None] = None
    """Converts a dimension to an array; the frontend sets it."""

    # Makes NumPy defer to the operators of this class.
    __array_ufunc__ = None

    def __init__(self, polynomial: Polynomial, scope: SymbolicScope) -> None:
        self.polynomial = polynomial
        self.scope = scope
        self._hash = hash((polynomial, scope.number))

    def _operand(self, other: Any) -> Polynomial | None:
        """The other operand as a polynomial; None if it is neither a dimension nor an integer."""
        if isinstance(other, Dimension):
            if other.scope is not self.scope:
                raise ValueError(
                    f"Invalid mixing of symbolic scopes: '{self}' belongs to {self.scope}, and "
                    f"'{other}' belongs to {other.scope}. Create them in one call of "
                    "symbolic_shape, or pass the same scope= to both calls"
                )
            return other.polynomial
        if isinstance(other, (int, np.integer)):
            return poly.constant(int(other))
        return None

    def _on_arrays(self, other: Any, operate: Callable[[Any], Any]) -> Any:
        if not isinstance(other, (float, complex, np.generic, np.ndarray)):
            return NotImplemented
        return operate(self.__gnomon_array__())

    def __gnomon_array__(self) -> Any:
        assert Dimension.as_array is not None
        return Dimension.as_array(self)

    # Operators of arrays look for this name.
    __jax_array__ = __gnomon_array__

    __add__, __radd__ = _binary(poly.add, operator.add)
    __sub__, __rsub__ = _binary(poly.subtract, operator.sub)
    __mul__, __rmul__ = _binary(poly.multiply, operator.mul)
    __floordiv__, __rfloordiv__ = _binary(poly.floor_divide, operator.floordiv)
    __mod__, __rmod__ = _binary(poly.remainder, operator.mod)

    def __truediv__(self, other: Any) -> Any:
        return operator.truediv(self.__gnomon_array__(), other)

    def __rtruediv__(self, other: Any) -> Any:
        return operator.truediv(other, self.__gnomon_array__())

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, power: Any) -> Any:
        if type(power) is not int or power < 0:
            return operator.pow(self.__gnomon_array__(), power)
        return math.prod([self] * power)

    def __rpow__(self, base: Any) -> Any:
        return operator.pow(base, self.__gnomon_array__())

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dimension):
            if other.scope is not self.scope:
                return False
            if other.polynomial == self.polynomial:
                return True
        found = self._operand(other)
        if found is None:
            return False
        low, high = self.scope.bounds(self.scope.normalize(poly.subtract(self.polynomial, found)))
        return low == high == 0

    def __hash__(self) -> int:
        return self._hash

    def _compare(self, other: Any, kind: str, decide: Callable[..., bool | None]) -> Any:
        found = self._operand(other)
        if found is None:
            return NotImplemented
        difference = self.scope.normalize(poly.subtract(self.polynomial, found))
        answer = decide(*self.scope.bounds(difference))
        if answer is None:
            raise _undecided(kind, self, other)
        return answer

    def __ge__(self, other: Any) -> Any:
        return self._compare(
            other, ">=", lambda low, high: True if low >= 0 else False if high < 0 else None
        )

    def __gt__(self, other: Any) -> Any:
        return self._compare(
            other, ">", lambda low, high: True if low > 0 else False if high <= 0 else None
        )

    def __le__(self, other: Any) -> Any:
        return self._compare(
            other, "<=", lambda low, high: True if high <= 0 else False if low > 0 else None
        )

    def __lt__(self, other: Any) -> Any:
        return self._compare(
            other, "<", lambda low, high: True if high < 0 else False if low >= 0 else None
        )

    def __bool__(self) -> bool:
        low, high = self.scope.bounds(self.polynomial)
        if low > 0 or high < 0:
            return True
        raise _undecided("!=", self, 0)

    def _no_integer(self) -> Any:
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension '{self}' used in a context that requires a constant integer. A "
            "program with symbolic dimensions is traced once for all sizes; use a loop of "
            "gnomon.lax instead of range(n), or gnomon.numpy.array(n) to compute with the size"
        )

    def __index__(self) -> int:
        found: int = self._no_integer()
        return found

    def __int__(self) -> int:
        found: int = self._no_integer()
        return found

    def bit_length(self) -> int:
        """Raise an error, because the value is not known."""
        found: int = self._no_integer()
        return found

    def __float__(self) -> float:
        found: float = self._no_integer()
        return found

    def __str__(self) -> str:
        return poly.text(self.polynomial)

    __repr__ = __str__

    def __reduce__(self) -> Any:
        return _rebuilt, (str(self), self.scope.number, self.scope.constraints)


def _rebuilt(text: str, number: int, constraints: tuple[str, ...]) -> Any:
    return scope_numbered(number, constraints).parse(text)


def is_symbolic_dim(p: Any) -> bool:
    """Whether a size is symbolic.

    Args:
      p: a size of a shape: an int, or a symbolic dimension.

    Example:
      >>> from gnomon import export
      >>> batch, _ = export.symbolic_shape("batch, 3")
      >>> export.is_symbolic_dim(batch), export.is_symbolic_dim(3)
      (True, False)
    """
    return isinstance(p, Dimension)


def as_size(n: Any) -> Any:
    """Convert a size with ``operator.index``; return a symbolic dimension unchanged."""
    return n if isinstance(n, Dimension) else operator.index(n)


def any_symbolic(sizes: Sequence[Any]) -> bool:
    """Whether any of the sizes is symbolic."""
    return any(isinstance(n, Dimension) for n in sizes)


def exceeds(size: Any, limit: int) -> bool:
    """Whether a dimension of an array is larger than a limit.

    Calls check that symbolic dimensions of arrays are at most `LARGEST`, so the bounds need not
    prove it.
    """
    if isinstance(size, Dimension) and limit >= LARGEST:
        return False
    return bool(size > limit)


def surely_at_most(size: Any, limit: int) -> bool:
    """Whether a size is at most a limit; a symbolic one, for all values of its variables."""
    if not isinstance(size, Dimension):
        return bool(size <= limit)
    return bool(size.scope.bounds(size.polynomial)[1] <= limit)


def may_be_zero(size: Any) -> bool:
    """Whether a size is 0; a symbolic one, for any values of its variables."""
    if not isinstance(size, Dimension):
        return bool(size == 0)
    low, high = size.scope.bounds(size.polynomial)
    return bool(low <= 0 <= high)


def larger(x: Any, y: Any) -> Any:
    """The maximum of two sizes; symbolic if the bounds do not decide it."""
    if type(x) is type(y) is int:
        return max(x, y)
    return _extremum("max", x, y)


def smaller(x: Any, y: Any) -> Any:
    """The minimum of two sizes; symbolic if the bounds do not decide it."""
    if type(x) is type(y) is int:
        return min(x, y)
    return _extremum("min", x, y)


def _extremum(kind: str, x: Any, y: Any) -> Any:
    if not any_symbolic((x, y)):
        return max(x, y) if kind == "max" else min(x, y)
    scope = x.scope if isinstance(x, Dimension) else y.scope
    difference = x - y
    low = high = difference
    if isinstance(difference, Dimension):
        low, high = scope.bounds(difference.polynomial)
    if low >= 0:
        return x if kind == "max" else y
    if high <= 0:
        return y if kind == "max" else x
    given = [n.polynomial if isinstance(n, Dimension) else poly.constant(n) for n in (x, y)]
    return scope.dimension(poly.operate(kind, *given))


def substituted(polynomial: Polynomial, values: Mapping[str, Any]) -> Any:
    """The value of a polynomial for sizes of its variables, which may be symbolic themselves."""

    def operate(kind: str, x: Any, y: Any) -> Any:
        if kind == "floordiv":
            return x // y
        if kind == "mod":
            return x % y
        return _extremum(kind, x, y)

    return poly.evaluate(polynomial, values, operate)


@functools.lru_cache(maxsize=4096)
def parsed(text: str) -> Polynomial:
    """The polynomial of an expression, without the equalities of any scope."""
    return parse_dimension(text)
