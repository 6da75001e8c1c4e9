"""Random statements, which are run at once to know the types of their results."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.tools.fuzz.operands import (
    MAX_ELEMENTS,
    Cell,
    OperandGenerator,
    RefusedError,
    flavour_for,
)
from gnomon.tools.fuzz.program import (
    Array,
    Block,
    Closed,
    Operand,
    Printer,
    Program,
    Statement,
    Variable,
    statement_lines,
)
from gnomon.tools.fuzz.rules import Rule
from gnomon.tools.fuzz.running import GNOMON, value_of


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


class StatementGenerator:
    """Draws statements of functions on arrays.

    Args:
      random: the source of all choices.
      x64: whether the program has 64-bit dtypes.
      families: the rules to draw from, as in `FAMILIES`.

    Attributes:
      operands: draws the operands.
      refusals: the statements that gnomon rejected.
      drawn: the templates that were drawn, for the coverage report.
    """

    def __init__(
        self, random: random.Random, x64: bool, families: Mapping[str, tuple[int, list[Rule]]]
    ) -> None:
        self._random = random
        self._x64 = x64
        self._families = families
        self.operands = OperandGenerator(random, x64)
        self.refusals: list[Refusal] = []
        self.drawn: list[str] = []

    def statement(self, cell: Cell, like: Any = None, must_use: str = "") -> Statement:
        """Generate a statement from a random rule of a random family.

        Args:
          cell: the function that the statement is for; gets its results.
          like: a value whose type the result must have.
          must_use: a variable that must be the principal operand.
        """
        weights = [weight for weight, _ in self._families.values()]
        ((_, rules),) = self._random.choices(list(self._families.values()), weights)
        rule = self._random.choice(rules)
        operands: dict[str, Operand] = {}
        values: dict[str, Any] = {}
        parameters: dict[str, Any] = {}
        main = self.operands.principal(cell, rule, must_use)
        operands["x"], values["x"] = main
        for name in rule.fields:
            if name == "x":
                continue
            made = self.operands.operand(cell, rule, name, values["x"], parameters)
            if made is None:
                parameters[name] = self.operands.parameter(name, values["x"])
            else:
                operands[name], values[name] = made
        fields = rule.fields
        chosen = tuple((n, operands[n]) for n in fields if n in operands)
        template = rule.template
        self.drawn.append(template)
        return self.finish(
            cell,
            template,
            chosen,
            tuple((n, parameters[n]) for n in fields if n in parameters),
            (),
            rule.results,
            like,
        )

    def finish(
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
                array = Array(tuple(value.shape), value.dtype.name, flavour_for(value.dtype.name))
                arguments.append((operand.source.name, array))
        arguments = list(dict(arguments).items())
        block = Block(tuple(n for n, _ in arguments), (statement,), statement.targets)
        program = Program(tuple(arguments), block, self._x64)
        self.refusals.append(Refusal(statement.template, program, error))


def _all_operands(statement: Statement) -> list[tuple[str, Operand]]:
    found = list(statement.operands)
    for block in statement.blocks:
        for inner in block.statements:
            found += _all_operands(inner)
    return found
