"""Arrays of indices, and arrays that are written as slices: `r_`, `c_`, `mgrid`, `ix_`, ..."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike, ShapeLike
from gnomon._arrays.array import Array
from gnomon._config.contexts import numpy_dtype_promotion
from gnomon._tracing.bind import with_weak_type
from gnomon._tracing.stack import ensure_compile_time_eval
from gnomon.dialects.symbolic.dimension import as_size, surely_at_most
from gnomon.lax._creation import converted
from gnomon.lax._operands import widened
from gnomon.numpy._arguments import as_array
from gnomon.numpy._construction import array, asarray
from gnomon.numpy._creation import ones
from gnomon.numpy._diagonals import tril, triu
from gnomon.numpy._division import divmod as divmod_
from gnomon.numpy._joining import concatenate, stack
from gnomon.numpy._manipulation import atleast_1d, expand_dims, reshape
from gnomon.numpy._ranges import arange, linspace, meshgrid
from gnomon.numpy._reductions import any as any_
from gnomon.numpy._selection import clip, nonzero, where

# ------------------------------------------------------------------------- arrays of given indices


def _numbers(item: slice) -> Array:
    """The numbers of a slice; an imaginary step is their count and includes both ends."""
    start = 0 if item.start is None else item.start
    step = 1 if item.step is None else item.step
    if item.stop is None and not isinstance(step, complex):
        # As in NumPy, ``[n:]`` means the numbers below n, and ``[:]`` means none.
        return arange(start, None, step)
    if isinstance(step, complex):
        return linspace(start, item.stop, int(abs(step)))
    return arange(start, item.stop, step)


class _Grid:
    """The type of ``mgrid`` and ``ogrid``: ``mgrid[0:2, 0:3]`` are the coordinates of a grid."""

    def __init__(self, sparse: bool) -> None:
        self._sparse = sparse

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Any:
        if isinstance(key, slice):
            return _numbers(key)
        axes = [_numbers(item) for item in key]
        if axes:
            # As in JAX, whose slices of mixed dtypes are joined under strict promotion, too.
            with numpy_dtype_promotion("standard"):
                dtype = _dtypes.result_type(*axes)
            axes = [lax.convert_element_type(x, dtype) for x in axes]
        grids = meshgrid(*axes, indexing="ij", sparse=self._sparse)
        if self._sparse:
            return list(grids)
        return stack(list(grids)) if axes else array([], _dtypes.default_int_dtype())


mgrid = _Grid(sparse=False)
ogrid = _Grid(sparse=True)


class _IndexExpression:
    """The index itself: ``s_[1:3, ::2]`` is ``(slice(1, 3), slice(None, None, 2))``."""

    def __init__(self, always_tuple: bool) -> None:
        self._always_tuple = always_tuple

    def __getitem__(self, key: Any) -> Any:
        return (key,) if self._always_tuple and not isinstance(key, tuple) else key


index_exp = _IndexExpression(always_tuple=True)
s_ = _IndexExpression(always_tuple=False)


class _Joined:
    """``r_[0:3, 7, [1, 2]]``: arrays, numbers and slices joined along an axis."""

    def __init__(self, axis: int, rank: int, start: int) -> None:
        self._defaults = axis, rank, start

    def __getitem__(self, key: Any) -> Array:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, rank, start = self._defaults
        row_or_column = None
        if items and isinstance(items[0], str) and items[0] in ("r", "c"):
            row_or_column = 0 if items.pop(0) == "r" else 1
        elif items and isinstance(items[0], str):
            axis, rank, start = self._directive(items.pop(0))
        parts = []
        for item in items:
            if isinstance(item, str):
                raise ValueError(f"a directive must come first, got {item!r} later")
            part = _numbers(item) if isinstance(item, slice) else asarray(item)
            parts.append(self._raised(part, rank, start))
        if not parts:
            raise ValueError("there is nothing to join: give numbers, arrays or slices")
        joined = concatenate(parts, axis)
        if row_or_column is None or joined.ndim > 1:
            return joined
        return expand_dims(joined, row_or_column)

    def _directive(self, text: str) -> tuple[int, int, int]:
        axis, rank, start = self._defaults
        try:
            numbers = [int(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        if not 1 <= len(numbers) <= 3:
            raise ValueError(
                f"a directive is 'r', 'c' or up to three integers with commas, got {text!r}"
            )
        given = (*numbers, *(axis, rank, start)[len(numbers) :])
        return given[0], given[1], given[2]

    def _raised(self, x: Array, rank: int, start: int) -> Array:
        """Add dimensions of size one so that the array's own dimensions begin at ``start``."""
        missing = rank - max(x.ndim, 1)
        x = atleast_1d(x)
        if missing <= 0:
            return x
        place = start if start >= 0 else missing + 1 + start
        before = max(0, min(place, missing))
        return reshape(x, (1,) * before + x.shape + (1,) * (missing - before))


