"""Profiles on demand, over HTTP.

The server handles its two kinds of requests itself, because an HTTP library takes longer to import
than most of gnomon.
"""

from __future__ import annotations

import gzip
import socketserver
import threading
import time
from collections.abc import Callable
from http import HTTPStatus

from gnomon._profiling.timeline import trace_events
from gnomon.backends import profiling

__all__ = ["ProfilerServer"]

_MAX_DURATION_MS = 600_000
# Seconds that a client may take to send its request.
_PATIENCE_S = 10


class ProfilerServer(socketserver.ThreadingTCPServer):
    """A server of profiles, for programs on this machine.

    Args:
      port: the port on this machine; 0 for any free one.
      memory_profile: a function that returns the profile of the memory.

    Attributes:
      port: the port that the server listens on.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, memory_profile: Callable[[], bytes]) -> None:
        super().__init__(("localhost", port), _Handler)
        self.memory_profile = memory_profile
        self.port = int(self.server_address[1])
        threading.Thread(target=self.serve_forever, daemon=True, name="gnomon-profiles").start()

    def stop(self) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()


class _Handler(socketserver.StreamRequestHandler):
    """Answers one request."""

    timeout = _PATIENCE_S
    server: ProfilerServer

    def handle(self) -> None:
        """Read the request line, skip the headers, and answer."""
        method, _, target = self.rfile.readline(1 << 16).decode("latin-1").partition(" ")
        while self.rfile.readline(1 << 16).strip():
            pass
        path, _, query = target.partition(" ")[0].partition("?")
        if method != "GET":
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET is supported\n")
        elif path == "/memory":
            self._answer(HTTPStatus.OK, self.server.memory_profile())
        elif path == "/trace":
            name, _, value = query.partition("=")
            self._trace(value if name == "duration_ms" else "1000")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"there are /trace?duration_ms=1000 and /memory\n")

    def _trace(self, duration: str) -> None:
        if not duration.isdecimal() or int(duration) > _MAX_DURATION_MS:
            allowed = f"duration_ms: 0 to {_MAX_DURATION_MS}\n".encode()
            self._answer(HTTPStatus.BAD_REQUEST, allowed)
            return
        try:
            profiling.start()
        except RuntimeError as error:
            self._answer(HTTPStatus.CONFLICT, f"{error}\n".encode())
            return
        time.sleep(int(duration) / 1000)
        self._answer(HTTPStatus.OK, gzip.compress(trace_events(profiling.stop()).encode()))

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        kind = "application/gzip" if status == HTTPStatus.OK else "text/plain"
        head = (
            f"HTTP/1.0 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.wfile.write(head.encode() + body)
