"""Programs as data, which the generator makes, the reducer shrinks, and Python runs as source.

A program is printed as one function of arrays. The same text runs with gnomon and with JAX, because
the modules have the same names in both namespaces (`gnomon.tools.fuzz.running`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

# The distributions of random arrays, as NumPy expressions of a generator `r` and a shape `s`.
FLAVOURS: Mapping[str, str] = {
    "normal": "r.normal(size=s) * 2",
    "unit": "r.uniform(-1, 1, s)",
    "positive": "r.uniform(.1, 3, s)",
    "fraction": "r.uniform(.1, .9, s)",
    "integers": "r.integers(-5, 6, s)",
    "wide": "r.integers(-2**31, 2**31, s)",
    "natural": "r.integers(0, 6, s)",
    "bits": "r.integers(0, 2, s)",
    "complex": "r.normal(size=s) + 1j * r.normal(size=s)",
    "special": "r.choice([0., -0., 1., -1., .5, numpy.inf, -numpy.inf, numpy.nan, 1e4], s)",
    "dominant": "r.normal(size=s) + 3 * s[-1] * numpy.eye(s[-1])",
    "definite": "(lambda a: a @ numpy.swapaxes(a, -1, -2) + s[-1] * numpy.eye(s[-1]))"
    "(r.normal(size=s))",
    "sorted": "numpy.sort(r.normal(size=s), -1)",
    "ones": "numpy.ones(s)",
    "count": "numpy.arange(numpy.prod(s, dtype=int)).reshape(s)",
}


@dataclass(frozen=True)
class Array:
    """A random array.

    Attributes:
      shape, dtype: the array's type.
      flavour: the distribution, a key of `FLAVOURS`.
      seed: the seed of NumPy's generator.
      step: a NumPy expression of the array that takes the place of this one, ``x``; by default
        none does.
    """

    shape: tuple[int, ...]
    dtype: str
    flavour: str = "normal"
    seed: int = 0
    step: str = ""

    def text(self) -> str:
        """A NumPy expression of its value."""
        drawn = FLAVOURS[self.flavour]
        generator = f"numpy.random.default_rng({self.seed})"
        draws = len(re.findall(r"\br\.", drawn))
        if draws > 1 or drawn.startswith("("):
            value = f"(lambda r, s: {drawn})({generator}, {self.shape})"
        else:
            value = re.sub(r"\bs\b", str(self.shape), re.sub(r"\br\.", f"{generator}.", drawn))
        text = f"numpy.asarray({value}).astype('{self.dtype}')"
        if self.step:
            text = f"(lambda x: {self.step})({text}).astype('{self.dtype}')"
        return text


@dataclass(frozen=True)
class Variable:
    """A parameter, or the result of a statement."""

    name: str


@dataclass(frozen=True)
class Splat:
    """An array filled with one number."""

    shape: tuple[int, ...]
    dtype: str
    value: str = "1"

    def text(self) -> str:
        """Its expression."""
        return f"gnp.full({self.shape}, {self.value}, '{self.dtype}')"


@dataclass(frozen=True)
class Iota:
    """An array of indices along a dimension."""

    shape: tuple[int, ...]
    dtype: str
    dimension: int

    def text(self) -> str:
        """Its expression."""
        return f"lax.broadcasted_iota('{self.dtype}', {self.shape}, {self.dimension})"


@dataclass(frozen=True)
class Literal:
    """An array that the program makes from a NumPy array."""

    array: Array

    def text(self) -> str:
        """Its expression."""
        return f"gnp.array({self.array.text()})"


@dataclass(frozen=True)
class Number:
    """A Python number."""

    text_: str

    def text(self) -> str:
        """Its expression."""
        return self.text_


@dataclass(frozen=True)
class Closed:
    """An array that the function closes over."""

    array: Array


Source = Variable | Splat | Iota | Literal | Number | Closed


@dataclass(frozen=True)
class Operand:
    """An operand of a statement.

    Attributes:
      source: the array.
      views: Python suffixes that are applied to it first, such as ``[::2]`` and ``.T``.
    """

    source: Source
    views: tuple[str, ...] = ()


@dataclass(frozen=True)
class Statement:
    """``targets = template``, with the template's fields filled in.

    Attributes:
      targets: the names of the results; if there are several, the template evaluates to a tuple.
      types: the results' shapes and dtypes.
      template: Python source with a field for each operand, parameter and block.
      operands: fields and their operands.
      parameters: fields and their Python source; a shape is a tuple, which the reducer can change.
      blocks: the functions that fill the fields ``body0``, ``body1``, ...
    """

    targets: tuple[str, ...]
    types: tuple[tuple[tuple[int, ...], str], ...]
    template: str
    operands: tuple[tuple[str, Operand], ...] = ()
    parameters: tuple[tuple[str, str | tuple[int, ...]], ...] = ()
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Block:
    """A function: the program, the body of a loop, a branch, or the operand of a transformation."""

    parameters: tuple[str, ...]
    statements: tuple[Statement, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """A function of arrays.

    Attributes:
      arguments: names and values of the arguments.
      block: the function.
      x64: whether it runs under `enable_x64`.
      target: the compilation target; by default the machine it runs on.
    """

    arguments: tuple[tuple[str, Array], ...]
    block: Block
    x64: bool = False
    target: str = ""

    def closed(self) -> tuple[Array, ...]:
        """The arrays that the function closes over."""
        found: dict[Array, None] = {}
        for operand in operands(self.block):
            if isinstance(operand.source, Closed):
                found[operand.source.array] = None
        return tuple(found)

    def source(self) -> str:
        """The function ``f`` as Python; it closes over ``k0``, ``k1``, ..., the `closed` arrays."""
        return "\n".join(function_lines("f", self.block, Printer(self.closed()), ""))


@dataclass
class Printer:
    """Assigns names: closed-over arrays by their position, functions by a counter."""

    closed: tuple[Array, ...]
    count: int = field(default=0)

    def operand(self, operand: Operand) -> str:
        """An operand's expression."""
        source = operand.source
        if isinstance(source, Variable):
            text = source.name
        elif isinstance(source, Closed):
            text = f"k{self.closed.index(source.array)}"
        else:
            text = source.text()
        return text + "".join(operand.views)

    def function(self) -> str:
        """A new function's name."""
        self.count += 1
        return f"g{self.count}"


