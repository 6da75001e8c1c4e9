"""Sorting, selection and searching in sorted arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, ArraysLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, wrap
from gnomon._tracing.bind import bind, with_weak_type
from gnomon._tracing.evaluation import check_execution
from gnomon._tracing.stack import staging
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.bounds import LARGEST
from gnomon.dialects.symbolic.dimension import exceeds, is_symbolic_dim, surely_at_most
from gnomon.dialects.types import is_complex, is_inexact, is_of_numpy
from gnomon.lax._creation import converted
from gnomon.lax._reductions import index_dtype_for
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array, promoted
from gnomon.numpy._joining import concatenate
from gnomon.numpy._manipulation import broadcast_to, ravel


def _along(name: str, a: Any, axis: int | None) -> tuple[Array, int]:
    """The array and the axis to work along, or the flat array if there is no axis."""
    x = as_array(name, a)
    if axis is None:
        return ravel(x), 0
    return x, canonical_axis(operator.index(axis), x.ndim)


def _no_kind(name: str, kind: Any, order: Any) -> None:
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {name} is not supported. Use stable=True or stable=False to "
            "specify sort stability."
        )
    if order is not None:
        raise TypeError(f"'order' argument to {name} is not supported.")


def _positions(x: Array, axis: int) -> Array:
    return lax.broadcasted_iota(index_dtype_for(x.shape[axis]), x.shape, axis)


def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """A sorted copy; nans come last, or first in descending order.

    Args:
      a: an array.
      axis: the dimension to sort along; None sorts the flat array.
      kind, order: must be None.
      stable: keep the order of equal elements.
      descending: sort from the largest to the smallest.

    Example:
      >>> import gnomon.numpy as gnp
      >>> sort(gnp.array([3, 1, 2]), descending=True)
      Array([3, 2, 1], dtype=int32)
    """
    _no_kind("sort", kind, order)
    x, dimension = _along("sort", a, axis)
    result = lax.sort(x, dimension, stable)
    assert isinstance(result, Array)
    return lax.rev(result, (dimension,)) if descending else result


def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DTypeLike | None = None,
) -> Array:
    """The positions of the elements in sorted order.

    Args:
      a: an array.
      axis: the dimension to sort along; None sorts the flat array.
      kind, order: must be None.
      stable: keep the order of equal elements, also in descending order.
      descending: sort from the largest to the smallest; nans come first.
      dtype: the integer dtype of the result; by default the default integer dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> argsort(gnp.array([3, 1, 2]))
      Array([1, 2, 0], dtype=int32)
    """
    _no_kind("argsort", kind, order)
    x, dimension = _along("argsort", a, axis)
    places = _positions(x, dimension)
    if descending and stable:
        # Reverse before and after the sort, so that equal elements keep their order.
        x, places = lax.rev(x, (dimension,)), lax.rev(places, (dimension,))
    result = lax.sort_key_val(x, places, dimension, stable)[1]
    if descending:
        result = lax.rev(result, (dimension,))
    if dtype is not None:
        result = converted(result, _dtypes.check_user_dtype(dtype, "argsort"))
    return with_weak_type(result, False)


def sort_complex(a: ArrayLike) -> Array:
    """Sort along the last dimension, by real part and then by imaginary part.

    Args:
      a: an array of at least one dimension.
    Returns:
      A complex array, also of real numbers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.sort_complex(gnp.array([2 + 1j, 1.0, 2 - 1j]))
      Array([1.+0.j, 2.-1.j, 2.+1.j], dtype=complex64)

    See also:
      `sort`
    """
    x = sort(a)
    return converted(x, _dtypes.to_complex_dtype(x.dtype))


def lexsort(keys: ArraysLike, axis: int = -1) -> Array:
    """The positions of elements in the order of several keys, the last one the most significant.

    Args:
      keys: a sequence of arrays of one shape, or an array of them.
      axis: the dimension to sort along.
    Raises:
      TypeError: there are no keys.
      ValueError: shapes differ.

    Example:
      >>> import gnomon.numpy as gnp
      >>> lexsort((gnp.array([2, 1, 0]), gnp.array([1, 0, 1])))
      Array([1, 2, 0], dtype=int32)
    """
    arrays = [as_array("lexsort", k, i) for i, k in enumerate(keys)]
    if not arrays:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if len({k.shape for k in arrays}) > 1:
        raise ValueError("all keys need to be the same shape")
    first = arrays[0]
    if not first.ndim:
        return lax.full((), 0, _dtypes.default_int_dtype())
    dimension = canonical_axis(axis, first.ndim)
    operands = [*arrays[::-1], _positions(first, dimension)]
    return lax.sort(operands, dimension, num_keys=len(arrays))[-1]


def top_k(
    a: ArrayLike, k: int, /, *, axis: int = -1, mode: str = "largest", sorted: bool = True
) -> tuple[Array, Array]:
    """The ``k`` largest or smallest elements along an axis, and their positions.

    Equal elements keep their order. nan counts as larger than infinity.

    Args:
      a: an array of real numbers or bools.
      k: the number of elements, a Python integer; at most the size of the axis.
      axis: which dimension; negative ones count from the last.
      mode: ``"largest"``, in descending order, or ``"smallest"``, in ascending order.
      sorted: whether the elements must be in order, which they always are.
    Returns:
      The elements, and their positions along the axis as int32. Both have the shape of ``a`` with
      ``k`` as the size of the axis.
    Raises:
      ValueError: ``a`` is complex or a scalar, or ``k`` does not fit, or the mode is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> top_k(gnp.array([3, 1, 2]), 2, mode="smallest")
      (Array([1, 2], dtype=int32), Array([1, 2], dtype=int32))
    """
    x = as_array("top_k", a)
    if is_complex(x.dtype):
        raise ValueError(f"top_k is not compatible with complex inputs, got {x.aval}.")
    if mode not in ("largest", "smallest"):
        raise ValueError(f"top_k: mode must be 'largest' or 'smallest', got {mode!r}")
    if mode == "largest":
        return lax.top_k(x, k, axis=axis)
    values, positions = lax.top_k(_reversed_order(x), k, axis=axis)
    return _reversed_order(values), positions


def _reversed_order(x: Array) -> Array:
    """A one-to-one function of numbers that reverses their order, and is its own inverse."""
    return bind(ops.neg if is_inexact(x.dtype) else ops.not_, x)


# -------------------------------------------------------------------------------------- partitions


def _kth(name: str, a: Any, kth: Any, axis: int) -> tuple[Array, int, int]:
    x = as_array(name, a)
    if is_complex(x.dtype):
        raise NotImplementedError(f"{name} for complex dtype is not implemented.")
    dimension = canonical_axis(axis, x.ndim)
    return x, canonical_axis(operator.index(kth), x.shape[dimension]), dimension


def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Partition elements: the ``kth`` is in its sorted position, and smaller ones precede it.

    Args:
      a: an array of real numbers.
      kth: a Python integer.
      axis: the dimension to partition along.
    Returns:
      An array of the same shape: the smaller elements ascending, the larger ones descending.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.partition(gnp.array([7, 1, 5, 3]), 1)
      Array([1, 3, 7, 5], dtype=int32)

    See also:
      `argpartition`, `sort`, `gnomon.lax.top_k`
    """
    x, k, dimension = _kth("partition", a, kth, axis)
    ordered = sort(x, dimension)
    below = lax.slice_in_dim(ordered, 0, k + 1, axis=dimension)
    above = lax.slice_in_dim(ordered, k + 1, None, axis=dimension)
    return concatenate([below, lax.rev(above, (dimension,))], dimension)


