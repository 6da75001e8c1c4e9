"""Elementwise logarithms to other bases, and logarithms of sums of powers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import bind, with_weak_type
from gnomon._transformations.custom_jvp import custom_jvp
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_complex
from gnomon.lax._logarithms import binary_logarithm
from gnomon.lax._operands import FLOAT_OR_COMPLEX, constant_like
from gnomon.numpy._dispatch import (
    INEXACT_KIND,
    accept,
    promoted_dtypes,
    promoted_operands,
    select_op,
    zero_like,
)
from gnomon.numpy._division import remainder

__all__ = [
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
]


def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2, elementwise; exact for powers of two.

    Args:
      x: an array or scalar; integers and bool become floating point numbers.
    Returns:
      An array of the shape of ``x``; -inf at zero, nan for negative real numbers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.log2(gnp.array([8, 1, 0]))
      Array([  3.,   0., -inf], dtype=float32)
    """
    return with_weak_type(binary_logarithm(_operand("log2", x)), False)


def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10, elementwise.

    Args:
      x: an array or scalar; integers and bool become floating point numbers.
    Returns:
      An array of the shape of ``x``; -inf at zero, nan for negative real numbers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.log10(gnp.array([1000.0, 0.1, 0.0])).round(4)
      Array([  3.,  -1., -inf], dtype=float32)
    """
    result = with_weak_type(bind(ops.log, _operand("log10", x)), False)
    if not is_complex(result.dtype):
        return _per_decade(result)
    parts = bind(ops.real, result), bind(ops.imag, result)
    return bind(ops.complex, *(_per_decade(part) for part in parts))


def _operand(name: str, x: Any) -> Array:
    (operand,) = promoted_dtypes(name, INEXACT_KIND, x)
    accept(name, operand, FLOAT_OR_COMPLEX)
    return operand


def _per_decade(x: Array) -> Array:
    return bind(ops.mul, x, constant_like(x, np.log10(np.e)))


def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    r"""Elementwise :math:`\log(e^{x_1} + e^{x_2})` without intermediate overflow.

    Args:
      x1, x2: arrays or scalars that broadcast together; integers become floating point numbers.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.logaddexp(-1000.0, -1000.0).round(2)
      Array(-999.31, dtype=float32, weak_type=True)
      >>> gnp.log(gnp.exp(-1000.0) + gnp.exp(-1000.0))
      Array(-inf, dtype=float32, weak_type=True)

    See also:
      `gnomon.scipy.special.logsumexp`
    """
    return _log_add("logaddexp", x1, x2, base=0)


def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    r"""Elementwise :math:`\log_2(2^{x_1} + 2^{x_2})` without intermediate overflow.

    Args:
      x1, x2: arrays or scalars of real numbers that broadcast together.
    Returns:
      An array of the broadcast shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.logaddexp2(200.0, 200.0)
      Array(201., dtype=float32, weak_type=True)
    """
    return _log_add("logaddexp2", x1, x2, base=2)


def _log_add(name: str, x1: Any, x2: Any, base: int) -> Array:
    x, y = promoted_operands(name, INEXACT_KIND, x1, x2)
    accept(name, x, FLOAT_OR_COMPLEX)
    if is_complex(x.dtype):
        high = bind(ops.max, x, y)
        twice = bind(ops.mul, high, constant_like(high, 2))
        delta = bind(ops.sub, bind(ops.add, x, y), twice)
        out = bind(ops.add, high, _log_base(base, bind(_power_of(base), delta)))
        return _principal(out, np.pi * _per_nat(base))
    result: Array = _log_add_reals(base, x, y)
    return result


def _power_of(base: int) -> Any:
    return ops.exp2 if base == 2 else ops.exp


def _per_nat(base: int) -> float:
    """The factor that converts natural logarithms to those to a base; the base 0 means e."""
    return float(1 / np.log(base)) if base else 1.0


def _log_base(base: int, x: Array) -> Array:
    """log(1 + x) to a base."""
    small = bind(ops.log1p, x)
    return small if not base else bind(ops.mul, small, constant_like(small, _per_nat(base)))


def _smaller_part(base: int, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Whether x >= y, whether both are the same infinity, and the smaller power over the larger.

    The larger and the smaller one are selected and not computed by max and min, so that derivatives
    are right at ties. Infinities of the same sign count as equal; nan stays nan.
    """
    first = bind(ops.ge, x, y)
    high, low = select_op(first, x, y), select_op(first, y, x)
    infinite = bind(ops.and_, bind(ops.eq, x, y), bind(ops.not_, bind(ops.is_finite, x)))
    delta = select_op(infinite, zero_like(x), bind(ops.sub, low, high))
    return first, infinite, bind(_power_of(base), delta)


def _log_add_of_reals(base: int, x: Array, y: Array) -> Array:
    first, infinite, part = _smaller_part(base, x, y)
    high = select_op(first, x, y)
    return select_op(infinite, high, bind(ops.add, high, _log_base(base, part)))


_log_add_reals = custom_jvp(_log_add_of_reals, nondiff_argnums=(0,))


@_log_add_reals.defjvp
def _log_add_jvp(base: int, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """Weight each tangent; a composition would subtract infinities, which gives nan."""
    (x, y), (t, u) = primals, tangents
    first, _, part = _smaller_part(base, x, y)
    total = bind(ops.add, constant_like(part, 1), part)
    larger, smaller = bind(ops.div, constant_like(part, 1), total), bind(ops.div, part, total)
    of_x, of_y = select_op(first, larger, smaller), select_op(first, smaller, larger)
    tangent = bind(ops.add, bind(ops.mul, t, of_x), bind(ops.mul, u, of_y))
    return _log_add_reals(base, x, y), tangent


def _principal(x: Array, bound: float) -> Array:
    """Complex numbers whose imaginary part is reduced to [-bound, bound)."""
    imag = bind(ops.imag, x)
    half, period = constant_like(imag, bound), constant_like(imag, 2 * bound)
    wrapped = bind(ops.sub, remainder(bind(ops.add, imag, half), period), half)
    return bind(ops.complex, bind(ops.real, x), wrapped)
