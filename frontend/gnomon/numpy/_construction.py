"""Arrays of given values: numbers, nested lists, NumPy arrays, arrays of other libraries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._api.devices import device_put
from gnomon._api.explicit_axes import is_of_no_mesh, placed_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays import host_values
from gnomon._arrays.annotations import ArrayLike, DeviceLike, DTypeLike, OutSharding, ShapeLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, wrap
from gnomon._arrays.dlpack import import_capsule
from gnomon._arrays.dtypes import DType
from gnomon._arrays.transfers import guard_host_value
from gnomon._config.current import Config, config
from gnomon._diagnostics.errors import warn_user
from gnomon._sharding.device import Device, as_device
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon._tracing.bind import as_operand, bind, with_weak_type
from gnomon._tracing.evaluation import check_values
from gnomon._tracing.stack import state
from gnomon._tracing.trace import is_tracer
from gnomon._transformations.vmap import vmap
from gnomon.dialects.emit import ops
from gnomon.dialects.types import BOOL, is_complex
from gnomon.lax._creation import converted
from gnomon.lax._operands import as_shape, constant_like
from gnomon.numpy._arguments import as_array
from gnomon_runtime.booleans import zero_or_one

# The number of arrays to join at a time: an op of thousands of operands is slow to compile.
_JOINED_AT_ONCE = 16

# The types of the elements of a list that are numbers, not arrays.
_NUMBERS = (bool, int, float, complex, np.generic)


def array(
    object: Any,
    dtype: DTypeLike | None = None,
    *args: Any,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: DeviceLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """An array of a number, an array, or nested lists or tuples of them.

    Args:
      object: the value.
      dtype: the dtype; by default the one that the elements promote to, with 32 instead of 64 bits
        unless 64-bit types are turned on.
      args: ``copy``, ``order`` and ``ndmin`` by position, which is deprecated.
      copy: do not share memory with ``object``. A copy of a masked array drops the mask; without a
        copy, as in `asarray`, masked arrays raise.
      order: None or ``"K"``.
      ndmin: the minimum number of dimensions; new ones come first.
      device, out_sharding: the place of the result; by default the default device.
    Returns:
      An array. It is weakly typed if no dtype is given and ``object`` is a Python number or a
      weakly typed array.
    Raises:
      TypeError: ``object`` is none of these, or a complex number is to become a real one.
      ValueError: the elements of a list have different shapes, ``object`` is None, it is a
        masked array and ``copy`` is false, or nan is to become an integer.
      OverflowError: a number, or a number in a list, does not fit the integer dtype.

    Example:
      >>> array([[1, 2], [3, 4]])
      Array([[1, 2],
             [3, 4]], dtype=int32)
      >>> array([1, 2.5])
      Array([1. , 2.5], dtype=float32)
    """
    if args:
        copy, order, ndmin = _by_position(args, (copy, order, ndmin))
    if (place := placement("array", device, out_sharding)) is not None:
        made: Array = device_put(array(object, dtype, copy=copy, order=order, ndmin=ndmin), place)
        return made
    if order not in (None, "K"):
        raise NotImplementedError(f"array: order {order!r} is not supported, only 'K'")
    target = None if dtype is None else _dtypes.check_user_dtype(dtype, "array")
    value = _resolved(object)
    if Config.guards_somewhere and state.staging is None:
        guard_host_value(value)
    if copy and host_values.is_masked(value):
        value = value.data
    result = _array(value, target, copy)
    if Config.checks_somewhere and config.checks_values and isinstance(result, ConcreteArray):
        check_values("array", [result.numpy_value()])
    if ndmin > result.ndim:
        result = lax.expand_dims(result, tuple(range(ndmin - result.ndim)))
    return result


def _by_position(args: tuple[Any, ...], named: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(args) > len(named):
        raise TypeError(f"array takes from 1 to 5 positional arguments, got {2 + len(args)}")
    warn_user(
        "array: copy, order and ndmin by position are deprecated, give them by name",
        DeprecationWarning,
    )
    return (*args, *named[len(args) :])


def asarray(
    a: Any,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: DeviceLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Convert to an array; an array that already has the dtype is returned unchanged.

    Args:
      a: an array, scalar, nested list, or an object that exports an array.
      dtype: the dtype; None keeps that of ``a``, in 32 bits unless ``gnomon_enable_x64`` is set.
      order: None, or "C", "A" or "K", which change nothing.
      copy: True always copies; None and False copy when a conversion needs it.
      device: where the result is placed; None means the default device.
      out_sharding: the sharding of the result on a mesh with explicit axes; None infers it.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.asarray([1, 2.5])
      Array([1. , 2.5], dtype=float32)
      >>> x = gnp.arange(3)
      >>> gnp.asarray(x) is x
      True

    See also:
      `array`, `astype`
    """
    return array(a, dtype, copy=bool(copy), order=order, device=device, out_sharding=out_sharding)


