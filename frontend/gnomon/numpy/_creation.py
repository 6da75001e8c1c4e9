"""Arrays from nothing: constants, ranges, grids, triangles and diagonals."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import GeneratorType
from typing import Any

import numpy as np

from gnomon import _dtypes, lax
from gnomon._array import Array, wrap
from gnomon._device_api import device_put
from gnomon._dtypes import DType
from gnomon._trace_stack import staging
from gnomon._tracing import bind
from gnomon.dialects.emit import ops
from gnomon.dialects.types import INTEGER, is_complex, is_integer
from gnomon.lax._creation import converted
from gnomon.lax._operands import as_shape, constant_like
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array
from gnomon.numpy._arithmetic import log10, power
from gnomon.numpy._construction import array, asarray, placement
from gnomon.numpy._dispatch import broadcast_to_shape
from gnomon.numpy._indexing import getitem
from gnomon.numpy._manipulation import broadcast_to, moveaxis, ravel
from gnomon.numpy._ufuncs import add, multiply, sign, subtract, true_divide

# ---------------------------------------------------------------------------------------- constants


def _shape(function: str, shape: Any, dtype: Any = None) -> tuple[int, ...]:
    if isinstance(shape, GeneratorType):
        raise TypeError(f"{function}: a shape is an int or a sequence of ints, got a generator")
    if isinstance(dtype, int) and isinstance(shape, int) and not isinstance(dtype, bool):
        raise TypeError(
            f"{function}({shape}, {dtype}): the second argument is the dtype, which {dtype} is not;"
            f" a shape of two dimensions is one argument, {function}(({shape}, {dtype}))"
        )
    return as_shape(function, shape)


def _dtype(function: str, dtype: Any) -> DType:
    return _dtypes.check_user_dtype(float if dtype is None else dtype, function)


def _constant(name: str, value: int, summary: str) -> Any:
    def function(
        shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
    ) -> Array:
        if (place := placement(name, device, out_sharding)) is not None:
            return device_put(function(shape, dtype), place)
        sizes, exact = _shape(name, shape, dtype), _dtype(name, dtype)
        if staging():
            return lax.full(sizes, value, exact)
        return wrap(np.full(sizes, value, exact))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

    Args:
      shape: an int or a sequence of ints.
      dtype: the dtype; the default float dtype if None.
      device, out_sharding: where to put it, by default on the default device.
    """
    return function


zeros = _constant("zeros", 0, "An array of zeros.")
ones = _constant("ones", 1, "An array of ones.")
empty = _constant("empty", 0, "An array whose values nobody should rely on; they are zeros.")