def function_lines(name: str, block: Block, printer: Printer, indent: str) -> Iterator[str]:
    """The lines of a function."""
    yield f"{indent}def {name}({', '.join(block.parameters)}):"
    for statement in block.statements:
        yield from statement_lines(statement, printer, indent + "    ")
    results = ", ".join(block.results)
    yield f"{indent}    return {results}"


def statement_lines(statement: Statement, printer: Printer, indent: str) -> Iterator[str]:
    """The lines of a statement, preceded by the functions that it takes."""
    fields: dict[str, Any] = {}
    for i, block in enumerate(statement.blocks):
        fields[f"body{i}"] = printer.function()
        yield from function_lines(fields[f"body{i}"], block, printer, indent)
    fields.update((name, printer.operand(operand)) for name, operand in statement.operands)
    fields.update(statement.parameters)
    yield f"{indent}{', '.join(statement.targets)} = {statement.template.format(**fields)}"


def operands(block: Block) -> Iterator[Operand]:
    """Every operand of a block, those of nested blocks included."""
    for statement in block.statements:
        for _, operand in statement.operands:
            yield operand
        for inner in statement.blocks:
            yield from operands(inner)


def used_names(block: Block) -> set[str]:
    """The variables that a block reads or returns, those of nested blocks included."""
    names = {o.source.name for o in operands(block) if isinstance(o.source, Variable)}
    names.update(block.results)
    for statement in block.statements:
        for inner in statement.blocks:
            names |= used_names(inner)
    return names


def statement_uses(statement: Statement) -> set[str]:
    """The variables that a statement reads."""
    return used_names(Block((), (statement,), ()))


def without_dead(block: Block) -> Block:
    """A block without the statements that no result depends on."""
    needed = set(block.results)
    kept: list[Statement] = []
    for statement in reversed(block.statements):
        if needed.intersection(statement.targets):
            blocks = tuple(without_dead(b) for b in statement.blocks)
            kept.append(replace(statement, blocks=blocks))
            needed |= statement_uses(kept[-1])
    return replace(block, statements=tuple(reversed(kept)))


def cleaned(program: Program) -> Program:
    """A program without dead statements and unused arguments."""
    block = without_dead(program.block)
    used = used_names(block)
    arguments = tuple((name, array) for name, array in program.arguments if name in used)
    names = tuple(name for name, _ in arguments)
    return replace(program, arguments=arguments, block=replace(block, parameters=names))


def mapped_statements(block: Block, change: Callable[[Statement], Statement]) -> Block:
    """A block with a function applied to each statement, nested ones first."""
    changed = []
    for statement in block.statements:
        blocks = tuple(mapped_statements(b, change) for b in statement.blocks)
        changed.append(change(replace(statement, blocks=blocks)))
    return replace(block, statements=tuple(changed))


def with_arrays(program: Program, change: Callable[[Array], Array]) -> Program:
    """A program with a function applied to its arguments, literals and closed-over arrays.

    Arrays that are filled with one number become literals.
    """

    def changed(operand: Operand) -> Operand:
        source = operand.source
        if isinstance(source, Splat):
            filled = Array(source.shape, source.dtype, "ones", step=f"x * {source.value}")
            source = Literal(filled)
        if isinstance(source, Literal | Closed):
            return replace(operand, source=replace(source, array=change(source.array)))
        return operand

    def statement(s: Statement) -> Statement:
        return replace(s, operands=tuple((name, changed(operand)) for name, operand in s.operands))

    arguments = tuple((name, change(array)) for name, array in program.arguments)
    return replace(program, arguments=arguments, block=mapped_statements(program.block, statement))


def combined(programs: Sequence[Program]) -> Program:
    """One program that returns the results of all, which must agree in ``x64`` and ``target``."""
    parts = [_prefixed(program, f"q{i}_") for i, program in enumerate(programs)]
    arguments = tuple(argument for part in parts for argument in part.arguments)
    block = Block(
        tuple(name for name, _ in arguments),
        tuple(statement for part in parts for statement in part.block.statements),
        tuple(result for part in parts for result in part.block.results),
    )
    return replace(programs[0], arguments=arguments, block=block)


def _prefixed(program: Program, prefix: str) -> Program:
    """A program all of whose names begin with a prefix."""
    arguments = tuple((prefix + name, array) for name, array in program.arguments)
    return replace(program, arguments=arguments, block=_prefixed_block(program.block, prefix))


def _prefixed_block(block: Block, prefix: str) -> Block:
    def named(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(prefix + name for name in names)

    def operand(o: Operand) -> Operand:
        source = o.source
        if not isinstance(source, Variable):
            return o
        return replace(o, source=Variable(prefix + source.name))

    statements = tuple(
        replace(
            s,
            targets=named(s.targets),
            operands=tuple((field, operand(o)) for field, o in s.operands),
            blocks=tuple(_prefixed_block(b, prefix) for b in s.blocks),
        )
        for s in block.statements
    )
    return Block(named(block.parameters), statements, named(block.results))
