"""New arrays, and conversion of arrays to other dtypes."""

from __future__ import annotations

import cmath
import operator
import warnings
from typing import Any

import numpy as np

from gnomon._api.devices import device_put
from gnomon._api.explicit_axes import reshard, with_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding, ShapeLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, wrap
from gnomon._arrays.extended import ExtendedArray
from gnomon._tracing.bind import bind, with_weak_type
from gnomon._tracing.stack import staging
from gnomon._tracing.trace import is_tracer
from gnomon._tracing.unreduced import with_sums
from gnomon.dialects.emit import ops
from gnomon.dialects.types import BOOL, is_complex
from gnomon.lax._operands import NUMBER, argument, as_shape, broadcast, describe_dtypes


def dtype(x: ArrayLike | DTypeLike) -> Any:
    """The dtype of an array or a Python number, or the one that a dtype specifier names.

    Args:
      x: an array, a number, a dtype or its name.
    Returns:
      A dtype, of 32 bits where 64-bit types are off.
    Raises:
      TypeError: ``x`` has no dtype of numbers or booleans.
      ValueError: ``x`` is None.

    Example:
      >>> from gnomon import lax
      >>> lax.dtype(1.0), lax.dtype("int8")
      (dtype('float32'), dtype('int8'))
    """
    if isinstance(x, (list, tuple)):
        raise TypeError(f"a {type(x).__name__} has no dtype: make an array of it: {x!r}")
    return _dtypes.dtype_of(x)


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """Convert the values of an array to another dtype.

    Floating point numbers are rounded towards zero to integers; numbers out of range become the
    smallest or largest integer, and nan becomes 0. Conversion of complex numbers to a real dtype
    keeps the real part, with a warning.

    Args:
      operand: an array or scalar.
      new_dtype: the dtype.
    Returns:
      An array of that dtype, not weakly typed.
    Raises:
      TypeError: ``operand`` is not an array, or ``new_dtype`` is not a dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> convert_element_type(gnp.array([1.5, -2.5]), gnp.int32)
      Array([ 1, -2], dtype=int32)
    """
    return converted(operand, _dtypes.check_user_dtype(new_dtype, "lax.convert_element_type"))


def converted(x: Any, dtype: Any, weak_type: bool = False) -> Array:
    """`convert_element_type` to a canonical dtype, with the given weak-type flag."""
    if not isinstance(x, Array):
        if isinstance(dtype, _dtypes.ExtendedDType):
            raise ValueError(f"{x!r} cannot be converted to {dtype}, which only arrays have")
        x = _as_array(_dtypes.exact_python_scalar(x), dtype, weak_type)
    if x.dtype != dtype:
        if isinstance(dtype, _dtypes.ExtendedDType):
            raise ValueError(
                f"an array of {x.dtype} cannot be converted to {dtype}: random.wrap_key_data makes "
                "keys of words"
            )
        if isinstance(x.dtype, _dtypes.ExtendedDType):
            raise ValueError(
                f"an array of {x.dtype} cannot be converted to {dtype}: random keys are not "
                "numbers; random.key_data(key) returns their words"
            )
        if is_complex(x.dtype) and not is_complex(dtype) and dtype != BOOL:
            warnings.warn(
                "converting a complex array to a real dtype drops the imaginary parts; use x.real "
                "to drop them explicitly",
                np.exceptions.ComplexWarning,
                stacklevel=3,
            )
        x = bind(ops.convert, x, dtype=dtype)
    return with_weak_type(x, weak_type)


