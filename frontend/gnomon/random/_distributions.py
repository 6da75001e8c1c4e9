"""Distributions that are functions of uniform and normal numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from gnomon import lax
from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding, ShapeLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import as_operand, bind
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_integer
from gnomon.lax._operands import as_shape, broadcast
from gnomon.random._choices import rademacher
from gnomon.random._key_array import KeyArray
from gnomon.random._samplers import (
    DType,
    Shape,
    between,
    constant,
    float_dtype,
    keys_from,
    one_key,
    parameter,
    sample_shape,
    standard_normal,
    unit_interval,
)


def _standard(function: str, key: Any, shape: Any, dtype: Any) -> Any:
    """Check the arguments of a distribution without parameters: key, shape, dtype."""
    words = one_key(function, key)
    checked = float_dtype(function, dtype)
    return words, as_shape(f"random.{function}", shape), checked


def _negative_log1p_negative(u: Array) -> Array:
    return lax.neg(lax.log1p(lax.neg(u)))


@takes_out_sharding
def exponential(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the exponential distribution of rate one.

    Args:
      key: one key.
      shape: the shape of the result.
      dtype: a floating point dtype; float32 by default.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> from gnomon import random
      >>> exponential(random.key(0), (3,)).dtype
      dtype('float32')
    """
    return _exponential(*_standard("exponential", key, shape, dtype))


def _exponential(key: KeyArray, shape: Shape, dtype: DType) -> Array:
    return _negative_log1p_negative(unit_interval(key, shape, dtype))


@takes_out_sharding
def cauchy(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the standard Cauchy distribution, which has no mean.

    Args:
      key: one key.
      shape: the shape of the result.
      dtype: a floating point dtype; None means the default float dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> random.cauchy(random.key(0), (3,)).round(3)
      Array([ 6.027, 14.838, -0.582], dtype=float32)
      >>> gnp.median(random.cauchy(random.key(0), (10000,))).round(1) + 0.0
      Array(0., dtype=float32)
    """
    words, sizes, checked = _standard("cauchy", key, shape, dtype)
    epsilon = np.array(ml_dtypes.finfo(checked).eps, checked)
    u = between(words, sizes, checked, epsilon, np.array(1.0, checked))
    return lax.tan(lax.mul(constant(u, np.pi), lax.sub(u, constant(u, 0.5))))


@takes_out_sharding
def laplace(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the standard Laplace distribution, with density ``exp(-|x|) / 2``.

    Args:
      key: one key.
      shape: the shape of the result.
      dtype: a floating point dtype; None means the default float dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> random.laplace(random.key(0), (3,)).round(3)
      Array([-2.257, -3.15 ,  0.409], dtype=float32)
      >>> gnp.abs(random.laplace(random.key(0), (10000,))).mean().round(1)
      Array(1., dtype=float32)
    """
    words, sizes, checked = _standard("laplace", key, shape, dtype)
    low = np.array(-1.0 + float(ml_dtypes.finfo(checked).epsneg), checked)
    u = between(words, sizes, checked, low, np.array(1.0, checked))
    return lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u))))


