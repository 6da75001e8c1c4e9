"""Runs programs with JAX in a child process, so that a crash of XLA is reported as JAX's error."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from gnomon.tools.fuzz.program import Program
from gnomon.tools.fuzz.running import JAX, OracleError, Outcome, message, run, run_batch

# Seconds after which an unresponsive child is killed.
TIMEOUT_S = 90.0


def _ignore(how: str) -> None:
    pass


# Called with the way in which JAX's process ended: the caller has waited, and is alive.
on_death: Callable[[str], None] = _ignore


class _Oracle:
    """A child process that runs programs with JAX, started on the first request."""

    def __init__(self) -> None:
        self._child: Any = None
        self._pipe: Connection | None = None

    def ask(self, programs: Sequence[Program], jitted: bool) -> list[Outcome]:
        """The outcome of each program; if the child dies, all outcomes have that as their error."""
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
        on_death(death)
        return [Outcome(error=OracleError(f"Crash: JAX's process {death}"))] * len(programs)

    def _started(self) -> Connection:
        if self._pipe is None:
            # A forked child would inherit locks that the compiler's threads hold.
            context = multiprocessing.get_context("spawn")
            pipe, theirs = context.Pipe()
            child = context.Process(target=_serve, args=(theirs,), daemon=True)
            child.start()
            self._pipe, self._child = pipe, child
            # Only the child holds the other end now, so each side sees the death of the other.
            theirs.close()
        return self._pipe

    def end(self) -> None:
        """Kill the child, if there is one; the next request starts another."""
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
            outcomes = run_batch(JAX, programs)
        else:
            with JAX.package.disable_jit():
                outcomes = [run(JAX, program, jitted=False) for program in programs]
        # Not every exception can be pickled.
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
    """The outcomes of programs that JAX runs in a child process.

    Args:
      programs: the programs, all with the same `x64`.
      jitted: whether to compile them as one program; otherwise each op is compiled alone.
    """
    return _ORACLE.ask(programs, jitted)
