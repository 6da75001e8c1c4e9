"""Products of groups of rows by one matrix each, products with scales, and barriers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from gnomon import tree_util
from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._arrays.dtypes import check_user_dtype
from gnomon._tracing.bind import as_operand, bind, with_weak_type
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_integer
from gnomon.lax._broadcasting import broadcast_in_dim
from gnomon.lax._contraction import DotDimensionNumbers, PrecisionLike, dot_general
from gnomon.lax._creation import converted, full_like, iota
from gnomon.lax._elementwise import bitwise_and, ge, lt, mul
from gnomon.lax._operands import argument
from gnomon.lax._reductions import cumsum
from gnomon.lax._selection import select
from gnomon.lax._structural import reshape, transpose

# ---------------------------------------------------------------------------------- ragged products


@dataclass(frozen=True, init=False)
class RaggedDotDimensionNumbers:
    """The roles of the dimensions of a `ragged_dot_general`.

    Attributes:
      dot_dimension_numbers: see `dot_general`.
      lhs_ragged_dimensions: the one dimension of ``lhs`` that is cut into groups.
      rhs_group_dimensions: the dimension of ``rhs`` that holds a matrix for each group, if the
        ragged dimension is neither contracted nor a batch dimension.
    """

    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]

    def __init__(
        self,
        dot_dimension_numbers: Any,
        lhs_ragged_dimensions: Sequence[int],
        rhs_group_dimensions: Sequence[int],
    ) -> None:
        pairs = tuple(tuple(map(tuple, pair)) for pair in dot_dimension_numbers)
        object.__setattr__(self, "dot_dimension_numbers", pairs)
        object.__setattr__(self, "lhs_ragged_dimensions", tuple(lhs_ragged_dimensions))
        object.__setattr__(self, "rhs_group_dimensions", tuple(rhs_group_dimensions))


@takes_out_sharding
def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Multiply consecutive groups of rows by one matrix each.

    Args:
      lhs: an array of shape ``(m, k)``: the rows.
      rhs: an array of shape ``(g, k, n)``: a matrix for each group.
      group_sizes: integers of shape ``(g,)``: the number of rows of each group.
      precision, preferred_element_type: see `dot_general`.
      group_offset: must be None.
      out_sharding: the sharding of the result, or a spec of the mesh that is set.
    Returns:
      An array of shape ``(m, n)``; rows that belong to no group give 0.
    Raises:
      TypeError: shapes or dtypes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> ragged_dot(gnp.ones((3, 2)), gnp.ones((2, 2, 1)), gnp.array([1, 1]))
      Array([[2.],
             [2.],
             [0.]], dtype=float32)
    """
    x, y = argument("ragged_dot", lhs, 0), argument("ragged_dot", rhs, 1)
    sizes = argument("ragged_dot", group_sizes, 2)
    if x.ndim != 2 or y.ndim != 3 or x.shape[1] != y.shape[1]:
        raise TypeError(
            "ragged_dot takes lhs of shape (m, k) and rhs of shape (g, k, n), got "
            f"{x.shape} and {y.shape}"
        )
    if sizes.shape != y.shape[:1]:
        raise TypeError(
            f"ragged_dot: group_sizes must hold one size for each of the {y.shape[0]} groups, got "
            f"shape {sizes.shape}"
        )
    rows = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    return ragged_dot_general(
        x,
        y,
        sizes,
        rows,
        precision=precision,
        preferred_element_type=preferred_element_type,
        group_offset=group_offset,
    )


