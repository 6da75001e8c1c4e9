"""The reference evaluator, which runs functions of the dialect with NumPy.

It runs eager calls of functions on the CPU and is the oracle of the tests. A function is prepared
once as a list of steps over numbered slots, so that a loop does not inspect the IR in each
iteration.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon.dialects.body import Body, operands_of, results_of
from gnomon.dialects.contract import ENGINE, Verdict, bodies_of, lookup, params_of
from gnomon.dialects.functions import TRANSFORMATIONS, Program, callee
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, tensor_type
from gnomon.passes.expand import Expander

Arrays = Sequence[np.ndarray]
Callee = Callable[..., Sequence[np.ndarray]]


class PreparedBody:
    """A body as a callable on arrays: a list of steps over numbered slots.

    Attributes:
      result_types: the types of the body's results.
    """

    __slots__ = (
        "__weakref__",
        "_argument_count",
        "_results",
        "_slot_count",
        "_steps",
        "result_types",
    )

    def __init__(
        self,
        steps: list[tuple[Callee, tuple[int, ...], tuple[int, ...]]],
        argument_count: int,
        slot_count: int,
        results: tuple[int, ...],
        result_types: list[TensorType],
    ) -> None:
        self._steps = steps
        self._argument_count = argument_count
        self._slot_count = slot_count
        self._results = results
        self.result_types = result_types

    def __call__(self, *arguments: np.ndarray) -> Sequence[np.ndarray]:
        """Run the steps."""
        values: list[Any] = [None] * self._slot_count
        values[: self._argument_count] = arguments
        for function, inputs, outputs in self._steps:
            out = function(*[values[i] for i in inputs])
            for slot, value in zip(outputs, out, strict=True):
                values[slot] = value
        return [values[i] for i in self._results]


class Evaluator:
    """Evaluates the functions of one program.

    Args:
      program: the program; its transformations are expanded when they are evaluated.
      calls: an optional hook ``(program, name) -> callable or None``, which may run a called
        function in another way (as compiled code).
      check: an optional hook that is called after each op with the op and its results.
    """

    def __init__(
        self,
        program: Program,
        calls: Callable[[Program, str], Callee | None] | None = None,
        check: Callable[[ir.Operation, Arrays], None] | None = None,
    ) -> None:
        self.program = program
        self._calls = calls
        self._check = check
        # Prepared functions refer to the evaluator. The references back to them are weak, so that
        # there is no cycle for the garbage collector. Callers keep the functions alive.
        self._functions: weakref.WeakValueDictionary[str, Callee] = weakref.WeakValueDictionary()
        self._expander: Expander | None = None

    @property
    def expander(self) -> Expander:
        """The expander of the program, created on demand."""
        if self._expander is None:
            self._expander = Expander(self.program)
        return self._expander

    def __call__(self, name: str, *arguments: np.ndarray) -> list[np.ndarray]:
        """Run a function."""
        with np.errstate(all="ignore"):
            return list(self.function(name)(*arguments))

    def prepared(self, name: str) -> Callable[..., list[np.ndarray]]:
        """A function as a callable on arrays, prepared once for several calls."""
        function = self.function(name)

        def run(*arguments: np.ndarray) -> list[np.ndarray]:
            with np.errstate(all="ignore"):
                return list(function(*arguments))

        return run

    def function(self, name: str) -> Callee:
        """A function as a Python callable on arrays."""
        found = self._functions.get(name)
        if found is not None:
            return found
        with self.program.lock:
            compiled = self._calls(self.program, name) if self._calls else None
            found = self._functions[name] = compiled or self.prepare(self.program.body(name))
            return found

    def prepare(self, body: Body) -> PreparedBody:
        """A body as a Python callable on arrays."""
        with self.program.lock:
            return self._prepare(body)

    def _prepare(self, body: Body) -> PreparedBody:
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
        return PreparedBody(steps, argument_count, len(slots), results, body.result_types)

    def step(self, op: ir.Operation) -> Callee:
        """One operation as a Python callable on arrays."""
        run, check = self._step(op), self._check
        if check is None:
            return run

        def checked(*operands: np.ndarray) -> Arrays:
            out = run(*operands)
            check(op, out)
            return out

        return checked

    def _step(self, op: ir.Operation) -> Callee:
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
            bodies = bodies_of(op)
            params["bodies"] = [
                self.prepare(b) for b in (bodies[:1] if definition.inline else bodies)
            ]
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
        """A call that looks up its function when it first runs."""

        found: Callee | None = None

        def run(*operands: np.ndarray) -> Sequence[np.ndarray]:
            nonlocal found
            if found is None:
                found = self.function(name)
            return found(*operands)

        return run


__all__ = ["Evaluator"]
