"""Functions with custom batching rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gnomon import lax, tree_util
from gnomon._transformations.custom_batching import custom_vmap

__all__ = ["custom_vmap", "sequential_vmap"]


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """A function whose `vmap` is a loop over the elements (`lax.map`).

    Use it for functions that cannot be vectorized, or whose vectorized form needs too much memory.

    Args:
      f: a function of arrays and pytrees of them, given by position.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> @gn.custom_batching.sequential_vmap
      ... def f(x):
      ...     gn.debug.print("{}", x)
      ...     return x + 1
      >>> gn.vmap(f)(gnp.arange(3))
      0
      1
      2
      Array([1, 2, 3], dtype=int32)
    """
    mapped = custom_vmap(f)

    @mapped.def_vmap
    def rule(axis_size: int, in_batched: list[Any], *args: Any) -> tuple[Any, Any]:
        leaves, tree = tree_util.tree_flatten(args)
        flags = tree_util.tree_leaves(in_batched)
        moving = [x for x, m in zip(leaves, flags, strict=True) if m]

        def element(slices: list[Any]) -> Any:
            given = iter(slices)
            full = [next(given) if m else x for x, m in zip(leaves, flags, strict=True)]
            return mapped(*tree_util.tree_unflatten(tree, full))

        out = lax.map(element, moving)
        return out, tree_util.tree_map(lambda _: True, out)

    return mapped