@takes_out_sharding
def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """A `dot_general` in which one dimension of ``lhs`` is cut into groups.

    With g groups and batch dimensions ``b...``, there are three cases:

    - The ragged dimension is contracted: there is one product for each group, over its part of the
      dimension. The result has a leading dimension of size g.
    - The ragged dimension is a batch dimension: the result is that of `dot_general`.
    - Otherwise, ``rhs`` has a dimension of size g with the operand of each group; see `ragged_dot`.

    Args:
      lhs, rhs: arrays.
      group_sizes: integers of shape ``(g,)``; or of shape ``(b..., x..., g)``, if the groups differ
        along the batch dimensions ``b...`` and along ``x...``, the dimensions of the same kind as
        the ragged one (contracted or free) that precede it. If the ragged dimension is a batch
        dimension, the shape is that of the batch dimensions that precede it, and ``g``.
      ragged_dot_dimension_numbers: see `RaggedDotDimensionNumbers`.
      precision, preferred_element_type: see `dot_general`.
      group_offset: must be None.
      out_sharding: the sharding of the result, or a spec of the mesh that is set.
    Raises:
      TypeError: dimensions, shapes or dtypes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> numbers = RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
      >>> ragged_dot_general(gnp.arange(4.0), gnp.ones(4), gnp.array([1, 3]), numbers)
      Array([0., 6.], dtype=float32)
    """
    what = "ragged_dot_general"
    if group_offset is not None:
        raise NotImplementedError(f"{what}: group_offset is not supported")
    x, y = argument(what, lhs, 0), argument(what, rhs, 1)
    sizes = argument(what, group_sizes, 2)
    if not is_integer(sizes.dtype):
        raise TypeError(f"{what}: group_sizes must be integers, got {sizes.dtype.name}")
    numbers = ragged_dot_dimension_numbers
    (x_sums, y_sums), (x_batch, y_batch) = numbers.dot_dimension_numbers
    ragged = _ragged_dimension(x, numbers)
    before = _outer_dimensions(x.ndim, ragged, x_sums, x_batch)
    sizes = _group_sizes(sizes, tuple(x.shape[d] for d in before))
    groups = sizes.shape[-1]

    def product(a: Array, b: Array, sums: Any, batch: Any) -> Array:
        return dot_general(a, b, (sums, batch), precision, preferred_element_type)

    if ragged in (*x_sums, *x_batch) and numbers.rhs_group_dimensions:
        raise TypeError(
            f"{what}: rhs has group dimensions only where the ragged dimension of lhs is neither "
            f"contracted nor a batch dimension, got {numbers.rhs_group_dimensions}"
        )
    if ragged in x_batch:
        return product(x, y, (x_sums, y_sums), (x_batch, y_batch))
    shifted = [tuple(d + 1 for d in dims) for dims in (x_sums, x_batch)]
    x = _by_group(x, ragged, sizes, before)
    if ragged in x_sums:
        partner = y_sums[tuple(x_sums).index(ragged)]
        y = _by_group(y, partner, sizes, _outer_dimensions(y.ndim, partner, y_sums, y_batch))
        y_sums, y_batch = (tuple(d + 1 for d in dims) for dims in (y_sums, y_batch))
        return product(x, y, (shifted[0], y_sums), ((0, *shifted[1]), (0, *y_batch)))
    group = _group_dimension(y, numbers, groups)
    return product(x, y, ((0, *shifted[0]), (group, *y_sums)), (shifted[1], y_batch))


def _ragged_dimension(x: Array, numbers: RaggedDotDimensionNumbers) -> int:
    if len(numbers.lhs_ragged_dimensions) != 1:
        raise TypeError(
            "ragged_dot_general expects exactly one lhs ragged dimension, got "
            f"{numbers.lhs_ragged_dimensions}"
        )
    (ragged,) = numbers.lhs_ragged_dimensions
    if not 0 <= ragged < x.ndim:
        raise TypeError(
            f"ragged_dot_general: the ragged dimension must be in [0, {x.ndim}), got {ragged}"
        )
    return ragged


def _group_dimension(y: Array, numbers: RaggedDotDimensionNumbers, groups: int) -> int:
    (_, y_sums), (_, y_batch) = numbers.dot_dimension_numbers
    given = numbers.rhs_group_dimensions
    if len(given) != 1 or not 0 <= given[0] < y.ndim or given[0] in (*y_sums, *y_batch):
        raise TypeError(
            "ragged_dot_general requires exactly one rhs group dimension, apart from contracting "
            f"and batch dimensions, in [0, {y.ndim}); got {given}"
        )
    if y.shape[given[0]] != groups:
        raise TypeError(
            f"ragged_dot_general: the group dimension of rhs must be of size {groups}, got "
            f"{y.shape[given[0]]}"
        )
    return given[0]


def _outer_dimensions(
    rank: int, ragged: int, sums: Sequence[int], batch: Sequence[int]
) -> tuple[int, ...]:
    """The dimensions along which the groups may differ."""
    kept = [d for d in range(rank) if d not in (*sums, *batch)]
    if ragged in batch:
        return tuple(batch[: tuple(batch).index(ragged)])
    kind = list(sums) if ragged in sums else kept
    return (*batch, *kind[: kind.index(ragged)])


def _group_sizes(sizes: Array, outer: tuple[int, ...]) -> Array:
    """The sizes of the groups in the shape ``(*outer, g)``."""
    if sizes.ndim == 0:
        raise TypeError("ragged_dot_general: expected rank of group_sizes to be >=1.")
    shape = (*outer, sizes.shape[-1])
    if sizes.ndim == 1:
        return broadcast_in_dim(sizes, shape, (len(outer),))
    if sizes.shape != shape:
        raise TypeError(
            f"ragged_dot_general: expected group_sizes to have shape {shape}, got {sizes.shape}."
        )
    return sizes


def _by_group(x: Array, ragged: int, sizes: Array, outer: tuple[int, ...]) -> Array:
    """Copies of an array along a new leading dimension, with zeros outside of each group."""
    sizes = converted(sizes, np.dtype(np.int32))
    ends = cumsum(sizes, sizes.ndim - 1)
    starts = bind(ops.sub, ends, sizes)
    shape = (sizes.shape[-1], *x.shape)
    # From (*outer, g) to the dimensions of the result, in their order.
    places = [*(d + 1 for d in outer), 0]
    order = sorted(range(len(places)), key=places.__getitem__)

    def spread(bounds: Array) -> Array:
        return broadcast_in_dim(transpose(bounds, order), shape, sorted(places))

    position = broadcast_in_dim(iota(np.int32, x.shape[ragged]), shape, (ragged + 1,))
    mine = bitwise_and(ge(position, spread(starts)), lt(position, spread(ends)))
    copies = broadcast_in_dim(x, shape, tuple(range(1, len(shape))))
    return select(mine, copies, full_like(copies, 0))


