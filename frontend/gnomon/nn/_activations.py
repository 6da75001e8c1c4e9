"""Activation functions, elementwise and along an axis.

At kinks derivatives are those of ``jax.nn``: that of `relu` at 0 is 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._diagnostics.errors import ConcretizationTypeError, warn_user
from gnomon._tracing.trace import concrete_value, is_tracer
from gnomon.dialects.symbolic.dimension import as_size
from gnomon.lax._operands import widened
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array, promoted
from gnomon.scipy.special import logsumexp

Axis = int | tuple[int, ...] | None


def identity(x: ArrayLike) -> Array:
    """The argument, as an array."""
    return as_array("identity", x)


def relu(x: ArrayLike) -> Array:
    """Elementwise max(x, 0), with derivative 0 at 0.

    Example:
      >>> import gnomon.numpy as gnp
      >>> relu(gnp.array([-2.0, 0.0, 3.0]))
      Array([0., 0., 3.], dtype=float32)
    """
    x = as_array("relu", x)
    return gnp.where(x <= 0, 0, x)


def relu6(x: ArrayLike) -> Array:
    """Elementwise min(max(x, 0), 6), with derivative 0 at 0, 6 and nan."""
    x = as_array("relu6", x)
    limited = gnp.minimum(gnp.maximum(x, 0.0), 6.0)
    return gnp.where((x > 0) & (x < 6), x, lax.stop_gradient(limited))


def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """Elementwise (x + sqrt(x² + b)) / 2, a smooth form of `relu`."""
    x, b = as_array("squareplus", x, 0), as_array("squareplus", b, 1)
    return (x + gnp.sqrt(gnp.square(x) + b)) / 2


def softplus(x: ArrayLike) -> Array:
    """Elementwise log(1 + exp(x)), without overflow.

    Example:
      >>> softplus(1000.0)
      Array(1000., dtype=float32, weak_type=True)
    """
    return gnp.logaddexp(x, 0)


def sparse_plus(x: ArrayLike) -> Array:
    """Elementwise 0 below -1, x above 1, and the parabola (x + 1)² / 4 between."""
    x = as_array("sparse_plus", x)
    # The square of an infinity would make the derivative nan.
    inside = gnp.where(gnp.abs(x) >= 1, 0, x)
    return gnp.where(x <= -1.0, 0.0, gnp.where(x >= 1.0, x, (inside + 1.0) ** 2 / 4))


def soft_sign(x: ArrayLike) -> Array:
    """Elementwise x / (abs(x) + 1)."""
    x = as_array("soft_sign", x)
    return x / (gnp.abs(x) + 1)


def sigmoid(x: ArrayLike) -> Array:
    """Elementwise logistic function 1 / (1 + exp(-x)) of a floating point or complex array."""
    return lax.logistic(x)


def sparse_sigmoid(x: ArrayLike) -> Array:
    """Elementwise clip((x + 1) / 2, 0, 1)."""
    return 0.5 * gnp.clip(as_array("sparse_sigmoid", x) + 1.0, 0.0, 2.0)


def silu(x: ArrayLike) -> Array:
    """Elementwise x * sigmoid(x); `swish` is the same function."""
    x = as_array("silu", x)
    return x * sigmoid(x)


swish = silu


def mish(x: ArrayLike) -> Array:
    """Elementwise x * tanh(softplus(x))."""
    x = as_array("mish", x)
    return x * gnp.tanh(softplus(x))


def log_sigmoid(x: ArrayLike) -> Array:
    """Elementwise logarithm of `sigmoid`, accurate even if that is small."""
    return -softplus(-as_array("log_sigmoid", x))


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Elementwise x where positive, alpha * (exp(x) - 1) elsewhere."""
    x = as_array("elu", x)
    # The exponential of a large number is not selected, and must not make the derivative nan.
    negative = gnp.where(x > 0, 0.0, x)
    return gnp.where(x > 0, x, alpha * gnp.expm1(negative))


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    """Elementwise x where not negative, negative_slope * x elsewhere."""
    x = as_array("leaky_relu", x)
    return gnp.where(x >= 0, x, negative_slope * x)


