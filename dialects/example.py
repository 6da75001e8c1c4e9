"""Programs built from the ops' examples, which docs/ops.md prints and the tests run.

The facet ``example`` is a few statements in generic form; see `contract` for the names that it may
use.
"""

from __future__ import annotations

import re
import textwrap

from gnomon.dialects.body import Body
from gnomon.dialects.contract import Op
from gnomon.dialects.functions import Program, emit_call, vmap
from gnomon.dialects.mlir import context, ensure_context, ir

WIDTH = 100  # the maximum line length, as in the rest of the project

# The function that examples of calls and transformations name.
CALLEE = """\
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  %y = "gnomon.sin"(%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}"""

# The axis that examples of collectives name, and its size.
AXIS = "i"
MEMBERS = 4

# A long statement is broken before its attributes and before its types. Attributes and types are
# broken after a comma between two of them and before the arrow.
_PARTS = re.compile(r" (?=\{\w+ = |: \()")
_FIXED_SPACE = re.compile(r"(?<!,) (?!->)|(?<=,) (?!\w+ = |tensor)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_INNERMOST_BRACES = re.compile(r"\{[^{}]*\}")
_VALUE = re.compile(r"(%\w+)(?::(\d+))?")
_TYPE = r"\w+<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>"
_TYPES = rf"(?:\((?:{_TYPE}|[,\s])*\)|{_TYPE}(?:,\s*{_TYPE})*)"
_STATEMENT = re.compile(
    rf"(?:(?P<results>%[^=]*)=)?(?P<use>[^=]*?)\s:\s*"
    rf"(?P<takes>{_TYPES})\s*(?:->|to)\s*(?P<gives>{_TYPES})"
)


def example_text(op: Op) -> str:
    """The example of an op with long lines wrapped."""
    return "\n".join(part for line in op.example.splitlines() for part in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    """Wrap a long statement: operands, attributes and types go on separate lines."""
    if len(line) <= WIDTH:
        return [line]
    head, *parts = _PARTS.split(line)
    indent = line[: len(line) - len(line.lstrip())] + "    "
    lines = [head]
    for part in parts:
        lines += textwrap.wrap(
            _FIXED_SPACE.sub("\0", part),
            WIDTH,
            initial_indent=indent,
            subsequent_indent=f"{indent} ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return [line.replace("\0", " ") for line in lines]


def example_program(op: Op) -> Program:
    """The program of an op's example; its public function is ``@main``.

    Raises:
      ValueError: the example does not parse, or the verifier rejects it.
    """
    ensure_context()
    name = "member" if op.collective else "main"
    text = f"{CALLEE}\n{_function(name, example_text(op), public=not op.collective)}"
    try:
        program = Program(ir.Module.parse(text, context()))
    except ir.MLIRError as error:
        raise ValueError(f"the example of {op.full_name} is not a program: {error}") from error
    if op.collective:
        _map(program, name)
    return program


def _function(name: str, text: str, *, public: bool) -> str:
    """A function from the free values of an example to its unused results."""
    defined: dict[str, str] = {}
    arguments: dict[str, str] = {}
    used: set[str] = set()
    for statement in _STATEMENT.finditer(_outermost(text)):
        operands = _names(statement["use"])
        for operand, type_ in zip(operands, _types(statement["takes"]), strict=False):
            if operand not in defined:
                arguments.setdefault(operand, type_)
        used.update(operands)
        defined.update(zip(_names(statement["results"]), _types(statement["gives"]), strict=False))
    results = {value: type_ for value, type_ in defined.items() if value not in used}
    takes = ", ".join(f"{value}: {type_}" for value, type_ in arguments.items())
    gives = ", ".join(results.values())
    end = f"return {', '.join(results)} : {gives}" if results else "return"
    visibility = "" if public else "private "
    body = textwrap.indent(f"{text}\n{end}", "  ")
    return f"func.func {visibility}@{name}({takes}) -> ({gives}) {{\n{body}\n}}"


def _outermost(text: str) -> str:
    """The text without strings, attributes and regions, which cannot contain free values."""
    text = _STRING.sub('""', text)
    found = 1
    while found:
        text, found = _INNERMOST_BRACES.subn("", text)
    return text


def _names(text: str | None) -> list[str]:
    """The values that a text names; ``%r:2`` names ``%r#0`` and ``%r#1``."""
    names: list[str] = []
    for name, count in _VALUE.findall(text or ""):
        names += [f"{name}#{i}" for i in range(int(count))] if count else [name]
    return names


def _types(text: str) -> list[str]:
    return re.findall(_TYPE, text)


def _map(program: Program, name: str) -> None:
    """Add ``@main``, which maps a function over the axis of collectives."""
    arguments, results = program.signature(name)
    types = [t.with_shape((MEMBERS, *t.shape)) for t in arguments]

    def emit(*operands: ir.Value) -> list[ir.Value]:
        return emit_call(
            program,
            vmap,
            name,
            operands,
            in_axes=(0,) * len(arguments),
            out_axes=(0,) * len(results),
            axis_size=MEMBERS,
            axis_name=AXIS,
        )

    with ir.Location.unknown(context()):
        program.add("main", Body.build(types, emit), public=True)
    program.module.operation.verify()


__all__ = ["AXIS", "CALLEE", "MEMBERS", "example_program", "example_text"]
