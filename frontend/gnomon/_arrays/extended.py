"""Arrays of an extended dtype: each consists of several plain arrays of its shape, its parts.

A function that only moves elements is applied to an extended array part by part. The decorator
`takes_extended_arrays` makes a function of plain arrays accept both kinds.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from gnomon._arrays.array import Array

Function = TypeVar("Function", bound=Callable[..., Any])

# The only binary ops of extended arrays, which compare themselves.
EQUALITIES: dict[str, Callable[[Any, Any], Any]] = {"eq": operator.eq, "ne": operator.ne}


class ExtendedArray(Array):
    """An array whose elements are several numbers each.

    Attributes:
      words: the parts, arrays of the shape of the array.
    """

    __slots__ = ("words",)

    words: tuple[Any, ...]

    def with_words(self, words: Iterable[Any]) -> ExtendedArray:
        """An array of the same dtype made of other parts; each subclass defines how."""
        raise NotImplementedError(f"{type(self).__name__} does not define with_words")


def takes_extended_arrays(*joined: str) -> Callable[[Function], Function]:
    """A decorator by which a function that moves elements accepts extended arrays.

    They may also be elements of a sequence. The function is called once for each part; all other
    arguments are passed to each call unchanged.

    Args:
      joined: the names of arguments whose elements end up in the same result: either all of them
        are extended arrays, or none is.
    Raises:
      ValueError: the function is called with an extended array and one of another dtype.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            # Plain arrays are the usual case and cost nothing but this call.
            try:
                return function(*args, **kwargs)
            except Exception:
                given = inspect.signature(function).bind(*args, **kwargs).arguments
                if not any(_elements(value) for value in given.values()):
                    raise
            return _each_part(function, given, joined)

        # The wrapper has the signature of the function, but mypy does not see that.
        return wrapper  # type: ignore[return-value]

    return decorate


def _each_part(function: Callable[..., Any], given: dict[str, Any], joined: Iterable[str]) -> Any:
    elements = [x for value in given.values() for x in _elements(value)]
    elements += [given[name] for name in joined if name in given]
    first = next(x for x in elements if isinstance(x, ExtendedArray))
    for other in elements:
        if not isinstance(other, ExtendedArray) or other.dtype != first.dtype:
            shown = getattr(other, "dtype", type(other).__name__)
            raise ValueError(
                f"{function.__name__} takes arrays of the same extended dtype, got {first.dtype} "
                f"and {shown}"
            )
    signature = inspect.signature(function)
    results = []
    for i in range(len(first.words)):
        parts = {name: _part(value, i) for name, value in given.items()}
        call = inspect.BoundArguments(signature, parts)
        results.append(function(*call.args, **call.kwargs))
    if isinstance(results[0], (list, tuple)):
        return [first.with_words(parts) for parts in zip(*results, strict=True)]
    return first.with_words(results)


def _elements(value: Any) -> list[Any]:
    """An extended array, or the elements of a sequence that holds one."""
    if isinstance(value, ExtendedArray):
        return [value]
    if isinstance(value, (list, tuple)) and any(isinstance(x, ExtendedArray) for x in value):
        return list(value)
    return []


def _part(value: Any, i: int) -> Any:
    if isinstance(value, ExtendedArray):
        return value.words[i]
    if isinstance(value, (list, tuple)) and _elements(value):
        return type(value)(_part(x, i) for x in value)
    return value
