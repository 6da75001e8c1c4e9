"""The reference evaluator: runs functions of the dialect with NumPy.

It is what eager calls run on the CPU, and the oracle of every test. A function is prepared once as a
list of steps over numbered slots, so a loop's body costs no look at the IR per iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon.dialects.body import Body, operands_of, results_of
from gnomon.dialects.contract import ENGINE, Verdict, bodies_of, lookup, params_of
from gnomon.dialects.functions import TRANSFORMATIONS, Program, callee
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import tensor_type
from gnomon.passes.expand import Expander

Arrays = Sequence[np.ndarray]
Callee = Callable[..., Sequence[np.ndarray]]


class Evaluator:
    """Evaluates the functions of one program.

    Args:
      program: the program; transformations that it holds are expanded when they are met.
      calls: an optional hook ``(program, name) -> callable or None`` that may run a called function
        in another way than here (compiled code).
    """

    def __init__(
        self, program: Program, calls: Callable[[Program, str], Callee | None] | None = None
    ) -> None:
        self.program = program
        self._calls = calls
        self._functions: dict[str, Callee] = {}
        self._expander: Expander | None = None

    @property
    def expander(self) -> Expander:
        """The expander of the program, made when it is first needed."""
        if self._expander is None:
            self._expander = Expander(self.program)
        return self._expander

    def __call__(self, name: str, *arguments: np.ndarray) -> list[np.ndarray]:
        """Run a function."""
        with np.errstate(all="ignore"):
            return list(self.function(name)(*arguments))

    def function(self, name: str) -> Callee:
        """A function as a Python callable on arrays."""
        if name not in self._functions:
            compiled = self._calls(self.program, name) if self._calls else None
            self._functions[name] = compiled or self.prepare(self.program.body(name))
        return self._functions[name]

    def prepare(self, body: Body) -> Callee:
        """A body as a Python callable on arrays."""
        slots: dict[ir.Value, int] = {a: i for i, a in enumerate(body.arguments)}
        argument_count = len(slots)
        steps = []
        for op in body.operations:
            inputs = tuple(slots[operand] for operand in operands_of(op))
            outputs = []
            for result in results_of(op):
                slots[result] = len(slots)
                outputs.append(slots[result])
            steps.append((self.step(op), inputs, tuple(outputs)))
        results = tuple(slots[r] for r in body.results)
        slot_count = len(slots)

        def run(*arguments: np.ndarray) -> Sequence[np.ndarray]:
            values: list[Any] = [None] * slot_count
            values[:argument_count] = arguments
            for function, inputs, outputs in steps:
                out = function(*[values[i] for i in inputs])
                for slot, value in zip(outputs, out, strict=True):
                    values[slot] = value
            return [values[i] for i in results]

        return run

    def step(self, op: ir.Operation) -> Callee:
        """One operation as a Python callable on arrays."""
        if op.name in TRANSFORMATIONS:
            self.expander.expand(callee(op))
            return self._deferred(self.expander.derive(op))
        definition = lookup(op)
        rule = definition.evaluate
        if rule is ENGINE:
            return self._deferred(callee(op))
        if isinstance(rule, Verdict):
            raise TypeError(f"{op.name} cannot be evaluated: {rule.value} ({op.location})")
        params = dict(params_of(op, definition))
        if definition.is_control_flow:
            params["bodies"] = [self.prepare(body) for body in bodies_of(op)]
        dtypes = [tensor_type(r.type).dtype for r in results_of(op)]
        if definition.results == 1:
            (dtype,) = dtypes

            def single(*operands: np.ndarray) -> tuple[np.ndarray]:
                return (np.asarray(rule(*operands, **params), dtype),)

            return single

        def several(*operands: np.ndarray) -> Sequence[np.ndarray]:
            out = rule(*operands, **params)
            return [np.asarray(o, d) for o, d in zip(out, dtypes, strict=True)]

        return several

    def _deferred(self, name: str) -> Callee:
        """A call that finds its function when it first runs."""

        def run(*operands: np.ndarray) -> Sequence[np.ndarray]:
            return self.function(name)(*operands)

        return run


__all__ = ["Evaluator"]
