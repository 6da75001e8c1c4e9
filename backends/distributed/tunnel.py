"""The connection of XLA's coordination client, tunnelled through a socket of this process.

When XLA's client loses its connection to the service, it ends the process at once, without running
Python code. It therefore connects to a socket of its own process, which forwards the data to the
coordinator. If the coordinator is lost, XLA's client only waits, while `link` notices the loss and
raises an error.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

__all__ = ["join", "listen_on_loopback", "open_tunnel", "start_thread"]


def start_thread(function: Callable[..., None], *arguments: object) -> threading.Thread:
    """Run a function in a daemon thread."""
    thread = threading.Thread(target=function, args=arguments, daemon=True, name="gnomon-link")
    thread.start()
    return thread


def listen_on_loopback() -> socket.socket:
    """A socket that listens on a free port of the loopback interface."""
    return socket.create_server(("127.0.0.1", 0))


def open_tunnel(reach: Callable[[], socket.socket]) -> tuple[socket.socket, str]:
    """Listen on a local port, and forward each connection through one that ``reach`` opens.

    Returns:
      The listening socket, and its address.
    """
    listening = listen_on_loopback()
    start_thread(_accept, listening, reach)
    return listening, "{}:{}".format(*listening.getsockname())


def _accept(listening: socket.socket, reach: Callable[[], socket.socket]) -> None:
    while True:
        try:
            near, _ = listening.accept()
        except OSError:
            return
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            far = reach()
        except OSError:
            _lost.append(near)
            continue
        join(near, far, keep_near=True)


# Local connections whose remote side is lost. Closing one would make XLA end the process.
_lost: list[socket.socket] = []


def join(
    near: socket.socket, far: socket.socket, first: bytes = b"", *, keep_near: bool = False
) -> None:
    """Forward data between two connections, in both directions.

    Args:
      near, far: the connections.
      first: data from ``far`` that was received already.
      keep_near: whether to leave ``near`` open when ``far`` ends.
    """

    def copy(source: socket.socket, target: socket.socket, data: bytes, keep: bool) -> None:
        with contextlib.suppress(OSError):
            while True:
                if data:
                    target.sendall(data)
                data = source.recv(1 << 16)
                if not data:
                    break
        if keep:
            _lost.append(target)
            return
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    start_thread(copy, near, far, b"", False)
    start_thread(copy, far, near, first, keep_near)
