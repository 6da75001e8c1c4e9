"""The gamma distribution, and distributions made of gamma distributed numbers.

Samples are drawn by rejection, so the number of random numbers for a sample is not known in
advance; each element has a separate key. The derivative of a sample with respect to its parameter
does not differentiate the rejection, but the distribution function (`random_gamma_grad`).
"""

from __future__ import annotations

import math
from operator import index
from typing import Any

import numpy as np

from gnomon import lax, tree
from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding, ShapeLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import as_operand, bind
from gnomon.dialects.emit import ops
from gnomon.lax._operands import as_shape, broadcast, constant_like
from gnomon.random._approximations import approximate_loggamma, check_method
from gnomon.random._choices import rademacher
from gnomon.random._distributions import exponential
from gnomon.random._key_array import KeyArray
from gnomon.random._samplers import (
    DType,
    Shape,
    bits_to_unit,
    check_casts,
    constant,
    drawn_bits,
    float_dtype,
    keys_from,
    one_key,
    parameter,
    sample_shape,
    split_key,
    standard_normal,
    unit_to_normal,
)

# ------------------------------------------------------------------------- a key for each element


def _split_each(keys: KeyArray, count: int) -> list[KeyArray]:
    """Split each key of an array of keys, which gives ``count`` arrays of keys."""
    of = keys.implementation
    return [KeyArray(words, of) for words in of.split_each(keys.words, count)]


def _unit_each(keys: KeyArray, dtype: DType) -> Array:
    """A uniform number in [0, 1) of each key."""
    return bits_to_unit(keys.implementation.bits_each(keys.words, drawn_bits(dtype)), dtype)


def _chosen(condition: Array, new: Any, old: Any) -> tuple[Any, ...]:
    return tuple(tree.map(lambda a, b: lax.select(condition, a, b), new, old))


# ------------------------------------------------------------------------------------------- gamma


def _accepted_cubes(keys: KeyArray, c: Array, d: Array) -> Array:
    """Draw cubes v for which d v is gamma distributed, by rejection.

    G. Marsaglia, W. W. Tsang, A Simple Method for Generating Gamma Variables (2000).

    A round uses one key for normal numbers x, which it draws until 1 + c x, the root of the cube,
    is positive, and one key for a uniform number u. The two nested loops are merged into one: each
    iteration draws one normal number, and begins a new round if the last root was positive.
    """
    dtype = c.dtype
    zero, one = constant_like(c, 0), constant_like(c, 1)

    def rejected(square: Array, root: Array, u: Array) -> Array:
        v = lax.mul(lax.mul(root, root), root)
        squeeze = lax.sub(one, lax.mul(constant_like(c, 0.0331), lax.square(square)))
        growth = lax.mul(d, lax.add(lax.sub(one, v), lax.log(v)))
        bound = lax.add(lax.mul(square, constant_like(c, 0.5)), growth)
        failed = lax.bitwise_and(lax.ge(u, squeeze), lax.ge(lax.log(u), bound))
        return lax.bitwise_or(failed, lax.le(root, zero))

    def some_rejected(state: Any) -> Array:
        return lax.reduce_or(rejected(*state[3:]), (0,))

    def again(state: Any) -> Any:
        square, root, u = state[3:]
        begins = _split_each(state[0], 3)
        keys, normal_keys, uniform_keys = _chosen(lax.gt(root, zero), tuple(begins), state[:3])
        normal_keys, drawn_from = _split_each(normal_keys, 2)
        x = unit_to_normal(_unit_each(drawn_from, dtype))
        numbers = lax.mul(x, x), lax.add(one, lax.mul(x, c)), _unit_each(uniform_keys, dtype)
        new = (keys, normal_keys, uniform_keys, *numbers)
        return _chosen(rejected(square, root, u), new, state)

    # These numbers are rejected for all c and d.
    start = (keys, keys, keys, zero, one, constant_like(c, 2))
    root = lax.while_loop(some_rejected, again, start)[4]
    return lax.mul(lax.mul(root, root), root)


