"""Functions that repeat elements along dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from gnomon._api.explicit_axes import with_out_sharding
from gnomon._arrays.annotations import ArrayLike, OutSharding, ShapeLike
from gnomon._arrays.array import Array
from gnomon._arrays.extended import takes_extended_arrays
from gnomon._tracing.bind import bind
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.lax._operands import argument, as_shape, as_tuple
from gnomon.lax._structural import Shape, expand_dims, ints, transpose


def broadcast_shapes(*shapes: int | Sequence[int]) -> Shape:
    """The shape that arrays of the given shapes broadcast to, by NumPy's rules.

    Args:
      shapes: tuples of ints, or ints, which mean one dimension.
    Raises:
      ValueError: the shapes cannot be broadcast together.
      TypeError: an argument is not a shape.

    Example:
      >>> from gnomon import lax
      >>> lax.broadcast_shapes((2, 1), (3,))
      (2, 3)
    """
    sequences = [s if type(s) is tuple else as_tuple(s) for s in shapes]
    # Only unusual sizes are checked: this runs before every eager function.
    for s in sequences:
        for n in s:
            if (type(n) is not int or n < 0) and not is_symbolic_dim(n):
                as_shape("broadcast_shapes", s)
    if len(set(sequences)) == 1:
        return sequences[0]
    result = []
    for sizes in itertools.zip_longest(*(reversed(s) for s in sequences), fillvalue=1):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            raise ValueError(f"Incompatible shapes for broadcasting: {', '.join(map(str, shapes))}")
        result.append(wide.pop() if wide else 1)
    return tuple(reversed(result))


def broadcast(
    operand: ArrayLike, sizes: Sequence[int], *, out_sharding: OutSharding | None = None
) -> Array:
    """Repeat an array along new leading dimensions.

    Args:
      operand: an array or scalar.
      sizes: sizes of the new dimensions.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      TypeError: a size is negative.

    Example:
      >>> broadcast(1.0, (2,))
      Array([1., 1.], dtype=float32, weak_type=True)
    """
    if out_sharding is not None:
        return with_out_sharding(
            "lax.broadcast", out_sharding, lambda x: broadcast(x, sizes), operand
        )
    x = argument("broadcast", operand)
    new = as_shape("lax.broadcast", sizes)
    if not new:
        return x
    dims = tuple(range(len(new), len(new) + x.ndim))
    return bind(ops.broadcast_in_dim, x, shape=(*new, *x.shape), dims=dims)


@takes_extended_arrays()
def broadcast_in_dim(
    operand: ArrayLike,
    shape: ShapeLike,
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Repeat an array along new dimensions, and along dimensions of size one.

    Args:
      operand: an array or scalar.
      shape: the shape of the result.
      broadcast_dimensions: for each dimension of the operand, the matching dimension of the result.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      TypeError: a dimension does not exist or is named twice, or sizes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> broadcast_in_dim(gnp.array([1, 2]), (2, 3), (0,))
      Array([[1, 1, 1],
             [2, 2, 2]], dtype=int32)
    """
    if out_sharding is not None:
        return with_out_sharding(
            "lax.broadcast_in_dim",
            out_sharding,
            lambda x: broadcast_in_dim(x, shape, broadcast_dimensions),
            operand,
        )
    x = argument("broadcast_in_dim", operand)
    sizes = as_shape("lax.broadcast_in_dim", shape)
    dims = ints("broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions)
    given = f"an operand of shape {x.shape}, shape {sizes}, broadcast_dimensions {dims}"
    if len(dims) != x.ndim:
        raise TypeError(
            "lax.broadcast_in_dim: broadcast_dimensions must have one entry for each dimension "
            f"of the operand; got {given}"
        )
    if any(not 0 <= d < len(sizes) for d in dims):
        raise TypeError(
            "lax.broadcast_in_dim: broadcast_dimensions must be non-negative and less than the "
            f"rank of the result; got {given}"
        )
    if len(set(dims)) != len(dims):
        raise TypeError(
            f"lax.broadcast_in_dim: broadcast_dimensions must not name one twice, got {given}"
        )
    if any(n not in (1, sizes[d]) for n, d in zip(x.shape, dims, strict=True)):
        raise TypeError(
            "lax.broadcast_in_dim: each dimension of the operand must have size 1 or the "
            f"size of the result's dimension; got {given}"
        )
    # The dimensions of the operation increase, so those of the operand take their order first.
    x = transpose(x, sorted(range(x.ndim), key=dims.__getitem__))
    if x.shape == sizes:
        return x
    return bind(ops.broadcast_in_dim, x, shape=sizes, dims=tuple(sorted(dims)))


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """Add leading dimensions of size one until an array has ``rank`` dimensions.

    Args:
      x: an array or scalar.
      rank: the number of dimensions, at least that of ``x``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.broadcast_to_rank(gnp.array([1, 2]), 3).shape
      (1, 1, 2)
    """
    x = argument("broadcast_to_rank", x)
    if x.ndim > rank:
        raise ValueError(f"lax.broadcast_to_rank: shape {x.shape} has more than {rank} dimensions")
    return expand_dims(x, range(rank - x.ndim))


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """Broadcast an array, by NumPy's rules, to the shape of another array.

    Args:
      arr: an array or scalar.
      like_arr: an array, of which only the shape matters.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.broadcast_like(gnp.array([1, 2]), gnp.zeros((2, 2)))
      Array([[1, 2],
             [1, 2]], dtype=int32)
    """
    x, like = argument("broadcast_like", arr), argument("broadcast_like", like_arr)
    if x.shape == like.shape:
        return x
    if broadcast_shapes(x.shape, like.shape) != like.shape:
        raise ValueError(f"lax.broadcast_like: shape {x.shape} cannot be broadcast to {like.shape}")
    return broadcast_in_dim(x, like.shape, range(like.ndim - x.ndim, like.ndim))


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Repeat an array as a whole along each dimension.

    Args:
      operand: an array.
      reps: the number of repetitions for each dimension.
    Raises:
      TypeError: there is not one number for each dimension.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.tile(gnp.array([[1, 2]]), (2, 2))
      Array([[1, 2, 1, 2],
             [1, 2, 1, 2]], dtype=int32)
    """
    x = argument("tile", operand)
    counts = ints("tile", "reps", reps)
    if len(counts) != x.ndim:
        raise TypeError(
            f"lax.tile: reps must have one entry for each dimension of shape {x.shape}, "
            f"got {counts}"
        )
    if all(n == 1 for n in counts):
        return x
    pairs = tuple(n for pair in zip(counts, x.shape, strict=True) for n in pair)
    spread = bind(ops.broadcast_in_dim, x, shape=pairs, dims=tuple(range(1, 2 * x.ndim, 2)))
    shape = tuple(c * n for c, n in zip(counts, x.shape, strict=True))
    return bind(ops.reshape, spread, shape=shape)
