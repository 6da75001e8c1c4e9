"""Static arguments and static data of trees as parts of the keys of programs.

A program may depend on anything that Python tells it about a static value, so values that are
equal but not the same must not share a program: `2` and `2.0`, `True` and `1`, `0.0` and `-0.0`,
alone or inside of containers and dataclasses. Objects of other classes are compared by ``==``.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import struct
from collections.abc import Hashable
from typing import Any

import numpy as np

from gnomon._arrays.array import Array
from gnomon._arrays.extended import ExtendedArray
from gnomon._native import set_comparison, strictly_equal
from gnomon._trees.flatten import PyTreeDef

__all__ = ["StaticData", "copied", "static_key", "structure_key"]


class StaticData:
    """A value that equals another one only if no program can distinguish them."""

    __slots__ = ("_data", "_hash")

    def __init__(self, data: Any, hash_: int) -> None:
        self._data = data
        self._hash = hash_

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticData) and strictly_equal(self._data, other._data)

    def __hash__(self) -> int:
        return self._hash


def static_key(data: Hashable) -> StaticData:
    """A key for static data; raises ``TypeError`` if it cannot be hashed."""
    return StaticData(data, hash(data))


def copied(data: Any) -> StaticData:
    """A key for static data that cannot be hashed, such as a dictionary.

    The data is copied, since the original may change after the call. All of these keys have the
    same hash, so a lookup compares them.
    """
    return StaticData(copy.deepcopy(data), 0)


def structure_key(tree: PyTreeDef) -> StaticData:
    """A key for the structure of a tree; it stays the same if static data change later."""
    nodes = _nodes(tree)
    try:
        return static_key(nodes)
    except TypeError:
        return copied(nodes)


def _nodes(tree: PyTreeDef) -> tuple[Any, ...]:
    return tuple(
        (kind, arity, tuple(data) if type(data) is list else data, type_)
        for kind, arity, data, _, type_, *_ in tree._nodes()
    )


# Immutable objects whose ``==`` ignores some of what they hold. ``repr`` shows everything.
_SHOWN = (decimal.Decimal, range, datetime.datetime, datetime.time)


def _equal(a: Any, b: Any) -> bool:
    """Whether no program can distinguish two different objects of one class."""
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(strictly_equal, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and all(map(strictly_equal, a.items(), b.items()))
    if isinstance(a, (set, frozenset)):
        others = {x: x for x in b}
        return len(a) == len(b) and all(x in others and strictly_equal(x, others[x]) for x in a)
    if isinstance(a, (np.ndarray, np.generic)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.hasobject:
            return strictly_equal(a.tolist(), b.tolist())
        return a.tobytes() == b.tobytes()
    if isinstance(a, ExtendedArray):
        return a.dtype == b.dtype and strictly_equal(a.words, b.words)
    if isinstance(a, Array):
        return a.aval == b.aval and strictly_equal(np.asarray(a), np.asarray(b))
    if isinstance(a, PyTreeDef):
        return strictly_equal(_nodes(a), _nodes(b))
    if isinstance(a, (float, complex)):
        return _bits(a) == _bits(b)
    if a != b:
        return False
    if isinstance(a, _SHOWN):
        return repr(a) == repr(b)
    if dataclasses.is_dataclass(a):
        names = [field.name for field in dataclasses.fields(a) if field.compare]
        return all(strictly_equal(getattr(a, n, None), getattr(b, n, None)) for n in names)
    return True


def _bits(value: complex) -> bytes:
    return struct.pack("dd", value.real, value.imag)


set_comparison(_equal)
