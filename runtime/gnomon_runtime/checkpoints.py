"""The state of a program in a file: `save_state` and `load_state`, as safetensors.

An array's name is its path in the state, such as ``params/0/w``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon_runtime.errors import CheckpointError
from gnomon_runtime.safetensors import read_safetensors, write_safetensors
from gnomon_runtime.tree import Opaque

__all__ = ["load_state", "save_state"]


def _rebuilt(value: Any, path: str, leaf: Callable[[str, Any], Any]) -> Any:
    """The same containers with other leaves."""

    def child(key: Any, part: Any) -> Any:
        return _rebuilt(part, f"{path}/{key}" if path else str(key), leaf)

    if value is None:
        return None
    if isinstance(value, dict):
        return type(value)((key, child(key, part)) for key, part in value.items())
    if isinstance(value, Opaque):
        children = tuple(child(i, part) for i, part in enumerate(value.children))
        return value._replace(children=children)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(child, value._fields, value))
    if isinstance(value, (list, tuple)):
        return type(value)(child(i, part) for i, part in enumerate(value))
    if not hasattr(value, "__array__") and not isinstance(value, (bool, int, float, complex)):
        raise TypeError(
            f"{path or 'the state'} is neither an array nor a container of arrays: {value!r}"
        )
    return leaf(path or "state", value)


def save_state(path: str | os.PathLike[str], state: Any) -> None:
    """Write the arrays of a state to a file of safetensors, which is replaced atomically.

    Args:
      path: the path of the file.
      state: arrays in dictionaries, lists, tuples and named tuples, such as a program's results.

    Raises:
      TypeError: there is something else in it.
      CheckpointError: the format has no such dtype, or two arrays would have the same name.
    """
    found: dict[str, np.ndarray[Any, Any]] = {}

    def add(name: str, value: Any) -> None:
        if name in found:
            raise CheckpointError(f"{os.fspath(path)}: two arrays would be named {name!r}")
        found[name] = np.asarray(value)

    _rebuilt(state, "", add)
    write_safetensors(path, found)


def load_state(path: str | os.PathLike[str], like: Any) -> Any:
    """The state that `save_state` wrote, as NumPy arrays.

    Args:
      path: the path of the file.
      like: a state of the same structure, shapes and dtypes, such as the result of ``init``.

    Raises:
      CheckpointError: the file is damaged, or holds other arrays.
    """
    found = read_safetensors(path)

    def take(name: str, value: Any) -> np.ndarray[Any, Any]:
        wanted, given = np.asarray(value), found.pop(name, None)
        if given is None:
            raise CheckpointError(f"{os.fspath(path)} has no array {name!r}")
        if given.shape != wanted.shape or given.dtype != wanted.dtype:
            raise CheckpointError(
                f"{os.fspath(path)}: {name!r} is {given.dtype}{list(given.shape)}, but the state "
                f"has {wanted.dtype}{list(wanted.shape)}"
            )
        return given

    state = _rebuilt(like, "", take)
    if found:
        raise CheckpointError(
            f"{os.fspath(path)} has arrays that the state does not have: {_few(found)}"
        )
    return state


def _few(names: dict[str, Any]) -> str:
    shown = list(names)
    return ", ".join(shown[:5]) + (", ..." if len(shown) > 5 else "")
