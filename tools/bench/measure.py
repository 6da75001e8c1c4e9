"""The method of measurement: compare results, run interleaved rounds, take medians.

The frameworks take turns in each round, so that changes of the machine's speed or load affect all
of them. In each turn, a framework first makes one call that is not counted, which brings its code
and data back into the caches.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from gnomon.tools.bench.workload import Case, Framework, Workload


class DisagreementError(Exception):
    """Two frameworks computed different results."""


@dataclass(frozen=True)
class Effort:
    """The extent of the measurement.

    Attributes:
      rounds: the maximum number of turns of each framework.
      turn_s: the target duration of a turn, in which short calls are repeated.
      budget_s: the target duration of all turns of one framework; slow workloads get fewer rounds.
      minimum_rounds: the minimum number of rounds.
      pause_s: a pause before each turn, in which idle threads of the previous framework stop
        spinning.
    """

    rounds: int = 15
    turn_s: float = 0.05
    budget_s: float = 8.0
    minimum_rounds: int = 5
    pause_s: float = 0.02


THOROUGH = Effort()
QUICK = Effort(rounds=5, turn_s=0.01, budget_s=1.0, minimum_rounds=2, pause_s=0.005)


@dataclass(frozen=True)
class Measurement:
    """Seconds for one call: the median of the rounds and the quartiles."""

    median: float
    low: float
    high: float
    rounds: int
    calls: int


@dataclass
class Row:
    """The outcome of one workload: a measurement or an error for each framework."""

    workload: Workload
    measurements: dict[str, Measurement] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def ratio(self, peer: str) -> float | None:
        """The time of gnomon relative to that of a peer."""
        ours, theirs = self.measurements.get("gnomon"), self.measurements.get(peer)
        return ours.median / theirs.median if ours and theirs else None


def run_workload(workload: Workload, frameworks: Sequence[Framework], effort: Effort) -> Row:
    """Set up a workload in every framework, compare the results, and time it.

    A framework that fails is left out of the row's measurements and named in its errors. If results
    disagree, nothing is timed.
    """
    row = Row(workload)
    cases: dict[str, Case] = {}
    values: dict[str, list[np.ndarray]] = {}
    for framework in frameworks:
        if framework.name not in workload.setups:
            continue
        try:
            case = workload.setups[framework.name](framework)
            values[framework.name] = framework.arrays(_checked(case))
            cases[framework.name] = case
        except Exception as error:  # one framework's failure must not hide the others' figures
            row.errors[framework.name] = f"{type(error).__name__}: {error}"
    try:
        _compare(workload, values)
    except DisagreementError as error:
        row.errors["agreement"] = str(error)
        return row
    timed = [f for f in frameworks if f.name in cases]
    row.measurements = _measure(timed, cases, effort)
    return row


def _checked(case: Case) -> Any:
    if case.check is not None:
        return case.check()
    return () if case.keeps_time else case.run()


def _compare(workload: Workload, values: dict[str, list[np.ndarray]]) -> None:
    compared = {name: arrays for name, arrays in values.items() if arrays}
    if not compared:
        return
    reference = next(n for n in ("numpy", "jax", "torch", "gnomon") if n in compared)
    for name, arrays in compared.items():
        problem = difference(arrays, compared[reference], workload.tolerance)
        if problem:
            raise DisagreementError(f"{name} and {reference} disagree: {problem}")


def difference(
    arrays: Sequence[np.ndarray], reference: Sequence[np.ndarray], tolerance: float
) -> str | None:
    """Describe how two lists of arrays differ; None if they agree.

    Args:
      tolerance: for inexact dtypes, in units of epsilon relative to the largest element.
    """
    if len(arrays) != len(reference):
        return f"{len(arrays)} and {len(reference)} arrays"
    for i, (a, b) in enumerate(zip(arrays, reference, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"array {i} is {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
        if a.size == 0:
            continue
        if a.dtype.kind in "biu":
            if not np.array_equal(a, b):
                return f"array {i} differs"
            continue
        limit = tolerance * float(ml_dtypes.finfo(a.dtype).eps)
        if a.dtype.kind == "V":
            # In a narrow dtype the difference would be rounded.
            a, b = a.astype(np.float32), b.astype(np.float32)
        scale = float(np.max(np.abs(b)))
        error = float(np.max(np.abs(a - b)))
        limit *= scale
        if not error <= limit:  # so that a NaN is a difference
            return f"array {i} differs by {error:.3g} (allowed {limit:.3g}, largest {scale:.3g})"
    return None


@dataclass(frozen=True)
class _Plan:
    """The plan for one case: calls per turn, turns, and whether to make an uncounted call first."""

    calls: int
    rounds: int
    warm_up: bool


# Longer calls, such as compilations, need no warm-up.
_LONG_S = 0.25


def _measure(
    frameworks: Sequence[Framework], cases: dict[str, Case], effort: Effort
) -> dict[str, Measurement]:
    plans = {f.name: _plan(f, cases[f.name], effort) for f in frameworks}
    samples: dict[str, list[float]] = {f.name: [] for f in frameworks}
    gc.collect()
    for number in range(max((plan.rounds for plan in plans.values()), default=0)):
        # Each round starts with another framework.
        first = number % len(frameworks)
        for framework in (*frameworks[first:], *frameworks[:first]):
            plan = plans[framework.name]
            if number < plan.rounds:
                time.sleep(effort.pause_s)
                case = cases[framework.name]
                if plan.warm_up:
                    framework.wait(case.run())
                samples[framework.name].append(_turn(framework, case, plan.calls))
    return {name: _summary(taken, plans[name].calls) for name, taken in samples.items()}


def _plan(framework: Framework, case: Case, effort: Effort) -> _Plan:
    calls, once = 1, _turn(framework, case, 1)
    # A single short call is too noisy: double the calls until their time is long enough.
    while once * calls < effort.turn_s / 4:
        calls *= 2
        once = _turn(framework, case, calls)
    calls = max(1, round(effort.turn_s / once))
    warm_up = not case.keeps_time and once < _LONG_S
    affordable = int(effort.budget_s / (once * (calls + warm_up)))
    return _Plan(calls, min(effort.rounds, max(effort.minimum_rounds, affordable)), warm_up)


def _turn(framework: Framework, case: Case, calls: int) -> float:
    """Seconds for one call, measured over several."""
    run = case.run
    if case.keeps_time:
        return statistics.median(float(run()) for _ in range(calls))
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        result = None
        start = time.perf_counter()
        for _ in itertools.repeat(None, calls):
            result = run()
        stop = time.perf_counter()
    finally:
        if was_enabled:
            gc.enable()
    # Work that is still running must not continue in another framework's turn.
    framework.wait(result)
    return (stop - start) / calls


def _summary(samples: list[float], calls: int) -> Measurement:
    low, median, high = (
        (samples[0],) * 3 if len(samples) == 1 else statistics.quantiles(samples, n=4)
    )
    return Measurement(median, low, high, len(samples), calls)


__all__ = [
    "QUICK",
    "THOROUGH",
    "DisagreementError",
    "Effort",
    "Measurement",
    "Row",
    "difference",
    "run_workload",
]
