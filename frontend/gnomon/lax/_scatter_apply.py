"""`scatter_apply`: a function applied to elements at computed positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon._arrays.annotations import ArrayLike, ShapeLike
from gnomon._arrays.array import Array
from gnomon._arrays.aval import shaped_array
from gnomon._tracing.bind import bind
from gnomon._tracing.function import trace_function
from gnomon._transformations.vmap import vmap
from gnomon.dialects.emit import ops
from gnomon.lax._creation import converted, full
from gnomon.lax._elementwise import gt
from gnomon.lax._indexing import GatherScatterMode, ScatterDimensionNumbers, scatter_add
from gnomon.lax._loops import fori_loop
from gnomon.lax._operands import argument, as_shape, broadcast
from gnomon.lax._selection import select
from gnomon.lax._structural import reshape


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: ShapeLike = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Apply a function to each element once for each window that covers it.

    Args:
      operand: an array.
      scatter_indices: integers; the last dimension holds the index rows.
      func: takes and returns a scalar of the operand's dtype.
      dimension_numbers: see `ScatterDimensionNumbers`.
      update_shape: the shape that updates would have, which determines the size of the windows.
      indices_are_sorted, unique_indices: promises that a backend may use.
      mode: see `GatherScatterMode`; None means ``"drop"``.
    Returns:
      An array like ``operand``. It is differentiable if ``unique_indices`` is true; otherwise the
      function is applied in a loop, which supports only forward mode.
    Raises:
      TypeError: dimension numbers do not fit, or ``func`` does not return such a scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
      >>> rows = gnp.array([[0], [2], [2]])
      >>> double = lambda x: 2.0 * x
      >>> scatter_apply(gnp.ones(3), rows, double, numbers, update_shape=(3,))
      Array([2., 1., 4.], dtype=float32)
    """
    x = argument("scatter_apply", operand)
    size = as_shape("lax.scatter_apply", update_shape)
    count = scatter_add(
        full(x.shape, 0, np.int32),
        scatter_indices,
        full(size, 1, np.int32),
        dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )
    _check_function(func, x)
    if not x.size or not math.prod(size):
        return x

    def apply(x: Array, times: Any) -> Array:
        flat = reshape(x, (x.size,))
        applied = vmap(lambda element: converted(func(element), x.dtype))(flat)
        return select(gt(count, times), reshape(applied, x.shape), x)

    if unique_indices:
        return apply(x, np.int32(0))
    most = bind(ops.reduce_max, count, axes=tuple(range(count.ndim)))
    result: Array = fori_loop(
        np.int32(0),
        most,
        lambda i, x: apply(x, broadcast(converted(i, count.dtype), count.shape)),
        x,
    )
    return result


def _check_function(func: Callable[[Any], Any], x: Array) -> None:
    aval = shaped_array((), x.dtype)
    traced = trace_function(
        lambda given: (func(*given), None), func, "scatter_apply", [aval], staging=True
    )
    result = traced.avals[0] if len(traced.avals) == 1 else None
    weak = result is not None and result.weak_type and result.shape == ()
    if result is None or not (weak or (result.shape, result.dtype) == ((), x.dtype)):
        results = ", ".join(map(str, traced.avals))
        raise TypeError(
            f"lax.scatter_apply: func must return a scalar {aval}, it returns {results}"
        )


__all__ = ["scatter_apply"]
