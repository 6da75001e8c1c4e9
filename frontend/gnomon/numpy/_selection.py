"""Choices among elements and positions: where, select, clip, nonzero, nan_to_num."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, wrap, wrap_like
from gnomon._arrays.extended import takes_extended_arrays
from gnomon._diagnostics.errors import ConcretizationTypeError
from gnomon._tracing.bind import bind, with_weak_type
from gnomon._tracing.stack import needs_bind
from gnomon._tracing.trace import concrete_value, is_tracer
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import (
    any_symbolic,
    as_size,
    is_symbolic_dim,
    larger,
    may_be_zero,
)
from gnomon.dialects.types import BOOL, is_complex
from gnomon.lax._creation import converted
from gnomon.lax._operands import FLOAT_OR_COMPLEX, constant_like
from gnomon.lax._reductions import index_dtype_for
from gnomon.numpy._arguments import as_array
from gnomon.numpy._at import IndexUpdateHelper
from gnomon.numpy._construction import asarray
from gnomon.numpy._dispatch import (
    ANY_KIND,
    broadcast_to_shape,
    promoted_dtypes,
    promoted_operands,
    spread,
)
from gnomon.numpy._manipulation import ravel
from gnomon.numpy._predicates import isnan, isneginf, isposinf
from gnomon.numpy._sorting import by_halves
from gnomon.numpy._ufuncs import (
    as_bool,
    bitwise_or,
    greater,
    less,
    maximum,
    minimum,
)

# ----------------------------------------------------------------------------------------- choosing


_FLOAT32 = np.dtype(np.float32)


@takes_extended_arrays("x", "y")
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """Elementwise ``x`` where a condition holds, ``y`` elsewhere; or the indices where it holds.

    Args:
      condition: an array; elements that are not zero are true.
      x, y: arrays or scalars that can be broadcast together with ``condition``, or neither; see
        `nonzero`.
      size, fill_value: see `nonzero`.
    Returns:
      An array of the broadcast shape and the promoted dtype; without ``x`` and ``y``, a tuple of
      indices.

    Example:
      >>> import gnomon.numpy as gnp
      >>> where(gnp.array([True, False]), gnp.array([1.0, 2.0]), 0.0)
      Array([1., 0.], dtype=float32)
    """
    if x is None and y is None:
        return nonzero(as_array("where", condition), size=size, fill_value=fill_value)
    if x is None or y is None:
        raise TypeError("where takes both x and y or neither of them, got None for one")
    if size is not None or fill_value is not None:
        raise ValueError("where: size and fill_value are only for calls without x and y")
    if (
        type(condition) is ConcreteArray
        and type(x) is ConcreteArray
        and (type(y) is ConcreteArray or type(y) is float)
        and not needs_bind()
    ):
        c, a = condition._value, x._value
        if type(y) is ConcreteArray:
            b = y._value
        else:
            b = np.asarray(y, _FLOAT32) if a is not None and a.dtype is _FLOAT32 else None
        if (
            c is not None
            and a is not None
            and b is not None
            and a.dtype is b.dtype
            and c.shape == a.shape
            and b.shape in ((), a.shape)
            and c.dtype == BOOL
            and not x.weak_type
        ):
            return wrap(np.where(c, a, b))
    predicate = as_bool(as_array("where", condition, 0))
    on_true, on_false = promoted_dtypes("where", ANY_KIND, x, y)
    if predicate.ndim:
        predicate, on_true, on_false = spread("where", [predicate, on_true, on_false])
    else:
        on_true, on_false = spread("where", [on_true, on_false])
    weak = on_true.aval.weak_type and on_false.aval.weak_type
    return with_weak_type(bind(ops.select, predicate, on_true, on_false), weak)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: ArrayLike = 0) -> Array:
    """Elementwise choice by the first condition that holds.

    Args:
      condlist: a list of bool arrays.
      choicelist: a list of as many arrays or scalars; all broadcast together.
      default: the value where no condition holds.
    Returns:
      An array of the broadcast shape and promoted dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.arange(5)
      >>> gnp.select([x < 2, x < 4], [x, 10 * x], default=-1)
      Array([ 0,  1, 20, 30, -1], dtype=int32)

    See also:
      `where`, `choose`
    """
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"select takes as many choices as conditions, got {len(choicelist)} and {len(condlist)}"
        )
    if not condlist:
        raise ValueError("select takes one condition at least")
    values = promoted_dtypes("select", ANY_KIND, default, *choicelist)
    conditions = [as_bool(as_array("select", c, i)) for i, c in enumerate(condlist)]
    *conditions_and_values, result = spread("select", [*conditions, *values[1:], values[0]])
    conditions = conditions_and_values[: len(conditions)]
    choices = conditions_and_values[len(conditions) :]
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = bind(ops.select, condition, choice, result)
    return with_weak_type(result, all(v.aval.weak_type for v in values))


def nonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> tuple[Array, ...]:
    """The indices of the elements that are not zero, one array for each dimension.

    Args:
      a: an array of at least one dimension.
      size: the length of the results, which is needed if ``a`` is traced. Missing indices are
        replaced by ``fill_value``, and excess ones are dropped.
      fill_value: an index, or a tuple of indices; 0 by default.
    Raises:
      ConcretizationTypeError: ``a`` is traced and there is no ``size``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nonzero(gnp.array([[0, 3], [4, 0]]))
      (Array([0, 1], dtype=int32), Array([1, 0], dtype=int32))
      >>> gnp.nonzero(gnp.array([0, 7, 0]), size=2, fill_value=-1)
      (Array([ 1, -1], dtype=int32),)

    See also:
      `argwhere`, `flatnonzero`, `where`
    """
    x = as_array("nonzero", a)
    if not x.ndim:
        raise ValueError("nonzero takes an array of one dimension at least; use atleast_1d(x)")
    if size is None:
        if is_tracer(x) and concrete_value(x) is None:
            raise ConcretizationTypeError(
                x, "The number of nonzero elements must be known: pass size."
            )
        value = concrete_value(x)
        assert value is not None
        index_dtype = index_dtype_for(max(value.shape))
        found = np.nonzero(value)
        return tuple(wrap_like(np.ascontiguousarray(i).astype(index_dtype), x) for i in found)
    return _first_nonzero(as_bool(x), as_size(size), fill_value)


def _first_nonzero(mask: Array, size: int, fill_value: Any) -> tuple[Array, ...]:
    """The first ``size`` indices at which a mask is true."""
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * mask.ndim
    if len(fills) != mask.ndim or any(np.ndim(f) for f in fills):
        raise ValueError(
            f"nonzero: fill_value is a scalar or a tuple of {mask.ndim} of them, got {fill_value!r}"
        )
    dtype = _dtypes.default_int_dtype()
    if mask.size == 0 or size == 0:
        # As in JAX, the fill value is ignored for an array without elements.
        return (lax.full((size,), 0, dtype),) * mask.ndim
    rank = lax.iota(dtype, size)
    held = lax.reshape(mask, (mask.size,))
    if not any_symbolic((mask.size, size)) and mask.size >= 4 * size * _ROW:
        positions, total = _positions_by_rows(held, rank)
    else:
        positions, total = _positions_by_ranks(held, rank)
    missing = bind(ops.ge, rank, broadcast_to_shape(total, (size,)))
    if may_be_zero(mask.size):
        is_filled = bind(ops.gt, lax.full_like(rank, mask.size), constant_like(rank, 0))
        missing = bind(ops.and_, missing, is_filled)
    results, stride = [], mask.size
    for n, fill in zip(mask.shape, fills, strict=True):
        # A symbolic size may be 0, by which nothing can be divided.
        n = larger(n, 1)
        stride = larger(stride // n, 1)
        along = bind(ops.div, positions, _size_like(positions, stride))
        index = bind(ops.rem, along, _size_like(along, n))
        replacement = constant_like(index, 0)
        if fill is not None:
            index, replacement = promoted_operands("nonzero", ANY_KIND, index, fill)
        results.append(bind(ops.select, missing, replacement, index))
    return tuple(results)


def _positions_by_ranks(held: Array, rank: Array) -> tuple[Array, Array]:
    """The positions at which a vector is true, those of the given ranks, and their number."""
    dtype, size = rank.dtype, rank.shape[0]
    # The rank of a true element is the number of true elements before it.
    counts = lax.cumsum(converted(held, dtype))
    if may_be_zero(held.size):
        total = lax.expand_dims(lax.reduce_sum(converted(held, dtype), (0,)), (0,))
    else:
        total = lax.slice_in_dim(counts, held.size - 1, held.size)
    # Each true element writes its position to its rank; ranks out of range are dropped.
    target = bind(ops.sub, counts, constant_like(counts, 1))
    target = bind(ops.select, held, target, _size_like(target, size))
    updates = IndexUpdateHelper(lax.full((size,), 0, dtype))
    return updates[target].set(lax.iota(dtype, held.size), mode="drop"), total


# The length of the rows whose true elements are counted before those of single rows.
_ROW = 1024


def _positions_by_rows(held: Array, rank: Array) -> tuple[Array, Array]:
    """The same as `_positions_by_ranks`, without a number for each element, for few ranks."""
    dtype, rows = rank.dtype, -(-held.size // _ROW)
    padded = lax.pad(held, False, ((0, rows * _ROW - held.size, 0),))
    table = lax.reshape(padded, (rows, _ROW))
    ends = lax.cumsum(lax.reduce_sum(converted(table, dtype), (1,)))
    row = by_halves(ends, rank, "right", dtype)
    starts = lax.pad(ends, lax.full((), 0, dtype), ((1, -1, 0),))
    before = IndexUpdateHelper(starts)[row].get(mode="clip")
    counts = lax.cumsum(converted(IndexUpdateHelper(table)[row].get(mode="clip"), dtype), axis=1)
    is_beyond = bind(ops.gt, counts, lax.broadcast_in_dim(rank - before, counts.shape, (0,)))
    place = lax.argmax(is_beyond, 1, dtype)
    return row * _size_like(row, _ROW) + place, lax.slice_in_dim(ends, rows - 1, rows)


def _size_like(x: Array, size: Any) -> Array:
    """An array filled with a size, which may be symbolic; see `constant_like`."""
    return lax.full_like(x, size) if is_symbolic_dim(size) else constant_like(x, size)


def flatnonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The indices of the elements that are not zero in the flattened array.

    Args:
      a: an array.
      size: the length of the result, needed under `jit`; excess entries are dropped, missing ones
        filled.
      fill_value: the index of missing entries; 0 by default.
    Returns:
      An int32 vector.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.flatnonzero(gnp.array([[0, 3], [4, 0]]))
      Array([1, 2], dtype=int32)

    See also:
      `nonzero`
    """
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The indices of the elements that are not zero, one row for each element.

    Args:
      a: an array.
      size: the number of rows, needed under `jit`; excess indices are dropped, missing ones filled.
      fill_value: the index of missing rows; 0 by default.
    Returns:
      An int32 array of shape ``(count, a.ndim)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.argwhere(gnp.array([[0, 3], [4, 0]]))
      Array([[0, 1],
             [1, 0]], dtype=int32)
      >>> gnp.argwhere(gnp.array([0, 7, 0]), size=2, fill_value=-1)
      Array([[ 1],
             [-1]], dtype=int32)

    See also:
      `nonzero`, `where`
    """
    x = as_array("argwhere", a)
    if not x.ndim:
        count = nonzero(lax.reshape(x, (1,)), size=size, fill_value=fill_value)[0].shape[0]
        return lax.full((count, 0), 0, _dtypes.default_int_dtype())
    return lax.stack(nonzero(x, size=size, fill_value=fill_value), axis=1)


def clip(
    arr: ArrayLike | None = None,
    /,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
) -> Array:
    """Elementwise ``arr`` limited to [min, max].

    Args:
      arr: an array or scalar of real numbers.
      min, max: the bounds, arrays or scalars that broadcast with ``arr``; None means no bound.
    Returns:
      An array of the promoted dtype; the upper bound where it is below the lower one.
    Raises:
      ValueError: an argument is complex.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.clip(gnp.array([-1, 3, 12]), 0, 10)
      Array([ 0,  3, 10], dtype=int32)
      >>> gnp.clip(gnp.array([1.0, 5.0]), max=2.0)
      Array([1., 2.], dtype=float32)
    """
    if arr is None:
        raise ValueError("clip: no array was given")
    x = as_array("clip", arr)
    for value in (x, min, max):
        if value is None or is_symbolic_dim(value):
            continue
        if is_complex(_dtypes.dtype_of(value)):
            raise ValueError("clip: complex numbers have no order; clip real and imaginary parts")
    if min is not None:
        x = maximum(min, x)
    if max is not None:
        x = minimum(max, x)
    return x


def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The larger of two elements, where nan counts as missing.

    Args:
      x1, x2: arrays or scalars that broadcast together.
    Returns:
      An array of the broadcast shape; nan only where both are nan.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fmax(gnp.array([1.0, gnp.nan]), 0.5)
      Array([1. , 0.5], dtype=float32)

    See also:
      `maximum`, whose result is nan if either element is
    """
    return where(bitwise_or(greater(x1, x2), isnan(x2)), x1, x2)


