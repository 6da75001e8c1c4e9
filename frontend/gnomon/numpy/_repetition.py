"""Repetition and reordering of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays.annotations import ArrayLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._arrays.extended import takes_extended_arrays
from gnomon._tracing.bind import as_operand, bind
from gnomon._tracing.trace import concrete_value, is_tracer
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.lax._operands import as_tuple, widened
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import (
    as_array,
    axis_tuple,
    static_shape,
)
from gnomon.numpy._joining import concatenate
from gnomon.numpy._manipulation import broadcast_to, ravel, reshape, transpose
from gnomon.numpy._sorting import method_for, searchsorted
from gnomon.numpy._taking import take

__all__ = ["flip", "fliplr", "flipud", "repeat", "roll", "rot90", "tile"]


@takes_extended_arrays()
def tile(A: ArrayLike, reps: ArrayLike | Sequence[int]) -> Array:
    """Repeat a whole array along each dimension.

    Args:
      A: an array or scalar.
      reps: the number of repetitions for each dimension; the shorter of ``A.shape`` and ``reps``
        gets leading ones.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.tile(gnp.array([1, 2]), 3)
      Array([1, 2, 1, 2, 1, 2], dtype=int32)
      >>> gnp.tile(gnp.array([1, 2]), (2, 1))
      Array([[1, 2],
             [1, 2]], dtype=int32)

    See also:
      `repeat`, `broadcast_to`
    """
    x = as_array("tile", A)
    counts = static_shape("tile", reps)
    rank = max(len(counts), x.ndim)
    counts = (1,) * (rank - len(counts)) + counts
    shape = (1,) * (rank - x.ndim) + x.shape
    spread = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    kept = tuple(range(1, 2 * rank, 2))
    wide = bind(ops.broadcast_in_dim, reshape(x, shape), shape=spread, dims=kept)
    return reshape(wide, tuple(c * n for c, n in zip(counts, shape, strict=True)))


@takes_out_sharding
@takes_extended_arrays()
def repeat(
    a: ArrayLike,
    repeats: ArrayLike | Sequence[int],
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Repeat each element along a dimension.

    Args:
      a: an array; it is flattened if ``axis`` is None.
      repeats: the number of repetitions: one number, or one for each element. If it is traced,
        ``total_repeat_length`` must be given.
      axis: the dimension along which elements repeat; None flattens the array first.
      total_repeat_length: the size of the dimension in the result; the last element fills it up.
      out_sharding: the sharding of the result on a mesh with explicit axes; None infers it.
    Raises:
      ConcretizationTypeError: ``repeats`` is traced and ``total_repeat_length`` is not given.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.repeat(gnp.array([1, 2]), 2)
      Array([1, 1, 2, 2], dtype=int32)
      >>> gnp.repeat(gnp.array([[1, 2], [3, 4]]), gnp.array([1, 2]), axis=0)
      Array([[1, 2],
             [3, 4],
             [3, 4]], dtype=int32)

    See also:
      `tile`, which repeats the whole array
    """
    x = as_array("repeat", a)
    if axis is None:
        x, axis = ravel(x), 0
    if x.ndim == 0:
        x = reshape(x, (1,))
    place = canonical_axis(axis, x.ndim)
    counts: Any = np.asarray(repeats) if isinstance(repeats, (list, tuple)) else repeats
    if not isinstance(counts, (int, np.integer)):
        counts = as_operand(counts)
    size = x.shape[place]
    if is_tracer(counts) and total_repeat_length is not None:
        # The source of a place is the number of elements whose repetitions end before it.
        ends = lax.cumsum(widened(broadcast_to(counts, (size,)), total_repeat_length))
        places = lax.iota(ends.dtype, total_repeat_length)
        index = searchsorted(ends, places, "right", method=method_for(ends, places))
        return take(x, index, place, mode="clip")
    values = np.asarray(concrete_value(counts) if not is_tracer(counts) else counts.numpy_value())
    if values.ndim == 0 or values.size == 1:
        count = int(values.reshape(-1)[0])
        wide = (*x.shape[: place + 1], count, *x.shape[place + 1 :])
        dims = tuple(i for i in range(x.ndim + 1) if i != place + 1)
        shape = (*x.shape[:place], size * count, *x.shape[place + 1 :])
        out = reshape(bind(ops.broadcast_in_dim, x, shape=wide, dims=dims), shape)
    else:
        if values.shape != (size,):
            raise ValueError(
                f"repeat: repeats of shape {values.shape} do not fit a dimension of size {size}"
            )
        out = take(x, np.repeat(np.arange(size), values), place)
    if total_repeat_length is None:
        return out
    missing = total_repeat_length - out.shape[place]
    if missing <= 0:
        return lax.slice_in_dim(out, 0, total_repeat_length, axis=place)
    last = lax.slice_in_dim(x, size - 1, size, axis=place)
    return concatenate([out, repeat(last, missing, place)], place)


