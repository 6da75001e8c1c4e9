"""Shapes: reshape, transpose, broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from gnomon import lax
from gnomon._api.explicit_axes import with_out_sharding
from gnomon._arrays.annotations import ArrayLike, OutSharding, ShapeLike
from gnomon._arrays.array import Array
from gnomon._arrays.extended import takes_extended_arrays
from gnomon._tracing.bind import bind
from gnomon.dialects.emit import ops
from gnomon.lax._operands import as_tuple
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import (
    as_array,
    axis_tuple,
    static_shape,
)


@takes_extended_arrays()
def reshape(
    a: ArrayLike,
    shape: ShapeLike,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """An array with the same elements in another shape.

    Args:
      a: an array or scalar.
      shape: an int or a tuple of ints; one of them may be -1, and is inferred from the size.
      order: "C" reads and writes the last dimension fastest, "F" the first; "A" means "C".
      copy: ignored.
      out_sharding: the sharding of the result on a mesh with explicit axes; None infers it.
    Raises:
      TypeError: the sizes do not fit.
      ValueError: the order is not "C", "F" or "A".

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.reshape(gnp.arange(6), (2, -1))
      Array([[0, 1, 2],
             [3, 4, 5]], dtype=int32)
      >>> gnp.reshape(gnp.arange(6), (2, 3), order="F")
      Array([[0, 2, 4],
             [1, 3, 5]], dtype=int32)

    See also:
      `ravel`, `transpose`, `expand_dims`
    """
    if out_sharding is not None:
        return with_out_sharding("reshape", out_sharding, lambda x: reshape(x, shape, order), a)
    x = as_array("reshape", a)
    sizes = static_shape("reshape", shape)
    if sizes.count(-1) > 1:
        raise TypeError(f"reshape: only one dimension may be -1, got {sizes}")
    if -1 in sizes:
        known = math.prod(n for n in sizes if n != -1)
        if known == 0 or x.size % known:
            raise TypeError(f"cannot reshape array of shape {x.shape} (size {x.size}) into {sizes}")
        sizes = tuple(x.size // known if n == -1 else n for n in sizes)
    if math.prod(sizes) != x.size or any(n < 0 for n in sizes):
        raise TypeError(f"cannot reshape array of shape {x.shape} (size {x.size}) into {sizes}")
    if order == "F":
        return transpose(lax.reshape(transpose(x), sizes[::-1]))
    if order not in ("C", "A"):
        raise ValueError(f"reshape: order must be 'C', 'F' or 'A', got {order!r}")
    return x if sizes == x.shape else lax.reshape(x, sizes)


@takes_extended_arrays()
def ravel(a: ArrayLike, order: str = "C", *, out_sharding: OutSharding | None = None) -> Array:
    """Flatten an array to one dimension.

    Args:
      a: an array or scalar.
      order: "C" reads the last dimension fastest, "F" the first.
      out_sharding: the sharding of the result on a mesh with explicit axes; None infers it.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.ravel(gnp.array([[1, 2], [3, 4]]))
      Array([1, 2, 3, 4], dtype=int32)
      >>> gnp.ravel(gnp.array([[1, 2], [3, 4]]), order="F")
      Array([1, 3, 2, 4], dtype=int32)

    See also:
      `reshape`
    """
    if out_sharding is not None:
        return with_out_sharding("ravel", out_sharding, lambda x: ravel(x, order), a)
    return reshape(a, (0,) if as_array("ravel", a).size == 0 else (-1,), order)


@takes_extended_arrays()
def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Permute the dimensions of an array.

    Args:
      a: an array.
      axes: the dimensions of ``a`` in the order of the result; None reverses them.
    Raises:
      ValueError: ``axes`` is not a permutation of the dimensions.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.transpose(gnp.array([[1, 2, 3], [4, 5, 6]]))
      Array([[1, 4],
             [2, 5],
             [3, 6]], dtype=int32)
      >>> gnp.transpose(gnp.zeros((2, 3, 4)), (1, 0, 2)).shape
      (3, 2, 4)

    See also:
      `matrix_transpose`, `moveaxis`, `swapaxes`
    """
    x = as_array("transpose", a)
    if axes is None:
        order = tuple(range(x.ndim))[::-1]
    else:
        order = tuple(canonical_axis(i, x.ndim) for i in axes)
        if sorted(order) != list(range(x.ndim)):
            raise ValueError(
                f"transpose: axes {tuple(axes)} is not a permutation of {x.ndim} dimensions"
            )
    return x if order == tuple(range(x.ndim)) else lax.transpose(x, order)