def _as_array(x: Any, dtype: np.dtype[Any], weak_type: bool) -> Array:
    """An array of a value that is converted to ``dtype`` next."""
    if type(x) is int:
        # An int may be larger than the default integer and still fit the new dtype.
        with np.errstate(all="ignore"):
            return wrap(np.asarray(x).astype(dtype), weak_type)
    if type(x) is complex and not cmath.isnan(x) and not is_complex(dtype) and dtype != BOOL:
        raise TypeError(
            f"lax.convert_element_type: the complex number {x} cannot be converted to {dtype.name}"
        )
    return argument("convert_element_type", x)


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """Reinterpret the bits of an array as another dtype.

    Args:
      operand: an array or scalar.
      new_dtype: a dtype. If it is narrower, the result has an additional last dimension for the
        parts of each element. If it is wider, the last dimension of the operand is combined into
        one element.
    Raises:
      ValueError: the last dimension does not fit one element of the wider dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> bitcast_convert_type(gnp.float32(1.0), gnp.uint32)
      Array(1065353216, dtype=uint32)
    """
    x = argument("bitcast_convert_type", operand)
    dtype = _dtypes.check_user_dtype(new_dtype, "lax.bitcast_convert_type")
    if (x.dtype == BOOL) != (dtype == BOOL) or is_complex(x.dtype) != is_complex(dtype):
        raise TypeError(
            f"lax.bitcast_convert_type: {x.dtype.name} and {dtype.name} do not share a "
            "representation; convert bool and complex arrays by value"
        )
    old_bits, new_bits = _dtypes.itemsize_bits(x.dtype), _dtypes.itemsize_bits(dtype)
    if new_bits > old_bits and (x.ndim == 0 or x.shape[-1] * old_bits != new_bits):
        raise ValueError(
            f"lax.bitcast_convert_type: {x.aval} cannot become {dtype.name}: the last dimension "
            f"must hold {new_bits // old_bits} elements of {old_bits} bits"
        )
    if x.dtype == dtype:
        return with_weak_type(x, False)
    return with_weak_type(bind(ops.bitcast_convert, x, dtype=dtype), False)


def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    sharding: OutSharding | None = None,
) -> Array:
    """An array of one value.

    Args:
      shape: an int or a sequence of ints.
      fill_value: a scalar.
      dtype: the dtype; that of ``fill_value`` if None.
      sharding: the sharding of the result, or a spec of the mesh that is set.
    Raises:
      TypeError: ``fill_value`` is not a scalar, or a size is negative.

    Example:
      >>> full((2, 3), 7.0, "float32")
      Array([[7., 7., 7.],
             [7., 7., 7.]], dtype=float32)
    """
    if sharding is not None:
        return with_out_sharding("lax.full", sharding, lambda: full(shape, fill_value, dtype))
    sizes = as_shape("lax.full", shape)
    if np.ndim(fill_value):
        raise TypeError(
            f"lax.full: fill_value must be a scalar, got one of shape {np.shape(fill_value)}; "
            "gnomon.numpy.full broadcasts"
        )
    if dtype is None:
        value = argument("full", fill_value)
        return _filled("lax.full", sizes, value, value.dtype, value.weak_type)
    return _filled("lax.full", sizes, fill_value, _dtypes.check_user_dtype(dtype, "lax.full"))


def _filled(
    function: str, shape: tuple[int, ...], value: Any, dtype: Any, weak: bool = False
) -> Any:
    """An array of one value in a canonical or extended dtype.

    A number in an extended dtype is the value of each part: of each word of a random key.
    """
    if isinstance(value, ExtendedArray):
        if value.dtype != dtype:
            raise ValueError(f"{function}: {value.dtype} cannot be converted to {dtype}")
        return value.with_words(broadcast(word, shape) for word in value.words)
    if isinstance(dtype, _dtypes.ExtendedDType):
        return dtype.of_parts(lambda part: _filled(function, shape, value, part))
    return broadcast(converted(value, dtype, weak), shape)


