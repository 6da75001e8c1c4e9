"""Collectives over the named axes that `vmap` binds."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._diagnostics.source_location import user_location
from gnomon._tracing.bind import as_operand, bind, trace_for
from gnomon._tracing.stack import NamedAxis, encloses, innermost_axis, state
from gnomon._tracing.trace import Trace
from gnomon.dialects.contract import Op
from gnomon.dialects.emit import constant, ops
from gnomon.dialects.types import BOOL
from gnomon.lax._creation import full_like
from gnomon.lax._elementwise import eq, select
from gnomon.lax._slicing import dynamic_index_in_dim
from gnomon.lax._structural import canonical_axis, reshape, transpose

AxisName = Any

_INT32 = np.dtype(np.int32)


def _entries(axis_name: AxisName) -> tuple[Any, ...]:
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def _names(axis_name: AxisName) -> tuple[str, ...]:
    return tuple(str(name) for name in _entries(axis_name))


def _is_dimension(axis: Any) -> bool:
    return isinstance(axis, int) and not isinstance(axis, bool)


def _anchor(trace: Trace, axis: NamedAxis) -> None:
    """Make what is traced inside of the vmap of an axis a part of that vmap.

    By its arguments alone it may be none: a jitted function of constants, say. It captures a value
    of the vmap, so nothing evaluates it outside or keeps it for a vmap of another size.
    """
    if axis.anchor is None:
        with axis.trace.ip, user_location():
            axis.anchor = axis.trace.tracer(constant(np.zeros((), np.int32)))
    trace.value(axis.anchor)


def _bind_over(op: Op, names: tuple[str, ...], operand: Any, **params: Any) -> Any:
    """Bind a collective, inside of the vmap that binds its axes even for unmapped operands."""
    axes = [innermost_axis([name]) for name in names]
    trace = trace_for((operand,))
    innermost = innermost_axis(names).trace
    if trace is None or not (trace is innermost or encloses(innermost, trace)):
        trace = innermost
    for axis in axes:
        if axis.trace is not trace:
            _anchor(trace, axis)
    return trace.bind(op, (operand,), {"axes": names, **params})


def _no_groups(name: str, groups: Any) -> None:
    if groups is not None:
        raise NotImplementedError(
            f"{name}: axis_index_groups is not supported under vmap; map two axes instead, of the "
            "groups and of their members"
        )


# -------------------------------------------------------------------------------------- reductions


def _reduce(op: Op, dimensions: Op, x: Any, axis_name: AxisName) -> Any:
    """A reduction over named axes, and over dimensions of the operand, which are given as ints."""
    entries = _entries(axis_name)
    names = tuple(str(axis) for axis in entries if not _is_dimension(axis))
    places = [axis for axis in entries if _is_dimension(axis)]

    def leaf(value: Any) -> Any:
        value = as_operand(value)
        if places:
            axes = tuple(sorted(canonical_axis(d, value.ndim) for d in places))
            value = bind(dimensions, value, axes=axes)
        return _bind_over(op, names, value) if names else value

    for name in names:
        innermost_axis([name])
    return tree_util.tree_map(leaf, x)


def psum(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The sum of ``x`` over the members of a mapped axis.

    Args:
      x: a pytree of arrays. For a Python number the result is it times the axis size, a Python
        number. Booleans are counted.
      axis_name: a name that an enclosing ``vmap(..., axis_name=...)`` binds, or a tuple of names.
        Ints among them are dimensions of ``x``, which are summed over too.
      axis_index_groups: None; groups are not supported under ``vmap``, but for a Python number.
    Returns:
      The sums, the same for all members.
    Raises:
      NameError: the name is not bound.

    Example:
      >>> import gnomon as gn
      >>> gn.vmap(lambda x: x / psum(x, "i"), axis_name="i")(gn.numpy.arange(1.0, 5.0))
      Array([0.1, 0.2, 0.3, 0.4], dtype=float32)
    """
    if isinstance(x, (int, float, complex)) and not isinstance(x, bool):
        size = axis_size(axis_name)
        return x * (size if axis_index_groups is None else len(axis_index_groups[0]))
    _no_groups("psum", axis_index_groups)

    def counted(leaf: Any) -> Any:
        value = as_operand(leaf)
        return bind(ops.convert, value, dtype=_INT32) if value.dtype == BOOL else value

    return _reduce(ops.psum, ops.reduce_sum, tree_util.tree_map(counted, x), axis_name)


