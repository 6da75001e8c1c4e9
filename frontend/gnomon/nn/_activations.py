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
    """The argument, as an array.

    Args:
      x: an array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.identity(gnp.array([1.0, 2.0]))
      Array([1., 2.], dtype=float32)
    """
    return as_array("identity", x)


def relu(x: ArrayLike) -> Array:
    """The rectified linear unit ``max(x, 0)``, elementwise; its derivative at 0 is 0.

    Args:
      x: an array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.relu(gnp.array([-2.0, 0.0, 3.0]))
      Array([0., 0., 3.], dtype=float32)

    See also:
      `leaky_relu`, `gelu`
    """
    x = as_array("relu", x)
    return gnp.where(x <= 0, 0, x)


def relu6(x: ArrayLike) -> Array:
    """``min(max(x, 0), 6)``, elementwise, with derivative 0 at 0, 6 and nan.

    Args:
      x: an array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.relu6(gnp.array([-2.0, 3.0, 8.0]))
      Array([0., 3., 6.], dtype=float32)
    """
    x = as_array("relu6", x)
    limited = gnp.minimum(gnp.maximum(x, 0.0), 6.0)
    return gnp.where((x > 0) & (x < 6), x, lax.stop_gradient(limited))


def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """``(x + sqrt(x² + b)) / 2``, a smooth form of `relu`, elementwise.

    Args:
      x: an array or scalar.
      b: the width of the bend at 0, not negative; 0 gives `relu`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.squareplus(gnp.array([-3.0, 0.0, 3.0])).round(4)
      Array([0.3028, 1.    , 3.3028], dtype=float32)
    """
    x, b = as_array("squareplus", x, 0), as_array("squareplus", b, 1)
    return (x + gnp.sqrt(gnp.square(x) + b)) / 2


def softplus(x: ArrayLike) -> Array:
    """``log(1 + exp(x))``, a smooth form of `relu`, without overflow.

    Args:
      x: an array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.softplus(gnp.array([0.0, 1000.0])).round(4)
      Array([6.931e-01, 1.000e+03], dtype=float32)
    """
    return gnp.logaddexp(x, 0)


def sparse_plus(x: ArrayLike) -> Array:
    """0 below -1, ``x`` above 1, and the parabola ``(x + 1)² / 4`` between, elementwise.

    Args:
      x: an array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.sparse_plus(gnp.array([-2.0, 0.0, 3.0]))
      Array([0.  , 0.25, 3.  ], dtype=float32)
    """
    x = as_array("sparse_plus", x)
    # The square of an infinity would make the derivative nan.
    inside = gnp.where(gnp.abs(x) >= 1, 0, x)
    return gnp.where(x <= -1.0, 0.0, gnp.where(x >= 1.0, x, (inside + 1.0) ** 2 / 4))


def soft_sign(x: ArrayLike) -> Array:
    """``x / (|x| + 1)``, elementwise.

    Args:
      x: an array or scalar.
    Returns:
      Numbers in (-1, 1).

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.soft_sign(gnp.array([-3.0, 0.0, 1.0]))
      Array([-0.75,  0.  ,  0.5 ], dtype=float32)
    """
    x = as_array("soft_sign", x)
    return x / (gnp.abs(x) + 1)


def sigmoid(x: ArrayLike) -> Array:
    """The logistic function ``1 / (1 + exp(-x))``, elementwise.

    Args:
      x: a floating point or complex array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.sigmoid(gnp.array([-100.0, 0.0, 100.0])).round(4)
      Array([0. , 0.5, 1. ], dtype=float32)

    See also:
      `log_sigmoid`, `hard_sigmoid`
    """
    return lax.logistic(x)


def sparse_sigmoid(x: ArrayLike) -> Array:
    """The derivative of `sparse_plus`: ``clip((x + 1) / 2, 0, 1)``, elementwise.

    Args:
      x: an array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.sparse_sigmoid(gnp.array([-2.0, 0.0, 3.0]))
      Array([0. , 0.5, 1. ], dtype=float32)
    """
    return 0.5 * gnp.clip(as_array("sparse_sigmoid", x) + 1.0, 0.0, 2.0)


def silu(x: ArrayLike) -> Array:
    """The sigmoid linear unit ``x * sigmoid(x)``, elementwise.

    Args:
      x: a floating point array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.silu(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([-0.2689,  0.    ,  1.7616], dtype=float32)
    """
    x = as_array("silu", x)
    return x * sigmoid(x)


swish = silu


