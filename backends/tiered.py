"""Tiered programs: evaluated with NumPy at first, compiled in the background for later calls.

The owner of a `TieredProgram` asks for the compiled form before each call, and evaluates the
program as long as it is not ready.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from gnomon.backends import profiling
from gnomon.backends.background import Job
from gnomon.backends.reference import Evaluator
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir

__all__ = ["Overtaken", "TieredProgram"]

E = TypeVar("E")


class Overtaken(Exception):  # noqa: N818 - not an error: it ends an evaluation early
    """The compiled form became ready during an evaluation, which was abandoned."""


class TieredProgram(Generic[E]):
    """A program that is evaluated until it is compiled.

    Thread-safe: each evaluation in progress has its own copy of the program. Fork-safe: a child
    restarts a compilation that its parent had not finished.

    Args:
      name: the name of the program in profiles.
      copy: makes a copy of the program, whose function ``main`` is evaluated.
      compile: compiles the program; called in the background, and again after a failure.
    """

    def __init__(self, name: str, copy: Callable[[], Program], compile: Callable[[], E]) -> None:
        self._name = name
        self._copy = copy
        self._compile = compile
        self._compiled: E | None = None
        self._job: Job[E] = Job(compile)
        self._failed = False
        # Prepared programs that no call is using.
        self._idle: list[Callable[..., list[np.ndarray]]] = []

    def compiled(self, *, wait: bool) -> E | None:
        """The compiled form; None if it is not ready and ``wait`` is false.

        Raises:
          Exception: compilation failed. The first call raises the error of the background
            compilation; each later call compiles again.
        """
        if self._compiled is not None:
            return self._compiled
        job = self._job
        if self._failed:
            self._compiled = self._compile()
        elif wait or job.finished:
            try:
                self._compiled = job.result()
            except Exception:
                self._failed = job.finished
                raise
        else:
            job.start()
            return None
        self._idle.clear()
        return self._compiled

    def wait(self, timeout: float | None = None) -> None:
        """Wait until compilation has ended; raise its error, which the next call raises too.

        Raises:
          TimeoutError: compilation takes longer than ``timeout`` seconds.
        """
        if self._compiled is None and not self._failed:
            self._job.result(timeout)

    def evaluate(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Evaluate the program with NumPy.

        Raises:
          Overtaken: the compiled form is ready. Programs that call Python never raise it.
        """
        job = self._job
        try:
            try:
                run = self._idle.pop()
            except IndexError:
                run = self._prepared()
            with profiling.span("evaluate", program=self._name):
                results = run(*arrays)
        finally:
            # The evaluation no longer competes with the job for the interpreter.
            job.release()
        if self._compiled is None:
            self._idle.append(run)
        return results

    def _prepared(self) -> Callable[..., list[np.ndarray]]:
        ensure_context()
        program, job = self._copy(), self._job

        def check(op: ir.Operation, results: Any) -> None:
            if job.succeeded:
                raise Overtaken

        # The effects of calls of Python cannot be undone, so such evaluations run to their end.
        calls_python = program.callbacks or any(map(program.has_effects, program.names))
        return Evaluator(program, None, None if calls_python else check).prepared("main")