def pmean(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The mean of ``x`` over the members of a mapped axis; see `psum`."""
    _no_groups("pmean", axis_index_groups)
    total = psum(x, axis_name)
    size = axis_size(axis_name)
    return tree_util.tree_map(lambda leaf: leaf / size, total)


def pmax(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The largest of ``x`` over the members of a mapped axis; see `psum`."""
    _no_groups("pmax", axis_index_groups)
    return _reduce(ops.pmax, ops.reduce_max, x, axis_name)


def pmin(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The smallest of ``x`` over the members of a mapped axis; see `psum`."""
    _no_groups("pmin", axis_index_groups)
    return _reduce(ops.pmin, ops.reduce_min, x, axis_name)


# ----------------------------------------------------------------------------------------- indices


def axis_index(axis_name: AxisName) -> Any:
    """The position of the member along a mapped axis, an int32 scalar.

    For a tuple of names, the position in row-major order of the axes together.
    """
    position: Any = None
    for name in _names(axis_name):
        axis = innermost_axis([name])
        index = axis.trace.bind(ops.axis_index, (), {"axes": (name,)})
        position = index if position is None else position * axis.size + index
    return position


def axis_size(axis_name: AxisName) -> int:
    """The size of a mapped axis, or of several together."""
    return math.prod(_sizes(_names(axis_name)))


# ------------------------------------------------------------------------------- movements of data


def _each(function: Callable[[Array], Any], x: Any) -> Any:
    return tree_util.tree_map(lambda leaf: function(as_operand(leaf)), x)


def _sizes(names: tuple[str, ...]) -> list[int]:
    axes = [innermost_axis([name]) for name in names]
    for axis in axes:  # what is staged now holds for these sizes
        if state.staging is not None and encloses(axis.trace, state.staging):
            _anchor(state.staging, axis)
    return [axis.size for axis in axes]


def _divided(name: str, x: Array, dimension: int, size: int, tiled: bool) -> int:
    """The size of a dimension over that of the named axes, by which it must be divisible."""
    length = x.shape[dimension]
    if length % size or (not tiled and length != size):
        wanted = "a multiple of the size of" if tiled else "the same size as"
        raise ValueError(
            f"{name}: dimension {dimension} of an array of shape {x.shape} must have {wanted} the "
            f"named axes, {size}" + ("" if tiled else "; or give tiled=True")
        )
    return length // size


def _split(x: Array, dimension: int, *sizes: int) -> Array:
    """A dimension as several."""
    return reshape(x, (*x.shape[:dimension], *sizes, *x.shape[dimension + 1 :]))


def _merge(x: Array, dimension: int, count: int) -> Array:
    """Several adjacent dimensions as one."""
    size = math.prod(x.shape[dimension : dimension + count])
    return reshape(x, (*x.shape[:dimension], size, *x.shape[dimension + count :]))


def _moved(x: Array, source: int, destination: int) -> Array:
    order = [d for d in range(x.ndim) if d != source]
    order.insert(destination, source)
    return transpose(x, order)


def all_gather(
    x: Any,
    axis_name: AxisName,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """The values of ``x`` of all members of a mapped axis.

    Args:
      x: a pytree of arrays.
      axis_name: a bound name, or a tuple of names, whose members are taken in row-major order.
      axis_index_groups: None; groups are not supported under ``vmap``.
      axis: the dimension of the result that enumerates the members.
      tiled: False makes a new dimension; True concatenates along an existing one.
      to: ``"varying"`` or ``"invarying"``: the same under ``vmap``.
    Raises:
      NameError: the name is not bound.

    Example:
      >>> import gnomon as gn
      >>> gn.vmap(lambda x: all_gather(x, "i"), axis_name="i")(gn.numpy.arange(2))
      Array([[0, 1],
             [0, 1]], dtype=int32)
    """
    _no_groups("all_gather", axis_index_groups)
    if to not in ("varying", "invarying"):
        raise ValueError(f"all_gather: to must be 'varying' or 'invarying', got {to!r}")
    names = _names(axis_name)

    def gather(leaf: Array) -> Array:
        rank = leaf.ndim if tiled else leaf.ndim + 1
        dimension = canonical_axis(operator.index(axis), rank)
        for name, size in zip(reversed(names), reversed(_sizes(names)), strict=True):
            leaf = _bind_over(ops.all_gather, (name,), leaf, dimension=dimension, size=size)
        return _merge(leaf, dimension, len(names) + tiled)

    return _each(gather, x)


def psum_scatter(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """The sum over the members of a mapped axis, of which each member keeps its own slice.

    Args:
      x: a pytree of arrays.
      axis_name: a bound name, or a tuple of names.
      scatter_dimension: the dimension whose slices are distributed.
      axis_index_groups: None; groups are not supported under ``vmap``.
      tiled: False drops the dimension, which has the size of the axis; True keeps it, divided.
    Raises:
      NameError: the name is not bound.
      ValueError: the dimension has another size.
    """
    _no_groups("psum_scatter", axis_index_groups)
    names = _names(axis_name)

    def scatter(leaf: Array) -> Array:
        dimension = canonical_axis(operator.index(scatter_dimension), leaf.ndim)
        sizes = _sizes(names)
        chunk = _divided("psum_scatter", leaf, dimension, math.prod(sizes), tiled)
        leaf = _split(leaf, dimension, *sizes, *((chunk,) if tiled else ()))
        for name, size in zip(names, sizes, strict=True):
            leaf = _bind_over(ops.psum_scatter, (name,), leaf, dimension=dimension, size=size)
        return leaf

    return _each(scatter, x)


def all_to_all(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Exchange a mapped axis with a dimension.

    Args:
      x: a pytree of arrays.
      axis_name: a bound name, or a tuple of names.
      split_axis: the dimension whose slices are distributed over the members.
      concat_axis: the dimension of the result along which the members are joined.
      axis_index_groups: None; groups are not supported under ``vmap``.
      tiled: False drops ``split_axis``, which has the size of the named axis, and makes a new
        dimension; True divides it, and concatenates along ``concat_axis``.
    Raises:
      NameError: the name is not bound.
      ValueError: ``split_axis`` has another size.
    """
    _no_groups("all_to_all", axis_index_groups)
    names = _names(axis_name)

    def exchange(leaf: Array) -> Array:
        split = canonical_axis(operator.index(split_axis), leaf.ndim)
        concat = canonical_axis(operator.index(concat_axis), leaf.ndim)
        sizes = _sizes(names)
        chunk = _divided("all_to_all", leaf, split, math.prod(sizes), tiled)
        # In front the dimension is exchanged in place, then what was gathered goes where it should.
        leaf = _split(_moved(leaf, split, 0), 0, *sizes, *((chunk,) if tiled else ()))
        for k, (name, size) in enumerate(zip(names, sizes, strict=True)):
            leaf = _bind_over(ops.all_to_all, (name,), leaf, split=k, concat=k, size=size)
        leaf = _merge(leaf, 0, len(names))
        if not tiled:
            return _moved(leaf, 0, concat)
        return _merge(_moved(_moved(leaf, 1, split + 1), 0, concat), concat, 2)

    return _each(exchange, x)


def pswapaxes(x: Any, axis_name: AxisName, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Exchange a mapped axis with the dimension ``axis``, of the same size; see `all_to_all`."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def _pairs(perm: Any, size: int) -> list[tuple[int, int]]:
    pairs = [(operator.index(source), operator.index(target)) for source, target in perm]
    for side, what in zip(zip(*pairs, strict=True), ("source", "destination"), strict=False):
        if len(set(side)) != len(side):
            raise ValueError(f"ppermute: perm has a {what} twice: {perm}")
        if not all(0 <= index < size for index in side):
            raise ValueError(f"ppermute: perm names members beyond the {size} of the axis: {perm}")
    return pairs


def ppermute(x: Any, axis_name: AxisName, perm: Any) -> Any:
    """The values of other members of a mapped axis.

    Args:
      x: a pytree of arrays.
      axis_name: a bound name, or a tuple of names, whose members are counted in row-major order.
      perm: pairs (source, destination) of members. A member that is no destination gets zeros.
    Raises:
      NameError: the name is not bound.
      ValueError: a source or a destination occurs twice, or there is no such member.

    Example:
      >>> import gnomon as gn
      >>> shift = lambda x: ppermute(x, "i", [(0, 1), (1, 2), (2, 0)])
      >>> gn.vmap(shift, axis_name="i")(gn.numpy.arange(3))
      Array([2, 0, 1], dtype=int32)
    """
    names = _names(axis_name)
    size = axis_size(axis_name)
    pairs = _pairs(perm, size)
    if len(names) == 1:
        return _each(lambda leaf: _bind_over(ops.ppermute, names, leaf, permutation=pairs), x)
    sources = np.full(size, size, np.int32)
    for source, target in pairs:
        sources[target] = source
    mine = dynamic_index_in_dim(sources, axis_index(axis_name), 0, keepdims=False)

    def permute(leaf: Array) -> Array:
        gathered = all_gather(leaf, axis_name)
        moved = dynamic_index_in_dim(gathered, mine, 0, keepdims=False)
        return select(eq(mine, _INT32.type(size)), full_like(leaf, 0), moved)

    return _each(permute, x)


def pshuffle(x: Any, axis_name: AxisName, perm: Any) -> Any:
    """The values of other members of a mapped axis: member i gets that of member ``perm[i]``.

    Args:
      x, axis_name: as of `ppermute`.
      perm: each member once.
    Raises:
      ValueError: ``perm`` is no permutation.
    """
    sources = [operator.index(source) for source in perm]
    if sorted(sources) != list(range(len(sources))):
        raise ValueError(f"pshuffle: perm does not represent a permutation: {perm}")
    return ppermute(x, axis_name, list(zip(sources, range(len(sources)), strict=True)))


def pbroadcast(x: Any, axis_name: AxisName, source: int) -> Any:
    """The value of one member of a mapped axis, for all members.

    Args:
      x, axis_name: as of `ppermute`.
      source: the member.
    Raises:
      NameError: the name is not bound.
      ValueError: there is no such member.
    """
    member = operator.index(source)
    size = axis_size(axis_name)
    if not 0 <= member < size:
        raise ValueError(f"pbroadcast: the axis has {size} members, there is no member {member}")

    def broadcast(leaf: Array) -> Array:
        return dynamic_index_in_dim(all_gather(leaf, axis_name), member, 0, keepdims=False)

    return _each(broadcast, x)


__all__ = [
    "all_gather",
    "all_to_all",
    "axis_index",
    "axis_size",
    "pbroadcast",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "pshuffle",
    "psum",
    "psum_scatter",
    "pswapaxes",
]
