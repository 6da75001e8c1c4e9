"""Functions related to the error function: `wofz`, `owens_t`."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.dtypes import to_complex_dtype
from gnomon._transformations.custom_jvp import custom_jvp
from gnomon.lax._creation import converted
from gnomon.numpy._arguments import promoted, strongly_typed
from gnomon.scipy._gamma_functions import real_arguments

__all__ = ["owens_t", "wofz"]

# The number of terms. J. A. C. Weideman: Computation of the Complex Error Function (1994).
_TERMS = 48


@functools.cache
def _weideman() -> tuple[float, np.ndarray[Any, Any]]:
    """The scale of the map to the unit disk, and the coefficients there, highest power first."""
    size = 2 * _TERMS
    scale = math.sqrt(_TERMS / math.sqrt(2))
    angles = np.arange(1 - size, size) * math.pi / size
    t = scale * np.tan(angles / 2)
    with np.errstate(under="ignore"):  # Far from the origin, exp is 0.
        values = np.concatenate([[0.0], np.exp(-t * t) * (scale * scale + t * t)])
    coefficients = np.fft.fft(np.fft.fftshift(values)).real / (2 * size)
    return scale, coefficients[1 : _TERMS + 1][::-1]


def wofz(z: ArrayLike) -> Array:
    """The Faddeeva function ``exp(-z²) erfc(-iz)``.

    Args:
      z: an array or scalar.
    Returns:
      A complex array.

    Example:
      >>> print(wofz(1j).round(4))
      (0.4276+0j)
    """
    (x,) = promoted("wofz", z, inexact=True)
    return _wofz(converted(x, to_complex_dtype(x.dtype)))


@custom_jvp
def _wofz(z: Array) -> Array:
    below = lax.imag(z) < 0
    infinite = _is_infinite(z)
    up = gnp.where(infinite, 1j, gnp.where(below, -z, z))
    scale, coefficients = _weideman()
    denominator = scale - 1j * up
    place = (scale + 1j * up) / denominator
    total = lax.full_like(z, 0)
    for coefficient in coefficients:
        total = total * place + float(coefficient)
    found = 2 * total / (denominator * denominator) + (1 / math.sqrt(math.pi)) / denominator
    found = gnp.where(infinite, 0, found)
    mirrored = gnp.where(below, z, 0)
    return gnp.where(below, 2 * lax.exp(-mirrored * mirrored) - found, found)


def _is_infinite(z: Array) -> Array:
    return gnp.isinf(lax.real(z)) | gnp.isinf(lax.imag(z))


def _wofz_slope(w: Array, z: Array) -> Array:
    vanishes = _is_infinite(z) & gnp.equal(w, 0)
    finite = gnp.where(vanishes, 0, z)
    return gnp.where(vanishes, 0, 2j / math.sqrt(math.pi) - 2 * finite * w)


_wofz.defjvps(lambda t, w, z: t * _wofz_slope(w, z))


# Nodes and weights on [0, 1].
@functools.cache
def _gauss() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    nodes, weights = np.polynomial.legendre.leggauss(32)
    return (nodes + 1) / 2, weights / 2


@strongly_typed
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T function.

    It is the probability that ``X > h`` and ``0 < Y < aX`` for independent standard normal X and Y.

    Args:
      h, a: real arrays or scalars.

    Example:
      >>> print(owens_t(0.0, 1.0).round(4))
      0.125
    """
    return _owens_t(*real_arguments("owens_t", h, a))


@custom_jvp
def _owens_t(h: Array, a: Array) -> Array:
    height, slope = gnp.abs(h), gnp.abs(a)
    # For a above one, use the known sum T(h, a) + T(ah, 1 / a).
    steep = slope > 1
    rise = gnp.where(gnp.isinf(slope), gnp.where(gnp.equal(height, 0), 0, np.inf), height * slope)
    inner_h = gnp.where(steep, rise, height)
    inner_a = gnp.where(steep, 1 / gnp.where(steep, slope, 1), slope)
    area = _quadrature(inner_h, inner_a)
    first, second = (0.5 * lax.erfc(v * math.sqrt(0.5)) for v in (height, rise))
    found = gnp.where(steep, 0.5 * (first + second) - first * second - area, area)
    return gnp.where(a < 0, -found, found)


def _quadrature(h: Array, a: Array) -> Array:
    """T(h, a) = 1 / (2 pi) times the integral of exp(-h² (1 + u²) / 2) / (1 + u²) up to a <= 1."""
    half = -0.5 * h * h
    total = lax.full_like(h, 0)
    for node, weight in zip(*_gauss(), strict=True):
        u = a * float(node)
        growth = 1 + u * u
        total = (
            total + float(weight) * lax.exp(gnp.where(gnp.equal(h, 0), 0, half * growth)) / growth
        )
    return total * a / (2 * math.pi)


_owens_t.defjvps(
    lambda t, out, h, a: (
        t
        * lax.exp(-0.5 * h * h)
        * lax.erf(a * h * math.sqrt(0.5))
        * (-0.5 / math.sqrt(2 * math.pi))
    ),
    lambda t, out, h, a: t * lax.exp(-0.5 * h * h * (1 + a * a)) / (2 * math.pi * (1 + a * a)),
)
