"""The connection of a process to the coordinator, which reports lost processes."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any

from gnomon.backends.distributed.messages import GREETING, Channel, connect
from gnomon.backends.distributed.preemption import Preemption
from gnomon.backends.distributed.tunnel import start_thread
from gnomon.backends.errors import DistributedError

__all__ = ["Link"]

_RETRY_DELAY_S = 0.1


class Link:
    """The connection of a process to the coordinator.

    Args:
      address: the coordinator's host and port.
      process, count: the index of this process, and the number of processes.
      initialization_timeout: the time in seconds within which all processes must connect.
      silence: the time in seconds after which a silent coordinator counts as gone.

    Attributes:
      failure: the error that prevents the processes from continuing, or None.
      preemption: chooses the step in which all processes save their state.

    Raises:
      DistributedError: the coordinator cannot be reached.
    """

    def __init__(
        self,
        address: tuple[str, int],
        process: int,
        count: int,
        initialization_timeout: float,
        silence: float,
    ) -> None:
        self.failure: DistributedError | None = None
        self._address = address
        self._process = process
        self._count = count
        self._silence = silence
        self._timeout = initialization_timeout
        self._failed = threading.Event()
        self._started = threading.Event()
        self._all_ended = threading.Event()
        self._closed = False
        self._ended: dict[int, float] = {}
        self._channel = self._connected(time.monotonic() + initialization_timeout)
        self.preemption = Preemption(self._try_to_send)
        start_thread(self._listen)
        start_thread(self._send_heartbeats)

    def _connected(self, deadline: float) -> Channel:
        while True:
            try:
                channel = Channel(connect(self._address, self._silence), self._silence)
                channel.send(
                    greeting=GREETING, **{"for": "link"}, process=self._process, count=self._count
                )
                return channel
            except OSError as error:
                if time.monotonic() > deadline:
                    raise DistributedError(
                        f"process {self._process} cannot reach the coordinator at "
                        f"{self._address[0]}:{self._address[1]} within {self._timeout:g} s "
                        f"(initialization_timeout): {error}. The coordinator is process 0, which "
                        "must be running and reachable at coordinator_address"
                    ) from None
                time.sleep(_RETRY_DELAY_S)

    @property
    def local_address(self) -> str:
        """The address of this process on the network through which it reaches the coordinator."""
        return str(self._channel.raw_address())

    def connect_to_service(self) -> socket.socket:
        """Open a new connection to XLA's coordination service, through the coordinator."""
        channel = Channel(connect(self._address, self._silence), self._silence)
        channel.send(greeting=GREETING, **{"for": "service"})
        return channel.raw()[0]

    def wait_for_start(self) -> None:
        """Wait until all processes are connected.

        Raises:
          DistributedError: a process did not connect in time, or this process was refused.
        """
        # Longer than the coordinator's own timeout, which may have begun later than this wait.
        deadline = time.monotonic() + self._timeout + self._silence
        while not self._started.is_set():
            self.pause(0.01)
            if time.monotonic() > deadline:
                self._fail(
                    f"the coordinator did not start the processes within {self._timeout:g} s "
                    "(initialization_timeout)"
                )

    def pause(self, seconds: float) -> None:
        """Wait for some time.

        Raises:
          DistributedError: the processes cannot continue.
        """
        if self._failed.wait(seconds) if seconds else self._failed.is_set():
            self.raise_failure()
        if self._ended and not self._all_ended.is_set():
            process, since = next(iter(self._ended.items()))
            if time.monotonic() - since > self._silence:
                self._fail(
                    f"process {process} of {self._count} has ended its program, and this one "
                    "still waits for it: all must run the same programs"
                )
                self.raise_failure()

    def settle(self) -> None:
        """After an error of a collective, wait until it is known whether a process is gone.

        Raises:
          DistributedError: a process is gone.
        """
        # A collective may see a lost connection before the coordinator reports the loss.
        deadline = time.monotonic() + self._silence
        while time.monotonic() < deadline:
            self.pause(0.01)

    def raise_failure(self) -> None:
        """Raise ``failure``, which must be set."""
        assert self.failure is not None
        raise DistributedError(str(self.failure))

    def end(self, timeout: float) -> bool:
        """Announce the end of this process and wait for the others; return whether all ended."""
        self._try_to_send(bye=True)
        deadline = time.monotonic() + timeout
        while not (self._all_ended.is_set() or self._failed.is_set()):
            if time.monotonic() > deadline:
                return False
            self._all_ended.wait(0.05)
        return self._all_ended.is_set()

    def end_with(self, error: str) -> None:
        """Announce to the others that this process ends because of an error."""
        self._try_to_send(error=error)

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self._channel.close()

    def _try_to_send(self, **message: Any) -> None:
        # The thread that listens reports a lost connection.
        with contextlib.suppress(OSError):
            self._channel.send(**message)

    def _fail(self, why: str) -> None:
        if self.failure is None and not self._closed:
            self.failure = DistributedError(why)
            self._failed.set()

    def _listen(self) -> None:
        where = f"{self._address[0]}:{self._address[1]}"
        try:
            while (message := self._next()) is not None:
                self._handle(message)
            why = "its connection was closed: process 0 died"
        except TimeoutError:
            why = f"nothing was heard from it for {self._silence:g} s"
        except (OSError, ValueError) as error:
            why = f"its connection was lost: {error}"
        if not self._all_ended.is_set():
            self._fail(f"the coordinator at {where} is gone: {why}")

    def _next(self) -> dict[str, Any] | None:
        # Until the last process is connected, the coordinator sends nothing.
        while True:
            try:
                return self._channel.receive()
            except TimeoutError:
                if self._started.is_set():
                    raise

    def _handle(self, message: dict[str, Any]) -> None:
        if "failure" in message:
            self._fail(message["failure"])
        elif "refused" in message:
            self._fail(f"the coordinator refused process {self._process}: {message['refused']}")
        elif "start" in message:
            self._started.set()
        elif "ended" in message:
            self._ended[message["ended"]] = time.monotonic()
        elif "all_ended" in message:
            self._all_ended.set()
        elif "tell_step" in message:
            self.preemption.tell_step()
        elif "save_at" in message:
            self.preemption.choose(message["save_at"])

    def _send_heartbeats(self) -> None:
        while not (self._closed or self._failed.is_set()):
            self._try_to_send(alive=True)
            time.sleep(self._silence / 4)
