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

__all__ = [
    "ConcretizationTypeError",
    "GnomonIndexError",
    "GnomonTypeError",
    "NonConcreteBooleanIndexError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
]