permute_dims = transpose


def matrix_transpose(x: ArrayLike, /) -> Array:
    """Swap the last two dimensions.

    Args:
      x: an array of at least two dimensions.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.matrix_transpose(gnp.array([[1, 2], [3, 4]]))
      Array([[1, 3],
             [2, 4]], dtype=int32)
      >>> gnp.matrix_transpose(gnp.zeros((5, 2, 3))).shape
      (5, 3, 2)

    See also:
      `transpose`, which reverses all dimensions
    """
    array = as_array("matrix_transpose", x)
    if array.ndim < 2:
        raise ValueError(f"matrix_transpose takes two dimensions or more, got {array.ndim}")
    return swapaxes(array, -1, -2)


@takes_extended_arrays()
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Swap two dimensions.

    Args:
      a: an array.
      axis1, axis2: the dimensions.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.swapaxes(gnp.zeros((2, 3, 4)), 0, 2).shape
      (4, 3, 2)

    See also:
      `transpose`, `moveaxis`
    """
    x = as_array("swapaxes", a)
    order = list(range(x.ndim))
    i, j = canonical_axis(axis1, x.ndim), canonical_axis(axis2, x.ndim)
    order[i], order[j] = order[j], order[i]
    return transpose(x, order)


@takes_extended_arrays()
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Move dimensions to other positions; the remaining ones keep their order.

    Args:
      a: an array.
      source: the dimension to move, or several.
      destination: the position of each in the result.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.moveaxis(gnp.zeros((2, 3, 4)), 0, -1).shape
      (3, 4, 2)
      >>> gnp.moveaxis(gnp.zeros((2, 3, 4)), [0, 1], [1, 0]).shape
      (3, 2, 4)

    See also:
      `transpose`, `swapaxes`
    """
    x = as_array("moveaxis", a)
    sources = axis_tuple("moveaxis", source, x.ndim)
    destinations = axis_tuple("moveaxis", destination, x.ndim)
    if len(sources) != len(destinations):
        raise ValueError(
            f"moveaxis: inconsistent number of elements: {len(sources)} vs {len(destinations)}"
        )
    order = [d for d in range(x.ndim) if d not in sources]
    for place, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, axis)
    return transpose(x, order)


@takes_extended_arrays()
def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """Insert dimensions of size one.

    Args:
      a: an array or scalar.
      axis: the position of the new dimension in the result, or several positions.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.expand_dims(gnp.array([1, 2]), 1)
      Array([[1],
             [2]], dtype=int32)
      >>> gnp.expand_dims(gnp.array([1, 2]), (0, -1)).shape
      (1, 2, 1)

    See also:
      `squeeze`, `reshape`
    """
    x = as_array("expand_dims", a)
    axes = as_tuple(axis)
    return lax.expand_dims(x, axis_tuple("expand_dims", axes, x.ndim + len(axes)))


