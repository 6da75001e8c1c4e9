"""Functions that move elements: reshaping, joining, cutting, padding."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._api.explicit_axes import with_out_sharding
from gnomon._arrays.annotations import ArrayLike, ArraysLike, OutSharding, ShapeLike
from gnomon._arrays.array import Array
from gnomon._arrays.extended import takes_extended_arrays
from gnomon._diagnostics.errors import GnomonTypeError
from gnomon._tracing.bind import bind
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import as_size, larger
from gnomon.lax._operands import argument, as_shape, same_dtype

Shape = tuple[int, ...]


def ints(function: str, name: str, values: Any) -> Shape:
    """A tuple of Python ints from a sequence of integers.

    Raises:
      TypeError: the argument is not a sequence of integers.
    """
    try:
        return tuple(as_size(v) for v in values)
    except TypeError as error:
        if isinstance(error, GnomonTypeError):  # a number is traced, and this error says so
            raise
        raise TypeError(
            f"lax.{function}: {name} must be a sequence of integers, got {values!r}"
        ) from error


def canonical_axis(axis: Any, rank: int, name: str = "axis") -> int:
    """An axis counted from the front; negative ones count from the back.

    Raises:
      ValueError: there is no such axis.
    """
    number: int = operator.index(axis)
    if not -rank <= number < rank:
        raise ValueError(f"{name} {number} is out of bounds for an array of dimension {rank}")
    return number % rank if rank else number


@takes_extended_arrays()
def reshape(
    operand: ArrayLike,
    new_sizes: ShapeLike,
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """The same elements in another shape.

    Args:
      operand: an array or scalar.
      new_sizes: the new shape.
      dimensions: the order of the operand's dimensions in which its elements are read.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      TypeError: the shape has another number of elements or a negative size, or ``dimensions`` is
        not a permutation.

    Example:
      >>> import gnomon.numpy as gnp
      >>> reshape(gnp.arange(4), (2, 2), dimensions=(0,))
      Array([[0, 1],
             [2, 3]], dtype=int32)
    """
    if out_sharding is not None:
        return with_out_sharding(
            "lax.reshape", out_sharding, lambda x: reshape(x, new_sizes, dimensions), operand
        )
    x = argument("reshape", operand)
    sizes = as_shape("lax.reshape", new_sizes)
    if math.prod(sizes) != x.size:
        raise TypeError(
            f"lax.reshape: {x.aval} has {x.size} elements, but shape {sizes} has {math.prod(sizes)}"
        )
    if dimensions is not None:
        order = ints("reshape", "dimensions", dimensions)
        if sorted(order) != list(range(x.ndim)):
            raise TypeError(
                "lax.reshape: dimensions must be a permutation of the operand's dimensions, got "
                f"{order} for shape {x.shape}"
            )
        x = transpose(x, order)
    if x.shape == sizes:
        return x
    return bind(ops.reshape, x, shape=sizes)


@takes_extended_arrays()
def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Remove dimensions of size one.

    Args:
      array: an array.
      dimensions: the dimensions to remove; negative ones count from the back.
    Raises:
      ValueError: a dimension is not of size one, does not exist, or is named twice.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.squeeze(gnp.zeros((1, 3, 1)), (0,)).shape
      (3, 1)

    See also:
      `expand_dims`
    """
    x = argument("squeeze", array)
    dims = _unique_axes("squeeze", dimensions, x.ndim)
    for d in dims:
        if x.shape[d] != 1:
            raise ValueError(
                "cannot select an axis to squeeze out which has size not equal to one, got shape "
                f"{x.shape} and dimensions {tuple(dimensions)}"
            )
    if not dims:
        return x
    return bind(ops.reshape, x, shape=tuple(n for d, n in enumerate(x.shape) if d not in dims))