def mish(x: ArrayLike) -> Array:
    """The activation ``x * tanh(softplus(x))``, elementwise.

    Args:
      x: an array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.mish(gnp.array([-1.0, 0.0, 2.0])).round(4)
      Array([-0.3034,  0.    ,  1.944 ], dtype=float32)
    """
    x = as_array("mish", x)
    return x * gnp.tanh(softplus(x))


def log_sigmoid(x: ArrayLike) -> Array:
    """The logarithm of `sigmoid`, elementwise; accurate even if that is tiny.

    Args:
      x: an array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.log_sigmoid(gnp.array([-1000.0, 0.0])).round(4)
      Array([-1.000e+03, -6.931e-01], dtype=float32)
      >>> gnp.log(nn.sigmoid(-1000.0))
      Array(-inf, dtype=float32, weak_type=True)
    """
    return -softplus(-as_array("log_sigmoid", x))


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """The exponential linear unit, elementwise.

    Args:
      x: an array or scalar; integers become floating point numbers.
      alpha: the limit for large negative ``x`` is ``-alpha``.
    Returns:
      ``x`` where it is positive, ``alpha * (exp(x) - 1)`` elsewhere.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.elu(gnp.array([-2.0, 0.0, 3.0])).round(4)
      Array([-0.8647,  0.    ,  3.    ], dtype=float32)

    See also:
      `celu`, `selu`
    """
    x = as_array("elu", x)
    # The exponential of a large number is not selected, and must not make the derivative nan.
    negative = gnp.where(x > 0, 0.0, x)
    return gnp.where(x > 0, x, alpha * gnp.expm1(negative))


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    """``x`` where it is not negative, ``negative_slope * x`` elsewhere.

    Args:
      x: an array or scalar; integers become floating point numbers.
      negative_slope: the slope for negative ``x``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.leaky_relu(gnp.array([-2.0, 3.0]), negative_slope=0.1)
      Array([-0.2,  3. ], dtype=float32)

    See also:
      `relu`
    """
    x = as_array("leaky_relu", x)
    return gnp.where(x >= 0, x, negative_slope * x)


def hard_tanh(x: ArrayLike) -> Array:
    """``x`` limited to [-1, 1], elementwise.

    Args:
      x: an array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.hard_tanh(gnp.array([-5.0, 0.5, 5.0]))
      Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    x = as_array("hard_tanh", x)
    return gnp.where(x > 1, 1, gnp.where(x < -1, -1, x))


def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """The continuously differentiable exponential linear unit, elementwise.

    Args:
      x: an array or scalar; integers become floating point numbers.
      alpha: the limit for large negative ``x`` is ``-alpha``; not zero.
    Returns:
      ``x`` where it is positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.celu(gnp.array([-2.0, 0.0, 3.0])).round(4)
      Array([-0.8647,  0.    ,  3.    ], dtype=float32)

    See also:
      `elu`
    """
    x = as_array("celu", x)
    return gnp.maximum(x, 0.0) + alpha * gnp.expm1(gnp.minimum(x, 0.0) / alpha)


# Klambauer, Unterthiner, Mayr, Hochreiter, Self-Normalizing Neural Networks (2017).
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def selu(x: ArrayLike) -> Array:
    """The scaled exponential linear unit, elementwise.

    Args:
      x: an array or scalar; integers become floating point numbers.
    Returns:
      ``scale * elu(x, alpha)`` with the constants that keep mean 0 and variance 1 from layer to
      layer.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.selu(gnp.array([-1.0, 1.0])).round(4)
      Array([-1.1113,  1.0507], dtype=float32)

    See also:
      `elu`
    """
    return _SELU_SCALE * elu(x, _SELU_ALPHA)


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """The Gaussian error linear unit: ``x`` times the normal distribution function of ``x``.

    Args:
      x: an array or scalar; integers become floating point numbers.
      approximate: use a formula with tanh (the default) instead of erfc; they differ by at most
        0.0005.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.gelu(gnp.array([-1.0, 0.0, 1.0])).round(4)
      Array([-0.1588,  0.    ,  0.8412], dtype=float32)
      >>> nn.gelu(gnp.array([-1.0, 0.0, 1.0]), approximate=False).round(4)
      Array([-0.1587,  0.    ,  0.8413], dtype=float32)
    """
    (x,) = promoted("gelu", x, inexact=True)
    if approximate:
        inner = _rounded(np.sqrt(2 / np.pi), x) * (x + 0.044715 * x**3)
        return x * (0.5 * (1.0 + gnp.tanh(inner)))
    return 0.5 * x * lax.erfc(-x * _rounded(np.sqrt(0.5), x))


def _rounded(value: Any, x: Array) -> np.ndarray[Any, Any]:
    return np.asarray(value).astype(x.dtype)


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The gated linear unit: the first half along an axis times `sigmoid` of the second half.

    Args:
      x: a floating point array.
      axis: the axis, of even size; the result has half of it.
    Raises:
      ValueError: the axis is of odd size.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.glu(gnp.array([2.0, 4.0, 0.0, 100.0]))
      Array([1., 4.], dtype=float32)
    """
    x = as_array("glu", x)
    if x.shape[canonical_axis(axis, x.ndim)] % 2:
        raise ValueError(f"glu: axis {axis} of shape {x.shape} must be of even size")
    value, gate = gnp.split(x, 2, axis)
    return value * sigmoid(gate)