@takes_out_sharding
def logistic(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the standard logistic distribution, whose distribution function is `nn.sigmoid`.

    Args:
      key: one key.
      shape: the shape of the result.
      dtype: a floating point dtype; None means the default float dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> from gnomon import random
      >>> random.logistic(random.key(0), (3,)).round(3)
      Array([ 2.896,  3.822, -0.698], dtype=float32)
    """
    words, sizes, checked = _standard("logistic", key, shape, dtype)
    tiny = np.array(ml_dtypes.finfo(checked).tiny, checked)
    u = between(words, sizes, checked, tiny, np.array(1.0, checked))
    return lax.sub(lax.log(u), lax.log1p(lax.neg(u)))


@takes_out_sharding
def maxwell(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the Maxwell distribution: lengths of vectors of three standard normal numbers.

    Args:
      key: one key.
      shape: the shape of the result.
      dtype: a floating point dtype; None means the default float dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> random.maxwell(random.key(0), (3,)).round(3)
      Array([2.631, 0.991, 0.965], dtype=float32)
      >>> gnp.square(random.maxwell(random.key(0), (10000,))).mean().round(1)
      Array(3., dtype=float32)
    """
    return _maxwell(*_standard("maxwell", key, shape, dtype))


def _maxwell(key: KeyArray, shape: Shape, dtype: DType) -> Array:
    vectors = standard_normal(key, (*shape, 3), dtype)
    return lax.sqrt(lax.reduce_sum(lax.square(vectors), (len(shape),)))


def double_sided_maxwell(
    key: ArrayLike,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Maxwell numbers of random sign, scaled and shifted.

    Args:
      key: one key.
      loc, scale: shift and scale.
      shape: the leading dimensions of the result; the broadcast shape of ``loc`` and ``scale``
        follows. As in JAX, ``()`` means that the broadcast shape occurs twice.
      dtype: a floating point dtype; float32 by default.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> random.double_sided_maxwell(random.key(0), gnp.array([0.0]), 1.0, (3,)).shape
      (3, 1)
    """
    words = one_key("double_sided_maxwell", key)
    checked = float_dtype("double_sided_maxwell", dtype)
    parameters = lax.broadcast_shapes(np.shape(loc), np.shape(scale))
    sizes = as_shape("random.double_sided_maxwell", shape) or parameters
    sizes = (*sizes, *parameters)
    lengths_key, signs_key = keys_from(words, 2)
    lengths = _maxwell(lengths_key, sizes, checked)
    signs = rademacher(signs_key, sizes, checked)
    stretch, shift = (parameter("double_sided_maxwell", v, checked, sizes) for v in (scale, loc))
    return lax.add(lax.mul(lax.mul(signs, lengths), stretch), shift)


@takes_out_sharding
def pareto(
    key: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the Pareto distribution of shape parameter b.

    Args:
      key: one key.
      b: positive parameters that broadcast to the shape.
      shape: the shape of the result; that of ``b`` by default.
      dtype: a floating point dtype; float32 by default.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> from gnomon import random
      >>> random.pareto(random.key(0), 3.0, (3,)).round(3)
      Array([2.673, 3.601, 1.144], dtype=float32)
      >>> bool((random.pareto(random.key(0), 3.0, (1000,)) >= 1).all())
      True
    """
    words = one_key("pareto", key)
    checked = float_dtype("pareto", dtype)
    sizes = sample_shape("pareto", shape, b)
    return lax.exp(
        lax.div(_exponential(words, sizes, checked), parameter("pareto", b, checked, sizes))
    )


@takes_out_sharding
def rayleigh(
    key: ArrayLike,
    scale: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the Rayleigh distribution: lengths of vectors of two normal numbers.

    Args:
      key: one key.
      scale: the standard deviation of the normal numbers; positive, broadcasts to the shape.
      shape: the shape of the result; that of ``scale`` by default.
      dtype: a floating point dtype; None means the default float dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> random.rayleigh(random.key(0), 1.0, (3,)).round(3)
      Array([0.328, 0.208, 1.484], dtype=float32)
      >>> gnp.square(random.rayleigh(random.key(0), 1.0, (10000,))).mean().round(1)
      Array(2., dtype=float32)
    """
    words = one_key("rayleigh", key)
    checked = float_dtype("rayleigh", dtype)
    sizes = sample_shape("rayleigh", shape, scale)
    log_u = lax.log(unit_interval(words, sizes, checked))
    root = lax.sqrt(lax.mul(log_u, constant(log_u, -2)))
    return lax.mul(parameter("rayleigh", scale, checked, sizes), root)


def weibull_min(
    key: ArrayLike,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Numbers of the Weibull distribution.

    Args:
      key: one key.
      scale, concentration: positive parameters.
      shape: the shape of the draws, which are broadcast together with the parameters.
      dtype: a floating point dtype; float32 by default.

    Example:
      >>> from gnomon import random
      >>> random.weibull_min(random.key(0), 2.0, 1.5, (3,)).round(3)
      Array([4.114, 4.907, 1.093], dtype=float32)
    """
    words = one_key("weibull_min", key)
    checked = float_dtype("weibull_min", dtype)
    sizes = as_shape("random.weibull_min", shape)
    out = lax.broadcast_shapes(sizes, np.shape(scale), np.shape(concentration))
    drawn = broadcast(_exponential(words, sizes, checked), out)
    exponent = parameter("weibull_min", concentration, checked, out)
    power = lax.pow(drawn, lax.div(constant(exponent, 1.0), exponent))
    return lax.mul(power, parameter("weibull_min", scale, checked, out))


@takes_out_sharding
def lognormal(
    key: ArrayLike,
    sigma: ArrayLike = 1.0,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Exponentials of normal numbers of standard deviation sigma.

    Args:
      key: one key.
      sigma: standard deviations that broadcast to the shape.
      shape: the shape of the result; that of ``sigma`` by default.
      dtype: a floating point or complex dtype; float32 by default.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> random.lognormal(random.key(0), 0.5, (3,)).round(3)
      Array([2.251, 2.753, 0.805], dtype=float32)
      >>> gnp.median(random.lognormal(random.key(0), 0.5, (10000,))).round(1)
      Array(1., dtype=float32)
    """
    words = one_key("lognormal", key)
    checked = float_dtype("lognormal", dtype, "float or complex")
    sizes = sample_shape("lognormal", shape, sigma)
    drawn = standard_normal(words, sizes, checked)
    return lax.exp(lax.mul(drawn, parameter("lognormal", sigma, checked, sizes)))


@takes_out_sharding
def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the triangular distribution.

    Args:
      key: one key.
      left, mode, right: the corners of the density; they broadcast to the shape.
      shape: the shape of the result; by default the broadcast shape of the corners.
      dtype: a floating point dtype; float32 by default.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> from gnomon import random
      >>> random.triangular(random.key(0), 0.0, 1.0, 4.0, (3,)).round(3)
      Array([3.208, 3.493, 1.169], dtype=float32)
      >>> random.triangular(random.key(0), 0.0, 1.0, 4.0, (10000,)).mean().round(1)
      Array(1.7, dtype=float32)
    """
    words = one_key("triangular", key)
    checked = float_dtype("triangular", dtype)
    sizes = sample_shape("triangular", shape, left, mode, right)
    low, middle, high = (parameter("triangular", v, checked, sizes) for v in (left, mode, right))
    width, rise, fall = lax.sub(high, low), lax.sub(middle, low), lax.sub(high, middle)
    u = unit_interval(words, sizes, checked)
    rest = lax.sub(constant(u, 1.0), u)
    from_left = lax.add(low, lax.sqrt(lax.mul(lax.mul(u, width), rise)))
    from_right = lax.sub(high, lax.sqrt(lax.mul(lax.mul(rest, width), fall)))
    return lax.select(lax.lt(u, lax.div(rise, width)), from_left, from_right)


@takes_out_sharding
def wald(
    key: ArrayLike,
    mean: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the Wald (inverse Gaussian) distribution with scale one.

    J. R. Michael, W. R. Schucany, R. W. Haas, Generating Random Variates Using Transformations with
    Multiple Roots (1976).

    Args:
      key: one key.
      mean: positive means that broadcast to the shape.
      shape: the shape of the result; that of ``mean`` by default.
      dtype: a floating point dtype; None means the default float dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> from gnomon import random
      >>> random.wald(random.key(0), 1.0, (3,)).round(3)
      Array([0.381, 0.416, 0.481], dtype=float32)
      >>> random.wald(random.key(0), 1.0, (10000,)).mean().round(1)
      Array(1., dtype=float32)
    """
    words = one_key("wald", key)
    checked = float_dtype("wald", dtype)
    sizes = sample_shape("wald", shape, mean)
    normal_key, uniform_key = keys_from(words, 2)
    center = parameter("wald", mean, checked, sizes)
    y = lax.square(standard_normal(normal_key, sizes, checked))
    z = unit_interval(uniform_key, sizes, checked)
    squared = lax.square(center)
    root = lax.sqrt(
        lax.add(lax.mul(lax.mul(constant(y, 4), center), y), lax.mul(squared, lax.square(y)))
    )
    two = constant(y, 2)
    smaller = lax.sub(
        lax.add(center, lax.div(lax.mul(squared, y), two)), lax.mul(lax.div(center, two), root)
    )
    first = lax.le(z, lax.div(center, lax.add(center, smaller)))
    return lax.select(first, smaller, lax.div(squared, smaller))


@takes_out_sharding
def geometric(
    key: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of trials until the first success.

    Args:
      key: one key.
      p: probabilities of success that broadcast to the shape.
      shape: the shape of the result; that of ``p`` by default.
      dtype: an integer dtype; int32 by default.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      ValueError: the dtype is not supported.

    Example:
      >>> from gnomon import random
      >>> random.geometric(random.key(0), 0.5, (5,))
      Array([1, 1, 2, 2, 1], dtype=int32)
      >>> random.geometric(random.key(0), 0.5, (10000,)).mean().round(1)
      Array(2., dtype=float32)
    """
    words = one_key("geometric", key)
    checked = _dtypes.default_int_dtype()
    if dtype is not None:
        checked = _dtypes.check_user_dtype(dtype, "random.geometric")
    if not is_integer(checked):
        raise ValueError(
            f"dtype argument to random.geometric must be an int dtype, got {checked.name}"
        )
    sizes = sample_shape("geometric", shape, p)
    probability = as_operand(p)
    dtype = _dtypes.to_inexact_dtype(probability.dtype)
    probability = parameter("geometric", probability, dtype, sizes)
    u = unit_interval(words, sizes, dtype)
    one = constant(u, 1)
    u = lax.select(lax.eq(u, constant(u, 0)), broadcast(one, sizes), u)
    trials = lax.floor(lax.div(lax.log(u), lax.log1p(lax.neg(probability))))
    return bind(ops.convert, lax.add(trials, one), dtype=checked)