@takes_extended_arrays()
def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Insert dimensions of size one.

    Args:
      array: an array or scalar.
      dimensions: their positions in the result; negative ones count from the end.
    Raises:
      ValueError: a dimension does not exist in the result, or is named twice.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.expand_dims(gnp.array([1, 2]), (0, 2)).shape
      (1, 2, 1)

    See also:
      `squeeze`
    """
    x = argument("expand_dims", array)
    count = len(set(dimensions))
    if count != len(tuple(dimensions)):
        raise ValueError(f"repeated axis in lax.expand_dims: {tuple(dimensions)}")
    rank = x.ndim + count
    dims = _unique_axes("expand_dims", dimensions, rank)
    if not dims:
        return x
    sizes = iter(x.shape)
    return bind(ops.reshape, x, shape=tuple(1 if d in dims else next(sizes) for d in range(rank)))


def _unique_axes(function: str, dimensions: Any, rank: int) -> set[int]:
    dims = [canonical_axis(d, rank) for d in dimensions]
    if len(set(dims)) != len(dims):
        raise ValueError(f"lax.{function}: dimensions are not unique: {tuple(dimensions)}")
    return set(dims)


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Join neighbouring dimensions into one.

    Args:
      operand: an array.
      start_dimension, stop_dimension: the first dimension, and the one after the last (by default
        all that follow); negative ones count from the back.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.collapse(gnp.zeros((2, 3, 4)), 1).shape
      (2, 12)
      >>> lax.collapse(gnp.zeros((2, 3, 4)), 0, 2).shape
      (6, 4)

    See also:
      `reshape`
    """
    x = argument("collapse", operand)
    start, stop, _ = slice(start_dimension, stop_dimension).indices(x.ndim)
    if stop < start:
        raise ValueError(f"lax.collapse: stop {stop} must not be below start {start}")
    shape = (*x.shape[:start], math.prod(x.shape[start:stop]), *x.shape[stop:])
    return reshape(x, shape)


@takes_extended_arrays()
def transpose(operand: ArrayLike, permutation: Sequence[int] | np.ndarray[Any, Any]) -> Array:
    """Permute the dimensions of an array.

    Args:
      operand: an array.
      permutation: the dimensions of the operand in the order of the result.
    Raises:
      TypeError: ``permutation`` is not a permutation of the operand's dimensions.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.transpose(gnp.zeros((2, 3, 4)), (2, 0, 1)).shape
      (4, 2, 3)
    """
    x = argument("transpose", operand)
    order = ints("transpose", "permutation", permutation)
    identity = tuple(range(x.ndim))
    if order == identity:
        return x
    if tuple(sorted(order)) != identity:
        raise TypeError(
            "lax.transpose: permutation isn't a permutation of the operand's dimensions, got "
            f"{order} for shape {x.shape}"
        )
    return bind(ops.transpose, x, permutation=order)


@takes_extended_arrays()
def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverse the order of the elements along dimensions.

    Args:
      operand: an array.
      dimensions: the dimensions to reverse.
    Raises:
      TypeError: a dimension does not exist, or is named twice.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.rev(gnp.array([[1, 2], [3, 4]]), (1,))
      Array([[2, 1],
             [4, 3]], dtype=int32)
    """
    x = argument("rev", operand)
    dims = ints("rev", "dimensions", dimensions)
    if len(set(dims)) != len(dims) or any(not 0 <= d < x.ndim for d in dims):
        raise TypeError(
            f"lax.rev: dimensions must be unique and in [0, {x.ndim}) for shape {x.shape}, "
            f"got {dims}"
        )
    return bind(ops.rev, x, dims=dims) if dims else x


@takes_extended_arrays()
def concatenate(operands: ArraysLike, dimension: int) -> Array:
    """Join arrays along a dimension.

    Args:
      operands: arrays of one dtype and rank that agree in the sizes of all other dimensions.
      dimension: the dimension; not negative.
    Raises:
      ValueError: there are no arrays.
      TypeError: dtypes, ranks or sizes differ, or there is no such dimension.

    Example:
      >>> import gnomon.numpy as gnp
      >>> concatenate([gnp.arange(2), gnp.arange(3)], 0)
      Array([0, 1, 0, 1, 2], dtype=int32)
    """
    arrays = [argument("concatenate", x, i) for i, x in enumerate(operands)]
    if not arrays:
        raise ValueError("lax.concatenate requires a non-empty sequence of arrays")
    shapes = [x.shape for x in arrays]
    given = ", ".join(map(str, shapes))
    rank = len(shapes[0])
    if any(len(s) != rank for s in shapes):
        raise TypeError(f"lax.concatenate: arrays of different ranks, got shapes {given}")
    if not 0 <= dimension < rank:
        raise TypeError(f"lax.concatenate: dimension {dimension} out of bounds for shapes {given}")
    others = {(*s[:dimension], *s[dimension + 1 :]) for s in shapes}
    if len(others) > 1:
        raise TypeError(
            "lax.concatenate: shapes differ in dimensions other than the one being concatenated, "
            f"{dimension}; got {given}"
        )
    same_dtype("concatenate", arrays)
    if len(arrays) == 1:
        return arrays[0]
    return bind(ops.concatenate, *arrays, dimension=operator.index(dimension))


def stack(operands: Sequence[Any], axis: int = 0) -> Array:
    """Join arrays of one shape and dtype along a new dimension.

    Args:
      operands: a sequence of arrays.
      axis: the position of the new dimension in the result.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.stack([gnp.array([1, 2]), gnp.array([3, 4])])
      Array([[1, 2],
             [3, 4]], dtype=int32)

    See also:
      `concatenate`, `unstack`
    """
    arrays = [argument("stack", x, i) for i, x in enumerate(operands)]
    if not arrays:
        raise ValueError("lax.stack requires a non-empty sequence of arrays")
    if any(x.ndim != arrays[0].ndim for x in arrays):
        given = ", ".join(str(x.shape) for x in arrays)
        raise ValueError(f"lax.stack: arrays must have equal shapes, got {given}")
    axis = canonical_axis(axis, arrays[0].ndim + 1)
    return concatenate([expand_dims(x, (axis,)) for x in arrays], axis)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an array along a dimension, without that dimension.

    Args:
      x: an array of at least one dimension.
      axis: the dimension.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.unstack(gnp.array([[1, 2], [3, 4]]))
      (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    x = argument("unstack", x)
    if x.ndim == 0:
        raise ValueError("lax.unstack requires an array with a dimension at least")
    axis = canonical_axis(axis, x.ndim)
    return tuple(squeeze(part, (axis,)) for part in split(x, (1,) * x.shape[axis], axis))


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Cut an array along a dimension.

    Args:
      operand: an array.
      sizes: the sizes of the pieces; they add up to that of the dimension.
      axis: which dimension.
    Raises:
      ValueError: the sizes do not add up.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.split(gnp.arange(5), [2, 3])
      [Array([0, 1], dtype=int32), Array([2, 3, 4], dtype=int32)]

    See also:
      `gnomon.numpy.split`, which takes the positions of the cuts
    """
    x = argument("split", operand)
    axis = canonical_axis(axis, x.ndim)
    pieces = ints("split", "sizes", sizes)
    if sum(pieces) != x.shape[axis] or any(n < 0 for n in pieces):
        raise ValueError(
            f"lax.split: sizes {pieces} must add up to the size of axis {axis} of shape {x.shape}"
        )
    zeros, ones = (0,) * x.ndim, (1,) * x.ndim
    result, begin = [], 0
    for size in pieces:
        start = (*zeros[:axis], begin, *zeros[axis + 1 :])
        limit = (*x.shape[:axis], begin + size, *x.shape[axis + 1 :])
        result.append(bind(ops.slice, x, start=start, limit=limit, strides=ones))
        begin += size
    return result


