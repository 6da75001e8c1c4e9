"""Repeated calls, and the statistics of their durations."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Statistics", "measure"]

_MIN_CALLS = 5
_MAX_CALLS = 100_000


@dataclass(frozen=True)
class Statistics:
    """The durations of calls, in seconds.

    Attributes:
      calls: the number of calls after the first.
      first: the duration of the first call, which may compile.
      minimum, median, mean, p90, maximum, deviation: statistics of the calls after the first.
    """

    calls: int
    first: float
    minimum: float
    median: float
    mean: float
    p90: float
    maximum: float
    deviation: float

    def as_json(self) -> dict[str, float]:
        """The figures by name."""
        return asdict(self)

    def lines(self) -> list[str]:
        """The figures for a reader."""
        return [
            f"first call {duration(self.first)}, then {self.calls} calls:",
            f"minimum {duration(self.minimum)}, median {duration(self.median)}, "
            f"mean {duration(self.mean)} ± {duration(self.deviation)}, "
            f"90 % within {duration(self.p90)}, maximum {duration(self.maximum)}",
        ]


def duration(seconds: float) -> str:
    """A duration in a unit that fits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def measure(call: Callable[[], Any], seconds: float) -> Statistics:
    """Call a function for about the given number of seconds, and at least five times.

    Args:
      call: the function, which must wait for its results.
      seconds: the total duration, without the first call.
    """
    begin = time.perf_counter()
    call()
    first = time.perf_counter() - begin
    durations: list[float] = []
    end = time.perf_counter() + seconds
    while len(durations) < _MIN_CALLS or (
        time.perf_counter() < end and len(durations) < _MAX_CALLS
    ):
        begin = time.perf_counter()
        call()
        durations.append(time.perf_counter() - begin)
    ordered = sorted(durations)
    return Statistics(
        calls=len(ordered),
        first=first,
        minimum=ordered[0],
        median=statistics.median(ordered),
        mean=statistics.fmean(ordered),
        p90=ordered[math.ceil(0.9 * len(ordered)) - 1],
        maximum=ordered[-1],
        deviation=statistics.pstdev(ordered),
    )
