"""The sizes of arguments with symbolic dimensions.

The note ``sizes`` of an entry says how the values of the variables follow from the shapes of a
call, and what must hold for them:

- ``steps``: ``[variable, input, axis, factor, rest]``, in order. The variable is the size of that
  dimension, minus the expression ``rest``, divided by the number ``factor``.
- ``checks``: ``[relation, expression, expression, text]``, with ``==``, ``>=`` or ``<=``.

An expression is a number, the name of a variable, or a list of a name (``+``, ``*``, ``floordiv``,
``mod``, ``max``, ``min``) and two expressions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gnomon_runtime.errors import ArtifactDamagedError

__all__ = ["check_sizes"]

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "*": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
}
_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
}
_DEEPEST = 200
_LARGEST = 2**31 - 1


def check_sizes(
    notes: Any, shapes: Sequence[tuple[int, ...]], name: Callable[[int], str], file: str
) -> None:
    """Raise unless the shapes of a call fit the symbolic dimensions.

    Args:
      notes: the note ``sizes``.
      shapes: the shapes of the arguments.
      name: names an argument in messages, by its number.
      file: names the artifact in messages.

    Raises:
      ValueError: they do not fit.
      ArtifactDamagedError: the note is invalid.
    """
    try:
        message = _problem(notes, shapes, name)
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ArtifactDamagedError(f"{file}: the note on sizes is invalid: {error}") from error
    if message:
        raise ValueError(f"Input shapes do not match {message}")


def _problem(
    notes: Any, shapes: Sequence[tuple[int, ...]], name: Callable[[int], str]
) -> str | None:
    values: dict[str, int] = {}
    for variable, index, axis, factor, rest in notes["steps"]:
        if min(index, axis) < 0:
            raise ValueError("a negative position")
        left = shapes[index][axis] - _value(rest, values)
        place = f"dimension {axis} of {name(index)} (= {shapes[index][axis]})"
        if left % factor:
            return f"the exported ones: {place} leaves a remainder in '{variable}'"
        values[variable] = left // factor
        if not 1 <= values[variable] <= _LARGEST:
            return f"the exported ones: {place} makes '{variable}' {values[variable]}"
    for relation, one, other, text in notes["checks"]:
        left, right = _value(one, values), _value(other, values)
        if not _RELATIONS[relation](left, right):
            return f"{text}: {left} {relation} {right} is false"
    return None


def _value(expression: Any, values: Mapping[str, int], depth: int = 0) -> int:
    if depth > _DEEPEST:
        raise ValueError("an expression is nested too deeply")
    if isinstance(expression, str):
        return values[expression]
    if isinstance(expression, int):
        return expression
    kind, x, y = expression
    return _OPERATIONS[kind](_value(x, values, depth + 1), _value(y, values, depth + 1))
