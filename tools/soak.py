"""``python -m gnomon.tools.soak``: check that long runs leak no memory, descriptors or files.

    python -m gnomon.tools.soak                 # the long run: an hour on two cores
    python -m gnomon.tools.soak --scale=0.002   # a short one
    python -m gnomon.tools.soak --only=chains,live_sets

Each scenario repeats a round. The resources of the process after the first third of the rounds are
compared with those at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gnomon as gn
import gnomon.lax as lax
import gnomon.numpy as gnp
from gnomon.backends.iree.driver import driver_state
from gnomon.backends.iree.process import COMPILER
from gnomon.backends.iree.scratch import scratch_folder

__all__ = ["SCENARIOS", "in_threads", "main", "soak"]

# The tolerated growth: memory kept by allocators, and pages not touched in the first rounds.
_GROWTH_BYTES = 24 << 20

_LARGE = 1 << 20
_SMALL = 1 << 16


@dataclass(frozen=True)
class Usage:
    """The resources of the process: resident bytes, descriptors, temporary files, the compiler."""

    resident: int
    descriptors: int
    files: int
    compiler: int

    @classmethod
    def now(cls) -> Usage:
        """Measures after everything that can be freed has been freed."""
        for driver in ("local-sync", "local-task"):
            driver_state(driver).free_memory()
        # The first call makes the folder, which stays open.
        files = os.listdir(scratch_folder())
        ctypes.CDLL(None).malloc_trim(0)
        return cls(
            _resident(os.getpid()),
            len(os.listdir("/proc/self/fd")),
            len(files),
            _resident(COMPILER.pid) if COMPILER.pid else 0,
        )


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Scenario:
    """A round that is repeated.

    Attributes:
      start: returns the round, a function of its number.
      rounds: the number of rounds of the long run.
    """

    start: Callable[[], Callable[[int], None]]
    rounds: int


SCENARIOS: dict[str, Scenario] = {}


def _scenario(rounds: int) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def register(start: Callable[[], Any]) -> Callable[[], Any]:
        SCENARIOS[start.__name__.strip("_")] = Scenario(start, rounds)
        return start

    return register


@functools.cache
def _step() -> Any:
    return gn.jit(lambda x: x * 0.5 + 1)


def _check(value: Any, expected: float) -> None:
    array = np.asarray(value)
    if not np.allclose(array.ravel()[[0, -1]], expected):
        raise AssertionError(f"got {array.ravel()[:4]}, expected {expected}")


@_scenario(rounds=160)
def _chains() -> Callable[[int], None]:
    """Calls that wait for each other, 1 to 1000 deep: 1111 calls a round."""
    x = gnp.full(_LARGE // 4, 2.0, "float32")

    def run(_: int) -> None:
        for depth in (1, 10, 100, 1000):
            y = x
            for _ in range(depth):
                y = _step()(y)
            _check(y, 2.0)

    return run


@_scenario(rounds=100)
def _fan_out() -> Callable[[int], None]:
    """Independent calls whose results are joined by one program of 50 arguments, or dropped."""
    x = gnp.full(_SMALL, 2.0, "float32")
    join = gn.jit(sum)

    def run(_: int) -> None:
        results = [_step()(x) for _ in range(200)]
        _check(join(results[:50]), 100.0)
        for _ in range(200):
            _step()(x)

    return run


@_scenario(rounds=60)
def _live_sets() -> Callable[[int], None]:
    """Many arrays that are alive at the same time and are freed together."""
    x = gnp.full(_LARGE, 2.0, "float32")

    def run(_: int) -> None:
        live = [_step()(x) for _ in range(40)]
        _check(live[-1], 2.0)

    return run


@_scenario(rounds=60)
def _donated() -> Callable[[int], None]:
    """Chains whose arguments are donated."""
    step = gn.jit(lambda x, y: (x * 0.5 + y, y * 1), donate_argnums=(0, 1))

    def run(_: int) -> None:
        x, y = gnp.full(_LARGE, 2.0, "float32"), gnp.ones(_LARGE, "float32")
        for _ in range(100):
            x, y = step(x, y)
        _check(x, 2.0)

    return run


@_scenario(rounds=60)
def _loops() -> Callable[[int], None]:
    """Programs whose loops allocate in each iteration."""
    loop = gn.jit(lambda x: lax.fori_loop(0, 20, lambda _, c: gnp.cos(c) * 0 + x, x))

    def run(_: int) -> None:
        live = [loop(gnp.full(_LARGE // 4, 2.0, "float32")) for _ in range(20)]
        _check(live[-1], 2.0)

    return run


@_scenario(rounds=100)
def _callbacks() -> Callable[[int], None]:
    """Programs that call Python, between others that run asynchronously."""
    like = gn.ShapeDtypeStruct((_SMALL,), "float32")
    call = gn.jit(lambda x: gn.pure_callback(np.asarray, like, x) + 0)
    x = gnp.full(_SMALL, 2.0, "float32")

    def run(_: int) -> None:
        y = x
        for _ in range(20):
            y = call(_step()(_step()(y)))
        _check(y, 2.0)

    return run


@_scenario(rounds=100)
def _exceptions() -> Callable[[int], None]:
    """Calls that fail in every way, between others that run asynchronously."""
    like = gn.ShapeDtypeStruct((_SMALL,), "float32")

    def refuse(_: Any) -> Any:
        raise ValueError("refused")

    fails = gn.jit(lambda x: gn.pure_callback(refuse, like, _step()(x)))
    donates = gn.jit(lambda x: x * 2, donate_argnums=0)
    x = gnp.full(_SMALL, 2.0, "float32")

    def run(_: int) -> None:
        y = x
        for _ in range(10):
            y = _step()(y)
            with contextlib.suppress(ValueError):
                fails(y)
            gone = _step()(y)
            donates(gone)
            with contextlib.suppress(RuntimeError):
                _step()(gone)
            with contextlib.suppress(TypeError, ValueError):
                gn.jit(lambda a, b: a @ b)(y, gnp.ones(3))
        _check(y, 2.0)

    return run


def in_threads(count: int, work: Callable[[], object]) -> None:
    """Run a function in several threads that begin together; raise one of their errors."""
    failures: list[BaseException] = []
    start = threading.Barrier(count)

    def run() -> None:
        try:
            start.wait()
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@_scenario(rounds=60)
def _threads() -> Callable[[int], None]:
    """Chains in several threads."""

    def chain() -> None:
        y = gnp.full(2 * _SMALL, 2.0, "float32")
        for _ in range(100):
            y = _step()(y)
        _check(y, 2.0)

    return lambda _: in_threads(4, chain)


@_scenario(rounds=300)
def _tracing_threads() -> Callable[[int], None]:
    """Threads that trace a new function each, and end while others trace."""
    x = gnp.ones(4)

    def trace() -> None:
        _check(gn.grad(lambda v: gnp.sum(v**3 - v))(x), 2.0)

    def run(_: int) -> None:
        for _ in range(10):
            in_threads(8, trace)

    return run


@_scenario(rounds=200)
def _programs() -> Callable[[int], None]:
    """Ten programs, which are dropped; the first five are new in every round."""

    def run(number: int) -> None:
        for i in range(10):
            scale = 1.0 + i + (10.0 * number if i < 5 else 0)
            function = gn.jit(lambda x, scale=scale: gnp.sin(x) * scale)
            _check(function(gnp.zeros(8)), 0.0)
        gn.clear_caches()

    return run


@_scenario(rounds=100)
def _gradients() -> Callable[[int], None]:
    """A hundred eager gradients."""
    weights = gnp.full((4, 4), 0.1, "float32")
    x = gnp.ones(4)

    def loss(w: Any) -> Any:
        return gnp.sum(gnp.tanh(w @ gnp.tanh(w @ x)) ** 2)

    def run(_: int) -> None:
        for _ in range(100):
            gradient = gn.grad(loss)(weights)
        if not np.all(np.isfinite(np.asarray(gradient))):
            raise AssertionError("the gradient is not finite")

    return run


@dataclass(frozen=True)
class Outcome:
    """The resources after a third of a scenario's rounds and at the end, and its duration."""

    name: str
    rounds: int
    before: Usage
    after: Usage
    seconds: float

    @property
    def leaks(self) -> list[str]:
        """A line for each resource that grew."""
        before, after = self.before, self.after
        found = []
        for what in ("resident", "compiler"):
            grown = getattr(after, what) - getattr(before, what)
            # The compiler may have been started or replaced in between.
            if grown > _GROWTH_BYTES and getattr(before, what):
                found.append(f"{what} memory by {grown >> 20} MiB")
        for what in ("descriptors", "files"):
            grown = getattr(after, what) - getattr(before, what)
            if grown > 0:
                found.append(f"{what} by {grown}")
        return found

    def __str__(self) -> str:
        before, after = self.before, self.after
        verdict = "; ".join(self.leaks) or "flat"
        return (
            f"{self.name:12} {self.rounds:6} rounds {self.seconds:7.1f} s  "
            f"{before.resident >> 20:5} -> {after.resident >> 20:5} MiB  "
            f"{before.descriptors:3} -> {after.descriptors:3} descriptors  "
            f"{before.files} -> {after.files} files  "
            f"compiler {before.compiler >> 20:4} -> {after.compiler >> 20:4} MiB  {verdict}"
        )


def soak(names: Sequence[str], scale: float) -> Iterator[Outcome]:
    """Runs scenarios.

    Args:
      names: names in `SCENARIOS`.
      scale: the fraction of the long run's rounds; at least three are run.
    """
    for name in names:
        scenario = SCENARIOS[name]
        rounds = max(3, int(scenario.rounds * scale))
        run = scenario.start()
        started = time.perf_counter()
        before = None
        for number in range(rounds):
            run(number)
            if before is None and 3 * (number + 1) >= rounds:
                before = Usage.now()
        assert before is not None
        del run
        gc.collect()
        yield Outcome(name, rounds, before, Usage.now(), time.perf_counter() - started)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; the exit status is 1 if something grew."""
    parser = argparse.ArgumentParser(description="Memory and descriptors of long runs stay flat.")
    parser.add_argument("--scale", type=float, default=1.0, help="the fraction of the long run")
    parser.add_argument("--only", default=",".join(SCENARIOS), help="separated by commas")
    options = parser.parse_args(arguments)
    leaked = False
    for outcome in soak(options.only.split(","), options.scale):
        print(outcome, flush=True)
        leaked |= bool(outcome.leaks)
    return int(leaked)


if __name__ == "__main__":
    sys.exit(main())
