"""Replacement, selection and removal of elements: `put`, `place`, `choose`, `compress`, ..."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, ArraysLike, ShapeLike
from gnomon._arrays.array import Array
from gnomon._diagnostics.errors import ConcretizationTypeError
from gnomon._tracing.bind import with_weak_type
from gnomon._tracing.trace import concrete_value
from gnomon.lax._operands import as_tuple, widened
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._accumulations import cumsum
from gnomon.numpy._arguments import as_array, axis_tuple
from gnomon.numpy._creation import zeros
from gnomon.numpy._joining import stack
from gnomon.numpy._manipulation import (
    broadcast_arrays,
    broadcast_to,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
    swapaxes,
)
from gnomon.numpy._ranges import arange
from gnomon.numpy._reductions import any as any_
from gnomon.numpy._reductions import sum as sum_
from gnomon.numpy._repetition import tile
from gnomon.numpy._selection import clip, nonzero, where
from gnomon.numpy._taking import take_along_axis


def _immutable(function: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(
            f"numpy.{function} cannot change an array, which is immutable. Pass inplace=False to "
            "get a modified copy"
        )


def _repeated(values: Array, count: int) -> Array:
    """Repeat the values until there are ``count`` of them."""
    flat = ravel(values)
    if flat.size == count:
        return flat
    return tile(flat, -(-count // flat.size))[:count]


def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Array:
    """A copy of the array with values put at flat indices.

    Args:
      a, ind, v: the array, integers, and values, which are repeated if there are fewer.
      mode: the treatment of indices out of bounds: None drops them; or "clip" or "wrap".
      inplace: must be False.
    Raises:
      ValueError: ``inplace`` is true, or the mode is unknown.
      NotImplementedError: the mode is "raise".

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.put(gnp.zeros(4), gnp.array([0, 2]), 1.0, inplace=False)
      Array([1., 0., 1., 0.], dtype=float32)
    """
    _immutable("put", inplace)
    x, indices, values = (as_array("put", y, i) for i, y in enumerate((a, ind, v)))
    if mode == "raise":
        raise NotImplementedError("put: mode 'raise' is not supported; use 'clip' or 'wrap'")
    if mode not in (None, "clip", "wrap"):
        raise ValueError(f"put: mode must be None, 'clip' or 'wrap', got {mode!r}")
    if not x.size or not indices.size or not values.size:
        return x
    places = widened(ravel(indices), x.size)
    if mode == "clip":
        places = clip(places, 0, x.size - 1)
    elif mode == "wrap":
        places = places % x.size
    flat: Any = ravel(x)
    return reshape(flat.at[places].set(_repeated(values, places.size), mode="drop"), x.shape)


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """A copy of an array with values at indices along an axis.

    Args:
      arr: an array.
      indices: an array of integers of the same rank, laid out as for `take_along_axis`.
      values: an array that broadcasts to the shape of ``indices``.
      axis: the axis; None means the flattened array.
      inplace: must be False, because arrays are immutable.
      mode: the treatment of indices out of bounds, as for ``x.at[...]``; None drops them.
    Raises:
      ValueError: ``inplace`` is true, the ranks differ, or the values do not fit the indices.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.array([[10, 30, 20], [60, 40, 50]])
      >>> largest = gnp.argmax(x, axis=1, keepdims=True)
      >>> gnp.put_along_axis(x, largest, 0, axis=1, inplace=False)
      Array([[10,  0, 20],
             [ 0, 40, 50]], dtype=int32)

    See also:
      `take_along_axis`
    """
    _immutable("put_along_axis", inplace)
    x, at, new = (as_array("put_along_axis", y, i) for i, y in enumerate((arr, indices, values)))
    shape = x.shape
    if axis is None:
        x, axis = ravel(x), 0
    if x.ndim != at.ndim:
        raise ValueError(
            f"put_along_axis: arr and indices must have the same rank, got {x.ndim} and {at.ndim}"
        )
    try:
        new = broadcast_to(new, at.shape)
    except ValueError as error:
        raise ValueError(
            f"put_along_axis: values {new.shape} cannot be broadcast to indices {at.shape}"
        ) from error
    axis = canonical_axis(axis, x.ndim)
    index = [
        at if d == axis else reshape(arange(n), tuple(n if e == d else 1 for e in range(x.ndim)))
        for d, n in enumerate(x.shape)
    ]
    target: Any = x
    return reshape(target.at[tuple(index)].set(new, mode=mode), shape)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """A copy of an array with new values where a mask is true.

    Args:
      arr: an array.
      mask: a bool array with as many elements as ``arr``.
      vals: an array of values, used one after the other and again from the first when they run out.
      inplace: must be False, because arrays are immutable.
    Raises:
      ValueError: ``inplace`` is true, the sizes differ, or there are no values.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.array([1, 2, 3, 4])
      >>> gnp.place(x, x != 2, gnp.array([9, 8]), inplace=False)
      Array([9, 2, 8, 9], dtype=int32)

    See also:
      `where`, `putmask`
    """
    _immutable("place", inplace)
    x, where_, values = (as_array("place", y, i) for i, y in enumerate((arr, mask, vals)))
    if x.size != where_.size:
        raise ValueError(
            f"place: arr and mask must have the same size, got {x.size} and {where_.size}"
        )
    flat = ravel(values)
    if not flat.size:
        raise ValueError("place: there are no values to place")
    if not x.size:
        return x
    true = lax.convert_element_type(ravel(where_), np.bool_)
    count = cumsum(true) - 1
    chosen = lax.convert_element_type(flat[count % flat.size], x.dtype)
    return reshape(where(true, chosen, ravel(x)), x.shape)


def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Array:
    """A copy of an array whose main diagonal holds given values.

    Args:
      a: an array of at least two dimensions; more than two must have equal sizes.
      val: a scalar, or an array whose elements are used in turn, again from the start when they run
        out.
      wrap: must be False.
      inplace: must be False, because arrays are immutable.
    Raises:
      ValueError: ``inplace`` is true, the array has fewer than two dimensions, or it has more than
        two and their sizes differ.
      NotImplementedError: ``wrap`` is true.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fill_diagonal(gnp.zeros((2, 3)), 7.0, inplace=False)
      Array([[7., 0., 0.],
             [0., 7., 0.]], dtype=float32)
    """
    _immutable("fill_diagonal", inplace)
    if wrap:
        raise NotImplementedError("fill_diagonal: wrap=True is not supported")
    x, value = as_array("fill_diagonal", a), as_array("fill_diagonal", val, 1)
    if x.ndim < 2:
        raise ValueError(f"fill_diagonal takes at least two dimensions, got shape {x.shape}")
    if x.ndim > 2 and len(set(x.shape)) > 1:
        raise ValueError(f"fill_diagonal: all dimensions must be of one size, got {x.shape}")
    count = min(x.shape)
    index = (arange(count),) * x.ndim
    target: Any = x
    return target.at[index].set(value if value.ndim == 0 else _repeated(value, count))


def choose(a: ArrayLike, choices: ArraysLike, out: None = None, mode: str = "raise") -> Array:
    """Elements picked from several arrays: ``choices[a[i]][i]``.

    Args:
      a: an array of integers, the index of the choice for each element.
      choices: arrays that broadcast with ``a``, or an array whose first dimension enumerates them.
      out: must be None, because arrays are immutable.
      mode: the treatment of integers out of bounds: "raise" (not under a transformation), "wrap" or
        "clip".
    Raises:
      ValueError: ``a`` does not hold integers, an integer is out of bounds, or the mode is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.choose(gnp.array([1, 0, 1]), [gnp.array([1, 2, 3]), gnp.array([10, 20, 30])])
      Array([10,  2, 30], dtype=int32)
      >>> gnp.choose(gnp.array([0, 5]), [1, 2], mode="clip")
      Array([1, 2], dtype=int32)

    See also:
      `select`, `where`
    """
    if out is not None:
        raise NotImplementedError("choose: the argument out is not supported")
    index = as_array("choose", a)
    arrays = [as_array("choose", c, 1) for c in choices]
    if not _dtypes.issubdtype(index.dtype, np.integer):
        raise ValueError("choose: a must be of an integer type")
    count = len(arrays)
    index = widened(index, count)
    if mode == "raise":
        if bool(any_((index < 0) | (index >= count))):
            raise ValueError(f"choose: an entry is not in [0, {count})")
    elif mode == "wrap":
        index = index % count
    elif mode == "clip":
        index = clip(index, 0, count - 1)
    else:
        raise ValueError(f"choose: mode must be 'raise', 'wrap' or 'clip', got {mode!r}")
    index, *arrays = broadcast_arrays(index, *arrays)
    picked = take_along_axis(stack(arrays), expand_dims(index, 0), 0)
    return with_weak_type(picked[0], False)


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """The slices along an axis (or elements, without an axis) for which a condition holds.

    Args:
      condition: a vector of bools; it may be shorter than the axis.
      a: an array.
      axis: the axis that ``condition`` selects from; None flattens the array first.
      size: the number of slices in the result, which is needed if the condition is traced.
      fill_value: the value of the slices that ``size`` adds; 0 by default.
      out: must be None, because arrays are immutable.
    Raises:
      ValueError: the condition is not a vector, or holds beyond the end.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.compress(gnp.array([True, False, True]), gnp.arange(4))
      Array([0, 2], dtype=int32)
      >>> gnp.compress(gnp.array([False, True]), gnp.array([[1, 2], [3, 4]]), axis=1)
      Array([[2],
             [4]], dtype=int32)

    See also:
      `extract`, `take`
    """
    if out is not None:
        raise NotImplementedError("compress: the argument out is not supported")
    holds, x = as_array("compress", condition), as_array("compress", a, 1)
    holds = lax.convert_element_type(holds, np.bool_)
    if holds.ndim != 1:
        raise ValueError(f"compress: the condition must be a vector, got shape {holds.shape}")
    if axis is None:
        x, axis = ravel(x), 0
    x = moveaxis(x, axis, 0)
    beyond, holds = holds[x.shape[0] :], holds[: x.shape[0]]
    if size is None:
        if beyond.size and bool(any_(beyond)):
            raise ValueError("compress: the condition holds beyond the end of the array")
        (index,) = nonzero(holds)
        return moveaxis(x[index], 0, axis)
    if not 0 <= size <= x.shape[0]:
        raise ValueError(f"compress: size must be in [0, {x.shape[0]}], got {size}")
    (index,) = nonzero(holds, size=size, fill_value=x.shape[0])
    source: Any = x
    filled = lax.convert_element_type(as_array("compress", fill_value), x.dtype)
    rows = source.at[lax.min(index, lax.full_like(index, x.shape[0] - 1))].get(mode="clip")
    kept = reshape(index < x.shape[0], (size,) + (1,) * (x.ndim - 1))
    return moveaxis(where(kept, rows, filled), 0, axis)


def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0
) -> Array:
    """The elements for which a condition holds, as a vector.

    Args:
      condition: an array with as many elements as ``arr``; elements that are not zero are true.
      arr: an array, which is flattened.
      size: the length of the result, needed under `jit`; excess entries are dropped, missing ones
        filled.
      fill_value: the value of missing entries; see ``size``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.extract(gnp.array([True, False, True]), gnp.array([1, 2, 3]))
      Array([1, 3], dtype=int32)

    See also:
      `compress`, `place`
    """
    flat = ravel(as_array("extract", condition))
    return compress(flat, ravel(as_array("extract", arr, 1)), size=size, fill_value=fill_value)


def resize(a: ArrayLike, new_shape: ShapeLike) -> Array:
    """An array of another size, filled with the elements in turn.

    Args:
      a: an array.
      new_shape: an int or a tuple of ints; elements are repeated or cut off as needed.
    Raises:
      ValueError: a size is negative.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.resize(gnp.array([1, 2, 3]), (2, 2))
      Array([[1, 2],
             [3, 1]], dtype=int32)
      >>> gnp.resize(gnp.array([1, 2]), 5)
      Array([1, 2, 1, 2, 1], dtype=int32)

    See also:
      `reshape`, which keeps the size
    """
    x = ravel(as_array("resize", a))
    shape = tuple(operator.index(n) for n in as_tuple(new_shape))
    if any(n < 0 for n in shape):
        raise ValueError(f"resize: all sizes of the shape must be at least 0, got {shape}")
    count = math.prod(shape)
    if x.size == 0 or count == 0:
        return zeros(shape, x.dtype)
    return reshape(_repeated(x, count), shape)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """Move a dimension before another one; `moveaxis` is easier to read.

    Args:
      a: an array.
      axis: the dimension to move.
      start: the dimension before which it is put, counted before the move.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.rollaxis(gnp.zeros((2, 3, 4)), 2).shape
      (4, 2, 3)
    """
    x = as_array("rollaxis", a)
    axis = canonical_axis(axis, x.ndim)
    start = operator.index(start)
    if not -x.ndim <= start <= x.ndim:
        raise ValueError(f"rollaxis: start {start} must be in [{-x.ndim}, {x.ndim}]")
    start += x.ndim if start < 0 else 0
    return moveaxis(x, axis, start - 1 if axis < start else start)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """Remove the zeros at the ends of an array.

    The shape of the result depends on values, so the array cannot be traced.

    Args:
      filt: an array.
      trim: "f" removes zeros at the front, "b" at the back, "fb" at both ends.
      axis: the axis or axes to shorten; None means all.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.trim_zeros(gnp.array([0, 0, 3, 0, 5, 0]))
      Array([3, 0, 5], dtype=int32)
      >>> gnp.trim_zeros(gnp.array([0, 0, 3, 0, 5, 0]), trim="f")
      Array([3, 0, 5, 0], dtype=int32)
    """
    x = as_array("trim_zeros", filt)
    axes = axis_tuple("trim_zeros", axis, x.ndim)
    front, back = "f" in trim.lower(), "b" in trim.lower()
    if not axes or not (front or back):
        return x
    value = concrete_value(x)
    if value is None:
        raise ConcretizationTypeError(
            x,
            "The size of the result of trim_zeros depends on values that are not known; if roots "
            "calls it, pass strip_zeros=False.",
        )
    index = []
    for d in range(x.ndim):
        used = np.nonzero((value != 0).any(axis=tuple(e for e in range(x.ndim) if e != d)))[0]
        if d not in axes:
            index.append(slice(None))
        elif not used.size:
            index.append(slice(0, 0))
        else:
            stop = int(used[-1]) + 1 if back else None
            index.append(slice(int(used[0]) if front else None, stop))
    return x[tuple(index)]


# ------------------------------------------------------------------------------------ bits of bytes


def _bit_places(order: str) -> np.ndarray:
    if order not in ("big", "little"):
        raise ValueError(f"bitorder must be 'big' or 'little', got {order!r}")
    places = np.arange(8, dtype=np.uint8)
    return places[::-1].copy() if order == "big" else places


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Pack eight bits into each byte, along an axis.

    Args:
      a: an array of integers or bools; elements that are not zero are set bits. Missing bits are 0.
      axis: the axis; None packs the flattened array.
      bitorder: "big" puts the first bit into the highest place, "little" into the lowest.
    Returns:
      A uint8 array.
    Raises:
      TypeError: the array holds neither integers nor bools.
      ValueError: the bit order is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.packbits(gnp.array([1, 0, 1]))
      Array([160], dtype=uint8)
      >>> gnp.packbits(gnp.array([1, 0, 1]), bitorder="little")
      Array([5], dtype=uint8)

    See also:
      `unpackbits`
    """
    x = as_array("packbits", a)
    if not (_dtypes.issubdtype(x.dtype, np.integer) or x.dtype == np.bool_):
        raise TypeError(f"packbits takes integers or bools, got {x.dtype.name}")
    places = as_array("packbits", _bit_places(bitorder))
    bits = lax.convert_element_type(lax.ne(x, lax.full_like(x, 0)), np.uint8)
    if axis is None:
        bits, axis = ravel(bits), 0
    bits = swapaxes(bits, axis, -1)
    *others, size = bits.shape
    count = (size + 7) // 8
    bits = lax.pad(bits, np.uint8(0), [(0, 0, 0)] * len(others) + [(0, 8 * count - size, 0)])
    bits = reshape(bits, (*others, count, 8))
    shifted = bits << lax.broadcast_to_rank(places, bits.ndim)
    return swapaxes(sum_(shifted, axis=-1, dtype=np.uint8), axis, -1)


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """Unpack the bits of bytes along an axis.

    Args:
      a: a uint8 array.
      axis: the axis; None unpacks the flattened array.
      count: the number of bits to keep; a negative number drops that many at the end.
      bitorder: "big" begins with the highest bit of each byte, "little" with the lowest.
    Returns:
      A uint8 array of zeros and ones.
    Raises:
      TypeError: the dtype is not uint8.
      ValueError: the bit order is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.unpackbits(gnp.array([160], dtype=gnp.uint8))
      Array([1, 0, 1, 0, 0, 0, 0, 0], dtype=uint8)
      >>> gnp.unpackbits(gnp.array([160], dtype=gnp.uint8), count=3)
      Array([1, 0, 1], dtype=uint8)

    See also:
      `packbits`
    """
    x = as_array("unpackbits", a)
    if x.dtype != np.uint8:
        raise TypeError(f"unpackbits takes uint8, got {x.dtype.name}")
    places = as_array("unpackbits", _bit_places(bitorder))
    if axis is None:
        x, axis = ravel(x), 0
    x = swapaxes(x, axis, -1)
    bits = (expand_dims(x, -1) >> lax.broadcast_to_rank(places, x.ndim + 1)) & np.uint8(1)
    bits = reshape(bits, (*x.shape[:-1], x.shape[-1] * 8))
    if count is not None:
        if count > bits.shape[-1]:
            bits = lax.pad(
                bits,
                np.uint8(0),
                [(0, 0, 0)] * (bits.ndim - 1) + [(0, count - bits.shape[-1], 0)],
            )
        else:
            bits = bits[..., :count]
    return swapaxes(bits, axis, -1)


__all__ = [
    "choose",
    "compress",
    "extract",
    "fill_diagonal",
    "packbits",
    "place",
    "put",
    "put_along_axis",
    "resize",
    "rollaxis",
    "trim_zeros",
    "unpackbits",
]
