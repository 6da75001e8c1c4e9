"""Reductions: sums and products, extrema and their positions, truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray
from gnomon._tracing.bind import bind, with_weak_type
from gnomon.dialects.combinators import highest, lowest
from gnomon.dialects.emit import ops
from gnomon.dialects.pairwise import reduce_sum
from gnomon.dialects.symbolic.dimension import any_symbolic
from gnomon.dialects.types import BOOL, is_complex, is_floating, is_integer
from gnomon.lax._creation import converted
from gnomon.lax._operands import constant_like
from gnomon.lax._structural import canonical_axis
from gnomon.numpy import _eager_reductions as eager
from gnomon.numpy._arguments import as_array, axis_tuple
from gnomon.numpy._manipulation import broadcast_to, expand_dims, ravel, reshape

Axis = int | Sequence[int] | None


def no_out(name: str, out: Any) -> None:
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to gnomon.numpy.{name} is not supported.")


def _finish(x: Array, result: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    if not keepdims:
        return result
    return reshape(result, tuple(1 if i in axes else n for i, n in enumerate(x.shape)))


def mask_of(where: Any) -> Array:
    mask = as_array("where", where)
    if mask.dtype != BOOL:
        raise ValueError(
            "the argument where of a reduction must be None or a boolean array, got dtype "
            f"{mask.dtype}; convert it with mask.astype(bool)"
        )
    return mask


def _initial(name: str, initial: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """The initial value of a reduction in the shape of its result."""
    value = as_array(name, initial)
    if value.ndim:
        raise ValueError(f"{name}: initial must be a scalar, got an array of shape {value.shape}")
    return broadcast_to(converted(value, dtype), shape)


def masked(x: Array, where: Any, identity: Any) -> Array:
    """Replace the elements of ``x`` where the mask is false by the identity of the reduction."""
    if where is None:
        return x
    mask = mask_of(where)
    shape = lax.broadcast_shapes(mask.shape, x.shape)
    other = lax.full(shape, identity, x.dtype)
    return bind(ops.select, broadcast_to(mask, shape), broadcast_to(x, shape), other)


def sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a sum or product: narrow integers and bools widen to the default integers."""
    if dtype == BOOL:
        return _dtypes.default_int_dtype()
    if is_integer(dtype):
        unsigned = np.dtype(dtype).kind == "u" or dtype.name.startswith("u")
        default = _dtypes.default_uint_dtype() if unsigned else _dtypes.default_int_dtype()
        return default if _dtypes.itemsize_bits(dtype) < _dtypes.itemsize_bits(default) else dtype
    return dtype


def _accumulate(
    name: str,
    op: Callable[[Array, tuple[int, ...]], Array],
    combine: Callable[[Array, Array], Array],
    identity: int,
    a: Any,
    axis: Axis,
    dtype: Any,
    out: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
    promote_integers: bool = True,
) -> Array:
    no_out(name, out)
    x = as_array(name, a)
    if dtype is not None:
        wanted = _dtypes.check_user_dtype(dtype, name)
    else:
        wanted = sum_dtype(x.dtype) if promote_integers or x.dtype == BOOL else x.dtype
    x = masked(converted(x, wanted), where, identity)
    axes = axis_tuple(name, axis, x.ndim)
    if wanted == BOOL:
        # Sums and products of bools, if the caller requests the dtype bool.
        op, combine = _OF_BOOLS[combine]
    # Narrow floats are summed in f32 and rounded once.
    wide = wanted.itemsize < 4 and is_floating(wanted)
    work = converted(x, np.dtype(np.float32)) if wide else x
    result = converted(op(work, axes), wanted)
    if initial is not None:
        result = combine(result, _initial(name, initial, wanted, result.shape))
    return with_weak_type(_finish(x, result, axes, keepdims), False)


_OF_BOOLS: dict[Any, tuple[Any, Any]] = {
    lax.add: (lax.reduce_or, lax.bitwise_or),
    lax.mul: (lax.reduce_and, lax.bitwise_and),
}


