"""Keys: how a path through a tree names each step, and how a path is printed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "SequenceKey",
    "keystr",
]


@dataclass(frozen=True)
class SequenceKey:
    """An element of a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclass(frozen=True)
class DictKey:
    """A value of a dictionary."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass(frozen=True)
class GetAttrKey:
    """An attribute: a field of a named tuple or dataclass."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclass(frozen=True)
class FlattenedIndexKey:
    """A child, by number, of a node that does not name its children."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key!r}>]"


KeyEntry = Any
KeyPath = tuple[Any, ...]


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as text.

    Args:
      keys: a path, as `tree_flatten_with_path` gives it.
      simple: only the names of the keys, without brackets and dots.
      separator: the text between the keys.

    Example:
      >>> keystr((DictKey("w"), SequenceKey(0), GetAttrKey("x")))
      "['w'][0].x"
      >>> keystr((DictKey("w"), SequenceKey(0)), simple=True, separator="/")
      'w/0'
    """
    return separator.join(_simple(key) if simple else str(key) for key in keys)


def _simple(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)
