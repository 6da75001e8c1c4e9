"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon.numpy import linalg
from gnomon.numpy._arguments import as_array, promoted
from gnomon.numpy._creation import full, ones, zeros
from gnomon.numpy._joining import concatenate, stack
from gnomon.numpy._linear_algebra import dot
from gnomon.numpy._manipulation import atleast_1d, broadcast_arrays, expand_dims, transpose
from gnomon.numpy._placement import trim_zeros
from gnomon.numpy._ranges import arange, vander
from gnomon.numpy._reductions import all as all_
from gnomon.numpy._reductions import argmin
from gnomon.numpy._reductions import sum as sum_
from gnomon.numpy._repetition import roll
from gnomon.numpy._selection import where
from gnomon.numpy._signals import convolve
from gnomon.numpy._sorting import argsort
from gnomon.numpy._ufuncs import add, sqrt


def _with_zeros(p: Array, count: int) -> Array:
    """The same polynomial with ``count`` coefficients, padded with zeros at the front."""
    missing = count - p.shape[0]
    if not missing:
        return p
    return concatenate([zeros((missing, *p.shape[1:]), p.dtype), p])


def _coefficients(function: str, *polynomials: ArrayLike, inexact: bool = False) -> list[Array]:
    """Coefficients of a common dtype. A number is a polynomial with one coefficient."""
    return [atleast_1d(p) for p in promoted(function, *polynomials, inexact=inexact)]


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.

    Args:
      a1, a2: vectors of coefficients, the highest power first; they may have different lengths.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.polyadd(gnp.array([1, 2, 3]), gnp.array([10, 20]))
      Array([ 1, 12, 23], dtype=int32)
    """
    p, q = _coefficients("polyadd", a1, a2)
    count = max(p.shape[0], q.shape[0])
    return add(*broadcast_arrays(_with_zeros(p, count), _with_zeros(q, count)))


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.

    Args:
      a1, a2: vectors of coefficients, the highest power first; they may have different lengths.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.polysub(gnp.array([1, 2, 3]), gnp.array([10, 20]))
      Array([  1,  -8, -17], dtype=int32)
    """
    p, q = _coefficients("polysub", a1, a2)
    return polyadd(p, -q)


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials.

    Args:
      a1, a2: vectors of coefficients, the highest power first.
      trim_leading_zeros: first drop leading zeros, which is not possible for traced arrays.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.polymul(gnp.array([1, 2]), gnp.array([1, -2]))
      Array([ 1.,  0., -4.], dtype=float32)
    """
    p, q = _coefficients("polymul", a1, a2, inexact=True)
    if trim_leading_zeros and (p.shape[0] > 1 or q.shape[0] > 1):
        p, q = trim_zeros(p, "f"), trim_zeros(q, "f")
    if not p.shape[0]:
        p = zeros((1,), q.dtype)
    if not q.shape[0]:
        q = zeros((1,), p.dtype)
    return convolve(p, q)


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """The quotient and the remainder of two polynomials.

    Args:
      u, v: coefficients.
      trim_leading_zeros: drop leading coefficients of the remainder that are close to zero.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.polydiv(gnp.array([1.0, 3.0, 2.0]), gnp.array([1.0, 1.0]))
      (Array([1., 2.], dtype=float32), Array([0., 0., 0.], dtype=float32))
    """
    p, q = _coefficients("polydiv", u, v, inexact=True)
    steps, degree = p.shape[0] - q.shape[0] + 1, q.shape[0]
    if steps <= 0:
        return zeros((1,), p.dtype), p
    scale = 1.0 / q[0]
    quotient = []
    for k in range(steps):
        factor = scale * p[k]
        quotient.append(factor)
        target: Any = p
        p = target.at[k : k + degree].add(-factor * q)
    if trim_leading_zeros:
        # Numbers below the square root of the dtype's epsilon count as zero.
        tolerance = math.sqrt(float(np.finfo(p.dtype).eps))
        above = np.flatnonzero(np.abs(np.asarray(p)) > tolerance)
        p = p[int(above[0]) :] if above.size else p[p.shape[0] :]
    return stack(quotient), p


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The values of a polynomial, by Horner's rule.

    Args:
      p: coefficients along the first dimension; the other dimensions are broadcast with ``x``.
      x: the points at which to evaluate.
      unroll: the number of steps in one iteration of the loop.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.polyval(gnp.array([1, 2, 3]), 2)
      Array(11, dtype=int32)
    """
    coefficients, at = promoted("polyval", p, x)
    coefficients = atleast_1d(coefficients)
    shape = lax.broadcast_shapes(coefficients.shape[1:], at.shape)
    value = full(shape, 0, at.dtype)
    if coefficients.shape[0] <= unroll:
        for k in range(coefficients.shape[0]):
            value = value * at + coefficients[k]
        return value
    last, _ = lax.scan(lambda y, c: (y * at + c, None), value, coefficients, unroll=unroll)
    return last


