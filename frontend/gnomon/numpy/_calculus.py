"""Differences, integrals and moments of sampled functions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon.dialects.types import is_complex, is_inexact
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._accumulations import cumsum, diff
from gnomon.numpy._arguments import as_array, axis_tuple, promoted
from gnomon.numpy._creation import full, zeros
from gnomon.numpy._diagonals import diag
from gnomon.numpy._division import mod
from gnomon.numpy._joining import concatenate
from gnomon.numpy._linear_algebra import dot
from gnomon.numpy._manipulation import atleast_2d, expand_dims, moveaxis, ravel, reshape, transpose
from gnomon.numpy._moments import average
from gnomon.numpy._reductions import sum as sum_
from gnomon.numpy._selection import clip, where
from gnomon.numpy._ufuncs import abs as abs_
from gnomon.numpy._ufuncs import sqrt


def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """The differences between neighbours in a flattened array.

    Args:
      ary: an array.
      to_end, to_begin: values to put after and before the differences; they are converted to the
        dtype of ``ary``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.ediff1d(gnp.array([1, 4, 9]), to_end=-1)
      Array([ 3,  5, -1], dtype=int32)

    See also:
      `diff`
    """
    x = ravel(as_array("ediff1d", ary))
    parts = [x[1:] - x[:-1]]
    for given, place in ((to_begin, 0), (to_end, len(parts) + 1)):
        if given is not None:
            extra = lax.convert_element_type(ravel(as_array("ediff1d", given)), x.dtype)
            parts.insert(place, extra)
    return parts[0] if len(parts) == 1 else concatenate(parts)


def gradient(
    f: ArrayLike,
    *varargs: ArrayLike,
    axis: int | Sequence[int] | None = None,
    edge_order: int | None = None,
) -> Array | list[Array]:
    """Derivatives by central differences; at the ends by one-sided differences.

    Args:
      f: samples of a function.
      varargs: the distance between samples, or their coordinates; one for all axes, or one for
        each.
      axis: the axes; all of them by default.
      edge_order: not supported.
    Returns:
      An array, or a list of arrays if there are several axes.
    Raises:
      ValueError: an axis has fewer than two samples, or coordinates do not fit.
      TypeError: there are several distances, but not one for each axis.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.gradient(gnp.array([1.0, 2.0, 4.0, 7.0]))
      Array([1. , 1.5, 2.5, 3. ], dtype=float32)
    """
    if edge_order is not None:
        raise NotImplementedError("gradient: the argument edge_order is not supported")
    x, *spacing = promoted("gradient", f, *varargs, inexact=True)
    axes = axis_tuple("gradient", axis, x.ndim)
    if not axes:
        return []
    if min(x.shape[d] for d in axes) < 2:
        raise ValueError(
            f"gradient takes at least two samples along each axis, got shape {x.shape}"
        )
    if len(spacing) not in (0, 1, len(axes)):
        raise TypeError(
            f"gradient: for {len(axes)} axes, pass zero, one or {len(axes)} spacings, got "
            f"{len(spacing)}"
        )
    each: list[Any] = spacing or [1.0]
    steps = each * len(axes) if len(each) == 1 else each
    found = [_gradient_along(x, h, d) for d, h in zip(axes, steps, strict=True)]
    return found[0] if len(found) == 1 else found


def _gradient_along(x: Array, h: Any, axis: int) -> Array:
    size = x.shape[axis]
    part = partial(lax.slice_in_dim, x, axis=axis)
    first, last = part(1, 2) - part(0, 1), part(size - 1, size) - part(size - 2, size - 1)
    if np.ndim(h) == 0:
        inner = (part(2, size) - part(0, size - 2)) * 0.5 / h
        return concatenate([first / h, inner, last / h], axis)
    if np.ndim(h) != 1 or h.shape[0] != size:
        raise ValueError(
            f"gradient: coordinates along axis {axis} must be a vector of {size} numbers, got "
            f"shape {np.shape(h)}"
        )
    gaps = reshape(diff(h), tuple(size - 1 if d == axis else 1 for d in range(x.ndim)))
    gap = partial(lax.slice_in_dim, gaps, axis=axis)
    before, after = gap(0, size - 2), gap(1, size - 1)
    inner = (
        part(0, size - 2) * (-after / (before * (before + after)))
        + part(1, size - 1) * ((after - before) / (before * after))
        + part(2, size) * (before / (after * (before + after)))
    )
    return concatenate([first / gap(0, 1), inner, last / gap(size - 2, size - 1)], axis)


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """The integral of a sampled function by the trapezoidal rule.

    Args:
      y: samples.
      x: the coordinates of the samples; None if they are equidistant.
      dx: the distance between samples, if there are no coordinates.
      axis: the axis to integrate along.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.trapezoid(gnp.array([1.0, 2.0, 3.0]), dx=2.0)
      Array(8., dtype=float32)
    """
    if x is None:
        (values,) = promoted("trapezoid", y, inexact=True)
        gaps: Any = as_array("trapezoid", dx, 1)
        if gaps.ndim:
            gaps = expand_dims(gaps, tuple(range(values.ndim - gaps.ndim)))
            gaps = moveaxis(gaps, axis, -1)
    else:
        values, points = promoted("trapezoid", y, x, inexact=True)
        gaps = diff(points) if points.ndim == 1 else moveaxis(diff(points, axis=axis), axis, -1)
    values = moveaxis(values, axis, -1)
    if gaps.ndim == 0 or gaps.shape[-1] == 1:
        gap = gaps if gaps.ndim == 0 else gaps[..., 0]
        return gap * (sum_(values, axis=-1) - 0.5 * (values[..., 0] + values[..., -1]))
    return 0.5 * sum_(gaps * (values[..., 1:] + values[..., :-1]), axis=-1)


def unwrap(
    p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * np.pi
) -> Array:
    """Remove the jumps from a sequence of angles by adding whole periods.

    Args:
      p: an array of angles.
      discont: the smallest difference that counts as a jump; None means half a period.
      axis: the axis along which the angles follow each other.
      period: the period.
    Raises:
      ValueError: an argument is complex.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.unwrap(gnp.array([0, 3, 1, 4]), period=4)
      Array([ 0, -1, -3, -4], dtype=int32)
    """
    x, cycle = promoted("unwrap", p, period)
    if is_complex(x.dtype):
        raise ValueError(f"unwrap takes real numbers, got {x.dtype.name}")
    axis = canonical_axis(axis, x.ndim)
    if x.shape[axis] == 0:
        return x
    half = cycle // 2 if _dtypes.issubdtype(x.dtype, np.integer) else cycle / 2
    limit = cycle / 2 if discont is None else discont
    steps = diff(x, axis=axis)
    reduced = mod(steps + half, cycle) - half
    reduced = where((reduced == -half) & (steps > 0), half, reduced)
    corrections = where(abs_(steps) < limit, 0, reduced - steps)
    first = lax.slice_in_dim(x, 0, 1, axis=axis)
    rest = lax.slice_in_dim(x, 1, x.shape[axis], axis=axis)
    return concatenate([first, rest + cumsum(corrections, axis=axis)], axis)


# ----------------------------------------------------------------------------------------- moments


def _sample_weights(name: str, given: Any, count: int, integers: bool) -> Array:
    weights = as_array("cov", given)
    if weights.ndim > 1:
        raise RuntimeError(f"cov: {name} must be a vector, got shape {weights.shape}")
    if weights.shape[0] != count:
        raise RuntimeError(f"cov: {name} must have one number for each of {count} observations")
    if integers and not _dtypes.issubdtype(weights.dtype, np.integer):
        raise TypeError(f"cov: {name} must be integers, got {weights.dtype.name}")
    return abs_(weights)


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """The covariance matrix of variables, estimated from observations.

    Args:
      m: an array with a row for each variable and a column for each observation.
      y: more variables.
      rowvar: False means that the columns are variables.
      bias: divide by the number of observations instead of one less.
      fweights: the number of times that each observation counts.
      aweights: the weight of each observation.
      dtype: the dtype of the computation.
      ddof: the number that is subtracted from the number of observations in the divisor; it
        replaces ``bias``.
    Raises:
      ValueError: an array has more than two dimensions, or the dtype is not inexact.
      RuntimeError, TypeError: the weights do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.cov(gnp.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]))
      Array([[1., 2.],
             [2., 4.]], dtype=float32)
      >>> gnp.cov(gnp.array([1.0, 2.0, 3.0]), bias=True).round(4)
      Array(0.6667, dtype=float32)

    See also:
      `corrcoef`, `var`
    """
    if y is None:
        (x,) = promoted("cov", m, inexact=True)
    else:
        x, more = promoted("cov", m, y, inexact=True)
        if more.ndim > 2:
            raise ValueError("cov: y has more than 2 dimensions")
    if x.ndim > 2:
        raise ValueError("cov: m has more than 2 dimensions")
    target = _inexact_dtype("cov", dtype)
    rows = atleast_2d(x)
    if not rowvar and x.ndim != 1:
        rows = transpose(rows)
    if rows.shape[0] == 0:
        return zeros((0, 0), _dtypes.default_float_dtype())
    if y is not None:
        more = atleast_2d(more)
        if not rowvar and more.shape[0] != 1:
            more = transpose(more)
        rows = concatenate([rows, more], 0)
    variables, count = rows.shape
    if count == 0:
        return full(() if variables == 1 else (variables, variables), np.nan, rows.dtype)
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights = None
    if fweights is not None:
        weights = _sample_weights("fweights", fweights, count, integers=True)
    if aweights is not None:
        analytic = _sample_weights("aweights", aweights, count, integers=False)
        weights = analytic if weights is None else weights * analytic
    if target is not None:
        rows = lax.convert_element_type(rows, target)
        weights = None if weights is None else lax.convert_element_type(weights, target)
    mean, total = average(rows, axis=1, weights=weights, returned=True)
    divisor: Any
    if weights is None:
        divisor = count - ddof
    elif ddof == 0:
        divisor = total[0]
    elif aweights is None:
        divisor = total[0] - ddof
    else:
        divisor = total[0] - ddof * sum_(weights * analytic) / total[0]
    centred = rows - mean[:, None]
    weighted = centred if weights is None else centred * weights[None]
    other = transpose(weighted)
    product: Any = dot(centred, lax.conj(other) if is_complex(rows.dtype) else other)
    return (product / divisor).squeeze()


def _inexact_dtype(function: str, dtype: Any) -> Any:
    if dtype is None:
        return None
    target = _dtypes.check_user_dtype(dtype, function)
    if not is_inexact(target):
        raise ValueError(f"{function}: dtype must be floating or complex, got {target.name}")
    return target


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None
) -> Array:
    """The matrix of correlation coefficients between variables.

    Args:
      x: an array with a row for each variable and a column for each observation.
      y: further variables, in the layout of ``x``.
      rowvar: False means that the columns of ``x`` are the variables.
      dtype: the dtype of the computation; None means the inexact dtype of ``x``.
    Returns:
      A matrix with ones on its diagonal; nan for a variable that is constant.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.corrcoef(gnp.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
      Array([[ 1., -1.],
             [-1.,  1.]], dtype=float32)

    See also:
      `cov`
    """
    _inexact_dtype("corrcoef", dtype)
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    deviations = lax.convert_element_type(sqrt(diag(c).real), c.dtype)
    c = c / deviations[:, None] / deviations[None, :]
    if is_complex(c.dtype):
        return lax.complex(clip(c.real, -1, 1), clip(c.imag, -1, 1))
    return clip(c, -1, 1)


__all__ = ["corrcoef", "cov", "ediff1d", "gradient", "trapezoid", "unwrap"]