def pad(
    operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]
) -> Array:
    """Pad an array with a value around and between its elements; negative numbers remove elements.

    Args:
      operand: an array.
      padding_value: a scalar of the same dtype.
      padding_config: for each dimension ``(low, high, interior)``: the number of values before the
        first element, after the last one, and between neighbours.
    Raises:
      TypeError: the dtypes differ.
      ValueError: the configuration does not fit the operand.

    Example:
      >>> import gnomon.numpy as gnp
      >>> pad(gnp.array([1, 2]), 0, [(1, 2, 1)])
      Array([0, 1, 0, 2, 0, 0], dtype=int32)
    """
    x, value = argument("pad", operand, 0), argument("pad", padding_value, 1)
    if value.dtype != x.dtype:
        raise TypeError(
            f"lax.pad: operand and padding_value must have the same dtype, got {x.dtype.name} and "
            f"{value.dtype.name}"
        )
    if value.ndim:
        raise ValueError(f"lax.pad: padding_value must be a scalar, got shape {value.shape}")
    config = tuple(tuple(c) for c in padding_config)
    if any(len(c) != 3 for c in config):
        raise ValueError(
            f"lax.pad: each entry of padding_config must be (low, high, interior), got {config}"
        )
    if len(config) != x.ndim:
        raise ValueError(
            "lax.pad: padding_config must have an entry for each dimension of the operand, got "
            f"{config} for shape {x.shape}"
        )
    low, high, interior = (tuple(as_size(c[i]) for c in config) for i in range(3))
    if any(n < 0 for n in interior):
        raise ValueError(f"lax.pad: interior padding must not be negative, got {config}")
    sizes = tuple(
        lo + hi + n + (larger(n - 1, 0) * gap if gap != 0 else 0)
        for n, lo, hi, gap in zip(x.shape, low, high, interior, strict=True)
    )
    if any(n < 0 for n in sizes):
        raise ValueError(
            f"lax.pad: padding_config {config} removes more elements than shape {x.shape} has: the "
            f"result would have shape {sizes}"
        )
    if low == high == interior == (0,) * x.ndim:
        return x
    return bind(ops.pad, x, value, low=low, high=high, interior=interior)


def shape_as_value(shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """A shape as a NumPy array of integers.

    Args:
      shape: a tuple of ints.

    Example:
      >>> from gnomon import lax
      >>> lax.shape_as_value((2, 3))
      array([2, 3], dtype=int32)
    """
    return np.array(tuple(shape), np.int32)
