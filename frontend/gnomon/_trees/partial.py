"""Functions with arguments filled in, as pytrees."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any

from gnomon._trees.registry import register_pytree_node

__all__ = ["Partial"]


class _Opaque:
    """A `functools.partial` hidden in a plain callable, so that its arguments are not leaves.

    The callable compares equal to the partial.
    """

    def __init__(self, function: functools.partial[Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return self.function == (other.function if isinstance(other, _Opaque) else other)

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)


# No type argument: functools.partial takes none at run time.
class Partial(functools.partial):  # type: ignore[type-arg]
    """`functools.partial` as a node of trees: the bound arguments are its children.

    A compiled function that takes a `Partial` is compiled once for all values of these arguments.

    Example:
      >>> import gnomon as gn
      >>> add = Partial(lambda x, y: x + y, 1)
      >>> add(2)
      3
      >>> gn.tree_util.tree_leaves(add)
      [1]
    """

    def __new__(cls, func: Any, /, *args: Any, **kwargs: Any) -> Partial:
        # Python merges a partial of a partial. The static arguments that functools.partial has
        # bound would become leaves.
        if isinstance(func, functools.partial) and not isinstance(func, Partial):
            func = _Opaque(func)
        return super().__new__(cls, func, *args, **kwargs)


def _flatten_partial(partial: Any) -> tuple[tuple[Any, ...], Hashable]:
    return (partial.args, partial.keywords), partial.func


def _unflatten_partial(func: Any, children: Any) -> Partial:
    args, keywords = children
    return Partial(func, *args, **keywords)


register_pytree_node(Partial, _flatten_partial, _unflatten_partial)
