"""Spherical harmonics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._diagnostics.errors import ConcretizationTypeError
from gnomon._tracing.trace import concrete_value, is_tracer
from gnomon.numpy._arguments import as_array, promoted

__all__ = ["sph_harm_y"]


def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: ArrayLike | None = None,
    n_max: int | None = None,
) -> Array:
    """Spherical harmonics of degree ``n`` and order ``m``, orthonormal on the sphere.

    Args:
      n: integers, not negative.
      m: integers with ``|m| <= n``.
      theta: the polar angle, in [0, pi].
      phi: the azimuth, in [0, 2 pi].
      diff_n: must be None.
      n_max: the largest degree, to which larger ones are clamped. It must be given if ``n`` is
        traced.
    Returns:
      A complex array of the broadcast shape of the arguments, of at least one dimension.

    Example:
      >>> import gnomon.numpy as gnp
      >>> print(sph_harm_y(gnp.array([1]), gnp.array([0]), 0.0, 0.0).round(4))
      [0.4886+0.j]
    """
    if diff_n is not None:
        raise NotImplementedError("sph_harm_y: diff_n is not supported")
    degree, order = as_array("sph_harm_y", n, 0), as_array("sph_harm_y", m, 1)
    polar, azimuth = promoted(
        "sph_harm_y", gnp.atleast_1d(as_array("sph_harm_y", theta, 2)), phi, inexact=True
    )
    for value in (degree if n_max is None else n_max,):
        if is_tracer(value) and concrete_value(value) is None:
            raise ConcretizationTypeError(value, "sph_harm_y needs n_max when n is traced.")
    largest = int(np.max(np.asarray(degree)) if n_max is None else n_max)
    degree, order, polar, azimuth = gnp.broadcast_arrays(degree, order, polar, azimuth)
    size = gnp.abs(order)
    value = _legendre(gnp.minimum(degree, largest), size, polar, largest)
    angle = size * azimuth
    found = lax.complex(value * gnp.cos(angle), value * gnp.sin(angle))
    sign = gnp.where(gnp.equal(size % 2, 0), 1, -1)
    return gnp.where(order < 0, sign * gnp.conj(found), found)


def _legendre(degree: Array, order: Array, polar: Array, largest: int) -> Array:
    """Associated Legendre functions of cos(polar), normalized, by the recurrence in the degree."""
    cosine, sine = gnp.cos(polar), gnp.sin(polar)
    # The absolute value, but not by abs, whose derivative at zero is right on neither side.
    sine = gnp.where(sine < 0, -sine, sine)
    m = order.astype(polar.dtype)

    def step(state: tuple[Array, Array, Array], k: Array) -> tuple[Any, None]:
        diagonal, before, current = state
        x = k.astype(polar.dtype)
        # The function of degree k and order k, until k reaches the given order.
        grown = -gnp.sqrt((2 * x + 1) / (2 * x)) * sine * diagonal
        diagonal = gnp.where(k <= order, grown, diagonal)
        above = k > order
        gap = gnp.where(above, x * x - m * m, 1)
        last = gnp.where(k > order + 1, ((x - 1) ** 2 - m * m) / (4 * (x - 1) ** 2 - 1), 0)
        following = gnp.sqrt((4 * x * x - 1) / gap) * (cosine * current - gnp.sqrt(last) * before)
        found = gnp.where(above, following, gnp.where(k == order, diagonal, 0))
        is_final = k > degree
        return (
            diagonal,
            gnp.where(is_final, before, current),
            gnp.where(is_final, current, found),
        ), None

    first = lax.full_like(polar, math.sqrt(0.25 / math.pi))
    start = first, lax.full_like(polar, 0), gnp.where(gnp.equal(order, 0), first, 0)
    degrees = gnp.arange(1, largest + 1)
    (_, _, found), _ = lax.scan(step, start, degrees)
    return found
