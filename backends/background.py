"""Work in the background: one thread, which runs jobs in order and ends before the process does.

A thread that is still inside a library when the interpreter shuts down may crash it. So when the
process ends, the work is stopped first (see `add_exit_hook`) and the thread is waited for.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Job", "add_exit_hook"]

T = TypeVar("T")

# The seconds after which a job begins even if it has not been released.
_HEAD_START_S = 0.25
# The longest time to wait for the thread at the end: a lowering cannot be interrupted.
_MAX_JOIN_S = 30.0
_HOOKS_EVERY_S = 0.5


class Job(Generic[T]):
    """A computation that the background thread runs once.

    Jobs run one after the other. A job that was garbage-collected before its turn is not run. A
    child of a fork has no thread; `start` starts an unfinished job again there. Once the process is
    ending there is no thread either; a function that runs at exit and asks for the result of an
    unfinished job computes it.

    Args:
      work: the computation; after a fork it may run once more.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._pid = 0
        self._finished = threading.Event()
        self._released = threading.Event()
        self._result: T | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """Queue the job, unless this process has already queued it."""
        if self._pid == os.getpid() or self._finished.is_set():
            return
        if self._pid:
            # At the fork another thread may have held the locks of these events.
            self._finished, released = threading.Event(), self._released.is_set()
            self._released = threading.Event()
            if released:
                self._released.set()
        self._pid = os.getpid()
        _worker.submit(self)

    def release(self) -> None:
        """Let the job begin at once.

        Until then it waits for a moment, so that it does not compete for the interpreter with what
        the caller does first.
        """
        self._released.set()

    @property
    def succeeded(self) -> bool:
        """Whether there is a result."""
        return self._finished.is_set() and self._error is None

    @property
    def finished(self) -> bool:
        """Whether there is a result or an error."""
        return self._finished.is_set()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result; raise the error of the computation.

        Raises:
          TimeoutError: it takes longer than ``timeout`` seconds.
        """
        if not self._finished.is_set() and _worker.closing:
            self.release()
            self.run(interrupted=False)
        elif not self._finished.is_set():
            self.start()
            self.release()
            if not self._finished.wait(timeout):
                raise TimeoutError(f"the job has not finished within {timeout:g} s")
        if self._error is not None:
            # Drop the frames that earlier raises have added.
            raise self._error.with_traceback(self._traceback)
        return self._result  # type: ignore[return-value]

    def run(self, *, interrupted: bool = True) -> None:
        """Do the work, in the thread.

        Args:
          interrupted: whether an error leaves the job unfinished if the process is ending, because
            the end of the process may be the cause.
        """
        work, finished = self._work, self._finished
        assert work is not None
        self._released.wait(_HEAD_START_S)
        try:
            self._result = work()
        except BaseException as error:
            if interrupted and _worker.closing:
                return
            self._error, self._traceback = error, error.__traceback__
        self._work = None
        finished.set()


class _Worker:
    """The thread, which starts with the first job."""

    def __init__(self) -> None:
        self.closing = False
        self.hooks: list[Callable[[], None]] = []
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        # Weak references, because nothing waits for a job that was dropped.
        self._jobs: queue.SimpleQueue[weakref.ref[Job[Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, job: Job[Any]) -> None:
        with self._lock:
            self._jobs.put(weakref.ref(job))
            if self._thread is None and not self.closing:
                self._thread = threading.Thread(
                    target=_serve, args=(self, self._jobs), name="gnomon-background", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """Stop the work and wait for the thread."""
        self.closing = True
        self._jobs.put(None)
        deadline = time.monotonic() + _MAX_JOIN_S
        while True:
            # Repeat the hooks: right after one has run, the work may start something that it should
            # stop.
            for hook in list(self.hooks):
                with contextlib.suppress(Exception):
                    hook()
            thread = self._thread
            if thread is None or not thread.is_alive() or time.monotonic() > deadline:
                return
            thread.join(_HOOKS_EVERY_S)

    def after_fork_in_child(self) -> None:
        self._reset()


def _serve(worker: _Worker, jobs: queue.SimpleQueue[weakref.ref[Job[Any]] | None]) -> None:
    while (reference := jobs.get()) is not None and not worker.closing:
        job = reference()
        if job is not None:
            job.run()
        del job


_worker = _Worker()
atexit.register(_worker.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_worker.after_fork_in_child)


def add_exit_hook(hook: Callable[[], None]) -> None:
    """Call a function when the process ends, before waiting for the thread.

    The function should interrupt long work. If the process is already ending, it is called at once.
    """
    _worker.hooks.append(hook)
    if _worker.closing:
        hook()
