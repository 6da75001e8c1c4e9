"""The compiler's process: started when needed, kept warm, watched, and replaced when it dies."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from gnomon._native import __file__ as native_file
from gnomon.backends.background import add_exit_hook
from gnomon.backends.errors import CompilerStopped, CompilerUnavailable
from gnomon.backends.iree import worker as worker_program
from gnomon.backends.iree.scratch import make_scratch_folder

__all__ = [
    "COMPILER",
    "CompilerProcess",
    "ProcessDiedError",
    "ProcessTimeoutError",
    "Provider",
    "Reply",
]

_START_TIMEOUT_S = 120.0
_MAX_WAIT_S = 3600.0
_DIAGNOSTIC_BYTES = 1 << 20

Reply = tuple[bool, bytes, str]
"""Whether the compilation succeeded, the executable, and the compiler's output."""
_Message = tuple[dict[str, object], bytes]


class Provider(Protocol):
    """Provides the kernels of a program, which some flags make the process ask for."""

    def announce(self, count: int) -> None:
        """Take note that the process will ask for up to this many kernels."""

    def provide(
        self, texts: bytes, ask: Callable[[dict[str, object], bytes], _Message]
    ) -> _Message:
        """The answer to the request for these kernels; ``ask`` sends the process a request."""


class ProcessDiedError(Exception):
    """The process ended before it answered.

    Attributes:
      status: its exit status; negative for the signal that ended it.
      diagnostics: its output.
    """

    def __init__(self, status: int, diagnostics: str) -> None:
        super().__init__(status, diagnostics)
        self.status = status
        self.diagnostics = diagnostics


class ProcessTimeoutError(Exception):
    """The process did not answer in time.

    Attributes:
      diagnostics: its output.
    """

    def __init__(self, diagnostics: str) -> None:
        super().__init__(diagnostics)
        self.diagnostics = diagnostics


