"""Products of rows with the matrix of their group, and barriers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._array import Array
from gnomon._dtypes import check_user_dtype
from gnomon._tracing import as_operand, bind
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_integer
from gnomon.lax._contraction import PrecisionLike, dot_general
from gnomon.lax._creation import converted, full_like, iota
from gnomon.lax._elementwise import bitwise_and, ge, lt, select
from gnomon.lax._operands import argument, with_weak_type
from gnomon.lax._reductions import cumsum
from gnomon.lax._structural import broadcast_in_dim


def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
) -> Array:
    """Products of rows with one of several matrices: the first rows with the first, and so on.

    Args:
      lhs: an array of shape ``(m, k)``: the rows.
      rhs: an array of shape ``(g, k, n)``: a matrix for each group.
      group_sizes: integers of shape ``(g,)``: how many rows belong to each group.
      precision, preferred_element_type: see `dot_general`.
      group_offset: must be None.
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
    if group_offset is not None:
        raise NotImplementedError("ragged_dot: group_offset is not supported")
    x, y = argument("ragged_dot", lhs, 0), argument("ragged_dot", rhs, 1)
    sizes = argument("ragged_dot", group_sizes, 2)
    if x.ndim != 2 or y.ndim != 3 or x.shape[1] != y.shape[1]:
        raise TypeError(
            "ragged_dot takes lhs of shape (m, k) and rhs of shape (g, k, n), got "
            f"{x.shape} and {y.shape}"
        )
    if not is_integer(sizes.dtype):
        raise TypeError(f"ragged_dot: group_sizes must be integers, got {sizes.dtype.name}")
    if sizes.shape != y.shape[:1]:
        raise TypeError(
            f"ragged_dot: group_sizes must hold one size for each of the {y.shape[0]} groups, got "
            f"shape {sizes.shape}"
        )
    preferred = None
    if preferred_element_type is not None:
        preferred = check_user_dtype(preferred_element_type, "lax.ragged_dot")
    shape = (y.shape[0], *x.shape)
    sizes = converted(sizes, np.dtype(np.int32))
    ends = cumsum(sizes)
    starts = bind(ops.sub, ends, sizes)
    # A copy of the rows for each group, those of the others zero; then one contraction.
    row = broadcast_in_dim(iota(np.int32, x.shape[0]), shape, (1,))
    mine = bitwise_and(
        ge(row, broadcast_in_dim(starts, shape, (0,))), lt(row, broadcast_in_dim(ends, shape, (0,)))
    )
    rows = broadcast_in_dim(x, shape, (1, 2))
    rows = select(mine, rows, full_like(rows, 0))
    return dot_general(rows, y, (((0, 2), (0, 1)), ((), ())), precision, preferred)


def optimization_barrier(operand: Any, /) -> Any:
    """The argument, which the compiler may not look through.

    All of it is computed before anything that uses the result, and not optimized together with it.

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