def _gamma(key: KeyArray, a: Array, log_space: bool) -> Array:
    """Samples of the shape and dtype of ``a``, or their logarithms."""
    shape, dtype = a.shape, a.dtype
    size = math.prod(shape)
    if size == 0:
        return a
    alpha = lax.stop_gradient(lax.reshape(a, (size,)))
    one = constant_like(alpha, 1)
    is_large = lax.ge(alpha, one)
    # For alpha below one, take a sample for alpha + 1 times a power of a uniform number.
    raised = lax.select(is_large, alpha, lax.add(alpha, one))
    third = constant_like(alpha, 1.0 / 3.0)
    d = lax.sub(raised, third)
    c = lax.div(third, lax.sqrt(d))
    keys, boost_keys = _split_each(split_key(key, size), 2)
    v = _accepted_cubes(keys, c, d)
    u = _unit_each(boost_keys, dtype)
    inverse = lax.div(one, alpha)
    if log_space:
        logarithm = lax.log1p(lax.neg(u))
        zero = constant_like(alpha, 0)
        none = lax.bitwise_or(is_large, lax.eq(logarithm, zero))
        boost = lax.select(none, zero, lax.mul(logarithm, inverse))
        sample = lax.add(lax.add(lax.log(d), lax.log(v)), boost)
    else:
        boost = lax.select(is_large, one, lax.pow(lax.sub(one, u), inverse))
        sample = lax.mul(lax.mul(d, v), boost)
    return bind(ops.gamma_sample, a, lax.reshape(sample, shape), log_space=log_space)


def _sampled(
    function: str, key: Any, a: Any, shape: Any, dtype: Any, method: str, log_space: bool
) -> Array:
    words = one_key(function, key)
    check_method(function, method)
    checked = float_dtype(function, dtype)
    sizes = sample_shape(function, shape, a)
    return _drawn(function, words, a, sizes, checked, method, log_space)


def _drawn(
    function: str,
    key: KeyArray,
    a: Any,
    shape: Shape,
    dtype: DType,
    method: str,
    log_space: bool,
) -> Array:
    """Numbers, or their logarithms, by either method; arguments but ``a`` are checked."""
    if method == "exact":
        return _gamma(key, parameter(function, a, dtype, shape), log_space)
    # Narrow dtypes would only lose accuracy.
    wide = np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    logarithm = approximate_loggamma(key, parameter(function, a, wide, shape))
    return lax.convert_element_type(logarithm if log_space else lax.exp(logarithm), dtype)


@takes_out_sharding
def gamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the gamma distribution of parameter a and scale one.

    They are differentiable in ``a``.

    Args:
      key: one key.
      a: positive parameters that broadcast to the shape.
      shape: the shape of the result; that of ``a`` by default.
      dtype: a floating point dtype; float32 by default.
      method: ``"exact"`` draws by rejection. ``"approximate"`` needs no loop, and errs by a small
        part of a standard deviation; its numbers have other derivatives.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      ValueError: the dtype or the method is not supported, or ``a`` does not broadcast to the
        shape.

    Example:
      >>> from gnomon import random
      >>> gamma(random.key(0), 2.0, (3,)).shape
      (3,)
    """
    return _sampled("gamma", key, a, shape, dtype, method, log_space=False)


@takes_out_sharding
def loggamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: OutSharding | None = None,
) -> Array:
    """Logarithms of gamma distributed numbers, finite where these underflow.

    Args:
      key: one key.
      a: shape parameters, positive numbers that broadcast to the shape.
      shape: the shape of the result; that of ``a`` by default.
      dtype: a floating point dtype; None means the default float dtype.
      method: see `gamma`.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> random.loggamma(random.key(0), 2.0, (3,)).round(3)
      Array([0.464, 0.565, 0.121], dtype=float32)
      >>> bool(gnp.isfinite(random.loggamma(random.key(0), 1e-3, (1000,))).all())
      True

    See also:
      `gamma`
    """
    return _sampled("loggamma", key, a, shape, dtype, method, log_space=True)


# ----------------------------------------------------------------------- quotients of gamma numbers


@takes_out_sharding
def beta(
    key: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the beta distribution.

    Args:
      key: one key.
      a, b: positive parameters that broadcast to the shape.
      shape: the shape of the result; by default the broadcast shape of the parameters.
      dtype: a floating point dtype; float32 by default.
      method: see `gamma`.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> from gnomon import random
      >>> random.beta(random.key(0), 2.0, 3.0, (3,)).round(3)
      Array([0.236, 0.49 , 0.684], dtype=float32)
      >>> random.beta(random.key(0), 2.0, 3.0, (10000,)).mean().round(2)
      Array(0.4, dtype=float32)
    """
    words = one_key("beta", key)
    check_method("beta", method)
    checked = float_dtype("beta", dtype)
    check_casts("beta", checked, a, b)
    sizes = sample_shape("beta", shape, a, b)
    first, second = (
        _drawn("beta", k, parameter("beta", v, checked, sizes), sizes, checked, method, True)
        for k, v in zip(keys_from(words, 2), (a, b), strict=True)
    )
    largest = lax.max(first, second)
    first, second = (lax.exp(lax.sub(v, largest)) for v in (first, second))
    return lax.div(first, lax.add(first, second))