class _Worker:
    """One process and the two pipes to it."""

    def __init__(self, process_flags: Sequence[str], serve: str) -> None:
        if not sys.executable:
            raise CompilerUnavailable(
                "the compiler runs in a separate Python process, and this interpreter does not "
                "know its executable (sys.executable is empty); set it before compiling"
            )
        self.process_flags = tuple(process_flags)
        self.ready = False
        # A file, because it can be read after the process has died. It is opened for appending, so
        # that the process and its linker write at the start again after it is truncated.
        self._folder = make_scratch_folder()
        handle, name = tempfile.mkstemp(dir=self._folder)
        os.close(handle)
        self._diagnostics = os.open(name, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        os.unlink(name)
        self.process = subprocess.Popen(
            [sys.executable, "-I", os.fspath(Path(worker_program.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._diagnostics,
            env={**os.environ, "TMPDIR": self._folder},
        )
        self._requests = cast(BinaryIO, self.process.stdin)
        self._replies = cast(BinaryIO, self.process.stdout)
        paths = [os.path.abspath(entry) for entry in sys.path]
        self.send(
            {
                "sys_path": paths,
                "process_flags": list(process_flags),
                "serve": serve,
                "native": os.path.abspath(native_file),
            }
        )

    def send(self, header: dict[str, object], payload: bytes = b"") -> None:
        """Send a frame; a dead process is noticed when the answer is awaited."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            worker_program.write_frame(self._requests, header, payload)

    def receive(self, deadline: float) -> _Message:
        """Wait for a frame until `deadline`, on the monotonic clock."""
        # The rest of a frame follows its first byte at once, so only that byte has the deadline.
        while not select.select([self._replies], [], [], _wait_until(deadline))[0]:
            if time.monotonic() >= deadline:
                raise ProcessTimeoutError(self.read_diagnostics())
        frame = worker_program.read_frame(self._replies)
        if frame is None:
            try:
                status = self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                status = self.process.wait()
            raise ProcessDiedError(status, self.read_diagnostics())
        return frame

    def clear_diagnostics(self) -> None:
        """Discard the output of the previous request."""
        os.truncate(self._diagnostics, 0)

    def read_diagnostics(self) -> str:
        """The output since the last `clear_diagnostics`."""
        return os.pread(self._diagnostics, _DIAGNOSTIC_BYTES, 0).decode(errors="replace")

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        self.remove_files()
        self.abandon()

    def remove_files(self) -> None:
        """Remove the files that an interrupted compiler or linker leaves."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def abandon(self) -> None:
        """Close our ends of the pipes, and leave the process alone."""
        for stream in (self._requests, self._replies):
            with contextlib.suppress(OSError):
                stream.close()
        if self._diagnostics >= 0:
            os.close(self._diagnostics)
            self._diagnostics = -1


def _wait_until(deadline: float) -> float:
    """The seconds of one wait for a deadline, which may be infinite."""
    return min(max(0.0, deadline - time.monotonic()), _MAX_WAIT_S)


class CompilerProcess:
    """The compiler, as a process that starts when first needed and again after it died.

    A process accepts some flags only when it starts. There is one process for each set of these, so
    that alternating between a CPU and a GPU does not restart it.

    It can be used from several threads, which take turns, and across forks: a child starts its own
    processes. They end with this process, however that ends. Once exit handlers run, only their
    thread can compile, and each compilation has a process of its own.

    Args:
      serve: a compiler other than IREE's, see `worker`.
    """

    def __init__(self, serve: str = "") -> None:
        self._serve = serve
        self._lock = threading.Lock()
        # By the flags of the process, in the order of their last use.
        self._workers: dict[tuple[str, ...], _Worker] = {}
        # The thread that runs the exit handlers, once it does.
        self._exiting_thread: int | None = None
        add_exit_hook(self._at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork_in_child)

    @property
    def pid(self) -> int | None:
        """The id of the process that was used last, if there is one."""
        worker = next(reversed(self._workers.values()), None)
        return worker.process.pid if worker is not None else None

    def compile(
        self,
        artifact: bytes,
        flags: Sequence[str],
        process_flags: Sequence[str],
        timeout_s: float,
        provider: Provider | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> Reply:
        """Compile one artifact.

        Args:
          artifact: the artifact.
          flags, process_flags: the flags for the program, and those of the process.
          timeout_s: the number of seconds after which the process is stopped.
          provider: answers a request for kernels; needed if a flag makes the process send one.
          meanwhile: called while the process compiles.

        Raises:
          ProcessDiedError: the process died.
          ProcessTimeoutError: it took longer than `timeout_s`, and was stopped.
          CompilerUnavailable: it does not start, or the interpreter is shutting down.
        """
        with self._conversation(process_flags) as worker:
            deadline = time.monotonic() + timeout_s

            def ask(header: dict[str, object], payload: bytes) -> _Message:
                worker.send(header, payload)
                return worker.receive(deadline)

            worker.send({"flags": list(flags)}, artifact)
            if meanwhile is not None:
                meanwhile()
            header, payload = worker.receive(deadline)
            if "announced" in header:
                assert provider is not None
                provider.announce(cast(int, header["announced"]))
                header, payload = worker.receive(deadline)
            if "kernels" in header:
                assert provider is not None
                header, payload = ask(*provider.provide(payload, ask))
            return bool(header["ok"]), payload, worker.read_diagnostics()

    def request(
        self,
        header: dict[str, object],
        payload: bytes,
        process_flags: Sequence[str],
        timeout_s: float,
    ) -> _Message:
        """Send the process one request and return its reply; raises the errors of `compile`."""
        with self._conversation(process_flags) as worker:
            worker.send(header, payload)
            return worker.receive(time.monotonic() + timeout_s)

    @contextlib.contextmanager
    def _conversation(self, process_flags: Sequence[str]) -> Iterator[_Worker]:
        """A process that is ready for a request; it is stopped if the block raises."""
        with self._lock:
            worker = self._running(process_flags)
            try:
                if not worker.ready:
                    self._await_start(worker)
                worker.clear_diagnostics()
                yield worker
            except BaseException:
                # Interrupts, too, leave an unread answer in the pipe.
                self._discard(worker)
                self._check_open()
                raise
            if self._exiting_thread is not None:
                self._discard(worker)

    def _discard(self, worker: _Worker) -> None:
        del self._workers[worker.process_flags]
        worker.stop()

    def start(self, process_flags: Sequence[str]) -> None:
        """Start the process without waiting for it; do nothing if it runs or is in use."""
        if self._lock.acquire(blocking=False):
            try:
                self._running(process_flags)
            finally:
                self._lock.release()

    def stop(self) -> None:
        """End the processes; the next compilation starts another."""
        with self._lock:
            while self._workers:
                self._workers.popitem()[1].stop()

    def _running(self, process_flags: Sequence[str]) -> _Worker:
        self._check_open()
        worker = self._workers.pop(tuple(process_flags), None)
        if worker is not None and worker.process.poll() is not None:
            worker.stop()
            worker = None
        if worker is None:
            worker = _Worker(process_flags, self._serve)
        self._workers[worker.process_flags] = worker
        return worker

    def _check_open(self) -> None:
        if self._exiting_thread not in (None, threading.get_ident()):
            raise CompilerStopped("the process is ending, and its compiler has been stopped")

    def _await_start(self, worker: _Worker) -> None:
        try:
            worker.receive(time.monotonic() + _START_TIMEOUT_S)
        except (ProcessDiedError, ProcessTimeoutError) as error:
            text = error.diagnostics
            raise CompilerUnavailable(
                f"the compiler's process does not start; it says:\n{text[-2000:]}", diagnostics=text
            ) from error
        worker.ready = True

    def _at_exit(self) -> None:
        # Without the lock, which a thread may hold during a compilation.
        self._exiting_thread = threading.get_ident()
        for worker in list(self._workers.values()):
            worker.process.kill()
            worker.process.wait()
            worker.remove_files()

    def _after_fork_in_child(self) -> None:
        self._lock = threading.Lock()
        while self._workers:
            _, worker = self._workers.popitem()
            # The process is the parent's; holding its pipes would keep it alive after the parent.
            worker.abandon()
            # Only the parent can wait for it, but Popen's destructor warns without a return code.
            worker.process.returncode = 0


COMPILER = CompilerProcess()
