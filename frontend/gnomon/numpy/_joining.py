"""Joining arrays, and splitting one array into several."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon._arrays.extended import takes_extended_arrays
from gnomon._tracing.bind import as_operand
from gnomon._tracing.trace import concrete_value
from gnomon.dialects.symbolic.dimension import (
    any_symbolic,
    as_size,
    is_symbolic_dim,
    larger,
    smaller,
)
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import (
    as_array,
    promoted,
    sequence_of_arrays,
)
from gnomon.numpy._manipulation import atleast_1d, atleast_2d, atleast_3d, ravel

__all__ = [
    "append",
    "array_split",
    "column_stack",
    "concat",
    "concatenate",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "split",
    "stack",
    "unstack",
    "vsplit",
    "vstack",
]

# The number of equal parts, or the positions at which to split.
Sections = int | Sequence[int] | Array | np.ndarray


@takes_extended_arrays()
def concatenate(
    arrays: ArrayLike | Sequence[ArrayLike], axis: int | None = 0, dtype: DTypeLike | None = None
) -> Array:
    """Join arrays along a dimension that they all have.

    Args:
      arrays: a sequence of arrays, equal in all other dimensions; or an array, whose rows are
        joined.
      axis: the dimension to join along; None flattens the arrays first.
      dtype: the dtype of the result; None promotes the dtypes of the arrays.
    Raises:
      ValueError: there are no arrays, or they are 0-d.
      TypeError: their other dimensions differ.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.concatenate([gnp.array([[1, 2]]), gnp.array([[3, 4], [5, 6]])])
      Array([[1, 2],
             [3, 4],
             [5, 6]], dtype=int32)
      >>> gnp.concatenate([gnp.array([[1, 2]]), gnp.array([[3.5, 4.5]])], axis=1)
      Array([[1. , 2. , 3.5, 4.5]], dtype=float32)

    See also:
      `stack`, which adds a dimension
    """
    slices = _symbolic_slices(arrays)
    if slices is not None:
        return _joined_slices(slices, axis, dtype)
    parts = list(sequence_of_arrays("concatenate", arrays))
    if not parts:
        raise ValueError("Need at least one array to concatenate.")
    if axis is None:
        parts, axis = [ravel(x) for x in parts], 0
    joined = promoted("concatenate", *parts)
    if dtype is not None:
        joined = [lax.convert_element_type(x, dtype) for x in joined]
    if joined[0].ndim == 0:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    place = canonical_axis(axis, joined[0].ndim)
    shapes = {tuple(n for i, n in enumerate(x.shape) if i != place) for x in joined}
    if len(shapes) > 1 or len({x.ndim for x in joined}) > 1:
        raise TypeError(
            "Cannot concatenate arrays with shapes that differ in dimensions other than the one "
            f"being concatenated: concatenating along dimension {place} for shapes "
            f"{', '.join(str(x.shape) for x in joined)}."
        )
    return joined[0] if len(joined) == 1 else lax.concatenate(joined, place)


concat = concatenate


def _symbolic_slices(arrays: Any, *new_axes: tuple[int, ...]) -> Array | None:
    """The array whose slices along a symbolic first dimension are to be joined; None for others.

    Their number is not known, so they are joined by a reshape.

    Args:
      arrays: the argument of a function that joins arrays.
      new_axes: for scalars, vectors, and so on, the dimensions of size 1 that each slice gets.
    """
    if not isinstance(arrays, Array) or not arrays.ndim or not is_symbolic_dim(arrays.shape[0]):
        return None
    rank = arrays.ndim - 1
    if rank >= len(new_axes):
        return arrays
    return lax.expand_dims(arrays, tuple(d + 1 for d in new_axes[rank]))


def _joined_slices(x: Array, axis: int | None, dtype: DTypeLike | None) -> Array:
    """Join the slices of an array along its first dimension, as `concatenate` joins a list."""
    if dtype is not None:
        x = lax.convert_element_type(x, dtype)
    if axis is None:
        return ravel(x)
    if x.ndim == 1:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    place = canonical_axis(axis, x.ndim - 1)
    count, *shape = x.shape
    order = (*range(1, place + 1), 0, *range(place + 1, x.ndim))
    shape[place] *= count
    return lax.reshape(x, tuple(shape), order)


@takes_extended_arrays()
def stack(
    arrays: ArrayLike | Sequence[ArrayLike],
    axis: int = 0,
    out: None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Join arrays of one shape along a new dimension.

    Args:
      arrays: a sequence of arrays, or an array, whose rows are joined.
      axis: the position of the new dimension in the result.
      out: must be None, because arrays are immutable.
      dtype: the dtype of the result; None promotes the dtypes of the arrays.
    Raises:
      ValueError: there are no arrays, or their shapes differ.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.stack([gnp.array([1, 2]), gnp.array([3, 4])])
      Array([[1, 2],
             [3, 4]], dtype=int32)
      >>> gnp.stack([gnp.array([1, 2]), gnp.array([3, 4])], axis=-1)
      Array([[1, 3],
             [2, 4]], dtype=int32)

    See also:
      `concatenate`, `unstack`
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to stack is not supported.")
    slices = _symbolic_slices(arrays)
    if slices is not None:
        place = canonical_axis(axis, slices.ndim)
        return _joined_slices(lax.expand_dims(slices, (place + 1,)), place, dtype)
    parts = [as_array("stack", x, i) for i, x in enumerate(sequence_of_arrays("stack", arrays))]
    if not parts:
        raise ValueError("Need at least one array to stack.")
    if len({x.shape for x in parts}) > 1:
        raise ValueError("All input arrays must have the same shape.")
    place = canonical_axis(axis, parts[0].ndim + 1)
    return concatenate([lax.expand_dims(x, (place,)) for x in parts], place, dtype)


@takes_extended_arrays()
def vstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the first dimension; vectors are rows.

    Args:
      tup: a sequence of arrays that are equal in all other dimensions.
      dtype: the dtype of the result; None promotes the dtypes of the arrays.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.vstack([gnp.array([1, 2]), gnp.array([[3, 4], [5, 6]])])
      Array([[1, 2],
             [3, 4],
             [5, 6]], dtype=int32)
    """
    slices = _symbolic_slices(tup, (0, 1), (0,))
    if slices is not None:
        return _joined_slices(slices, 0, dtype)
    return concatenate([atleast_2d(x) for x in sequence_of_arrays("vstack", tup)], 0, dtype)


