"""What can go wrong between a portable artifact and a value, by name.

All three compilation errors carry a reproducer: the artifact and the command line that compiles it
again outside of this process.
"""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "BufferDeletedError",
    "CompilationError",
    "CompilationFailed",
    "CompilerCrashed",
    "CompilerTimeout",
    "CompilerUnavailable",
    "ExecutionError",
]


class CompilationError(RuntimeError):
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


class CompilerCrashed(CompilationError):  # noqa: N818
    """The compiler's process ended by a signal or an abort while it compiled the program."""


class CompilerTimeout(CompilationError):  # noqa: N818
    """The compiler did not finish within `CompileOptions.timeout_s`."""


class CompilerUnavailable(CompilationError):  # noqa: N818
    """The compiler is not installed, or its process cannot be started."""


class ExecutionError(RuntimeError):
    """A compiled program, or a program whose result it reads, failed while it ran."""


class BufferDeletedError(RuntimeError):
    """A buffer was used after `delete()` or after it was donated to a call."""
