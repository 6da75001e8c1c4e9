"""Random statements that take functions: loops, branches, transformations."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.tools.fuzz.operands import Cell, RefusedError
from gnomon.tools.fuzz.program import Block, Number, Operand, Statement, without_dead
from gnomon.tools.fuzz.rules import FLOAT, Rule, kind_of
from gnomon.tools.fuzz.running import GNOMON
from gnomon.tools.fuzz.statements import StatementGenerator

# The kinds of statements that take functions, each repeated by how often it is drawn.
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


class NestedGenerator:
    """Draws statements that take functions, and the functions.

    Args:
      random: the source of all choices.
      statements: draws the other statements.
    """

    def __init__(self, random: random.Random, statements: StatementGenerator) -> None:
        self._random = random
        self._statements = statements
        self._operands = statements.operands
        self._finish = statements.finish

    def statement(self, cell: Cell) -> Statement:
        """Generate a statement that takes functions: a loop, a branch or a transformation."""
        kind = self._random.choice(NESTED)
        made: Statement = getattr(self, f"_{kind}")(cell)
        self._statements.drawn.append(made.template)
        return made

    def _given(self, cell: Cell, kinds: str, least: int = 0, most: int = 6) -> tuple[Operand, Any]:
        """An operand of one of some kinds and ranks to pass to a nested function, and its value."""
        rule = Rule("{x}", kinds, least, most, shape="")
        return self._operands.principal(cell, rule, "")

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
        if self._random.random() < 0.3:
            inner.values.update(cell.values)
        inner.values.update(parameters)
        statements: list[Statement] = []
        wanted = count or self._random.choice((1, 1, 2, 3))
        use = parameters[-1][0] if like is None else parameters[0][0]
        for _ in range(10):
            last = len(statements) >= wanted - 1
            try:
                if not last and self._random.random() < 0.08:
                    statements.append(self.statement(inner))
                else:
                    # The function returns the last statement's result; the first statement reads a
                    # parameter.
                    wants = like if last else None
                    first = use if not statements or (like is not None and last) else ""
                    statements.append(self._statements.statement(inner, wants, first))
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
        operands = [self._given(cell, "fiucb") for _ in range(self._random.choice((1, 2)))]
        parameters = [(cell.name("p"), value) for _, value in operands]
        block, _ = self._block(cell, parameters)
        fields = tuple((f"x{i}", o) for i, (o, _) in enumerate(operands))
        given = ", ".join(f"{{{n}}}" for n, _ in fields)
        return self._finish(cell, f"{function}({{body0}})({given})", fields, (), (block,), 1)

    def _checkpoint(self, cell: Cell) -> Statement:
        return self._jit(cell, "gn.checkpoint")

    def _vmap(self, cell: Cell) -> Statement:
        x, value = self._given(cell, "fiucb", 1)
        axis = self._random.randrange(value.ndim) if self._random.random() < 0.4 else 0
        if not value.shape[axis]:
            raise RefusedError("no member")
        fields: list[tuple[str, Operand]] = [("x0", x)]
        member = GNOMON.namespace["gnp"].take(value, 0, axis=axis)
        parameters = [(cell.name("p"), member)]
        axes = [str(axis)]
        if self._random.random() < 0.5:
            shape = tuple(member.shape) if self._random.random() < 0.7 else ()
            y, other = self._operands.constant(cell, shape, value.dtype.name)
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
        if self._random.random() < 0.4:
            y, other = self._given(cell, FLOAT)
            fields.insert(0, ("x1", y))
            parameters.insert(0, (cell.name("p"), other))
            argument = 1
        else:
            argument = 0
        block, _ = self._block(cell, parameters, FLOAT)
        given = ", ".join(f"{{{n}}}" for n, _ in fields)
        weight = self._random.choice(("{body0}(*a)", "{body0}(*a) ** 2", "gnp.sin({body0}(*a))"))
        template = template.replace("{loss}", f"lambda *a: gnp.sum({weight}), argnums={argument}")
        template = template.replace("{given}", given)
        return self._finish(cell, template, tuple(fields), (), (block,), results)

    def _jvp(self, cell: Cell) -> Statement:
        x, value = self._given(cell, FLOAT)
        t, _ = self._operands.constant(cell, tuple(value.shape), value.dtype.name)
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
        count = self._random.choice(("", "[:3]", "[:5]"))
        names = (cell.name("p"), cell.name("p"))
        parameters = [(names[0], carry), (names[1], value[0])]
        block, _ = self._block(cell, parameters, like=carry)
        # The second result is stacked over iterations: the old carry, the element or the new carry.
        out = self._random.choice((names[0], names[1], block.results[0]))
        block = Block(names, block.statements, (block.results[0], out))
        reverse = self._random.choice(("", ", reverse=True", ", unroll=2"))
        template = f"lax.scan({{body0}}, {{c}}, {{x}}{count}{reverse})"
        return self._finish(cell, template, (("c", c), ("x", x)), (), (block,), 2)

    def _fori(self, cell: Cell) -> Statement:
        c, carry = self._carry(cell)
        names = (cell.name("p"), cell.name("p"))
        counter = GNOMON.array(np.asarray(1, np.int32))
        block, _ = self._block(cell, [(names[1], carry), (names[0], counter)], like=carry)
        block = Block(names, block.statements, block.results)
        trips = self._random.choice(("0, 3", "0, 1", "1, 6"))
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
        p, _ = self._operands.constant(cell, (), "bool")
        template = "lax.cond({p}, {body0}, {body1}, {x})"
        return self._finish(cell, template, (("p", p), ("x", x)), (), blocks, 1)

    def _switch(self, cell: Cell) -> Statement:
        blocks, x = self._branches(cell, 3)
        n, _ = self._operands.constant(cell, (), "int32", "natural")
        template = "lax.switch({n}, [{body0}, {body1}, {body2}], {x})"
        return self._finish(cell, template, (("n", n), ("x", x)), (), blocks, 1)
