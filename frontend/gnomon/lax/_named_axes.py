"""The mapped axes of collectives: names, sizes, varying axes, groups of members."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._diagnostics.source_location import user_location
from gnomon._tracing import unreduced as unreduced_types
from gnomon._tracing.bind import as_operand, trace_for
from gnomon._tracing.forbidden_collectives import check_collective
from gnomon._tracing.stack import NamedAxis, encloses, innermost_axis, state
from gnomon._tracing.trace import Trace
from gnomon.dialects.contract import Op
from gnomon.dialects.emit import constant, ops

AxisName = Any


def entries_of(axis_name: AxisName) -> tuple[Any, ...]:
    """One axis or several axes as a tuple."""
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def names_of(axis_name: AxisName) -> tuple[str, ...]:
    """One name or several names as a tuple of strings."""
    return tuple(str(name) for name in entries_of(axis_name))


def is_dimension(axis: Any) -> bool:
    """Whether an axis is a dimension of the operand, not a name."""
    return isinstance(axis, int) and not isinstance(axis, bool)


def _anchor(trace: Trace, axis: NamedAxis) -> None:
    """Make operations that are traced inside of the vmap of an axis depend on that vmap.

    Their operands may not depend on the vmap, for example in a jitted function of constants. So
    capture a value of the vmap: then the operations are neither evaluated outside of the vmap nor
    reused for a vmap of another size.
    """
    if axis.anchor is None:
        with axis.trace.ip, user_location():
            axis.anchor = axis.trace.tracer(constant(np.zeros((), np.int32)))
    trace.value(axis.anchor)


def bind_over(op: Op, names: tuple[str, ...], operand: Any, **params: Any) -> Any:
    """Bind a collective inside of the vmap that binds its axes, even if no operand is mapped."""
    if op is not ops.pvary:
        check_collective(op.full_name.removeprefix("gnomon."), names)
    axes = [innermost_axis([name]) for name in names]
    trace = trace_for((operand,))
    innermost = innermost_axis(names).trace
    if trace is None or not (trace is innermost or encloses(innermost, trace)):
        trace = innermost
    for axis in axes:
        if axis.trace is not trace:
            _anchor(trace, axis)
    return trace.bind(op, (operand,), {"axes": names, **params})


def axis_size(axis_name: AxisName) -> int:
    """The size of a mapped axis, or the product of the sizes of several axes.

    Args:
      axis_name: a bound name, or a tuple of names.
    Returns:
      A Python int.
    Raises:
      NameError: the name is not bound.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> gn.vmap(lambda x: x / lax.axis_size("i"), axis_name="i")(gnp.array([4.0, 8.0]))
      Array([2., 4.], dtype=float32)

    See also:
      `axis_index`
    """
    return math.prod(sizes_of(names_of(axis_name)))


def sizes_of(names: tuple[str, ...]) -> list[int]:
    """The sizes of axes."""
    axes = [innermost_axis([name]) for name in names]
    for axis in axes:  # the operations staged now depend on these sizes
        if state.staging is not None and encloses(axis.trace, state.staging):
            _anchor(state.staging, axis)
    return [axis.size for axis in axes]


def checked_axes(names: Sequence[str]) -> tuple[str, ...]:
    """The names whose axes are tracked in the types of values."""
    return tuple(name for name in names if innermost_axis([name]).checked)


def with_vma(array: Any, vma: frozenset[str]) -> Any:
    """A traced array with the given varying axes in its type."""
    if array.aval.vma == vma:
        return array
    return array._trace.tracer(
        array._ssa, array.weak_type, array._location, vma, array.aval.explicit
    )


def varying_over(array: Any, names: Sequence[str]) -> Any:
    """Cast an array to vary over those of the given axes that types track."""
    missing = tuple(sorted(set(checked_axes(names)) - array.aval.vma))
    if not missing:
        return array
    aval = array.aval
    if unreduced := sorted(aval.unreduced.intersection(missing)):
        raise ValueError(
            f"a value of type {aval} is unreduced over {unreduced}, and cannot become varying. "
            "Sum it first, with gnomon.lax.psum"
        )
    if aval.reduced.intersection(missing):
        array = with_sums(array, aval.unreduced, aval.reduced.difference(missing))
    varying = bind_over(ops.pvary, missing, array)
    return with_vma(varying, aval.vma.union(missing))


def with_sums(array: Any, unreduced: frozenset[Any], reduced: frozenset[Any]) -> Any:
    """A traced array with other unreduced and reduced axes in its type."""
    trace = trace_for((array,)) or innermost_axis(names_of((*unreduced, *reduced))).trace
    return unreduced_types.with_sums(trace, array, unreduced, reduced)


# ------------------------------------------------------------------------------------------ groups

Groups = tuple[tuple[int, ...], ...]


def groups_of(what: str, names: Sequence[Any], groups: Any, *, equal: bool = False) -> Groups:
    """The groups of members as tuples; an empty tuple for None.

    Members of several axes together are numbered in row-major order.

    Raises:
      ValueError: the groups do not cover each member once, or differ in size where they must not.
    """
    if groups is None:
        return ()
    if any(map(is_dimension, names)):
        raise ValueError(f"{what}: axis_index_groups only supported over just named axes")
    found = tuple(tuple(operator.index(i) for i in group) for group in groups)
    size = axis_size(tuple(names))
    if sorted(i for group in found for i in group) != list(range(size)):
        raise ValueError(
            f"{what}: axis_index_groups must cover all indices exactly once, got {groups} for "
            f"{size} members"
        )
    if equal and len({len(group) for group in found}) > 1:
        raise ValueError(f"{what}: axis_index_groups must all be the same size, got {groups}")
    return found


def group_size(what: str, axis_name: AxisName, groups: Any) -> int:
    """The number of members of a group, or of the axis if there are no groups."""
    if groups is None:
        return axis_size(axis_name)
    return len(groups_of(what, entries_of(axis_name), groups)[0])


def each_leaf(function: Callable[[Array], Any], x: Any) -> Any:
    """Apply a function to each leaf of a pytree, converted to an array."""
    return tree_util.tree_map(lambda leaf: function(as_operand(leaf)), x)
