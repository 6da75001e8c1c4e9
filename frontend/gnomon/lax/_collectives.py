"""Collectives over the named axes that `shard_map`, `pmap` and `vmap` bind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._tracing.bind import as_operand, bind
from gnomon._tracing.stack import innermost_axis
from gnomon._tracing.unreduced import summed
from gnomon.dialects.contract import Op
from gnomon.dialects.emit import ops
from gnomon.dialects.types import BOOL
from gnomon.lax._grouped_axes import reduced_within_groups
from gnomon.lax._named_axes import (
    AxisName,
    axis_size,
    bind_over,
    checked_axes,
    entries_of,
    group_size,
    groups_of,
    is_dimension,
    names_of,
    varying_over,
    with_sums,
    with_vma,
)
from gnomon.lax._structural import canonical_axis

_INT32 = np.dtype(np.int32)

# ------------------------------------------------------------------------------------ varying axes


def pcast(x: Any, axis_name: AxisName, *, to: str) -> Any:
    """Cast values between the states that `shard_map` tracks in types, along mesh axes.

    With ``check_vma``, `shard_map` tracks in types over which axes a value may differ between
    members (`typeof`, ``vma``). Operations cast their operands where necessary, but loops do not:
    a carry that starts as zeros and becomes varying needs this cast.

    Args:
      x: a pytree of arrays.
      axis_name: an axis of the mesh, or a tuple of axes.
      to: ``"varying"`` casts values that are the same for all members, or reduced;
        ``"unreduced"`` casts varying values, which become the terms of a sum; ``"reduced"`` casts
        values that are the same for all members, and makes their cotangents unreduced.
    Returns:
      The same values. The cotangent of a value that is cast to varying is the sum of the members'
      cotangents, or unreduced if the value was reduced. Without ``check_vma`` nothing is tracked,
      and the result of a cast to varying is ``x``.
    Raises:
      ValueError: ``x`` is in another state, or ``to`` has another value.
      NameError: the name is not bound.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> mesh = gn.make_mesh((1,), ("x",))
      >>> def f(x):
      ...     return lax.psum(lax.pcast(x, "x", to="varying"), "x")
      >>> spec = gn.sharding.PartitionSpec()
      >>> gn.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec)(gnp.arange(2))
      Array([0, 1], dtype=int32)
    """
    if isinstance(axis_name, (set, frozenset)):
        raise TypeError(f"{axis_name=} must be a tuple or a str. Got {axis_name}")
    if to not in ("varying", "reduced", "unreduced"):
        raise ValueError(
            "Got unexpected `to` value. Allowed `to` values are: "
            f"{{'varying', 'reduced', 'unreduced'}}, got {to!r}"
        )
    names = names_of(axis_name)
    checked = checked_axes(names)

    def cast(leaf: Any) -> Any:
        value: Any = as_operand(leaf)
        states = {_state(value.aval, name) for name in names}
        if len(states) > 1:
            raise ValueError(
                "lax.pcast can only accept axis_name which corresponds to one of varying, "
                "invarying, unreduced or reduced state of the input."
                f" Got input type: {value.aval}, axes: {names} and "
                f"input state: {states}"
            )
        (state,) = states
        if (checked or to != "varying") and (state, to) not in _CASTS:
            raise ValueError(f"Unsupported pcast from={state}, to={to!r}")
        if to == "varying":
            return varying_over(value, names)
        if len(checked) < len(names):
            raise ValueError(f"pcast to={to!r} needs shard_map with check_vma=True")
        own = value.aval
        if to == "reduced":
            return with_sums(value, own.unreduced, own.reduced.union(names))
        return summed(value._trace, value, names)

    return tree_util.tree_map(cast, x) if names else x


# The supported casts, as pairs of a value's state and the state to cast to.
_CASTS = {
    ("invarying", "varying"),
    ("reduced", "varying"),
    ("invarying", "reduced"),
    ("varying", "unreduced"),
}


def _state(aval: Any, name: str) -> str:
    """The state of a value along an axis."""
    states = {"varying": aval.vma, "unreduced": aval.unreduced, "reduced": aval.reduced}
    return next((state for state, axes in states.items() if name in axes), "invarying")


def pvary(x: Any, axis_name: AxisName) -> Any:
    """Cast values to varying over mesh axes: `pcast` with ``to="varying"``.

    Args:
      x: a pytree of arrays that are the same for all members.
      axis_name: an axis of the mesh, or a tuple of axes.
    Returns:
      The same values.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> mesh = gn.make_mesh((1,), ("x",))
      >>> spec = gn.sharding.PartitionSpec()
      >>> sums = gn.shard_map(
      ...     lambda x: lax.psum(lax.pvary(x, "x"), "x"), mesh=mesh, in_specs=spec, out_specs=spec
      ... )
      >>> sums(gnp.arange(2))
      Array([0, 1], dtype=int32)
    """
    return pcast(x, axis_name, to="varying")


# -------------------------------------------------------------------------------------- reductions


def _reduce(kind: str, dimensions: Op, x: Any, axis_name: AxisName, groups: Any) -> Any:
    """Reduce over named axes, and over dimensions of the operand, which are given as ints."""
    entries = entries_of(axis_name)
    names = tuple(str(axis) for axis in entries if not is_dimension(axis))
    places = [axis for axis in entries if is_dimension(axis)]
    for name in names:
        innermost_axis([name])
    given = groups_of(kind, entries, groups)
    # Members of different groups get different values, so no result is invariant with groups.
    checked = () if given else checked_axes(names)
    others = tuple(name for name in names if name not in checked)

    def leaf(value: Any) -> Any:
        value = as_operand(value)
        if places:
            axes = tuple(sorted(canonical_axis(d, value.ndim) for d in places))
            value = bind(dimensions, value, axes=axes)
        unreduced = value.aval.unreduced
        if unreduced.intersection(names):
            _check_sum(kind, value, names, given)
            return with_sums(value, unreduced.difference(names), value.aval.reduced)
        value = varying_over(value, names)
        if given and len(names) > 1:
            return reduced_within_groups(dimensions, value, names, given, axis_index(names))
        if checked:
            vma = value.aval.vma.difference(checked)
            value = with_vma(bind_over(getattr(ops, f"{kind}_invariant"), checked, value), vma)
        return bind_over(getattr(ops, kind), others, value, groups=given) if others else value

    return tree_util.tree_map(leaf, x)


def _check_sum(kind: str, value: Any, names: Sequence[str], groups: Any) -> None:
    """Raise ``ValueError`` unless a reduction sums the terms of an unreduced value."""
    if kind != "psum" or groups or not value.aval.unreduced.issuperset(names):
        raise ValueError(
            f"{kind} over {tuple(names)} of a value of type {value.aval}: terms of a sum can only "
            "be summed, by psum over unreduced axes without groups"
        )


def psum(
    x: Any, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """The sum of ``x`` over the members of a mapped axis.

    Args:
      x: a pytree of arrays. The sum of a Python number is the Python number times the size of the
        axis. Booleans are counted.
      axis_name: a name that an enclosing `shard_map`, `pmap` or ``vmap(..., axis_name=...)``
        binds, or a tuple of names. The tuple may also hold ints, which are dimensions of ``x`` to
        sum over.
      axis_index_groups: lists of members; each member gets the sum over its own group.
    Returns:
      The sums, which are the same for all members of the axis or of a group.
    Raises:
      NameError: the name is not bound.
      ValueError: the groups do not cover the members once each.

    Example:
      >>> import gnomon as gn
      >>> gn.vmap(lambda x: x / psum(x, "i"), axis_name="i")(gn.numpy.arange(1.0, 5.0))
      Array([0.1, 0.2, 0.3, 0.4], dtype=float32)
    """
    if isinstance(x, (int, float, complex)) and not isinstance(x, bool):
        return x * group_size("psum", axis_name, axis_index_groups)

    def counted(leaf: Any) -> Any:
        value = as_operand(leaf)
        return bind(ops.convert, value, dtype=_INT32) if value.dtype == BOOL else value

    return _reduce(
        "psum", ops.reduce_sum, tree_util.tree_map(counted, x), axis_name, axis_index_groups
    )


def pmean(
    x: Any, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """The mean of ``x`` over the members of a mapped axis.

    Args:
      x: a pytree of arrays; means of integers are floating point numbers.
      axis_name: a bound name, or a tuple of names.
      axis_index_groups: lists of members; each group has a mean of its own.
    Raises:
      NameError: the name is not bound.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> gn.vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")(gnp.array([1.0, 5.0, 3.0]))
      Array([-2.,  2.,  0.], dtype=float32)

    See also:
      `psum`
    """
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    size = group_size("pmean", axis_name, axis_index_groups)
    return tree_util.tree_map(lambda leaf: leaf / size, total)


def pmax(
    x: Any, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """The largest of ``x`` over the members of a mapped axis.

    Args:
      x: a pytree of arrays.
      axis_name: a bound name, or a tuple of names.
      axis_index_groups: lists of members; each group has a maximum of its own.
    Raises:
      NameError: the name is not bound.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> gn.vmap(lambda x: x - lax.pmax(x, "i"), axis_name="i")(gnp.array([1, 5, 3]))
      Array([-4,  0, -2], dtype=int32)

    See also:
      `pmin`, `psum`
    """
    return _reduce("pmax", ops.reduce_max, x, axis_name, axis_index_groups)


def pmin(
    x: Any, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """The smallest of ``x`` over the members of a mapped axis.

    Args:
      x: a pytree of arrays.
      axis_name: a bound name, or a tuple of names.
      axis_index_groups: lists of members; each group has a minimum of its own.
    Raises:
      NameError: the name is not bound.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> gn.vmap(lambda x: x - lax.pmin(x, "i"), axis_name="i")(gnp.array([1, 5, 3]))
      Array([0, 4, 2], dtype=int32)

    See also:
      `pmax`, `psum`
    """
    return _reduce("pmin", ops.reduce_min, x, axis_name, axis_index_groups)


# ----------------------------------------------------------------------------------------- indices


def axis_index(axis_name: AxisName) -> Any:
    """The position of the member along a mapped axis, an int32 scalar.

    Args:
      axis_name: a bound name; or a tuple of names, for the position in the row-major order of all
        the axes.
    Raises:
      NameError: the name is not bound.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> gn.vmap(lambda x: x + lax.axis_index("i"), axis_name="i")(gnp.array([10, 10, 10]))
      Array([10, 11, 12], dtype=int32)

    See also:
      `axis_size`
    """
    position: Any = None
    for name in names_of(axis_name):
        axis = innermost_axis([name])
        index = axis.trace.bind(ops.axis_index, (), {"axes": (name,)})
        if axis.checked:
            index = with_vma(index, frozenset([name]))
        position = index if position is None else position * axis.size + index
    return position


__all__ = ["axis_index", "axis_size", "pcast", "pmax", "pmean", "pmin", "psum", "pvary"]
