"""Messages on the connections between processes: one JSON object per line."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Any

__all__ = ["GREETING", "Channel", "connect", "parse_address"]

GREETING = "gnomon-link-1"

_MAX_LINE_BYTES = 1 << 16


def parse_address(address: str) -> tuple[str, int]:
    """The host and the port of an address such as ``"10.0.0.1:1234"`` or ``"[::1]:1234"``.

    Raises:
      ValueError: the text has another form.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit() or not host:
        raise ValueError(f"an address must be host:port, such as '10.0.0.1:1234', got {address!r}")
    return host.strip("[]"), int(port)


def connect(address: tuple[str, int], timeout: float) -> socket.socket:
    """Open a connection to an address."""
    made = socket.create_connection(address, timeout)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class Channel:
    """A channel for messages between two processes over a socket.

    Args:
      connection: the socket.
      silence: the time in seconds after which a silent other side counts as gone.
    """

    def __init__(self, connection: socket.socket, silence: float) -> None:
        self._socket = connection
        self._received = b""
        self._lock = threading.Lock()
        connection.settimeout(silence)

    def send(self, **message: Any) -> None:
        """Send a message.

        Raises:
          OSError: the connection is lost.
        """
        data = json.dumps(message).encode() + b"\n"
        with self._lock:
            self._socket.sendall(data)

    def receive(self) -> dict[str, Any] | None:
        """Wait for the next message; None at the end of the connection.

        Raises:
          OSError: the connection is lost, or nothing came for too long (`TimeoutError`).
          ValueError: the other side sent data that is not a message.
        """
        while b"\n" not in self._received:
            if len(self._received) > _MAX_LINE_BYTES:
                raise ValueError("a line is too long")
            data = self._socket.recv(4096)
            if not data:
                return None
            self._received += data
        line, self._received = self._received.split(b"\n", 1)
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError("a message must be a JSON object")
        return message

    def raw(self) -> tuple[socket.socket, bytes]:
        """The socket, which carries other data from now on, and what was received of that data."""
        self._socket.settimeout(None)
        return self._socket, self._received

    def raw_address(self) -> str:
        """The host address of this side of the connection."""
        return str(self._socket.getsockname()[0])

    def close(self) -> None:
        """Close the connection; the other side receives the end of the stream."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
