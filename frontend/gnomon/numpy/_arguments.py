"""Conversion of arguments to arrays of one dtype, for functions of `gnomon.numpy`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, ParamSpec

import numpy as np

from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import as_operand, with_weak_type
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.lax._creation import converted
from gnomon.lax._operands import as_tuple
from gnomon.lax._structural import canonical_axis

_P = ParamSpec("_P")


def as_array(function: str, x: ArrayLike, position: int = 0) -> Array:
    """Convert an argument to an array.

    Raises:
      TypeError: the argument is neither an array nor a scalar.
    """
    if isinstance(x, Array):
        return x
    try:
        return as_operand(x)
    except TypeError as error:
        raise TypeError(
            f"{function} requires ndarray or scalar arguments, got {type(x)} at position "
            f"{position}. Convert it with gnomon.numpy.array."
        ) from error


def promoted(function: str, *xs: Any, inexact: bool = False) -> list[Array]:
    """Convert arguments to arrays of their common dtype.

    Args:
      function: the name of the caller in messages.
      xs: the arguments.
      inexact: whether integers and booleans become the default float dtype.
    """
    arrays = [as_array(function, x, i) for i, x in enumerate(xs)]
    dtype, weak_type = _dtypes.result_type(*arrays, return_weak_type_flag=True)
    if inexact:
        dtype = _dtypes.to_inexact_dtype(dtype)
    return [converted(x, dtype, weak_type) for x in arrays]


def strongly_typed(function: Callable[_P, Array]) -> Callable[_P, Array]:
    """A function whose result is not weakly typed, although its operands may be."""

    @functools.wraps(function)
    def strong(*args: _P.args, **kwargs: _P.kwargs) -> Array:
        return with_weak_type(function(*args, **kwargs), False)

    return strong


def axis_tuple(function: str, axis: Any, rank: int) -> tuple[int, ...]:
    """Distinct non-negative axes from an int, an iterable of them, or None (all)."""
    if axis is None:
        return tuple(range(rank))
    found = tuple(canonical_axis(a, rank) for a in as_tuple(axis))
    if len(set(found)) != len(found):
        raise ValueError(f"{function}: duplicate value in axis: {axis}")
    return found


def static_shape(function: str, shape: Any) -> tuple[int, ...]:
    """The shape that the caller gives, as ints and symbolic dimensions; ``-1`` is kept."""
    try:
        return tuple(n if is_symbolic_dim(n) else int(n.__index__()) for n in as_tuple(shape))
    except AttributeError as error:
        raise TypeError(
            f"{function}: shapes must be 1D sequences of concrete values of integer type, got "
            f"{shape!r}"
        ) from error


def sequence_of_arrays(function: str, xs: Any) -> Sequence[Any]:
    """A collection of arrays as a sequence, or the slices of an array."""
    if isinstance(xs, Array):
        whole: Any = xs
        return list(whole)
    if isinstance(xs, np.ndarray):
        return [as_operand(x) for x in xs]
    if isinstance(xs, (list, tuple)):
        return xs
    # Other collections too, such as the values of a dictionary, but no generators, as in JAX.
    if not isinstance(xs, Collection) or isinstance(xs, (str, bytes)):
        raise TypeError(f"{function} takes a sequence of arrays, got {type(xs).__name__}")
    return list(xs)
