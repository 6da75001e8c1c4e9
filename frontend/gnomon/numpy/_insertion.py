"""Insertion into arrays and deletion from them, by one read at computed positions.

NumPy's functions compute static positions; traced positions are computed by counting.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import as_operand
from gnomon._tracing.trace import concrete_value
from gnomon.lax._creation import converted
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array
from gnomon.numpy._indexing import normalized_index
from gnomon.numpy._joining import concatenate
from gnomon.numpy._manipulation import broadcast_to, moveaxis, ravel
from gnomon.numpy._selection import clip
from gnomon.numpy._sorting import method_for, searchsorted
from gnomon.numpy._taking import take

__all__ = ["delete", "insert"]


def _static(obj: ArrayLike | slice) -> Any:
    """Positions as NumPy's functions take them, or None if they are traced."""
    if isinstance(obj, (int, slice, np.ndarray, np.generic)):
        return obj
    known = concrete_value(as_array("obj", obj, 1))
    return None if known is None else np.asarray(known)


def _positions(obj: ArrayLike | slice, size: int, last: int) -> Array:
    """Traced positions, counted from the start and clamped to the bounds."""
    assert not isinstance(obj, slice), "a slice is static"
    index = as_array("obj", obj, 1)
    if index.dtype.kind not in "iu":
        raise TypeError(f"traced positions must be integers, got dtype {index.dtype}")
    return clip(as_operand(normalized_index(ravel(index), size, True)), 0, last)


def _places(count: int) -> Array:
    return lax.iota(np.int32, count)


def _at_or_before(positions: Array, places: Array) -> Array:
    """For each index, the number of sorted positions that are at most this index."""
    return searchsorted(positions, places, "right", method=method_for(positions, places))


def delete(
    arr: ArrayLike,
    obj: ArrayLike | slice,
    axis: int | None = None,
    *,
    assume_unique_indices: bool = False,
) -> Array:
    """Delete slices of an array along a dimension.

    Args:
      arr: an array; it is flattened if ``axis`` is None.
      obj: what to delete: an int, a slice, an array of ints or a mask. If it is traced, it must be
        an int, or an array of ints with ``assume_unique_indices``.
      axis: the dimension that gets shorter; None flattens the array first.
      assume_unique_indices: a promise that ``obj`` has no duplicates, so that the shape is known.
    Raises:
      IndexError: a static position is out of bounds.
      ValueError: a traced array of positions may have duplicates.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.delete(gnp.array([10, 20, 30, 40]), gnp.array([0, 2]))
      Array([20, 40], dtype=int32)
      >>> gnp.delete(gnp.array([[1, 2], [3, 4]]), 0, axis=1)
      Array([[2],
             [4]], dtype=int32)

    See also:
      `insert`, `compress`
    """
    x = as_array("delete", arr)
    if axis is None:
        x, axis = ravel(x), 0
    place = canonical_axis(axis, x.ndim)
    size = x.shape[place]
    static = _static(obj)
    if static is not None:
        return take(x, np.delete(np.arange(size), static), place)
    index = _positions(obj, size, max(size - 1, 0))
    if not isinstance(obj, slice) and np.ndim(obj) and not assume_unique_indices:
        raise ValueError(
            "delete: the shape of the result depends on how many distinct positions a traced "
            "array holds: pass assume_unique_indices=True, or static positions"
        )
    # Each position, less the number of deleted positions before it.
    index = lax.sub(lax.sort(index), _places(index.shape[0]))
    kept = _places(max(size - index.shape[0], 0))
    return take(x, lax.add(kept, _at_or_before(index, kept)), place)


def insert(
    arr: ArrayLike, obj: ArrayLike | slice, values: ArrayLike, axis: int | None = None
) -> Array:
    """Insert ``values`` before positions along a dimension of an array.

    Args:
      arr: an array; it is flattened if ``axis`` is None.
      obj: positions in ``arr``: an int, a slice, or an array of ints or bools.
      values: the values, which are broadcast to the inserted part and converted to the dtype of
        ``arr``. At a single position, they may be several slices.
      axis: the dimension that gets longer; None flattens the array first.
    Raises:
      IndexError: a static position is out of bounds.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.insert(gnp.array([1, 2, 3]), 1, 99)
      Array([ 1, 99,  2,  3], dtype=int32)
      >>> gnp.insert(gnp.array([[1, 2], [3, 4]]), 2, gnp.array([5, 6]), axis=1)
      Array([[1, 2, 5],
             [3, 4, 6]], dtype=int32)

    See also:
      `append`, `delete`
    """
    x = as_array("insert", arr)
    if axis is None:
        x, axis = ravel(x), 0
    place = canonical_axis(axis, x.ndim)
    size = x.shape[place]
    new = converted(as_array("insert", values, 2), x.dtype)
    new = lax.broadcast_to_rank(new, max(new.ndim, x.ndim))
    static = _static(obj)
    if isinstance(static, slice):
        static = np.arange(*static.indices(size))
    elif static is not None and np.asarray(static).dtype == np.bool_:
        static = np.flatnonzero(static)
    where: Any = obj if static is None else static
    if np.ndim(where) == 0:
        new = moveaxis(new, 0, place)
    wanted = np.size(where)
    count = new.shape[place] if wanted == 1 else wanted
    new = broadcast_to(new, (*x.shape[:place], count, *x.shape[place + 1 :]))
    joined = concatenate([x, new], place)
    if static is not None:
        if wanted == 0 or np.asarray(static).dtype.kind in "iu":
            # NumPy adds the size to the positions, in their dtype.
            static = np.asarray(static, np.int64)
        places = np.insert(np.arange(size), static, np.arange(size, size + count))
        return take(joined, places, place)
    index = _positions(where, size, size)
    if wanted == 1:
        index = broadcast_to(index, (count,))
    # Each old element moves by the number of insertions before it; values that are inserted at the
    # same position keep their order.
    index, source = lax.sort((index, _places(count)), num_keys=1)
    moved = lax.add(_places(size), _at_or_before(index, _places(size)))
    targets = concatenate([moved, lax.add(index, _places(count))], 0)
    sources = concatenate([_places(size), lax.add(source, as_operand(np.int32(size)))], 0)
    order = lax.sort_key_val(targets, sources)[1]
    return take(joined, order, place)
