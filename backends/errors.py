"""The errors of compiling and running programs, shared by all backends.

Compilation errors carry the compiler's diagnostics and, if it could be written, a reproducer: the
program and the command line that compiles it outside of this process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = [
    "BackendUnavailable",
    "BufferDeletedError",
    "CompilationError",
    "CompilationFailed",
    "CompilerCrashed",
    "CompilerStopped",
    "CompilerTimeout",
    "CompilerUnavailable",
    "DistributedError",
    "ExecutionError",
    "GnomonRuntimeError",
    "NotDynamic",
    "OutOfMemory",
    "UnsupportedOnTarget",
    "add_note",
]


def add_note(error: BaseException, note: str) -> None:
    """`BaseException.add_note`, or before Python 3.11, an addition to the message."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:
        error.args = (f"{error}\n{note}", *error.args[1:])


class GnomonRuntimeError(RuntimeError):
    """The base class of errors of compilers, runtimes and devices."""


class BackendUnavailable(GnomonRuntimeError):  # noqa: N818 - says what happened
    """A platform cannot be used here: there is no such name, driver, plugin or device.

    The message says what was looked for and what to install or set. Other platforms are not
    affected, and the next use of the platform looks again.
    """


class NotDynamic(Exception):  # noqa: N818 - a verdict
    """A program with symbolic dimensions is not compiled for all sizes; the message says why."""


class CompilationError(GnomonRuntimeError):
    """The compiler produced no executable.

    Attributes:
      diagnostics: everything that the compiler printed.
      reproducer: the file with the artifact, or None if it could not be written.
    """

    def __init__(
        self, message: str, *, diagnostics: str = "", reproducer: Path | None = None
    ) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics
        self.reproducer = reproducer


class CompilationFailed(CompilationError):  # noqa: N818 - says what happened
    """The compiler rejected the program with diagnostics."""


class CompilerCrashed(CompilationError):  # noqa: N818 - says what happened
    """The compiler's process died of a signal or an abort while it compiled the program."""


class CompilerTimeout(CompilationError):  # noqa: N818 - says what happened
    """The compiler did not finish within its time limit."""


class CompilerUnavailable(CompilationError):  # noqa: N818 - says what happened
    """The compiler is not installed, or its process cannot be started."""


class CompilerStopped(CompilerUnavailable):
    """The compiler was stopped because this process ends, which does not wait for the thread."""


class UnsupportedOnTarget(CompilationError):  # noqa: N818 - says what happened
    """The program contains an op or a dtype that the target does not support.

    The message names it. The documentation's page of targets lists the ops that each supports.
    """


class ExecutionError(GnomonRuntimeError):
    """A compiled program, or a program whose result it reads, failed at run time."""


class DistributedError(GnomonRuntimeError):
    """The processes of a program cannot continue.

    One of them did not connect, died, lost its connection, or compiled another program than the
    others; the message says which. Start all of them again: the connection cannot be repaired.
    """


class OutOfMemory(GnomonRuntimeError):  # noqa: N818 - says what happened
    """The memory of a device is too small for an array or for a program."""


class BufferDeletedError(GnomonRuntimeError):
    """A buffer was used after `delete()` or after it was donated to a call."""

    @classmethod
    def of(cls, buffer: Any, reason: str | None) -> BufferDeletedError:
        """The error for a buffer that was used after ``reason``."""
        return cls(
            f"a buffer of shape {buffer.shape} and dtype {buffer.dtype} was used after {reason}; "
            "keep a copy, or do not donate it"
        )
