"""The coordinator, which all processes connect to.

It reports lost processes to the others, and chooses the step in which all save their state.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any

from gnomon.backends.distributed.messages import GREETING, Channel, connect
from gnomon.backends.distributed.tunnel import join, start_thread

__all__ = ["Coordinator"]


class Coordinator:
    """Waits until all processes are connected, starts all of them, and monitors them.

    Args:
      listening: the socket that the processes connect to.
      service: the address of XLA's coordination service in this process.
      count: the number of processes.
      deadline: the time at which all processes must be connected, by `time.monotonic`.
      initialization_timeout: the time in seconds that led to ``deadline``, for messages.
      silence: the time in seconds after which a silent process counts as gone.
    """

    def __init__(
        self,
        listening: socket.socket,
        service: tuple[str, int],
        count: int,
        deadline: float,
        initialization_timeout: float,
        silence: float,
    ) -> None:
        self._listening = listening
        self._service = service
        self._count = count
        self._initialization_timeout = initialization_timeout
        self._silence = silence
        self._changed = threading.Condition()
        self._channels: dict[int, Channel] = {}
        self._ended: set[int] = set()
        self._begun_steps: dict[int, int] | None = None
        self._started = False
        self._over = False
        start_thread(self._accept)
        start_thread(self._start_all, deadline)

    def close(self) -> None:
        """Accept no more connections."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            start_thread(self._handshake, connection)

    def _handshake(self, connection: socket.socket) -> None:
        channel = Channel(connection, self._silence)
        try:
            message = channel.receive()
            if message is None or message.get("greeting") != GREETING:
                raise ValueError("not a gnomon process")
            if message["for"] == "service":
                remote, first = channel.raw()
                join(connect(self._service, self._silence), remote, first)
                return
            process = int(message["process"])
            refused = self._refusal(process, int(message["count"]))
            if refused:
                channel.send(refused=refused)
                channel.close()
                return
        except (OSError, ValueError, KeyError):
            channel.close()
            return
        self._monitor(process, channel)

    def _refusal(self, process: int, count: int) -> str:
        if count != self._count:
            return (
                f"process {process} was started with num_processes={count}, but process 0 with "
                f"num_processes={self._count}"
            )
        with self._changed:
            if process in self._channels:
                return f"there is another process with process_id={process}"
            if self._started or self._over:
                return "the processes have already started"
        return ""

    def _monitor(self, process: int, channel: Channel) -> None:
        with self._changed:
            self._channels[process] = channel
            self._changed.notify_all()
        try:
            while (message := channel.receive()) is not None:
                if "error" in message:
                    self._fail(process, f"it raised {message['error']}")
                    return
                if "bye" in message:
                    self._end(process)
                if "preempted" in message:
                    self._ask_for_steps()
                if "step" in message:
                    self._add_step(process, message["step"])
            why = "its connection was closed: it died"
        except TimeoutError:
            why = f"nothing was heard from it for {self._silence:g} s"
        except (OSError, ValueError) as error:
            why = f"its connection was lost: {error}"
        with self._changed:
            gone = process not in self._ended
        if gone:
            self._fail(process, why)

    def _start_all(self, deadline: float) -> None:
        with self._changed:
            while len(self._channels) < self._count and not self._over:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            missing = sorted(set(range(self._count)) - set(self._channels))
            self._started = not missing
        if self._over:
            return
        if missing:
            names = ", ".join(map(str, missing))
            plural = "es" if len(missing) > 1 else ""
            self._broadcast(
                failure=f"process{plural} {names} of {self._count} did not connect to the "
                f"coordinator within {self._initialization_timeout:g} s (initialization_timeout)"
            )
            return
        self._broadcast(start=True)
        while not self._over:
            time.sleep(self._silence / 4)
            self._broadcast(alive=True)

    def _end(self, process: int) -> None:
        with self._changed:
            self._ended.add(process)
            self._over = self._over or len(self._ended) == self._count
            over = self._over
        self._broadcast(all_ended=True) if over else self._broadcast(ended=process)
        self._choose_step()

    def _ask_for_steps(self) -> None:
        with self._changed:
            if self._begun_steps is not None:
                return
            self._begun_steps = {}
        self._broadcast(tell_step=True)

    def _add_step(self, process: int, step: int) -> None:
        with self._changed:
            assert self._begun_steps is not None
            self._begun_steps[process] = step
        self._choose_step()

    def _choose_step(self) -> None:
        with self._changed:
            steps = self._begun_steps
            if not steps or not steps.keys() >= self._channels.keys() - self._ended:
                return
            chosen = max(steps.values()) + 1
        self._broadcast(save_at=chosen)

    def _fail(self, process: int, why: str) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._broadcast(
            failure=f"process {process} of {self._count} is gone: {why}", process=process
        )

    def _broadcast(self, **message: Any) -> None:
        with self._changed:
            channels = list(self._channels.values())
        for channel in channels:
            with contextlib.suppress(OSError):
                channel.send(**message)