@takes_extended_arrays()
def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Remove dimensions of size one.

    Args:
      a: an array.
      axis: the dimension or dimensions to remove; None removes all of size one.
    Raises:
      ValueError: a given dimension is not of size one.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.squeeze(gnp.zeros((1, 3, 1))).shape
      (3,)
      >>> gnp.squeeze(gnp.zeros((1, 3, 1)), axis=0).shape
      (3, 1)

    See also:
      `expand_dims`
    """
    x = as_array("squeeze", a)
    if axis is None:
        axes = tuple(i for i, n in enumerate(x.shape) if n == 1)
    else:
        axes = axis_tuple("squeeze", axis, x.ndim)
        for i in axes:
            if x.shape[i] != 1:
                raise ValueError(
                    "cannot select an axis to squeeze out which has size not equal to one, got "
                    f"shape={x.shape} and axis={axis}"
                )
    return reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


@takes_extended_arrays()
def broadcast_to(
    array: ArrayLike, shape: ShapeLike, *, out_sharding: OutSharding | None = None
) -> Array:
    """Repeat an array along new dimensions and dimensions of size one, up to a shape.

    Args:
      array: an array or scalar.
      shape: the shape; its last dimensions must equal those of ``array`` where these are not 1.
      out_sharding: the sharding of the result on a mesh with explicit axes; None infers it.
    Raises:
      ValueError: the shape does not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.broadcast_to(gnp.array([1, 2, 3]), (2, 3))
      Array([[1, 2, 3],
             [1, 2, 3]], dtype=int32)
      >>> gnp.broadcast_to(gnp.array([1, 2]), (2, 3))
      Traceback (most recent call last):
          ...
      ValueError: Incompatible shapes for broadcasting: (2,) and requested shape (2, 3)
    """
    if out_sharding is not None:
        return with_out_sharding(
            "broadcast_to", out_sharding, lambda x: broadcast_to(x, shape), array
        )
    x = as_array("broadcast_to", array)
    sizes = static_shape("broadcast_to", shape)
    if x.shape == sizes:
        return x
    lead = len(sizes) - x.ndim
    if lead < 0 or any(n not in (1, m) for n, m in zip(x.shape, sizes[lead:], strict=True)):
        raise ValueError(
            f"Incompatible shapes for broadcasting: {x.shape} and requested shape {sizes}"
        )
    kept = [i for i, n in enumerate(x.shape) if n == sizes[lead + i]]
    small = reshape(x, tuple(x.shape[i] for i in kept))
    return bind(ops.broadcast_in_dim, small, shape=sizes, dims=tuple(lead + i for i in kept))


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of the given shapes broadcast to.

    Args:
      shapes: tuples of ints, or ints, which mean one dimension.
    Raises:
      ValueError: the shapes do not broadcast.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.broadcast_shapes((2, 1), (3,), ())
      (2, 3)
      >>> gnp.broadcast_shapes((2,), (3,))
      Traceback (most recent call last):
          ...
      ValueError: Incompatible shapes for broadcasting: (2,), (3,)
    """
    return tuple(lax.broadcast_shapes(*shapes))


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """Broadcast arrays to their common shape.

    Args:
      args: arrays or scalars; their dtypes may differ and are kept.
    Returns:
      A list with one array for each argument.
    Raises:
      ValueError: the shapes do not broadcast.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.broadcast_arrays(gnp.array([1, 2, 3]), gnp.array([[10.0], [20.0]]))
      [Array([[1, 2, 3],
             [1, 2, 3]], dtype=int32), Array([[10., 10., 10.],
             [20., 20., 20.]], dtype=float32)]
    """
    arrays = [as_array("broadcast_arrays", x, i) for i, x in enumerate(args)]
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return [broadcast_to(x, shape) for x in arrays]


def _at_least(function: str, xs: tuple[Any, ...], make: Callable[[Array], Array]) -> Any:
    arrays = [make(as_array(function, x, i)) for i, x in enumerate(xs)]
    return arrays[0] if len(arrays) == 1 else arrays


def atleast_1d(*arys: ArrayLike) -> Any:
    """Convert scalars to arrays with one dimension; other arrays stay as they are.

    Args:
      arys: one array or several.
    Returns:
      The array, or a list of arrays if there are several arguments.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.atleast_1d(3.0)
      Array([3.], dtype=float32, weak_type=True)
      >>> gnp.atleast_1d(1, gnp.array([2, 3]))
      [Array([1], dtype=int32, weak_type=True), Array([2, 3], dtype=int32)]
    """
    return _at_least("atleast_1d", arys, lambda x: reshape(x, (1,)) if x.ndim == 0 else x)


def atleast_2d(*arys: ArrayLike) -> Any:
    """Add leading dimensions until an array has two; a vector becomes a row.

    Args:
      arys: one array or several.
    Returns:
      The array, or a list of arrays if there are several arguments.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.atleast_2d(gnp.array([1, 2, 3])).shape
      (1, 3)
      >>> gnp.atleast_2d(5).shape
      (1, 1)
    """
    return _at_least("atleast_2d", arys, lambda x: reshape(x, (1, x.size)) if x.ndim < 2 else x)


def atleast_3d(*arys: ArrayLike) -> Any:
    """Add dimensions until an array has three; a vector of size n gets the shape ``(1, n, 1)``.

    Args:
      arys: one array or several. A matrix of shape ``(m, n)`` gets the shape ``(m, n, 1)``.
    Returns:
      The array, or a list of arrays if there are several arguments.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.atleast_3d(gnp.arange(4)).shape
      (1, 4, 1)
      >>> gnp.atleast_3d(gnp.ones((2, 3))).shape
      (2, 3, 1)
    """

    def make(x: Array) -> Array:
        if x.ndim <= 1:
            return reshape(x, (1, x.size, 1))
        return reshape(x, (*x.shape, 1)) if x.ndim == 2 else x

    return _at_least("atleast_3d", arys, make)


__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "expand_dims",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "reshape",
    "squeeze",
    "swapaxes",
    "transpose",
]
