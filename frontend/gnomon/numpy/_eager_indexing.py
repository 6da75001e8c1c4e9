"""Reads and writes of concrete arrays by plain indices, as NumPy does them on the spot.

Each function answers None where the index or the values ask for more: out of bounds, another dtype,
arrays in a tuple, masks. The general way, which gives the same values, takes over then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon._array import ConcreteArray
from gnomon._dtypes import scalar_to_numpy
from gnomon.dialects.emit import ops

__all__ = ["eager_read", "eager_update", "wrapped"]

Value = np.ndarray[Any, Any]

_BASIC = frozenset((int, slice, type(None), type(Ellipsis)))

# A view keeps the memory of the whole array: a small part of a large array is copied.
_LARGE_BYTES = 1 << 16
_SMALL_PART = 8


def _is_basic(index: Any) -> bool:
    kind = type(index)
    if kind is tuple:
        return all(type(i) in _BASIC for i in index)
    return kind in _BASIC


def _scalar_index(index: Any) -> Any:
    """An integer array without dimensions as an int."""
    if type(index) is ConcreteArray and not index.shape and index.dtype.kind in "iu":
        return int(index)
    return index


def eager_read(value: Value, index: Any) -> Any:
    """``value[index]``: a view, an array or a NumPy scalar."""
    index = _scalar_index(index)
    if _is_basic(index):
        try:
            out = value[index]
        except (IndexError, TypeError):
            return None
        if value.nbytes > _LARGE_BYTES and out.nbytes * _SMALL_PART < value.nbytes:
            return out.copy()
        return out
    rows = _rows(index)
    if rows is None or not value.ndim or not value.shape[0]:
        return None
    return value.take(wrapped(rows, value.shape[0]), axis=0, mode="clip")


def _rows(index: Any) -> Value | None:
    """The index as an array of integers with dimensions."""
    kind = type(index)
    rows = index.numpy_value() if kind is ConcreteArray else index
    if type(rows) is not np.ndarray or rows.dtype.kind not in "iu" or not rows.ndim:
        return None
    return rows


def wrapped(index: Value, size: int) -> Value:
    """Indices counted from the start, in a type that holds them."""
    if index.dtype.kind == "u":
        if index.dtype.itemsize == 8:
            index = np.minimum(index, np.uint64(size))
        return index.astype(np.intp)
    index = index.astype(np.intp)
    negative = index < 0
    return np.where(negative, index + size, index) if negative.any() else index


def eager_update(name: str, combine: str | None, value: Value, index: Any, new: Any) -> Any:
    """A copy of ``value`` with the elements at ``index`` replaced by, or combined with, ``new``."""
    update = _same_dtype(new, value.dtype)
    if update is None:
        return None
    index = _scalar_index(index)
    if _is_basic(index):
        return _update_part(combine, value, index, update)
    rows = _rows(index)
    if rows is None or not value.ndim or name not in ("scatter", "scatter_add"):
        return None
    rows = wrapped(rows, value.shape[0])
    if rows.size and not (rows.min() >= 0 and rows.max() < value.shape[0]):
        return None
    if update.ndim and update.shape != (*rows.shape, *value.shape[1:]):
        return None
    out = value.copy()
    if name == "scatter":
        out[rows] = update
    else:
        with np.errstate(all="ignore"):
            np.add.at(out, rows, update)
    return out


def _same_dtype(new: Any, dtype: np.dtype[Any]) -> Value | None:
    """The values of an update where they need no conversion beyond that of a Python scalar."""
    kind = type(new)
    if dtype.kind not in "iufc":
        return None
    if kind is ConcreteArray:
        return new.numpy_value() if new.dtype == dtype else None
    if (kind is float and dtype.kind in "fc") or (kind is int and dtype.kind in "fciu"):
        value = scalar_to_numpy(new, dtype)
        return value if kind is float or value == new else None
    return None


def _update_part(combine: str | None, value: Value, index: Any, update: Value) -> Value | None:
    try:
        part = value[index]
    except (IndexError, TypeError):
        return None
    if update.ndim and update.shape != part.shape:
        return None
    if combine is not None:
        with np.errstate(all="ignore"):
            update = getattr(ops, combine).evaluate(part, np.broadcast_to(update, part.shape))
    out = value.copy()
    out[index] = update
    return out
