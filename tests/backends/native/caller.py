"""A minimal caller of the native signature cache, in the place of `jit`."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import numpy as np

from gnomon._native import UNCACHED, SignatureCache


class FakeArray:
    """A leaf that keeps its token, as `gnomon.Array` does."""

    __slots__ = ("_aval",)

    def __init__(self, aval: object = None) -> None:
        self._aval = aval


class Tracer:
    """A leaf that keeps a call from being looked up."""


@dataclasses.dataclass
class Point:
    x: Any
    y: Any
    label: str = ""


class Pair(collections.namedtuple("Pair", ["first", "second"])):
    __slots__ = ()


class Caller:
    """Makes caches, and counts their callbacks."""

    def __init__(self) -> None:
        self.tokens: dict[object, object] = {}
        self.abstractified: list[Any] = []
        self.flattened: list[Any] = []

    def token(self, description: object) -> object:
        return self.tokens.setdefault(description, ("token", description))

    def abstractify(self, leaf: Any) -> object:
        self.abstractified.append(leaf)
        if isinstance(leaf, Tracer):
            return UNCACHED
        if isinstance(leaf, FakeArray):
            return self.token("array without aval")
        if isinstance(leaf, (np.ndarray, np.generic)):
            if leaf.dtype == np.object_:
                raise TypeError("object arrays are not valid arguments")
            return self.token((np.shape(leaf), leaf.dtype))
        if isinstance(leaf, (bool, int, float, complex)):
            return self.token(type(leaf))
        raise TypeError(f"{type(leaf).__name__} is no valid argument")

    def flatten_custom(self, node: Any) -> tuple[Any, Any] | None:
        self.flattened.append(node)
        if isinstance(node, Point):
            return [node.x, node.y], node.label
        if isinstance(node, Pair):
            return node, None
        if isinstance(node, collections.OrderedDict):
            return list(node.values()), tuple(node)
        return None

    def cache(
        self, argnums: tuple[int, ...] = (), argnames: tuple[str, ...] = ()
    ) -> SignatureCache:
        return SignatureCache(self.abstractify, self.flatten_custom, FakeArray, argnums, argnames)
