"""Symbolic shapes: `symbolic_shape` and `symbolic_args_specs`."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from gnomon import tree_util
from gnomon._compilation.stages import ShapeDtypeStruct, aval_of
from gnomon._trees.flatten import tree_broadcast
from gnomon.dialects.symbolic.dimension import Dimension, SymbolicScope
from gnomon.dialects.symbolic.parsing import parse_shape

__all__ = ["symbolic_args_specs", "symbolic_dim_bounds", "symbolic_shape"]


def _scope(constraints: Sequence[str], scope: SymbolicScope | None) -> SymbolicScope:
    if scope is None:
        return SymbolicScope(constraints)
    if not isinstance(scope, SymbolicScope):
        raise TypeError(f"scope must be a SymbolicScope or None, got {scope!r}")
    if constraints:
        raise ValueError("Cannot specify both a `scope` and `constraints`.")
    return scope


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple[Any, ...]:
    """Make a shape with symbolic dimensions, for the arguments of `export`.

    Args:
      shape_spec: dimensions separated by commas: expressions of integers and names of variables,
        with ``+``, ``-``, ``*``, ``^``, ``floordiv(x, y)``, ``mod(x, y)``, ``max(x, y)`` and
        ``min(x, y)``. ``_`` is the size of ``like`` at that position, a final ``...`` all its
        remaining sizes. None means ``"..."``. Variables are at least 1.
      constraints: relations that hold: two expressions with ``==``, ``>=`` or ``<=`` between them.
        Calls check them.
      scope: the scope of the variables; give that of another shape to use the same variables.
      like: the shape that provides the sizes for ``_`` and ``...``.

    Returns:
      A tuple of integers and dimensions, to use as ``shape`` of a `ShapeDtypeStruct`.
    Raises:
      ValueError: the text is not a valid shape.

    Example:
      >>> from gnomon import export
      >>> export.symbolic_shape("b, 2*b + 1, 3")
      (b, 2*b + 1, 3)
    """
    chosen = _scope(constraints, scope)
    found = parse_shape(shape_spec, like, chosen.normalize)
    return tuple(chosen.dimension(n) if isinstance(n, tuple) else n for n in found)


def symbolic_args_specs(
    args: Any,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """Types with symbolic shapes for the arguments of `export`.

    Args:
      args: a tree of arrays, or of anything with a shape and a dtype.
      shapes_specs: texts as `symbolic_shape` takes them, in the structure of ``args`` or a prefix
        of it. None keeps the shape.
      constraints, scope: see `symbolic_shape`.

    Returns:
      A tree of `ShapeDtypeStruct`.
    Raises:
      ValueError: a text is not a valid shape, or the structures differ.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import export
      >>> export.symbolic_args_specs((gnp.ones((3, 4)), gnp.ones(3)), "b, ...")
      (ShapeDtypeStruct(shape=(b, 4), dtype=float32), ShapeDtypeStruct(shape=(b,), dtype=float32))
    """
    chosen = _scope(constraints, scope)
    leaves, tree = tree_util.tree_flatten(args)
    specs = tree_util.tree_leaves(
        tree_broadcast(shapes_specs, args, is_leaf=_is_none), is_leaf=_is_none
    )
    types = []
    for leaf, spec in zip(leaves, specs, strict=True):
        if spec is not None and not isinstance(spec, str):
            raise ValueError(f"polymorphic shape spec should be None or a string. Found {spec!r}.")
        aval = aval_of(leaf)
        shape = symbolic_shape(spec, scope=chosen, like=aval.shape)
        types.append(ShapeDtypeStruct(shape, aval.dtype))
    return tree_util.tree_unflatten(tree, types)


def symbolic_dim_bounds(dimension: Any) -> tuple[float, float]:
    """The bounds that can be proved for a dimension. They are correct, but not always tight.

    A variable is at most 2**31 - 1, which calls check, unless a constraint says less.

    Args:
      dimension: an integer or a symbolic dimension.

    Returns:
      The least and the greatest value, integers; -inf or inf if no bound is known.
    Raises:
      TypeError: the argument is not a dimension.

    Example:
      >>> from gnomon import export
      >>> b, c = export.symbolic_shape("b, 2*b + 1", constraints=["b >= 2", "b <= 8"])
      >>> export.symbolic_dim_bounds(c)
      (5, 17)
    """
    if not isinstance(dimension, Dimension):
        try:
            size = operator.index(dimension)
        except TypeError as error:
            raise TypeError(
                f"symbolic_dim_bounds takes an integer or a symbolic dimension, got {dimension!r}"
            ) from error
        return size, size
    low, high = dimension.scope.bounds(dimension.polynomial)
    least = -math.inf if math.isinf(low) else math.ceil(low)
    greatest = math.inf if math.isinf(high) else math.floor(high)
    return least, greatest


def _is_none(x: Any) -> bool:
    return x is None