def hard_tanh(x: ArrayLike) -> Array:
    """Elementwise x limited to [-1, 1]."""
    x = as_array("hard_tanh", x)
    return gnp.where(x > 1, 1, gnp.where(x < -1, -1, x))


def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Elementwise x where positive, alpha * (exp(x / alpha) - 1) elsewhere."""
    x = as_array("celu", x)
    return gnp.maximum(x, 0.0) + alpha * gnp.expm1(gnp.minimum(x, 0.0) / alpha)


# Klambauer, Unterthiner, Mayr, Hochreiter, Self-Normalizing Neural Networks (2017).
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def selu(x: ArrayLike) -> Array:
    """Elementwise scaled `elu` that keeps mean 0 and variance 1 from layer to layer."""
    return _SELU_SCALE * elu(x, _SELU_ALPHA)


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """Elementwise x times the normal distribution function of x.

    Args:
      x: an array.
      approximate: whether to use tanh instead of erfc.
    """
    (x,) = promoted("gelu", x, inexact=True)
    if approximate:
        inner = _rounded(np.sqrt(2 / np.pi), x) * (x + 0.044715 * x**3)
        return x * (0.5 * (1.0 + gnp.tanh(inner)))
    return 0.5 * x * lax.erfc(-x * _rounded(np.sqrt(0.5), x))


def _rounded(value: Any, x: Array) -> np.ndarray[Any, Any]:
    return np.asarray(value).astype(x.dtype)


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """Gated linear unit: the first half along an axis, times `sigmoid` of the second half.

    Raises:
      ValueError: the axis is of odd size.
    """
    x = as_array("glu", x)
    if x.shape[axis] % 2:
        raise ValueError(f"glu: axis {axis} of shape {x.shape} must be of even size")
    value, gate = gnp.split(x, 2, axis)
    return value * sigmoid(gate)


def hard_sigmoid(x: ArrayLike) -> Array:
    """Elementwise relu6(x + 3) / 6."""
    return relu6(as_array("hard_sigmoid", x) + 3.0) / 6.0


def hard_silu(x: ArrayLike) -> Array:
    """Elementwise x * hard_sigmoid(x); `hard_swish` is the same function."""
    x = as_array("hard_silu", x)
    # At infinity, the derivative must not be a product with x.
    inside = gnp.where(gnp.abs(x) >= 3, 0, x)
    middle = gnp.where(x >= 3, x, inside * hard_sigmoid(inside))
    return gnp.where(x <= -3, 0.0 * x, middle)


hard_swish = hard_silu


def log1mexp(x: ArrayLike) -> Array:
    """Elementwise log(1 - exp(-x)) for x > 0, accurate for both small and large x.

    Martin Mächler, Accurately computing log(1 - exp(-|a|)) (2012).
    """
    (x,) = promoted("log1mexp", x, inexact=True)
    small = x < math.log(2.0)
    # Each branch gets only numbers in its range, so that neither makes the derivative nan.
    near = gnp.log(-gnp.expm1(-gnp.where(small, x, 1.0)))
    far = gnp.log1p(-gnp.exp(-gnp.where(small, 1.0, x)))
    return gnp.where(small, near, far)


# --------------------------------------------------------------------------------- along an axis


def _shifted(name: str, x: Any, axis: Axis, where: Any) -> Array:
    """The array minus its maximum, which is not differentiated; -inf for masked elements."""
    x = as_array(name, x)
    largest = gnp.max(x, axis=axis, where=where, initial=-np.inf, keepdims=True)
    kept = x if where is None else gnp.where(where, x, -np.inf)
    return kept - lax.stop_gradient(largest)


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """Exponentials divided by their sum along an axis: positive numbers that add up to one.

    Args:
      x: an array.
      axis: the dimension or dimensions of the sum.
      where: a mask of the elements to use; the result is 0 for all others.

    Example:
      >>> import gnomon.numpy as gnp
      >>> softmax(gnp.array([0.0, 0.0]))
      Array([0.5, 0.5], dtype=float32)
    """
    unnormalized = gnp.exp(_shifted("softmax", x, axis, where))
    result = unnormalized / gnp.sum(unnormalized, axis=axis, where=where, keepdims=True)
    return result if where is None else gnp.where(where, result, 0)


def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """The logarithm of `softmax`, accurate even if that is small; -inf for masked elements."""
    shifted = _shifted("log_softmax", x, axis, where)
    total = gnp.sum(gnp.exp(shifted), axis=axis, where=where, keepdims=True)
    result = shifted - gnp.log(total)
    return result if where is None else gnp.where(where, result, -np.inf)


def logmeanexp(
    x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """The logarithm of the mean of exponentials, without overflow."""
    x = as_array("logmeanexp", x)
    total: Array = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    counted = gnp.ones(x.shape, bool) if where is None else gnp.broadcast_to(where, x.shape)
    count = gnp.sum(counted, axis=axis, keepdims=keepdims, dtype=total.dtype)
    return total - gnp.log(count)


def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """An array with mean 0 and variance 1 along an axis.

    Args:
      x: an array.
      axis: the dimension or dimensions.
      mean, variance: the mean and the variance; they are computed by default.
      epsilon: a number that is added to the variance.
      where: a mask of the elements to use for mean and variance.
      algorithm: how the variance is computed: ``"fast"`` is the mean square minus the squared mean,
        ``"stable"`` the mean squared difference.
    Raises:
      ValueError: the algorithm is unknown.
    """
    x = as_array("standardize", x)
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"standardize: algorithm must be 'fast' or 'stable', got {algorithm!r}")
    reduction: dict[str, Any] = {"axis": axis, "keepdims": True, "where": where}
    if mean is None:
        mean = gnp.mean(x, **reduction)
    if variance is None and algorithm == "stable":
        variance = gnp.mean(gnp.square(x - mean), **reduction)
    elif variance is None:
        # Rounding may take the difference below zero.
        variance = gnp.clip(gnp.mean(gnp.square(x), **reduction) - gnp.square(mean), 0)
    return (x - mean) * lax.rsqrt(variance + epsilon)


@takes_out_sharding
def one_hot(
    x: ArrayLike,
    num_classes: int,
    *,
    dtype: DTypeLike | None = None,
    axis: int = -1,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Vectors that are 1 at an index and 0 elsewhere, or all 0 if the index is out of range.

    Args:
      x: an array of integers.
      num_classes: the size of the vectors.
      dtype: the dtype of the result; the default float dtype if None.
      axis: the position of the new dimension in the result.
    Raises:
      ValueError: the axis does not exist.

    Example:
      >>> import gnomon.numpy as gnp
      >>> one_hot(gnp.array([0, 2]), 3)
      Array([[1., 0., 0.],
             [0., 0., 1.]], dtype=float32)
    """
    x = gnp.asarray(x)
    if is_tracer(num_classes) and concrete_value(num_classes) is None:
        raise ConcretizationTypeError(num_classes, "It is the argument num_classes of one_hot.")
    if not gnp.issubdtype(x.dtype, gnp.integer) and x.dtype != bool:
        warn_user(
            f"one_hot takes integers, got {x.dtype.name}: this is deprecated, convert them first",
            DeprecationWarning,
        )
    classes = as_size(num_classes)
    if not gnp.issubdtype(x.dtype, gnp.inexact):
        x = widened(x, classes)
    place = canonical_axis(axis, x.ndim + 1)
    shape = (*x.shape[:place], classes, *x.shape[place:])
    numbers = lax.broadcasted_iota(x.dtype, shape, place)
    spread = lax.broadcast_in_dim(x, shape, tuple(d for d in range(len(shape)) if d != place))
    return gnp.astype(lax.eq(spread, numbers), float if dtype is None else dtype)
