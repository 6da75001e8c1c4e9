"""Gather and scatter, with XLA's dimension numbers."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._examples import example_section
from gnomon._tracing.bind import bind, with_weak_type
from gnomon.dialects.contract import Op, TypeRuleError
from gnomon.dialects.emit import ops
from gnomon.dialects.indexing import default_fill_value
from gnomon.lax._creation import converted, full_like
from gnomon.lax._operands import (
    ANY_DTYPE,
    INTEGERS,
    NUMBER,
    Dtypes,
    accept,
    argument,
    same_dtype,
    widened,
)
from gnomon.lax._structural import concatenate, expand_dims, ints


class GatherDimensionNumbers(NamedTuple):
    """The roles of the dimensions of a `gather`.

    Attributes:
      offset_dims: dimensions of the result that run along a window; increasing.
      collapsed_slice_dims: dimensions of the operand, of window size one, that are left out of the
        result; increasing.
      start_index_map: the dimension of the operand for each component of an index row.
      operand_batching_dims: batch dimensions of the operand.
      start_indices_batching_dims: the batch dimensions of the indices, in the same order.

    The last dimension of the indices holds the index rows.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """The roles of the dimensions of a scatter.

    Attributes:
      update_window_dims: dimensions of the updates that run along a window; increasing.
      inserted_window_dims: dimensions of the operand, of window size one, that the updates lack.
      scatter_dims_to_operand_dims: the dimension of the operand for each component of an index row.
      operand_batching_dims: batch dimensions of the operand.
      scatter_indices_batching_dims: the batch dimensions of the indices, in the same order.

    The last dimension of the indices holds the index rows.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


class GatherScatterMode(enum.Enum):
    """The treatment of windows that are out of bounds, wholly or in part.

    Attributes:
      CLIP: the windows are moved inside.
      FILL_OR_DROP: a gather gives the fill value, a scatter writes nothing.
      PROMISE_IN_BOUNDS: the caller promises that all windows are in bounds; otherwise the
        result is undefined.
      ONE_HOT: a gather gives zeros, as products with one-hot vectors do, a scatter writes nothing.
    """

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode with a given name, or the given mode; None means `FILL_OR_DROP`.

        The names are ``"clip"``, ``"fill"`` or ``"drop"``, ``"promise_in_bounds"`` and
        ``"one_hot"``.

        Raises:
          ValueError: there is no such mode.
        """
        if isinstance(mode, GatherScatterMode):
            return mode
        if mode is None:
            return GatherScatterMode.FILL_OR_DROP
        found = _MODES.get(mode)
        if found is None:
            raise ValueError(
                f"unknown mode of gather or scatter: {mode!r}; it must be one of "
                f"{', '.join(map(repr, _MODES))}"
            )
        return found


_MODES = {
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}
_GATHER_MODES = {
    GatherScatterMode.CLIP: "clip",
    GatherScatterMode.FILL_OR_DROP: "fill",
    GatherScatterMode.PROMISE_IN_BOUNDS: "promise_in_bounds",
    GatherScatterMode.ONE_HOT: "fill",
}
_SCATTER_MODES = {
    **_GATHER_MODES,
    GatherScatterMode.FILL_OR_DROP: "drop",
    GatherScatterMode.ONE_HOT: "drop",
}


def _checked(function: str, op: Op, arrays: Sequence[Array], params: dict[str, Any]) -> Array:
    """Apply an op after checking its operands by its type rule, which gives better errors."""
    try:
        op.infer_types([x.aval.type for x in arrays], params)
    except TypeRuleError as error:
        raise TypeError(f"lax.{function}: {error}") from None
    return bind(op, *arrays, **params)


def _index_rows(function: str, indices: Any) -> Array:
    rows = argument(function, indices)
    if rows.dtype not in INTEGERS:
        raise ValueError(f"lax.{function}: indices must be integers, got {rows.aval}")
    return rows


