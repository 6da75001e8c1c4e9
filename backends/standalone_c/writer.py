"""Statements of C code: lines, blocks, loops, and accesses to memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gnomon.backends.standalone_c.types import of_type
from gnomon.backends.standalone_c.values import Buffer, Index

__all__ = ["Writer"]


class Writer:
    """Writes the statements of a C function.

    Attributes:
      lines: the lines of its body.
      constants: the definitions of arrays that are written before it.
      helpers: the names of functions that the prelude makes from templates for given types.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: list[str] = []
        self.helpers: set[str] = set()
        self._numbers = itertools.count()
        self._indent = 1
        self._memo: dict[Any, str] = {}

    def line(self, text: str) -> None:
        """Write a line."""
        self.lines.append("  " * self._indent + text)

    def name(self, prefix: str) -> str:
        """A new name."""
        return f"{prefix}{next(self._numbers)}"

    def number(self) -> int:
        """A new number."""
        return next(self._numbers)

    def local(self, kind: str, expression: str, prefix: str = "t") -> str:
        """Assign an expression to a new variable."""
        name = self.name(prefix)
        self.line(f"const {kind} {name} = {expression};")
        return name

    def once(self, key: Any, evaluate: Callable[[], str]) -> str:
        """The expression for a key, evaluated at most once in a block and the blocks inside it."""
        if key not in self._memo:
            self._memo[key] = evaluate()
        return self._memo[key]

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """Write a block; expressions evaluated in it must not be reused after it."""
        self.line(f"{head} {{" if head else "{")
        self._indent += 1
        memo, self._memo = self._memo, dict(self._memo)
        try:
            yield
        finally:
            self._memo = memo
            self._indent -= 1
            self.line(tail)

    @contextmanager
    def loops(self, shape: Sequence[int], *, parallel: bool = True) -> Iterator[Index]:
        """Write a loop for each dimension; yield their indices.

        Args:
          shape: the number of iterations of each.
          parallel: whether the iterations of the innermost loop do not depend on each other.
        """
        names = tuple(self.name("i") if size != 1 else "0" for size in shape)
        with self._nest([(n, s) for n, s in zip(names, shape, strict=True) if s != 1], parallel):
            yield names

    @contextmanager
    def _nest(self, dimensions: Sequence[tuple[str, int]], parallel: bool) -> Iterator[None]:
        if not dimensions:
            with self.block(""):
                yield
            return
        (name, size), *rest = dimensions
        if parallel and not rest:
            self.line("GNOMON_INDEPENDENT")
        with self.block(f"for (int64_t {name} = 0; {name} < {size}; ++{name})"):
            if rest:
                with self._nest(rest, parallel):
                    yield
            else:
                yield

    def load(self, buffer: Buffer, position: str) -> str:
        """Read an element."""
        kind = of_type(buffer.type)
        read = f"{buffer.pointer}[{position}]"
        return f"gnomon_load_{kind.half}({read})" if kind.half else read

    def store(self, buffer: Buffer, position: str, expression: str) -> None:
        """Write an element."""
        kind = of_type(buffer.type)
        if kind.half:
            expression = f"gnomon_store_{kind.half}({expression})"
        self.line(f"{buffer.pointer}[{position}] = {expression};")
