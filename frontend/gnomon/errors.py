"""The errors that gnomon raises by name; each one's docstring says what to do about it."""

from gnomon._errors import (
    ConcretizationTypeError,
    GnomonIndexError,
    GnomonTypeError,
    NonConcreteBooleanIndexError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from gnomon.backends.errors import (
    BackendUnavailable,
    BufferDeletedError,
    CompilationError,
    CompilationFailed,
    CompilerCrashed,
    CompilerTimeout,
    CompilerUnavailable,
    ExecutionError,
    GnomonRuntimeError,
    OutOfMemory,
    UnsupportedOnTarget,
)

__all__ = [
    "BackendUnavailable",
    "BufferDeletedError",
    "CompilationError",
    "CompilationFailed",
    "CompilerCrashed",
    "CompilerTimeout",
    "CompilerUnavailable",
    "ConcretizationTypeError",
    "ExecutionError",
    "GnomonIndexError",
    "GnomonRuntimeError",
    "GnomonTypeError",
    "NonConcreteBooleanIndexError",
    "OutOfMemory",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
    "UnsupportedOnTarget",
]
