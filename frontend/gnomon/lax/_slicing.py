"""Slices at static and at computed positions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._arrays.annotations import ArrayLike, ArraysLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray
from gnomon._arrays.extended import takes_extended_arrays
from gnomon._tracing.bind import bind, with_weak_type
from gnomon._tracing.stack import staging
from gnomon._tracing.trace import is_tracer
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import as_size, is_symbolic_dim
from gnomon.lax._operands import INTEGERS, argument, constant_like, same_dtype, widened
from gnomon.lax._structural import canonical_axis, expand_dims, ints, squeeze


@takes_extended_arrays()
def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """The elements from ``start`` up to but excluding ``limit``, in each dimension.

    Args:
      operand: an array.
      start_indices, limit_indices: one number for each dimension, ``0 <= start <= limit <= size``.
      strides: positive numbers; all one by default.
    Raises:
      TypeError: the numbers are out of bounds, or not one for each dimension.

    Example:
      >>> import gnomon.numpy as gnp
      >>> slice(gnp.arange(8), (1,), (7,), (2,))
      Array([1, 3, 5], dtype=int32)
    """
    x = argument("slice", operand)
    start = ints("slice", "start_indices", start_indices)
    limit = ints("slice", "limit_indices", limit_indices)
    steps = (1,) * x.ndim if strides is None else ints("slice", "strides", strides)
    given = f"start {start}, limit {limit}, strides {steps} for shape {x.shape}"
    if not len(start) == len(limit) == len(steps) == x.ndim:
        raise TypeError(f"lax.slice takes one number for each dimension, got {given}")
    if any(s <= 0 for s in steps):
        raise TypeError(f"lax.slice: strides must be positive, got {given}")
    if any(not 0 <= a <= b <= n for a, b, n in zip(start, limit, x.shape, strict=True)):
        raise TypeError(f"lax.slice: 0 <= start <= limit <= size must hold, got {given}")
    if limit == x.shape and all(s == 0 for s in start) and all(s == 1 for s in steps):
        return x
    return bind(ops.slice, x, start=start, limit=limit, strides=steps)


@takes_extended_arrays()
def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """`slice` along one dimension.

    Args:
      operand: an array.
      start_index, limit_index: None means the ends; negative numbers count from the end.
      stride: a positive number.
      axis: which dimension.

    Example:
      >>> import gnomon.numpy as gnp
      >>> slice_in_dim(gnp.arange(5), -3, None)
      Array([2, 3, 4], dtype=int32)
    """
    x = argument("slice_in_dim", operand)
    axis = canonical_axis(axis, x.ndim)
    size = x.shape[axis]
    begin = 0 if start_index is None else as_size(start_index)
    end = size if limit_index is None else as_size(limit_index)
    start, limit, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    start[axis] = begin + size if begin < 0 else begin
    limit[axis] = end + size if end < 0 else end
    strides[axis] = operator.index(stride)
    return slice(x, start, limit, strides)


@takes_extended_arrays()
def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The slice at an index along one dimension.

    Args:
      operand: an array.
      index: a Python int; negative ones count from the end.
      axis: the dimension to index.
      keepdims: keep the dimension, with size one.
    Raises:
      IndexError: the index is out of bounds.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.index_in_dim(gnp.array([[1, 2], [3, 4]]), -1, keepdims=False)
      Array([3, 4], dtype=int32)

    See also:
      `dynamic_index_in_dim` for traced indices
    """
    x = argument("index_in_dim", operand)
    axis = canonical_axis(axis, x.ndim)
    index, size = as_size(index), x.shape[axis]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
    index %= size
    result = slice_in_dim(x, index, index + 1, 1, axis)
    return result if keepdims else squeeze(result, (axis,))


# ------------------------------------------------------------------------------ computed positions


def _start_indices(
    function: str, x: Array, start_indices: ArraysLike, allow_negative: Any
) -> list[Array]:
    """One 0-d integer array for each dimension; negative indices count from the end."""
    indices: Sequence[Any]
    if isinstance(start_indices, Array | np.ndarray):
        if start_indices.ndim != 1:
            raise ValueError(
                f"lax.{function}: start indices must be a sequence of scalars or a 1-d array, got "
                f"shape {start_indices.shape}"
            )
        vector = argument(function, start_indices)
        indices = [index_in_dim(vector, i, 0, keepdims=False) for i in range(vector.shape[0])]
    else:
        try:
            indices = tuple(start_indices)
        except TypeError as error:
            raise TypeError(
                f"lax.{function}: start indices must be a sequence with one index for each "
                f"dimension, got {start_indices!r}"
            ) from error
    if len(indices) != x.ndim:
        raise ValueError(
            f"lax.{function}: one start index is needed for each dimension of the operand of "
            f"shape {x.shape}, got {len(indices)}"
        )
    flags = (
        (allow_negative,) * x.ndim if isinstance(allow_negative, bool) else tuple(allow_negative)
    )
    if len(flags) != x.ndim:
        raise ValueError(
            f"lax.{function}: allow_negative_indices must be a bool or one for each dimension"
        )
    scalars = [argument(function, i) for i in indices]
    for scalar in scalars:
        if scalar.ndim:
            raise TypeError(f"lax.{function}: start indices must be scalars, got {scalar.aval}")
        if scalar.dtype not in INTEGERS:
            raise TypeError(
                f"lax.{function}: start indices must be integers, got {scalar.dtype.name}"
            )
    strong = [s for s in scalars if not s.aval.weak_type]
    dtype = strong[0].dtype if strong else (scalars[0].dtype if scalars else np.dtype(np.int32))
    if any(s.dtype != dtype for s in strong):
        given = ", ".join(s.dtype.name for s in scalars)
        raise TypeError(f"lax.{function}: start indices must have one dtype, got {given}")
    return [
        _from_start(widened(_as_dtype(s, dtype), *x.shape), n, flag)
        for s, n, flag in zip(scalars, x.shape, flags, strict=True)
    ]


