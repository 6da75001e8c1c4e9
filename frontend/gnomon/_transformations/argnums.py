"""The arguments that ``argnums`` selects, and the checks of their dtypes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._tracing.bind import as_operand
from gnomon._tracing.function import name_of
from gnomon.dialects.types import is_complex, is_inexact

__all__ = ["ArgumentLeaves", "canonical_argnums", "differentiable"]


def canonical_argnums(argnums: Any) -> int | tuple[int, ...]:
    """``argnums`` as an int or a tuple of ints; raises ``TypeError`` for anything else."""
    alone = hasattr(argnums, "__index__") and not getattr(argnums, "ndim", 0)
    wanted = (argnums,) if alone else tuple(argnums) if isinstance(argnums, Iterable) else (None,)
    if any(isinstance(i, bool) or not hasattr(i, "__index__") for i in wanted):
        raise TypeError(f"argnums must be an int or a tuple of ints, got {argnums!r}")
    positions = tuple(operator.index(i) for i in wanted)
    return positions[0] if alone else positions


class ArgumentLeaves:
    """A call of ``fun`` as a function of the leaves of the arguments that ``argnums`` selects.

    Attributes:
      leaves: the leaves that the call was given.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        argnums: int | tuple[int, ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._fun, self._argnums, self._args, self._kwargs = fun, argnums, args, kwargs
        self.__name__ = name_of(fun)  # in messages
        self._positions = _positions(argnums, args, self.__name__)
        self._arguments = tuple(args[i] for i in self._positions)
        self.leaves, self._tree = tree_util.tree_flatten(self._arguments)

    def __call__(self, *leaves: Any) -> Any:
        """Call ``fun`` with these leaves in place of the given ones."""
        given = list(self._args)
        arguments = tree_util.tree_unflatten(self._tree, list(leaves))
        for i, argument in zip(self._positions, arguments, strict=True):
            given[i] = argument
        return self._fun(*given, **self._kwargs)

    def unflatten(self, pieces: Sequence[Any]) -> Any:
        """Unflatten one value per leaf into the structure of the selected arguments."""
        arguments = tree_util.tree_unflatten(self._tree, list(pieces))
        return arguments[0] if isinstance(self._argnums, int) else arguments

    def names(self) -> list[str]:
        """The names of the leaves in messages, such as ``argument 0['w']``."""
        named = []
        for (head, *rest), _ in tree_util.tree_flatten_with_path(self._arguments)[0]:
            named.append(f"argument {self._positions[head.idx]}{tree_util.keystr(tuple(rest))}")
        return named


def _positions(argnums: int | tuple[int, ...], args: tuple[Any, ...], name: str) -> list[int]:
    wanted = (argnums,) if isinstance(argnums, int) else argnums
    for i in wanted:
        if not -len(args) <= i < len(args):
            raise TypeError(
                f"cannot differentiate {name} with respect to argument {i}: the call has "
                f"{len(args)} positional arguments (argnums cannot name keyword arguments)"
            )
    positions = [i % len(args) for i in wanted]
    if len(set(positions)) < len(positions):
        raise ValueError(
            f"cannot differentiate {name} with respect to one argument twice: argnums={argnums!r} "
            f"of {len(args)} arguments"
        )
    return positions


def differentiable(leaf: Any, name: str, holomorphic: bool, allow_int: bool = False) -> Array:
    """Convert a leaf to an array, and check that its dtype can be differentiated.

    Args:
      leaf: the value of the leaf.
      name: the name of the transformation, for messages.
      holomorphic: whether the leaf must be complex.
      allow_int: whether the leaf may be an integer.
    Raises:
      TypeError: the leaf is not an array, or its dtype is not allowed.
    """
    array = as_operand(leaf)
    dtype = array.dtype
    if holomorphic and not is_complex(dtype):
        raise TypeError(
            f"{name} with holomorphic=True requires complex inputs, got {dtype.name}; cast the "
            "argument, or omit holomorphic"
        )
    if not is_inexact(dtype) and not allow_int:
        raise TypeError(
            f"{name} requires real- or complex-valued inputs (input dtype that is a sub-dtype of "
            f"np.floating or np.complexfloating), but got {dtype.name}. Pass a float (1.0, not 1; "
            "x.astype(float)), or omit the argument from argnums; grad and jacrev take "
            "allow_int=True for a zero derivative"
        )
    return array
