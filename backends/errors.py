"""What can go wrong between a program and a value, by name; the same for all backends.

Compilation errors carry what the compiler said and, where it could be written, a reproducer: the
program and the command line that compiles it again outside of this process.
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
    "CompilerTimeout",
    "CompilerUnavailable",
    "ExecutionError",
    "GnomonRuntimeError",
    "OutOfMemory",
    "UnsupportedOnTarget",
    "add_note",
]


def add_note(error: BaseException, note: str) -> None:
    """`BaseException.add_note`, which Python has from 3.11 on; before, notes end the message."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:
        error.args = (f"{error}\n{note}", *error.args[1:])


class GnomonRuntimeError(RuntimeError):
    """The base of what a compiler, a runtime or a device raises."""


class BackendUnavailable(GnomonRuntimeError):  # noqa: N818 - says what happened
    """A platform cannot be used here: no such name, driver, plugin or device.

    The message says what was looked for, and what to install or set. Other platforms go on working,
    and asking again looks again.
    """


class CompilationError(GnomonRuntimeError):
    """The compiler gave no executable.

    Attributes:
        diagnostics: everything that the compiler printed.
        reproducer: the file that holds the artifact, or None where it could not be written.
    """

    def __init__(
        self, message: str, *, diagnostics: str = "", reproducer: Path | None = None
    ) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics
        self.reproducer = reproducer


class CompilationFailed(CompilationError):  # noqa: N818 - says what happened
    """The compiler refused the program and said why."""


class CompilerCrashed(CompilationError):  # noqa: N818 - says what happened
    """The compiler's process ended by a signal or an abort while it compiled the program."""


class CompilerTimeout(CompilationError):  # noqa: N818 - says what happened
    """The compiler did not finish in the time that it was given."""


class CompilerUnavailable(CompilationError):  # noqa: N818 - says what happened
    """The compiler is not installed, or its process cannot be started."""


class UnsupportedOnTarget(CompilationError):  # noqa: N818 - says what happened
    """The program holds an op or a dtype that the target has no form of.

    The message names it; what can be done instead is in the documentation's table of targets.
    """


class ExecutionError(GnomonRuntimeError):
    """A compiled program, or a program whose result it reads, failed while it ran."""


class OutOfMemory(GnomonRuntimeError):  # noqa: N818 - says what happened
    """The memory of a device does not hold an array, or what a program needs."""


class BufferDeletedError(GnomonRuntimeError):
    """A buffer was used after `delete()` or after it was donated to a call."""

    @classmethod
    def of(cls, buffer: Any, reason: str | None) -> BufferDeletedError:
        """The error of a buffer that was used after ``reason``."""
        return cls(
            f"a buffer of shape {buffer.shape} and dtype {buffer.dtype} was used after {reason}; "
            "keep a copy, or do not donate it"
        )
