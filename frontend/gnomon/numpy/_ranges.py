"""Ranges of numbers, and grids of them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._api.devices import device_put
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DeviceLike, DTypeLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._arrays.dtypes import DType
from gnomon._diagnostics.errors import ConcretizationTypeError
from gnomon._tracing.bind import as_operand, operand_of
from gnomon._tracing.trace import concrete_value
from gnomon.dialects.symbolic.dimension import any_symbolic, as_size, is_symbolic_dim, larger
from gnomon.dialects.types import is_complex, is_integer
from gnomon.lax._creation import converted
from gnomon.lax._operands import as_shape, constant_like
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array
from gnomon.numpy._arithmetic import power
from gnomon.numpy._construction import array, placement
from gnomon.numpy._dispatch import broadcast_to_shape
from gnomon.numpy._logarithms import log10
from gnomon.numpy._manipulation import moveaxis
from gnomon.numpy._ufuncs import add, multiply, sign, subtract, true_divide

__all__ = ["arange", "geomspace", "indices", "linspace", "logspace", "meshgrid", "vander"]


def _static_scalar(function: str, name: str, x: Any) -> Any:
    if x is None:
        return None
    if isinstance(x, (int, float, complex)) or is_symbolic_dim(x):
        return x
    # The value is read here and not transferred, so no transfer guard applies.
    known_here = isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.ndim == 0)
    value = operand_of(x) if known_here else as_array(function, x)
    if value.ndim:
        raise ValueError(f"{function}: arguments must be scalars; got {name}={x}")
    if (known := concrete_value(value)) is None:
        raise ConcretizationTypeError(value, f"It is the argument {name} of {function}.")
    return known[()]


def arange(
    start: ArrayLike,
    stop: ArrayLike | None = None,
    step: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """The numbers from ``start`` (0 by default) up to but excluding ``stop``, ``step`` apart.

    Args:
      start, stop, step: known real scalars; a single argument is ``stop``.
      dtype: the dtype; by default the one that the arguments promote to.
      device, out_sharding: the place of the result; by default the default device.
    Returns:
      A vector of ``ceil((stop - start) / step)`` elements.
    Raises:
      ConcretizationTypeError: an argument is traced.
      ValueError: an argument is complex, or not a scalar.
      ZeroDivisionError: ``step`` is 0.

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
    given = [0 if is_symbolic_dim(v) else v for v in (start, stop, step) if v is not None]
    first = "stop" if stop is None and step is None else "start"
    lower: Any
    upper: Any
    stride: Any
    lower, upper, stride = (
        _static_scalar("arange", name, v)
        for name, v in ((first, start), ("stop", stop), ("step", step))
    )
    if any(np.iscomplexobj(v) for v in (lower, upper, stride)):
        raise ValueError("arange: complex start, stop or step are not supported")
    exact = (
        _dtypes.result_type(*given) if dtype is None else _dtypes.check_user_dtype(dtype, "arange")
    )
    if upper is None:
        lower, upper = 0, lower
    if stride is None:
        from_zero = not is_symbolic_dim(lower) and not lower
        size = _count(upper if from_zero else upper - lower)
        numbers = lax.iota(exact, size)
        return numbers if from_zero else add(converted(lower, exact), numbers)
    if stride == 0:
        raise ZeroDivisionError("arange: step must not be 0")
    narrow = not is_integer(exact) and not is_complex(exact) and exact.itemsize < 4
    working = np.dtype("float32") if narrow else exact
    if any_symbolic((lower, upper, stride)):
        count = larger(0, -((lower - upper) // as_size(stride)))
    else:
        count = _count((upper - lower) / stride)
    numbers = lax.iota(working, count)
    scaled = multiply(converted(stride, working), numbers)
    return converted(add(converted(lower, working), scaled), exact)


def _count(length: Any) -> Any:
    if is_symbolic_dim(length):
        return larger(0, length)
    return max(0, int(np.ceil(length)))


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: DeviceLike | None = None,
) -> Any:
    """Numbers evenly spaced over an interval.

    Args:
      start, stop: the ends; arrays of ends give arrays of intervals.
      num: the number of numbers.
      endpoint: whether ``stop`` is the last number.
      retstep: also return the distance between the numbers.
      dtype: the dtype; by default the inexact dtype that the ends promote to.
      axis: the dimension of the result along which the numbers change.
      device: the place of the result; by default the default device.
    Returns:
      The array; with ``retstep``, a pair of the array and the distance.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.linspace(0, 1, 5)
      Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
      >>> gnp.linspace(0, 1, 5, endpoint=False)
      Array([0. , 0.2, 0.4, 0.6, 0.8], dtype=float32)
      >>> gnp.linspace(0, 1, 5, retstep=True)[1]
      Array(0.25, dtype=float32)

    See also:
      `arange`, `logspace`, `geomspace`
    """
    if (place := placement("linspace", device)) is not None:
        made = linspace(start, stop, num, endpoint, retstep, dtype, axis)
        return device_put(made, place)
    num, axis = as_size(num), operator.index(axis)
    if num < 0:
        raise ValueError(f"linspace: the number of samples must not be negative, got {num}")
    exact, first, last = _ends("linspace", start, stop, dtype)
    working = first.dtype
    shape = lax.broadcast_shapes(first.shape, last.shape)
    axis = canonical_axis(axis, len(shape) + 1)
    low, high = (lax.expand_dims(broadcast_to_shape(v, shape), (axis,)) for v in (first, last))
    steps = num - 1 if endpoint else num
    delta: Array = lax.full((), np.nan, working)
    if num > 1:
        count = as_operand(steps) if is_symbolic_dim(steps) else np.asarray(steps)
        delta = true_divide(subtract(last, first), converted(count, working))
        real = np.dtype(working.type(0).real.dtype) if is_complex(working) else working
        along = tuple(steps if d == axis else 1 for d in range(len(shape) + 1))
        position = lax.reshape(lax.iota(real, steps), along)
        if is_integer(exact):
            # The quotient is exact where the result is a whole number.
            way = multiply(position, subtract(high, low))
            out = add(low, true_divide(way, converted(count, real)))
        else:
            weight = converted(true_divide(position, converted(count, real)), working)
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
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """Powers of ``base`` with exponents evenly spaced over an interval.

    Args:
      start, stop: the first and last exponent, not the ends themselves; arrays broadcast.
      num: the number of numbers, an int that is not traced.
      endpoint: whether ``base ** stop`` is the last number.
      base: the base of the powers, an array or scalar.
      dtype: the dtype; None means the inexact dtype that the exponents promote to.
      axis: the dimension of the result along which the numbers change.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.logspace(0, 3, 4).round(3)
      Array([   1.,   10.,  100., 1000.], dtype=float32)
      >>> gnp.logspace(0, 3, 4, base=2)
      Array([1., 2., 4., 8.], dtype=float32)

    See also:
      `geomspace`, whose ends are the first and last number
    """
    exact, first, last = _ends("logspace", start, stop, dtype)
    exponents = linspace(first, last, num, endpoint=endpoint, axis=axis)
    return converted(power(base, exponents), exact)


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """Numbers from ``start`` to ``stop`` in a geometric progression.

    Args:
      start, stop: the ends, of one sign and not zero; arrays broadcast and give several
        progressions.
      num: the number of numbers, an int that is not traced.
      endpoint: whether ``stop`` is the last number.
      dtype: the dtype; None means the inexact dtype that the ends promote to.
      axis: the dimension of the result along which the numbers change.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.geomspace(1, 1000, 4).round(3)
      Array([   1.,   10.,  100., 1000.], dtype=float32)

    See also:
      `logspace`, whose ends are exponents; `linspace`
    """
    exact, first, last = _ends("geomspace", start, stop, dtype)
    direction = sign(first)
    exponents = log10(true_divide(first, direction)), log10(true_divide(last, direction))
    powers = logspace(*exponents, num, endpoint=endpoint, dtype=first.dtype, axis=0)
    signed = multiply(lax.broadcast_to_rank(direction, powers.ndim), powers)
    return converted(moveaxis(signed, 0, axis), exact)


def _ends(function: str, start: Any, stop: Any, dtype: Any) -> tuple[DType, Array, Array]:
    """The dtype of the result, and the ends in the dtype of the computation."""
    first, last = as_array(function, start, 0), as_array(function, stop, 1)
    if dtype is None:
        exact = _dtypes.to_inexact_dtype(_dtypes.result_type(start, stop))
    else:
        exact = _dtypes.check_user_dtype(dtype, function)
    working = _dtypes.to_inexact_dtype(exact)
    return exact, converted(first, working), converted(last, working)


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """Grids of coordinates from vectors.

    Args:
      xi: vectors.
      copy: must be True.
      sparse: give the grids size one along dimensions in which they do not change.
      indexing: ``"ij"`` puts the i-th vector along dimension i; ``"xy"`` exchanges the first two
        dimensions.
    Returns:
      One array for each vector.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x, y = gnp.meshgrid(gnp.array([1, 2, 3]), gnp.array([10, 20]))
      >>> x + y
      Array([[11, 12, 13],
             [21, 22, 23]], dtype=int32)
      >>> gnp.meshgrid(gnp.arange(3), gnp.arange(2), indexing="ij")[0].shape
      (3, 2)

    See also:
      `indices`, `ogrid`, `mgrid`
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


def indices(dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False) -> Any:
    """The indices of each element of an array of a given shape.

    Args:
      dimensions: the shape.
      dtype: the default int dtype if None.
      sparse: return a tuple of arrays, which have size one along dimensions in which the index does
        not change.
    Returns:
      An array whose first dimension enumerates the dimensions; or, if sparse, a tuple of arrays.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.indices((2, 2))
      Array([[[0, 0],
              [1, 1]],
      <BLANKLINE>
             [[0, 1],
              [0, 1]]], dtype=int32)
      >>> [i.shape for i in gnp.indices((2, 3), sparse=True)]
      [(2, 1), (1, 3)]

    See also:
      `meshgrid`, `unravel_index`
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


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix whose columns are the powers of a vector.

    Args:
      x: a vector.
      N: the number of columns; None means as many as rows.
      increasing: begin with the power 0 instead of ``N - 1``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.vander(gnp.array([1, 2, 3]))
      Array([[1, 1, 1],
             [4, 2, 1],
             [9, 3, 1]], dtype=int32)
      >>> gnp.vander(gnp.array([2, 3]), 3, increasing=True)
      Array([[1, 2, 4],
             [1, 3, 9]], dtype=int32)

    See also:
      `polyfit`, `polyval`
    """
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
    column = lax.expand_dims(converted(v, target), (1,))
    return power(column, lax.expand_dims(converted(exponents, target), (0,)))
