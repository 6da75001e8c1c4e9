"""Updates by an index, which return a new array: ``x.at[index].set(values)`` and so on.

A write out of bounds is dropped. An update at a static and contiguous index replaces a slice; all
others are one scatter.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from gnomon._api.explicit_axes import with_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays import host_values
from gnomon._arrays.annotations import ArrayLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, wrap
from gnomon._diagnostics.errors import warn_user
from gnomon._tracing.bind import bind, with_weak_type
from gnomon._tracing.dimensions import number
from gnomon._tracing.explicit import automatic
from gnomon._tracing.stack import staging
from gnomon._tracing.trace import concrete_value
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.dialects.types import BOOL, NUMERIC
from gnomon.lax import GatherScatterMode, broadcast_shapes, convert_element_type, full
from gnomon.lax._loops import while_loop
from gnomon.numpy._eager_indexing import eager_update
from gnomon.numpy._index_parsing import BATCH, Entry, IntArray, Plan, Span, as_array, parse
from gnomon.numpy._indexing import (
    in_bounds_integers,
    index_rows,
    normalized_index,
    reshaped,
    reversed_dims,
    take_by_index,
)

__all__ = ["IndexUpdateHelper", "IndexUpdateRef", "update_by_index"]

Mode = str | GatherScatterMode | None
_ALL = slice(None)
_Update = TypeVar("_Update", bound=Callable[..., Array])


class IndexUpdateHelper:
    """``x.at``: updates of an array by index, each of which returns a new array.

    ================================  ===========================
    ``x.at[i].set(y)``                 ``x[i] = y``
    ``x.at[i].add(y)``                 ``x[i] += y``
    ``x.at[i].subtract(y)``            ``x[i] -= y``
    ``x.at[i].multiply(y)``            ``x[i] *= y``
    ``x.at[i].divide(y)``              ``x[i] /= y``
    ``x.at[i].power(y)``               ``x[i] **= y``
    ``x.at[i].min(y)``, ``max(y)``     the smaller, the larger one
    ``x.at[i].apply(f)``               ``x[i] = f(x[i])``
    ``x.at[i].get()``                  ``x[i]``
    ================================  ===========================

    If several indices name the same element, all updates are applied; but `set` applies only one.
    Keyword arguments of all methods:

    Args:
      mode: the treatment of indices out of bounds. ``"drop"`` (or ``"fill"``) drops writes and
        reads ``fill_value``. ``"clip"`` clamps the index. ``"promise_in_bounds"`` is a promise that
        there are none. None drops writes and clamps reads.
      indices_are_sorted, unique_indices: promises that a backend may use.
      wrap_negative_indices: whether negative indices count from the end; otherwise they are out of
        bounds.
      out_sharding: the sharding of the result, or a spec of the mesh that is set.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.zeros(4).at[1:3].add(5)
      Array([0., 5., 5., 0.], dtype=float32)
    """

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdateRef:
        return IndexUpdateRef(self.array, index)

    def __call__(self, *args: Any) -> Any:
        raise TypeError("x.at is indexed, not called: write x.at[index].set(values)")

    def __repr__(self) -> str:
        return f"IndexUpdateHelper({self.array!r})"


def _automatic(index: Any) -> Any:
    """An index or values, with arrays whose types have no explicit axes."""
    if isinstance(index, tuple):
        return tuple(map(_automatic, index))
    return automatic(index) if isinstance(index, Array) else index


def _placed(update: _Update) -> _Update:
    """Add the parameter ``out_sharding``, the sharding of the result, to a method."""

    @functools.wraps(update)
    def method(self: IndexUpdateRef, new: Any, *, out_sharding: Any = None, **kwargs: Any) -> Array:
        if out_sharding is None:
            return update(self, new, **kwargs)

        def compute(array: Array) -> Array:
            return update(IndexUpdateRef(array, _automatic(self.index)), _automatic(new), **kwargs)

        placed: Array = with_out_sharding(
            f"at[].{update.__name__}", out_sharding, compute, self.array
        )
        return placed

    return cast("_Update", method)


class IndexUpdateRef:
    """``x.at[index]``: see `IndexUpdateHelper`."""

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
        fill_value: Any = None,
        wrap_negative_indices: bool = True,
        out_sharding: OutSharding | None = None,
    ) -> Array:
        """``x[index]``, with a choice of the treatment of indices out of bounds.

        Args:
          fill_value: the value of elements out of bounds with ``mode="fill"``; by default nan, the
            smallest integer (the largest if unsigned), or True. For all other arguments see
            `IndexUpdateHelper`.
        """

        def compute(array: Array) -> Array:
            return take_by_index(
                array,
                self.index if out_sharding is None else _automatic(self.index),
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                fill_value=fill_value,
                wrap_negative_indices=wrap_negative_indices,
            )

        return with_out_sharding("at[].get", out_sharding, compute, self.array)

    @_placed
    def set(self, values: ArrayLike, **kwargs: Any) -> Array:
        """``x[index] = values`` as a new array; for keyword arguments see `IndexUpdateHelper`."""
        return update_by_index("scatter", self.array, self.index, values, **kwargs)

    @_placed
    def add(self, values: ArrayLike, **kwargs: Any) -> Array:
        """``x[index] += values`` as a new array; repeated indices add up."""
        return update_by_index("scatter_add", self.array, self.index, values, **kwargs)

    @_placed
    def subtract(self, values: ArrayLike, **kwargs: Any) -> Array:
        """``x[index] -= values`` as a new array; repeated indices add up."""
        return update_by_index("scatter_sub", self.array, self.index, values, **kwargs)

    @_placed
    def multiply(self, values: ArrayLike, **kwargs: Any) -> Array:
        """``x[index] *= values`` as a new array; repeated indices multiply."""
        return update_by_index("scatter_mul", self.array, self.index, values, **kwargs)

    mul = multiply

    @_placed
    def divide(self, values: ArrayLike, **kwargs: Any) -> Array:
        """``x[index] /= values`` as a new array; integers become floating."""
        quotient = operator.truediv(self.array, self._factors(values, kwargs))
        return self._of_own_dtype(quotient, _dtypes.to_inexact_dtype(self.array.dtype))

    @_placed
    def power(self, values: ArrayLike, **kwargs: Any) -> Array:
        """``x[index] **= values`` as a new array; bools become integers."""
        own = self.array.dtype
        power = operator.pow(self.array, self._factors(values, kwargs))
        return self._of_own_dtype(power, _dtypes.default_int_dtype() if own == BOOL else own)

    @_placed
    def min(self, values: ArrayLike, **kwargs: Any) -> Array:
        """``x[index] = minimum(x[index], values)`` as a new array."""
        return update_by_index("scatter_min", self.array, self.index, values, **kwargs)

    @_placed
    def max(self, values: ArrayLike, **kwargs: Any) -> Array:
        """``x[index] = maximum(x[index], values)`` as a new array."""
        return update_by_index("scatter_max", self.array, self.index, values, **kwargs)

    @_placed
    def apply(self, func: Callable[[Array], Any], **kwargs: Any) -> Array:
        """``x[index] = func(x[index])`` as a new array; applied repeatedly at repeated indices.

        Args:
          func: an elementwise function of one array, whose result has the array's dtype or is
            converted to it.
          kwargs: see `IndexUpdateHelper`.
        """
        x = self.array
        ones = np.ones((), np.int32)
        counts = update_by_index(
            "scatter_add", full(x.shape, 0, np.int32), self.index, ones, **kwargs
        )
        return _applied(func, x, counts)

    def _of_own_dtype(self, result: Array, dtype: np.dtype[Any]) -> Array:
        """Convert a result to the dtype of the array, whatever the dtype of the values."""
        return with_weak_type(convert_element_type(result, dtype), self.array.aval.weak_type)

    def _factors(self, values: Any, kwargs: dict[str, Any]) -> Array:
        """Ones, with ``values`` at the index, in a dtype that can hold both."""
        factors = _values(values, self.array.dtype)
        if factors.dtype == BOOL:
            factors = convert_element_type(factors, np.int32)
        dtype, weak = _dtypes.promote(
            ((self.array.dtype, self.array.aval.weak_type), (factors.dtype, factors.aval.weak_type))
        )
        ones = with_weak_type(full(self.array.shape, 1, dtype), weak)
        return update_by_index("scatter_mul", ones, self.index, factors, **kwargs)


def _applied(func: Callable[[Array], Any], x: Array, counts: Array) -> Array:
    """``func`` applied ``counts`` times to each element."""

    def once(value: Array, left: Array) -> Array:
        new = host_values.to_array(func(value))
        if new.shape != value.shape:
            raise TypeError(
                f"apply takes an elementwise function: it was given shape {value.shape}, and "
                f"returned shape {new.shape}"
            )
        again = bind(ops.gt, left, np.zeros(left.shape, np.int32))
        return bind(ops.select, again, convert_element_type(new, value.dtype), value)

    known = concrete_value(counts)
    if known is not None:
        for done in range(int(known.max(initial=0))):
            x = with_weak_type(once(x, wrap(known - done)), x.aval.weak_type)
        return x

    def some_left(state: tuple[Array, Array]) -> Array:
        left = state[1]
        largest = bind(ops.reduce_max, left, axes=tuple(range(left.ndim)))
        return bind(ops.gt, largest, np.zeros((), np.int32))

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        value, left = state
        ones = np.ones(left.shape, np.int32)
        new = with_weak_type(once(value, left), value.aval.weak_type)
        return new, bind(ops.sub, left, ones)

    if x.size == 0:
        return x
    result: Array = while_loop(some_left, step, (x, counts))[0]
    return result


# ------------------------------------------------------------------------------------------ updates


_COMBINE: dict[str, Any] = {
    "scatter": None,
    "scatter_add": "add",
    "scatter_sub": "sub",
    "scatter_mul": "mul",
    "scatter_min": "min",
    "scatter_max": "max",
}


def _values(values: Any, dtype: np.dtype[Any]) -> Array:
    """The array of an update."""
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
    if type(x) is ConcreteArray and mode is None and wrap_negative_indices and not staging():
        out = eager_update(name, _COMBINE[name], x.numpy_value(), index, values)
        if out is not None:
            return wrap(out, x.weak_type)
    new = _values(values, x.dtype)
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