r_ = _Joined(0, 1, -1)
c_ = _Joined(-1, 2, 0)


def ix_(*args: ArrayLike | Sequence[Any]) -> tuple[Array, ...]:
    """Indices that pick the cross product of several sequences.

    Args:
      args: one-dimensional sequences of integers or of bools.
    Raises:
      ValueError: a sequence is not one-dimensional.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.arange(9).reshape(3, 3)[gnp.ix_([0, 2], [1, 2])]
      Array([[1, 2],
             [7, 8]], dtype=int32)
    """
    result = []
    for i, given in enumerate(args):
        x = asarray(given)
        if x.ndim != 1:
            raise ValueError(f"ix_ takes sequences of one dimension, got shape {x.shape}")
        if x.dtype == np.bool_:
            (x,) = nonzero(x)
        elif x.size == 0:
            x = lax.convert_element_type(x, _dtypes.default_int_dtype())
        result.append(reshape(x, (1,) * i + x.shape + (1,) * (len(args) - i - 1)))
    return tuple(result)


def block(arrays: Any) -> Array:
    """Join nested lists of blocks into an array; the innermost lists join along the last axis.

    Args:
      arrays: an array or scalar, or nested lists of them of equal depth.
    Raises:
      TypeError: there is a tuple.
      ValueError: a list is empty, or the depths differ.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.block([[gnp.ones((2, 2)), gnp.zeros((2, 1))]])
      Array([[1., 1., 0.],
             [1., 1., 0.]], dtype=float32)
    """
    depth = _depth(arrays)
    leaves: list[Array] = []
    _collect(arrays, leaves)
    rank = max(depth, *(x.ndim for x in leaves))
    return _joined_blocks(arrays, rank, rank - depth)


def _depth(blocks: Any) -> int:
    if isinstance(blocks, tuple):
        raise TypeError("block takes lists of blocks, not tuples")
    if not isinstance(blocks, list):
        return 0
    if not blocks:
        raise ValueError("block takes no empty lists")
    depths = {_depth(b) for b in blocks}
    if len(depths) > 1:
        raise ValueError(f"block: lists must have one depth, got {sorted(depths)}")
    return 1 + depths.pop()


def _collect(blocks: Any, leaves: list[Array]) -> None:
    if isinstance(blocks, list):
        for inner in blocks:
            _collect(inner, leaves)
    else:
        leaves.append(as_array("block", blocks))


def _joined_blocks(blocks: Any, rank: int, axis: int) -> Array:
    if not isinstance(blocks, list):
        x = as_array("block", blocks)
        return expand_dims(x, tuple(range(rank - x.ndim))) if x.ndim < rank else x
    return concatenate([_joined_blocks(b, rank, axis + 1) for b in blocks], axis)


