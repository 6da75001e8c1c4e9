"""The parser of symbolic shapes and constraints: ``"a, 2*b + 1, max(a, 3), mod(b, 2)"``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from gnomon.dialects.symbolic import polynomials as poly
from gnomon.dialects.symbolic.polynomials import Polynomial

_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|([A-Za-z_]\w*)|(\.\.\.|[-+*^(),])|(\S))")
_MAX_POWER = 64
Normalize = Callable[[Polynomial], Polynomial]


class _Parser:
    """A recursive-descent parser; ``what`` names the input in error messages."""

    def __init__(self, text: str, what: str, normalize: Normalize) -> None:
        self._text, self._what, self._normalize = text, what, normalize
        self._tokens: list[tuple[str, str, int]] = []
        for match in _TOKEN.finditer(text):
            number, name, symbol, other = match.groups()
            kind = "number" if number else "name" if name else "symbol"
            self._tokens.append((kind, number or name or symbol or other, match.end()))
        self._tokens.append(("end", "the end", len(text)))
        self._at = 0
        self.dimension: int | None = None

    def error(self, expected: str) -> ValueError:
        """The error for a token that is not the expected one."""
        where = "" if self.dimension is None else f" in dimension {self.dimension}"
        start = self._tokens[self._at - 1][2] if self._at else 0
        return ValueError(
            f"syntax error in {self._what} {self._text!r}{where}: expecting {expected}, but found "
            f"{self.here!r}. Parsed {self._text[:start]!r}, remaining {self._text[start:]!r}"
        )

    @property
    def here(self) -> str:
        """The text of the next token."""
        return self._tokens[self._at][1]

    @property
    def kind(self) -> str:
        """``number``, ``name``, ``symbol`` or ``end``."""
        return self._tokens[self._at][0]

    def take(self, wanted: str) -> bool:
        """Step over a symbol if it is the next token."""
        if self.kind in ("symbol", "name") and self.here == wanted:
            self._at += 1
            return True
        return False

    def need(self, wanted: str) -> None:
        """Step over a symbol that must be the next token."""
        if not self.take(wanted):
            raise self.error(repr(wanted))

    def expression(self) -> Polynomial:
        """A sum of terms."""
        negative = self.take("-")
        total = self.term()
        total = poly.scale(total, -1) if negative else total
        while self.here in ("+", "-") and self.kind == "symbol":
            sign = 1 if self.take("+") else -1
            if sign < 0:
                self.need("-")
            total = poly.add(total, poly.scale(self.term(), sign))
        return self._normalize(total)

    def term(self) -> Polynomial:
        """A product of powers."""
        total = self.power()
        while self.take("*"):
            total = poly.multiply(total, self.power())
        return total

    def power(self) -> Polynomial:
        """An atom, or a power of one."""
        base = self.atom()
        if self.take("^"):
            exponent, total = self.number(), poly.constant(1)
            if exponent > _MAX_POWER:
                raise self.error(f"a power of at most {_MAX_POWER}")
            for _ in range(exponent):
                total = poly.multiply(total, base)
            return total
        return base

    def number(self) -> int:
        """An integer."""
        if self.kind != "number" or "." in self.here:
            raise self.error("an integer")
        self._at += 1
        return int(self._tokens[self._at - 1][1])

    def atom(self) -> Polynomial:
        """A number, a variable, an operation, or a sum in parentheses."""
        if self.kind == "number":
            return poly.constant(self.number())
        if self.take("("):
            inner = self.expression()
            self.need(")")
            return inner
        if self.kind != "name":
            raise self.error("a name or a number")
        name = self.here
        self._at += 1
        if name not in poly.OPERATIONS:
            return poly.atom(name)
        self.need("(")
        first = self.expression()
        self.need(",")
        second = self.expression()
        self.need(")")
        return self._normalize(poly.operate(name, first, second))


def _same(polynomial: Polynomial) -> Polynomial:
    return polynomial


def parse_dimension(text: str, normalize: Normalize = _same) -> Polynomial:
    """Parse one expression.

    Raises:
      ValueError: the text is not an expression.
    """
    parser = _Parser(text, "dimension", normalize)
    found = parser.expression()
    if parser.kind != "end":
        raise parser.error("an operator")
    return found


def parse_shape(
    text: str | None, like: Sequence[Any] | None, normalize: Normalize
) -> list[Polynomial | Any]:
    """Parse a shape into polynomials and sizes that are taken from ``like``.

    Raises:
      ValueError: the text is not a shape, or it needs a ``like`` that is missing or does not fit.
    """
    text = "..." if text is None else text
    parser = _Parser(text, "symbolic shape", normalize)
    parenthesized = parser.take("(")
    found: list[Polynomial | Any] = []
    closing = ")" if parenthesized else "the end"
    while parser.here != closing:
        parser.dimension = len(found)
        if parser.here == "...":
            found += _rest(parser, found, like)
            parser.take("...")
            parser.take(",")
            if parser.here != closing:
                raise parser.error(f"{closing!r} after '...'")
            break
        if parser.take("_"):
            found.append(_size_like(parser, len(found), like))
        else:
            found.append(parser.expression())
        if parser.here != closing:
            parser.need(",")
    if parenthesized:
        parser.need(")")
    if parser.kind != "end":
        raise parser.error("the end")
    return found


def _rest(parser: _Parser, found: list[Any], like: Sequence[Any] | None) -> list[Any]:
    if like is None:
        raise parser.error("an expression, because like= was not given")
    return [_size_like(parser, i, like) for i in range(len(found), len(like))]


def _size_like(parser: _Parser, dimension: int, like: Sequence[Any] | None) -> Any:
    if like is None or dimension >= len(like) or like[dimension] is None:
        raise parser.error(f"an expression, because like= has no size for dimension {dimension}")
    return like[dimension]


def parse_constraint(text: str, normalize: Normalize) -> tuple[Polynomial, str, Polynomial]:
    """Parse a constraint into its left side, its relation and its right side.

    Raises:
      ValueError: the text is not a constraint.
    """
    found = re.fullmatch(r"([^<>=]*)(==|>=|<=)([^<>=]*)", text)
    if found is None:
        raise ValueError(
            f"Constraint parsing error: {text!r} must contain one of '==' or '>=' or '<='"
        )
    left, relation, right = found.groups()
    return parse_dimension(left, normalize), relation, parse_dimension(right, normalize)
