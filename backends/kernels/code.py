"""The text of a function of loops: operations on scalars and memory, in MLIR's own dialects.

The dialects are `func`, `scf`, `memref`, `arith`, `math` and `vector`, so a function can be
printed, verified and compiled for a processor, and written in C.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

__all__ = ["Code", "Element", "Pair", "Place", "Scalar", "Variable"]

_T = TypeVar("_T")


@dataclass(frozen=True)
class Scalar:
    """A scalar of a type of MLIR: a name, or a constant that is defined when it is used.

    Attributes:
      type: the type, such as ``f32``.
      name: the name of the SSA value.
      known: the value of a constant; None otherwise.
    """

    type: str
    name: str
    known: float | int | bool | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Pair:
    """A complex number: its real and its imaginary part."""

    re: Scalar
    im: Scalar


Element: TypeAlias = "Scalar | Pair"
"""An element of an array."""

Place: TypeAlias = "int | Scalar"
"""An index or a position: a number that is known, or a scalar of type ``index``."""


@dataclass(frozen=True)
class Variable:
    """A scalar or vector that is assigned to; compilers keep it in registers."""

    type: str
    name: str


class Code:
    """Writes the body of a function.

    Values, and places in memory, are merged if they are equal: an expression is evaluated once in
    a block and in the blocks inside of it.
    """

    def __init__(self) -> None:
        self._head: list[str] = []
        self._lines: list[str] = []
        self._numbers = itertools.count()
        self._indent = 2
        self._memo: dict[Any, Any] = {}
        self._pool: dict[Any, str] = {}

    def text(self) -> str:
        """The lines of the function: its constants, variables and memory, then its statements."""
        return "\n".join([*self._head, *self._lines])

    def line(self, text: str) -> None:
        """Write a line."""
        self._lines.append("  " * self._indent + text)

    def name(self) -> str:
        """A new name."""
        return f"%{next(self._numbers)}"

    def number(self) -> int:
        """A new number."""
        return next(self._numbers)

    def at_head(self, key: Any, definition: str) -> str:
        """The name of a value that is defined at the start of the function, once for each key."""
        if key not in self._pool:
            name = self._pool[key] = self.name()
            self._head.append(f"    {name} = {definition}")
        return self._pool[key]

    def once(self, key: Any, evaluate: Callable[[], _T]) -> _T:
        """The value for a key, evaluated at most once in a block and the blocks inside it."""
        if key not in self._memo:
            self._memo[key] = evaluate()
        value: _T = self._memo[key]
        return value

    # -------------------------------------------------------------------------------------- scalars

    def constant(self, value: float | int | bool, type_: str) -> Scalar:
        """A constant of a type."""
        text = _literal(value, type_)
        definition = text if type_ == "i1" else f"{text} : {type_}"
        return Scalar(type_, self.at_head((text, type_), f"arith.constant {definition}"), value)

    def pure(self, operation: str, operands: Sequence[Scalar], tail: str, type_: str) -> Scalar:
        """The result of an operation without effects.

        Args:
          operation: its name, with whatever is written before its operands.
          operands: its operands.
          tail: whatever is written after its operands.
          type_: the type of its result.
        """
        names = ", ".join(map(str, operands))

        def write() -> Scalar:
            result = Scalar(type_, self.name())
            self.line(f"{result} = {operation} {names} {tail}")
            return result

        return self.once((operation, names, tail), write)

    def same(self, operation: str, *operands: Scalar) -> Scalar:
        """The result of an operation whose result has the type of its operands."""
        type_ = operands[0].type
        return self.pure(operation, operands, f": {type_}", type_)

    def cast(self, operation: str, operand: Scalar, type_: str) -> Scalar:
        """The result of a conversion to a type."""
        if operand.type == type_:
            return operand
        return self.pure(operation, [operand], f": {operand.type} to {type_}", type_)

    def compare(self, predicate: str, left: Scalar, right: Scalar) -> Scalar:
        """The result of a comparison, such as ``olt`` of floats or ``slt`` of integers."""
        of = "arith.cmpf" if left.type.startswith(("f", "bf")) else "arith.cmpi"
        return self.pure(f"{of} {predicate},", [left, right], f": {left.type}", "i1")

    def select(self, condition: Scalar, yes: Scalar, no: Scalar) -> Scalar:
        """One of two scalars."""
        if condition.known is not None:
            return yes if condition.known else no
        return self.pure("arith.select", [condition, yes, no], f": {yes.type}", yes.type)

    def both(self, conditions: Sequence[Scalar]) -> Scalar:
        """Whether all conditions hold."""
        total = self.constant(True, "i1")
        for condition in conditions:
            total = condition if total.known else self.same("arith.andi", total, condition)
        return total

    # -------------------------------------------------------------------------------------- indices

    def at(self, place: Place) -> Scalar:
        """A place as a scalar."""
        return self.constant(place, "index") if isinstance(place, int) else place

    def plus(self, left: Place, right: Place) -> Place:
        """The sum of two places."""
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        if left == 0 or right == 0:
            return right if left == 0 else left
        return self.same("arith.addi", self.at(left), self.at(right))

    def times(self, place: Place, factor: int) -> Place:
        """The product of a place and a number."""
        if isinstance(place, int) or factor == 0:
            return place * factor if isinstance(place, int) else 0
        return place if factor == 1 else self.same("arith.muli", place, self.at(factor))

    def minus(self, left: Place, right: Place) -> Place:
        """The difference of two places."""
        if isinstance(left, int) and isinstance(right, int):
            return left - right
        return left if right == 0 else self.same("arith.subi", self.at(left), self.at(right))

    def divided(self, place: Place, by: int) -> tuple[Place, Place]:
        """The quotient and the remainder of a place that is not negative."""
        if isinstance(place, int):
            return divmod(place, by)
        if by == 1:
            return place, 0
        number = self.at(by)
        return self.same("arith.divui", place, number), self.same("arith.remui", place, number)

    def within(self, place: Place, size: int) -> list[Scalar]:
        """The conditions under which 0 <= place < size: none if it is known to hold."""
        if isinstance(place, int):
            return [] if 0 <= place < size else [self.constant(False, "i1")]
        # As an unsigned number a negative index is large, so one comparison is enough.
        return [self.compare("ult", place, self.at(size))]

    # ----------------------------------------------------------------------------- blocks and loops

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """Write a block; what is evaluated in it must not be used after it."""
        self.line(f"{head} {{")
        with self._inner(tail):
            yield

    @contextmanager
    def _inner(self, tail: str = "}") -> Iterator[None]:
        """Write the lines of a block and its end."""
        self._indent += 1
        memo, self._memo = self._memo, dict(self._memo)
        try:
            yield
        finally:
            self._memo = memo
            self._indent -= 1
            self.line(tail)

    @contextmanager
    def loop(
        self, start: Place, stop: Place, step: Place = 1, *, independent: bool = False
    ) -> Iterator[Scalar]:
        """Write a loop; yield its index.

        Args:
          start, stop, step: its range.
          independent: whether no iteration reads or writes what another one writes.
        """
        index = Scalar("index", self.name())
        bounds = f"{self.at(start)} to {self.at(stop)} step {self.at(step)}"
        tail = "} {gnomon.independent}" if independent else "}"
        with self.block(f"scf.for {index} = {bounds}", tail):
            yield index

    @contextmanager
    def loops(
        self, shape: Sequence[int], *, independent: bool = True
    ) -> Iterator[tuple[Place, ...]]:
        """Write a loop for each dimension; yield their indices: 0 where there is one iteration.

        Args:
          shape: the number of iterations of each.
          independent: whether iterations of the innermost loop do not depend on each other.
        """
        wide = [d for d, size in enumerate(shape) if size != 1]
        places: list[Place] = [0] * len(shape)
        with self._nest(shape, wide, places, independent):
            yield tuple(places)

    @contextmanager
    def _nest(
        self, shape: Sequence[int], wide: Sequence[int], places: list[Place], independent: bool
    ) -> Iterator[None]:
        if not wide:
            yield
            return
        dimension, *rest = wide
        with self.loop(0, shape[dimension], independent=independent and not rest) as index:
            places[dimension] = index
            with self._nest(shape, rest, places, independent):
                yield

    @contextmanager
    def when(self, condition: Scalar) -> Iterator[None]:
        """Write a block that runs if a condition holds."""
        if condition.known:
            yield
            return
        with self.block(f"scf.if {condition}"):
            yield

    @contextmanager
    def repeat(self, condition: Callable[[], Scalar]) -> Iterator[None]:
        """Write a loop that runs while a condition holds, which is evaluated before each pass."""
        with self.block("scf.while : () -> ()", "} do {"):
            self.line(f"scf.condition({condition()})")
        with self._inner():
            yield
            self.line("scf.yield")

    def switch(self, index: Scalar, blocks: Sequence[Callable[[], None]]) -> None:
        """Write blocks of which one runs: that with the index's number, or the last one."""
        self.line(f"scf.index_switch {index}")
        for number, write in enumerate(blocks):
            last = number == len(blocks) - 1
            with self.block("default" if last else f"case {number}"):
                write()
                self.line("scf.yield")

    # --------------------------------------------------------------------------------------- memory

    def variable(self, type_: str, initial: Scalar | None = None) -> Variable:
        """A new variable."""
        name = self.at_head(("variable", self.number()), f"memref.alloca() : memref<{type_}>")
        variable = Variable(type_, name)
        if initial is not None:
            self.assign(variable, initial)
        return variable

    def flag(self, key: str) -> Variable:
        """The variable for a key; it is false at the start of the function."""
        if key not in self._pool:
            no = self.constant(False, "i1")
            name = self.at_head(key, "memref.alloca() : memref<i1>")
            self._head.append(f"    memref.store {no}, {name}[] : memref<i1>")
        return Variable("i1", self._pool[key])

    def value(self, variable: Variable) -> Scalar:
        """The value that a variable has now."""
        result = Scalar(variable.type, self.name())
        self.line(f"{result} = memref.load {variable.name}[] : memref<{variable.type}>")
        return result

    def assign(self, variable: Variable, value: Scalar) -> None:
        """Give a variable a value."""
        self.line(f"memref.store {value}, {variable.name}[] : memref<{variable.type}>")

    def read(self, memory: str, type_: str, size: int, place: Place) -> Scalar:
        """Read an element of memory."""
        result = Scalar(type_, self.name())
        self.line(f"{result} = memref.load {memory}[{self.at(place)}] : memref<{size}x{type_}>")
        return result

    def write(self, memory: str, size: int, place: Place, value: Scalar) -> None:
        """Write an element of memory."""
        self.line(f"memref.store {value}, {memory}[{self.at(place)}] : memref<{size}x{value.type}>")

    def call(self, symbol: str, operands: Sequence[str], signature: str, type_: str) -> Scalar:
        """The result of a call of a function, which may read and write memory."""
        result = Scalar(type_, self.name())
        self.line(f"{result} = func.call @{symbol}({', '.join(operands)}) : {signature}")
        return result

    # -------------------------------------------------------------------------------------- vectors

    def read_vector(self, memory: str, type_: str, size: int, place: Place, width: int) -> Scalar:
        """Read neighbouring elements of memory."""
        result = Scalar(f"vector<{width}x{type_}>", self.name())
        source = f"{memory}[{self.at(place)}] : memref<{size}x{type_}>"
        self.line(f"{result} = vector.load {source}, {result.type}")
        return result

    def write_vector(self, memory: str, type_: str, size: int, place: Place, value: Scalar) -> None:
        """Write neighbouring elements of memory."""
        target = f"{memory}[{self.at(place)}] : memref<{size}x{type_}>"
        self.line(f"vector.store {value}, {target}, {value.type}")

    def lane(self, vector: Scalar, number: int) -> Scalar:
        """An element of a vector."""
        type_ = vector.type.rpartition("x")[2].rstrip(">")
        return self.pure(
            f"vector.extract {vector}[{number}]", [], f": {type_} from {vector.type}", type_
        )

    def spread(self, element: Scalar, width: int) -> Scalar:
        """A vector of equal elements."""
        type_ = f"vector<{width}x{element.type}>"
        return self.pure("vector.broadcast", [element], f": {element.type} to {type_}", type_)


def _literal(value: float | int | bool, type_: str) -> str:
    if type_ == "i1":
        return "true" if value else "false"
    if not type_.startswith("f"):
        return str(int(value))
    number = float(value)
    if math.isfinite(number) and number.is_integer() and abs(number) < 2**24:
        return repr(number)  # with the sign of a zero
    bits = np.array(number, f"f{int(type_[1:]) // 8}").view(f"u{int(type_[1:]) // 8}")
    return f"0x{int(bits):0{int(type_[1:]) // 4}X}"