# ----------------------------------------------------------------------------- products with scales


def scaled_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    lhs_scale: ArrayLike | None = None,
    rhs_scale: ArrayLike | None = None,
    dimension_numbers: DotDimensionNumbers | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The product of arrays that have a scale for each block: ``(lhs * scale) @ (rhs * scale)``.

    Operands are converted to bfloat16 and multiplied by their scales in bfloat16.

    Args:
      lhs, rhs: arrays of the same rank.
      lhs_scale, rhs_scale: arrays of the rank of the operands. Along contracted dimensions, each
        element is the scale of two or more elements of the operand. None means no scale.
      dimension_numbers: see `dot_general`; by default the last two dimensions are those of matrices
        and all others are batch dimensions.
      preferred_element_type: the dtype of the sums and of the result, by default bfloat16.
    Raises:
      TypeError: shapes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> scales = gnp.array([[2.0, 10.0]])
      >>> print(scaled_dot(gnp.ones((1, 4)), gnp.ones((4, 1)), lhs_scale=scales))
      [[24]]
    """
    x, y = argument("scaled_dot", lhs, 0), argument("scaled_dot", rhs, 1)
    if dimension_numbers is None:
        if x.ndim < 2:
            raise TypeError(
                "scaled_dot does not support 0-rank and 1-rank operands without dimension_numbers, "
                f"got shape {x.shape}"
            )
        batch = tuple(range(x.ndim - 2))
        dimension_numbers = (((x.ndim - 1,), (x.ndim - 2,)), (batch, batch))
    (x_sums, y_sums), _ = dimension_numbers
    dtype: Any = ml_dtypes.bfloat16
    if preferred_element_type is not None:
        dtype = check_user_dtype(preferred_element_type, "lax.scaled_dot")
    if x.ndim != y.ndim:
        raise TypeError(
            f"scaled_dot: all arrays must have the same rank, got {x.ndim} for lhs and {y.ndim} "
            "for rhs"
        )
    x = _scaled("lhs", x, lhs_scale, x_sums)
    y = _scaled("rhs", y, rhs_scale, y_sums)
    return dot_general(x, y, dimension_numbers, preferred_element_type=dtype)


def _scaled(side: str, x: Array, scale: Any, sums: Sequence[int]) -> Array:
    """An operand times its scale, in bfloat16."""
    half = np.dtype(ml_dtypes.bfloat16)
    narrow = converted(x, half)
    if scale is None:
        return narrow
    factors = converted(argument("scaled_dot", scale), half)
    if factors.ndim != x.ndim:
        raise TypeError(
            f"scaled_dot: all arrays must have the same rank, got {x.ndim} for {side} and "
            f"{factors.ndim} for its scale"
        )
    blocks: list[int] = []
    for d, (size, count) in enumerate(zip(x.shape, factors.shape, strict=True)):
        is_whole = count and size % count == 0
        if d in sums and not (is_whole and size // count >= 2):
            raise TypeError(
                f"scaled_dot: the contracted dimension {d} of {side}, of size {size}, must be a "
                f"multiple, twice or more, of its scale's size, got {count}"
            )
        if d not in sums and size != count:
            raise TypeError(
                f"scaled_dot: dimension {d} of {side}, of size {size}, does not match that of its "
                f"scale, {count}"
            )
        blocks += [count, size // count if d in sums else 1]
    shape = tuple(blocks)
    repeated = broadcast_in_dim(factors, shape, tuple(range(0, len(shape), 2)))
    return mul(narrow, reshape(repeated, x.shape))


# ----------------------------------------------------------------------------------------- barriers


def optimization_barrier(operand: ArrayLike, /) -> Any:
    """Return the operand, and keep the compiler from optimizing across this point.

    The whole operand is computed before anything that uses the result. Operations before and after
    the barrier are not optimized together.

    Args:
      operand: a pytree of arrays.

    Example:
      >>> import gnomon as gn
      >>> gn.jit(lambda x: gn.lax.optimization_barrier(x) + 1)(2.0)
      Array(3., dtype=float32, weak_type=True)
    """
    leaves, tree = tree_util.tree_flatten(operand)
    if not leaves:
        return operand
    arrays = [as_operand(leaf) for leaf in leaves]
    found = bind(ops.optimization_barrier, *arrays)
    return tree_util.tree_unflatten(
        tree, [with_weak_type(f, a.aval.weak_type) for f, a in zip(found, arrays, strict=True)]
    )