def placement(
    function: str, device: DeviceLike | None, out_sharding: OutSharding | None = None
) -> Device | NamedSharding | None:
    """The place that the arguments of a function request for its result, if any.

    Raises:
      TypeError: an argument is neither a device nor a sharding.
      ValueError: both are given, or there is a spec and no mesh is set.
    """
    if device is None and out_sharding is None:
        return None
    if device is not None and out_sharding is not None:
        raise ValueError(f"{function}: pass device or out_sharding, not both")
    place: Any = device if out_sharding is None else out_sharding
    if is_of_no_mesh(place):
        return None
    if isinstance(place, (NamedSharding, PartitionSpec)):
        return placed_sharding(place, f"{function}: out_sharding")
    return as_device(place)


def _resolved(value: Any) -> Any:
    """The array that an object of another library converts itself to."""
    convert = None
    if not isinstance(value, (Array, type)):
        convert = getattr(value, "__gnomon_array__", None) or getattr(value, "__jax_array__", None)
    return value if convert is None else convert()


def _array(value: Any, dtype: DType | None, copy: bool) -> Array:
    if isinstance(value, Array):
        weak = dtype is None and value.aval.weak_type
        result = converted(value, value.dtype if dtype is None else dtype, weak)
        if copy and result is value and isinstance(value, ConcreteArray):
            return value.__copy__()
        return result
    if _dtypes.is_python_scalar(value):
        return _of_number(value, dtype)
    if isinstance(value, (np.ndarray, np.generic)):
        return _of_numpy(value, dtype)
    if isinstance(value, (list, tuple, range)):
        return _of_sequence(value, dtype)
    return _of_foreign(value, dtype)


def _of_number(value: Any, dtype: DType | None) -> Array:
    value = _dtypes.exact_python_scalar(value)
    if dtype is None:
        return wrap(host_values.scalar_to_numpy(value), type(value) is not bool)
    if type(value) in (int, float) and dtype in _dtypes._KINDS["integral"]:
        _check_fits(value, dtype)
    if type(value) is complex and not is_complex(dtype) and dtype != BOOL:
        raise TypeError(
            f"the complex number {value} cannot be converted to {dtype}; use its real part"
        )
    with np.errstate(all="ignore"):
        return wrap(np.asarray(value).astype(dtype))


def _check_fits(number: int | float, dtype: DType) -> None:
    """Raise unless a number, rounded towards zero, is in the range of an integer dtype."""
    limits = _dtypes.iinfo(dtype)
    # Nan and infinities, which are no integers, make `trunc` raise.
    if not limits.min <= math.trunc(number) <= limits.max:
        raise OverflowError(f"the Python {type(number).__name__} {number} does not fit {dtype}")


def _check_all_fit(numbers: np.ndarray[Any, Any], dtype: DType) -> None:
    """Raise unless all numbers of a list can be converted to the dtype, like each one alone."""
    if numbers.dtype.kind in "iuf" and numbers.size and dtype in _dtypes._KINDS["integral"]:
        for extreme in (numbers.min(), numbers.max()):
            _check_fits(extreme.item(), dtype)


def _of_numpy(value: Any, dtype: DType | None) -> Array:
    if dtype is None or value.dtype == dtype or value.dtype.kind not in "biufc":
        result = wrap(host_values.numpy_to_canonical(value))
        return result if dtype is None else converted(result, dtype)
    host_values.refuse_masks(value)
    # Convert from the full precision of the NumPy array, which may have 64 bits.
    exact = wrap(zero_or_one(np.asarray(value, value.dtype.newbyteorder("="))))
    return converted(exact, dtype)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple, range)):
        for element in value:
            yield from _leaves(element)
    else:
        yield _resolved(value)