@takes_extended_arrays()
def hstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the second dimension, vectors along the first.

    Args:
      tup: a sequence of arrays that are equal in all other dimensions.
      dtype: the dtype of the result; None promotes the dtypes of the arrays.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.hstack([gnp.array([1, 2]), gnp.array([3])])
      Array([1, 2, 3], dtype=int32)
      >>> gnp.hstack([gnp.array([[1], [2]]), gnp.array([[3], [4]])])
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    slices = _symbolic_slices(tup, (0,))
    if slices is not None:
        return _joined_slices(slices, min(slices.ndim - 2, 1), dtype)
    parts = [atleast_1d(x) for x in sequence_of_arrays("hstack", tup)]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype)


def dstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the third dimension; matrices get a third dimension first.

    Args:
      tup: a sequence of arrays of one shape, up to the third dimension.
      dtype: the dtype of the result; None promotes the dtypes of the arrays.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.dstack([gnp.array([1, 2]), gnp.array([3, 4])])
      Array([[[1, 3],
              [2, 4]]], dtype=int32)
    """
    slices = _symbolic_slices(tup, (0, 1, 2), (0, 2), (2,))
    if slices is not None:
        return _joined_slices(slices, 2, dtype)
    return concatenate([atleast_3d(x) for x in sequence_of_arrays("dstack", tup)], 2, dtype)


def column_stack(tup: ArrayLike | Sequence[ArrayLike]) -> Array:
    """Join vectors as the columns of a matrix.

    Args:
      tup: vectors and matrices with equal numbers of rows.
    Returns:
      A matrix; matrices among the arguments contribute all of their columns.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.column_stack([gnp.array([1, 2]), gnp.array([3, 4])])
      Array([[1, 3],
             [2, 4]], dtype=int32)

    See also:
      `stack`, `hstack`
    """
    slices = _symbolic_slices(tup, (0, 1), (1,))
    if slices is not None:
        return _joined_slices(slices, 1, None)
    parts = []
    for x in sequence_of_arrays("column_stack", tup):
        array = atleast_1d(x)
        parts.append(atleast_2d(array).T if array.ndim < 2 else array)
    return concatenate(parts, 1)


@takes_extended_arrays("arr", "values")
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """A copy of an array with values joined to its end.

    Args:
      arr: an array.
      values: an array; with an axis, its other dimensions must equal those of ``arr``.
      axis: the dimension to join along; None flattens both arrays first.
    Returns:
      An array of the promoted dtype; ``arr`` itself does not change.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.append(gnp.array([[1, 2], [3, 4]]), gnp.array([[5, 6]]), axis=0)
      Array([[1, 2],
             [3, 4],
             [5, 6]], dtype=int32)
      >>> gnp.append(gnp.array([[1, 2], [3, 4]]), 5)
      Array([1, 2, 3, 4, 5], dtype=int32)

    See also:
      `concatenate`, `insert`
    """
    return concatenate([as_array("append", arr), as_array("append", values, 1)], axis)


@takes_extended_arrays()
def split(ary: ArrayLike, indices_or_sections: Sections, axis: int = 0) -> list[Array]:
    """Cut an array into equal parts, or at given positions.

    Args:
      ary: an array.
      indices_or_sections: the number of parts; or the ascending positions of the cuts.
      axis: the dimension to cut.
    Returns:
      A list of arrays.
    Raises:
      ValueError: the size of the dimension is not divisible by the number of parts.

    Example:
      >>> import gnomon.numpy as gnp
      >>> [part.tolist() for part in gnp.split(gnp.arange(6), 3)]
      [[0, 1], [2, 3], [4, 5]]
      >>> [part.tolist() for part in gnp.split(gnp.arange(6), [1, 4])]
      [[0], [1, 2, 3], [4, 5]]

    See also:
      `array_split`, which allows unequal parts
    """
    x = as_array("split", ary)
    size = x.shape[canonical_axis(axis, x.ndim)]
    if isinstance(indices_or_sections, (int, np.integer)) and size % int(indices_or_sections):
        raise ValueError("array split does not result in an equal division")
    return array_split(x, indices_or_sections, axis)


@takes_extended_arrays()
def array_split(ary: ArrayLike, indices_or_sections: Sections, axis: int = 0) -> list[Array]:
    """Cut an array into parts whose sizes differ by at most one, or at given positions.

    Args:
      ary: an array.
      indices_or_sections: the number of parts, where the first ones are longer if the size is not
        divisible; or the ascending positions of the cuts.
      axis: the dimension to cut.

    Example:
      >>> import gnomon.numpy as gnp
      >>> [part.tolist() for part in gnp.array_split(gnp.arange(5), 2)]
      [[0, 1, 2], [3, 4]]
      >>> [part.tolist() for part in gnp.array_split(gnp.arange(5), [1, 3])]
      [[0], [1, 2], [3, 4]]

    See also:
      `split`, which refuses unequal parts
    """
    x = as_array("array_split", ary)
    place = canonical_axis(axis, x.ndim)
    size = x.shape[place]
    if isinstance(indices_or_sections, (int, np.integer)):
        count = int(indices_or_sections)
        if count <= 0:
            raise ValueError("number sections must be larger than 0.")
        small, extra = divmod(size, count)
        cuts = [0]
        for i in range(count):
            cuts.append(cuts[-1] + small + (i < extra))
    else:
        inner = [
            smaller(larger(i + size if i < 0 else i, 0), size)
            for i in _positions(indices_or_sections)
        ]
        cuts = [0, *inner, size]
    parts = []
    for low, high in itertools.pairwise(cuts):
        parts.append(lax.slice_in_dim(x, low, larger(low, high), axis=place))
    return parts


def _positions(given: Any) -> list[Any]:
    """The positions at which to split, as ints and symbolic dimensions."""
    if isinstance(given, (list, tuple)) and any_symbolic(given):
        return [as_size(i) for i in given]
    return [int(i) for i in np.asarray(concrete_value(as_operand(np.asarray(given))))]


def vsplit(ary: ArrayLike, indices_or_sections: Sections) -> list[Array]:
    """Cut an array along its first dimension.

    Args:
      ary: an array of at least two dimensions.
      indices_or_sections: the number of parts or the positions of the cuts, as in `split`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> [part.tolist() for part in gnp.vsplit(gnp.array([[1, 2], [3, 4]]), 2)]
      [[[1, 2]], [[3, 4]]]
    """
    return split(ary, indices_or_sections, 0)


def hsplit(ary: ArrayLike, indices_or_sections: Sections) -> list[Array]:
    """Cut an array along its second dimension, a vector along its first.

    Args:
      ary: an array of at least one dimension.
      indices_or_sections: the number of parts or the positions of the cuts, as in `split`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> [part.tolist() for part in gnp.hsplit(gnp.array([[1, 2], [3, 4]]), 2)]
      [[[1], [3]], [[2], [4]]]
    """
    x = as_array("hsplit", ary)
    return split(x, indices_or_sections, 0 if x.ndim == 1 else 1)


def dsplit(ary: ArrayLike, indices_or_sections: Sections) -> list[Array]:
    """Cut an array along its third dimension.

    Args:
      ary: an array of at least three dimensions.
      indices_or_sections: the number of parts or the positions of the cuts, as in `split`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> [part.shape for part in gnp.dsplit(gnp.zeros((2, 2, 4)), 2)]
      [(2, 2, 2), (2, 2, 2)]
    """
    return split(ary, indices_or_sections, 2)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an array along a dimension, as a tuple of arrays.

    Args:
      x: an array of at least one dimension.
      axis: the dimension that the slices do not have.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.unstack(gnp.array([[1, 2], [3, 4]]))
      (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))

    See also:
      `stack`, `split`
    """
    array = as_array("unstack", x)
    if array.ndim == 0:
        raise ValueError(
            "unstack requires arrays with rank > 0, however a scalar array was passed."
        )
    place = canonical_axis(axis, array.ndim)
    return tuple(
        lax.index_in_dim(array, i, place, keepdims=False) for i in range(array.shape[place])
    )