def full(
    shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """An array of one value, or of an array broadcast to a shape.

    Args:
      shape: an int or a sequence of ints.
      fill_value: the value, a scalar or an array.
      dtype: the dtype; that of ``fill_value`` if None.
      device, out_sharding: where to put it, by default on the default device.
    """
    if (place := placement("full", device, out_sharding)) is not None:
        return device_put(full(shape, fill_value, dtype), place)
    sizes = _shape("full", shape)
    if not isinstance(fill_value, (int, float, complex)):
        fill_value = as_array("full", fill_value)
        if fill_value.ndim:
            return broadcast_to(asarray(fill_value, dtype), sizes)
    return lax.full(sizes, fill_value, dtype)


def _constant_like(name: str, value: int, summary: str) -> Any:
    def function(
        a: Any,
        dtype: Any = None,
        shape: Any = None,
        *,
        device: Any = None,
        out_sharding: Any = None,
    ) -> Array:
        return _full_like(name, a, value, dtype, shape, device, out_sharding)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

    Args:
      a: an array or scalar, or anything with shape and dtype.
      dtype, shape: replace those of ``a``.
      device, out_sharding: where to put it, by default on the default device.
    """
    return function


def _full_like(
    name: str, a: Any, value: Any, dtype: Any, shape: Any, device: Any, out_sharding: Any
) -> Array:
    if (place := placement(name, device, out_sharding)) is not None:
        made = _full_like(name, a, value, dtype, shape, None, None)
        return device_put(made, place)
    if not (hasattr(a, "dtype") and hasattr(a, "shape")):
        a = as_array(name, a)
    return lax.full_like(a, value, dtype, None if shape is None else _shape(name, shape))


zeros_like = _constant_like("zeros_like", 0, "Zeros in the shape and dtype of an array.")
ones_like = _constant_like("ones_like", 1, "Ones in the shape and dtype of an array.")


def empty_like(
    prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None
) -> Array:
    """Like `empty`, with the shape and dtype of an array."""
    return _full_like("empty_like", prototype, 0, dtype, shape, device, None)


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of one value, or of an array broadcast, in the shape and dtype of another.

    Args:
      a: an array or scalar, or anything with shape and dtype.
      fill_value: the value, a scalar or an array.
      dtype, shape: replace those of ``a``.
      device, out_sharding: where to put it, by default on the default device.
    """
    value = fill_value
    if not isinstance(value, (int, float, complex)):
        value = as_array("full_like", fill_value, 1)
        if value.ndim:
            if (place := placement("full_like", device, out_sharding)) is not None:
                made = full_like(a, value, dtype, shape)
                return device_put(made, place)
            sizes = np.shape(a) if shape is None else _shape("full_like", shape)
            return broadcast_to(
                asarray(value, _dtypes.dtype_of(a) if dtype is None else dtype), sizes
            )
    return _full_like("full_like", a, value, dtype, shape, device, out_sharding)


# ------------------------------------------------------------------------------------------- ranges


def _static_scalar(function: str, name: str, x: Any) -> Any:
    if x is None:
        return None
    value = x if isinstance(x, (int, float, complex)) else as_array(function, x)
    if isinstance(value, Array):
        if value.ndim:
            raise ValueError(f"{function}: arguments must be scalars; got {name}={x}")
        return value.numpy_value()[()]
    return value


def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The numbers from ``start`` (0 by default) to below ``stop``, ``step`` apart.

    Args:
      start, stop, step: known real scalars; one argument is ``stop``.
      dtype: the dtype; by default that of the arguments together.
      device, out_sharding: where to put it, by default on the default device.
    Returns:
      A vector of ``ceil((stop - start) / step)`` elements.
    Raises:
      ConcretizationTypeError: an argument is traced.

    Example:
      >>> arange(4)
      Array([0, 1, 2, 3], dtype=int32)
      >>> arange(1, 2, 0.25)
      Array([1.  , 1.25, 1.5 , 1.75], dtype=float32)
    """
    if (place := placement("arange", device, out_sharding)) is not None:
        return device_put(arange(start, stop, step, dtype), place)
    if start is None:
        raise TypeError("arange requires a start or a stop, got None")
    given = [v for v in (start, stop, step) if v is not None]
    first = "stop" if stop is None and step is None else "start"
    start, stop, step = (
        _static_scalar("arange", name, v)
        for name, v in ((first, start), ("stop", stop), ("step", step))
    )
    if any(np.iscomplexobj(v) for v in (start, stop, step)):
        raise ValueError("arange: complex start, stop or step are not supported")
    exact = (
        _dtypes.result_type(*given) if dtype is None else _dtypes.check_user_dtype(dtype, "arange")
    )
    if stop is None:
        start, stop = 0, start
    if step is None:
        size = _count((stop - start) if start else stop)
        numbers = lax.iota(exact, size)
        return add(converted(start, exact), numbers) if start else numbers
    if step == 0:
        raise ZeroDivisionError("arange: step must not be 0")
    narrow = not is_integer(exact) and not is_complex(exact) and exact.itemsize < 4
    working = np.dtype("float32") if narrow else exact
    numbers = lax.iota(working, _count((stop - start) / step))
    scaled = multiply(converted(step, working), numbers)
    return converted(add(converted(start, working), scaled), exact)


def _count(length: Any) -> int:
    return max(0, int(np.ceil(length)))


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Numbers evenly spaced over an interval.

    Args:
      start, stop: the ends; arrays give as many intervals.
      num: how many numbers.
      endpoint: ``stop`` is the last one.
      retstep: give the distance as well.
      dtype: the dtype; by default a floating point one.
      axis: the dimension of the result along which the numbers lie.
      device: where to put it, by default on the default device.
    Returns:
      The array; with ``retstep``, the pair of it and the distance.
    """
    if (place := placement("linspace", device)) is not None:
        made = linspace(start, stop, num, endpoint, retstep, dtype, axis)
        return device_put(made, place)
    num, axis = operator.index(num), operator.index(axis)
    if num < 0:
        raise ValueError(f"linspace: the number of samples must not be negative, got {num}")
    first, last = as_array("linspace", start, 0), as_array("linspace", stop, 1)
    if dtype is None:
        exact = _dtypes.to_inexact_dtype(_dtypes.result_type(first, last))
    else:
        exact = _dtypes.check_user_dtype(dtype, "linspace")
    working = _dtypes.to_inexact_dtype(exact)
    first, last = converted(first, working), converted(last, working)
    shape = lax.broadcast_shapes(first.shape, last.shape)
    axis = canonical_axis(axis, len(shape) + 1)
    low, high = (lax.expand_dims(broadcast_to_shape(v, shape), (axis,)) for v in (first, last))
    steps = num - 1 if endpoint else num
    delta: Array = lax.full((), np.nan, working)
    if num > 1:
        delta = true_divide(subtract(last, first), np.asarray(steps).astype(working))
        real = np.dtype(working.type(0).real.dtype) if is_complex(working) else working
        numbers = true_divide(lax.iota(real, steps), np.asarray(steps).astype(real))
        along = tuple(steps if d == axis else 1 for d in range(len(shape) + 1))
        weight = lax.reshape(converted(numbers, working), along)
        rest = subtract(constant_like(weight, 1), weight)
        out = add(multiply(low, rest), multiply(high, weight))
        if endpoint:
            out = lax.concatenate([out, high], axis)
    elif num == 1:
        if not endpoint:
            delta = subtract(last, first)
        out = low
    else:
        out = lax.full((*shape[:axis], 0, *shape[axis:]), 0, working)
    if is_integer(exact):
        out = lax.floor(out)
    result = converted(out, exact)
    return (result, delta) if retstep else result


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """Powers of ``base`` with exponents evenly spaced over an interval; see `linspace`."""
    exact, working = _spacing_dtypes("logspace", start, stop, dtype)
    first = converted(as_array("logspace", start, 0), working)
    last = converted(as_array("logspace", stop, 1), working)
    exponents = linspace(first, last, num, endpoint=endpoint, axis=axis)
    return converted(power(base, exponents), exact)


def geomspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """Numbers from ``start`` to ``stop`` in geometric progression; see `linspace`."""
    exact, working = _spacing_dtypes("geomspace", start, stop, dtype)
    first = converted(as_array("geomspace", start, 0), working)
    last = converted(as_array("geomspace", stop, 1), working)
    direction = sign(first)
    exponents = log10(true_divide(first, direction)), log10(true_divide(last, direction))
    powers = logspace(*exponents, num, endpoint=endpoint, dtype=working, axis=0)
    return converted(moveaxis(multiply(direction, powers), 0, axis), exact)


def _spacing_dtypes(function: str, start: Any, stop: Any, dtype: Any) -> tuple[DType, DType]:
    if dtype is None:
        as_array(function, start, 0), as_array(function, stop, 1)
        exact = _dtypes.to_inexact_dtype(_dtypes.result_type(start, stop))
    else:
        exact = _dtypes.check_user_dtype(dtype, function)
    return exact, _dtypes.to_inexact_dtype(exact)


# -------------------------------------------------------------------------- diagonals and triangles


def _offsets(shape: tuple[int, int]) -> Array:
    """Column minus row of each element."""
    int32 = np.dtype("int32")
    row = bind(ops.iota, dtype=int32, shape=shape, dimension=0)
    return bind(ops.sub, bind(ops.iota, dtype=int32, shape=shape, dimension=1), row)


def _compared(op: Any, shape: tuple[int, int], k: Any) -> Array:
    offsets = _offsets(shape)
    bound = as_array("k", k)
    if bound.dtype not in INTEGER or bound.ndim:
        raise TypeError(f"the offset k must be an integer, got {bound.aval}")
    return bind(op, offsets, broadcast_to_shape(converted(bound, offsets.dtype), shape))


def eye(
    N: int, M: int | None = None, k: Any = 0, dtype: Any = None, *, device: Any = None
) -> Array:
    """A matrix of ones on a diagonal, and zeros.

    Args:
      N, M: rows and columns; as many of both by default.
      k: which diagonal: 0 is the main one, positive ones lie above.
      dtype: the dtype; the default float dtype if None.
      device: where to put it, by default on the default device.
    """
    if (place := placement("eye", device)) is not None:
        return device_put(eye(N, M, k, dtype), place)
    shape = _shape("eye", (N, N if M is None else M))
    return converted(_compared(ops.eq, shape, k), _dtype("eye", dtype))  # type: ignore[arg-type]


def identity(n: int, dtype: Any = None) -> Array:
    """The identity matrix of ``n`` rows; see `eye`."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Array:
    """A matrix of ones on and below a diagonal, and zeros above; see `eye`."""
    shape = _shape("tri", (N, N if M is None else M))
    target = np.dtype("float32") if dtype is None else _dtypes.check_user_dtype(dtype, "tri")
    return converted(_compared(ops.le, shape, k), target)  # type: ignore[arg-type]


def _triangle(name: str, m: Any, k: Any, op: Any) -> Array:
    x = as_array(name, m)
    if x.ndim < 2:
        raise ValueError(f"{name} takes an array of two dimensions at least, got shape {x.shape}")
    inside = _compared(op, x.shape[-2:], k)  # type: ignore[arg-type]
    return bind(ops.select, broadcast_to_shape(inside, x.shape), x, constant_like(x, 0))


def tril(m: Any, k: int = 0) -> Array:
    """Matrices with zeros above the k-th diagonal."""
    return _triangle("tril", m, k, ops.le)


def triu(m: Any, k: int = 0) -> Array:
    """Matrices with zeros below the k-th diagonal."""
    return _triangle("triu", m, k, ops.ge)


def diag(v: Any, k: int = 0) -> Array:
    """A matrix with a vector on its k-th diagonal, or the k-th diagonal of a matrix.

    Args:
      v: a vector or a matrix.
      k: which diagonal: 0 is the main one, positive ones lie above.
    Raises:
      ValueError: ``v`` has another number of dimensions.
    """
    x, k = as_array("diag", v), operator.index(k)
    if x.ndim == 2:
        rows, columns = x.shape
        first_row, first_column = max(-k, 0), max(k, 0)
        count = max(0, min(rows - first_row, columns - first_column))
        index = np.arange(count, dtype=np.int32)
        return getitem(x, (index + np.int32(first_row), index + np.int32(first_column)))
    if x.ndim != 1:
        raise ValueError(f"diag takes a vector or a matrix, got shape {x.shape}")
    size = x.shape[0] + abs(k)
    # Each column holds its element everywhere; the diagonal is kept.
    zero = converted(0, x.dtype)
    shift = (max(k, 0), max(-k, 0), 0)
    repeated = broadcast_to_shape(lax.pad(x, zero, [shift]), (size, size))
    on_diagonal = _compared(ops.eq, (size, size), k)
    return bind(ops.select, on_diagonal, repeated, constant_like(repeated, 0))


def diagflat(v: Any, k: int = 0) -> Array:
    """A matrix with the elements of an array on its k-th diagonal."""
    return diag(ravel(v), k)


# -------------------------------------------------------------------------------------------- grids


def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """Grids of coordinates from vectors.

    Args:
      xi: vectors.
      copy: True.
      sparse: sizes of one where a grid does not change.
      indexing: ``"ij"``: the i-th vector lies along dimension i; ``"xy"``: the first two the other
        way round.
    Returns:
      As many arrays as vectors.
    """
    arrays = [as_array("meshgrid", x, i) for i, x in enumerate(xi)]
    if not copy:
        raise ValueError("meshgrid supports copy=True only")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij', got {indexing!r}")
    if any(x.ndim != 1 for x in arrays):
        raise ValueError(f"meshgrid takes vectors, got shapes {[x.shape for x in arrays]}")
    swapped = indexing == "xy" and len(arrays) > 1
    dims = [1, 0, *range(2, len(arrays))] if swapped else list(range(len(arrays)))
    shape = [0] * len(arrays)
    for x, d in zip(arrays, dims, strict=True):
        shape[d] = x.shape[0]
    grids = []
    for x, d in zip(arrays, dims, strict=True):
        sizes = tuple((n if i == d else 1) for i, n in enumerate(shape)) if sparse else tuple(shape)
        grids.append(lax.broadcast_in_dim(x, sizes, (d,)))
    return grids


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The indices of each element of an array of a shape.

    Args:
      dimensions: the shape.
      dtype: the default int dtype if None.
      sparse: a tuple of arrays with sizes of one where an index does not change.
    Returns:
      An array whose first dimension counts the dimensions; or that tuple.
    """
    sizes = as_shape("indices", dimensions)
    target = _dtypes.check_user_dtype(int if dtype is None else dtype, "indices")
    rank = len(sizes)
    if sparse:
        return tuple(
            lax.broadcasted_iota(target, tuple(n if i == d else 1 for i in range(rank)), d)
            for d, n in enumerate(sizes)
        )
    grids = [lax.broadcasted_iota(target, sizes, d) for d in range(rank)]
    if not grids:
        return array(np.zeros((0,), target))
    return lax.stack(grids)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix whose columns are powers of a vector, the highest first unless ``increasing``."""
    v = as_array("vander", x)
    if v.ndim != 1:
        raise ValueError(f"vander takes a vector, got shape {v.shape}")
    count = v.shape[0] if N is None else operator.index(N)
    if count < 0:
        raise ValueError(f"vander: N must not be negative, got {count}")
    exponents = lax.iota(np.dtype("int32"), count)
    if not increasing:
        exponents = subtract(count - 1, exponents)
    target = _dtypes.to_numeric_dtype(v.dtype)
    return power(lax.expand_dims(converted(v, target), (1,)), converted(exponents, target))


__all__ = [
    "arange",
    "diag",
    "diagflat",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "geomspace",
    "identity",
    "indices",
    "linspace",
    "logspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tri",
    "tril",
    "triu",
    "vander",
    "zeros",
    "zeros_like",
]
