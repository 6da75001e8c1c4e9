"""Reductions and cumulative functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon import _dtypes, lax
from gnomon._array import Array, ConcreteArray
from gnomon._tracing import bind
from gnomon.dialects.combinators import highest, lowest
from gnomon.dialects.emit import ops
from gnomon.dialects.types import BOOL, is_complex, is_floating, is_inexact, is_integer, real_dtype
from gnomon.lax._creation import converted
from gnomon.lax._operands import with_weak_type
from gnomon.lax._structural import canonical_axis
from gnomon.numpy import _eager_reductions as eager
from gnomon.numpy._arguments import as_array, axis_tuple, promoted
from gnomon.numpy._manipulation import broadcast_to, expand_dims, ravel, reshape

Axis = int | Sequence[int] | None


def _no_out(name: str, out: Any) -> None:
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to gnomon.numpy.{name} is not supported.")


def _finish(x: Array, result: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    if not keepdims:
        return result
    return reshape(result, tuple(1 if i in axes else n for i, n in enumerate(x.shape)))


def _mask(where: Any) -> Array:
    mask = as_array("where", where)
    if mask.dtype != BOOL:
        raise ValueError(f"where must be None or a boolean array, got dtype {mask.dtype}")
    return mask


def _masked(x: Array, where: Any, identity: Any) -> Array:
    """``x`` with the identity of the reduction where the mask is false."""
    if where is None:
        return x
    mask = _mask(where)
    shape = lax.broadcast_shapes(mask.shape, x.shape)
    other = lax.full(shape, identity, x.dtype)
    return bind(ops.select, broadcast_to(mask, shape), broadcast_to(x, shape), other)


def _sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a sum or product: narrow integers and bools widen to the default one."""
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
    _no_out(name, out)
    x = as_array(name, a)
    if dtype is not None:
        wanted = _dtypes.check_user_dtype(dtype, name)
    else:
        wanted = _sum_dtype(x.dtype) if promote_integers or x.dtype == BOOL else x.dtype
    x = _masked(converted(x, wanted), where, identity)
    axes = axis_tuple(name, axis, x.ndim)
    if wanted == BOOL:
        # Sums and products of truth values, which a caller asks for by dtype.
        op, combine = _OF_BOOLS[combine]
    # Small floats are summed in f32 and rounded once.
    wide = wanted.itemsize < 4 and is_floating(wanted)
    work = converted(x, np.dtype(np.float32)) if wide else x
    result = converted(op(work, axes), wanted)
    if initial is not None:
        result = combine(
            result, broadcast_to(converted(as_array(name, initial), wanted), result.shape)
        )
    return with_weak_type(_finish(x, result, axes, keepdims), False)


_OF_BOOLS: dict[Any, tuple[Any, Any]] = {
    lax.add: (lax.reduce_or, lax.bitwise_or),
    lax.mul: (lax.reduce_and, lax.bitwise_and),
}


def sum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Array:
    """The sum of elements over axes.

    Args:
      a: an array; bools and narrow integers are summed in the default integer dtype.
      axis: one axis, several, or None for all.
      dtype: of the sum.
      keepdims: keep reduced dimensions with size one.
      initial: added to the sum.
      where: a mask of the elements to sum, broadcast against ``a``.
    """
    if type(a) is ConcreteArray and dtype is out is initial is where is None and promote_integers:
        direct = eager.accumulated(np.add.reduce, a, axis, keepdims)
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
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Array:
    """The product of elements over axes; arguments as in `sum`."""
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
    """What no element is below (for maxima) or above: infinite where the dtype has that."""
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
    _no_out(name, out)
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
        x = _masked(x, where, extreme_identity(name, x.dtype))
    result = op(x, axes)
    if initial is not None:
        result = combine(
            result, broadcast_to(converted(as_array(name, initial), x.dtype), result.shape)
        )
    return with_weak_type(_finish(x, result, axes, keepdims), False)