def _of_sequence(value: Any, dtype: DType | None) -> Array:
    leaves = list(_leaves(value))
    if any(leaf is None for leaf in leaves):
        raise ValueError("None is not a number: it cannot be an element of an array")
    if any(isinstance(leaf, (str, bytes)) for leaf in leaves):
        raise TypeError("arrays hold numbers and booleans, got a string in a list")
    if dtype is None:
        dtype = _common_dtype(leaves)
    if any(isinstance(leaf, Array) for leaf in leaves):
        return with_weak_type(_joined(value, dtype), False)
    kinds = {type(leaf) for leaf in leaves}
    if complex in kinds and not is_complex(dtype) and dtype != BOOL:
        raise TypeError(f"complex numbers cannot be converted to {dtype}; use their real parts")
    try:
        with np.errstate(all="ignore"):
            exact = zero_or_one(np.asarray(value))
            if exact.dtype.kind not in "biufc":
                exact = np.asarray(value, dtype=dtype)
    except ValueError as error:
        raise ValueError(
            "array: the elements of a nested list must have the same shape at each level; got "
            f"{_shortened(value)}"
        ) from error
    if exact.dtype == dtype:
        return wrap(exact)
    if all(issubclass(kind, _NUMBERS) for kind in kinds):
        _check_all_fit(exact, dtype)
    with np.errstate(all="ignore"):
        return wrap(exact.astype(dtype))


def _common_dtype(leaves: list[Any]) -> DType:
    if not leaves:
        return _dtypes.default_float_dtype()
    pairs = {(_dtypes.dtype_of(leaf), _dtypes.is_weakly_typed(leaf)) for leaf in _typed(leaves)}
    return _dtypes.promote(tuple(pairs))[0]


def _typed(leaves: list[Any]) -> Iterator[Any]:
    """One leaf for each type of Python number, and all other leaves."""
    seen = set()
    for leaf in leaves:
        kind = type(leaf)
        if not _dtypes.is_python_scalar(leaf):
            yield leaf
        elif kind not in seen:
            seen.add(kind)
            yield leaf


def _joined(value: Any, dtype: DType) -> Array:
    """Join nested lists, some of whose leaves are arrays."""
    value = _resolved(value)
    if not isinstance(value, (list, tuple, range)):
        return _array(value, dtype, False)
    if not value:
        return wrap(np.zeros((0,), dtype))
    parts = [lax.expand_dims(_joined(element, dtype), (0,)) for element in value]
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        given = ", ".join(sorted(str(s[1:]) for s in shapes))
        raise ValueError(f"array: the elements of a list must have one shape, got shapes {given}")
    while len(parts) > 1:
        parts = [
            lax.concatenate(parts[i : i + _JOINED_AT_ONCE], 0)
            for i in range(0, len(parts), _JOINED_AT_ONCE)
        ]
    return parts[0]


def _of_foreign(value: Any, dtype: DType | None) -> Array:
    """Convert an array of another library, or a buffer."""
    if value is None:
        raise ValueError("None cannot be converted to an array")
    if isinstance(value, (str, bytes, type)):
        raise TypeError(f"array: cannot convert {_shortened(value)} of type {type(value).__name__}")
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return _of_numpy(np.asarray(value), dtype)
    if hasattr(value, "__dlpack__"):
        return _of_numpy(import_capsule(value), dtype)
    # A buffer, or a sequence of a class of its own.
    exact = np.array(value)
    if exact.dtype.kind not in "biufc":
        raise TypeError(
            f"array: expected a number, an array or a list of them, got {_shortened(value)} of "
            f"type {type(value).__name__}"
        )
    return _of_numpy(exact, dtype)


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# ---------------------------------------------------------------------------------- other functions


