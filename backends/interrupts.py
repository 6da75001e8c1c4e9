"""Calls of programs from the main thread, whose wait an interrupt can end.

Python handles Ctrl-C in the main thread, between two instructions, and a call of a program is a
single one. So another thread makes the call, and the main thread waits for it, which Python can
interrupt.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["run_interruptibly"]

_Job: TypeAlias = "Callable[[], None]"


class _Runner:
    """A thread that makes calls for the main thread; it is kept, since starting one is slow."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._serve, daemon=True, name="gnomon-runner")
        self.thread.start()

    def run(self, call: _Job) -> None:
        """Make a call and wait for its end."""
        raised: list[BaseException] = []
        # A lock, since an event takes twice as long.
        running = threading.Lock()
        running.acquire()

        def job() -> None:
            try:
                call()
            except BaseException as error:
                raised.append(error)
            running.release()

        self._jobs.put(job)
        running.acquire()
        if raised:
            raise raised[0]

    def _serve(self) -> None:
        while True:
            self._jobs.get()()


_runners: list[_Runner] = []


def run_interruptibly(call: Callable[[], None]) -> None:
    """Make a call from the main thread and wait for its end; an interrupt ends the wait.

    Raises:
      KeyboardInterrupt: there was an interrupt; the call continues in the background.
    """
    runner = _runners.pop() if _runners else None
    # Threads do not survive a fork.
    if runner is None or not runner.thread.is_alive():
        runner = _Runner()
    try:
        runner.run(call)
    except KeyboardInterrupt:
        # The runner is still busy with the interrupted call, so it is not kept.
        raise
    except BaseException:
        _runners.append(runner)
        raise
    _runners.append(runner)