def _falling(count: int, m: int) -> np.ndarray:
    """``n (n - 1) ... (n - m + 1)`` for ``n`` from ``count - 1`` down."""
    return np.array([math.perm(n, m) for n in range(count - 1, -1, -1)], np.float64)


def _order(function: str, m: Any) -> int:
    order = operator.index(m)
    if order < 0:
        raise ValueError(f"{function}: the order must be positive, got {order}")
    return order


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The ``m``-th derivative of a polynomial.

    Args:
      p: a vector of coefficients, the highest power first.
      m: the order of the derivative, an int that is not negative.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.polyder(gnp.array([1, 2, 3]))
      Array([2., 2.], dtype=float32)

    See also:
      `polyint`
    """
    (c,) = _coefficients("polyder", p, inexact=True)
    m = _order("polyder", m)
    if m == 0:
        return c
    kept = max(c.shape[0] - m, 0)
    factors = _falling(c.shape[0], m)[:kept]
    return c[:kept] * wrap(factors.astype(c.dtype))


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """The ``m``-th integral of a polynomial.

    Args:
      p: a vector of coefficients, the highest power first.
      m: the number of integrations.
      k: the constants of integration: one, or ``m`` of them; None means zero.
    Raises:
      ValueError: the order is negative, or the number of constants is wrong.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.polyint(gnp.array([6.0, 2.0]))
      Array([3., 2., 0.], dtype=float32)
      >>> gnp.polyint(gnp.array([6.0, 2.0]), k=5.0)
      Array([3., 2., 5.], dtype=float32)

    See also:
      `polyder`
    """
    c, constants = promoted("polyint", p, 0 if k is None else k, inexact=True)
    m = _order("polyint", m)
    c, constants = atleast_1d(c), atleast_1d(constants)
    if constants.shape[0] == 1:
        constants = lax.broadcast(constants[0], (m,))
    if constants.shape != (m,):
        raise ValueError(f"polyint: k must be a scalar or a vector of {m} numbers, got {k!r}")
    if m == 0:
        return c
    count = c.shape[0] + m
    factors = np.array([math.perm(n, min(n, m)) for n in range(count - 1, -1, -1)], np.float64)
    return concatenate([c, constants]) / wrap(factors.astype(c.dtype))


def poly(seq_of_zeros: ArrayLike) -> Array:
    """The coefficients of the polynomial with given roots.

    Args:
      seq_of_zeros: a vector of roots, or a square matrix, whose characteristic polynomial is
        returned.
    Returns:
      A vector of coefficients, the highest power first; the first one is 1.
    Raises:
      ValueError: the argument is neither a vector nor a square matrix.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.poly(gnp.array([1.0, 2.0]))
      Array([ 1., -3.,  2.], dtype=float32)

    See also:
      `roots`, `polyval`
    """
    (given,) = promoted("poly", seq_of_zeros, inexact=True)
    given = atleast_1d(given)
    if given.ndim == 2 and given.shape[0] == given.shape[1] != 0:
        given = linalg.eigvals(given)
    if given.ndim != 1:
        raise ValueError(
            f"poly takes a vector of roots or a square matrix, got shape {given.shape}"
        )
    if not given.shape[0]:
        return ones((), given.dtype)
    result = ones((1,), given.dtype)
    one = ones((), given.dtype)
    for k in range(given.shape[0]):
        result = convolve(result, stack([one, -given[k]]))
    return result


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The roots of a polynomial: the eigenvalues of its companion matrix.

    Args:
      p: coefficients.
      strip_zeros: drop leading zeros, which is not possible for traced arrays. Otherwise the last
        roots are nan, one for each leading zero.
    Raises:
      ValueError: ``p`` is not a vector.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.sort(gnp.roots(gnp.array([1.0, -3.0, 2.0])).real)
      Array([1., 2.], dtype=float32)
    """
    (c,) = promoted("roots", p, inexact=True)
    c = atleast_1d(c)
    if c.ndim != 1:
        raise ValueError(f"roots takes a vector of coefficients, got shape {c.shape}")
    dtype = _dtypes.to_complex_dtype(c.dtype)
    if c.shape[0] < 2:
        return zeros((0,), dtype)
    if strip_zeros:
        return _companion_roots(trim_zeros(c, "f"))
    zero = lax.eq(c, lax.full_like(c, 0))
    leading = where(all_(zero), c.shape[0], argmin(zero))
    # Move leading zeros to the end, where each is one more root at zero; these roots become nan.
    c = where(all_(zero), lax.full_like(c, 1), c)
    found = _companion_roots(roll(c, -leading))
    found = found[argsort(lax.eq(found, lax.full_like(found, 0)))]
    kept = arange(found.shape[0]) < found.shape[0] - leading
    return where(kept, found, lax.full_like(found, complex(np.nan, np.nan)))


