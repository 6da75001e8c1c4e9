"""A cache of the transformations, loops and branches that eager code evaluates.

``grad(f)(x)`` and ``scan(f, x)`` outside of `jit` trace ``f`` at each call, since the Python code
may behave differently each time. Usually it does not. So the text of the traced function is the key
of the program that is prepared for evaluation, with its derived and its compiled parts. For a
function that `jit` traced and cached, the key holds its program and name instead of its text.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

from gnomon.dialects.body import Body
from gnomon.dialects.functions import Program

__all__ = ["Run", "clear", "give_back", "key_of", "key_of_bodies", "take"]

Run = Any
"""What is prepared: a function from arrays to arrays, or a list of them for the bodies of an op."""

# The number of entries: a few megabytes for programs of a hundred ops.
_MAX_RUNS = 128
_SYMBOL = re.compile(r'@(?:"([^"]*)"|([\w.$-]+))')

_runs: OrderedDict[Hashable, Run] = OrderedDict()


def key_of(
    program: Program, transformation: str, name: str, types: Sequence[Any], params: dict[str, Any]
) -> Hashable | None:
    """The key of a transformation of a function; None if it cannot be cached.

    Args:
      program: the program that holds the function.
      transformation: the transformation.
      name: the function.
      types: the types of the operands.
      params: the transformation's parameters.
    """
    if program.callbacks:
        # A callback may hold any object, which must not outlive the program.
        return None
    with program.lock:
        functions = _contents(program, [name])
    key = (transformation, name, tuple(types), tuple(params.items()), tuple(functions.items()))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def key_of_bodies(program: Program, bodies: Sequence[Body]) -> Hashable | None:
    """The key of the detached bodies of an op; None if they cannot be cached.

    Args:
      program: the program that holds the functions that the bodies call.
      bodies: the bodies.
    """
    if program.callbacks:
        return None
    texts = tuple([body.text for body in bodies])
    with program.lock:
        functions = _contents(program, [name for text in texts for name in _symbols(text)])
    return texts, tuple(functions.items())


def _symbols(text: str) -> list[str]:
    """The names of the functions that a text refers to."""
    return [quoted or plain for quoted, plain in _SYMBOL.findall(text)]


def _contents(program: Program, names: Sequence[str]) -> dict[str, Any]:
    """What functions and those that they call are made of: their text, or where they come from."""
    functions: dict[str, Any] = {}
    pending = list(names)
    while pending:
        current = pending.pop()
        if current in functions or current not in program:
            continue
        origin = program.origin(current)
        if origin is not None:
            functions[current] = origin
            continue
        text = program.function(current).get_asm(enable_debug_info=False, assume_verified=True)
        functions[current] = text
        pending += _symbols(text)
    return functions


def take(key: Hashable) -> Run | None:
    """Remove an evaluation and return it; None if there is none or another call uses it."""
    return _runs.pop(key, None)


def give_back(key: Hashable, run: Run) -> None:
    """Put a prepared evaluation into the cache when its call is over."""
    _runs[key] = run
    while len(_runs) > _MAX_RUNS:
        try:
            _runs.popitem(last=False)
        except KeyError:  # another thread took the last one
            return


def clear() -> None:
    """Forget everything."""
    _runs.clear()
