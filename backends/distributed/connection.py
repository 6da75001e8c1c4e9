"""The connection to the other processes, and jaxlib's client for the devices of all processes."""

from __future__ import annotations

import contextlib
import ctypes
import math
import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from gnomon.backends.distributed.coordinator import Coordinator
from gnomon.backends.distributed.jaxlib_client import jaxlib
from gnomon.backends.distributed.link import Link
from gnomon.backends.distributed.messages import parse_address
from gnomon.backends.distributed.tunnel import listen_on_loopback, open_tunnel, start_thread
from gnomon.backends.errors import DistributedError

__all__ = ["Connection"]

T = TypeVar("T")

# A heartbeat timeout in seconds. XLA ends the process when heartbeats are missing, so its check is
# disabled: `Link` detects lost processes instead.
_NEVER = 10**6

# The end of the program waits at most this long for a call of jaxlib that a lost process has
# interrupted. Gloo ends such a call in half a second.
_LAST_CALL_TIMEOUT_S = 5.0


def _make_immortal(value: Any) -> None:
    """Never destroy an object of jaxlib: its destructor would wait for a process that is gone."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


class Connection:
    """The connection of this process to the other processes of its program.

    Args:
      address: the coordinator's address, ``"host:port"``; process 0 listens there.
      count: the number of processes.
      process_id: the index of this process.
      bind: the address that process 0 listens on; by default, the port of ``address`` on all its
        interfaces.
      initialization_timeout: the time in seconds within which all processes must connect.
      heartbeat_timeout: the time in seconds after which a silent process counts as gone.
      shutdown_timeout: the time in seconds that a process waits at its end for the others to end.

    Raises:
      DistributedError: a process did not connect, or the coordinator cannot be reached.
      ValueError: an address is not ``host:port``.
    """

    def __init__(
        self,
        address: str,
        count: int,
        process_id: int,
        *,
        bind: str | None = None,
        initialization_timeout: float = 300,
        heartbeat_timeout: float = 100,
        shutdown_timeout: float = 300,
    ) -> None:
        native = jaxlib().native
        self.count = count
        self.process_id = process_id
        self._timeout = initialization_timeout
        self._shutdown_timeout = shutdown_timeout
        self._agreement_counts: Counter[tuple[int, ...]] = Counter()
        self._coordinator: Coordinator | None = None
        self._service: Any = None
        self._client: Any = None
        self._calls: queue.SimpleQueue[tuple[Callable[[], None], threading.Event]]
        self._calls = queue.SimpleQueue()
        self._last_call: threading.Event | None = None
        host, port = parse_address(address)
        self._local_address = ""
        if process_id == 0:
            deadline = time.monotonic() + initialization_timeout
            listening = _listen(bind, port)
            service_address = _free_address()
            self._service = native.get_distributed_runtime_service(
                "{}:{}".format(*service_address),
                count,
                heartbeat_timeout=_NEVER,
                cluster_register_timeout=math.ceil(initialization_timeout),
                shutdown_timeout=math.ceil(shutdown_timeout),
            )
            self._coordinator = Coordinator(
                listening,
                service_address,
                count,
                deadline,
                initialization_timeout,
                heartbeat_timeout,
            )
        try:
            self._link = Link(
                (host, port), process_id, count, initialization_timeout, heartbeat_timeout
            )
            self._local_address = self._link.local_address
            self._link.wait_for_start()
            self._tunnel, local_address = open_tunnel(self._link.connect_to_service)
            self._client = native.get_distributed_runtime_client(
                local_address,
                process_id,
                init_timeout=math.ceil(initialization_timeout),
                heartbeat_timeout=_NEVER,
                shutdown_timeout=math.ceil(shutdown_timeout),
                shutdown_on_destruction=False,
                use_compression=True,
            )
            start_thread(self._work)
            self.call(self._client.connect)
        except BaseException:
            self.abandon()
            raise

    @property
    def failure(self) -> DistributedError | None:
        """The error that prevents the processes from continuing, or None."""
        return self._link.failure

    def make_client(self, device_count: int) -> Any:
        """Make jaxlib's client, which has ``device_count`` devices in this process.

        The call waits until all processes make their clients.

        Raises:
          DistributedError: a process is gone.
        """
        minutes = max(1, math.ceil(self._timeout / 60))
        native, xla = jaxlib().native, jaxlib().xla

        def make() -> Any:
            collectives = native.make_gloo_tcp_collectives(
                self._client, hostname=self._local_address
            )
            return xla.make_cpu_client(
                distributed_client=self._client,
                node_id=self.process_id,
                num_nodes=self.count,
                collectives=collectives,
                num_devices=device_count,
                get_local_topology_timeout_minutes=minutes,
                get_global_topology_timeout_minutes=minutes,
            )

        made = self.call(make)
        # The client's threads may be waiting for processes that have ended.
        _make_immortal(made)
        return made

    def call(self, function: Callable[[], T]) -> T:
        """Call a function of jaxlib that waits for other processes.

        Raises:
          DistributedError: another process is gone.
        """
        answer: list[Any] = []
        done = threading.Event()

        def run() -> None:
            try:
                answer.append((function(), None))
            except BaseException as error:
                answer.append((None, error))
            done.set()

        self._last_call = threading.Event()
        self._calls.put((run, self._last_call))
        while not done.wait(0.05):
            self._link.pause(0)
        result, error = answer[0]
        if error is not None:
            if isinstance(error, RuntimeError):
                self.explain(error)
            raise error
        return result

    def _work(self) -> None:
        while True:
            call, ended = self._calls.get()
            call()
            # Otherwise the result would live until the next call.
            del call
            ended.set()

    def pause(self, seconds: float) -> None:
        """Wait for a short time; see `World.pause`."""
        self._link.pause(seconds)

    def explain(self, error: Exception) -> None:
        """Raise if a program's error is due to a lost process; see `World.explain`."""
        if any(sign in str(error) for sign in _SIGNS_OF_LOSS):
            try:
                self._link.settle()
            except DistributedError as failure:
                raise failure from error

    def agree(self, what: str, digest: str, processes: tuple[int, ...]) -> None:
        """Compare a program with that of other processes; see `World.agree`."""
        number = self._agreement_counts[processes]
        self._agreement_counts[processes] += 1
        prefix = f"gnomon/program/{'-'.join(map(str, processes))}/{number}"
        self.put(f"{prefix}/{self.process_id}", f"{digest} {what}")
        deadline = time.monotonic() + self._timeout
        for other in processes:
            theirs, _, name = self.get(f"{prefix}/{other}", deadline, other, what).partition(" ")
            if theirs != digest:
                raise DistributedError(
                    f"the processes do not run the same program: process {self.process_id} has "
                    f"{what!r} and process {other} has {name!r}"
                    + ("" if name != what else ", which differs in its code, types or constants")
                    + ". All must call the same functions in the same order, with arguments of the "
                    "same types and shardings, and close over equal values"
                )

    def put(self, key: str, value: str) -> None:
        """Publish a value to the other processes."""
        self.call(lambda: self._client.key_value_set(key, value, allow_overwrite=True))

    def get(self, key: str, deadline: float, process: int, what: str) -> str:
        """Wait for a value that another process publishes with `put`, and return it.

        Raises:
          DistributedError: the process did not publish it before the deadline, or is gone.
        """
        pause = 0.001
        while True:
            try:
                return str(self.call(lambda: self._client.key_value_try_get(key)))
            except DistributedError:
                raise
            except Exception as error:
                if "NOT_FOUND" not in str(error):
                    raise DistributedError(f"{what}: {error}") from error
            if time.monotonic() > deadline:
                raise DistributedError(
                    f"process {process} did not reach {what!r} within {self._timeout:g} s "
                    "(initialization_timeout): all processes must call the same functions in the "
                    "same order"
                )
            self._link.pause(pause)
            pause = min(2 * pause, 0.05)

    def put_bytes(self, key: str, value: bytes) -> None:
        """Publish a value; see `KeyValueStore`."""
        self.call(lambda: self._client.key_value_set_bytes(key, value))

    def try_get_bytes(self, key: str) -> bytes | None:
        """The value of a key, or None; see `KeyValueStore`."""
        try:
            return bytes(self.call(lambda: self._client.key_value_try_get_bytes(key)))
        except DistributedError:
            raise
        except Exception as error:
            if "NOT_FOUND" in str(error):
                return None
            raise

    def get_bytes(self, key: str, timeout: float) -> bytes:
        """Wait for a value; see `KeyValueStore`."""
        deadline, pause = time.monotonic() + timeout, 0.001
        while (value := self.try_get_bytes(key)) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no process published {key!r} within {timeout:g} s")
            self._link.pause(pause)
            pause = min(2 * pause, 0.05)
        return value

    def reached_preemption_point(self, step: int) -> bool:
        """Whether a process was asked to end, and all processes agreed to save their state now.

        The first call makes the signal SIGTERM such a request.
        """
        return self._link.preemption.begin(step, self._link.pause)

    def close(self, error: str = "") -> None:
        """Wait until all processes end, then disconnect; with ``error``, report it without waiting.

        Raises:
          DistributedError: the others did not end within the time of ``shutdown_timeout``.
        """
        if self.failure is not None or error:
            if error:
                self._link.end_with(error)
            self.abandon()
            if self._last_call is not None:
                # If jaxlib's call returned to a Python that has ended, its thread would abort.
                self._last_call.wait(_LAST_CALL_TIMEOUT_S)
            return
        ended = self._link.end(self._shutdown_timeout)
        if not ended:
            self.abandon()
            raise self._link.failure or DistributedError(
                f"the other processes did not end within {self._shutdown_timeout:g} s after this "
                "one (shutdown_timeout_seconds)"
            )
        self._client.shutdown()
        self._link.close()
        self._tunnel.close()
        if self._coordinator is not None:
            self._service.shutdown()
            self._coordinator.close()

    def abandon(self) -> None:
        """Give up the connection without waiting for other processes."""
        for value in (self, self._client, self._service):
            _make_immortal(value)
        with contextlib.suppress(AttributeError):
            self._link.close()
        if self._coordinator is not None:
            self._coordinator.close()


# Parts of error messages of collectives and of the coordination service which suggest that a
# process is gone.
_SIGNS_OF_LOSS = (
    "Gloo",
    "gloo",
    "Connection",
    "connection",
    "UNAVAILABLE",
    "DEADLINE",
    "CANCELLED",
)


def _listen(bind: str | None, port: int) -> socket.socket:
    if bind is not None:
        return socket.create_server(parse_address(bind))
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _free_address() -> tuple[str, int]:
    with listen_on_loopback() as listening:
        host, port = listening.getsockname()
        return host, port
