"""Arrays of one value: `full`, `zeros`, `ones`, and variants with the shape of another array."""

from __future__ import annotations

from types import GeneratorType
from typing import Any, Protocol

import numpy as np

from gnomon import lax
from gnomon._api.devices import device_put
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DeviceLike, DTypeLike, OutSharding, ShapeLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon._arrays.dtypes import DType
from gnomon._examples import example_section
from gnomon._tracing.stack import needs_bind
from gnomon.lax._operands import as_shape
from gnomon.numpy._arguments import as_array
from gnomon.numpy._construction import asarray, placement
from gnomon.numpy._manipulation import broadcast_to


def checked_shape(function: str, shape: Any, dtype: Any = None) -> tuple[int, ...]:
    if isinstance(shape, GeneratorType):
        raise TypeError(
            f"{function}: a shape must be an int or a sequence of ints, got a generator"
        )
    if isinstance(dtype, int) and isinstance(shape, int) and not isinstance(dtype, bool):
        raise TypeError(
            f"{function}({shape}, {dtype}): the second argument is the dtype, which {dtype} is not;"
            f" a shape of two dimensions is one argument, {function}(({shape}, {dtype}))"
        )
    return as_shape(function, shape)


def checked_dtype(function: str, dtype: Any) -> DType:
    return _dtypes.check_user_dtype(float if dtype is None else dtype, function)


class _Constant(Protocol):
    def __call__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
        out_sharding: OutSharding | None = None,
    ) -> Array: ...


class _ConstantLike(Protocol):
    def __call__(
        self,
        a: Any,
        dtype: DTypeLike | None = None,
        shape: ShapeLike | None = None,
        *,
        device: DeviceLike | None = None,
        out_sharding: OutSharding | None = None,
    ) -> Array: ...


def _constant(name: str, value: int, summary: str) -> _Constant:
    def function(
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
        out_sharding: OutSharding | None = None,
    ) -> Array:
        if (place := placement(name, device, out_sharding)) is not None:
            return device_put(function(shape, dtype), place)
        sizes = checked_shape(name, shape, dtype)
        exact: Any = checked_dtype(name, dtype)
        if needs_bind() or isinstance(exact, _dtypes.ExtendedDType):
            return lax.full(sizes, value, exact)
        return wrap(np.full(sizes, value, exact))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

    Args:
      shape: an int or a sequence of ints.
      dtype: the dtype; the default float dtype if None.
      device, out_sharding: the place of the result; by default the default device.
    """ + example_section("numpy", name)
    return function


zeros = _constant("zeros", 0, "An array of zeros.")
ones = _constant("ones", 1, "An array of ones.")
empty = _constant("empty", 0, "An array whose values are unspecified (in fact zeros).")


def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """An array of one value, or of an array broadcast to a shape.

    Args:
      shape: an int or a sequence of ints.
      fill_value: the value, a scalar or an array.
      dtype: the dtype; that of ``fill_value`` if None.
      device, out_sharding: the place of the result; by default the default device.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.full((2, 2), 7)
      Array([[7, 7],
             [7, 7]], dtype=int32, weak_type=True)
      >>> gnp.full((2, 2), gnp.array([1.0, 2.0]))
      Array([[1., 2.],
             [1., 2.]], dtype=float32)

    See also:
      `full_like`, `zeros`, `ones`
    """
    if (place := placement("full", device, out_sharding)) is not None:
        return device_put(full(shape, fill_value, dtype), place)
    sizes = checked_shape("full", shape)
    if not isinstance(fill_value, (int, float, complex)):
        fill_value = as_array("full", fill_value)
        if fill_value.ndim:
            return broadcast_to(asarray(fill_value, dtype), sizes)
    return lax.full(sizes, fill_value, dtype)


def _constant_like(name: str, value: int, summary: str) -> _ConstantLike:
    def function(
        a: Any,
        dtype: DTypeLike | None = None,
        shape: ShapeLike | None = None,
        *,
        device: DeviceLike | None = None,
        out_sharding: OutSharding | None = None,
    ) -> Array:
        return _full_like(name, a, value, dtype, shape, device, out_sharding)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

    Args:
      a: an array or scalar, or anything with shape and dtype.
      dtype, shape: replace those of ``a``.
      device, out_sharding: the place of the result. By default it is that of ``a``, if the
        shapes are equal and ``a`` is committed; otherwise it is the default device.
    """ + example_section("numpy", name)
    return function


def _full_like(
    name: str,
    a: Any,
    value: Any,
    dtype: Any,
    shape: Any,
    device: DeviceLike | None,
    out_sharding: OutSharding | None,
) -> Array:
    if (place := placement(name, device, out_sharding)) is not None:
        made = _full_like(name, a, value, dtype, shape, None, None)
        return device_put(made, place)
    if not (hasattr(a, "dtype") and hasattr(a, "shape")):
        a = as_array(name, a)
    return lax.full_like(a, value, dtype, None if shape is None else checked_shape(name, shape))


zeros_like = _constant_like("zeros_like", 0, "Zeros in the shape and dtype of an array.")
ones_like = _constant_like("ones_like", 1, "Ones in the shape and dtype of an array.")


def empty_like(
    prototype: Any,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: DeviceLike | None = None,
) -> Array:
    """An array of the shape and dtype of another one, whose values are unspecified.

    Args:
      prototype: an array or scalar, or anything with shape and dtype.
      dtype, shape: replace those of ``prototype``.
      device: where the result is placed; None means the default device.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.empty_like(gnp.array([1, 2, 3])).shape
      (3,)

    See also:
      `zeros_like`
    """
    return _full_like("empty_like", prototype, 0, dtype, shape, device, None)


def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """An array of one value, or of a broadcast array, with the shape and dtype of another.

    Args:
      a: an array or scalar, or anything with shape and dtype.
      fill_value: the value, a scalar or an array.
      dtype, shape: replace those of ``a``.
      device, out_sharding: the place of the result. By default, an array ``fill_value`` keeps its
        place. A scalar is placed with ``a``, if the shapes are equal and ``a`` is committed;
        otherwise on the default device.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.full_like(gnp.array([1.0, 2.0]), 7)
      Array([7., 7.], dtype=float32)
      >>> gnp.full_like(gnp.array([1, 2]), 0.9)
      Array([0, 0], dtype=int32)
    """
    value = fill_value
    if not isinstance(value, (int, float, complex)):
        value = as_array("full_like", fill_value, 1)
        if value.ndim:
            if (place := placement("full_like", device, out_sharding)) is not None:
                made = full_like(a, value, dtype, shape)
                return device_put(made, place)
            sizes = np.shape(a) if shape is None else checked_shape("full_like", shape)
            return broadcast_to(
                asarray(value, _dtypes.dtype_of(a) if dtype is None else dtype), sizes
            )
    return _full_like("full_like", a, value, dtype, shape, device, out_sharding)


__all__ = ["empty", "empty_like", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]