@takes_extended_arrays()
def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Reverse the order of elements along dimensions.

    Args:
      m: an array.
      axis: the dimension or dimensions to reverse; None reverses all.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.flip(gnp.array([[1, 2], [3, 4]]))
      Array([[4, 3],
             [2, 1]], dtype=int32)
      >>> gnp.flip(gnp.array([[1, 2], [3, 4]]), axis=1)
      Array([[2, 1],
             [4, 3]], dtype=int32)
    """
    x = as_array("flip", m)
    return lax.rev(x, axis_tuple("flip", axis, x.ndim))


def fliplr(m: ArrayLike) -> Array:
    """Reverse the order of the columns, the second dimension.

    Args:
      m: an array of at least two dimensions.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fliplr(gnp.array([[1, 2], [3, 4]]))
      Array([[2, 1],
             [4, 3]], dtype=int32)
    """
    return flip(m, 1)


def flipud(m: ArrayLike) -> Array:
    """Reverse the order of the rows, the first dimension.

    Args:
      m: an array of at least one dimension.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.flipud(gnp.array([[1, 2], [3, 4]]))
      Array([[3, 4],
             [1, 2]], dtype=int32)
    """
    return flip(m, 0)


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Rotate an array by quarter turns in the plane of two dimensions.

    Args:
      m: an array of at least two dimensions.
      k: the number of quarter turns from the first towards the second dimension of ``axes``.
      axes: the two dimensions.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.rot90(gnp.array([[1, 2], [3, 4]]))
      Array([[2, 4],
             [1, 3]], dtype=int32)

    See also:
      `flip`, `transpose`
    """
    x = as_array("rot90", m)
    if x.ndim < 2:
        raise ValueError(f"rot90 takes arrays of two dimensions at least, got shape {x.shape}")
    first, second = axis_tuple("rot90", tuple(axes), x.ndim)
    turns = k % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, (first, second))
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    if turns == 1:
        return transpose(flip(x, second), order)
    return flip(transpose(x, order), second)


@takes_extended_arrays()
def roll(
    a: ArrayLike, shift: ArrayLike | Sequence[int], axis: int | Sequence[int] | None = None
) -> Array:
    """Shift elements along dimensions; those shifted out at one end reappear at the other.

    Args:
      a: an array.
      shift: the number of positions, for all axes or for each; negative numbers shift to the front.
      axis: one or several axes; None shifts the flattened elements and keeps the shape.
    Raises:
      ValueError: there are several shifts, but not one for each axis.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.roll(gnp.array([1, 2, 3, 4]), 1)
      Array([4, 1, 2, 3], dtype=int32)
      >>> gnp.roll(gnp.array([[1, 2], [3, 4]]), -1, axis=1)
      Array([[2, 1],
             [4, 3]], dtype=int32)
    """
    x = as_array("roll", a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    axes = as_tuple(axis)
    shifts = as_tuple(shift)
    if len(axes) != len(shifts) and 1 not in (len(axes), len(shifts)):
        raise ValueError(f"roll: {len(shifts)} shifts cannot be paired with {len(axes)} axes")
    count = max(len(axes), len(shifts)) if axes and shifts else 0
    axes, shifts = (pairs * count if len(pairs) == 1 else pairs[:count] for pairs in (axes, shifts))
    for by, which in zip(shifts, axes, strict=True):
        place = canonical_axis(which, x.ndim)
        size = x.shape[place]
        if size == 0:
            continue
        if is_tracer(by):
            by = widened(by, 2 * size)
            whole = lax.full_like(by, size)
            start = lax.rem(lax.sub(whole, lax.rem(by, whole)), whole)
            x = lax.dynamic_slice_in_dim(concatenate([x, x], place), start, size, place)
            continue
        cut = -(by if is_symbolic_dim(by) else int(by)) % size
        if is_symbolic_dim(cut) or cut:
            left = lax.slice_in_dim(x, 0, cut, axis=place)
            x = lax.concatenate([lax.slice_in_dim(x, cut, size, axis=place), left], place)
    return x
