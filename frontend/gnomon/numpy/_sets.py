"""Sets of numbers: distinct elements, membership, union, intersection, differences.

The number of distinct elements is known only if the elements are. With ``size``, the result has a
fixed length, and these functions can be traced.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._diagnostics.errors import ConcretizationTypeError
from gnomon._tracing.bind import with_weak_type
from gnomon._tracing.trace import concrete_value, is_tracer
from gnomon.dialects.symbolic.dimension import as_size
from gnomon.dialects.types import is_complex, is_inexact
from gnomon.lax._creation import converted
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._accumulations import cumsum, diff
from gnomon.numpy._arguments import as_array, promoted
from gnomon.numpy._joining import append, concatenate
from gnomon.numpy._manipulation import moveaxis, ravel
from gnomon.numpy._predicates import isnan
from gnomon.numpy._ranges import arange
from gnomon.numpy._reductions import any
from gnomon.numpy._selection import nonzero, where
from gnomon.numpy._sorting import argsort, method_for, searchsorted, sort


def _known(name: str, *arrays: Array) -> None:
    """Raise unless the values, and with them the size of the result, are known."""
    for x in arrays:
        if is_tracer(x) and concrete_value(x) is None:
            raise ConcretizationTypeError(
                x,
                f"The size of the result of {name} depends on values that are not known; pass "
                "size.",
            )


def _static_size(size: Any) -> int | None:
    return None if size is None else as_size(size)


def _filled(values: Array, count: Array, fill_value: Any) -> Array:
    """Replace all but the first ``count`` values by the fill value."""
    fill = converted(as_array("unique", fill_value), values.dtype)
    held = arange(values.shape[0]) < count
    return where(lax.expand_dims(held, tuple(range(1, values.ndim))), values, fill)


# ------------------------------------------------------------------------------- distinct elements


class _Groups(NamedTuple):
    """Sorted rows, with the positions that they had and a mask of the first of equal rows."""

    rows: Array
    is_first: Array
    order: Array


def _groups(x: Array, equal_nan: bool) -> _Groups:
    """Sort the rows of ``x`` (its slices along the leading axis): equal ones become adjacent."""
    n = x.shape[0]
    positions = lax.iota(_dtypes.default_int_dtype(), n)
    if not x.size:
        # Rows without elements are equal.
        return _Groups(x, lax.eq(positions, lax.full_like(positions, 0)), positions)
    columns = lax.reshape(x, (n, x.size // n))
    keys = [columns[:, i] for i in range(columns.shape[1])]
    if is_complex(x.dtype):
        # The parts are compared in turn, so nans would be among the numbers.
        keys = [key for column in keys for key in (isnan(column), column)]
    *_, order = lax.sort((*keys, positions), 0, num_keys=len(keys))
    rows = x[order] if len(keys) > 1 or x.ndim > 1 else sort(x)
    flat = lax.reshape(rows, columns.shape)
    differs = lax.ne(flat[1:], flat[:-1])
    if equal_nan and is_inexact(x.dtype):
        differs = differs & ~(isnan(flat[1:]) & isnan(flat[:-1]))
    first = lax.full((1,), True, np.dtype(np.bool_))
    return _Groups(rows, lax.concatenate([first, any(differs, 1)], 0), order)


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """The distinct elements, sorted.

    Args:
      ar: an array.
      return_index: also return the index of the first occurrence of each.
      return_inverse: also return, for each element of ``ar``, the index of its distinct element.
      return_counts: also return the number of occurrences of each.
      axis: find distinct slices along this axis; None means elements of the flat array.
      equal_nan: whether all nans count as one element.
      size: the length of the result, which is needed if ``ar`` is traced. Excess elements are
        dropped.
      fill_value: the value of missing elements; the first distinct element by default.
      sorted: ignored: the result is always sorted.
    Returns:
      An array, or a tuple of it and the other requested arrays.
    Raises:
      ConcretizationTypeError: ``ar`` is traced and there is no ``size``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> unique(gnp.array([3, 1, 3]), return_counts=True)
      (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    x = as_array("unique", ar)
    count = _static_size(size)
    if count is None:
        _known("unique", x)
    shape = x.shape
    along = 0 if axis is None else canonical_axis(axis, x.ndim)
    x = ravel(x) if axis is None else moveaxis(x, along, 0)
    n, dtype = x.shape[0], _dtypes.default_int_dtype()
    if n == 0 and count and fill_value is None:
        raise ValueError(
            "unique: for zero-sized input with nonzero size argument, fill_value must be specified"
        )
    rows, is_first, order = _groups(x, equal_nan)
    found = nonzero(is_first, size=count)[0]
    values = rows[found] if n else rows
    if count is not None and fill_value is not None:
        if n:
            values = _filled(values, is_first.sum(), fill_value)
        else:
            fill = converted(as_array("unique", fill_value), x.dtype)
            values = lax.full((count, *x.shape[1:]), 0, x.dtype) + fill
    results = [with_weak_type(moveaxis(values, 0, along), False)]
    if return_index:
        results.append(order[found] if n else order)
    if return_inverse:
        inverse = lax.full((n,), 0, dtype)
        if rows.size:
            inverse = inverse.at[order].set(cumsum(is_first) - 1)
        results.append(lax.reshape(inverse, shape) if axis is None else inverse)
    if return_counts:
        results.append(_counts(is_first, n, count))
    return results[0] if len(results) == 1 else tuple(results)


def _counts(is_first: Array, n: int, size: int | None) -> Array:
    """The sizes of groups of equal rows."""
    if not n:
        return lax.full((0,), 0, _dtypes.default_int_dtype())
    if size is None:
        return diff(append(nonzero(is_first)[0], n))
    return diff(nonzero(is_first, size=size + 1, fill_value=n)[0])


class UniqueAllResult(NamedTuple):
    """The result of `unique_all`."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """The result of `unique_counts`."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """The result of `unique_inverse`."""

    values: Array
    inverse_indices: Array


def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueAllResult:
    """Distinct elements, their first positions, the inverse indices, and their counts.

    Nans are distinct; see `unique`.

    Args:
      x: an array, which is flattened; each nan is distinct.
      size: the length of the result, needed under `jit`; excess entries are dropped, missing ones
        filled.
      fill_value: the value of missing entries; by default the smallest element.
    Returns:
      A named tuple ``(values, indices, inverse_indices, counts)``. ``values`` is sorted, and
      ``values[inverse_indices]`` is ``x``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> result = gnp.unique_all(gnp.array([3, 1, 3]))
      >>> result.values, result.indices
      (Array([1, 3], dtype=int32), Array([1, 0], dtype=int32))
      >>> result.inverse_indices, result.counts
      (Array([1, 0, 1], dtype=int32), Array([1, 2], dtype=int32))

    See also:
      `unique`
    """
    results = unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueAllResult(*results)


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueCountsResult:
    """Distinct elements and how often each occurs.

    Args:
      x: an array, which is flattened; each nan is distinct.
      size: the length of the result, needed under `jit`; excess entries are dropped, missing ones
        filled.
      fill_value: the value of missing entries; by default the smallest element.
    Returns:
      A named tuple ``(values, counts)``, where ``values`` is sorted.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.unique_counts(gnp.array([3, 1, 3]))
      UniqueCountsResult(values=Array([1, 3], dtype=int32), counts=Array([1, 2], dtype=int32))

    See also:
      `unique`, `bincount`
    """
    results = unique(x, False, False, True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueCountsResult(*results)


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueInverseResult:
    """Distinct elements, and for each element the index of its value among them.

    Args:
      x: an array, which is flattened; each nan is distinct.
      size: the length of the result, needed under `jit`; excess entries are dropped, missing ones
        filled.
      fill_value: the value of missing entries; by default the smallest element.
    Returns:
      A named tuple ``(values, inverse_indices)``; ``values[inverse_indices]`` is ``x``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> result = gnp.unique_inverse(gnp.array([30, 10, 30]))
      >>> result.values, result.inverse_indices
      (Array([10, 30], dtype=int32), Array([1, 0, 1], dtype=int32))

    See also:
      `unique`
    """
    results = unique(x, False, True, False, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueInverseResult(*results)


def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The distinct elements of an array, sorted.

    Args:
      x: an array, which is flattened; each nan is distinct.
      size: the length of the result, needed under `jit`; excess entries are dropped, missing ones
        filled.
      fill_value: the value of missing entries; by default the smallest element.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.unique_values(gnp.array([3, 1, 3]))
      Array([1, 3], dtype=int32)

    See also:
      `unique`
    """
    result = unique(x, equal_nan=False, size=size, fill_value=fill_value)
    assert isinstance(result, Array)
    return result


# -------------------------------------------------------------------------------------- membership

_METHODS = ("auto", "compare_all", "binary_search", "sort")


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Elementwise test for membership in an array.

    Args:
      element: an array.
      test_elements: the elements of the set.
      assume_unique: ignored.
      invert: test for elements that are not in the set.
      method: ``"compare_all"`` compares all pairs; ``"binary_search"`` and ``"sort"`` sort
        ``test_elements``; ``"auto"`` chooses by size.
    Returns:
      Bools of the shape of ``element``. A nan is never in the set.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.isin(gnp.array([[1, 2], [3, 4]]), gnp.array([2, 4, 6]))
      Array([[False,  True],
             [False,  True]], dtype=bool)
      >>> gnp.isin(gnp.array([1, 2]), gnp.array([2]), invert=True)
      Array([ True, False], dtype=bool)

    See also:
      `intersect1d`
    """
    if method not in _METHODS:
        raise ValueError(f"method={method!r} is not implemented; options are {', '.join(_METHODS)}")
    shape = as_array("isin", element).shape
    x, others = (ravel(p) for p in promoted("isin", element, test_elements))
    if x.size == 0 or not others.size:
        return lax.full(shape, bool(invert), np.dtype(np.bool_))
    if method == "auto":
        method = method_for(others, x)
    if method == "compare_all":
        found = any(x[:, None] == others[None, :], 1)
    else:
        ordered = sort(others)
        place = searchsorted(ordered, x)
        last = lax.full_like(place, others.size - 1)
        found = ordered.at[lax.min(place, last)].get(mode="clip") == x
    return lax.reshape(~found if invert else found, shape)


# ----------------------------------------------------------------------------------- set operations


def _distinct(x: Array, size: int | None) -> tuple[Array, Array]:
    """Distinct elements, and a mask of the positions that hold one."""
    if size is None or not x.size:
        values = unique(x) if x.size else x
        return values, lax.full(values.shape, True, np.dtype(np.bool_))
    rows, is_first, _ = _groups(x, True)
    return rows, is_first


def _chosen(values: Array, mask: Array, size: int | None, fill_value: Any) -> tuple[Array, Array]:
    """The values where a mask is true, in their order, and their positions."""
    if size is None:
        places = nonzero(mask)[0]
        return values[places], places
    places = nonzero(mask, size=size, fill_value=0)[0]
    if not values.size:
        fill = 0 if fill_value is None else fill_value
        return lax.full((size,), 0, values.dtype) + converted(
            as_array("unique", fill), values.dtype
        ), places
    taken = values[places]
    return _filled(taken, mask.sum(), 0 if fill_value is None else fill_value), places


def _two_sets(name: str, ar1: Any, ar2: Any, size: int | None) -> tuple[Array, Array]:
    x, y = (ravel(p) for p in promoted(name, ar1, ar2))
    if size is None:
        _known(name, x, y)
    return x, y


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements of one array that are not in another, sorted.

    Args:
      ar1, ar2: arrays.
      assume_unique: keep the elements of ``ar1`` in their order, with duplicates.
      size, fill_value: see `unique`; missing elements are 0 by default.
    Returns:
      An array of the first one's dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.setdiff1d(gnp.array([4, 1, 2, 1]), gnp.array([2, 5]))
      Array([1, 4], dtype=int32)

    See also:
      `intersect1d`, `union1d`, `setxor1d`
    """
    count = _static_size(size)
    x, y = _two_sets("setdiff1d", ar1, ar2, count)
    if assume_unique:
        values, held = x, lax.full(x.shape, True, np.dtype(np.bool_))
    else:
        values, held = _distinct(x, count)
    rest = _chosen(values, held & isin(values, y, invert=True), count, fill_value)[0]
    return converted(rest, as_array("setdiff1d", ar1).dtype)


def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The distinct elements of two arrays together, sorted.

    Args:
      ar1, ar2: arrays, which are flattened.
      size: the length of the result, needed under `jit`; excess entries are dropped, missing ones
        filled.
      fill_value: the value of missing entries; by default the smallest element.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.union1d(gnp.array([3, 1]), gnp.array([2, 3]))
      Array([1, 2, 3], dtype=int32)

    See also:
      `unique`, `intersect1d`
    """
    count = _static_size(size)
    x, y = _two_sets("union1d", ar1, ar2, count)
    result = unique(concatenate([x, y]), size=count, fill_value=fill_value)
    assert isinstance(result, Array)
    return result


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """The sorted distinct elements that two arrays have in common.

    Args:
      ar1, ar2: arrays.
      assume_unique: ignored.
      return_indices: also return their first positions in each array; a missing element has the
        size of the array as its position.
      size, fill_value: see `unique`; missing elements are the first common one by default.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.intersect1d(gnp.array([3, 1, 2]), gnp.array([2, 3, 5]))
      Array([2, 3], dtype=int32)
      >>> gnp.intersect1d(gnp.array([3, 1]), gnp.array([3, 5]), size=2, fill_value=-1)
      Array([ 3, -1], dtype=int32)

    See also:
      `union1d`, `setdiff1d`, `isin`
    """
    count = _static_size(size)
    x, y = _two_sets("intersect1d", ar1, ar2, count)
    rows, is_first, order = _groups(x, True)
    common = is_first & isin(rows, y)
    if count is not None and fill_value is None and rows.size:
        fill_value = where(any(common), rows[common.argmax()], 0)
    values, places = _chosen(rows, common, count, fill_value)
    if not return_indices:
        return values
    if not values.size or not y.size or not rows.size:
        # Of a given size, all elements are missing.
        dtype = _dtypes.default_int_dtype()
        return values, *(lax.full(values.shape, each.size, dtype) for each in (x, y))
    order_y = argsort(y)
    first, second = order[places], order_y[searchsorted(y[order_y], rows[places])]
    if count is not None:
        # An index out of bounds marks a missing element.
        held = arange(count) < common.sum()
        first, second = where(held, first, x.size), where(held, second, y.size)
    return values, first, second


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The sorted distinct elements that are in exactly one of two arrays.

    Args:
      ar1, ar2: arrays.
      assume_unique: each array is taken to have no equal elements: the result has the elements that
        occur once in both together.
      size, fill_value: see `unique`; missing elements are the smallest element of both arrays by
        default.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.setxor1d(gnp.array([1, 2, 3]), gnp.array([3, 4]))
      Array([1, 2, 4], dtype=int32)
    """
    count = _static_size(size)
    x, y = _two_sets("setxor1d", ar1, ar2, count)
    if assume_unique:
        values, is_first, _ = _groups(concatenate([x, y]), equal_nan=False)
        following = lax.full((min(values.size, 1),), True, np.dtype(np.bool_))
        mask = is_first & concatenate([is_first[1:], following])
    else:
        parts = []
        for own, other in ((x, y), (y, x)):
            values, held = _distinct(own, count)
            parts.append((values, held & isin(values, other, invert=True)))
        values = concatenate([v for v, _ in parts])
        mask = concatenate([m for _, m in parts])
    if not values.size:
        return _chosen(values, mask, count, fill_value)[0]
    if fill_value is None:
        fill_value = concatenate([x, y]).min()
    keys = converted(~mask, np.dtype(np.int8))
    keys, ordered = lax.sort((keys, values), num_keys=2)
    return _chosen(ordered, lax.eq(keys, lax.full_like(keys, 0)), count, fill_value)[0]


__all__ = [
    "intersect1d",
    "isin",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]
