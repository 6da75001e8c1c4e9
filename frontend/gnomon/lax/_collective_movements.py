"""Collectives that move data between the members of named axes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import as_operand
from gnomon.dialects.emit import ops
from gnomon.lax._collectives import axis_index, psum
from gnomon.lax._creation import full_like
from gnomon.lax._elementwise import eq
from gnomon.lax._grouped_axes import own_position, reduced_within_groups, values_of_group
from gnomon.lax._named_axes import (
    AxisName,
    Groups,
    axis_size,
    bind_over,
    checked_axes,
    each_leaf,
    entries_of,
    groups_of,
    names_of,
    sizes_of,
    varying_over,
    with_vma,
)
from gnomon.lax._selection import select
from gnomon.lax._slicing import dynamic_index_in_dim
from gnomon.lax._structural import canonical_axis, reshape, transpose

_INT32 = np.dtype(np.int32)


def _groups_and_sizes(what: str, axis_name: AxisName, groups: Any) -> tuple[Groups, list[int]]:
    """The groups, and the sizes of the axes within a group."""
    found = groups_of(what, entries_of(axis_name), groups, equal=True)
    return found, [len(found[0])] if found else sizes_of(names_of(axis_name))


def _divided(name: str, x: Array, dimension: int, size: int, tiled: bool) -> int:
    """The size of a dimension divided by that of the named axes; ``ValueError`` if not whole."""
    length = x.shape[dimension]
    if length % size or (not tiled and length != size):
        wanted = "a multiple of the size of" if tiled else "the same size as"
        raise ValueError(
            f"{name}: dimension {dimension} of an array of shape {x.shape} must have {wanted} the "
            f"named axes, {size}" + ("" if tiled else "; or give tiled=True")
        )
    return length // size


def _split(x: Array, dimension: int, *sizes: int) -> Array:
    """Split one dimension into several."""
    return reshape(x, (*x.shape[:dimension], *sizes, *x.shape[dimension + 1 :]))


def _merge(x: Array, dimension: int, count: int) -> Array:
    """Merge several adjacent dimensions into one."""
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
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """The values of ``x`` of all members of a mapped axis.

    Args:
      x: a pytree of arrays.
      axis_name: a bound name, or a tuple of names, whose members are taken in row-major order.
      axis_index_groups: lists of members of one size; each group communicates separately.
      axis: the dimension of the result that enumerates the members.
      tiled: False makes a new dimension; True concatenates along an existing one.
      to: ``"varying"``; or ``"invarying"``, if the type of the result must say that all members
        have the same value (see `pcast`).
    Raises:
      NameError: the name is not bound.

    Example:
      >>> import gnomon as gn
      >>> gn.vmap(lambda x: all_gather(x, "i"), axis_name="i")(gn.numpy.arange(2))
      Array([[0, 1],
             [0, 1]], dtype=int32)
    """
    if to not in ("varying", "invarying"):
        raise ValueError(f"all_gather: to must be 'varying' or 'invarying', got {to!r}")
    names = names_of(axis_name)
    groups, sizes = _groups_and_sizes("all_gather", axis_name, axis_index_groups)
    invariant = to == "invarying"
    if invariant and groups:
        raise NotImplementedError("all_gather: members of different groups get different values")

    def gather(leaf: Array) -> Array:
        rank = leaf.ndim if tiled else leaf.ndim + 1
        dimension = canonical_axis(operator.index(axis), rank)
        leaf = varying_over(leaf, names)
        if groups and len(names) > 1:
            rows = values_of_group(leaf, names, groups, axis_index(names))
            return _merge(_moved(rows, 0, dimension), dimension, 1 + tiled)
        for name, size in zip(reversed(names), reversed(sizes), strict=True):
            attributes = {"dimension": dimension, "size": size}
            if invariant and checked_axes([name]):
                vma = leaf.aval.vma.difference([name])
                gathered = bind_over(ops.all_gather_invariant, (name,), leaf, **attributes)
                leaf = with_vma(gathered, vma)
            else:
                leaf = bind_over(ops.all_gather, (name,), leaf, groups=groups, **attributes)
        return _merge(leaf, dimension, len(names) + tiled)

    return each_leaf(gather, x)


def psum_scatter(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Any:
    """The sum over the members of a mapped axis; each member keeps its own slice of it.

    Args:
      x: a pytree of arrays.
      axis_name: a bound name, or a tuple of names.
      scatter_dimension: the dimension whose slices are distributed.
      axis_index_groups: lists of members of one size; each group communicates separately.
      tiled: False drops the dimension, which has the size of the axis; True divides its size by
        that of the axis.
    Raises:
      NameError: the name is not bound.
      ValueError: the size of the dimension does not fit that of the axis.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> x = gnp.array([[1, 2], [10, 20]])
      >>> gn.vmap(lambda row: lax.psum_scatter(row, "i"), axis_name="i")(x)
      Array([11, 22], dtype=int32)

    See also:
      `psum`, `all_gather`
    """
    names = names_of(axis_name)
    groups, sizes = _groups_and_sizes("psum_scatter", axis_name, axis_index_groups)

    def scatter(leaf: Array) -> Array:
        dimension = canonical_axis(operator.index(scatter_dimension), leaf.ndim)
        chunk = _divided("psum_scatter", leaf, dimension, math.prod(sizes), tiled)
        if leaf.aval.unreduced.intersection(names):
            # The operand holds the terms of a sum: compute the sum, then take this member's slice.
            total = varying_over(psum(leaf, names, axis_index_groups=axis_index_groups), names)
            parts = _split(total, dimension, math.prod(sizes), *((chunk,) if tiled else ()))
            return dynamic_index_in_dim(parts, axis_index(names), dimension, keepdims=False)
        leaf = varying_over(leaf, names)
        if groups and len(names) > 1:
            index = axis_index(names)
            total = reduced_within_groups(ops.reduce_sum, leaf, names, groups, index)
            parts = _split(total, dimension, *sizes, *((chunk,) if tiled else ()))
            place = own_position(groups, index)
            return dynamic_index_in_dim(parts, place, dimension, keepdims=False)
        leaf = _split(leaf, dimension, *sizes, *((chunk,) if tiled else ()))
        for name, size in zip(names, sizes, strict=True):
            attributes = {"dimension": dimension, "size": size}
            leaf = bind_over(ops.psum_scatter, (name,), leaf, groups=groups, **attributes)
        return leaf

    return each_leaf(scatter, x)


def all_to_all(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Any:
    """Exchange a mapped axis with a dimension.

    Args:
      x: a pytree of arrays.
      axis_name: a bound name, or a tuple of names.
      split_axis: the dimension whose slices are distributed over the members.
      concat_axis: the dimension of the result along which the members are joined.
      axis_index_groups: lists of members of one size; each group communicates separately.
      tiled: False drops ``split_axis``, which has the size of the named axis, and makes a new
        dimension; True divides it, and concatenates along ``concat_axis``.
    Raises:
      NameError: the name is not bound.
      ValueError: the size of ``split_axis`` does not fit that of the named axis.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> x = gnp.array([[1, 2], [3, 4]])
      >>> gn.vmap(lambda row: lax.all_to_all(row, "i", 0, 0), axis_name="i")(x)
      Array([[1, 3],
             [2, 4]], dtype=int32)

    See also:
      `pswapaxes`, `ppermute`
    """
    names = names_of(axis_name)
    groups, sizes = _groups_and_sizes("all_to_all", axis_name, axis_index_groups)

    def exchange(leaf: Array) -> Array:
        split = canonical_axis(operator.index(split_axis), leaf.ndim)
        concat = canonical_axis(operator.index(concat_axis), leaf.ndim)
        leaf = varying_over(leaf, names)
        chunk = _divided("all_to_all", leaf, split, math.prod(sizes), tiled)
        # Move the dimension to the front, exchange it there, then move the result into place.
        leaf = _split(_moved(leaf, split, 0), 0, *sizes, *((chunk,) if tiled else ()))
        if groups and len(names) > 1:
            index = axis_index(names)
            rows = values_of_group(leaf, names, groups, index)
            leaf = dynamic_index_in_dim(rows, own_position(groups, index), 1, keepdims=False)
        else:
            for k, (name, size) in enumerate(zip(names, sizes, strict=True)):
                place = {"split": k, "concat": k, "size": size}
                leaf = bind_over(ops.all_to_all, (name,), leaf, groups=groups, **place)
            leaf = _merge(leaf, 0, len(names))
        if not tiled:
            return _moved(leaf, 0, concat)
        return _merge(_moved(_moved(leaf, 1, split + 1), 0, concat), concat, 2)

    return each_leaf(exchange, x)


def pswapaxes(
    x: Any,
    axis_name: AxisName,
    axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> Any:
    """Exchange a mapped axis with a dimension of the same size.

    Args:
      x: a pytree of arrays.
      axis_name: a bound name.
      axis: the dimension of ``x``.
      axis_index_groups: lists of members of one size; each group communicates separately.
    Raises:
      NameError: the name is not bound.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> x = gnp.array([[1, 2], [3, 4]])
      >>> gn.vmap(lambda row: lax.pswapaxes(row, "i", 0), axis_name="i")(x)
      Array([[1, 3],
             [2, 4]], dtype=int32)

    See also:
      `all_to_all`
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def _pairs(perm: Any, size: int) -> list[tuple[int, int]]:
    pairs = [(operator.index(source), operator.index(target)) for source, target in perm]
    for side, what in zip(zip(*pairs, strict=True), ("source", "destination"), strict=False):
        if len(set(side)) != len(side):
            raise ValueError(f"ppermute: perm has a {what} twice: {perm}")
        if not all(0 <= index < size for index in side):
            raise ValueError(f"ppermute: perm names members beyond the {size} of the axis: {perm}")
    return pairs


