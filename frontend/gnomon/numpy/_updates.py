"""An array with the elements at an index replaced, or combined with new values.

A write out of bounds is dropped. An update at a static and contiguous index replaces a slice; all
others are one scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays import host_values
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, wrap
from gnomon._diagnostics.errors import warn_user
from gnomon._tracing.bind import bind, with_weak_type
from gnomon._tracing.dimensions import number
from gnomon._tracing.stack import needs_bind
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.dialects.types import NUMERIC
from gnomon.lax import GatherScatterMode, broadcast_shapes, convert_element_type
from gnomon.numpy._eager_indexing import eager_update
from gnomon.numpy._index_parsing import BATCH, Entry, IntArray, Plan, Span, as_array, parse
from gnomon.numpy._indexing import (
    in_bounds_integers,
    index_rows,
    normalized_index,
    reshaped,
    reversed_dims,
)

__all__ = ["Mode", "update_by_index", "update_values"]

Mode = str | GatherScatterMode | None

_COMBINE: dict[str, Any] = {
    "scatter": None,
    "scatter_add": "add",
    "scatter_sub": "sub",
    "scatter_mul": "mul",
    "scatter_min": "min",
    "scatter_max": "max",
}


def update_values(values: Any, dtype: np.dtype[Any]) -> Array:
    """Convert the values of an update to an array, Python ints to ``dtype`` if they fit."""
    values = _dtypes.exact_python_scalar(values)
    if type(values) is int and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if limits.min <= values <= limits.max:
            return wrap(np.asarray(values, dtype))
    if isinstance(values, (list, tuple)):
        values = as_array(values)
    return host_values.to_array(values)


def update_by_index(
    name: str,
    x: Array,
    index: Any,
    values: Any,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
    wrap_negative_indices: bool = True,
) -> Array:
    """A new array with some elements replaced, or combined with new values.

    Args:
      name: ``"scatter"`` replaces, ``"scatter_add"``, ``..._sub``, ``..._mul``, ``..._min``,
        ``..._max`` combine.
      x: the array.
      index: see `getitem`.
      values: an array or scalar that broadcasts to the shape of ``x[index]``. It is converted to
        the dtype of ``x``, with a warning if the conversion is lossy.

    For all other arguments see `IndexUpdateHelper`.

    Raises:
      IndexError, TypeError: see `getitem`.
      ValueError: ``values`` does not broadcast to the shape.
    """
    if type(x) is ConcreteArray and mode is None and wrap_negative_indices and not needs_bind():
        out = eager_update(name, _COMBINE[name], x.numpy_value(), index, values)
        if out is not None:
            return wrap(out, x.weak_type)
    new = update_values(values, x.dtype)
    dtype = _common_dtype(name, x, new)
    plan = parse(index, x.shape)
    chosen = GatherScatterMode.from_any(mode)
    clips = chosen is GatherScatterMode.CLIP
    integers = in_bounds_integers(plan, wrap_negative_indices, clamp=clips)
    new = _broadcast(new, plan)
    if integers is None or 0 in plan.core_shape:
        return x
    for dim, entry in enumerate(plan.entries):
        if not isinstance(entry, (int, Span)) and plan.shape[dim] == 0:
            return x  # Every write is out of bounds.

    operand = reshaped(convert_element_type(x, dtype), plan.shape)
    new = convert_element_type(new, dtype)
    descending = [
        plan.positions(d)[0]
        for d, e in enumerate(plan.entries)
        if isinstance(e, Span) and e.step < 0 and (is_symbolic_dim(e.size) or e.size > 1)
    ]
    new = reversed_dims(new, descending)
    if all(
        isinstance(e, int) or (isinstance(e, Span) and (abs(e.step) == 1 or e.size == 1))
        for e in plan.entries
    ):
        result = _replaced(name, operand, plan, integers, new)
    else:
        result = _scattered(
            name,
            operand,
            plan,
            integers,
            new,
            wrap_negative=wrap_negative_indices,
            mode="clip" if clips else "drop",
            unique_indices=unique_indices or plan.scalars,
            indices_are_sorted=indices_are_sorted or plan.scalars,
        )
    result = convert_element_type(reshaped(result, x.shape), x.dtype)
    return with_weak_type(result, x.aval.weak_type)


def _common_dtype(name: str, x: Array, new: Array) -> np.dtype[Any]:
    operands = ((x.dtype, x.aval.weak_type), (new.dtype, new.aval.weak_type))
    dtype, _ = _dtypes.promote(operands)
    fits, _ = _dtypes.promote(((x.dtype, False), operands[1]))
    if fits != x.dtype:
        warn_user(
            f"values of dtype {new.dtype} do not fit into the array of dtype {x.dtype} that is "
            "updated, and are converted: convert one of them explicitly, by astype",
            FutureWarning,
        )
    if name in ("scatter_add", "scatter_sub", "scatter_mul") and dtype not in NUMERIC:
        raise TypeError(
            f"x.at[index].{_COMBINE[name]} takes arrays of numbers, got {dtype}: use max for "
            "logical or, min for logical and, or convert by astype"
        )
    return dtype


def _broadcast(new: Array, plan: Plan) -> Array:
    """Broadcast values to the shape of the updated part, without new dimensions."""
    shape = plan.result_shape
    try:
        fits = len(new.shape) <= len(shape) and broadcast_shapes(new.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"values of shape {new.shape} do not broadcast to shape {shape}, that of the part of "
            "the array that is updated"
        )
    if new.shape != shape:
        dims = tuple(range(len(shape) - new.ndim, len(shape)))
        new = bind(ops.broadcast_in_dim, new, shape=shape, dims=dims)
    return reshaped(new, plan.core_shape)


def _start(entry: Entry) -> int:
    assert isinstance(entry, Span)
    return entry.ascending.start


def _replaced(name: str, x: Array, plan: Plan, integers: dict[int, int], new: Array) -> Array:
    """Replace one contiguous part at a static position."""
    starts = [integers[d] if d in integers else _start(e) for d, e in enumerate(plan.entries)]
    sizes = [e.size if isinstance(e, Span) else 1 for e in plan.entries]
    new = reshaped(new, tuple(sizes))
    whole = tuple(sizes) == x.shape
    combine = _COMBINE[name]
    if combine is not None:
        limits = tuple(a + n for a, n in zip(starts, sizes, strict=True))
        strides = (1,) * x.ndim
        old = x if whole else bind(ops.slice, x, start=tuple(starts), limit=limits, strides=strides)
        new = bind(getattr(ops, combine), old, new)
    if whole:
        return new
    wide = any(not is_symbolic_dim(i) and i >= 2**31 for i in starts)
    dtype = np.dtype(np.int64 if wide else np.int32)
    return bind(ops.dynamic_update_slice, x, new, *(number(i, dtype) for i in starts))


def _scattered(
    name: str,
    x: Array,
    plan: Plan,
    integers: dict[int, int],
    new: Array,
    *,
    wrap_negative: bool,
    **flags: Any,
) -> Array:
    """Scatter values: whole and contiguous dimensions are windows, all others are indexed."""
    if name == "scatter_sub":
        name, new = "scatter_add", bind(ops.neg, new)
    # The rows have those dimensions of the values that are not windows, in the same order.
    window_dims = [
        d
        for d, e in enumerate(plan.entries)
        if isinstance(e, Span) and (abs(e.step) == 1 or e.size == 1)
    ]
    window_positions = [plan.positions(d)[0] for d in window_dims]
    row_positions = [p for p in range(new.ndim) if p not in window_positions]
    row_shape = tuple(new.shape[p] for p in row_positions)
    components: list[tuple[IntArray, tuple[int, ...]]] = []
    indexed: list[int] = []
    for dim, entry in enumerate(plan.entries):
        dims: tuple[int, ...] = ()
        index: IntArray
        if dim in integers:
            index = _index_constant(integers[dim])
        elif isinstance(entry, Span):
            start, step, size = entry.ascending
            if dim in window_dims:
                if size == plan.shape[dim]:
                    continue
                index = _index_constant(start)
            else:
                index = _index_constant(np.arange(start, start + size * step, step))
                dims = (row_positions.index(plan.positions(dim)[0]),)
        else:
            assert not isinstance(entry, int)
            index = normalized_index(entry, plan.shape[dim], wrap_negative)
            if index.ndim:
                positions = [row_positions.index(p) for p in plan.positions(BATCH)]
                dims = tuple(positions[len(positions) - index.ndim :])
        components.append((index, dims))
        indexed.append(dim)
    ordered = _in_position_order(window_dims, window_positions)
    return bind(
        getattr(ops, name),
        x,
        index_rows(components, row_shape),
        new,
        update_window_dims=ordered,
        inserted_window_dims=tuple(d for d in range(x.ndim) if d not in window_dims),
        scatter_dims_to_operand_dims=tuple(indexed),
        operand_batching_dims=(),
        scatter_indices_batching_dims=(),
        **flags,
    )


def _index_constant(value: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(value)
    fits = array.size == 0 or int(array.max()) < 2**31
    return array.astype(np.int32 if fits else np.int64)


def _in_position_order(dims: Sequence[int], positions: Sequence[int]) -> tuple[int, ...]:
    # The layout keeps the order of the array's dimensions, so windows are in order already.
    assert list(positions) == sorted(positions) and list(dims) == sorted(dims)
    return tuple(positions)
