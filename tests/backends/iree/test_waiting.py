"""Waiting for programs on IREE's threads."""

from __future__ import annotations

import ctypes
import signal
import sys
import time
from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.numpy as gnp
from gnomon.backends.iree.waiting import Pace, wait_for


class _Semaphore:
    """Reaches 1 after a duration; counts the questions."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.questions = 0

    def query(self) -> int:
        self.questions += 1
        return int(time.monotonic() >= self.end)


def test_a_reached_semaphore_is_asked_once() -> None:
    semaphore = _Semaphore(0)
    wait_for(semaphore)
    assert semaphore.questions == 1


@pytest.mark.parametrize("seconds", [1e-4, 3e-3, 5e-2])
def test_a_wait_ends_after_the_program_and_asks_seldom(seconds: float) -> None:
    semaphore = _Semaphore(seconds)
    wait_for(semaphore)
    assert time.monotonic() >= semaphore.end
    # Each sleep is an eighth longer than the one before, from 20 us on, up to a millisecond.
    assert semaphore.questions < 50 + seconds / 1e-3


def wait_with(pace: Pace, seconds: float) -> tuple[int, float]:
    """A wait for a program of this duration: the questions, and the time from its end on."""
    semaphore, started = _Semaphore(seconds), time.monotonic()
    wait_for(semaphore, pace, started)
    return semaphore.questions, time.monotonic() - semaphore.end


def test_a_program_that_has_run_before_is_asked_about_its_end_only() -> None:
    pace = Pace()
    wait_with(pace, 4e-3)
    assert 4e-3 <= pace.seconds < 1
    asked = min(wait_with(pace, 4e-3)[0] for _ in range(10))
    # Four questions at once, and one for each twentieth of the time from the first sleep on; a
    # program that has not run before is asked four times and then some twenty times.
    assert asked <= 4 + 8


def test_a_program_that_became_shorter_is_asked_earlier_each_time() -> None:
    pace = Pace()
    wait_with(pace, 3e-2)
    # It ends long before it is expected to, but no first sleep is longer than 4 ms.
    late = min(wait_with(pace, 1e-3)[1] for _ in range(3))
    assert late < 10e-3
    for _ in range(30):
        _, late = wait_with(pace, 1e-3)
    assert 1e-3 <= pace.seconds < 3e-2 and late < 10e-3


def test_the_expected_duration_follows_shorter_ones_at_once_and_longer_ones_slowly() -> None:
    pace = Pace()
    pace.observe(8.0)
    assert pace.seconds == 8
    pace.observe(16.0)
    assert pace.seconds == 9
    pace.observe(2.0)
    assert pace.seconds == 2


def pending(x: Any) -> Any:
    """The program that computes an array, which may still run."""
    return x._live_buffer().pending


def test_only_calls_that_nothing_delays_show_how_long_a_program_takes() -> None:
    x = gnp.asarray(np.full((1024, 1024), 1e-3, np.float32))
    f = gnomon.jit(lambda x: gnp.sin(x) @ x)
    f(x).block_until_ready()
    alone = f(x)
    after = f(alone)
    program = pending(alone)
    assert program.pace is not None and pending(after).pace is None
    after.block_until_ready()
    f(x).block_until_ready()
    assert program.pace.seconds > 0


def test_loops_of_any_length_show_nothing() -> None:
    x = gnp.asarray(np.full((1024, 1024), 1e-3, np.float32))

    @gnomon.jit
    def f(x: gnomon.Array, n: int) -> Any:
        return gnomon.lax.while_loop(lambda x: x[0, 0] < n, lambda x: gnp.sin(x) @ x + n, x)

    f(x, 9).block_until_ready()
    assert pending(f(x, 1)).pace is None


def test_a_failure_is_raised() -> None:
    class Failed:
        def query(self) -> int:
            raise RuntimeError("the program failed")

    with pytest.raises(RuntimeError, match="the program failed"):
        wait_for(Failed())


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_an_interrupt_ends_a_wait() -> None:
    class InterruptError(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise InterruptError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(InterruptError):
            wait_for(_Semaphore(60))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has timer slack")
def test_the_timer_slack_of_the_thread_is_kept() -> None:
    prctl = ctypes.CDLL(None).prctl
    before = prctl(30, 0, 0, 0, 0)
    wait_for(_Semaphore(1e-3))
    assert prctl(30, 0, 0, 0, 0) == before


def test_the_waiting_thread_leaves_the_processor_to_the_program() -> None:
    @gnomon.jit
    def f(x: gnomon.Array) -> gnomon.Array:
        for _ in range(3):
            x = gnp.sin(x) @ x
        return x

    x = gnp.asarray(np.full((1024, 1024), 1e-3, np.float32))
    f(x).block_until_ready()
    y = f(x)
    start, used = time.perf_counter(), time.thread_time()
    y.block_until_ready()
    passed = time.perf_counter() - start
    assert time.thread_time() - used < 0.2 * passed + 2e-3
