"""The gamma function and its logarithm on the complex plane."""

from __future__ import annotations

import math

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import with_weak_type
from gnomon.dialects.types import is_complex
from gnomon.numpy._arguments import promoted
from gnomon.scipy._gamma_functions import gamma as real_gamma

__all__ = ["gamma", "loggamma"]

# Stirling's series in odd powers of 1 / z: Bernoulli numbers B(2k) / (2k (2k - 1)).
_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
)
# The amount by which the argument is increased before the series is used.
_SHIFT = 8


def loggamma(x: ArrayLike) -> Array:
    """The principal branch of the logarithm of the gamma function.

    It is real and continuous on the positive numbers, and analytic except at numbers <= 0. The
    imaginary part is not reduced to ``(-pi, pi]``.

    Args:
      x: an array or scalar, real or complex.
    Returns:
      An array; nan for real numbers at and below zero, and at the poles.

    Example:
      >>> print(loggamma(3.0), loggamma(1j).real.round(3))
      0.6931472 -0.651
    """
    (z,) = promoted("loggamma", x, inexact=True)
    if not is_complex(z.dtype):
        positive = z > 0
        return gnp.where(positive, lax.lgamma(gnp.where(positive, z, 1)), np.nan)
    return with_weak_type(_loggamma(z), False)


def gamma(x: ArrayLike) -> Array:
    """The gamma function; for real numbers infinite at zeros and nan at negative integers.

    Args:
      x: an array or scalar, real or complex.

    Example:
      >>> gamma(1.0)
      Array(1., dtype=float32)
    """
    (z,) = promoted("gamma", x, inexact=True)
    return with_weak_type(lax.exp(_loggamma(z)), False) if is_complex(z.dtype) else real_gamma(z)


def _loggamma(z: Array) -> Array:
    real, imaginary = lax.real(z), lax.imag(z)
    is_pole = gnp.equal(imaginary, 0) & (real <= 0) & (real == gnp.floor(real))
    bad = is_pole | gnp.isnan(real) | gnp.isnan(imaginary)
    # Compute on the upper half plane; the lower one is its mirror image.
    below = gnp.signbit(imaginary)
    upper = lax.complex(gnp.where(bad, 1, real), gnp.where(bad, 0, gnp.abs(imaginary)))
    left = lax.real(upper) < 0.5
    # gamma(z) gamma(1 - z) = pi / sin(pi z)
    right = _loggamma_right(gnp.where(left, 1 - upper, upper))
    reflected = math.log(math.pi) - _log_sin_pi(gnp.where(left, upper, 0.5)) - right
    found = gnp.where(left, reflected, right)
    found = gnp.where(below, gnp.conj(found), found)
    return gnp.where(bad, complex(math.nan, math.nan), found)


def _loggamma_right(z: Array) -> Array:
    """``loggamma`` of numbers whose real part is at least one half."""
    shifts = lax.log(z)
    for k in range(1, _SHIFT):
        shifts = shifts + lax.log(z + k)
    far = z + _SHIFT
    inverse = 1 / far
    square = inverse * inverse
    rest = lax.full_like(z, 0)
    for coefficient in reversed(_STIRLING):
        rest = rest * square + coefficient
    growth = (far - 0.5) * lax.log(far) - far + 0.5 * math.log(2 * math.pi)
    return growth + rest * inverse - shifts


def _log_sin_pi(z: Array) -> Array:
    """log(sin(pi z)), continuous on the upper half plane and real at one half."""
    real, imaginary = lax.real(z), lax.imag(z)
    turn = 2 * math.pi * (real - gnp.round(real))
    decay = -2 * math.pi * imaginary
    # 1 - exp(decay + i turn), without the cancellation near whole numbers.
    half = gnp.sin(turn / 2)
    remaining = 2 * half * half - lax.expm1(decay) * gnp.cos(turn)
    wave = lax.complex(remaining, -lax.exp(decay) * gnp.sin(turn))
    angle = lax.complex(math.pi * imaginary - math.log(2), math.pi * (0.5 - real))
    return angle + lax.log(wave)
