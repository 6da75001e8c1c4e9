"""The errors that gnomon defines; the docstring of each says when it is raised."""

from gnomon._diagnostics.errors import (
    ConcretizationTypeError,
    ForbiddenCollectiveError,
    GnomonIndexError,
    GnomonTypeError,
    NonConcreteBooleanIndexError,
    ShardingTypeError,
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
    DistributedError,
    ExecutionError,
    GnomonRuntimeError,
    OutOfMemory,
    UnsupportedOnTarget,
)
from gnomon.dialects.symbolic.errors import InconclusiveDimensionOperation

# JAX's name of the error that a runtime raises.
JaxRuntimeError = GnomonRuntimeError

__all__ = [
    "BackendUnavailable",
    "BufferDeletedError",
    "CompilationError",
    "CompilationFailed",
    "CompilerCrashed",
    "CompilerTimeout",
    "CompilerUnavailable",
    "ConcretizationTypeError",
    "DistributedError",
    "ExecutionError",
    "ForbiddenCollectiveError",
    "GnomonIndexError",
    "GnomonRuntimeError",
    "GnomonTypeError",
    "InconclusiveDimensionOperation",
    "JaxRuntimeError",
    "NonConcreteBooleanIndexError",
    "OutOfMemory",
    "ShardingTypeError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
    "UnsupportedOnTarget",
]

# Messages and pickles name the public module. `gnomon_runtime` is installed without gnomon, too.
for _name in __all__:
    _error = globals()[_name]
    if _error.__module__.startswith("gnomon."):
        _error.__module__ = __name__
