"""The step in which all processes save their state, because one of them is to end.

Machines that may be taken away warn their processes with the signal SIGTERM. A process that has
received it tells the coordinator. The coordinator asks each process which step it has begun; a
process that was asked begins no other step before the answer. The answer is the step after the
latest one that any process has begun: there, all save their state.

jaxlib has such a protocol, but it keeps Python's global interpreter lock while it waits for the
coordination service, and here Python's threads carry the messages of that service (`tunnel`).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["Preemption"]

_POLL_S = 0.001


class Preemption:
    """The part of one process in choosing the step in which all save their state.

    Args:
      send: sends a message to the coordinator.
    """

    def __init__(self, send: Callable[..., None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._begun = -1
        self._asked = False
        self._chosen: int | None = None
        self._reached: int | None = None
        self._watching = False
        self._signalled = False
        self._announced = False

    def begin(self, step: int, pause: Callable[[float], None]) -> bool:
        """Begin a step, and return whether it is the one in which to save the state.

        Args:
          step: the number of the step, larger than that of the one before.
          pause: waits for some seconds; raises an error if the processes cannot continue.

        Raises:
          RuntimeError: this is the first call, and not in the main thread.
        """
        self._watch()
        if self._signalled and not self._announced:
            self._announced = True
            self._send(preempted=True)
        with self._lock:
            if not self._asked:
                self._begun = step
                return False
        while self._chosen is None:
            pause(_POLL_S)
        # Steps need not be consecutive, but they are the same in all processes.
        if self._reached is None and step >= self._chosen:
            self._reached = step
        return step == self._reached

    def tell_step(self) -> None:
        """Tell the coordinator which step has begun, and begin none until it answers."""
        with self._lock:
            self._asked = True
            self._send(step=self._begun)

    def choose(self, step: int) -> None:
        """Save the state in this step, the coordinator's answer, or in the next one after it."""
        self._chosen = step

    def _watch(self) -> None:
        if self._watching:
            return
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(
                "reached_preemption_sync_point: the first call must be in the main thread, where "
                "Python lets a program handle the signal SIGTERM"
            )
        previous: Any = signal.getsignal(signal.SIGTERM)

        def handle(number: int, frame: FrameType | None) -> None:
            # A second signal does what the first would have done without this handler: by default,
            # it ends the process. Nothing is sent here, since the code that the signal interrupts
            # may be sending.
            self._signalled = True
            signal.signal(signal.SIGTERM, signal.SIG_DFL if previous is None else previous)

        signal.signal(signal.SIGTERM, handle)
        self._watching = True
