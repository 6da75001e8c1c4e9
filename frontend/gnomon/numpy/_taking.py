"""Elements at positions along a dimension."""

from __future__ import annotations

from typing import Any

from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.extended import takes_extended_arrays
from gnomon._tracing.dimensions import ramp
from gnomon.dialects.symbolic.dimension import larger
from gnomon.lax._operands import widened
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import (
    as_array,
)
from gnomon.numpy._division import mod
from gnomon.numpy._manipulation import broadcast_shapes, broadcast_to, ravel
from gnomon.numpy._selection import clip

__all__ = ["take", "take_along_axis"]


@takes_extended_arrays()
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Elements at given positions along a dimension.

    Args:
      a: an array; it is flattened if ``axis`` is None.
      indices: an array or scalar of integers; negative ones count from the end.
      axis: the dimension to index, which the dimensions of ``indices`` replace.
      out: must be None, because arrays are immutable.
      mode: the treatment of indices out of bounds: ``"fill"`` (the default) gives nan, or the
        extreme integer; ``"clip"`` clamps them, and also negative ones to 0; or ``"wrap"``.
      unique_indices, indices_are_sorted: promises that a backend may use.
      fill_value: the value of indices out of bounds.
    Raises:
      TypeError: the indices are not integers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.take(gnp.array([[1, 2, 3], [4, 5, 6]]), gnp.array([2, 0]), axis=1)
      Array([[3, 1],
             [6, 4]], dtype=int32)
      >>> gnp.take(gnp.array([1.0, 2.0]), gnp.array([-1, 5]))
      Array([ 2., nan], dtype=float32)

    See also:
      `take_along_axis`, ``x.at[...].get``
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to take is not supported.")
    x = as_array("take", a)
    index = as_array("take", indices, 1)
    if axis is None:
        x, axis = ravel(x), 0
    place = canonical_axis(axis, x.ndim)
    size = x.shape[place]
    if mode == "wrap":
        index = mod(widened(index, size), larger(size, 1))
    elif mode == "clip" and size:
        # As in NumPy, negative positions are out of bounds, too.
        index = clip(widened(index, size), 0, size - 1)
    elif mode not in (None, "fill", "clip", "promise_in_bounds"):
        raise ValueError(f"take: mode must be 'fill', 'clip' or 'wrap', got {mode!r}")
    chosen = "fill" if mode is None else "clip" if mode == "wrap" else mode
    where = (slice(None),) * place + (index,)
    found: Any = x
    return found.at[where].get(
        mode=chosen,
        fill_value=fill_value,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
    )


def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: ArrayLike | None = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """Take elements along a dimension, by an array with an index for each position.

    Args:
      arr: an array.
      indices: an array of integers of the same rank, which broadcasts with ``arr`` in the other
        dimensions.
      axis: the dimension; None means the flat array, for which ``indices`` is 1-dimensional.
      mode: the treatment of indices out of bounds: ``"fill"`` (the default), ``"clip"``,
        ``"promise_in_bounds"``, or ``"one_hot"``, which gives zeros.
      fill_value: the value of ``"fill"``; by default nan, or the extreme integer.
      wrap_negative_indices: whether negative indices count from the end (the default); otherwise
        they are out of bounds.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.array([[10, 30, 20], [60, 40, 50]])
      >>> gnp.take_along_axis(x, gnp.argsort(x, axis=1), axis=1)
      Array([[10, 20, 30],
             [40, 50, 60]], dtype=int32)

    See also:
      `take`, `put_along_axis`, `argsort`
    """
    x = as_array("take_along_axis", arr)
    index = as_array("take_along_axis", indices, 1)
    if axis is None:
        if index.ndim != 1:
            raise ValueError("take_along_axis: indices must be 1D if axis=None")
        x, axis = ravel(x), 0
    if x.ndim != index.ndim:
        raise ValueError(
            "indices and arr must have the same number of dimensions; "
            f"got {index.ndim} vs. {x.ndim}"
        )
    place = canonical_axis(axis, x.ndim)
    shape = broadcast_shapes(
        *(tuple(1 if i == place else n for i, n in enumerate(s)) for s in (x.shape, index.shape))
    )
    wide = tuple(x.shape[place] if i == place else n for i, n in enumerate(shape))
    narrow = tuple(index.shape[place] if i == place else n for i, n in enumerate(shape))
    grid: list[Any] = []
    for i in range(x.ndim):
        if i == place:
            grid.append(broadcast_to(index, narrow))
        else:
            sizes = [1] * x.ndim
            sizes[i] = shape[i]
            grid.append(ramp(shape[i]).reshape(sizes))
    spread: Any = broadcast_to(x, wide)
    found: Array = spread.at[tuple(grid)].get(
        mode=mode or "fill",
        fill_value=fill_value,
        wrap_negative_indices=True if wrap_negative_indices is None else wrap_negative_indices,
    )
    return found
