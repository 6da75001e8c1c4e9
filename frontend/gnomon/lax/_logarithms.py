"""The logarithm to base 2, which is exact for powers of two."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import bind
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_complex
from gnomon.lax._accuracy import AccuracyMode, Tolerance, check_accuracy
from gnomon.lax._gradient import stop_gradient
from gnomon.lax._operands import FLOAT_OR_COMPLEX, accept, argument, constant_like

__all__ = ["binary_logarithm", "log2"]


def log2(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """Elementwise logarithm to base 2, exact for powers of two.

    Args:
      x: an array or scalar of a floating point or complex dtype.
      accuracy: None, a `lax.AccuracyMode` or a `lax.Tolerance`; it changes no result.
    Returns:
      An array of the shape and dtype of ``x``: nan for negative numbers, -inf for zero. Compiled
      programs flush subnormal numbers to zero.
    Raises:
      TypeError: ``x`` has another dtype, or is not an array.

    Example:
      >>> import gnomon.numpy as gnp
      >>> log2(gnp.array([0.5, 8.0, 2.0**29]))
      Array([-1.,  3., 29.], dtype=float32)
    """
    check_accuracy("log2", accuracy)
    operand = argument("log2", x)
    accept("log2", operand, FLOAT_OR_COMPLEX)
    return binary_logarithm(operand)


def binary_logarithm(x: Array) -> Array:
    """The logarithm to base 2 of floating point or complex numbers."""
    if x.dtype.itemsize < 4:
        # The error would be more than half of the distance between large exponents.
        wide = bind(ops.convert, x, dtype=np.dtype(np.float32))
        return bind(ops.convert, binary_logarithm(wide), dtype=x.dtype)
    natural = bind(ops.log, x)
    if is_complex(x.dtype):
        parts = (_over_log_2(bind(part, natural)) for part in (ops.real, ops.imag))
        return bind(ops.complex, *parts)
    result = _over_log_2(natural)
    nearest = bind(ops.round, result, rounding_method="TO_NEAREST_EVEN")
    # The difference is small, so that it and the corrected sum have no rounding error.
    exact = bind(ops.and_, _is_power_of_two(x), bind(ops.is_finite, result))
    zero = constant_like(result, 0)
    correction = bind(ops.select, exact, bind(ops.sub, nearest, result), zero)
    return bind(ops.add, result, stop_gradient(correction))


def _over_log_2(x: Array) -> Array:
    return bind(ops.div, x, bind(ops.log, constant_like(x, 2)))


def _is_power_of_two(x: Array) -> Array:
    """Whether the fraction has no bits, or at most one bit in a subnormal number."""
    bits = 8 * x.dtype.itemsize
    integer = np.dtype(f"uint{bits}")
    stored = bind(ops.bitcast_convert, stop_gradient(x), dtype=integer)
    fraction_bits = (1 << ml_dtypes.finfo(x.dtype).nmant) - 1
    fraction = bind(ops.and_, stored, constant_like(stored, fraction_bits))
    zero = constant_like(stored, 0)
    is_normal_power = bind(ops.eq, fraction, zero)
    below = bind(ops.sub, stored, constant_like(stored, 1))
    is_subnormal = bind(ops.eq, fraction, stored)
    one_bit = bind(ops.eq, bind(ops.and_, stored, below), zero)
    return bind(ops.or_, is_normal_power, bind(ops.and_, is_subnormal, one_bit))