def _modulo(index: Array, size: Any) -> Array:
    """Integers modulo a size, from 0 on."""
    if isinstance(size, int):
        size = max(size, 1)  # Nothing can be divided by zero; no index of an empty axis is read.
    divisor = full_like(index, size)
    rest = bind(ops.rem, index, divisor)
    if index.dtype.kind == "u":
        return rest
    is_negative = bind(ops.lt, rest, full_like(index, 0))
    return bind(ops.select, is_negative, bind(ops.add, rest, divisor), rest)


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Gather windows of an array at computed positions.

    Args:
      operand: an array.
      start_indices: integers; the last dimension holds the index rows.
      dimension_numbers: see `GatherDimensionNumbers`.
      slice_sizes: the window's size in each dimension of the operand.
      unique_indices, indices_are_sorted: promises that a backend may use.
      mode: see `GatherScatterMode`; None means ``"clip"``.
      fill_value: the value of elements out of bounds in the mode ``"fill"``; by default nan, or for
        integers the smallest one (for unsigned integers the largest one).
    Raises:
      TypeError: dimension numbers do not fit the shapes.
      ValueError: indices are not integers, or the mode is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
      >>> x = gnp.array([[1, 2], [3, 4], [5, 6]])
      >>> lax.gather(x, gnp.array([[2], [0]]), numbers, slice_sizes=(1, 2))
      Array([[5, 6],
             [1, 2]], dtype=int32)

    See also:
      `gnomon.numpy.take`, and indexing with ``x[...]``
    """
    x, rows = argument("gather", operand), _index_rows("gather", start_indices)
    chosen = GatherScatterMode.CLIP if mode is None else GatherScatterMode.from_any(mode)
    fill: Any = np.zeros((), x.dtype)
    if chosen is GatherScatterMode.FILL_OR_DROP:
        fill = default_fill_value(x.dtype) if fill_value is None else _fill(fill_value, x)
    numbers = GatherDimensionNumbers(*dimension_numbers)
    params: dict[str, Any] = {
        name: ints("gather", name, dims)
        for name, dims in zip(numbers._fields, numbers, strict=True)
    }
    params |= {
        "slice_sizes": ints("gather", "slice_sizes", slice_sizes),
        "mode": _GATHER_MODES[chosen],
        "fill_value": fill,
        "unique_indices": bool(unique_indices),
        "indices_are_sorted": bool(indices_are_sorted),
    }
    result = _checked("gather", ops.gather, (x, rows), params)
    return with_weak_type(result, x.aval.weak_type)


def _fill(fill_value: Any, x: Array) -> np.ndarray[Any, Any]:
    value = converted(fill_value, x.dtype)
    if value.ndim:
        raise ValueError(f"lax.gather: fill_value must be a scalar, got shape {value.shape}")
    return np.asarray(value)


class _Scatter(Protocol):
    def __call__(
        self,
        operand: ArrayLike,
        scatter_indices: ArrayLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Array: ...


def _scatter(name: str, dtypes: Dtypes, summary: str) -> _Scatter:
    def function(
        operand: ArrayLike,
        scatter_indices: ArrayLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Array:
        x, rows = argument(name, operand, 0), _index_rows(name, scatter_indices)
        new = argument(name, updates, 2)
        accept(name, x, dtypes, 0)
        same_dtype(name, (x, new))
        numbers = ScatterDimensionNumbers(*dimension_numbers)
        params: dict[str, Any] = {
            field: ints(name, field, dims)
            for field, dims in zip(numbers._fields, numbers, strict=True)
        }
        params |= {
            "mode": _SCATTER_MODES[GatherScatterMode.from_any(mode)],
            "unique_indices": bool(unique_indices),
            "indices_are_sorted": bool(indices_are_sorted),
        }
        result = _checked(name, getattr(ops, name), (x, rows, new), params)
        return with_weak_type(result, x.aval.weak_type)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

    Args:
      operand: an array.
      scatter_indices: integers; the last dimension holds the index rows.
      updates: the windows, of the operand's dtype.
      dimension_numbers: see `ScatterDimensionNumbers`.
      indices_are_sorted, unique_indices: promises that a backend may use.
      mode: see `GatherScatterMode`; None means ``"drop"``.
    Raises:
      TypeError: dtypes differ, or dimension numbers do not fit the shapes.
      ValueError: indices are not integers, or unknown mode.
    """ + example_section("lax", name)
    return function


scatter = _scatter(
    "scatter",
    ANY_DTYPE,
    "Write windows into an array at computed places, in undefined order.",
)
scatter_add = _scatter(
    "scatter_add", NUMBER, "Add windows to an array at computed places; overlaps add up."
)
scatter_mul = _scatter(
    "scatter_mul", NUMBER, "Multiply an array by windows at computed places; overlaps multiply."
)
scatter_min = _scatter(
    "scatter_min", ANY_DTYPE, "Take the minimum of an array and windows at computed places."
)
scatter_max = _scatter(
    "scatter_max", ANY_DTYPE, "Take the maximum of an array and windows at computed places."
)


def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Subtract windows from an array at computed positions; overlaps add up.

    Args:
      operand: an array.
      scatter_indices: integers; the last dimension holds the index rows.
      updates: the windows, of the operand's dtype.
      dimension_numbers: see `ScatterDimensionNumbers`.
      indices_are_sorted, unique_indices: promises that a backend may use.
      mode: see `GatherScatterMode`; None means ``"drop"``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
      >>> lax.scatter_sub(gnp.zeros(3), gnp.array([[1], [1]]), gnp.array([7.0, 8.0]), numbers)
      Array([  0., -15.,   0.], dtype=float32)

    See also:
      `scatter_add`
    """
    new = argument("scatter_sub", updates, 2)
    accept("scatter_sub", new, NUMBER, 2)
    return scatter_add(
        operand,
        scatter_indices,
        bind(ops.neg, new),
        dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )


def index_take(src: ArrayLike, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """Gather slices of size one at rows of indices.

    Args:
      src: an array.
      idxs: one 1-d integer array for each axis, all of one length n. Indices are taken modulo the
        size of the axis, so negative ones count from the end.
      axes: the dimensions that ``idxs`` index.
    Returns:
      An array of shape (n, remaining dimensions).

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> x = gnp.array([[1, 2, 3], [4, 5, 6]])
      >>> lax.index_take(x, (gnp.array([1, 0]), gnp.array([2, 0])), axes=(0, 1))
      Array([6, 1], dtype=int32)

    See also:
      `gnomon.numpy.take`
    """
    x = argument("index_take", src)
    dims = ints("index_take", "axes", axes)
    bounds = [x.shape[d] for d in dims]
    columns = [
        _modulo(widened(_index_rows("index_take", i), *bounds), n)
        for i, n in zip(idxs, bounds, strict=True)
    ]
    rows = concatenate([expand_dims(c, (1,)) for c in columns], 1)
    sizes = tuple(1 if d in dims else n for d, n in enumerate(x.shape))
    return gather(
        x,
        rows,
        GatherDimensionNumbers(
            offset_dims=tuple(range(1, x.ndim - len(dims) + 1)),
            collapsed_slice_dims=tuple(sorted(dims)),
            start_index_map=dims,
        ),
        sizes,
    )
