"""Reading by an index: ``x[index]`` and ``x.at[index].get()``.

Static parts of an index become slices, and gathers read only along the dimensions that arrays
index. A read out of bounds gives the nearest element; negative indices count from the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, wrap
from gnomon._diagnostics.errors import ShardingTypeError
from gnomon._diagnostics.source_location import user_frame
from gnomon._tracing.bind import as_operand, bind, with_weak_type
from gnomon._tracing.dimensions import number
from gnomon._tracing.stack import needs_bind
from gnomon.dialects.emit import ops
from gnomon.dialects.indexing import default_fill_value
from gnomon.dialects.symbolic.dimension import any_symbolic, exceeds, is_symbolic_dim, larger
from gnomon.lax import GatherScatterMode, convert_element_type, full
from gnomon.numpy._eager_indexing import eager_read, wrapped
from gnomon.numpy._index_parsing import BATCH, Entry, IntArray, Plan, Span, parse

__all__ = [
    "getitem",
    "in_bounds_integers",
    "index_rows",
    "normalized_index",
    "reshaped",
    "reversed_dims",
    "take_by_index",
]

_INT32 = np.dtype(np.int32)
_INT64 = np.dtype(np.int64)
_NUMPY_MODES = {
    GatherScatterMode.CLIP: "clip",
    GatherScatterMode.FILL_OR_DROP: "fill",
    GatherScatterMode.ONE_HOT: "fill",
}


def getitem(x: Array, index: Any) -> Array:
    """``x[index]``.

    Args:
      x: an array.
      index: integers, slices, ``...``, ``None``, arrays of integers, boolean masks whose value is
        known, and tuples of those, by NumPy's rules.

    Raises:
      IndexError, TypeError: see `parse`.
      IndexError: a dimension without elements is indexed.
    """
    if type(x) is ConcreteArray and not needs_bind():
        out = eager_read(x.numpy_value(), index)
        if out is not None:
            return wrap(out, x.weak_type)
    return take_by_index(x, index)


def take_by_index(
    x: Array,
    index: Any,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
    wrap_negative_indices: bool = True,
) -> Array:
    """``x.at[index].get(...)``, which documents the arguments."""
    plan = parse(index, x.shape)
    chosen = (
        GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    )
    fill = np.zeros((), x.dtype)
    if chosen is GatherScatterMode.FILL_OR_DROP:
        fill = _fill_value(fill_value, x.dtype)
    fills = _NUMPY_MODES.get(chosen) == "fill"
    weak = x.aval.weak_type
    integers = in_bounds_integers(plan, wrap_negative_indices, clamp=not fills)
    if 0 in plan.result_shape:
        return with_weak_type(full(plan.result_shape, 0, x.dtype), weak)
    if integers is None:
        return with_weak_type(full(plan.result_shape, fill, x.dtype), weak)

    x = _sliced(reshaped(x, plan.shape), plan, integers)
    dynamic = [d for d, e in enumerate(plan.entries) if not isinstance(e, (int, Span))]
    if dynamic:
        _require_elements(plan, dynamic)
        if plan.scalars and not fills:
            x = _dynamic_window(x, plan, dynamic, wrap_negative_indices)
        else:
            flags = (unique_indices or plan.scalars, indices_are_sorted or plan.scalars)
            x = _gathered(x, plan, dynamic, wrap_negative_indices, chosen, fill, flags)
    return with_weak_type(reshaped(x, plan.result_shape), weak)


def _fill_value(fill_value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if fill_value is None:
        return np.asarray(default_fill_value(dtype))
    if isinstance(fill_value, Array):
        fill_value = fill_value.numpy_value()
    if np.ndim(fill_value) != 0:
        raise ValueError(f"fill_value must be a scalar, got one of shape {np.shape(fill_value)}")
    with np.errstate(all="ignore"):
        return np.asarray(fill_value).astype(dtype)


def _require_elements(plan: Plan, dims: Sequence[int]) -> None:
    for dim in dims:
        if plan.shape[dim] == 0:
            raise IndexError(
                f"index is out of bounds for axis {dim} with size 0: there is no element to read"
            )


# ------------------------------------------------------------------------------------- static parts


def in_bounds_integers(plan: Plan, wrap_negative: bool, clamp: bool) -> dict[int, int] | None:
    """The static integers by dimension, counted from the start.

    Args:
      plan: the index.
      wrap_negative: negative ones count from the end.
      clamp: clamp integers to the bounds; otherwise the result is None if one is out of bounds.

    Raises:
      IndexError: a dimension without elements is indexed.
    """
    integers = {}
    for dim, entry in enumerate(plan.entries):
        if not isinstance(entry, int):
            continue
        size = plan.shape[dim]
        _require_elements(plan, (dim,))
        i = entry + size if wrap_negative and entry < 0 else entry
        if not 0 <= i < size:
            if not clamp:
                return None
            i = min(max(i, 0), size - 1)
        integers[dim] = i
    return integers


def _sliced(x: Array, plan: Plan, integers: dict[int, int]) -> Array:
    """Read the static slices and integers; an integer leaves a dimension of size one."""
    # Reverse before slicing: IREE 3.13 does not compile the reverse of a strided slice.
    x = reversed_dims(x, [d for d, e in enumerate(plan.entries) if _descends(e)])
    starts, limits, strides = [], [], []
    for dim, (entry, size) in enumerate(zip(plan.entries, plan.shape, strict=True)):
        if isinstance(entry, Span):
            start, step, count = entry
            if _descends(entry):
                start = size - 1 - start
            step = abs(step)
            starts.append(start)
            # An empty slice of a symbolic size must not end before it begins.
            end = start + (count - 1) * step + 1
            limits.append(larger(start, end) if is_symbolic_dim(count) else end)
            strides.append(step if is_symbolic_dim(count) or count > 1 else 1)
        else:
            starts.append(integers.get(dim, 0))
            limits.append(integers[dim] + 1 if dim in integers else size)
            strides.append(1)
    if all(s == 0 for s in starts) and tuple(limits) == plan.shape and all(s == 1 for s in strides):
        return x
    whole = [
        (start, limit, stride) == (0, size, 1)
        for start, limit, stride, size in zip(starts, limits, strides, plan.shape, strict=True)
    ]
    _check_unsplit(x, whole)
    return bind(ops.slice, x, start=tuple(starts), limit=tuple(limits), strides=tuple(strides))


def _check_unsplit(x: Array, whole: Sequence[bool]) -> None:
    """Raise if a dimension that is split in the type of the array is not read whole."""
    for d, (axes, is_whole) in enumerate(zip(x.aval.split, whole, strict=True)):
        if axes and not is_whole:
            file, line = user_frame()
            raise ShardingTypeError(
                f"an index of {x.aval}: dimension {d}, which is split over {' and '.join(axes)}, "
                "is not read whole. Say how the result is to be sharded: "
                f"x.at[...].get(out_sharding=) ({file}:{line})"
            )


def _descends(entry: Entry) -> bool:
    return (
        isinstance(entry, Span)
        and entry.step < 0
        and (is_symbolic_dim(entry.size) or entry.size > 1)
    )


def reversed_dims(x: Array, dims: Sequence[int]) -> Array:
    """Reverse the order of the elements along some dimensions."""
    return bind(ops.rev, x, dims=tuple(dims)) if dims else x


def reshaped(x: Array, shape: tuple[int, ...]) -> Array:
    """Reshape ``x``; return ``x`` itself if it has the shape."""
    return x if x.shape == shape else bind(ops.reshape, x, shape=shape)


# ------------------------------------------------------------------------------------ dynamic parts


def normalized_index(index: IntArray, size: int, wrap_negative: bool) -> IntArray:
    """An index array that counts from the start, as int32 (or int64 if needed).

    Indices out of bounds stay out of bounds: a conversion must not wrap them into the bounds.
    """
    wide = exceeds(size, np.iinfo(np.int32).max)
    if is_symbolic_dim(size) and isinstance(index, np.ndarray):
        index = as_operand(index)
    if isinstance(index, np.ndarray):
        known = wrapped(index, size) if wrap_negative else _signed(index, size)
        dtype = np.dtype(_INT64 if wide else _INT32)
        limits = np.iinfo(dtype)
        return np.clip(known, limits.min, limits.max).astype(dtype)
    unsigned = index.dtype.kind == "u" or index.dtype.name in ("uint2", "uint4")
    if unsigned and index.dtype.itemsize >= 4:
        largest = np.iinfo(_INT64 if wide else _INT32).max
        limit = np.asarray(min(largest, np.iinfo(index.dtype).max), index.dtype)
        index = bind(ops.min, index, _spread(limit, index.shape))
    elif index.dtype.itemsize > 4:
        wide = True
    index = convert_element_type(index, _INT64 if wide else _INT32)
    if unsigned or not wrap_negative:
        return index
    zero = _spread(np.zeros((), index.dtype), index.shape)
    from_end = bind(ops.add, index, _spread(number(size, index.dtype), index.shape))
    return bind(ops.select, bind(ops.lt, index, zero), from_end, index)


def _signed(index: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    return wrapped(index, size) if index.dtype.kind == "u" else index.astype(np.intp)


def _spread(value: Any, shape: tuple[int, ...]) -> Any:
    if any_symbolic(shape) or isinstance(value, Array):
        return bind(ops.broadcast_in_dim, as_operand(value), shape=shape, dims=())
    return np.broadcast_to(value, shape)


def _dynamic_window(x: Array, plan: Plan, dims: Sequence[int], wrap_negative: bool) -> Array:
    """Read one slice at traced scalars, whose position is clamped to the bounds."""
    indices: dict[int, IntArray] = {}
    for dim in dims:
        entry = plan.entries[dim]
        assert not isinstance(entry, (int, Span))
        indices[dim] = normalized_index(entry, plan.shape[dim], wrap_negative)
    dtype = _INT64 if any(i.dtype == _INT64 for i in indices.values()) else _INT32
    zero = np.zeros((), dtype)
    starts = [
        convert_element_type(indices[d], dtype) if d in indices else zero for d in range(x.ndim)
    ]
    sizes = tuple(1 if d in indices else n for d, n in enumerate(x.shape))
    return bind(ops.dynamic_slice, x, *starts, sizes=sizes)


def index_rows(
    components: Sequence[tuple[IntArray, tuple[int, ...]]], shape: tuple[int, ...]
) -> IntArray:
    """Combine index arrays into the rows of a gather or scatter.

    Args:
      components: the index arrays, each with the dimensions of ``shape`` that it runs along.
      shape: the shape of the rows, without the last dimension.
    """
    dtype = _INT64 if any(c.dtype == _INT64 for c, _ in components) else _INT32
    if all(isinstance(c, np.ndarray) for c, _ in components):
        rows = np.empty((*shape, len(components)), dtype)
        for i, (component, dims) in enumerate(components):
            expanded = [1] * len(shape)
            for dim, size in zip(dims, component.shape, strict=True):
                expanded[dim] = size
            rows[..., i] = np.reshape(component, expanded)
        return rows
    columns = []
    for component, dims in components:
        column = convert_element_type(component, dtype)
        if column.shape != shape:
            column = bind(ops.broadcast_in_dim, column, shape=shape, dims=dims)
        columns.append(reshaped(column, (*shape, 1)))
    if len(columns) == 1:
        return columns[0]
    return bind(ops.concatenate, *columns, dimension=len(shape))


def _gathered(
    x: Array,
    plan: Plan,
    dims: Sequence[int],
    wrap_negative: bool,
    mode: GatherScatterMode,
    fill: np.ndarray[Any, Any],
    flags: tuple[bool, bool],
) -> Array:
    """Read at index arrays; other dimensions of ``x`` are whole, or of size one at integers."""
    kept = [d for d, e in enumerate(plan.entries) if not isinstance(e, int)]
    x = reshaped(x, tuple(x.shape[d] for d in kept))
    batch = plan.batch_shape
    components = []
    for dim in dims:
        entry = plan.entries[dim]
        assert not isinstance(entry, (int, Span))
        index = normalized_index(entry, plan.shape[dim], wrap_negative)
        components.append((index, tuple(range(len(batch) - index.ndim, len(batch)))))
    rows = index_rows(components, batch)
    indexed = tuple(kept.index(d) for d in dims)
    in_batch = set(plan.positions(BATCH)) if BATCH in plan.layout else set()
    return bind(
        ops.gather,
        x,
        rows,
        offset_dims=tuple(d for d in range(len(plan.core_shape)) if d not in in_batch),
        collapsed_slice_dims=indexed,
        start_index_map=indexed,
        operand_batching_dims=(),
        start_indices_batching_dims=(),
        slice_sizes=tuple(1 if d in indexed else n for d, n in enumerate(x.shape)),
        mode=_NUMPY_MODES.get(mode, "promise_in_bounds"),
        fill_value=fill,
        unique_indices=flags[0],
        indices_are_sorted=flags[1],
    )