@takes_out_sharding
def dirichlet(
    key: ArrayLike,
    alpha: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Vectors of the Dirichlet distribution: positive numbers that add up to one.

    Args:
      key: one key.
      alpha: positive parameters of shape (..., n).
      shape: the shape of the result without its last dimension; by default the leading dimensions
        of ``alpha``, which must broadcast to it.
      dtype: a floating point dtype; float32 by default.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      ValueError: ``alpha`` has no dimension, or shapes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> x = random.dirichlet(random.key(0), gnp.array([1.0, 2.0, 3.0]), (4,))
      >>> x.shape
      (4, 3)
      >>> x.sum(axis=-1).round(4)
      Array([1., 1., 1., 1.], dtype=float32)
    """
    words = one_key("dirichlet", key)
    checked = float_dtype("dirichlet", dtype)
    if np.ndim(alpha) < 1:
        raise ValueError("random.dirichlet: alpha must have one dimension at least, got a scalar")
    batch, count = np.shape(alpha)[:-1], np.shape(alpha)[-1]
    sizes = (*sample_shape("dirichlet", shape, np.empty(batch)), count)
    logs = _gamma(words, parameter("dirichlet", alpha, checked, sizes), log_space=True)
    axis = (len(sizes) - 1,)
    kept = tuple(range(len(sizes) - 1))
    largest = lax.stop_gradient(lax.reduce_max(logs, axis))
    numbers = lax.exp(lax.sub(logs, lax.broadcast_in_dim(largest, sizes, kept)))
    return lax.div(numbers, lax.broadcast_in_dim(lax.reduce_sum(numbers, axis), sizes, kept))


def _chisquare(key: KeyArray, df: Array, method: str = "exact") -> Array:
    two = constant_like(df, 2)
    half = lax.div(df, two)
    return lax.mul(lax.exp(_drawn("chisquare", key, half, df.shape, df.dtype, method, True)), two)


@takes_out_sharding
def chisquare(
    key: ArrayLike,
    df: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the chi-square distribution.

    Args:
      key: one key.
      df: degrees of freedom, positive numbers that broadcast to the shape.
      shape: the shape of the result; that of ``df`` by default.
      dtype: a floating point dtype; float32 by default.
      method: see `gamma`.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> from gnomon import random
      >>> random.chisquare(random.key(0), 4.0, (3,)).round(3)
      Array([3.18 , 3.52 , 2.258], dtype=float32)
      >>> random.chisquare(random.key(0), 4.0, (10000,)).mean().round(1)
      Array(4., dtype=float32)
    """
    words = one_key("chisquare", key)
    check_method("chisquare", method)
    checked = float_dtype("chisquare", dtype)
    check_casts("chisquare", checked, df)
    sizes = sample_shape("chisquare", shape, df)
    return _chisquare(words, parameter("chisquare", df, checked, sizes), method)


@takes_out_sharding
def f(
    key: ArrayLike,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the F distribution: quotients of chi-square numbers, each divided by its df.

    Args:
      key: one key.
      dfnum, dfden: degrees of freedom of the numerator and of the denominator.
      shape: the shape of the result; by default the broadcast shape of the parameters.
      dtype: a floating point dtype; float32 by default.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> from gnomon import random
      >>> random.f(random.key(0), 4.0, 6.0, (3,)).round(3)
      Array([2.325, 0.31 , 0.226], dtype=float32)
    """
    words = one_key("f", key)
    checked = float_dtype("f", dtype)
    check_casts("f", checked, dfnum, dfden)
    sizes = sample_shape("f", shape, dfnum, dfden)
    above, below = (parameter("f", v, checked, sizes) for v in (dfnum, dfden))
    below_key, above_key = keys_from(words, 2)
    numerator = lax.div(_chisquare(above_key, above), above)
    return lax.div(numerator, lax.div(_chisquare(below_key, below), below))


@takes_out_sharding
def t(
    key: ArrayLike,
    df: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of Student's t distribution.

    Args:
      key: one key.
      df: degrees of freedom, positive numbers that broadcast to the shape.
      shape: the shape of the result; that of ``df`` by default.
      dtype: a floating point dtype; None means the default float dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> from gnomon import random
      >>> random.t(random.key(0), 5.0, (3,)).round(3)
      Array([ 0.759, -2.056, -1.282], dtype=float32)
    """
    words = one_key("t", key)
    checked = float_dtype("t", dtype)
    sizes = sample_shape("t", shape, df)
    check_casts("t", checked, df)
    normal_key, gamma_key = keys_from(words, 2)
    half = parameter("t", df, checked, sizes)
    half = lax.div(half, constant_like(half, 2))
    drawn = standard_normal(normal_key, sizes, checked)
    return lax.mul(drawn, lax.sqrt(lax.div(half, _gamma(gamma_key, half, log_space=False))))


# --------------------------------------------------------------------------------- powers and balls


@takes_out_sharding
def generalized_normal(
    key: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers with a density proportional to exp(-abs(x)**p).

    Args:
      key: one key.
      p: the power, a positive number.
      shape: the shape of the result; that of ``p`` must broadcast to it.
      dtype: a floating point dtype; float32 by default.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> from gnomon import random
      >>> random.generalized_normal(random.key(0), 2.0, (3,)).round(3)
      Array([ 0.954,  0.09 , -1.153], dtype=float32)
    """
    words = one_key("generalized_normal", key)
    checked = float_dtype("generalized_normal", dtype)
    sizes = sample_shape("generalized_normal", shape, p)
    inverse = _inverse(p, checked)
    return _generalized_normal(words, inverse, sizes)


def _inverse(p: Any, dtype: DType) -> Array:
    power = parameter("generalized_normal", p, dtype, np.shape(as_operand(p)))
    return lax.div(constant(power, 1), power)


def _generalized_normal(key: KeyArray, inverse: Array, shape: Shape) -> Array:
    gamma_key, sign_key = keys_from(key, 2)
    exponent = broadcast(inverse, shape)
    drawn = _gamma(gamma_key, exponent, log_space=False)
    signs = rademacher(sign_key, shape, inverse.dtype)
    return lax.mul(signs, lax.pow(drawn, exponent))


@takes_out_sharding
def ball(
    key: ArrayLike,
    d: int,
    p: ArrayLike = 2,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Points distributed uniformly in the unit ball of the p-norm.

    F. Barthe, O. Guédon, S. Mendelson, A. Naor, A probabilistic approach to the geometry of the
    lp ball (2005).

    Args:
      key: one key.
      d: the dimension of the space.
      p: the norm, a positive number.
      shape: the shape of the draws.
      dtype: a floating point dtype; float32 by default.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Returns:
      An array of shape ``(*shape, d)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> points = random.ball(random.key(0), 2, shape=(1000,))
      >>> points.shape
      (1000, 2)
      >>> bool((gnp.linalg.norm(points, axis=1) <= 1).all())
      True
    """
    words = one_key("ball", key)
    checked = float_dtype("ball", dtype)
    sizes = as_shape("random.ball", shape)
    inverse = _inverse(p, checked)
    power = parameter("ball", p, checked, np.shape(as_operand(p)))
    point_key, radius_key = keys_from(words, 2)
    out = (*sizes, index(d))
    point = _generalized_normal(point_key, inverse, out)
    drawn = exponential(radius_key, sizes, checked)
    norms = lax.reduce_sum(lax.pow(lax.abs(point), broadcast(power, out)), (len(sizes),))
    radius = lax.pow(lax.add(norms, drawn), broadcast(inverse, sizes))
    return lax.div(point, lax.broadcast_in_dim(radius, out, tuple(range(len(sizes)))))
