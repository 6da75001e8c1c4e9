"""Recordings of the activities of a process, for `gnomon.profiler`.

Slow steps, such as compilations, are recorded in place: ``with span(...)``. Fast ones, such as
calls of compiled programs, must cost nothing while nobody records: their class registers the method
with `instrument`, `start` replaces it by a recording one, and `stop` restores it.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gnomon._native import set_recording

__all__ = [
    "COMPILER",
    "DEVICE",
    "HOST",
    "TRANSFERS",
    "Recorder",
    "Span",
    "current",
    "instrument",
    "record_put",
    "record_wait",
    "span",
    "start",
    "stop",
]

# The tracks of a timeline.
HOST, COMPILER, DEVICE, TRANSFERS = "python", "compiler", "device", "transfers"


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time.

    Attributes:
      name: the activity.
      track: one of the tracks above.
      thread: the number of the thread that it ran in; for `DEVICE`, the number of the device.
      start_ns, end_ns: nanoseconds since the epoch.
      details: further facts about it.
    """

    name: str
    track: str
    thread: int
    start_ns: int
    end_ns: int
    details: dict[str, Any]


@dataclass
class Recorder:
    """A recording of spans.

    Attributes:
      spans: in the order in which they ended.
      start_ns, end_ns: when the recording began and ended; the end is 0 while it is in progress.
    """

    start_ns: int = field(default_factory=time.time_ns)
    end_ns: int = 0
    spans: list[Span] = field(default_factory=list)

    def __post_init__(self) -> None:
        # `perf_counter_ns` never goes back; the offset sets it to the time of day.
        self._offset = self.start_ns - time.perf_counter_ns()
        self._launched: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._poller = threading.Thread(target=self._poll, daemon=True, name="gnomon-profiler")
        self._poller.start()

    def now(self) -> int:
        """The time in nanoseconds since the epoch."""
        return self._offset + time.perf_counter_ns()

    def add(
        self,
        name: str,
        track: str,
        start_ns: int,
        details: dict[str, Any],
        thread: int | None = None,
    ) -> Span:
        """Record something that ends now, by default in this thread."""
        if thread is None:
            thread = threading.get_ident()
        made = Span(name, track, thread, start_ns, self.now(), details)
        self.spans.append(made)
        return made

    def add_when_done(
        self, name: str, start_ns: int, device: int, details: dict[str, Any], wait: Any
    ) -> None:
        """Record something on a device that ends when ``wait()`` returns.

        It begins when the work that was started before it on the device has ended.
        """
        self._launched.put((name, start_ns, device, details, wait))

    def finish(self) -> None:
        """Wait for the work on devices, and end the recording."""
        self._launched.put(None)
        self._poller.join()
        self.end_ns = self.now()

    def _poll(self) -> None:
        free: dict[int, int] = {}
        while (launched := self._launched.get()) is not None:
            name, start_ns, device, details, wait = launched
            try:
                wait()
            except Exception as error:
                details = {**details, "failed": str(error)}
            begins = max(start_ns, free.get(device, 0))
            details = {"queued_ns": begins - start_ns, **details}
            free[device] = self.add(name, DEVICE, begins, details, device).end_ns


@dataclass(frozen=True)
class _InstrumentedMethod:
    """A method whose calls are recorded while a recording is in progress."""

    owner: type
    method: str
    recording: Callable[..., Any]
    original: Callable[..., Any]


_instrumented: list[_InstrumentedMethod] = []


class _State:
    """The recording in progress, if any, and the lock for beginning and ending one."""

    recorder: Recorder | None = None
    lock = threading.Lock()


def current() -> Recorder | None:
    """The recording in progress, or None."""
    return _State.recorder


@contextmanager
def span(name: str, track: str = COMPILER, **details: Any) -> Iterator[dict[str, Any]]:
    """Record the block as one span; the block may add details to the dict that it gets."""
    recorder = _State.recorder
    if recorder is None:
        yield details
        return
    start_ns = recorder.now()
    try:
        yield details
    finally:
        recorder.add(name, track, start_ns, details)


def instrument(
    owner: type, method: str, record: Callable[[Recorder, Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Register a method, whose calls are recorded while a recording is in progress.

    Args:
      owner: a class that defines the method itself.
      method: its name.
      record: takes the recorder and the method, and returns the method that replaces it.
    """
    original = vars(owner)[method]

    @functools.wraps(original)
    def recording(*args: Any, **kwargs: Any) -> Any:
        recorder = _State.recorder
        run = original if recorder is None else record(recorder, original)
        return run(*args, **kwargs)

    with _State.lock:
        _instrumented.append(_InstrumentedMethod(owner, method, recording, original))
        if _State.recorder is not None:  # backends are imported when they are needed
            setattr(owner, method, recording)


def record_wait(recorder: Recorder, wait: Callable[..., Any]) -> Callable[..., Any]:
    """The replacement, for `instrument`, of the method ``wait()`` of a buffer."""

    def recording(self: Any) -> None:
        if not self.is_ready():
            started = recorder.now()
            wait(self)
            recorder.add("wait", TRANSFERS, started, {"shape": str(self.shape)})

    return recording


def record_put(recorder: Recorder, put: Callable[..., Any]) -> Callable[..., Any]:
    """The replacement, for `instrument`, of the method ``put(array, device)`` of a backend."""

    def recording(self: Any, array: Any, *args: Any, **kwargs: Any) -> Any:
        started = recorder.now()
        buffer = put(self, array, *args, **kwargs)
        details = {"bytes": array.nbytes, "device": str(buffer.device)}
        recorder.add("put", TRANSFERS, started, details)
        return buffer

    return recording


def start() -> Recorder:
    """Begin to record.

    Raises:
      RuntimeError: a recording is already in progress.
    """
    with _State.lock:
        if _State.recorder is not None:
            raise RuntimeError(
                "Profile has already been started. Only one profile may be run at a time."
            )
        _State.recorder = Recorder()
        for instrumented in _instrumented:
            setattr(instrumented.owner, instrumented.method, instrumented.recording)
        set_recording(True)
        return _State.recorder


def stop() -> Recorder:
    """End the recording.

    Raises:
      RuntimeError: there is none.
    """
    with _State.lock:
        recorder = _State.recorder
        if recorder is None:
            raise RuntimeError("No profile started")
        for instrumented in _instrumented:
            setattr(instrumented.owner, instrumented.method, instrumented.original)
        set_recording(False)
        _State.recorder = None
    recorder.finish()
    return recorder