def full_like(
    x: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    sharding: OutSharding | None = None,
) -> Array:
    """An array of one value, with the shape and dtype of another.

    Args:
      x: an array, or anything with shape and dtype.
      fill_value: a scalar.
      dtype, shape: replace those of ``x``.
      sharding: the sharding of the result, or a spec of the mesh that is set. By default that
        of ``x``, if the result has the same shape and ``x`` is committed.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.full_like(gnp.array([1.0, 2.0]), 7)
      Array([7., 7.], dtype=float32)
    """
    if sharding is not None:
        return with_out_sharding(
            "lax.full_like", sharding, lambda: full_like(x, fill_value, dtype, shape)
        )
    sizes = np.shape(x) if shape is None else as_shape("lax.full_like", shape)
    if np.ndim(fill_value):
        raise TypeError(
            f"lax.full_like: fill_value must be a scalar, got one of shape {np.shape(fill_value)}"
        )
    weak = dtype is None and _dtypes.is_weakly_typed(x)
    target = (
        _dtypes.dtype_of(x) if dtype is None else _dtypes.check_user_dtype(dtype, "lax.full_like")
    )
    made = _filled("lax.full_like", sizes, fill_value, target, weak)
    if type(x) is ConcreteArray or not isinstance(x, Array) or sizes != x.shape:
        return made
    return _placed_like(made, x)


def _placed_like(made: Array, x: Array) -> Array:
    """Give a new array the devices of ``x`` if that is committed, or the sharding of its type."""
    if isinstance(made, ExtendedArray):
        if isinstance(x, ExtendedArray) and len(x.words) == len(made.words):
            made = made.with_words(map(_placed_like, made.words, x.words))
        return made
    placed: Array = made
    explicit = x.aval.explicit
    if is_tracer(x) and explicit is not None and explicit.mesh.manual_axes:
        placed = with_sums(x._trace, made, x.aval.unreduced, x.aval.reduced)
    elif is_tracer(x):
        placed = made if explicit is None else reshard(made, explicit)
    elif x.committed and not staging():
        placed = device_put(made, x.sharding)
    return placed


def empty(shape: ShapeLike, dtype: DTypeLike, *, out_sharding: OutSharding | None = None) -> Array:
    """An array of unspecified values (they are zeros, but do not rely on it).

    Args:
      shape: an int or a tuple of ints.
      dtype: the dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes; None infers it.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.empty((2, 3), gnp.float32).shape
      (2, 3)
    """
    if out_sharding is not None:
        return with_out_sharding("lax.empty", out_sharding, lambda: empty(shape, dtype))
    return full(shape, 0, dtype)


def iota(dtype: DTypeLike, size: int) -> Array:
    """The numbers 0, 1, ..., size - 1.

    Args:
      dtype: an integer, floating point or complex dtype.
      size: the number of elements.

    Example:
      >>> iota(int, 4)
      Array([0, 1, 2, 3], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(
    dtype: DTypeLike, shape: ShapeLike, dimension: int, *, out_sharding: OutSharding | None = None
) -> Array:
    """The numbers 0, 1, ... along one dimension, repeated along the others.

    Args:
      dtype: an integer, floating point or complex dtype.
      shape: the shape of the result.
      dimension: the dimension along which the numbers grow; not negative.
      out_sharding: the sharding of the result, or a spec of the mesh that is set.
    Raises:
      TypeError: the dtype is bool, or a size is negative.
      ValueError: there is no such dimension.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.broadcasted_iota(gnp.int32, (2, 3), 1)
      Array([[0, 1, 2],
             [0, 1, 2]], dtype=int32)

    See also:
      `iota`
    """
    if out_sharding is not None:
        return with_out_sharding(
            "lax.broadcasted_iota", out_sharding, lambda: broadcasted_iota(dtype, shape, dimension)
        )
    exact = _dtypes.check_user_dtype(dtype, "lax.iota")
    sizes = as_shape("lax.iota", shape)
    if exact not in NUMBER:
        raise TypeError(
            f"lax.iota does not accept dtype {exact.name}. Accepted dtypes are: "
            f"{describe_dtypes(NUMBER)}."
        )
    dimension = operator.index(dimension)
    if not 0 <= dimension < len(sizes):
        raise ValueError(
            f"lax.iota: dimension must be in [0, {len(sizes)}) for shape {sizes}, got {dimension}"
        )
    return bind(ops.iota, dtype=exact, shape=sizes, dimension=dimension)
