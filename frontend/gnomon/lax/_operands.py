"""Checks of the operands of `gnomon.lax`: arrays or scalars of accepted dtypes.

Functions of `lax` do not promote. Operands must have the same dtype. A scalar may be combined with
an array of any shape. If the ranks are equal, dimensions of size one are repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from gnomon._arrays.annotations import ShapeLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, PlacedArray, wrap, wrap_like
from gnomon._diagnostics.errors import ConcretizationTypeError, GnomonTypeError
from gnomon._tracing.bind import as_operand, bind
from gnomon._tracing.stack import staging
from gnomon._tracing.trace import is_tracer
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import as_size, exceeds
from gnomon.dialects.types import (
    ANY,
    BOOL,
    COMPLEX,
    FLOATING,
    INEXACT,
    INTEGER,
    NUMERIC,
    SIGNED,
    UNSIGNED,
    is_inexact,
)

Dtypes = frozenset[np.dtype[Any]]

ANY_DTYPE: Dtypes = frozenset(ANY)
NUMBER: Dtypes = frozenset(NUMERIC)
INTEGERS: Dtypes = frozenset(INTEGER)
FLOAT: Dtypes = frozenset(FLOATING)
FLOAT_OR_COMPLEX: Dtypes = frozenset(INEXACT)
COMPLEX_ONLY: Dtypes = frozenset(COMPLEX)
BOOL_OR_INTEGER: Dtypes = frozenset((BOOL, *INTEGER))
REAL: Dtypes = frozenset((BOOL, *INTEGER, *FLOATING))
PARTS: Dtypes = frozenset((np.dtype(np.float32), np.dtype(np.float64)))

_GROUPS = (
    ("bool", frozenset((BOOL,))),
    ("integer", INTEGERS),
    ("signed integer", frozenset(SIGNED)),
    ("unsigned integer", frozenset(UNSIGNED)),
    ("floating", FLOAT),
    ("complexfloating", COMPLEX_ONLY),
)


def describe_dtypes(dtypes: Collection[np.dtype[Any]]) -> str:
    """A description of accepted dtypes for a message, with whole groups by name."""
    left, words = set(dtypes), []
    for name, group in _GROUPS:
        if group <= left:
            words.append(name)
            left -= group
    return ", ".join(words + sorted(d.name for d in left))


def argument(function: str, x: Any, position: int | None = None) -> Array:
    """Convert an argument to an array.

    Raises:
      TypeError: the argument is neither an array nor a scalar.
    """
    if isinstance(x, Array):
        return x
    try:
        return as_operand(x)
    except TypeError as error:
        where = "" if position is None else f" at position {position}"
        raise TypeError(
            f"lax.{function} takes arrays and scalars; got {_shown(x)} of type "
            f"{type(x).__name__}{where}. Convert it first with gnomon.numpy.asarray"
        ) from error


def _shown(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 60 else f"{text[:57]}..."


def accept(
    function: str, x: Array, dtypes: Collection[np.dtype[Any]], position: int | None = None
) -> None:
    """Raise ``TypeError`` unless the function takes the operand's dtype."""
    if x.dtype not in dtypes:
        where = "" if position is None else f" at position {position}"
        raise TypeError(
            f"lax.{function} does not accept dtype {x.dtype.name}{where}. "
            f"Accepted dtypes are: {describe_dtypes(dtypes)}."
        )


# Functions of gnomon.numpy that promote, if they have another name than in lax.
_PROMOTING = {
    "div": "true_divide",
    "rem": "remainder",
    "max": "maximum",
    "min": "minimum",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "sub": "subtract",
    "mul": "multiply",
    "pow": "power",
    "atan2": "arctan2",
    "select": "where",
    "select_n": "where",
    "shift_left": "left_shift",
    "shift_right_arithmetic": "right_shift",
    "concatenate": "concatenate",
    "add": "add",
    "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor",
    "nextafter": "nextafter",
    "dot": "dot",
}


def same_dtype(function: str, arrays: Sequence[Array]) -> None:
    """Raise ``TypeError`` unless all arrays have one dtype."""
    first = arrays[0].dtype
    if any(x.dtype != first for x in arrays):
        given = ", ".join(x.dtype.name for x in arrays)
        promoting = _PROMOTING.get(function)
        tip = f" gnomon.numpy.{promoting} promotes its arguments." if promoting else ""
        raise TypeError(
            f"lax.{function} requires arguments of one dtype, got {given}. "
            f"Convert them with lax.convert_element_type.{tip}"
        )


