"""Random programs of a few statements each."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from gnomon.backends.iree.targets import find_target, incompatibility
from gnomon.tools.fuzz.catalog import FAMILIES
from gnomon.tools.fuzz.nested import NestedGenerator
from gnomon.tools.fuzz.operands import Cell, RefusedError
from gnomon.tools.fuzz.program import Block, Program, Statement, cleaned
from gnomon.tools.fuzz.running import GNOMON
from gnomon.tools.fuzz.statements import StatementGenerator

# The targets of programs; mostly (as an empty name) the processor that they run on.
TARGETS = ("", "", "", "x86-64-v2", "x86-64-v3")


class Generator:
    """Generates random programs.

    Args:
      seed: the same seed gives the same program.
      families: names of `FAMILIES` to draw from; all by default.

    Attributes:
      statements: draws the statements; holds those that were rejected.
      nested: draws the statements that take functions.
    """

    def __init__(self, seed: int, families: Sequence[str] = ()) -> None:
        self._random = random.Random(seed)
        self._x64 = self._random.random() < 0.2
        chosen = {n: f for n, f in FAMILIES.items() if not families or n in families}
        self.statements = StatementGenerator(self._random, self._x64, chosen)
        self.nested = NestedGenerator(self._random, self.statements)

    def program(self) -> Program:
        """Generate a program of one to three statements, not counting nested ones."""
        cell = Cell("")
        with _generating(self._x64):
            results: list[str] = []
            while not results:
                results = self._results(cell)
        block = Block((), tuple(cell.statements), tuple(results))
        program = cleaned(Program(tuple(cell.arguments), block, self._x64))
        target = self._random.choice(TARGETS)
        # Factorizations are calls of Python, which programs for a target cannot have.
        if "linalg." in program.source() or (target and incompatibility(find_target(target))):
            return program
        return replace(program, target=target)

    def _results(self, cell: Cell) -> list[str]:
        """Draw the statements of a program; return the names of its results, none if all failed."""
        wanted = self._random.choice((1, 1, 1, 2, 2, 3))
        statements: list[Statement] = []
        for _ in range(12):
            if len(statements) >= wanted:
                break
            nested = self._random.random() < 0.25
            try:
                statement = (self.nested if nested else self.statements).statement(cell)
            except RefusedError:
                continue
            statements.append(statement)
        cell.statements = statements
        made = [t for s in statements for t in s.targets]
        if not made:
            return []
        last = list(statements[-1].targets)
        # A function may also return the updated value and values computed on the way.
        results = [v for v in cell.values if v not in last and self._random.random() < 0.3]
        results += last
        if self._random.random() < 0.2:
            self._random.shuffle(results)
        return results


@contextmanager
def _generating(x64: bool) -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"), GNOMON.x64(x64):
        warnings.simplefilter("ignore")
        # While programs are generated, nested jit is not compiled.
        with GNOMON.package.disable_jit():
            yield