def max(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """The largest element over axes; nan wins. Its gradient is shared equally among ties.

    Raises:
      ValueError: over no elements without ``initial``.
    """
    if type(a) is ConcreteArray and out is initial is where is None:
        direct = eager.largest(a, axis, keepdims)
        if direct is not None:
            return direct
    return _extreme("max", lax.reduce_max, lax.max, a, axis, out, keepdims, initial, where)


def min(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """The smallest element over axes; nan wins. See `max`."""
    if type(a) is ConcreteArray and out is initial is where is None:
        direct = eager.smallest(a, axis, keepdims)
        if direct is not None:
            return direct
    return _extreme("min", lax.reduce_min, lax.min, a, axis, out, keepdims, initial, where)


amax, amin = max, min


def ptp(a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """The largest element minus the smallest, over axes."""
    _no_out("ptp", out)
    return lax.sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


def _truth(name: str, a: Any) -> Array:
    x = as_array(name, a)
    return x if x.dtype == BOOL else bind(ops.ne, x, np.zeros(x.shape, x.dtype))


def any(
    a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """Whether an element over axes is true (not zero)."""
    if type(a) is ConcreteArray and out is where is None:
        direct = eager.any_true(a, axis, keepdims)
        if direct is not None:
            return direct
    _no_out("any", out)
    x = _masked(_truth("any", a), where, False)
    axes = axis_tuple("any", axis, x.ndim)
    return with_weak_type(_finish(x, lax.reduce_or(x, axes), axes, keepdims), False)


def all(
    a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """Whether all elements over axes are true (not zero)."""
    if type(a) is ConcreteArray and out is where is None:
        direct = eager.all_true(a, axis, keepdims)
        if direct is not None:
            return direct
    _no_out("all", out)
    x = _masked(_truth("all", a), where, True)
    axes = axis_tuple("all", axis, x.ndim)
    return with_weak_type(_finish(x, lax.reduce_and(x, axes), axes, keepdims), False)


def count_nonzero(a: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """The number of elements over axes that are not zero."""
    return sum(_truth("count_nonzero", a), axis, keepdims=keepdims)


def _count(
    x: Array, axes: tuple[int, ...], where: Any, dtype: np.dtype[Any], keepdims: bool = True
) -> Any:
    """The number of elements reduced into each result."""
    if where is None:
        return lax.full((), math.prod(x.shape[i] for i in axes), dtype)
    mask = broadcast_to(_mask(where), lax.broadcast_shapes(np.shape(where), x.shape))
    return sum(converted(mask, dtype), axes, keepdims=keepdims)


def _mean(x: Array, axes: tuple[int, ...], where: Any, keepdims: bool = True) -> Array:
    """The mean of an inexact array."""
    total = sum(x, axes, keepdims=keepdims, where=where)
    count = _count(x, axes, where, x.dtype, keepdims)
    return lax.div(total, broadcast_to(count, total.shape))


def mean(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Array:
    """The arithmetic mean over axes, in an inexact dtype; over no elements nan."""
    if type(a) is ConcreteArray and dtype is out is where is None:
        direct = eager.mean(a, axis, keepdims)
        if direct is not None:
            return direct
    _no_out("mean", out)
    x = as_array("mean", a)
    wanted = (
        _dtypes.to_inexact_dtype(x.dtype)
        if dtype is None
        else _dtypes.check_user_dtype(dtype, "mean")
    )
    work = np.dtype(np.float32) if is_floating(wanted) and wanted.itemsize < 4 else wanted
    work = work if is_inexact(work) else _dtypes.to_inexact_dtype(work)
    axes = axis_tuple("mean", axis, x.ndim)
    result = converted(_mean(converted(x, work), axes, where, keepdims), wanted)
    return with_weak_type(result, False)


def _dropped(x: Array, axes: tuple[int, ...]) -> Array:
    return reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


def average(
    a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """The weighted mean over axes; with ``returned`` a pair of it and the sum of the weights."""
    x = as_array("average", a)
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        axes = axis_tuple("average", axis, x.ndim)
        total = lax.full_like(result, math.prod(x.shape[i] for i in axes))
        return (result, total) if returned else result
    x, w = promoted("average", x, weights, inexact=True)
    if w.shape != x.shape:
        if not isinstance(axis, (int, np.integer)) or w.ndim != 1:
            raise ValueError(
                "1D weights expected when shapes of a and weights differ, with an axis."
            )
        place = canonical_axis(axis, x.ndim)
        if w.shape[0] != x.shape[place]:
            raise ValueError("Length of weights not compatible with specified axis.")
        w = broadcast_to(reshape(w, tuple(-1 if i == place else 1 for i in range(x.ndim))), x.shape)
    total = sum(w, axis, keepdims=keepdims)
    result = lax.div(sum(lax.mul(x, w), axis, keepdims=keepdims), total)
    return (result, total) if returned else result


def var(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: int | float | None = None,
) -> Array:
    """The variance over axes: the mean of squared distances from the mean.

    Args:
      ddof, correction: subtracted from the number of elements in the divisor (give one of them).
      mean: the mean, where it is known; it broadcasts against ``a``.

    Raises:
      ValueError: the dtype is not inexact, or it is real and the array complex.
    """
    _no_out("var", out)
    if correction is not None:
        if ddof:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction  # type: ignore[assignment]
    if type(a) is ConcreteArray and dtype is where is mean is None:
        direct = eager.variance(a, axis, keepdims, ddof)
        if direct is not None:
            return direct
    x = as_array("var", a)
    given = _dtypes.to_inexact_dtype(x.dtype)
    wanted = real_dtype(given) if dtype is None else _dtypes.check_user_dtype(dtype, "var")
    if not is_inexact(wanted):
        raise ValueError(f"var: dtype argument must be inexact, got {wanted.name}")
    if dtype is not None and is_complex(given) and not is_complex(wanted):
        raise ValueError(f"var: of an array of {x.dtype}, dtype {wanted.name} is not supported")
    work = np.dtype(np.float32) if is_floating(given) and given.itemsize < 4 else given
    x = converted(x, work)
    axes = axis_tuple("var", axis, x.ndim)
    centre = _mean(x, axes, where) if mean is None else converted(as_array("var", mean), work)
    centered = lax.sub(x, broadcast_to(centre, x.shape))
    if is_complex(work):
        squares = lax.add(lax.square(lax.real(centered)), lax.square(lax.imag(centered)))
    else:
        squares = lax.square(centered)
    total = sum(squares, axes, keepdims=True, where=where)
    count = lax.sub(
        _count(x, axes, where, squares.dtype), lax.convert_element_type(ddof, squares.dtype)
    )
    # A divisor that is not positive gives nan, as in NumPy.
    count = lax.select(
        lax.gt(count, lax.full_like(count, 0)), count, lax.full_like(count, math.nan)
    )
    result = converted(lax.div(total, broadcast_to(count, total.shape)), wanted)
    return with_weak_type(result if keepdims else _dropped(result, axes), False)


def std(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: int | float | None = None,
) -> Array:
    """The standard deviation over axes: the square root of `var`."""
    _no_out("std", out)
    return lax.sqrt(
        var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    )


# ------------------------------------------------------------------------------------- positions


def _arg_extreme(name: str, a: Any, axis: int | None, out: Any, keepdims: bool | None) -> Array:
    _no_out(name, out)
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
    a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The position of the first largest element (or the first nan) along an axis, or of the
    flat array.
    """
    return _arg_extreme("argmax", a, axis, out, keepdims)


def argmin(
    a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The position of the first smallest element (or the first nan); see `argmax`."""
    return _arg_extreme("argmin", a, axis, out, keepdims)


# ------------------------------------------------------------------------------------ cumulative


def _cumulative(
    name: str, op: Callable[..., Array], a: Any, axis: int | None, dtype: Any, out: Any
) -> Array:
    _no_out(name, out)
    x = as_array(name, a)
    if axis is None:
        x, axis = ravel(x), 0
    place = canonical_axis(axis, x.ndim)
    if dtype is not None:
        wanted = _dtypes.check_user_dtype(dtype, name)
    else:
        wanted = _dtypes.default_int_dtype() if x.dtype == BOOL else x.dtype
    if wanted == BOOL:  # Truth values are counted, so that they do not cancel.
        return converted(op(converted(_truth(name, x), _dtypes.default_int_dtype()), place), BOOL)
    return op(converted(x, wanted), place)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """Sums of all elements up to each, along an axis; without one, of the flat array."""
    return _cumulative("cumsum", lax.cumsum, a, axis, dtype, out)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """Products of all elements up to each, along an axis; without one, of the flat array."""
    return _cumulative("cumprod", lax.cumprod, a, axis, dtype, out)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """`cumsum` in the array API's form; with ``include_initial`` a zero comes first."""
    array = as_array("cumulative_sum", x)
    if axis is None:
        if array.ndim != 1:
            raise ValueError(
                f"cumulative_sum: axis must be given for an array of {array.ndim} dimensions"
            )
        axis = 0
    place = canonical_axis(axis, array.ndim)
    wanted = _sum_dtype(array.dtype) if dtype is None else dtype
    result = cumsum(array, place, wanted)
    if not include_initial:
        return result
    config = [(1 if i == place else 0, 0, 0) for i in range(result.ndim)]
    return lax.pad(result, lax.full((), 0, result.dtype), config)


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Array:
    """Differences of neighbours along an axis, ``n`` times."""
    x = as_array("diff", a)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if n == 0:
        return x
    if x.ndim == 0:
        raise ValueError(f"diff requires input that is at least one dimensional; got {x.aval}")
    place = canonical_axis(axis, x.ndim)
    parts = []
    for part in (prepend, x, append):
        if part is None:
            continue
        array = as_array("diff", part)
        if array.ndim == 0:
            array = broadcast_to(
                array, tuple(1 if i == place else s for i, s in enumerate(x.shape))
            )
        parts.append(array)
    if len(parts) > 1:
        x = lax.concatenate(promoted("diff", *parts), place)
    for _ in range(n):
        high = lax.slice_in_dim(x, 1, None, axis=place)
        low = lax.slice_in_dim(x, 0, -1, axis=place)
        x = lax.ne(high, low) if x.dtype == BOOL else lax.sub(high, low)
    return x


# ------------------------------------------------------------------------------ ignoring nan


def _without_nan(name: str, a: Any, replacement: Any) -> tuple[Array, Array]:
    """The array with nans replaced, and where there were none."""
    x = as_array(name, a)
    if not is_inexact(x.dtype):
        return x, lax.full(x.shape, True, BOOL)
    valid = bind(ops.eq, x, x)
    return bind(ops.select, valid, x, lax.full_like(x, replacement)), valid


def nansum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """`sum` with nan counting as zero."""
    return sum(_without_nan("nansum", a, 0)[0], axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """`prod` with nan counting as one."""
    return prod(_without_nan("nanprod", a, 1)[0], axis, dtype, out, keepdims, initial, where)


def _nan_extreme(
    name: str,
    reduce: Callable[..., Array],
    a: Any,
    axis: Axis,
    keepdims: bool,
    initial: Any,
    where: Any,
) -> Array:
    array = as_array(name, a)
    x, valid = _without_nan(name, array, extreme_identity(name, array.dtype))
    result = reduce(x, axis, keepdims=keepdims, initial=initial, where=where)
    if initial is not None or not is_inexact(x.dtype):
        return result
    some = any(valid, axis, keepdims=keepdims)
    return lax.select(some, result, lax.full_like(result, math.nan))


def nanmax(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """`max` of the elements that are not nan; where there are none, ``initial``, or else nan."""
    _no_out("nanmax", out)
    return _nan_extreme("nanmax", max, a, axis, keepdims, initial, where)


def nanmin(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """`min` of the elements that are not nan; where there are none, ``initial``, or else nan."""
    _no_out("nanmin", out)
    return _nan_extreme("nanmin", min, a, axis, keepdims, initial, where)


def _valid_where(name: str, a: Any, where: Any) -> tuple[Array, Array]:
    """The array without nans, and where there were none among those that are asked for."""
    x, valid = _without_nan(name, a, 0)
    if where is None:
        return x, valid
    mask = _mask(where)
    shape = lax.broadcast_shapes(mask.shape, x.shape)
    valid = lax.bitwise_and(broadcast_to(valid, shape), broadcast_to(mask, shape))
    return broadcast_to(x, shape), valid


def nanmean(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    where: Any = None,
) -> Array:
    """`mean` of the elements that are not nan; nan where there are none."""
    _no_out("nanmean", out)
    x, valid = _valid_where("nanmean", a, where)
    return mean(x, axis, dtype, None, keepdims, where=valid)


def nanvar(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Array:
    """`var` of the elements that are not nan; nan where there are too few."""
    _no_out("nanvar", out)
    x, valid = _valid_where("nanvar", a, where)
    return var(x, axis, dtype, None, ddof, keepdims, where=valid, mean=mean)


def nanstd(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Array:
    """The square root of `nanvar`."""
    return lax.sqrt(nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))


__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "average",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "prod",
    "ptp",
    "std",
    "sum",
    "var",
]
