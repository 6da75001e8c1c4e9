"""Errors that gnomon raises by name; exported as ``gnomon.errors``.

An error about a traced value is built from the tracer. If the tracer has a method
``describe_origin() -> str``, which names the argument or the line that the value comes from, the
message says so.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from gnomon._diagnostics.source_location import is_internal
from gnomon.dialects.errors import GnomonTypeError, UnexpectedTracerError

__all__ = [
    "ConcretizationTypeError",
    "ForbiddenCollectiveError",
    "GnomonIndexError",
    "GnomonTypeError",
    "NonConcreteBooleanIndexError",
    "ShardingTypeError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
    "warn_user",
]


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's program that led here, not at a line of gnomon."""
    depth = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
        depth += 1
    warnings.warn(message, category, stacklevel=depth + 1)


class GnomonIndexError(IndexError):
    """The base of gnomon's index errors."""


def _about(tracer: Any, *sentences: str) -> str:
    """A message that says what happened, to which traced value, and where the value comes from."""
    value = f"The traced value is {getattr(tracer, 'aval', tracer)}."
    origin = getattr(tracer, "describe_origin", None)
    what, *advice = sentences
    parts = [what, f"{value} {origin()}" if callable(origin) else value, *advice]
    return "\n".join(part for part in parts if part)


class ForbiddenCollectiveError(GnomonTypeError):
    """A program communicates over an axis of a mesh that `gnomon.sharding.no_collectives` names."""


class ShardingTypeError(GnomonTypeError):
    """The shardings of operands conflict over explicit axes of a mesh.

    Explicit axes are a part of types, so the sharding of a result must follow from the operands.
    Move an operand with `gnomon.sharding.reshard`, pass ``out_sharding`` if the function has that
    parameter, or let the compiler choose the shardings in a part of the program with
    `gnomon.sharding.auto_axes`.
    """


class ConcretizationTypeError(GnomonTypeError):
    """A concrete value was needed where a function is being traced.

    Under `jit` and `vmap` a value that depends on an argument is not known while the Python code
    runs, so it cannot give a shape, an axis, or any other thing that the program's structure
    depends on. Pass such a value as a static argument (``static_argnums``), or derive it from
    shapes, which are known.
    """

    def __init__(self, tracer: Any, context: str = "") -> None:
        super().__init__(
            _about(
                tracer,
                "A traced value was used where a concrete value is needed.",
                context,
                "Values that depend on the arguments of a function under jit or vmap are unknown "
                "while it is traced: make the argument static (static_argnums, static_argnames), "
                "or compute with lax.cond, lax.while_loop, gnomon.numpy.where instead.",
            )
        )


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was used as a condition of Python: ``if x > 0``, ``while x``, ``x and y``.

    Use `gnomon.lax.cond` or `gnomon.numpy.where` for a choice, `gnomon.lax.while_loop` for a loop,
    ``&``, ``|``, ``~`` for logic; or make the argument static.
    """

    def __init__(self, tracer: Any) -> None:
        super(ConcretizationTypeError, self).__init__(
            _about(
                tracer,
                "A traced value was used as a condition of Python (if, while, and, or, assert).",
                "Use lax.cond or gnomon.numpy.where for a choice, lax.while_loop or lax.fori_loop "
                "for a loop, the operators & | ~ for logic, or make the argument that the "
                "condition depends on static (static_argnums, static_argnames).",
            ),
        )


class TracerArrayConversionError(GnomonTypeError):
    """A traced value was handed to NumPy: ``np.sin(x)``, ``np.asarray(x)``.

    Use the function of the same name in `gnomon.numpy`, or make the argument static.
    """

    def __init__(self, tracer: Any) -> None:
        super().__init__(
            _about(
                tracer,
                "A traced value was converted to a NumPy array (numpy.asarray, or a function of "
                "NumPy or another library applied to it).",
                "Use the function of the same name in gnomon.numpy, or make the argument that the "
                "value depends on static (static_argnums, static_argnames).",
            )
        )


class TracerIntegerConversionError(GnomonTypeError):
    """A traced value was used as a Python integer: ``range(n)``, ``items[i]``.

    Index an array of gnomon instead of a list, use `gnomon.lax.fori_loop`, or make the argument
    static.
    """

    def __init__(self, tracer: Any) -> None:
        super().__init__(
            _about(
                tracer,
                "A traced value was used as a Python integer (the index of a list, an axis, "
                "range(n), a repetition).",
                "Index an array of gnomon instead of a list (gnomon.numpy.stack(items)[i]), loop "
                "with lax.fori_loop, or make the argument that the value depends on static "
                "(static_argnums, static_argnames).",
            )
        )


class NonConcreteBooleanIndexError(GnomonIndexError):
    """An array was indexed with a traced boolean mask; the size of the result is not known.

    Use the three-argument `gnomon.numpy.where`, which keeps the shape.
    """

    def __init__(self, tracer: Any) -> None:
        super().__init__(
            _about(
                tracer,
                "An array was indexed with a traced boolean mask.",
                "How many elements a mask selects is not known while a function is traced, so the "
                "result would have no static shape. Use gnomon.numpy.where(mask, x, other), which "
                "keeps the shape (to update: x = gnomon.numpy.where(mask, new, x)), a reduction "
                "with where=mask, or gnomon.numpy.nonzero(mask, size=...).",
            )
        )
