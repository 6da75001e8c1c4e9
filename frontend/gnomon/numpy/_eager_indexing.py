"""Direct reads and writes of concrete arrays by NumPy.

`eager_read` and `eager_update` return None for an index or values that NumPy does not handle in the
same way: integers out of bounds, lists, another dtype. The general path then computes the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon._arrays.concrete import ConcreteArray
from gnomon._arrays.host_values import scalar_to_numpy
from gnomon.dialects.emit import ops

__all__ = ["eager_read", "eager_update", "wrapped"]

Value = np.ndarray[Any, Any]

# NumPy refuses indices out of bounds, and ints beyond 64 bits with an `OverflowError`.
_REFUSED = (IndexError, OverflowError, TypeError)

_BASIC = frozenset((int, slice, type(None), type(Ellipsis)))

# A view keeps the memory of the whole array: a small part of a large array is copied.
_LARGE_BYTES = 1 << 16
_SMALL_PART = 8


def _plain(index: Any) -> Any:
    """One part of an index in NumPy's form, not checked against bounds; None if not plain."""
    kind = type(index)
    if kind is ConcreteArray:
        index, kind = index.numpy_value(), np.ndarray
    if kind is np.ndarray:
        if index.dtype.kind in "iu":
            return index if index.ndim else int(index)
        return index if index.dtype.kind == "b" else None
    return index if kind in _BASIC and index is not None else None


def _is_basic(index: Any) -> bool:
    kind = type(index)
    if kind is tuple:
        return all(type(i) in _BASIC for i in index)
    return kind in _BASIC


def wrapped(index: Value, size: int) -> Value:
    """Indices counted from the start, in a dtype that can hold them."""
    if index.dtype.kind == "u":
        if index.dtype.itemsize == 8:
            index = np.minimum(index, np.uint64(size))
        return index.astype(np.intp)
    index = index.astype(np.intp)
    negative = index < 0
    return np.where(negative, index + size, index) if negative.any() else index


def _with_arrays(index: Any, shape: tuple[int, ...], clip: bool) -> tuple[Any, ...] | None:
    """An index with arrays that are in bounds; None if it is not plain or out of bounds.

    Args:
      index: the expression between the brackets.
      shape: the shape of the array.
      clip: clamp indices to the bounds.
    """
    parts: list[Any] = []
    consumed = 0
    for item in index if type(index) is tuple else (index,):
        part = None if item is None else _plain(item)
        if part is None and item is not None:
            return None
        parts.append(part)
        if part is not None and part is not Ellipsis:
            consumed += part.ndim if type(part) is np.ndarray and part.dtype == bool else 1
    axis = 0
    for at, part in enumerate(parts):
        if part is Ellipsis:
            axis += max(len(shape) - consumed, 0)
        elif type(part) is np.ndarray and part.dtype == bool:
            axis += part.ndim
        elif part is not None:
            if type(part) is np.ndarray:
                if axis >= len(shape) or shape[axis] == 0:
                    return None
                rows = wrapped(part, shape[axis])
                if clip:
                    rows = rows.clip(0, shape[axis] - 1)
                elif rows.size and not (rows.min() >= 0 and rows.max() < shape[axis]):
                    return None
                parts[at] = rows
            axis += 1
    return tuple(parts)


def eager_read(value: Value, index: Any) -> Any:
    """``value[index]``: a view, an array or a NumPy scalar."""
    if not _is_basic(index):
        index = _with_arrays(index, value.shape, clip=True)
        if index is None:
            return None
    try:
        out = value[index]
    except _REFUSED:
        return None
    if value.nbytes > _LARGE_BYTES and out.nbytes * _SMALL_PART < value.nbytes:
        return out.copy()
    return out


def eager_update(name: str, combine: str | None, value: Value, index: Any, new: Any) -> Any:
    """A copy of ``value`` with the elements at ``index`` replaced by, or combined with, ``new``."""
    update = _same_dtype(new, value.dtype)
    if update is None:
        return None
    basic = _is_basic(index)
    if not basic:
        if name not in ("scatter", "scatter_add"):
            return None
        if combine is not None and value.dtype.kind == "f" and value.dtype.itemsize < 4:
            return None  # the op adds the updates of repeated indices in f32
        index = _with_arrays(index, value.shape, clip=False)
        if index is None:
            return None
    try:
        part = value[index]
    except _REFUSED:
        return None
    if update.ndim and update.shape != part.shape:
        return None
    out = value.copy()
    with np.errstate(all="ignore"):
        if basic and combine is not None:
            full = np.broadcast_to(update, part.shape)
            update = getattr(ops, combine).evaluate(part, full)
        if basic or combine is None:
            out[index] = update
        else:
            # Repeated indices add up.
            np.add.at(out, index, update)
    return out


def _same_dtype(new: Any, dtype: np.dtype[Any]) -> Value | None:
    """The values of an update, unless they need a conversion other than that of a Python scalar."""
    kind = type(new)
    if dtype.kind not in "iufc":
        return None
    if kind is ConcreteArray:
        return new.numpy_value() if new.dtype == dtype else None
    if (kind is float and dtype.kind in "fc") or (kind is int and dtype.kind in "fciu"):
        value = scalar_to_numpy(new, dtype)
        return value if kind is float or value == new else None
    return None