def _companion_roots(c: Array) -> Array:
    if c.shape[0] < 2:
        return zeros((0,), _dtypes.to_complex_dtype(c.dtype))
    below = np.eye(c.shape[0] - 2, c.shape[0] - 1).astype(c.dtype)
    first = expand_dims(-c[1:] / c[0], 0)
    return linalg.eigvals(concatenate([first, wrap(below)]))


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """Fit a polynomial of a given degree to points, by least squares.

    Args:
      x: coordinates, a vector.
      y: values, a vector, or a matrix with a column for each polynomial.
      deg: the degree.
      rcond: singular values below this fraction of the largest one count as zero.
      full: also return residuals, rank, singular values and ``rcond``.
      w: weights of the points.
      cov: also return the covariances of the coefficients; "unscaled" means that they are not
        scaled by the residuals.
    Raises:
      TypeError: the shapes do not fit.
      ValueError: the degree is negative, or there are too few points.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.arange(4.0)
      >>> gnp.round(gnp.polyfit(x, 2 * x + 1, 1), 3)
      Array([2., 1.], dtype=float32)
    """
    if w is None:
        at, values = promoted("polyfit", x, y, inexact=True)
    else:
        at, values, weights = promoted("polyfit", x, y, w, inexact=True)
    order = operator.index(deg) + 1
    if order < 1:
        raise ValueError(f"polyfit: the degree must be at least 0, got {deg}")
    if at.ndim != 1 or not at.size:
        raise TypeError(f"polyfit: x must be a vector that is not empty, got shape {at.shape}")
    if values.ndim not in (1, 2) or values.shape[0] != at.shape[0]:
        raise TypeError(
            f"polyfit: y must be a vector or matrix of {at.shape[0]} rows, got {values.shape}"
        )
    cutoff = at.size * float(np.finfo(at.dtype).eps) if rcond is None else float(rcond)
    rows = vander(at, order)
    if w is not None:
        if weights.shape != at.shape:
            raise TypeError(f"polyfit: w must be a vector like x, got shape {weights.shape}")
        rows = rows * weights[:, None]
        values = values * (weights if values.ndim == 1 else weights[:, None])
    scale = sqrt(sum_(rows * rows, axis=0))
    rows = rows / scale[None]
    found, residuals, rank, singular = linalg.lstsq(rows, values, cutoff)
    found = found / (scale if found.ndim == 1 else scale[:, None])
    if full:
        return found, residuals, rank, singular, as_array("polyfit", cutoff)
    if not cov:
        return found
    covariance = linalg.inv(dot(transpose(rows), rows)) / (scale[:, None] * scale[None])
    if cov == "unscaled":
        factor: Any = ones((1,), covariance.dtype)
    elif at.shape[0] <= order:
        raise ValueError("polyfit: more points than coefficients are needed to scale covariances")
    else:
        factor = atleast_1d(residuals) / (at.shape[0] - order)
    if values.ndim == 1:
        return found, covariance * factor[None]
    return found, covariance[:, :, None] * factor[None, None, :]


__all__ = [
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "roots",
]
