"""Recording of what a process does and when, for `gnomon.profiler`.

Slow steps, such as a compilation, are recorded where they are made: ``with span(...)``. Fast ones,
such as a call of a compiled program, pay nothing while nobody records: their class names them by
`watch`, and `start` puts a recording method in the place of theirs until `stop`.
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

__all__ = [
    "COMPILER",
    "DEVICE",
    "HOST",
    "TRANSFERS",
    "Recorder",
    "Span",
    "current",
    "record_put",
    "record_wait",
    "span",
    "start",
    "stop",
    "watch",
]

# The tracks of a timeline.
HOST, COMPILER, DEVICE, TRANSFERS = "python", "compiler", "device", "transfers"


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time.

    Attributes:
      name: what it was.
      track: one of the tracks above.
      thread: the number of the thread that it ran in; for `DEVICE`, of the device.
      start_ns, end_ns: nanoseconds since the epoch.
      details: what else is known of it.
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
      start_ns, end_ns: of the recording; the end is 0 while it goes on.
    """

    start_ns: int = field(default_factory=time.time_ns)
    end_ns: int = 0
    spans: list[Span] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A clock that never goes back, at the time of the one that knows the date.
        self._offset = self.start_ns - time.perf_counter_ns()
        self._launched: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="gnomon-profiler")
        self._watcher.start()

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

        It begins when what was started before it on the device has ended: devices work in order.
        """
        self._launched.put((name, start_ns, device, details, wait))

    def finish(self) -> None:
        """Wait for what runs on devices, and end the recording."""
        self._launched.put(None)
        self._watcher.join()
        self.end_ns = self.now()

    def _watch(self) -> None:
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
class _Watched:
    """A method that is recorded while somebody records."""

    owner: type
    method: str
    recording: Callable[..., Any]
    original: Callable[..., Any]


_watched: list[_Watched] = []


class _State:
    """The recording that goes on, if any, and who may begin or end one."""

    recorder: Recorder | None = None
    lock = threading.Lock()


def current() -> Recorder | None:
    """The recording that goes on, or None."""
    return _State.recorder


@contextmanager
def span(name: str, track: str = COMPILER, **details: Any) -> Iterator[dict[str, Any]]:
    """Record the block as one span; the dict that it is given takes details found on the way."""
    recorder = _State.recorder
    if recorder is None:
        yield details
        return
    start_ns = recorder.now()
    try:
        yield details
    finally:
        recorder.add(name, track, start_ns, details)


def watch(
    owner: type, method: str, record: Callable[[Recorder, Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Have a method recorded while somebody records.

    Args:
      owner: a class that defines the method itself.
      method: its name.
      record: a function of the recorder and of the method that returns the method to put in its
        place.
    """
    original = vars(owner)[method]

    @functools.wraps(original)
    def recording(*args: Any, **kwargs: Any) -> Any:
        recorder = _State.recorder
        run = original if recorder is None else record(recorder, original)
        return run(*args, **kwargs)

    with _State.lock:
        _watched.append(_Watched(owner, method, recording, original))
        if _State.recorder is not None:  # backends are imported when they are needed
            setattr(owner, method, recording)


def record_wait(recorder: Recorder, wait: Callable[..., Any]) -> Callable[..., Any]:
    """For `watch`: a method ``wait()`` of a buffer."""

    def recording(self: Any) -> None:
        if not self.is_ready():
            started = recorder.now()
            wait(self)
            recorder.add("wait", TRANSFERS, started, {"shape": str(self.shape)})

    return recording


def record_put(recorder: Recorder, put: Callable[..., Any]) -> Callable[..., Any]:
    """For `watch`: the method ``put(array, device)`` of a backend."""

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
      RuntimeError: a recording goes on already.
    """
    with _State.lock:
        if _State.recorder is not None:
            raise RuntimeError(
                "Profile has already been started. Only one profile may be run at a time."
            )
        _State.recorder = Recorder()
        for watched in _watched:
            setattr(watched.owner, watched.method, watched.recording)
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
        for watched in _watched:
            setattr(watched.owner, watched.method, watched.original)
        _State.recorder = None
    recorder.finish()
    return recorder