def astype(
    x: ArrayLike,
    dtype: DTypeLike | None,
    /,
    *,
    copy: bool = False,
    device: DeviceLike | None = None,
) -> Array:
    """Convert an array to another dtype; the result is not weakly typed.

    Args:
      x: an array or scalar.
      dtype: the dtype; None means the default float dtype.
      copy: do not share memory with ``x``.
      device: where the result is placed; None means where ``x`` is.
    Returns:
      An array. Floating point numbers are rounded towards zero to integers; numbers out of range
      become the smallest or largest integer, and nan becomes 0. A real dtype keeps the real part of
      complex numbers, with a warning.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.astype(gnp.array([1.9, -1.9, gnp.nan]), gnp.int32)
      Array([ 1, -1,  0], dtype=int32)
      >>> gnp.astype(gnp.array([300.0, -1.0]), gnp.uint8)
      Array([255,   0], dtype=uint8)
    """
    array = as_array("astype", x)
    target = (
        _dtypes.default_float_dtype()
        if dtype is None
        else _dtypes.check_user_dtype(dtype, "astype")
    )
    if is_complex(array.dtype) and target == BOOL:
        return with_weak_type(bind(ops.ne, array, constant_like(array, 0)), False)
    if is_complex(array.dtype) and not is_complex(target):
        warn_user(
            "the conversion of complex numbers to real ones by astype is deprecated: take x.real",
            DeprecationWarning,
        )
        array = bind(ops.real, array)
    if device is not None:
        moved: Array = device_put(converted(array, target), as_device(device))
        return moved
    result = converted(array, target)
    if copy and result is array and isinstance(array, ConcreteArray):
        return array.__copy__()
    return result


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """A copy of an array, in memory of its own.

    Args:
      a: an array, scalar, or nested list.
      order: None, or "C", "A" or "K", which change nothing.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.copy(gnp.array([1, 2]))
      Array([1, 2], dtype=int32)
    """
    as_array("copy", a)
    return array(a, copy=True, order=order)


def frombuffer(
    buffer: bytes | bytearray | memoryview | np.ndarray,
    dtype: DTypeLike = float,
    count: int = -1,
    offset: int = 0,
) -> Array:
    r"""An array of the bytes of a buffer, such as ``bytes``.

    Args:
      buffer: the bytes.
      dtype: the dtype of the elements in the buffer; ``float`` means 64 bits here.
      count: the number of elements; all by default.
      offset: the first byte to read.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.frombuffer(b"\x01\x00\x02\x00", dtype=gnp.int16)
      Array([1, 2], dtype=int16)
      >>> gnp.frombuffer(b"\x01\x02\x03", dtype=gnp.uint8, offset=1)
      Array([2, 3], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer, np.dtype(dtype), count, offset))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """An array of the numbers in a text.

    Args:
      string: the text.
      dtype: the dtype of the numbers.
      count: the number of numbers to read; -1 reads all.
      sep: the text between two numbers; spaces around it are ignored.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fromstring("1, 2, 3", dtype=gnp.int32, sep=",")
      Array([1, 2, 3], dtype=int32)
    """
    return asarray(np.fromstring(string, np.dtype(dtype), count, sep=sep))


def from_dlpack(x: Any, /, *, device: DeviceLike | None = None, copy: bool | None = None) -> Array:
    """Convert an array of another library by the DLPack protocol.

    Args:
      x: anything with ``__dlpack__``.
      device: the place of the result; by default the default device.
      copy: False shares the memory, which must not be written to any more; otherwise it is copied.
        Numbers of 64 bits are converted, and so copied, where 64-bit types are off.
    Raises:
      TypeError: ``x`` does not support DLPack.
      BufferError: ``x`` is not in host memory.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import numpy as np
      >>> gnp.from_dlpack(np.arange(3, dtype=np.float32))
      Array([0., 1., 2.], dtype=float32)
    """
    if is_tracer(x) or (isinstance(x, Array) and not copy):
        return as_operand(x)
    value = import_capsule(x, copy=copy is None or copy)
    result = wrap(value.astype(_dtypes.canonicalize_dtype(value.dtype), copy=False))
    return result if device is None else device_put(result, as_device(device))


def fromfunction(
    function: Callable[..., Any], shape: ShapeLike, *, dtype: DTypeLike = float, **kwargs: Any
) -> Any:
    """An array of the values of a function at the indices of each element.

    Args:
      function: a function of as many arrays as there are dimensions; each holds one index of every
        element.
      shape: the shape of the index arrays.
      dtype: the dtype of the indices; floating point by default.
      kwargs: passed to the function.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=gnp.int32)
      Array([[ 0,  1,  2],
             [10, 11, 12]], dtype=int32)
    """
    sizes = as_shape("fromfunction", shape)
    target = _dtypes.check_user_dtype(dtype, "fromfunction")
    mapped = function
    for d in reversed(range(len(sizes))):
        mapped = vmap(mapped, in_axes=tuple(0 if i == d else None for i in range(len(sizes))))
    return mapped(*(lax.iota(target, n) for n in sizes), **kwargs)