def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The sum of elements over axes.

    Args:
      a: an array; bools and narrow integers are summed in the default integer dtype.
      axis: the axis or axes to reduce; None reduces all of them.
      dtype: the dtype of the sum.
      out: must be None, because arrays are immutable.
      keepdims: keep the reduced dimensions, with size one.
      initial: a value to add to the sum.
      where: a bool array that broadcasts with ``a``; elements where it is false are ignored.
      promote_integers: False sums narrow integers in their own dtype.
    Returns:
      An array; 0 over no elements.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.sum(gnp.array([[1, 2], [3, 4]]), axis=1)
      Array([3, 7], dtype=int32)
      >>> gnp.sum(gnp.array([[1, 2], [3, 4]]), axis=1, keepdims=True)
      Array([[3],
             [7]], dtype=int32)
      >>> gnp.sum(gnp.array([100, 100], dtype=gnp.int8))
      Array(200, dtype=int32)

    See also:
      `cumsum`, `nansum`, `mean`
    """
    if type(a) is ConcreteArray and dtype is out is initial is where is None and promote_integers:
        direct = eager.accumulated(reduce_sum, a, axis, keepdims)
        if direct is not None:
            return direct
    return _accumulate(
        "sum",
        lax.reduce_sum,
        lax.add,
        0,
        a,
        axis,
        dtype,
        out,
        keepdims,
        initial,
        where,
        promote_integers,
    )


def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The product of elements along axes.

    Args:
      a: an array; bools and narrow integers are multiplied in the default integer dtype.
      axis: the axis or axes to reduce; None reduces all of them.
      dtype: the dtype of the product.
      out: must be None, because arrays are immutable.
      keepdims: keep the reduced dimensions, with size one.
      initial: a number to multiply the product by.
      where: a bool array that broadcasts with ``a``; elements where it is false are ignored.
      promote_integers: False multiplies narrow integers in their own dtype.
    Returns:
      An array; 1 over no elements. Integers wrap around on overflow.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.prod(gnp.array([[1, 2], [3, 4]]), axis=0)
      Array([3, 8], dtype=int32)
      >>> gnp.prod(gnp.array([]))
      Array(1., dtype=float32)

    See also:
      `cumprod`, `nanprod`
    """
    if type(a) is ConcreteArray and dtype is out is initial is where is None and promote_integers:
        direct = eager.accumulated(np.multiply.reduce, a, axis, keepdims)
        if direct is not None:
            return direct
    return _accumulate(
        "prod",
        lax.reduce_prod,
        lax.mul,
        1,
        a,
        axis,
        dtype,
        out,
        keepdims,
        initial,
        where,
        promote_integers,
    )


def extreme_identity(name: str, dtype: np.dtype[Any]) -> Any:
    """The identity of max or min: an infinity if the dtype has infinities."""
    low = name.endswith("max")
    if is_complex(dtype):
        return complex(-math.inf if low else math.inf, 0)
    return (lowest if low else highest)(dtype)[()]


def _extreme(
    name: str,
    op: Callable[[Array, tuple[int, ...]], Array],
    combine: Callable[[Array, Array], Array],
    a: Any,
    axis: Axis,
    out: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
) -> Array:
    no_out(name, out)
    x = as_array(name, a)
    if where is not None and initial is None:
        raise ValueError(
            f"reduction operation {name} does not have an identity, so to use a where "
            "mask one has to specify 'initial'"
        )
    axes = axis_tuple(name, axis, x.ndim)
    if initial is None and 0 in [x.shape[i] for i in axes]:
        raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
    if where is not None:
        x = masked(x, where, extreme_identity(name, x.dtype))
    result = op(x, axes)
    if initial is not None:
        result = combine(result, _initial(name, initial, x.dtype, result.shape))
    return with_weak_type(_finish(x, result, axes, keepdims), False)


