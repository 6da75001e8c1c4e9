"""Random operands of statements: variables, new arrays, views of them, and parameters."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gnomon.tools.fuzz.program import (
    Array,
    Closed,
    Iota,
    Literal,
    Number,
    Operand,
    Source,
    Splat,
    Statement,
    Variable,
)
from gnomon.tools.fuzz.rules import BOOL, COMPLEX, FLOAT, REAL, SIGNED, UNSIGNED, Rule, kind_of
from gnomon.tools.fuzz.running import GNOMON, value_of

# Sizes around multiples of vector widths.
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 100, 255, 1000)
SMALL_SIZES = (1, 2, 3, 4, 5, 7, 9)
MAX_ELEMENTS = 3000
RANKS = (0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5, 6)

DTYPES = {
    FLOAT: ("float32",) * 6 + ("float16", "bfloat16"),
    SIGNED: ("int32",) * 4 + ("int8", "int16"),
    UNSIGNED: ("uint32", "uint8", "uint16"),
    COMPLEX: ("complex64",),
    BOOL: ("bool",),
}
WIDE_DTYPES = {
    FLOAT: ("float64",) * 4 + ("float32",),
    SIGNED: ("int64",) * 3 + ("int32",),
    UNSIGNED: ("uint64", "uint32"),
    COMPLEX: ("complex128", "complex64"),
    BOOL: ("bool",),
}
KIND_WEIGHTS = {FLOAT: 12, SIGNED: 5, UNSIGNED: 2, COMPLEX: 2, BOOL: 2}

VIEWS = (
    "[::2]",
    "[::-1]",
    "[1:]",
    "[:1]",
    "[-1:]",
    "[..., ::-1]",
    "[..., ::2]",
    "[..., :1]",
    "[..., 1:]",
    "[None]",
    "[::-2]",
    "[..., None]",
    ".T",
    ".ravel()",
    "[0]",
    "[-1]",
)
PLACES = ("0", "-1", "1:", "::2", "::-1", "..., 0", "..., -1:", ":1", "..., ::-2", "...")
KEYS = ("random.key(0)", "random.key(7)", "random.PRNGKey(3)")


class RefusedError(Exception):
    """A statement cannot be generated, or the library rejects it."""


@dataclass
class Cell:
    """The part of a function that has been generated so far.

    Attributes:
      prefix: the prefix of its names; it ends with ``_`` in a nested function.
      values: the concrete value of every variable.
      arguments: the arguments of the program that the function has added.
      statements: the statements of the function.
    """

    prefix: str
    values: dict[str, Any] = field(default_factory=dict)
    arguments: list[tuple[str, Array]] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    count: int = 0

    def name(self, letter: str = "v") -> str:
        """A new name in the function."""
        self.count += 1
        return f"{self.prefix}{letter}{self.count}"


class OperandGenerator:
    """Draws the operands and the parameters of statements.

    Args:
      random: the source of all choices.
      x64: whether the program has 64-bit dtypes.
    """

    def __init__(self, random: random.Random, x64: bool) -> None:
        self._random = random
        self._dtypes = WIDE_DTYPES if x64 else DTYPES

    def principal(self, cell: Cell, rule: Rule, must_use: str) -> tuple[Operand, Any]:
        """Draw the operand ``x`` of a rule, and compute its value.

        Args:
          cell: the function that the statement is for; may get an argument.
          rule: restricts the kind, the rank and the shape.
          must_use: the variable that must be the operand; any if empty.
        """

        def fits(v: Any) -> bool:
            if kind_of(v.dtype.name) not in rule.kinds or not rule.least <= v.ndim <= rule.most:
                return False
            if not rule.halves and v.dtype.name in ("float16", "bfloat16"):
                return False
            if rule.shape == "short":
                return max(v.shape, default=0) <= max(SMALL_SIZES)
            return rule.shape != "square" or v.shape[-1] == v.shape[-2]

        candidates = [must_use] if must_use else [n for n, v in cell.values.items() if fits(v)]
        if must_use and not fits(cell.values[must_use]):
            raise RefusedError("another kind")
        if rule.shape == "square" and not must_use:
            candidates = []  # results of statements are seldom regular matrices
        if candidates and (must_use or self._random.random() < 0.75):
            source: Source = Variable(self._random.choice(candidates))
        else:
            kinds = {k: w for k, w in KIND_WEIGHTS.items() if k in rule.kinds}
            (kind,) = self._random.choices(list(kinds), list(kinds.values()))
            dtype = self._random.choice(self._dtypes[kind])
            shape = self._shape(rule)
            flavour = rule.flavour if kind in REAL + COMPLEX else ""
            source = self._source(cell, shape, dtype, flavour)
        views = () if rule.shape == "square" else self._views()
        operand, value = self._viewed(cell, source, views)
        if not fits(value):
            operand, value = self._viewed(cell, source, ())
        if not fits(value):
            raise RefusedError("another kind")
        return operand, value

    def _views(self) -> tuple[str, ...]:
        count = self._random.choice((0, 0, 0, 0, 1, 1, 2))
        return tuple(self._random.choice(VIEWS) for _ in range(count))

    def _viewed(self, cell: Cell, source: Source, views: Sequence[str]) -> tuple[Operand, Any]:
        """An operand with those of the views that its rank allows, and its value."""
        if isinstance(source, Variable):
            value = cell.values[source.name]
        elif isinstance(source, Closed):
            value = GNOMON.array(value_of(source.array))
        else:
            value = eval(source.text(), dict(GNOMON.namespace))
            if isinstance(source, Number):
                return Operand(source), GNOMON.array(np.asarray(value))
        kept = []
        for view in views:
            try:
                viewed = eval("x" + view, {"x": value})
            except (IndexError, TypeError, ValueError):
                continue
            if viewed.ndim <= 6:
                value = viewed
                kept.append(view)
        return Operand(source, tuple(kept)), value

    def _shape(self, rule: Rule) -> tuple[int, ...]:
        if rule.shape == "square":
            n = self._random.choice((1, 2, 3, 4, 5, 7, 9, 17))
            batch = self._random.choice(((), (), (), (2,), (3, 1)))
            return (*batch, n, n) if rule.most > 2 else (n, n)
        ranks = [r for r in RANKS if rule.least <= r <= rule.most] or [rule.least]
        rank = self._random.choice(ranks)
        if rule.shape == "short":
            return tuple(self._random.choice(SMALL_SIZES) for _ in range(rank))
        while True:
            sizes = SIZES if rank <= 2 else SMALL_SIZES
            shape = [self._random.choice(sizes) for _ in range(rank)]
            if rank and self._random.random() < 0.03:
                shape[self._random.randrange(rank)] = 0
            if math.prod(shape) <= MAX_ELEMENTS:
                return tuple(shape)

    def _source(self, cell: Cell, shape: tuple[int, ...], dtype: str, flavour: str = "") -> Source:
        """A new array: an argument of the program or a constant."""
        if flavour in ("sorted", "dominant", "definite", "special") and len(shape) < 2:
            flavour = flavour if shape and flavour == "sorted" else ""
        array = Array(shape, dtype, flavour or self._flavour(dtype), self._random.randrange(1000))
        constant = flavour in ("", "normal", "positive", "natural")
        roll = self._random.random()
        if roll < 0.15 and constant:
            value = self._random.choice(("1", "2", "0", "-1") if dtype != "bool" else ("1", "0"))
            if kind_of(dtype) == UNSIGNED or flavour in ("positive", "natural"):
                value = "2"
            return Splat(shape, dtype, value)
        if roll < 0.25 and shape and kind_of(dtype) not in (BOOL,) and constant:
            return Iota(shape, dtype, self._random.randrange(len(shape)))
        if roll < 0.35:
            return Closed(array)
        if roll < 0.45 and math.prod(shape) <= 1000:
            return Literal(array)
        return self._argument(cell, array)

    def _argument(self, cell: Cell, array: Array) -> Source:
        if cell.prefix.endswith("_"):  # nested functions cannot add arguments to the program
            return Closed(array)
        name = cell.name("x")
        cell.arguments.append((name, array))
        cell.values[name] = GNOMON.array(value_of(array))
        return Variable(name)

    def _flavour(self, dtype: str) -> str:
        kind = kind_of(dtype)
        if kind == FLOAT:
            return self._random.choice(
                ("normal", "normal", "unit", "positive", "integers", "special")
            )
        if kind == SIGNED:
            return self._random.choice(
                ("integers", "integers", "wide" if "8" not in dtype else "integers")
            )
        return flavour_for(dtype)

    def operand(
        self, cell: Cell, rule: Rule, name: str, x: Any, parameters: dict[str, Any]
    ) -> tuple[Operand, Any] | None:
        """The operand for a field of a template and its value; None if the field is a parameter."""
        dtype, shape = x.dtype.name, tuple(x.shape)
        if name in ("y", "z"):
            return self._second(cell, rule, x)
        if name == "s":
            return self.constant(cell, (), dtype, rule.flavour)
        if name == "m":
            return self.constant(cell, shape, "bool")
        if name == "p":
            return self.constant(cell, (), "bool")
        if name == "i":
            count = self._random.choice((1, 2, 3, 5, 9))
            flavour = "natural" if self._random.random() < 0.5 else "integers"
            if rule.template.startswith("ops."):
                count = shape[0]
            return self.constant(cell, (count,), "int32", flavour)
        if name == "n":
            return self.constant(
                cell, (), "int32", self._random.choice(("natural", "integers", "bits"))
            )
        if name == "r":
            return self.constant(cell, shape, dtype, "natural")
        if name == "v":
            return self.constant(cell, shape[-1:], dtype)
        if name == "w":
            columns = self._random.choice((1, 3, 5, 16))
            return self.constant(cell, (shape[-1], columns), dtype)
        if name == "u":
            parameters.setdefault("at", self.parameter("at", x))
            try:
                place = eval(f"x[{parameters['at']}]", {"x": x})
            except (IndexError, TypeError) as error:
                raise RefusedError("no such place") from error
            whole = () if self._random.random() < 0.3 else tuple(place.shape)
            return self.constant(cell, whole, dtype)
        return None

    def constant(
        self, cell: Cell, shape: tuple[int, ...], dtype: str, flavour: str = ""
    ) -> tuple[Operand, Any]:
        """An operand of an exact type: a variable or a view of one, a constant, or an argument."""
        fitting = [
            n for n, v in cell.values.items() if tuple(v.shape) == shape and v.dtype.name == dtype
        ]
        if fitting and not flavour and self._random.random() < 0.6:
            views: tuple[str, ...] = ("[::-1]",) if shape and self._random.random() < 0.2 else ()
            return self._viewed(cell, Variable(self._random.choice(fitting)), views)
        if (
            shape == ()
            and not flavour
            and kind_of(dtype) in FLOAT + SIGNED
            and self._random.random() < 0.3
        ):
            return self._viewed(cell, Number(self._random.choice(("1", "2", "0"))), ())
        return self._viewed(cell, self._source(cell, shape, dtype, flavour), ())

    def _second(self, cell: Cell, rule: Rule, x: Any) -> tuple[Operand, Any]:
        shape, dtype = tuple(x.shape), x.dtype.name
        if rule.strict or "concatenate" in rule.template or "stack" in rule.template:
            return self.constant(cell, shape, dtype, rule.flavour)
        roll = self._random.random()
        if roll < 0.2 and shape:
            shape = tuple(1 if self._random.random() < 0.5 else d for d in shape)
        elif roll < 0.3:
            shape = shape[1:]
        elif roll < 0.4:
            shape = ()
        if self._random.random() < 0.15:
            kinds = [k for k in KIND_WEIGHTS if k in rule.kinds]
            dtype = self._random.choice(self._dtypes[self._random.choice(kinds)])
        return self.constant(cell, shape, dtype, rule.flavour)

    def parameter(self, name: str, x: Any) -> Any:
        """Draw a parameter of a template, given the value of the principal operand."""
        r, rank = self._random, x.ndim
        if name == "axis":
            if not rank:
                raise RefusedError("no axis")
            # Not negative, since lax rejects negative axes.
            return str(r.randrange(rank))
        if name == "axes":
            return str(tuple(sorted(r.sample(range(rank), r.randint(1, rank)))))
        if name == "perm":
            return str(tuple(r.sample(range(rank), rank)))
        if name == "keepdims":
            return r.choice(("True", "False"))
        if name == "shape":
            shape = [d for d in x.shape if d != 1]
            if len(shape) > 1 and r.random() < 0.5:
                shape = [shape[0] * shape[1], *shape[2:]]
            elif shape and shape[0] % 2 == 0 and shape[0]:
                shape = [2, shape[0] // 2, *shape[1:]]
            return tuple(shape) if r.random() < 0.7 else (math.prod(shape),)
        if name == "wider":
            return (r.choice((1, 2, 3)), *x.shape)
        if name == "dtype":
            kinds = r.choices(list(KIND_WEIGHTS), list(KIND_WEIGHTS.values()))
            return repr(r.choice(self._dtypes[kinds[0]]))
        if name == "k":
            return r.choice(("0", "1", "2", "3", "-1", "-2"))
        if name == "size":
            return str(r.choice(SIZES))
        if name == "at":
            return r.choice(PLACES)
        if name == "pads":
            return str(tuple((r.randrange(3), r.randrange(3)) for _ in range(rank)))
        if name == "key":
            return r.choice(KEYS)
        raise ValueError(f"no parameter is called {name!r}")


def flavour_for(dtype: str) -> str:
    """The usual distribution of new values of a dtype."""
    kinds = {
        FLOAT: "normal",
        SIGNED: "integers",
        UNSIGNED: "natural",
        COMPLEX: "complex",
        BOOL: "bits",
    }
    return kinds[kind_of(dtype)]
