"""Reductions and cumulative functions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from gnomon._api.explicit_axes import with_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._config.current import config
from gnomon._examples import example_section
from gnomon._tracing.bind import bind, with_weak_type
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import exceeds
from gnomon.lax._operands import (
    ANY_DTYPE,
    BOOL_OR_INTEGER,
    FLOAT_OR_COMPLEX,
    INTEGERS,
    NUMBER,
    REAL,
    Dtypes,
    accept,
    argument,
    describe_dtypes,
)
from gnomon.lax._structural import ints


def reduction_axes(function: str, x: Array, axes: Any) -> tuple[int, ...]:
    """Check the axes of a reduction.

    Raises:
      ValueError: an axis does not exist, or is named twice.
    """
    dims = ints(function, "axes", axes)
    if len(set(dims)) != len(dims):
        raise ValueError(f"lax.{function}: duplicate value in axes: {dims}")
    if any(not 0 <= d < x.ndim for d in dims):
        raise ValueError(f"lax.{function}: axes {dims} contain out-of-bounds indices for {x.aval}")
    return dims


_BITWISE = ("reduce_and", "reduce_or", "reduce_xor")


class _Reduction(Protocol):
    def __call__(
        self, operand: ArrayLike, axes: Sequence[int], *, out_sharding: OutSharding | None = None
    ) -> Array: ...


class _ArgReduction(Protocol):
    def __call__(self, operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array: ...


class _Cumulative(Protocol):
    def __call__(self, operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array: ...


def _reduction(name: str, dtypes: Dtypes, summary: str, empty: str) -> _Reduction:
    def function(
        operand: ArrayLike, axes: Sequence[int], *, out_sharding: OutSharding | None = None
    ) -> Array:
        if out_sharding is not None:
            return with_out_sharding(
                f"lax.{name}", out_sharding, lambda x: function(x, axes), operand
            )
        x = argument(name, operand)
        accept(name, x, dtypes)
        dims = reduction_axes(name, x, axes)
        if name == "reduce_sum" and not config.allow_f16_reductions:
            _no_short_sum(x, dims)
        result = bind(getattr(ops, name), x, axes=dims) if dims else x
        return with_weak_type(result, False) if name in _BITWISE else result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary} of an array over axes.

    Args:
      operand: an array.
      axes: the dimensions to reduce; distinct and not negative.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Returns:
      An array of the operand's dtype without those dimensions. The result over no elements
      is {empty}.
    Raises:
      TypeError: the dtype is not one of {describe_dtypes(dtypes)}.
      ValueError: an axis does not exist, or is named twice.
    """ + example_section("lax", name)
    return function


def _no_short_sum(x: Array, dims: Sequence[int]) -> None:
    """Refuse a 16-bit reduction while the option ``allow_f16_reductions`` is off."""
    if x.dtype in (np.float16, ml_dtypes.bfloat16) and any(x.shape[d] != 1 for d in dims):
        raise ValueError(
            f"lax.reduce_sum of {x.aval} is not allowed when gnomon_allow_f16_reductions is False: "
            "sum in float32, as gnomon.numpy.sum does"
        )


reduce_sum = _reduction("reduce_sum", NUMBER, "The sum", "zero")
reduce_prod = _reduction("reduce_prod", NUMBER, "The product", "one")
reduce_max = _reduction("reduce_max", ANY_DTYPE, "The maximum", "the smallest value of the dtype")
reduce_min = _reduction("reduce_min", ANY_DTYPE, "The minimum", "the largest value of the dtype")
reduce_and = _reduction("reduce_and", BOOL_OR_INTEGER, "The bitwise and", "all bits set")
reduce_or = _reduction("reduce_or", BOOL_OR_INTEGER, "The bitwise or", "zero")
reduce_xor = _reduction("reduce_xor", BOOL_OR_INTEGER, "The bitwise exclusive or", "zero")


def _arg_reduction(name: str, extreme: str) -> _ArgReduction:
    def function(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
        x = argument(name, operand)
        accept(name, x, REAL)
        dtype = _dtypes.check_user_dtype(index_dtype, f"lax.{name}")
        if dtype not in INTEGERS:
            raise TypeError(f"lax.{name}: index_dtype must be an integer dtype, got {dtype.name}")
        if not 0 <= axis < x.ndim:
            raise ValueError(f"lax.{name}: invalid axis {axis} for operand shape {x.shape}")
        if x.shape[axis] == 0:
            raise ValueError(
                f"lax.{name} needs at least one element along the axis, got shape {x.shape} and "
                f"axis {axis}"
            )
        if exceeds(x.shape[axis] - 1, ml_dtypes.iinfo(dtype).max):
            raise ValueError(
                f"lax.{name}: index_dtype {dtype.name} does not hold the index "
                f"{x.shape[axis] - 1} of {x.aval} along axis {axis}; pass a wider one"
            )
        result = bind(getattr(ops, name), x, axis=operator.index(axis), index_dtype=dtype)
        return with_weak_type(result, False)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The index of the first {extreme}, or of the first nan, along an axis.

    Args:
      operand: an array of real numbers or bools.
      axis: which dimension; not negative.
      index_dtype: an integer dtype for the result.
    Raises:
      TypeError: the dtype is complex, or ``index_dtype`` is not an integer dtype.
      ValueError: there is no such axis, or it is of size zero, or ``index_dtype`` is too narrow for
        its size.
    """ + example_section("lax", name)
    return function


argmax = _arg_reduction("argmax", "maximum")
argmin = _arg_reduction("argmin", "minimum")


def _cumulative(name: str, dtypes: Dtypes, summary: str) -> _Cumulative:
    def function(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
        x = argument(name, operand)
        accept(name, x, dtypes)
        if axis < 0:
            raise ValueError(f"lax.{name}: axis must not be negative, got {axis}")
        if axis >= x.ndim:
            raise ValueError(
                f"lax.{name}: axis {axis} is out of bounds for an array of shape {x.shape}"
            )
        return bind(getattr(ops, name), x, axis=operator.index(axis), reverse=bool(reverse))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The cumulative {summary} along an axis.

    Args:
      operand: an array.
      axis: which dimension; not negative.
      reverse: accumulate from the end.
    Returns:
      An array of the operand's shape and dtype.
    Raises:
      TypeError: the dtype is not one of {describe_dtypes(dtypes)}.
      ValueError: there is no such axis.
    """ + example_section("lax", name)
    return function


cumsum = _cumulative("cumsum", NUMBER, "sum")
cumprod = _cumulative("cumprod", NUMBER, "product")
cummax = _cumulative("cummax", NUMBER, "maximum")
cummin = _cumulative("cummin", NUMBER, "minimum")
cumlogsumexp = _cumulative("cumlogsumexp", FLOAT_OR_COMPLEX, "logarithm of the sum of exponentials")


def index_dtype_for(size: int) -> np.dtype[Any]:
    """The dtype of indices into a dimension: the default integer dtype, if it can hold them."""
    dtype = _dtypes.default_int_dtype()
    if exceeds(size, np.iinfo(dtype).max):
        raise ValueError(
            f"a dimension of {size} elements cannot be indexed by {dtype.name}: enable 64-bit "
            "types (gnomon_enable_x64)"
        )
    return dtype
