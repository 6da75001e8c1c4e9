"""Waiting for programs that run on IREE's threads.

A thread that waits in IREE 3.13 is woken by the thread that signals, and then spins until that
thread has left the callback which woke it. If no core is idle, the system runs the woken thread in
place of the signalling one, and the spin lasts until the scheduler takes it off the core: 2.4 ms on
average on a busy machine with two cores. A step of a perceptron took 37 ms there, and takes 16 with
this wait; a layer normalization of f32[2048,512] took 14 and takes 9.

So this module asks for the semaphore's value instead, and sleeps between the questions. Each
question takes a core from the program, since the thread that asks is woken on one that computes.
So for a program that has run before, the first question is asked shortly before its usual end: a
product of 512 rows takes 0.75 ms, and 1.1 if the questions begin at once. For others, each sleep is
an eighth of the time that has passed.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import time
from collections.abc import Iterator
from typing import Any

__all__ = ["Pace", "wait_for"]

_SHORTEST_S, _LONGEST_S = 20e-6, 1e-3
# Programs that are about to end are worth a few questions without a sleep.
_QUESTIONS = 4
# The first question after a sleep is asked this long before the expected end, and by this part of
# the expected duration: a wake-up takes up to 40 us, and the end may come earlier than last time.
_EARLY_S, _EARLY_PART = 40e-6, 0.15
# And after a sleep of this length at most: a branch may be much shorter than the last one taken.
_LONGEST_FIRST_S = 4e-3
# From then on, the sleeps are this part of the expected duration.
_STEP_PART = 0.05
# How fast the expected duration follows longer ones; it follows shorter ones at once.
_FORGETTING = 0.125
# Linux adds up to 50 us to a sleep, the thread's timer slack. `prctl` sets and gets it by these.
_SET_TIMER_SLACK, _GET_TIMER_SLACK = 29, 30


def _find_prctl() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "prctl", None)


_prctl: Any = _find_prctl()


@contextlib.contextmanager
def _exact_sleeps() -> Iterator[None]:
    """Let the sleeps of this thread end when they should."""
    if _prctl is None:
        yield
        return
    before = _prctl(_GET_TIMER_SLACK, 0, 0, 0, 0)
    _prctl(_SET_TIMER_SLACK, 1, 0, 0, 0)
    try:
        yield
    finally:
        if before > 0:
            _prctl(_SET_TIMER_SLACK, before, 0, 0, 0)


class Pace:
    """How long a program takes, as seen in the waits for its calls.

    Attributes:
      seconds: the expected duration; 0 before the first wait.
    """

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Take the duration of another call into account."""
        before = self.seconds
        longer = seconds - before
        self.seconds = before + longer * _FORGETTING if before and longer > 0 else seconds


def wait_for(semaphore: Any, pace: Pace | None = None, started: float = 0.0) -> None:
    """Wait until a semaphore reaches 1; an interrupt ends the wait.

    Args:
      semaphore: the semaphore.
      pace: how long the program takes that raises it; updated by the wait. None if other programs
        delay it.
      started: when it was started, in the time of `time.monotonic`; needed with `pace`.

    Raises:
      RuntimeError: the program that should raise the semaphore failed.
    """
    for _ in range(_QUESTIONS):
        if semaphore.query() >= 1:
            return
    expected = pace.seconds if pace else 0.0
    step = max(expected * _STEP_PART, _SHORTEST_S)
    start = time.monotonic()
    first = started + expected * (1 - _EARLY_PART) - _EARLY_S - start
    first = min(first, _LONGEST_FIRST_S)
    with _exact_sleeps():
        time.sleep(max(first, _SHORTEST_S))
        start += max(first, 0.0)
        while semaphore.query() < 1:
            passed = time.monotonic() - start
            time.sleep(min(max(passed / 8, step), _LONGEST_S))
    if pace:
        pace.observe(time.monotonic() - started)