def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The largest element along axes; nan if there is a nan.

    The gradient is shared equally among elements that tie for the maximum.

    Args:
      a: an array or scalar; complex numbers are ordered by real part, then by imaginary part.
      axis: the axis or axes to reduce; None reduces all of them.
      out: must be None, because arrays are immutable.
      keepdims: keep the reduced dimensions, with size one.
      initial: the smallest value that the result may have; required over no elements.
      where: a bool array that broadcasts with ``a`` and selects elements; it requires ``initial``.
    Returns:
      An array of the dtype of ``a``.
    Raises:
      ValueError: there are no elements and no ``initial``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.max(gnp.array([[1, 5], [7, 2]]), axis=0)
      Array([7, 5], dtype=int32)
      >>> gnp.max(gnp.array([1.0, gnp.nan]))
      Array(nan, dtype=float32)
      >>> gnp.max(gnp.array([3.0, -1.0]), where=gnp.array([False, True]), initial=-gnp.inf)
      Array(-1., dtype=float32)

    See also:
      `maximum` of two arrays, `nanmax`, `argmax`
    """
    if type(a) is ConcreteArray and out is initial is where is None:
        direct = eager.largest(a, axis, keepdims)
        if direct is not None:
            return direct
    return _extreme("max", lax.reduce_max, lax.max, a, axis, out, keepdims, initial, where)


def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The smallest element along axes; nan if there is a nan.

    The gradient is shared equally among elements that tie for the minimum.

    Args:
      a: an array or scalar; complex numbers are ordered by real part, then by imaginary part.
      axis: the axis or axes to reduce; None reduces all of them.
      out: must be None, because arrays are immutable.
      keepdims: keep the reduced dimensions, with size one.
      initial: the largest value that the result may have; required over no elements.
      where: a bool array that broadcasts with ``a`` and selects elements; it requires ``initial``.
    Returns:
      An array of the dtype of ``a``.
    Raises:
      ValueError: there are no elements and no ``initial``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.min(gnp.array([[1, 5], [7, 2]]), axis=0)
      Array([1, 2], dtype=int32)
      >>> gnp.min(gnp.array([3.0, -1.0]), where=gnp.array([True, False]), initial=gnp.inf)
      Array(3., dtype=float32)

    See also:
      `minimum` of two arrays, `nanmin`, `argmin`
    """
    if type(a) is ConcreteArray and out is initial is where is None:
        direct = eager.smallest(a, axis, keepdims)
        if direct is not None:
            return direct
    return _extreme("min", lax.reduce_min, lax.min, a, axis, out, keepdims, initial, where)


amax, amin = max, min


def minmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    where: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """The smallest and the largest element over axes; see `min` and `max`.

    Args:
      a: an array.
      axis: the dimensions to reduce; all by default.
      out: must be None.
      keepdims: keep the reduced dimensions, with size one.
      initial: a scalar that takes part in both results, or a pair: the first takes part in the
        minimum, and the second in the maximum.
      where: a mask of the elements that take part, which needs ``initial``.
    Returns:
      The minima and the maxima, arrays of the dtype of ``a``.
    Raises:
      ValueError: there are no elements and no ``initial``, or a mask without ``initial``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> minmax(gnp.array([[2, 5], [8, -4]]), axis=1)
      (Array([ 2, -4], dtype=int32), Array([5, 8], dtype=int32))
    """
    low, high = initial if isinstance(initial, tuple) else (initial, initial)
    smallest = min(a, axis, out, keepdims, low, where)
    return smallest, max(a, axis, out, keepdims, high, where)


def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """The difference between the largest and the smallest element along axes.

    Args:
      a: an array with at least one element along the axes.
      axis: the axis or axes to reduce; None reduces all of them.
      out: must be None, because arrays are immutable.
      keepdims: keep the reduced dimensions, with size one.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.ptp(gnp.array([[1, 5], [7, 2]]), axis=1)
      Array([4, 5], dtype=int32)
    """
    no_out("ptp", out)
    return lax.sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


def truth_of(name: str, a: Any) -> Array:
    x = as_array(name, a)
    if x.dtype == BOOL:
        return x
    zero = constant_like(x, 0) if any_symbolic(x.shape) else np.zeros(x.shape, x.dtype)
    return bind(ops.ne, x, zero)


