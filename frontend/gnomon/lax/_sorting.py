"""Sorting and selection of the largest elements."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import bind
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import exceeds, is_symbolic_dim
from gnomon.lax._operands import FLOAT, REAL, accept, argument
from gnomon.lax._structural import canonical_axis

_INT32 = np.iinfo(np.int32)


@overload
def sort(
    operand: ArrayLike, dimension: int = ..., is_stable: bool = ..., num_keys: int = ...
) -> Array: ...


@overload
def sort(
    operand: Sequence[ArrayLike], dimension: int = ..., is_stable: bool = ..., num_keys: int = ...
) -> tuple[Array, ...]: ...


def sort(
    operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Array | tuple[Array, ...]:
    """Sort one array, or several arrays of one shape jointly, along a dimension.

    Numbers ascend; -0 equals 0, and all nans are equal and last. Complex numbers are ordered by
    real part, then by imaginary part. False comes before True.

    Args:
      operand: an array, or a sequence of arrays of one shape.
      dimension: which dimension; negative ones count from the last.
      is_stable: elements with equal keys keep their order.
      num_keys: the number of leading arrays that are compared, lexicographically.
    Returns:
      An array; for a sequence a tuple of arrays.
    Raises:
      TypeError: the sequence is empty.
      ValueError: shapes differ, or ``num_keys`` does not fit, or there is no such dimension.

    Example:
      >>> import gnomon.numpy as gnp
      >>> sort([gnp.array([2, 1, 1]), gnp.array([5, 7, 6])], num_keys=2)
      (Array([1, 1, 2], dtype=int32), Array([6, 7, 5], dtype=int32))
    """
    several = isinstance(operand, Sequence) and not isinstance(operand, (Array, np.ndarray))
    given = list(operand) if several else [operand]
    if not given:
        raise TypeError("lax.sort requires at least one operand, got an empty sequence")
    count = operator.index(num_keys)
    if not 1 <= count <= len(given):
        raise ValueError(
            f"lax.sort: num_keys={num_keys} must be between 1 and the number of operands, "
            f"{len(given)}"
        )
    arrays = [argument("sort", x, i) for i, x in enumerate(given)]
    if len({x.shape for x in arrays}) > 1:
        shapes = ", ".join(str(x.shape) for x in arrays)
        raise ValueError(f"lax.sort: operands must have one shape, got {shapes}")
    at = canonical_axis(dimension, arrays[0].ndim)
    results = bind(ops.sort, *arrays, dimension=at, num_keys=count, is_stable=bool(is_stable))
    return tuple(results) if several else results[0]


def sort_key_val(
    keys: Any, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sort keys along a dimension, and permute values in the same way.

    Args:
      keys: an array.
      values: an array of the shape of ``keys``.
      dimension: the dimension to sort along.
      is_stable: whether values of equal keys keep their order.
    Returns:
      The sorted keys and the permuted values.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.sort_key_val(gnp.array([3, 1, 2]), gnp.array([30, 10, 20]))
      (Array([1, 2, 3], dtype=int32), Array([10, 20, 30], dtype=int32))

    See also:
      `sort`
    """
    first, second = sort((keys, values), dimension, is_stable)
    return first, second


def top_k(
    operand: ArrayLike, k: int, *, axis: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """The ``k`` largest elements along an axis, in descending order, and their indices.

    Equal elements keep their order. nan counts as larger than infinity.

    Args:
      operand: an array of real numbers or bools.
      k: the number of elements; at most the size of the axis. It may be a symbolic dimension.
      axis: which dimension; negative ones count from the last.
      is_stable: whether equal elements must keep their order, which they always do.
    Returns:
      The elements, and their indices along the axis as int32.
    Raises:
      ValueError: the operand is complex or a scalar, or ``k`` does not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> top_k(gnp.array([3.0, 1.0, 3.0]), 2)
      (Array([3., 3.], dtype=float32), Array([0, 2], dtype=int32))
    """
    x = argument("top_k", operand)
    if any(exceeds(n, _INT32.max) for n in x.shape):
        raise ValueError(
            f"lax.top_k returns positions as int32, which cannot count the elements of {x.aval}"
        )
    if x.dtype not in REAL:
        raise ValueError(f"lax.top_k is not compatible with complex inputs, got {x.aval}")
    if not x.ndim:
        raise ValueError("lax.top_k takes an array of one dimension at least, got a scalar")
    at = canonical_axis(axis, x.ndim)
    count: Any = k if is_symbolic_dim(k) else operator.index(k)
    if count < 0:
        raise ValueError(f"lax.top_k: k must not be negative, got {k}")
    if count > x.shape[at]:
        raise ValueError(
            f"lax.top_k: k must be no larger than the size along the axis; got k={k} for shape "
            f"{x.shape} and axis {at}"
        )
    values, positions = bind(ops.top_k, x, k=count, axis=at)
    return values, positions


def _approximate(
    name: str,
    operand: Any,
    k: int,
    dimension: int,
    recall_target: float,
    aggregate_to_topk: bool,
    sign: int,
) -> tuple[Array, Array]:
    x = argument(name, operand)
    accept(name, x, FLOAT)
    if not 0 < recall_target <= 1:
        raise ValueError(f"lax.{name}: recall_target must be in (0, 1], got {recall_target}")
    if not aggregate_to_topk:
        raise NotImplementedError(
            f"lax.{name}: the result is exact and has k elements; aggregate_to_topk=False, which "
            "returns more of them unaggregated, is not supported"
        )
    values, positions = top_k(x if sign > 0 else bind(ops.neg, x), k, axis=dimension)
    return values if sign > 0 else bind(ops.neg, values), positions


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The ``k`` largest elements along a dimension, and their indices, exactly as by `top_k`.

    Args:
      operand: an array of floating dtype.
      k, reduction_dimension: as ``k`` and ``axis`` of `top_k`.
      recall_target: the fraction of the true largest elements that an approximation must find.
      reduction_input_size_override: ignored, since the result is exact.
      aggregate_to_topk: must be True.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.approx_max_k(gnp.array([3.0, 9.0, 1.0, 7.0]), 2)
      (Array([9., 7.], dtype=float32), Array([1, 3], dtype=int32))

    See also:
      `approx_min_k`, `top_k`
    """
    return _approximate(
        "approx_max_k", operand, k, reduction_dimension, recall_target, aggregate_to_topk, 1
    )


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The ``k`` smallest elements along a dimension, ascending, and their indices; exact.

    Args:
      operand: an array of floating dtype.
      k, reduction_dimension: as ``k`` and ``axis`` of `top_k`.
      recall_target: the fraction of the true smallest elements that an approximation must find.
      reduction_input_size_override: ignored, since the result is exact.
      aggregate_to_topk: must be True.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.approx_min_k(gnp.array([3.0, 9.0, 1.0, 7.0]), 2)
      (Array([1., 3.], dtype=float32), Array([2, 0], dtype=int32))

    See also:
      `approx_max_k`
    """
    return _approximate(
        "approx_min_k", operand, k, reduction_dimension, recall_target, aggregate_to_topk, -1
    )


__all__ = ["approx_max_k", "approx_min_k", "sort", "sort_key_val", "top_k"]
