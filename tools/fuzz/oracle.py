"""Runs programs by JAX in a child process, so that a crash of XLA is an error of JAX's."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from gnomon.tools.fuzz.program import Program
from gnomon.tools.fuzz.running import JAX, OracleError, Outcome, message, run, run_together

# Seconds after which a silent child is ended.
TIMEOUT_S = 240.0


class _Oracle:
    """A child that runs programs by JAX; it is started when it is first asked."""

    def __init__(self) -> None:
        self._child: Any = None
        self._pipe: Connection | None = None

    def ask(self, programs: Sequence[Program], jitted: bool) -> list[Outcome]:
        """The outcome of each program; if the child dies, its death is the error of all."""
        pipe = self._started()
        try:
            pipe.send((tuple(programs), jitted))
            if pipe.poll(TIMEOUT_S):
                outcomes: list[Outcome] = pipe.recv()
                return outcomes
            death = f"was silent for {TIMEOUT_S:.0f} s"
        except (EOFError, OSError):
            self._child.join()
            death = f"ended with status {self._child.exitcode}"
        self.end()
        return [Outcome(error=OracleError(f"Crash: JAX's process {death}"))] * len(programs)

    def _started(self) -> Connection:
        if self._pipe is None:
            # A fork would share the threads and locks of the compiler.
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._child = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._child.start()
            # The child has the only other end: each side sees the death of the other.
            theirs.close()
        return self._pipe

    def end(self) -> None:
        """End the child, if there is one; the next question starts another."""
        if self._pipe is not None:
            self._child.kill()
            self._child.join()
            self._pipe.close()
            self._child = self._pipe = None


def _serve(pipe: Connection) -> None:
    while True:
        try:
            programs, jitted = pipe.recv()
        except EOFError:
            return
        if jitted:
            outcomes = run_together(JAX, programs)
        else:
            with JAX.package.disable_jit():
                outcomes = [run(JAX, program, jitted=False) for program in programs]
        # Exceptions do not all survive a pipe.
        pipe.send(
            [
                outcome
                if outcome.error is None
                else replace(outcome, error=OracleError(message(outcome.error)))
                for outcome in outcomes
            ]
        )


_ORACLE = _Oracle()


def ask_jax(programs: Sequence[Program], *, jitted: bool = True) -> list[Outcome]:
    """The outcomes of programs by JAX in a child process.

    Args:
      programs: they are of one width.
      jitted: whether they are compiled as one; otherwise each op is compiled alone.
    """
    return _ORACLE.ask(programs, jitted)
