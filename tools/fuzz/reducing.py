"""Shrinks a failing program: delta debugging on programs as data.

Each step tries simpler programs, keeps the first that still fails in the same way, and starts over;
the reduction ends when no simpler program fails, or when the tries are used up.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from gnomon.tools.fuzz.checking import Failure, check, with_results
from gnomon.tools.fuzz.program import (
    Array,
    Block,
    Closed,
    Iota,
    Literal,
    Number,
    Operand,
    Program,
    Source,
    Splat,
    Statement,
    Variable,
    cleaned,
    mapped_statements,
    operands,
)
from gnomon.tools.fuzz.rules import kind_of

# The number of programs that may be run to reduce one failure; each costs a compilation.
TRIES = 80


def reduce(
    program: Program,
    failure: Failure,
    tries: int = TRIES,
    fails: Callable[[Program], Failure | None] | None = None,
) -> tuple[Program, Failure]:
    """A small program that fails in the same way.

    Args:
      program: the program that fails.
      failure: its failure.
      tries: the maximal number of programs to run.
      fails: returns the failure of a program, or None; by default `check`.
    """
    jax = failure.kind.startswith("jax")
    find = fails or (lambda p: check(p, jax=jax, kinds=failure.kind))
    left = tries
    changed = True
    seen: set[str] = {program.source()}
    while changed and left > 0:
        changed = False
        for candidate in _simpler(program, failure):
            if left <= 0:
                break
            text = _text(candidate)
            if text in seen:
                continue
            seen.add(text)
            left -= 1
            found = find(candidate)
            if found is not None and found.signature == failure.signature:
                program, failure, changed = candidate, found, True
                break
    return program, failure


def _text(program: Program) -> str:
    arguments = [f"{n}={a.text()}" for n, a in program.arguments]
    return "\n".join([program.source(), *arguments, *(a.text() for a in program.closed())])


def _simpler(program: Program, failure: Failure) -> Iterator[Program]:
    """Programs that are simpler by one step, the largest steps first."""
    for candidate in _candidates(program, failure):
        yield cleaned(candidate)


def _candidates(program: Program, failure: Failure) -> Iterator[Program]:
    results = program.block.results
    if failure.result is not None and len(results) > 1:
        yield with_results(program, (results[failure.result],))
    if len(results) > 1:
        half = len(results) // 2
        yield with_results(program, results[:half])
        yield with_results(program, results[half:])
        for i in range(len(results)):
            yield with_results(program, results[:i] + results[i + 1 :])
    yield from _cut(program)
    yield from _bypass(program)
    yield from _unwrap(program)
    yield from _shorter_blocks(program)
    yield from _smaller(program)
    yield from _simpler_operands(program)
    yield from _simpler_dtypes(program)
    yield from _simpler_values(program)


def _fresh(shape: tuple[int, ...], dtype: str) -> Array:
    flavour = {"f": "normal", "i": "integers", "u": "natural", "b": "bits", "c": "complex"}
    return Array(shape, dtype, flavour[kind_of(dtype)], 1)


def _cut(program: Program) -> Iterator[Program]:
    """Replaces the results of a statement by arguments, last statements first."""
    block = program.block
    for statement in reversed(block.statements):
        if set(statement.targets) <= set(block.results) and _reads(block, statement) == 0:
            continue
        added = tuple(
            (name, _fresh(shape, dtype))
            for name, (shape, dtype) in zip(statement.targets, statement.types, strict=True)
        )
        statements = tuple(s for s in block.statements if s is not statement)
        yield replace(
            program,
            arguments=program.arguments + added,
            block=replace(block, statements=statements),
        )


def _reads(block: Block, statement: Statement) -> int:
    names = {o.source.name for o in operands(block) if isinstance(o.source, Variable)}
    return len(names.intersection(statement.targets))


def _bypass(program: Program) -> Iterator[Program]:
    """Replaces a statement's result by its first operand that is a variable."""
    for statement in _all_statements(program.block):
        for _, operand in statement.operands:
            if isinstance(operand.source, Variable) and len(statement.targets) == 1:
                yield _substituted(program, statement.targets[0], operand)
                break


