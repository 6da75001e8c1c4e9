"""``x.at[index]``: updates by an index as methods, which return a new array."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from gnomon._api.explicit_axes import with_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays import host_values
from gnomon._arrays.annotations import ArrayLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon._tracing.bind import bind, with_weak_type
from gnomon._tracing.explicit import automatic
from gnomon._tracing.trace import concrete_value
from gnomon.dialects.emit import ops
from gnomon.dialects.types import BOOL
from gnomon.lax import convert_element_type, full
from gnomon.lax._loops import while_loop
from gnomon.numpy._indexing import take_by_index
from gnomon.numpy._updates import Mode, update_by_index, update_values

__all__ = ["IndexUpdateHelper", "IndexUpdateRef"]

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
        """Convert a result to a dtype that depends on that of the array only."""
        return with_weak_type(convert_element_type(result, dtype), self.array.aval.weak_type)

    def _factors(self, values: Any, kwargs: dict[str, Any]) -> Array:
        """Ones, with ``values`` at the index, in a dtype that can hold both."""
        factors = update_values(values, self.array.dtype)
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