def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether at least one element along axes is true.

    Args:
      a: an array or scalar; elements other than zero are true, nan among them.
      axis: the axis or axes to reduce; None reduces all of them.
      out: must be None, because arrays are immutable.
      keepdims: keep the reduced dimensions, with size one.
      where: a bool array that broadcasts with ``a``; elements where it is false are ignored.
    Returns:
      A bool array. Over no elements it is False.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.any(gnp.array([[True, False], [False, False]]), axis=1)
      Array([ True, False], dtype=bool)
      >>> gnp.any(gnp.array([]))
      Array(False, dtype=bool)

    See also:
      `all`, `logical_or`
    """
    if type(a) is ConcreteArray and out is where is None:
        direct = eager.any_true(a, axis, keepdims)
        if direct is not None:
            return direct
    no_out("any", out)
    x = masked(truth_of("any", a), where, False)
    axes = axis_tuple("any", axis, x.ndim)
    return with_weak_type(_finish(x, lax.reduce_or(x, axes), axes, keepdims), False)


def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether all elements along axes are true.

    Args:
      a: an array or scalar; elements other than zero are true, nan among them.
      axis: the axis or axes to reduce; None reduces all of them.
      out: must be None, because arrays are immutable.
      keepdims: keep the reduced dimensions, with size one.
      where: a bool array that broadcasts with ``a``; elements where it is false are ignored.
    Returns:
      A bool array. Over no elements it is True.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.all(gnp.array([[True, False], [True, True]]), axis=1)
      Array([False,  True], dtype=bool)
      >>> gnp.all(gnp.array([]))
      Array(True, dtype=bool)

    See also:
      `any`, `logical_and`
    """
    if type(a) is ConcreteArray and out is where is None:
        direct = eager.all_true(a, axis, keepdims)
        if direct is not None:
            return direct
    no_out("all", out)
    x = masked(truth_of("all", a), where, True)
    axes = axis_tuple("all", axis, x.ndim)
    return with_weak_type(_finish(x, lax.reduce_and(x, axes), axes, keepdims), False)


def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """The number of elements along axes that are not zero.

    Args:
      a: an array of any dtype; nan counts.
      axis: the axis or axes to reduce; None reduces all of them.
      keepdims: keep the reduced dimensions, with size one.
    Returns:
      An array of integers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.count_nonzero(gnp.array([[0, 1, 7], [3, 0, 0]]), axis=1)
      Array([2, 1], dtype=int32)
    """
    return sum(truth_of("count_nonzero", a), axis, keepdims=keepdims)


# ------------------------------------------------------------------------------------- positions


def _arg_extreme(name: str, a: Any, axis: int | None, out: Any, keepdims: bool | None) -> Array:
    no_out(name, out)
    if type(a) is ConcreteArray:
        method = np.ndarray.argmax if name == "argmax" else np.ndarray.argmin
        direct = eager.position(method, a, axis, keepdims)
        if direct is not None:
            return direct
    x = as_array(name, a)
    rank = x.ndim
    if axis is None:
        flat, place = ravel(x), 0
    else:
        flat, place = x, canonical_axis(axis, x.ndim)
    if flat.shape[place] == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence")
    find = lax.argmax if name == "argmax" else lax.argmin
    result = find(flat, place, _dtypes.default_int_dtype())
    if not keepdims:
        return result
    return reshape(result, (1,) * rank) if axis is None else expand_dims(result, place)


def argmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The index of the largest element along an axis; of the first one, if several tie.

    Without an axis it is the index into the flat array.

    Args:
      a: an array of real numbers or bools with at least one element; the first nan counts as
        largest.
      axis: the axis; None searches the flattened array and returns an index into it.
      out: must be None, because arrays are immutable.
      keepdims: keep the searched dimension, with size one.
    Returns:
      An array of integers.
    Raises:
      ValueError: there are no elements.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.argmax(gnp.array([[1, 9], [7, 7]]), axis=1)
      Array([1, 0], dtype=int32)
      >>> gnp.argmax(gnp.array([[1, 2], [9, 0]]))
      Array(2, dtype=int32)

    See also:
      `max`, `nanargmax`, `unravel_index`
    """
    return _arg_extreme("argmax", a, axis, out, keepdims)


def argmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The index of the smallest element along an axis; of the first one, if several tie.

    Args:
      a: an array of real numbers or bools with at least one element; the first nan counts as
        smallest.
      axis: the axis; None searches the flattened array and returns an index into it.
      out: must be None, because arrays are immutable.
      keepdims: keep the searched dimension, with size one.
    Returns:
      An array of integers.
    Raises:
      ValueError: there are no elements.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.argmin(gnp.array([[1, 9], [7, 7]]), axis=1)
      Array([0, 0], dtype=int32)
      >>> gnp.argmin(gnp.array([3.0, gnp.nan, 1.0]))
      Array(1, dtype=int32)

    See also:
      `min`, `nanargmin`
    """
    return _arg_extreme("argmin", a, axis, out, keepdims)