def spread(function: str, arrays: Sequence[Array]) -> list[Array]:
    """Broadcast arrays to one shape: scalars, and dimensions of size one.

    Raises:
      TypeError: the ranks differ, or sizes differ and neither is one.
    """
    shapes = {x.shape for x in arrays}
    if len(shapes) == 1:
        return list(arrays)
    shapes.discard(())
    given = ", ".join(str(x.shape) for x in arrays)
    if len({len(s) for s in shapes}) > 1:
        raise TypeError(
            f"lax.{function}: arrays must have the same number of dimensions (or none), "
            f"got shapes {given}"
        )
    shape = []
    for sizes in zip(*shapes, strict=True):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            raise TypeError(f"lax.{function}: shapes {given} cannot be broadcast together")
        shape.append(wide.pop() if wide else 1)
    placed = any(isinstance(x, PlacedArray) for x in arrays)
    return [(repeated if placed else broadcast)(x, tuple(shape)) for x in arrays]


def broadcast(x: Array, shape: tuple[int, ...]) -> Array:
    """Repeat ``x`` to a shape that ends with its shape; return ``x`` itself if it has the shape."""
    if x.shape == shape:
        return x
    dims = tuple(range(len(shape) - x.ndim, len(shape)))
    return bind(ops.broadcast_in_dim, x, shape=shape, dims=dims)


def repeated(x: Array, shape: tuple[int, ...]) -> Array:
    """`broadcast` a value that is combined with an operand on a device.

    A single number on the host stays a single number in memory, so that only this number has to be
    copied to the device.
    """
    if x.ndim or not isinstance(x, ConcreteArray) or x._value is None or x.committed or staging():
        return broadcast(x, shape)
    return wrap_like(np.broadcast_to(x._value, shape), x, x.weak_type)


def as_tuple(numbers: Any) -> tuple[Any, ...]:
    """A number or an iterable of numbers as a tuple; a 1-d array is an iterable.

    Anything else is returned in a tuple, so that the caller's check of each number rejects it.
    """
    alone = hasattr(numbers, "__index__") and not getattr(numbers, "ndim", 0)
    return (numbers,) if alone or not hasattr(numbers, "__iter__") else tuple(numbers)


def as_shape(function: str, shape: ShapeLike) -> tuple[int, ...]:
    """A shape from an int or a sequence of ints.

    Raises:
      TypeError: the shape is neither, or has a negative size.
    """
    try:
        sizes = tuple(as_size(n) for n in as_tuple(shape))
    except (TypeError, AttributeError) as error:
        if isinstance(error, GnomonTypeError):
            traced = next((n for n in as_tuple(shape) if is_tracer(n)), shape)
            raise ConcretizationTypeError(
                traced, f"It is in the shape given to {function}, which is part of the program."
            ) from None
        raise TypeError(
            f"{function}: a shape must be an int or a sequence of ints, got {_shown(shape)}"
        ) from error
    if any(n < 0 for n in sizes):
        raise TypeError(f"{function}: the sizes of a shape must not be negative, got {sizes}")
    return sizes


def constant_like(x: Array, value: Any) -> Array:
    """An array filled with one value, with the shape, dtype and weak type of ``x``."""
    scalar = wrap(np.asarray(value).astype(x.dtype), x.aval.weak_type)
    return (repeated if isinstance(x, PlacedArray) else broadcast)(scalar, x.shape)


def widened(index: Array, *sizes: Any) -> Array:
    """Indices in a dtype that holds the sizes that they are compared with, of 32 bits at least.

    A size that is converted to a narrower dtype wraps around: 300 becomes 44 as int8. Floats are
    returned as they are.
    """
    if is_inexact(index.dtype):
        return index
    dtype = np.dtype(np.int32) if index.dtype.itemsize < 4 else index.dtype
    if any(exceeds(size, np.iinfo(dtype).max) for size in sizes):
        dtype = np.dtype(np.int64)
    return index if index.dtype == dtype else bind(ops.convert, index, dtype=dtype)
