"""Transformations that eager code applied before, kept so that they are not derived again.

``grad(f)(x)`` outside of `jit` traces ``f`` at each call, as JAX does: Python code may do anything.
Usually it does the same as before. So the text of the traced function is a key for what follows:
the derived program, prepared for evaluation, with its compiled parts. A function that `jit` traced
and kept is named in the key instead of printed.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from gnomon.dialects.functions import Program

__all__ = ["Run", "clear", "give_back", "key_of", "take"]

Run = Callable[..., list[np.ndarray]]
"""A prepared evaluation, from arrays to arrays."""

# A few megabytes, where programs have a hundred ops.
_MOST = 128
_SYMBOL = re.compile(r'@(?:"([^"]*)"|([\w.$-]+))')

_known: OrderedDict[Hashable, Run] = OrderedDict()


def key_of(
    program: Program, what: str, name: str, types: Sequence[Any], params: dict[str, Any]
) -> Hashable | None:
    """The key of a transformation of a function; None where it cannot be kept.

    Args:
      program: the program that holds the function.
      what: the transformation.
      name: the function.
      types: of the operands.
      params: the transformation's parameters.
    """
    if program.callbacks:
        # They may hold anything; it must not live longer than the program.
        return None
    functions: dict[str, Any] = {}
    pending = [name]
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
        pending += [quoted or plain for quoted, plain in _SYMBOL.findall(text)]
    key = (what, name, tuple(types), tuple(params.items()), tuple(functions.items()))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def take(key: Hashable) -> Run | None:
    """Take what was kept under a key, if it is there and no other call has it."""
    return _known.pop(key, None)


def give_back(key: Hashable, run: Run) -> None:
    """Keep a prepared evaluation, whose call is over."""
    _known[key] = run
    while len(_known) > _MOST:
        try:
            _known.popitem(last=False)
        except KeyError:  # another thread took the last one
            return


def clear() -> None:
    """Forget everything."""
    _known.clear()
