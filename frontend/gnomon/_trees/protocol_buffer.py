"""The structure of a tree as a protocol buffer, in the format of ``jaxlib``'s ``pytree.proto``.

The message has a field 1 for each node in postorder, and a field 2 for each string. A node has its
arity (1), its kind (2), and if it is a dictionary a message (3) of the positions of its keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

# The kinds of nodes, by optree's number.
_KINDS = {1: 1, 4: 2, 2: 3, 3: 4, 5: 5}
_DICTIONARY = 5


def encode_nodes(nodes: Iterable[tuple[Any, ...]]) -> bytes:
    """The nodes of a tree, in postorder, as a protocol buffer.

    Args:
      nodes: the kind, the arity and the static data of each node, and more that is not used.

    Raises:
      ValueError: a node is neither None, a list, a tuple, nor a dictionary with strings as keys.
    """
    strings: dict[str, int] = {}
    message = b"".join(_field(1, _encoded_node(node, strings)) for node in nodes)
    return message + b"".join(_field(2, text.encode()) for text in strings)


def _encoded_node(node: tuple[Any, ...], strings: dict[str, int]) -> bytes:
    kind, arity, keys, *_ = node
    if kind not in _KINDS:
        raise ValueError(
            "serialize_using_proto: user-defined nodes are not supported; convert them to lists, "
            "tuples or dictionaries, or pickle the structure"
        )
    encoded = _number(1, arity) if arity else b""
    encoded += _number(2, _KINDS[kind])
    if kind == _DICTIONARY and keys:
        if not all(isinstance(key, str) for key in keys):
            raise ValueError("serialize_using_proto: only strings are supported as keys")
        places = b"".join(_varint(strings.setdefault(key, len(strings))) for key in keys)
        encoded += _field(3, _field(1, places))
    return encoded


def _varint(number: int) -> bytes:
    """A number in base 128, lowest digits first, with a mark on all digits but the last."""

    def digits(rest: int) -> Iterator[int]:
        while rest > 127:
            yield rest & 127 | 128
            rest >>= 7
        yield rest

    return bytes(digits(number))


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _field(field: int, content: bytes) -> bytes:
    """A field whose content has a length: a message, a string, or packed numbers."""
    return _varint(field << 3 | 2) + _varint(len(content)) + content


__all__ = ["encode_nodes"]