def _as_dtype(index: Array, dtype: np.dtype[Any]) -> Array:
    return index if index.dtype == dtype else bind(ops.convert, index, dtype=dtype)


def _from_start(index: Array, size: int, allow_negative: bool) -> Array:
    """Make a negative index count from the end, if ``allow_negative`` is true."""
    if not allow_negative or index.dtype.kind == "u":
        return index
    if type(index) is ConcreteArray and index._value is not None:
        value = int(index._value)
        return index if value >= 0 else _size_like(index, value + size)
    zero = constant_like(index, 0)
    wrapped = bind(ops.add, index, _size_like(index, size))
    return bind(ops.select, bind(ops.lt, index, zero), wrapped, index)


def _size_like(index: Array, size: Any) -> Array:
    """A size, which may be symbolic, in the dtype of an index."""
    if is_symbolic_dim(size):
        return bind(ops.dimension, size=size, dtype=index.dtype)
    return constant_like(index, size)


def _static_sizes(function: str, sizes: Any) -> tuple[int, ...]:
    if any(is_tracer(s) for s in sizes if not isinstance(s, int)):
        for s in sizes:
            operator.index(s)  # raises an error that describes the traced value
    return ints(function, "slice_sizes", sizes)


@takes_extended_arrays()
def dynamic_slice(
    operand: ArrayLike,
    start_indices: ArraysLike,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """A slice of static size at a computed position.

    Args:
      operand: an array.
      start_indices: one integer scalar for each dimension, or a 1-d array of them. The position is
        clamped so that the slice lies inside of the operand.
      slice_sizes: the shape of the slice.
      allow_negative_indices: count negative indices from the end (for all, or each dimension).
    Raises:
      TypeError: indices are not integers of one dtype, or the slice is larger than the operand.
      ValueError: there is not one index for each dimension.

    Example:
      >>> import gnomon.numpy as gnp
      >>> dynamic_slice(gnp.arange(5), (3,), (3,))
      Array([2, 3, 4], dtype=int32)
    """
    x = argument("dynamic_slice", operand)
    sizes = _static_sizes("dynamic_slice", slice_sizes)
    indices = _start_indices("dynamic_slice", x, start_indices, allow_negative_indices)
    if len(sizes) != x.ndim or any(not 0 <= s <= n for s, n in zip(sizes, x.shape, strict=True)):
        raise TypeError(
            "lax.dynamic_slice: slice_sizes must be between zero and the operand's sizes, got "
            f"{sizes} for shape {x.shape}"
        )
    starts = _known_starts(indices, x.shape, sizes)
    if starts is not None:
        # Later passes can see through a static slice.
        return slice(x, starts, [a + s for a, s in zip(starts, sizes, strict=True)])
    result = bind(ops.dynamic_slice, x, *indices, sizes=sizes)
    return with_weak_type(result, x.aval.weak_type)


def _known_starts(
    indices: Sequence[Array], shape: Sequence[int], sizes: Sequence[int]
) -> tuple[int, ...] | None:
    """The start of a slice, if it is known.

    In a traced program, a start out of bounds counts as unknown, so that `checkify` sees it.
    """
    starts = []
    for index, length, size in zip(indices, shape, sizes, strict=True):
        if type(index) is not ConcreteArray or index._value is None:
            return None
        start = min(max(int(index), 0), length - size)
        if start != int(index) and staging():
            return None
        starts.append(start)
    return tuple(starts)


@takes_extended_arrays()
def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """A slice of fixed size along one dimension, from a start that may be traced.

    Args:
      operand: an array.
      start_index: an integer scalar; it is clamped so that the slice lies inside of ``operand``.
      slice_size: the size of the slice, a Python int.
      axis: the dimension to slice.
      allow_negative_indices: whether negative starts count from the end.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.dynamic_slice_in_dim(gnp.arange(5), 1, 2)
      Array([1, 2], dtype=int32)
      >>> lax.dynamic_slice_in_dim(gnp.arange(5), 4, 2)
      Array([3, 4], dtype=int32)

    See also:
      `dynamic_slice`, `slice_in_dim`
    """
    x = argument("dynamic_slice_in_dim", operand)
    axis = canonical_axis(axis, x.ndim)
    starts: list[Any] = [0] * x.ndim
    starts[axis] = start_index
    sizes = list(x.shape)
    sizes[axis] = slice_size
    flags = [False] * x.ndim
    flags[axis] = allow_negative_indices
    return dynamic_slice(x, starts, sizes, allow_negative_indices=flags)


@takes_extended_arrays()
def dynamic_index_in_dim(
    operand: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The slice at a computed index along one dimension; the index is clamped to the bounds.

    Args:
      operand: an array.
      index: an integer scalar, which may be traced; it is clamped to the bounds.
      axis: the dimension to index.
      keepdims: keep the dimension, with size one.
      allow_negative_indices: whether negative indices count from the end.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.dynamic_index_in_dim(gnp.array([[1, 2], [3, 4]]), 1, keepdims=False)
      Array([3, 4], dtype=int32)
      >>> lax.dynamic_index_in_dim(gnp.array([[1, 2], [3, 4]]), 7, keepdims=False)
      Array([3, 4], dtype=int32)

    See also:
      `dynamic_slice`, `index_in_dim`
    """
    x = argument("dynamic_index_in_dim", operand)
    result = dynamic_slice_in_dim(x, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return result if keepdims else squeeze(result, (axis,))


@takes_extended_arrays("operand", "update")
def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: ArraysLike,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """Replace a slice of an array at a computed position.

    Args:
      operand: an array.
      update: the new slice, of the same dtype and rank, not larger.
      start_indices, allow_negative_indices: as in `dynamic_slice`.
    Raises:
      TypeError: the update does not fit, or indices are not integers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> dynamic_update_slice(gnp.zeros(4), gnp.ones(2), (1,))
      Array([0., 1., 1., 0.], dtype=float32)
    """
    x, new = argument("dynamic_update_slice", operand), argument("dynamic_update_slice", update)
    same_dtype("dynamic_update_slice", (x, new))
    if new.ndim != x.ndim:
        raise TypeError(
            "lax.dynamic_update_slice: the update must have the operand's rank, got shape "
            f"{new.shape} for an operand of shape {x.shape}"
        )
    if any(s > n for s, n in zip(new.shape, x.shape, strict=True)):
        raise TypeError(
            "lax.dynamic_update_slice: the update must not be larger than the operand, got shape "
            f"{new.shape} for an operand of shape {x.shape}"
        )
    indices = _start_indices("dynamic_update_slice", x, start_indices, allow_negative_indices)
    return with_weak_type(bind(ops.dynamic_update_slice, x, new, *indices), False)


@takes_extended_arrays("operand", "update")
def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Replace a slice along one dimension, from a start that may be traced.

    Args:
      operand: an array.
      update: the new slice, an array of the same rank and dtype.
      start_index: an integer scalar; it is clamped so that the slice lies inside of ``operand``.
      axis: the dimension to index.
      allow_negative_indices: whether negative starts count from the end.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.dynamic_update_slice_in_dim(gnp.zeros(4), gnp.ones(2), 1, axis=0)
      Array([0., 1., 1., 0.], dtype=float32)
      >>> lax.dynamic_update_slice_in_dim(gnp.zeros(4), gnp.ones(2), 3, axis=0)
      Array([0., 0., 1., 1.], dtype=float32)

    See also:
      `dynamic_update_slice`
    """
    x = argument("dynamic_update_slice_in_dim", operand)
    axis = canonical_axis(axis, x.ndim)
    starts: list[Any] = [0] * x.ndim
    starts[axis] = start_index
    flags = [False] * x.ndim
    flags[axis] = allow_negative_indices
    return dynamic_update_slice(x, update, starts, allow_negative_indices=flags)


@takes_extended_arrays("operand", "update")
def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Replace the slice of an array at a computed index along one dimension.

    Args:
      operand: an array.
      update: the new slice, with that dimension of size one or without it.
      index: an integer scalar, which may be traced; it is clamped to the bounds.
      axis: the dimension to index.
      allow_negative_indices: whether negative indices count from the end.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.dynamic_update_index_in_dim(gnp.zeros((2, 3)), gnp.ones(3), 1, axis=0)
      Array([[0., 0., 0.],
             [1., 1., 1.]], dtype=float32)

    See also:
      `dynamic_update_slice`
    """
    x = argument("dynamic_update_index_in_dim", operand)
    new = argument("dynamic_update_index_in_dim", update)
    axis = canonical_axis(axis, x.ndim)
    if new.ndim != x.ndim:
        new = expand_dims(new, (axis,))
    return dynamic_update_slice_in_dim(
        x, new, index, axis, allow_negative_indices=allow_negative_indices
    )