def _substituted(program: Program, name: str, by: Operand) -> Program:
    def change(statement: Statement) -> Statement:
        changed = tuple(
            (field, Operand(by.source, by.views + o.views))
            if isinstance(o.source, Variable) and o.source.name == name
            else (field, o)
            for field, o in statement.operands
        )
        return replace(statement, operands=changed)

    block = mapped_statements(program.block, change)
    if isinstance(by.source, Variable) and not by.views:
        results = tuple(by.source.name if r == name else r for r in block.results)
        block = replace(block, results=tuple(dict.fromkeys(results)))
    return replace(program, block=block)


def _all_statements(block: Block) -> Iterator[Statement]:
    for statement in block.statements:
        yield statement
        for inner in statement.blocks:
            yield from _all_statements(inner)


def _changed_statement(program: Program, old: Statement, new: Statement) -> Program:
    def visit(block: Block) -> Block:
        statements = tuple(
            new
            if s is old
            else replace(s, blocks=tuple(visit(b) for b in s.blocks))
            if s.blocks
            else s
            for s in block.statements
        )
        return replace(block, statements=statements)

    return replace(program, block=visit(program.block))


_PLAIN_CALLS = ("{body0}({x0})", "{body0}({x})", "{body0}({x0}, {x1})", "{body0}({x1}, {x0})")


def _unwrap(program: Program) -> Iterator[Program]:
    """Replaces a loop, a branch or a transformation of a function by a call of it."""
    for statement in _all_statements(program.block):
        if not statement.blocks:
            continue
        fields = {name for name, _ in statement.operands}
        for template in _PLAIN_CALLS:
            needed = set(re.findall(r"\{(x\d?)\}", template))
            if template != statement.template and needed <= fields and len(statement.targets) == 1:
                yield _changed_statement(program, statement, replace(statement, template=template))
        for old, new in (
            (", reverse=True", ""),
            (", unroll=2", ""),
            ("gnp.sin({body0}(*a))", "{body0}(*a)"),
            ("{body0}(*a) ** 2", "{body0}(*a)"),
            ("0, 3", "0, 1"),
            ("1, 6", "0, 3"),
            ("[:5]", "[:3]"),
            ("[:3]", "[:1]"),
        ):
            if old in statement.template:
                template = statement.template.replace(old, new)
                yield _changed_statement(program, statement, replace(statement, template=template))


def _shorter_blocks(program: Program) -> Iterator[Program]:
    """Replaces a statement of a nested function by a constant of its type."""
    for statement in _all_statements(program.block):
        for i, block in enumerate(statement.blocks):
            for inner in block.statements:
                if len(inner.targets) != 1:
                    continue
                ((shape, dtype),) = inner.types
                constant = Statement(
                    inner.targets, inner.types, "{x}", (("x", Operand(Splat(shape, dtype))),)
                )
                if inner.template == "{x}":
                    continue
                statements = tuple(constant if s is inner else s for s in block.statements)
                blocks = list(statement.blocks)
                blocks[i] = replace(block, statements=statements)
                changed = replace(statement, blocks=tuple(blocks))
                yield _changed_statement(program, statement, changed)


def _simpler_operands(program: Program) -> Iterator[Program]:
    for statement in _all_statements(program.block):
        for field, operand in statement.operands:
            for simpler in _simpler_operand(operand):
                changed = tuple((f, simpler if f == field else o) for f, o in statement.operands)
                yield _changed_statement(program, statement, replace(statement, operands=changed))
    # Replaces constants by arguments.
    for operand in operands(program.block):
        source = operand.source
        if isinstance(source, (Variable, Number)):
            continue
        array = (
            source.array
            if isinstance(source, (Literal, Closed))
            else _fresh(source.shape, source.dtype)
        )
        name = f"{program.block.results[0][0]}_{len(program.arguments)}"
        arguments = (*program.arguments, (name, array))

        def change(statement: Statement, source: Source = source, name: str = name) -> Statement:
            changed = tuple(
                (f, Operand(Variable(name), o.views)) if o.source == source else (f, o)
                for f, o in statement.operands
            )
            return replace(statement, operands=changed)

        block = mapped_statements(program.block, change)
        yield replace(program, arguments=arguments, block=block)