def hard_sigmoid(x: ArrayLike) -> Array:
    """A piecewise linear form of `sigmoid`: ``relu6(x + 3) / 6``, elementwise.

    Args:
      x: an array or scalar.
    Returns:
      Numbers in [0, 1]: 0 up to -3, 1 from 3 on.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.hard_sigmoid(gnp.array([-5.0, 0.0, 1.5]))
      Array([0.  , 0.5 , 0.75], dtype=float32)
    """
    return relu6(as_array("hard_sigmoid", x) + 3.0) / 6.0


def hard_silu(x: ArrayLike) -> Array:
    """A piecewise form of `silu`: ``x * hard_sigmoid(x)``, elementwise.

    Args:
      x: an array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.hard_silu(gnp.array([-5.0, 0.0, 1.5, 5.0]))
      Array([-0.   ,  0.   ,  1.125,  5.   ], dtype=float32)
    """
    x = as_array("hard_silu", x)
    # At infinity, the derivative must not be a product with x.
    inside = gnp.where(gnp.abs(x) >= 3, 0, x)
    middle = gnp.where(x >= 3, x, inside * hard_sigmoid(inside))
    return gnp.where(x <= -3, 0.0 * x, middle)


hard_swish = hard_silu


def log1mexp(x: ArrayLike) -> Array:
    """The logarithm of ``1 - exp(-x)`` for positive ``x``, elementwise.

    It is accurate for both small and large ``x``: Martin Mächler, Accurately computing log(1 -
    exp(-|a|)) (2012).

    Args:
      x: an array or scalar of positive numbers; nan for negative ones.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.log1mexp(gnp.array([1e-10, 1.0])).round(4)
      Array([-23.0258,  -0.4587], dtype=float32)
      >>> gnp.log(1 - gnp.exp(-1e-10))
      Array(-inf, dtype=float32, weak_type=True)
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
    """The logarithm of `softmax`, accurate even where that is tiny.

    Args:
      x: an array.
      axis: the axis or axes along which the exponentials are normalized; None means all.
      where: a bool array that selects elements; the result is -inf at the others.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.log_softmax(gnp.array([0.0, 1000.0]))
      Array([-1000.,     0.], dtype=float32)
      >>> gnp.log(nn.softmax(gnp.array([0.0, 1000.0])))
      Array([-inf,   0.], dtype=float32)

    See also:
      `softmax`, `logsumexp`
    """
    shifted = _shifted("log_softmax", x, axis, where)
    total = gnp.sum(gnp.exp(shifted), axis=axis, where=where, keepdims=True)
    result = shifted - gnp.log(total)
    return result if where is None else gnp.where(where, result, -np.inf)


def logmeanexp(
    x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """The logarithm of the mean of exponentials, without overflow.

    Args:
      x: an array.
      axis: the axis or axes to reduce; None reduces all of them.
      where: a bool array that selects elements.
      keepdims: keep the reduced dimensions, with size one.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.logmeanexp(gnp.array([1000.0, 1000.0]))
      Array(1000., dtype=float32)

    See also:
      `logsumexp`
    """
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
      x: an array; integers become floating point numbers.
      axis: the dimension or dimensions; None means all.
      mean, variance: arrays that broadcast with ``x``; None computes them.
      epsilon: a number that is added to the variance, against a division by zero.
      where: a mask of the elements to use for mean and variance.
      algorithm: how the variance is computed: ``"fast"`` is the mean square minus the squared mean,
        ``"stable"`` the mean squared difference.
    Raises:
      ValueError: the algorithm is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> nn.standardize(gnp.array([1.0, 2.0, 3.0])).round(3)
      Array([-1.225,  0.   ,  1.225], dtype=float32)
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
      out_sharding: the sharding of the result on a mesh with explicit axes.
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
