"""Tracing of the functions that branches and loops take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray
from gnomon._tracing.bind import as_operand
from gnomon._tracing.function import Traced, rearranged, trace_function
from gnomon.dialects.body import Body
from gnomon.dialects.functions import Program
from gnomon.dialects.types import TensorType

__all__ = ["captures_first", "leaves_of", "path_to", "trace_body"]


def trace_body(
    fun: Callable[..., Any],
    what: str,
    in_tree: Any,
    avals: Sequence[ShapedArray],
    program: Program | None = None,
) -> Traced:
    """Trace a branch or the body of a loop; ``program`` is used if no trace is in progress."""

    def call(tracers: list[Any]) -> tuple[Any, Any]:
        return fun(*tree_util.tree_unflatten(in_tree, tracers)), None

    return trace_function(call, fun, what, avals, staging=True, program=program)


def captures_first(traced: Traced, types: Sequence[TensorType]) -> Body:
    """The body of a traced function, with its captures before its arguments, of ``types``."""
    count = len(traced.captures)
    order = [*range(count, count + len(types)), *range(count)]
    return rearranged(traced.body, order, [*(c.aval.type for c in traced.captures), *types])


def leaves_of(tree: Any, what: str) -> tuple[list[Array], Any]:
    """The leaves of a pytree as arrays, and its structure; ``TypeError`` if a leaf is no array."""
    leaves, structure = tree_util.tree_flatten(tree)
    try:
        return [as_operand(leaf) for leaf in leaves], structure
    except TypeError as error:
        raise TypeError(f"{what} must be a pytree of arrays: {error}") from error


def path_to(tree: Any, index: int) -> str:
    """The path of a leaf in a tree, for messages; empty if the tree is a single leaf."""
    dummy = tree_util.tree_unflatten(tree, list(range(tree.num_leaves)))
    path = tree_util.tree_flatten_with_path(dummy)[0][index][0]
    return tree_util.keystr(path)
