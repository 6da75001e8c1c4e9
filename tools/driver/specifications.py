"""Arguments as text: ``f32[128,784] i32[128]``, ``{w: f32[3], b: f32} x=f64[2]``, ``0.5``.

A specification is a dtype with dimensions in brackets, a dtype alone for a scalar, a container of
specifications in Python's notation (the keys of dicts need no quotes), or a Python literal.
Specifications are separated by spaces or commas; ``name=`` makes a keyword argument.
"""

from __future__ import annotations

import ast
import re
from typing import Any, NamedTuple

import gnomon
from gnomon.dialects.types import ANY, short_name
from gnomon.tools.driver.errors import UsageError

__all__ = ["DTYPES", "DTYPES_BY_NAME", "Arguments", "parse_arguments"]

DTYPES = {short_name(dtype): dtype for dtype in ANY}
DTYPES_BY_NAME = {dtype.name: dtype for dtype in ANY}
_WIDE = frozenset({"f64", "c128", "i64", "u64"})
_TOKEN = re.compile(
    r"\s*(?:(?P<array>[A-Za-z]\w*)\[(?P<dims>[\d\s,]*)\]"
    r"|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>[()\[\]{},:=]))"
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class Arguments(NamedTuple):
    """The arguments of a call."""

    positional: tuple[Any, ...]
    by_name: dict[str, Any]


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    dims: str = ""


def parse_arguments(text: str) -> Arguments:
    """Parse a list of specifications into arguments.

    Raises:
      UsageError: the text is not a list of specifications; the message shows where.
    """
    return _Parser(text).arguments()


class _Parser:
    """A recursive-descent parser."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[_Token] = []
        self.position = 0
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                raise self.error("neither a type such as f32[2,3] nor a literal", at)
            kind = found.lastgroup or ""
            if found["array"] is not None:
                kind = "array"
            self.tokens.append(_Token(kind, found[kind], found.start(kind), found["dims"] or ""))
            at = found.end()

    def error(self, message: str, at: int | None = None) -> UsageError:
        """An error at a position, by default the position of the next token."""
        if at is None:
            token = self.peek()
            at = len(self.text) if token is None else token.at
        return UsageError(f"--args: {message}\n    {self.text}\n    {' ' * at}^")

    def peek(self, ahead: int = 0) -> _Token | None:
        """The token at an offset from the next one; None after the end."""
        i = self.position + ahead
        return self.tokens[i] if i < len(self.tokens) else None

    def is_sign(self, text: str, ahead: int = 0) -> bool:
        """Whether the token at an offset from the next one is a given sign."""
        token = self.peek(ahead)
        return token is not None and token.kind == "sign" and token.text == text

    def expect(self, text: str) -> None:
        """Skip a sign, which must be the next token."""
        if not self.is_sign(text):
            raise self.error(f"expected {text!r}")
        self.position += 1

    def arguments(self) -> Arguments:
        """Parse the whole text."""
        positional: list[Any] = []
        by_name: dict[str, Any] = {}
        while (token := self.peek()) is not None:
            if self.is_sign(","):
                self.position += 1
            elif token.kind == "name" and self.is_sign("=", ahead=1):
                if token.text in by_name:
                    raise self.error(f"{token.text!r} is given twice")
                self.position += 2
                by_name[token.text] = self.value()
            elif by_name:
                raise self.error("a positional argument follows one by name")
            else:
                positional.append(self.value())
        return Arguments(tuple(positional), by_name)

    def value(self) -> Any:
        """Parse one specification."""
        token = self.peek()
        if token is None:
            raise self.error("expected a type or a literal")
        if token.kind == "sign":
            if token.text not in _CLOSING:
                raise self.error("expected a type or a literal")
            return self.mapping() if token.text == "{" else self.sequence(token.text)
        self.position += 1
        if token.kind == "array":
            return self.array(token)
        if token.kind in ("number", "text"):
            return ast.literal_eval(token.text)
        if token.text in ("True", "False", "None"):
            return ast.literal_eval(token.text)
        return self.array(token)

    def array(self, token: _Token) -> gnomon.ShapeDtypeStruct:
        """The type of an array."""
        name = token.text
        if name not in DTYPES:
            raise self.error(
                f"{token.text!r} is not a dtype; the dtypes are {', '.join(sorted(DTYPES))}",
                token.at,
            )
        if name in _WIDE and not gnomon.config.x64_enabled:
            raise self.error(f"{token.text} needs the option --x64", token.at)
        dims = [int(size) for size in re.split(r"[\s,]+", token.dims.strip()) if size]
        return gnomon.ShapeDtypeStruct(dims, DTYPES[name])

    def sequence(self, opening: str) -> Any:
        """A tuple or a list."""
        self.position += 1
        values = []
        while not self.is_sign(_CLOSING[opening]):
            values.append(self.value())
            if self.is_sign(","):
                self.position += 1
        self.position += 1
        return tuple(values) if opening == "(" else values

    def mapping(self) -> dict[Any, Any]:
        """A dict."""
        self.position += 1
        values = {}
        while not self.is_sign("}"):
            token = self.peek()
            if token is None or token.kind not in ("name", "text", "number"):
                raise self.error("expected a key, or '}'")
            self.position += 1
            key = token.text if token.kind == "name" else ast.literal_eval(token.text)
            self.expect(":")
            values[key] = self.value()
            if self.is_sign(","):
                self.position += 1
        self.position += 1
        return values