def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The smaller of two elements, where nan counts as missing.

    Args:
      x1, x2: arrays or scalars that broadcast together.
    Returns:
      An array of the broadcast shape; nan only where both are nan.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fmin(gnp.array([1.0, gnp.nan]), 0.5)
      Array([0.5, 0.5], dtype=float32)

    See also:
      `minimum`, whose result is nan if either element is
    """
    return where(bitwise_or(less(x1, x2), isnan(x2)), x1, x2)


def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """Elementwise ``x`` with nan and infinities replaced.

    Args:
      x: an array or scalar.
      copy: ignored; the argument is never changed.
      nan: the replacement of nan.
      posinf, neginf: the replacements of the infinities; None means the largest and the smallest
        finite number of the dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.nan_to_num(gnp.array([1.0, gnp.nan, gnp.inf]), posinf=99.0)
      Array([ 1.,  0., 99.], dtype=float32)
    """
    value = as_array("nan_to_num", x)
    if value.dtype not in FLOAT_OR_COMPLEX:
        return value
    if is_complex(value.dtype):
        parts = bind(ops.real, value), bind(ops.imag, value)
        return bind(ops.complex, *(nan_to_num(p, True, nan, posinf, neginf) for p in parts))
    info = ml_dtypes.finfo(value.dtype)
    replaced = value
    for test, replacement in (
        (isnan(value), nan),
        (isposinf(value), info.max if posinf is None else posinf),
        (isneginf(value), info.min if neginf is None else neginf),
    ):
        replaced = where(test, asarray(replacement, value.dtype), replaced)
    return with_weak_type(replaced, False)


__all__ = [
    "argwhere",
    "clip",
    "flatnonzero",
    "fmax",
    "fmin",
    "nan_to_num",
    "nonzero",
    "select",
    "where",
]