def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The positions that would partition an array at ``kth``.

    They are int32. The positions of the larger elements ascend.

    Args:
      a: an array of real numbers.
      kth: the sorted position whose element is put into place, a Python int; negative counts from
        the end.
      axis: the dimension to partition along.
    Returns:
      An int32 array of the shape of ``a``. The first ``kth`` positions are those of smaller
      elements; the positions after ``kth`` ascend.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.array([7, 1, 5, 3])
      >>> gnp.take(x, gnp.argpartition(x, 2)[:2]).sort()
      Array([1, 3], dtype=int32)

    See also:
      `partition`, `argsort`, `gnomon.lax.top_k`
    """
    x, k, dimension = _kth("argpartition", a, kth, axis)
    order = argsort(x, dimension)
    below = lax.slice_in_dim(order, 0, k + 1, axis=dimension)
    above = lax.slice_in_dim(order, k + 1, None, axis=dimension)
    positions = concatenate([below, sort(above, dimension)], dimension)
    return converted(positions, np.dtype(np.int32))


# ----------------------------------------------------------------------------------------- searches


def _comes_before(x: Array, y: Array, *, or_equal: bool) -> Array:
    """Elementwise comparison in sorting order, in which nans are equal and last."""
    if is_complex(x.dtype):
        first = _comes_before(lax.real(x), lax.real(y), or_equal=False)
        later = _comes_before(lax.real(y), lax.real(x), or_equal=False)
        second = _comes_before(lax.imag(x), lax.imag(y), or_equal=or_equal)
        return first | (~later & second)
    if not is_inexact(x.dtype):
        return bind(ops.le if or_equal else ops.lt, x, y)
    x_nan, y_nan = bind(ops.ne, x, x), bind(ops.ne, y, y)
    if or_equal:
        return bind(ops.le, x, y) | y_nan
    return bind(ops.lt, x, y) | (y_nan & ~x_nan)


def _halving(a: Array, v: Array, side: str, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """The step of a binary search for all values at once: it halves the interval of each.

    The steps read the elements that JAX's read, which matters where rounded sums are not sorted.
    """
    one = lax.full(v.shape, 1, dtype)

    def step(bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = lax.shift_right_logical(low + high, one)
        element = a.at[middle].get(mode="clip")
        before = _comes_before(element, v, or_equal=side == "right")
        return lax.select(before, middle, low), lax.select(before, high, middle)

    return step


def _start(a: Array, v: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    return lax.full(v.shape, 0, dtype), lax.full(v.shape, a.shape[0], dtype)


def position_dtype(size: int) -> np.dtype[Any]:
    """The dtype of positions in a sorted array of this size."""
    return np.dtype(np.int64 if exceeds(size, np.iinfo(np.int32).max) else np.int32)


def by_halves(a: Array, v: Array, side: str, dtype: np.dtype[Any]) -> Array:
    """Binary search in a loop: `searchsorted` with the method ``"scan"``."""
    # Further steps change nothing, so that a symbolic size takes those of the largest one.
    size = a.shape[0]
    steps = (LARGEST if is_symbolic_dim(size) else size).bit_length()
    step = _halving(a, v, side, dtype)
    found: Array = lax.fori_loop(0, steps, lambda _, b: step(b), _start(a, v, dtype))[1]
    return found


def _by_halves_unrolled(a: Array, v: Array, side: str, dtype: np.dtype[Any]) -> Array:
    """Binary search without a loop: more code to compile, but a single kernel."""
    step, bounds = _halving(a, v, side, dtype), _start(a, v, dtype)
    for _ in range(a.shape[0].bit_length()):
        bounds = step(bounds)
    return bounds[1]


def _by_comparison(a: Array, v: Array, side: str, dtype: np.dtype[Any]) -> Array:
    """Count the elements that come before each value."""
    shape = (a.shape[0], *v.shape)
    elements = lax.broadcast_in_dim(a, shape, (0,))
    before = _comes_before(elements, broadcast_to(v, shape), or_equal=side == "right")
    return lax.reduce_sum(converted(before, dtype), (0,))


def _by_sorting(a: Array, v: Array, side: str, dtype: np.dtype[Any]) -> Array:
    """Sort the concatenated elements and values; count the elements before each value."""
    flat, n = ravel(v), a.shape[0]
    # A stable sort keeps equal elements in the order of the operands.
    parts = [flat, a] if side == "left" else [a, flat]
    joined = concatenate(parts)
    is_element = lax.concatenate([lax.full(p.shape, int(p is a), dtype) for p in parts], 0)
    places = lax.iota(dtype, joined.shape[0])
    _, element, order = lax.sort((joined, is_element, places), num_keys=1)
    before = lax.cumsum(element) - element
    back = lax.full(joined.shape, 0, dtype).at[order].set(before)
    start = 0 if side == "left" else n
    return lax.reshape(lax.slice_in_dim(back, start, start + flat.shape[0]), v.shape)


_SEARCHES: dict[str, Callable[[Array, Array, str, np.dtype[Any]], Array]] = {
    "scan": by_halves,
    "scan_unrolled": _by_halves_unrolled,
    "compare_all": _by_comparison,
    "sort": _by_sorting,
}


# Up to this number of pairs, comparing all is faster than a search in a loop.
_ALL_PAIRS = 1 << 16


def method_for(elements: Array, values: Array) -> str:
    """The fastest method of `searchsorted` whose memory is bounded."""
    few = surely_at_most(elements.size * values.size, _ALL_PAIRS)
    return "compare_all" if few else "scan"


def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
) -> Array:
    """The positions at which values can be inserted into a sorted array to keep it sorted.

    Args:
      a: a 1-d array, sorted.
      v: values to insert.
      side: ``"left"`` means before equal elements, ``"right"`` after them.
      sorter: indices that sort ``a``, if it is not sorted.
      method: ``"scan"`` is a binary search, ``"scan_unrolled"`` the same without a loop,
        ``"compare_all"`` compares with every element, and ``"sort"`` sorts the concatenation of
        ``a`` and ``v``. The result is the same.
    Returns:
      Integers of the shape of ``v``, between 0 and the size of ``a``.
    Raises:
      ValueError: ``a`` is not 1-dimensional, or the side or method is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> searchsorted(gnp.array([1.0, 2.0, 4.0]), gnp.array([2.0, 3.0]))
      Array([1, 2], dtype=int32)
    """
    x, values = as_array("searchsorted", a, 0), as_array("searchsorted", v, 1)
    if side not in ("left", "right"):
        raise ValueError(f"{side!r} is an invalid value for keyword 'side'")
    if method not in _SEARCHES:
        raise ValueError(
            f"{method!r} is an invalid value for keyword 'method'; valid ones are "
            f"{', '.join(_SEARCHES)}"
        )
    if x.ndim != 1:
        raise ValueError("a should be 1-dimensional")
    x, values = promoted("searchsorted", x, values)
    if sorter is not None:
        x = x[as_array("searchsorted", sorter, 2)]
    dtype = position_dtype(x.shape[0])
    if not x.shape[0]:
        return lax.full(values.shape, 0, dtype)
    if type(x) is ConcreteArray and type(values) is ConcreteArray and not staging():
        check_execution("searchsorted")
        elements, given = x.numpy_value(), values.numpy_value()
        # NumPy has no order of other dtypes, or not that of sorting.
        if is_of_numpy(elements.dtype) and elements.dtype.kind in "biuf":
            numpy_side: Any = "left" if side == "left" else "right"
            return wrap(np.asarray(np.searchsorted(elements, given, numpy_side), dtype))
    return with_weak_type(_SEARCHES[method](x, values, side, dtype), False)


def digitize(
    x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None
) -> Array:
    """The bins that values belong to.

    Args:
      x: values.
      bins: the edges, a 1-d array, ascending or descending.
      right: intervals include their right edge instead of the left one.
      method: see `searchsorted`.
    Returns:
      Integers of the shape of ``x``; 0 for values before the first edge.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.digitize(gnp.array([0.2, 1.0, 5.0]), bins=gnp.array([0.0, 1.0, 2.0]))
      Array([1, 2, 3], dtype=int32)
      >>> gnp.digitize(gnp.array([0.2, 1.0, 5.0]), bins=gnp.array([0.0, 1.0, 2.0]), right=True)
      Array([1, 1, 3], dtype=int32)

    See also:
      `searchsorted`, `histogram`
    """
    values, edges = as_array("digitize", x, 0), as_array("digitize", bins, 1)
    if edges.ndim != 1:
        raise ValueError(f"digitize: bins must be a 1-dimensional array; got {bins!r}")
    if not edges.shape[0]:
        return lax.full(values.shape, 0, np.dtype(np.int32))
    side = "left" if right else "right"
    how = method or "scan"
    ascending = searchsorted(edges, values, side, method=how)
    descending = edges.shape[0] - searchsorted(lax.rev(edges, (0,)), values, side, method=how)
    return lax.select(edges[-1] >= edges[0], ascending, descending)


__all__ = [
    "argpartition",
    "argsort",
    "digitize",
    "lexsort",
    "method_for",
    "partition",
    "searchsorted",
    "sort",
    "sort_complex",
    "top_k",
]
