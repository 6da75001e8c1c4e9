"""Random programs of a few statements each."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gnomon.backends.iree.targets import find_target, incompatibility
from gnomon.tools.fuzz.catalog import (
    BOOL,
    COMPLEX,
    FAMILIES,
    FLOAT,
    REAL,
    SIGNED,
    UNSIGNED,
    Rule,
)
from gnomon.tools.fuzz.program import (
    Array,
    Block,
    Closed,
    Iota,
    Literal,
    Number,
    Operand,
    Printer,
    Program,
    Source,
    Splat,
    Statement,
    Variable,
    cleaned,
    statement_lines,
    without_dead,
)
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
# The targets of programs; mostly (as an empty name) the processor that they run on.
TARGETS = ("", "", "", "x86-64-v2", "x86-64-v3")
KEYS = ("random.key(0)", "random.key(7)", "random.PRNGKey(3)")

# The kinds of statements that take functions, as often as they are drawn; see `Generator.nested`.
NESTED = (
    "jit",
    "vmap",
    "vmap",
    "grad",
    "grad",
    "grad",
    "jvp",
    "scan",
    "scan",
    "scan",
    "fori",
    "fori",
    "while",
    "cond",
    "cond",
    "switch",
    "checkpoint",
    "hessian",
)


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


@dataclass
class Refusal:
    """A statement that gnomon rejected.

    Attributes:
      template: the template of the statement.
      program: a program of that statement alone.
      error: the exception that was raised.
    """

    template: str
    program: Program
    error: BaseException


class Generator:
    """Generates random programs.

    Args:
      seed: the same seed gives the same program.
      families: names of `FAMILIES` to draw from; all by default.
    """

    def __init__(self, seed: int, families: Sequence[str] = ()) -> None:
        self.random = random.Random(seed)
        self._x64 = self.random.random() < 0.2
        self._dtypes = WIDE_DTYPES if self._x64 else DTYPES
        self._families = {n: f for n, f in FAMILIES.items() if not families or n in families}
        self.refusals: list[Refusal] = []
        # The templates that were drawn, for the coverage report.
        self.drawn: list[str] = []

    def program(self) -> Program:
        """Generate a program of one to three statements, not counting nested ones."""
        cell = Cell("")
        with _generating(self._x64):
            results: list[str] = []
            while not results:
                results = self._results(cell)
        block = Block((), tuple(cell.statements), tuple(results))
        program = cleaned(Program(tuple(cell.arguments), block, self._x64))
        target = self.random.choice(TARGETS)
        # Factorizations are calls of Python, which programs for a target cannot have.
        if "linalg." in program.source() or (target and incompatibility(find_target(target))):
            return program
        return replace(program, target=target)

    def _results(self, cell: Cell) -> list[str]:
        """Draw the statements of a program; return the names of its results, none if all failed."""
        wanted = self.random.choice((1, 1, 1, 2, 2, 3))
        statements: list[Statement] = []
        for _ in range(12):
            if len(statements) >= wanted:
                break
            nested = self.random.random() < 0.25
            try:
                statement = self.nested(cell) if nested else self.statement(cell)
            except RefusedError:
                continue
            statements.append(statement)
        cell.statements = statements
        made = [t for s in statements for t in s.targets]
        if not made:
            return []
        last = list(statements[-1].targets)
        # A function may also return the updated value and values computed on the way.
        results = [v for v in cell.values if v not in last and self.random.random() < 0.3]
        results += last
        if self.random.random() < 0.2:
            self.random.shuffle(results)
        return results

    # ------------------------------------------------------------------------------- statements

    def statement(self, cell: Cell, like: Any = None, must_use: str = "") -> Statement:
        """Generate a statement from a random rule of a random family.

        Args:
          cell: the function that the statement is for; gets its results.
          like: a value whose type the result must have.
          must_use: a variable that must be the principal operand.
        """
        weights = [weight for weight, _ in self._families.values()]
        ((_, rules),) = self.random.choices(list(self._families.values()), weights)
        rule = self.random.choice(rules)
        operands: dict[str, Operand] = {}
        values: dict[str, Any] = {}
        parameters: dict[str, Any] = {}
        main = self._principal(cell, rule, must_use)
        operands["x"], values["x"] = main
        for name in rule.fields:
            if name == "x":
                continue
            made = self._operand(cell, rule, name, values["x"], parameters)
            if made is None:
                parameters[name] = self._parameter(name, values["x"])
            else:
                operands[name], values[name] = made
        fields = rule.fields
        chosen = tuple((n, operands[n]) for n in fields if n in operands)
        template = rule.template
        self.drawn.append(template)
        return self._finish(
            cell,
            template,
            chosen,
            tuple((n, parameters[n]) for n in fields if n in parameters),
            (),
            rule.results,
            like,
        )

    def _finish(
        self,
        cell: Cell,
        template: str,
        operands: tuple[tuple[str, Operand], ...],
        parameters: tuple[tuple[str, Any], ...],
        blocks: tuple[Block, ...],
        results: int,
        like: Any = None,
    ) -> Statement:
        """Run a statement eagerly to find the types of its results, or raise `RefusedError`."""
        targets = tuple(cell.name() for _ in range(results))
        statement = Statement(targets, (), template, operands, parameters, blocks)
        values = self._evaluated(cell, statement)
        if sum(v.size for v in values) > 2 * MAX_ELEMENTS or any(v.ndim > 7 for v in values):
            raise RefusedError("too large")
        if like is not None:
            wanted = (like.shape, like.dtype, like.weak_type)
            if [(v.shape, v.dtype, v.weak_type) for v in values] != [wanted]:
                raise RefusedError("another type")
        types = tuple((tuple(v.shape), v.dtype.name) for v in values)
        cell.values.update(zip(targets, values, strict=True))
        return Statement(targets, types, template, operands, parameters, blocks)

    def _evaluated(self, cell: Cell, statement: Statement) -> list[Any]:
        found = {
            o.source.array: None
            for _, o in _all_operands(statement)
            if isinstance(o.source, Closed)
        }
        closed = tuple(found)
        lines = statement_lines(statement, Printer(closed), "")
        scope = dict(GNOMON.namespace)
        scope.update((f"k{i}", GNOMON.array(value_of(a))) for i, a in enumerate(closed))
        scope.update(cell.values)
        try:
            exec("\n".join(lines), scope)
            values = [scope[t] for t in statement.targets]
            for v in values:
                if not isinstance(v, GNOMON.package.Array) or not isinstance(v.dtype, np.dtype):
                    raise RefusedError("not an array")
                np.asarray(v)
        except RefusedError:
            raise
        except Exception as error:
            self._note_refusal(cell, statement, error)
            raise RefusedError(str(error)) from error
        return values

    def _note_refusal(self, cell: Cell, statement: Statement, error: Exception) -> None:
        """Record a rejected statement, with its variables as arguments, to compare with JAX."""
        arguments = []
        for _, operand in _all_operands(statement):
            if isinstance(operand.source, Variable) and operand.source.name in cell.values:
                value = cell.values[operand.source.name]
                array = Array(tuple(value.shape), value.dtype.name, _flavour_for(value.dtype.name))
                arguments.append((operand.source.name, array))
        arguments = list(dict(arguments).items())
        block = Block(tuple(n for n, _ in arguments), (statement,), statement.targets)
        program = Program(tuple(arguments), block, self._x64)
        self.refusals.append(Refusal(statement.template, program, error))

    # --------------------------------------------------------------------------------- operands

    def _principal(self, cell: Cell, rule: Rule, must_use: str) -> tuple[Operand, Any]:
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
        if candidates and (must_use or self.random.random() < 0.75):
            source: Source = Variable(self.random.choice(candidates))
        else:
            kinds = {k: w for k, w in KIND_WEIGHTS.items() if k in rule.kinds}
            (kind,) = self.random.choices(list(kinds), list(kinds.values()))
            dtype = self.random.choice(self._dtypes[kind])
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
        count = self.random.choice((0, 0, 0, 0, 1, 1, 2))
        return tuple(self.random.choice(VIEWS) for _ in range(count))

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
            n = self.random.choice((1, 2, 3, 4, 5, 7, 9, 17))
            batch = self.random.choice(((), (), (), (2,), (3, 1)))
            return (*batch, n, n) if rule.most > 2 else (n, n)
        ranks = [r for r in RANKS if rule.least <= r <= rule.most] or [rule.least]
        rank = self.random.choice(ranks)
        if rule.shape == "short":
            return tuple(self.random.choice(SMALL_SIZES) for _ in range(rank))
        while True:
            sizes = SIZES if rank <= 2 else SMALL_SIZES
            shape = [self.random.choice(sizes) for _ in range(rank)]
            if rank and self.random.random() < 0.03:
                shape[self.random.randrange(rank)] = 0
            if math.prod(shape) <= MAX_ELEMENTS:
                return tuple(shape)

    def _source(self, cell: Cell, shape: tuple[int, ...], dtype: str, flavour: str = "") -> Source:
        """A new array: an argument of the program or a constant."""
        if flavour in ("sorted", "dominant", "definite", "special") and len(shape) < 2:
            flavour = flavour if shape and flavour == "sorted" else ""
        array = Array(shape, dtype, flavour or self._flavour(dtype), self.random.randrange(1000))
        constant = flavour in ("", "normal", "positive", "natural")
        roll = self.random.random()
        if roll < 0.15 and constant:
            value = self.random.choice(("1", "2", "0", "-1") if dtype != "bool" else ("1", "0"))
            if kind_of(dtype) == UNSIGNED or flavour in ("positive", "natural"):
                value = "2"
            return Splat(shape, dtype, value)
        if roll < 0.25 and shape and kind_of(dtype) not in (BOOL,) and constant:
            return Iota(shape, dtype, self.random.randrange(len(shape)))
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
            return self.random.choice(
                ("normal", "normal", "unit", "positive", "integers", "special")
            )
        if kind == SIGNED:
            return self.random.choice(
                ("integers", "integers", "wide" if "8" not in dtype else "integers")
            )
        return _flavour_for(dtype)

    def _operand(
        self, cell: Cell, rule: Rule, name: str, x: Any, parameters: dict[str, Any]
    ) -> tuple[Operand, Any] | None:
        """The operand for a field of a template and its value; None if the field is a parameter."""
        dtype, shape = x.dtype.name, tuple(x.shape)
        if name in ("y", "z"):
            return self._second(cell, rule, x)
        if name == "s":
            return self._constant(cell, (), dtype, rule.flavour)
        if name == "m":
            return self._constant(cell, shape, "bool")
        if name == "p":
            return self._constant(cell, (), "bool")
        if name == "i":
            count = self.random.choice((1, 2, 3, 5, 9))
            flavour = "natural" if self.random.random() < 0.5 else "integers"
            if rule.template.startswith("ops."):
                count = shape[0]
            return self._constant(cell, (count,), "int32", flavour)
        if name == "n":
            return self._constant(
                cell, (), "int32", self.random.choice(("natural", "integers", "bits"))
            )
        if name == "r":
            return self._constant(cell, shape, dtype, "natural")
        if name == "v":
            return self._constant(cell, shape[-1:], dtype)
        if name == "w":
            columns = self.random.choice((1, 3, 5, 16))
            return self._constant(cell, (shape[-1], columns), dtype)
        if name == "u":
            parameters.setdefault("at", self._parameter("at", x))
            try:
                place = eval(f"x[{parameters['at']}]", {"x": x})
            except (IndexError, TypeError) as error:
                raise RefusedError("no such place") from error
            whole = () if self.random.random() < 0.3 else tuple(place.shape)
            return self._constant(cell, whole, dtype)
        return None

    def _constant(
        self, cell: Cell, shape: tuple[int, ...], dtype: str, flavour: str = ""
    ) -> tuple[Operand, Any]:
        """An operand of an exact type: a variable or a view of one, a constant, or an argument."""
        fitting = [
            n for n, v in cell.values.items() if tuple(v.shape) == shape and v.dtype.name == dtype
        ]
        if fitting and not flavour and self.random.random() < 0.6:
            views: tuple[str, ...] = ("[::-1]",) if shape and self.random.random() < 0.2 else ()
            return self._viewed(cell, Variable(self.random.choice(fitting)), views)
        if (
            shape == ()
            and not flavour
            and kind_of(dtype) in FLOAT + SIGNED
            and self.random.random() < 0.3
        ):
            return self._viewed(cell, Number(self.random.choice(("1", "2", "0"))), ())
        return self._viewed(cell, self._source(cell, shape, dtype, flavour), ())

    def _second(self, cell: Cell, rule: Rule, x: Any) -> tuple[Operand, Any]:
        shape, dtype = tuple(x.shape), x.dtype.name
        if rule.strict or "concatenate" in rule.template or "stack" in rule.template:
            return self._constant(cell, shape, dtype, rule.flavour)
        roll = self.random.random()
        if roll < 0.2 and shape:
            shape = tuple(1 if self.random.random() < 0.5 else d for d in shape)
        elif roll < 0.3:
            shape = shape[1:]
        elif roll < 0.4:
            shape = ()
        if self.random.random() < 0.15:
            kinds = [k for k in KIND_WEIGHTS if k in rule.kinds]
            dtype = self.random.choice(self._dtypes[self.random.choice(kinds)])
        return self._constant(cell, shape, dtype, rule.flavour)

    def _parameter(self, name: str, x: Any) -> Any:
        r, rank = self.random, x.ndim
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

    # ------------------------------------------------------------------------ nested functions

    def nested(self, cell: Cell) -> Statement:
        """Generate a statement that takes functions: a loop, a branch or a transformation."""
        kind = self.random.choice(NESTED)
        made: Statement = getattr(self, f"_{kind}")(cell)
        self.drawn.append(made.template)
        return made

    def _given(self, cell: Cell, kinds: str, least: int = 0, most: int = 6) -> tuple[Operand, Any]:
        """An operand of one of some kinds and ranks to pass to a nested function, and its value."""
        rule = Rule("{x}", kinds, least, most, shape="")
        return self._principal(cell, rule, "")

    def _block(
        self,
        cell: Cell,
        parameters: Sequence[tuple[str, Any]],
        kinds: str = "fiucb",
        *,
        like: Any = None,
        count: int = 0,
    ) -> tuple[Block, Any]:
        """Generate a function of arrays, and the value of its result.

        Args:
          cell: the enclosing function, whose variables it may close over.
          parameters: the names and values of its parameters.
          kinds: the allowed kinds of its result.
          like: a value whose type the result must have, if given.
          count: the number of statements; random by default.
        """
        inner = Cell(cell.name("f") + "_")
        if self.random.random() < 0.3:
            inner.values.update(cell.values)
        inner.values.update(parameters)
        statements: list[Statement] = []
        wanted = count or self.random.choice((1, 1, 2, 3))
        use = parameters[-1][0] if like is None else parameters[0][0]
        for _ in range(10):
            last = len(statements) >= wanted - 1
            try:
                if not last and self.random.random() < 0.08:
                    statements.append(self.nested(inner))
                else:
                    # The function returns the last statement's result; the first statement reads a
                    # parameter.
                    wants = like if last else None
                    first = use if not statements or (like is not None and last) else ""
                    statements.append(self.statement(inner, wants, first))
            except RefusedError:
                continue
            value = inner.values[statements[-1].targets[0]]
            if last and (like is not None or kind_of(value.dtype.name) in kinds):
                names = tuple(n for n, _ in parameters)
                block = Block(names, tuple(statements), (statements[-1].targets[0],))
                return without_dead(block), value
            if len(statements) > wanted + 2:
                break
        raise RefusedError("no body")

    def _jit(self, cell: Cell, function: str = "gn.jit") -> Statement:
        operands = [self._given(cell, "fiucb") for _ in range(self.random.choice((1, 2)))]
        parameters = [(cell.name("p"), value) for _, value in operands]
        block, _ = self._block(cell, parameters)
        fields = tuple((f"x{i}", o) for i, (o, _) in enumerate(operands))
        given = ", ".join(f"{{{n}}}" for n, _ in fields)
        return self._finish(cell, f"{function}({{body0}})({given})", fields, (), (block,), 1)

    def _checkpoint(self, cell: Cell) -> Statement:
        return self._jit(cell, "gn.checkpoint")

    def _vmap(self, cell: Cell) -> Statement:
        x, value = self._given(cell, "fiucb", 1)
        axis = self.random.randrange(value.ndim) if self.random.random() < 0.4 else 0
        if not value.shape[axis]:
            raise RefusedError("no member")
        fields: list[tuple[str, Operand]] = [("x0", x)]
        member = GNOMON.namespace["gnp"].take(value, 0, axis=axis)
        parameters = [(cell.name("p"), member)]
        axes = [str(axis)]
        if self.random.random() < 0.5:
            shape = tuple(member.shape) if self.random.random() < 0.7 else ()
            y, other = self._constant(cell, shape, value.dtype.name)
            fields.append(("x1", y))
            parameters.append((cell.name("p"), other))
            axes.append("None")
        block, _ = self._block(cell, parameters)
        given = ", ".join(f"{{{n}}}" for n, _ in fields)
        template = f"gn.vmap({{body0}}, in_axes=({', '.join(axes)},))({given})"
        return self._finish(cell, template, tuple(fields), (), (block,), 1)

    def _grad(self, cell: Cell) -> Statement:
        return self._differentiated(cell, "gn.grad({loss})({given})", 1)

    def _hessian(self, cell: Cell) -> Statement:
        x, value = self._given(cell, FLOAT, 0, 1)
        if value.size > 33:
            raise RefusedError("too large")
        block, _ = self._block(cell, [(cell.name("p"), value)], FLOAT)
        template = "gn.hessian(lambda a: gnp.sum({body0}(a)))({x0})"
        return self._finish(cell, template, (("x0", x),), (), (block,), 1)

    def _differentiated(self, cell: Cell, template: str, results: int) -> Statement:
        x, value = self._given(cell, FLOAT)
        fields: list[tuple[str, Operand]] = [("x0", x)]
        parameters = [(cell.name("p"), value)]
        if self.random.random() < 0.4:
            y, other = self._given(cell, FLOAT)
            fields.insert(0, ("x1", y))
            parameters.insert(0, (cell.name("p"), other))
            argument = 1
        else:
            argument = 0
        block, _ = self._block(cell, parameters, FLOAT)
        given = ", ".join(f"{{{n}}}" for n, _ in fields)
        weight = self.random.choice(("{body0}(*a)", "{body0}(*a) ** 2", "gnp.sin({body0}(*a))"))
        template = template.replace("{loss}", f"lambda *a: gnp.sum({weight}), argnums={argument}")
        template = template.replace("{given}", given)
        return self._finish(cell, template, tuple(fields), (), (block,), results)

    def _jvp(self, cell: Cell) -> Statement:
        x, value = self._given(cell, FLOAT)
        t, _ = self._constant(cell, tuple(value.shape), value.dtype.name)
        if isinstance(t.source, Number):
            raise RefusedError("tangents have the primals' dtype")
        block, _ = self._block(cell, [(cell.name("p"), value)], FLOAT)
        template = "gn.jvp({body0}, ({x0},), ({t},))"
        return self._finish(cell, template, (("x0", x), ("t", t)), (), (block,), 2)

    def _carry(self, cell: Cell, least: int = 0) -> tuple[Operand, Any]:
        operand, value = self._given(cell, "fiucb", least)
        if isinstance(operand.source, Number) or getattr(value, "weak_type", False):
            raise RefusedError("a weakly typed carry")
        return operand, value

    def _scan(self, cell: Cell) -> Statement:
        c, carry = self._carry(cell)
        x, value = self._given(cell, "fiucb", 1)
        if not value.shape[0]:
            raise RefusedError("no iteration")
        count = self.random.choice(("", "[:3]", "[:5]"))
        names = (cell.name("p"), cell.name("p"))
        parameters = [(names[0], carry), (names[1], value[0])]
        block, _ = self._block(cell, parameters, like=carry)
        # The second result is stacked over iterations: the old carry, the element or the new carry.
        out = self.random.choice((names[0], names[1], block.results[0]))
        block = Block(names, block.statements, (block.results[0], out))
        reverse = self.random.choice(("", ", reverse=True", ", unroll=2"))
        template = f"lax.scan({{body0}}, {{c}}, {{x}}{count}{reverse})"
        return self._finish(cell, template, (("c", c), ("x", x)), (), (block,), 2)

    def _fori(self, cell: Cell) -> Statement:
        c, carry = self._carry(cell)
        names = (cell.name("p"), cell.name("p"))
        counter = GNOMON.array(np.asarray(1, np.int32))
        block, _ = self._block(cell, [(names[1], carry), (names[0], counter)], like=carry)
        block = Block(names, block.statements, block.results)
        trips = self.random.choice(("0, 3", "0, 1", "1, 6"))
        template = f"lax.fori_loop({trips}, {{body0}}, {{c}})"
        return self._finish(cell, template, (("c", c),), (), (block,), 1)

    def _while(self, cell: Cell) -> Statement:
        c, carry = self._carry(cell)
        names = (cell.name("p"), cell.name("p"))
        counter = GNOMON.array(np.asarray(1, np.int32))
        block, _ = self._block(cell, [(names[1], carry), (names[0], counter)], like=carry)
        block = Block(names, block.statements, block.results)
        template = (
            "lax.while_loop(lambda t: t[0] < 4, lambda t: (t[0] + 1, {body0}(t[0], t[1])), "
            "(gnp.int32(0), {c}))[1]"
        )
        return self._finish(cell, template, (("c", c),), (), (block,), 1)

    def _branches(self, cell: Cell, count: int) -> tuple[tuple[Block, ...], Operand]:
        x, value = self._given(cell, "fiucb")
        blocks = []
        like = None
        for _ in range(count):
            parameters = [(cell.name("p"), value)]
            for _ in range(5):
                try:
                    block, found = self._block(cell, parameters, like=like)
                    break
                except RefusedError:
                    continue
            else:
                raise RefusedError("no branch of that type")
            like = found
            blocks.append(block)
        return tuple(blocks), x

    def _cond(self, cell: Cell) -> Statement:
        blocks, x = self._branches(cell, 2)
        p, _ = self._constant(cell, (), "bool")
        template = "lax.cond({p}, {body0}, {body1}, {x})"
        return self._finish(cell, template, (("p", p), ("x", x)), (), blocks, 1)

    def _switch(self, cell: Cell) -> Statement:
        blocks, x = self._branches(cell, 3)
        n, _ = self._constant(cell, (), "int32", "natural")
        template = "lax.switch({n}, [{body0}, {body1}, {body2}], {x})"
        return self._finish(cell, template, (("n", n), ("x", x)), (), blocks, 1)


@contextmanager
def _generating(x64: bool) -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"), GNOMON.x64(x64):
        warnings.simplefilter("ignore")
        # While programs are generated, nested jit is not compiled.
        with GNOMON.package.disable_jit():
            yield


def _all_operands(statement: Statement) -> list[tuple[str, Operand]]:
    found = list(statement.operands)
    for block in statement.blocks:
        for inner in block.statements:
            found += _all_operands(inner)
    return found


def kind_of(dtype: str) -> str:
    """The kind of a dtype, by the catalog's names."""
    if dtype == "bool":
        return BOOL
    if dtype.startswith("complex"):
        return COMPLEX
    if dtype.startswith("uint"):
        return UNSIGNED
    return SIGNED if dtype.startswith("int") else FLOAT


def _flavour_for(dtype: str) -> str:
    kinds = {
        FLOAT: "normal",
        SIGNED: "integers",
        UNSIGNED: "natural",
        COMPLEX: "complex",
        BOOL: "bits",
    }
    return kinds[kind_of(dtype)]
