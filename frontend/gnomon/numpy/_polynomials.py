"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._array import Array, wrap
from gnomon.numpy._arguments import promoted
from gnomon.numpy._creation import full, ones, zeros
from gnomon.numpy._manipulation import atleast_1d, concatenate, stack
from gnomon.numpy._placement import trim_zeros
from gnomon.numpy._signals import convolve


def _with_zeros(p: Array, count: int) -> Array:
    """The same polynomial with ``count`` coefficients; more highest ones are zero."""
    missing = count - p.shape[0]
    if not missing:
        return p
    return concatenate([zeros((missing, *p.shape[1:]), p.dtype), p])


def polyadd(a1: Any, a2: Any) -> Array:
    """The sum of two polynomials.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.polyadd(gnp.array([1, 2, 3]), gnp.array([10, 20]))
      Array([ 1, 12, 23], dtype=int32)
    """
    p, q = promoted("polyadd", a1, a2)
    count = max(p.shape[0], q.shape[0])
    return _with_zeros(p, count) + _with_zeros(q, count)


def polysub(a1: Any, a2: Any) -> Array:
    """The difference of two polynomials."""
    p, q = promoted("polysub", a1, a2)
    return polyadd(p, -q)


def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials.

    Args:
      a1, a2: their coefficients.
      trim_leading_zeros: drop the zeros in front first, which values that are traced do not allow.
    """
    p, q = promoted("polymul", a1, a2, inexact=True)
    if trim_leading_zeros and (p.shape[0] > 1 or q.shape[0] > 1):
        p, q = trim_zeros(p, "f"), trim_zeros(q, "f")
    if not p.shape[0]:
        p = zeros((1,), q.dtype)
    if not q.shape[0]:
        q = zeros((1,), p.dtype)
    return convolve(p, q)


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """The quotient and the remainder of two polynomials.

    Args:
      u, v: coefficients.
      trim_leading_zeros: drop what is about zero in front of the remainder.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.polydiv(gnp.array([1.0, 3.0, 2.0]), gnp.array([1.0, 1.0]))
      (Array([1., 2.], dtype=float32), Array([0., 0., 0.], dtype=float32))
    """
    p, q = promoted("polydiv", u, v, inexact=True)
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
        # What is below the root of the dtype's epsilon counts as zero.
        tolerance = math.sqrt(float(np.finfo(p.dtype).eps))
        above = np.flatnonzero(np.abs(np.asarray(p)) > tolerance)
        p = p[int(above[0]) :] if above.size else p[p.shape[0] :]
    return stack(quotient), p


def polyval(p: Any, x: Any, *, unroll: int = 16) -> Array:
    """The values of a polynomial, by Horner's rule.

    Args:
      p: coefficients; more dimensions are broadcast with ``x``.
      x: where.
      unroll: how many steps stand in the program one after the other before they are a loop.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.polyval(gnp.array([1, 2, 3]), 2)
      Array(11, dtype=int32)
    """
    coefficients, at = promoted("polyval", p, x)
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


def polyder(p: Any, m: int = 1) -> Array:
    """The ``m``-th derivative of a polynomial."""
    (c,) = promoted("polyder", p, inexact=True)
    m = _order("polyder", m)
    if m == 0:
        return c
    kept = max(c.shape[0] - m, 0)
    factors = _falling(c.shape[0], m)[:kept]
    return c[:kept] * wrap(factors.astype(c.dtype))


def polyint(p: Any, m: int = 1, k: Any = None) -> Array:
    """The ``m``-th integral of a polynomial.

    Args:
      p: coefficients.
      m: how often.
      k: the constants of integration: one, or ``m`` of them.
    Raises:
      ValueError: a negative order, or another number of constants.
    """
    c, constants = promoted("polyint", p, 0 if k is None else k, inexact=True)
    m = _order("polyint", m)
    constants = atleast_1d(constants)
    if constants.shape[0] == 1:
        constants = lax.broadcast(constants[0], (m,))
    if constants.shape != (m,):
        raise ValueError(f"polyint: k must be a scalar or a vector of {m} numbers, got {k!r}")
    if m == 0:
        return c
    count = c.shape[0] + m
    factors = np.array([math.perm(n, min(n, m)) for n in range(count - 1, -1, -1)], np.float64)
    return concatenate([c, constants]) / wrap(factors.astype(c.dtype))


def poly(seq_of_zeros: Any) -> Array:
    """The polynomial with given roots.

    Raises:
      ValueError: they are not a vector.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.poly(gnp.array([1.0, 2.0]))
      Array([ 1., -3.,  2.], dtype=float32)
    """
    (roots,) = promoted("poly", seq_of_zeros, inexact=True)
    roots = atleast_1d(roots)
    if roots.ndim == 2 and roots.shape[0] == roots.shape[1] != 0:
        raise NotImplementedError(
            "poly of a matrix needs its eigenvalues, which are not available; give the roots"
        )
    if roots.ndim != 1:
        raise ValueError(f"poly takes a vector of roots, got shape {roots.shape}")
    if not roots.shape[0]:
        return ones((), roots.dtype)
    result = ones((1,), roots.dtype)
    one = ones((), roots.dtype)
    for k in range(roots.shape[0]):
        result = convolve(result, stack([one, -roots[k]]))
    return result


__all__ = ["poly", "polyadd", "polyder", "polydiv", "polyint", "polymul", "polysub", "polyval"]