# ----------------------------------------------------------------------------- diagonals, triangles


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array whose dimensions have one size.

    Args:
      n: the size of each dimension.
      ndim: the number of dimensions.
    Returns:
      A tuple of ``ndim`` equal int32 vectors.
    Raises:
      ValueError: ``n`` or ``ndim`` is negative.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.zeros((2, 2)).at[gnp.diag_indices(2)].set(1.0)
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    n, ndim = operator.index(n), operator.index(ndim)
    if n < 0 or ndim < 0:
        raise ValueError(f"diag_indices takes numbers of at least 0, got {n} and {ndim}")
    return (arange(n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The indices of the main diagonal of a given array.

    Args:
      arr: an array of at least two dimensions of one size.
    Returns:
      A tuple of equal int32 vectors, one for each dimension.
    Raises:
      ValueError: the array has fewer than two dimensions, or their sizes differ.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.array([[1, 2], [3, 4]])
      >>> x[gnp.diag_indices_from(x)]
      Array([1, 4], dtype=int32)
    """
    x = as_array("diag_indices_from", arr)
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise ValueError(
            "diag_indices_from takes arrays of at least two dimensions, all of one size, got "
            f"shape {x.shape}"
        )
    return diag_indices(x.shape[0], x.ndim)


def _mask_indices(function: str, triangle: Callable[..., Array], n: Any, k: Any, m: Any) -> Any:
    rows = operator.index(n)
    columns = rows if m is None else operator.index(m)
    with ensure_compile_time_eval():
        mask = np.asarray(triangle(ones((rows, columns), np.bool_), operator.index(k)))
    return tuple(asarray(i.astype(_dtypes.default_int_dtype())) for i in np.nonzero(mask))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The indices of the lower triangle of an ``n`` by ``m`` matrix.

    Args:
      n, m: the numbers of rows and columns; ``m`` is ``n`` by default.
      k: the last diagonal of the triangle: 0 is the main diagonal, positive ones are above.
    Returns:
      The row indices and the column indices, int32 vectors.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.tril_indices(2)
      (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
      >>> gnp.array([[1, 2], [3, 4]])[gnp.tril_indices(2)]
      Array([1, 3, 4], dtype=int32)
    """
    return _mask_indices("tril_indices", tril, n, k, m)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The indices of the upper triangle of an ``n`` by ``m`` matrix.

    Args:
      n, m: the numbers of rows and columns; ``m`` is ``n`` by default.
      k: the first diagonal of the triangle: 0 is the main diagonal, positive ones are above.
    Returns:
      The row indices and the column indices, int32 vectors.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.triu_indices(2)
      (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
      >>> gnp.array([[1, 2], [3, 4]])[gnp.triu_indices(2, k=1)]
      Array([2], dtype=int32)
    """
    return _mask_indices("triu_indices", triu, n, k, m)


def _matrix_shape(function: str, arr: Any) -> tuple[int, int]:
    shape = tuple(arr.shape)
    if len(shape) != 2:
        raise ValueError(f"{function}: the array must be 2-d, got shape {shape}")
    return shape[0], shape[1]


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The indices of the lower triangle of a given matrix.

    Args:
      arr: a matrix.
      k: the last diagonal of the triangle: 0 is the main diagonal, positive ones are above.
    Returns:
      The row indices and the column indices, int32 vectors.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.array([[1, 2], [3, 4]])
      >>> x[gnp.tril_indices_from(x)]
      Array([1, 3, 4], dtype=int32)
    """
    rows, columns = _matrix_shape("tril_indices_from", arr)
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The indices of the upper triangle of a given matrix.

    Args:
      arr: a matrix.
      k: the first diagonal of the triangle: 0 is the main diagonal, positive ones are above.
    Returns:
      The row indices and the column indices, int32 vectors.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.array([[1, 2], [3, 4]])
      >>> x[gnp.triu_indices_from(x)]
      Array([1, 2, 4], dtype=int32)
    """
    rows, columns = _matrix_shape("triu_indices_from", arr)
    return triu_indices(rows, k, columns)


def mask_indices(
    n: int, mask_func: Callable[..., Any], k: int = 0, *, size: int | None = None
) -> tuple[Array, Array]:
    """The indices of an ``n`` by ``n`` matrix that a mask function keeps.

    The mask is evaluated while a function is traced, so ``size`` is needed only if ``mask_func`` or
    ``k`` depends on traced values.

    Args:
      n: the number of rows and columns.
      mask_func: a function such as `triu`, called as ``mask_func(ones((n, n)), k)``; indices are
        kept where its result is not zero.
      k: the second argument of ``mask_func``.
      size: the length of the results.
    Returns:
      The row indices and the column indices, int32 vectors.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.mask_indices(2, gnp.triu)
      (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))

    See also:
      `triu_indices`, `tril_indices`
    """
    with ensure_compile_time_eval():
        rows, columns = nonzero(mask_func(ones((n, n)), k), size=size)
    return rows, columns


# ------------------------------------------------------------------------------------ flat indices


def unravel_index(indices: ArrayLike, shape: ShapeLike) -> tuple[Array, ...]:
    """Coordinates from flat indices, which are clamped to the first and last element.

    Args:
      indices: an array of integers; negative ones count from the end.
      shape: the shape of the array that is indexed.
    Returns:
      A tuple of integer arrays, one for each dimension.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.unravel_index(gnp.array([1, 5]), (2, 3))
      (Array([0, 1], dtype=int32), Array([1, 2], dtype=int32))

    See also:
      `ravel_multi_index`
    """
    flat = as_array("unravel_index", indices)
    given: Any = shape
    sizes = list(given) if hasattr(given, "__iter__") else [given]
    if any(np.ndim(s) != 0 for s in sizes):
        raise ValueError("unravel_index: the shape must be a scalar or a sequence of integers")
    sizes = [s if isinstance(s, Array) else as_size(s) for s in sizes]
    known = [s for s in sizes if not isinstance(s, Array)]
    left = widened(flat, *known)
    found: list[Any] = []
    for size in reversed(sizes):
        left, part = divmod_(left, size)
        found.insert(0, part)
    above = left > 0
    below = left < -1 if not _dtypes.issubdtype(left.dtype, np.unsignedinteger) else False
    fits = not _dtypes.issubdtype(flat.dtype, np.integer) or all(
        surely_at_most(size - 1, _dtypes.iinfo(flat.dtype).max) for size in known
    )
    dtype = flat.dtype if fits else left.dtype
    limited = (
        where(above, size - 1, where(below, 0, part))
        for size, part in zip(sizes, found, strict=True)
    )
    return tuple(with_weak_type(converted(place, dtype), place.weak_type) for place in limited)


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Flat indices from coordinates.

    Args:
      multi_index: integer arrays, one for each dimension.
      dims: the shape that they are coordinates of.
      mode: the treatment of coordinates out of bounds: "raise" (not under a transformation),
        "wrap", "clip" or "ignore".
      order: "C" or "F".
      dtype: the dtype of the result.
    Raises:
      ValueError: a coordinate is out of bounds and ``mode`` is "raise", or ``dtype`` cannot hold
        the indices.
      TypeError: the coordinates are not integers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.ravel_multi_index((gnp.array([0, 1]), gnp.array([1, 2])), (2, 3))
      Array([1, 5], dtype=int32)

    See also:
      `unravel_index`
    """
    shape = tuple(operator.index(d) for d in dims)
    if len(multi_index) != len(shape):
        raise AssertionError(
            f"ravel_multi_index: {len(multi_index)} coordinates for {len(shape)} dimensions"
        )
    parts = [as_array("ravel_multi_index", x, i) for i, x in enumerate(multi_index)]
    target = (
        _dtypes.result_type(int, *parts)
        if dtype is None
        else _dtypes.check_user_dtype(dtype, "ravel_multi_index")
    )
    if not _dtypes.issubdtype(target, np.integer):
        raise ValueError(f"ravel_multi_index: {target.name} is not an integer type")
    if math.prod(shape) - 1 > _dtypes.iinfo(target).max:
        raise ValueError(
            f"ravel_multi_index: {target.name} cannot hold the flat indices of {shape}; give a "
            "wider dtype"
        )
    if any(not _dtypes.issubdtype(x.dtype, np.integer) for x in parts):
        raise TypeError("ravel_multi_index takes integers only")
    parts = [widened(x, n) for x, n in zip(parts, shape, strict=True)]
    if mode == "raise":
        # The bool of a traced array raises an error that says what to do.
        if any(bool(any_((x < 0) | (x >= n))) for x, n in zip(parts, shape, strict=True)):
            raise ValueError(f"ravel_multi_index: coordinates out of the bounds of {shape}")
    elif mode == "clip":
        parts = [clip(x, 0, n - 1) for x, n in zip(parts, shape, strict=True)]
    elif mode == "wrap":
        parts = [x % n for x, n in zip(parts, shape, strict=True)]
    elif mode != "ignore":
        raise ValueError(
            f"ravel_multi_index: mode must be 'raise', 'wrap', 'clip' or 'ignore', got {mode!r}"
        )
    if order not in ("C", "F"):
        raise ValueError(f"ravel_multi_index: order must be 'C' or 'F', got {order!r}")
    result: Array = array(0, dtype=target)
    pairs = list(zip(parts, shape, strict=True))
    stride = 1
    for part, size in pairs if order == "F" else reversed(pairs):
        result = result + lax.convert_element_type(part, target) * stride
        stride *= size
    return result


__all__ = [
    "block",
    "c_",
    "diag_indices",
    "diag_indices_from",
    "index_exp",
    "ix_",
    "mask_indices",
    "mgrid",
    "ogrid",
    "r_",
    "ravel_multi_index",
    "s_",
    "tril_indices",
    "tril_indices_from",
    "triu_indices",
    "triu_indices_from",
    "unravel_index",
]
