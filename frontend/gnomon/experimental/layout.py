"""Layouts: the order of an array's elements in the memory of a device."""

from __future__ import annotations

from typing import Any

from gnomon import tree_util
from gnomon._sharding.layout import Format, Layout, check_layout
from gnomon._tracing.bind import as_operand
from gnomon._trees.prefixes import broadcast_prefix

__all__ = ["Format", "Layout", "with_layout_constraint"]


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """Constrain the layout of arrays inside of a program.

    Args:
      x: a pytree of arrays.
      layouts: a `Layout`, or a pytree of layouts that is a prefix of ``x``.
    Returns:
      ``x``, whose arrays have the layouts already: all arrays are row-major.
    Raises:
      ValueError: ``layouts`` contains something other than layouts, is not a prefix of ``x``, or
        contains a layout whose rank is not that of its array.
      NotImplementedError: a layout is not row-major.

    Example:
      >>> import gnomon as gn
      >>> from gnomon.experimental.layout import Layout, with_layout_constraint
      >>> f = gn.jit(lambda x: with_layout_constraint(x.T, Layout((0, 1))) * 2)
      >>> f(gn.numpy.ones((2, 3))).shape
      (3, 2)
    """
    leaves, tree = tree_util.tree_flatten(x)
    wanted = broadcast_prefix(
        layouts,
        x,
        lambda leaf: isinstance(leaf, Layout),
        prefix_name="with_layout_constraint: layouts",
        full_name="x",
    )
    arrays = [as_operand(leaf) for leaf in leaves]
    for array, layout in zip(arrays, wanted, strict=True):
        if not isinstance(layout, Layout):
            raise ValueError(f"with_layout_constraint takes layouts, got {layout!r}")
        check_layout("with_layout_constraint", layout, array.shape)
    return tree_util.tree_unflatten(tree, arrays)