def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values between members of a mapped axis.

    Args:
      x: a pytree of arrays.
      axis_name: a bound name, or a tuple of names, whose members are counted in row-major order.
      perm: pairs (source, destination) of members. Members that are not a destination get zeros.
    Raises:
      NameError: the name is not bound.
      ValueError: a source or a destination occurs twice, or there is no such member.

    Example:
      >>> import gnomon as gn
      >>> shift = lambda x: ppermute(x, "i", [(0, 1), (1, 2), (2, 0)])
      >>> gn.vmap(shift, axis_name="i")(gn.numpy.arange(3))
      Array([2, 0, 1], dtype=int32)
    """
    names = names_of(axis_name)
    size = axis_size(axis_name)
    pairs = _pairs(perm, size)
    if len(names) == 1:

        def move(leaf: Array) -> Array:
            varying = varying_over(leaf, names)
            moved: Array = bind_over(ops.ppermute, names, varying, permutation=pairs)
            return moved

        return each_leaf(move, x)
    sources = np.full(size, size, np.int32)
    for source, target in pairs:
        sources[target] = source
    mine = dynamic_index_in_dim(sources, axis_index(axis_name), 0, keepdims=False)

    def permute(leaf: Array) -> Array:
        gathered = all_gather(leaf, axis_name)
        moved = dynamic_index_in_dim(gathered, mine, 0, keepdims=False)
        return select(eq(mine, _INT32.type(size)), full_like(leaf, 0), moved)

    return each_leaf(permute, x)


def pshuffle(x: Any, axis_name: AxisName, perm: Sequence[int]) -> Any:
    """The values of other members of a mapped axis: member i gets that of member ``perm[i]``.

    Args:
      x: a pytree of arrays.
      axis_name: a bound name.
      perm: a permutation of the members; member i gets the value of member ``perm[i]``.
    Raises:
      ValueError: ``perm`` is not a permutation.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> x = gnp.array([10, 20, 30])
      >>> gn.vmap(lambda x: lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(x)
      Array([30, 10, 20], dtype=int32)

    See also:
      `ppermute`
    """
    sources = [operator.index(source) for source in perm]
    if sorted(sources) != list(range(len(sources))):
        raise ValueError(f"pshuffle: perm does not represent a permutation: {perm}")
    return ppermute(x, axis_name, list(zip(sources, range(len(sources)), strict=True)))


def pbroadcast(x: Any, axis_name: AxisName, source: int) -> Any:
    """The value of one member of a mapped axis, for all members.

    Args:
      x: a pytree of arrays.
      axis_name: a bound name.
      source: the position of the member whose value all members get.
    Raises:
      NameError: the name is not bound.
      ValueError: there is no such member.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> x = gnp.array([10, 20, 30])
      >>> gn.vmap(lambda x: lax.pbroadcast(x, "i", source=1), axis_name="i")(x)
      Array([20, 20, 20], dtype=int32)
    """
    member = operator.index(source)
    size = axis_size(axis_name)
    if not 0 <= member < size:
        raise ValueError(f"pbroadcast: the axis has {size} members, so there is no member {member}")

    def broadcast(leaf: Array) -> Array:
        return dynamic_index_in_dim(all_gather(leaf, axis_name), member, 0, keepdims=False)

    return each_leaf(broadcast, x)


def ragged_all_to_all(
    operand: ArrayLike,
    output: ArrayLike,
    input_offsets: ArrayLike,
    send_sizes: ArrayLike,
    output_offsets: ArrayLike,
    recv_sizes: ArrayLike,
    *,
    axis_name: AxisName,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> Array:
    """Exchange slices of different lengths between the members of a mapped axis.

    Each member sends, for each member ``j``, the ``send_sizes[j]`` rows of ``operand`` from
    ``input_offsets[j]`` on. They become the rows of the result of member ``j`` from
    ``output_offsets[j]`` on. Rows that no member sends are those of ``output``.

    Args:
      operand: rows to send.
      output: the array that rows are written over; it has the shape of the result.
      input_offsets, send_sizes, output_offsets: one integer per member of the axis.
      recv_sizes: the number of rows received from each member, which the senders' ``send_sizes``
        imply.
      axis_name: a bound name.
      axis_index_groups: lists of members of one size; each group communicates separately.
    Raises:
      NameError: the name is not bound.
      ValueError: the offsets and sizes are not vectors of integers, one per member.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> def f(rows, output, starts, sizes, targets, received):
      ...     return lax.ragged_all_to_all(
      ...         rows, output, starts, sizes, targets, received, axis_name="i"
      ...     )
      >>> one = gnp.array([[1, 1], [1, 1]])
      >>> starts, targets = gnp.array([[0, 1], [0, 1]]), gnp.array([[0, 0], [1, 1]])
      >>> rows, output = gnp.array([[1, 2], [3, 4]]), gnp.zeros((2, 2), int)
      >>> gn.vmap(f, axis_name="i")(rows, output, starts, one, targets, one)
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    names = names_of(axis_name)
    _, sizes = _groups_and_sizes("ragged_all_to_all", axis_name, axis_index_groups)
    members = math.prod(sizes)
    source, target = as_operand(operand), as_operand(output)
    vectors = {
        "input_offsets": as_operand(input_offsets),
        "send_sizes": as_operand(send_sizes),
        "output_offsets": as_operand(output_offsets),
        "recv_sizes": as_operand(recv_sizes),
    }
    for what, vector in vectors.items():
        if not np.issubdtype(vector.dtype, np.integer):
            raise ValueError(f"ragged_all_to_all {what} must be integer type.")
        if vector.ndim != 1 or vector.shape[0] < 1:
            raise ValueError(
                f"ragged_all_to_all {what} must be rank 1 with positive dimension size, but got "
                f"shape {vector.shape}"
            )
        if vector.shape[0] != members:
            raise ValueError(
                f"ragged_all_to_all {what} must have an element for each of the {members} members, "
                f"but got shape {vector.shape}"
            )

    def from_each(vector: Array) -> Array:
        """The elements for this member in the vectors of all members."""
        return all_to_all(vector, axis_name, 0, 0, axis_index_groups=axis_index_groups, tiled=True)

    starts = from_each(vectors["input_offsets"])
    lengths = from_each(vectors["send_sizes"])
    places = from_each(vectors["output_offsets"])
    rows = all_gather(source, axis_name, axis_index_groups=axis_index_groups)
    # For each row of the result and each member: whether the member sends the row (``written``),
    # and which row of its operand that is (``chosen``).
    row = np.arange(target.shape[0], dtype=np.int32)[:, None]
    written = (row >= places) & (row < places + lengths)
    chosen = starts + row - places
    sender = np.arange(members, dtype=np.int32) * source.shape[0]
    index = select(written, sender + chosen, full_like(chosen, 0)).max(1, initial=0)
    flat = reshape(rows, (members * source.shape[0], *source.shape[1:]))
    moved = flat.at[index].get(mode="clip") if flat.shape[0] else target
    mask = reshape(written.any(1), (target.shape[0], *(1 for _ in target.shape[1:])))
    mask = mask | np.zeros(target.shape, np.bool_)
    return select(mask, moved, varying_over(target, names))


__all__ = [
    "all_gather",
    "all_to_all",
    "pbroadcast",
    "ppermute",
    "pshuffle",
    "psum_scatter",
    "pswapaxes",
    "ragged_all_to_all",
]