def _simpler_operand(operand: Operand) -> Iterator[Operand]:
    for i in range(len(operand.views)):
        yield replace(operand, views=operand.views[:i] + operand.views[i + 1 :])
    source = operand.source
    if isinstance(source, (Closed, Literal)):
        yield replace(operand, source=Splat(source.array.shape, source.array.dtype))
    if isinstance(source, Iota):
        yield replace(operand, source=Splat(source.shape, source.dtype))


def _shapes(program: Program) -> Iterator[tuple[int, ...]]:
    for _, array in program.arguments:
        yield array.shape
    for statement in _all_statements(program.block):
        for _, operand in statement.operands:
            source = operand.source
            if isinstance(source, (Literal, Closed)):
                yield source.array.shape
            elif isinstance(source, (Splat, Iota)):
                yield source.shape
        for _, value in statement.parameters:
            if isinstance(value, tuple):
                yield value


def _smaller(program: Program) -> Iterator[Program]:
    """Replaces one dimension size by a smaller one, in every shape that has it."""
    sizes = sorted({d for shape in _shapes(program) for d in shape if d > 1}, reverse=True)
    for size in sizes:
        for smaller in dict.fromkeys((1, 2, 3, 5, size // 2, size - 1)):
            if 0 < smaller < size:
                yield _resized(program, functools.partial(_replaced, size, smaller))


def _replaced(old: int, new: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(new if d == old else d for d in shape)


def _resized(program: Program, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Program:
    def array(a: Array) -> Array:
        return replace(a, shape=change(a.shape))

    def source(s: Source) -> Source:
        if isinstance(s, (Literal, Closed)):
            return replace(s, array=array(s.array))
        if isinstance(s, (Splat, Iota)):
            return replace(s, shape=change(s.shape))
        return s

    def statement(s: Statement) -> Statement:
        return replace(
            s,
            operands=tuple((f, replace(o, source=source(o.source))) for f, o in s.operands),
            parameters=tuple(
                (f, change(v) if isinstance(v, tuple) else v) for f, v in s.parameters
            ),
            types=tuple((change(shape), dtype) for shape, dtype in s.types),
        )

    return replace(
        program,
        arguments=tuple((n, array(a)) for n, a in program.arguments),
        block=mapped_statements(program.block, statement),
    )


def _simpler_dtypes(program: Program) -> Iterator[Program]:
    for old, new in (
        ("float64", "float32"),
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("int64", "int32"),
        ("int8", "int32"),
        ("int16", "int32"),
        ("complex128", "complex64"),
        ("uint8", "int32"),
        ("uint16", "int32"),
        ("uint32", "int32"),
        ("uint64", "int32"),
        ("complex64", "float32"),
    ):
        changed = _retyped(program, old, new)
        if changed != program:
            yield changed
    if program.x64:
        yield replace(program, x64=False)
    if program.target:
        yield replace(program, target="")


def _retyped(program: Program, old: str, new: str) -> Program:
    def array(a: Array) -> Array:
        if a.dtype != old:
            return a
        return replace(_fresh(a.shape, new), seed=a.seed)

    def source(s: Any) -> Any:
        if isinstance(s, (Literal, Closed)):
            return replace(s, array=array(s.array))
        if isinstance(s, (Splat, Iota)) and s.dtype == old:
            return replace(s, dtype=new)
        return s

    def statement(s: Statement) -> Statement:
        return replace(
            s,
            operands=tuple((f, replace(o, source=source(o.source))) for f, o in s.operands),
            types=tuple((shape, new if dtype == old else dtype) for shape, dtype in s.types),
        )

    return replace(
        program,
        arguments=tuple((n, array(a)) for n, a in program.arguments),
        block=mapped_statements(program.block, statement),
    )


def _simpler_values(program: Program) -> Iterator[Program]:
    for i, (name, array) in enumerate(program.arguments):
        for flavour in ("ones", "count"):
            if array.flavour not in ("ones", "count", "definite", "dominant"):
                arguments = list(program.arguments)
                arguments[i] = (name, replace(array, flavour=flavour, seed=0))
                yield replace(program, arguments=tuple(arguments))
