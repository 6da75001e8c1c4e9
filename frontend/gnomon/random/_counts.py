"""Numbers of events: Poisson, binomial and multinomial distributions, drawn by rejection.

All elements of a draw get new random numbers in each round, until all are accepted.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding, ShapeLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon._tracing.bind import as_operand
from gnomon.dialects.types import is_integer
from gnomon.lax._operands import as_shape, constant_like
from gnomon.numpy._arguments import promoted
from gnomon.random._approximations import approximate_poisson, check_method
from gnomon.random._key_array import KeyArray
from gnomon.random._samplers import (
    DType,
    Shape,
    float_dtype,
    keys_from,
    one_key,
    parameter,
    sample_shape,
    split_key,
    unit_interval,
)

_FLOAT32 = np.dtype(np.float32)
_MAX_ROUNDS = 2**31 - 2


def _rounds(limit: float) -> Array:
    """The maximum number of rounds of a draw, which JAX limits, too."""
    return wrap(np.array(min(limit, _MAX_ROUNDS), np.int32))


_FIRST = np.int32(0)


# ----------------------------------------------------------------------------------------- Poisson


def _poisson_by_products(key: KeyArray, rate: Array, dtype: DType, rounds: Array) -> Array:
    """How many uniform numbers can be drawn while their product is above exp(-rate).

    For low rates, since there is one iteration for each number.

    D. E. Knuth, The Art of Computer Programming, volume 2, section 3.4.1.
    """
    shape = rate.shape

    def pending(state: Any) -> Array:
        i, _, _, logarithm = state
        return gnp.any(logarithm > -rate) & (i < rounds)

    def draw(state: Any) -> Any:
        i, count, key, logarithm = state
        key, drawn_from = keys_from(key, 2)
        count = gnp.where(logarithm > -rate, count + 1, count)
        drawn = unit_interval(drawn_from, shape, _FLOAT32)
        return i + 1, count, key, logarithm + lax.log(drawn)

    start = (_FIRST, gnp.zeros(shape, dtype), key, gnp.zeros(shape, _FLOAT32))
    return lax.while_loop(pending, draw, start)[1] - 1


def _poisson_by_rejection(key: KeyArray, rate: Array, dtype: DType, rounds: Array) -> Array:
    """Poisson numbers for rates of ten or more.

    W. Hörmann, The Transformed Rejection Method for Generating Poisson Random Variables (1993).
    """
    shape = rate.shape
    log_rate = lax.log(rate)
    b = 0.931 + 2.53 * lax.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_limit = 0.9277 - 3.6224 / (b - 2)

    def pending(state: Any) -> Array:
        i, _, accepted, _ = state
        return ~gnp.all(accepted) & (i < rounds)

    def draw(state: Any) -> Any:
        i, found, accepted, key = state
        key, u_key, v_key = keys_from(key, 3)
        u = unit_interval(u_key, shape, rate.dtype) - 0.5
        v = unit_interval(v_key, shape, rate.dtype)
        distance = 0.5 - gnp.abs(u)
        k = lax.floor((2 * a / distance + b) * u + rate + 0.43)
        s = lax.log(v * inverse_alpha / (a / (distance * distance) + b))
        density = -rate + k * log_rate - lax.lgamma(k + 1)
        at_once = (distance >= 0.07) & (v <= v_limit)
        outside = (k < 0) | ((distance < 0.013) & (v > distance))
        accept = at_once | (~outside & (s <= density))
        return i + 1, gnp.where(accept, k, found), accepted | accept, key

    start = (_FIRST, constant_like(rate, -1), gnp.zeros(shape, bool), key)
    return lax.convert_element_type(lax.while_loop(pending, draw, start)[1], dtype)


@takes_out_sharding
def poisson(
    key: ArrayLike,
    lam: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the Poisson distribution.

    Args:
      key: one key.
      lam: rates, not negative, that broadcast to the shape.
      shape: the shape of the result; that of ``lam`` by default.
      dtype: an integer dtype; int32 by default.
      method: ``"exact"`` draws by rejection. ``"approximate"`` needs no loop; the total variation
        distance from the distribution is less than 1e-4.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      ValueError: the dtype or the method is not supported, or ``lam`` does not broadcast to the
        shape.

    Example:
      >>> from gnomon import random
      >>> poisson(random.key(0), 3.0, (4,)).dtype
      dtype('int32')
    """
    words = one_key("poisson", key)
    check_method("poisson", method)
    checked = _dtypes.default_int_dtype()
    if dtype is not None:
        checked = _dtypes.check_user_dtype(dtype, "random.poisson")
    if not is_integer(checked):
        raise ValueError(
            f"dtype argument to random.poisson must be an int dtype, got {checked.name}"
        )
    sizes = sample_shape("poisson", shape, lam)
    if method == "approximate":
        wide = as_operand(lam).dtype == np.float64 or checked.itemsize > 4
        rate = parameter("poisson", lam, np.dtype(np.float64) if wide else _FLOAT32, sizes)
        return lax.convert_element_type(approximate_poisson(words, rate), checked)
    rate = parameter("poisson", lam, _FLOAT32, sizes)
    rounds = _rounds(float(ml_dtypes.iinfo(checked).max))
    is_small = gnp.isnan(rate) | (rate < 10)
    small = gnp.where(is_small, rate, 0.0)
    large = gnp.where(is_small, gnp.float32(1e5), rate)
    result = gnp.where(
        is_small,
        _poisson_by_products(words, small, checked, rounds),
        _poisson_by_rejection(words, large, checked, rounds),
    )
    return gnp.where(gnp.equal(rate, 0), constant_like(result, 0), result)


# ---------------------------------------------------------------------------------------- binomial


def _binomial_by_gaps(key: KeyArray, count: Array, p: Array, rounds: Array) -> Array:
    """The number of geometric gaps that fit into ``count`` trials."""
    shape = p.shape
    log_failure = lax.log1p(-p)

    def pending(state: Any) -> Array:
        i, _, total, _ = state
        return gnp.any(total <= count) & (i < rounds)

    def draw(state: Any) -> Any:
        i, found, total, key = state
        drawn_from, key = keys_from(key, 2)
        found = gnp.where(total <= count, found + 1, found)
        drawn = unit_interval(drawn_from, shape, p.dtype)
        return i + 1, found, total + lax.ceil(lax.log(drawn) / log_failure), key

    zero = constant_like(p, 0)
    return lax.while_loop(pending, draw, (_FIRST, zero, zero, key))[1] - 1


# log(k!) minus its approximation by Stirling's formula, for k up to nine.
_FACTORIAL_RESTS = (
    0.0810614667953272,
    0.0413406959554092,
    0.0276779256849983,
    0.02079067210376509,
    0.0166446911898211,
    0.0138761288230707,
    0.0118967099458917,
    0.0104112652619720,
    0.00925546218271273,
    0.00833056343336287,
)


def _factorial_rest(k: Array) -> Array:
    table = wrap(np.array(_FACTORIAL_RESTS, k.dtype))
    near = lax.clamp(constant_like(k, 0), k, constant_like(k, 9))
    square = (near + 1) * (near + 1)
    series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (near + 1)
    known = table[lax.convert_element_type(lax.floor(near), np.dtype(np.int32))]
    return gnp.where(k <= 9, known, series)


def _binomial_by_rejection(key: KeyArray, count: Array, p: Array, rounds: Array) -> Array:
    """Binomial numbers for means of ten or more.

    W. Hörmann, The Generation of Binomial Random Variates (1993).
    """
    shape = p.shape
    deviation = lax.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = count * p + 0.5
    v_limit = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = lax.floor((count + 1) * p)

    def pending(state: Any) -> Array:
        i, _, accepted, _ = state
        return ~gnp.all(accepted) & (i < rounds)

    def draw(state: Any) -> Any:
        i, found, accepted, key = state
        key, u_key, v_key = keys_from(key, 3)
        u = unit_interval(u_key, shape, p.dtype) - 0.5
        v = unit_interval(v_key, shape, p.dtype)
        distance = 0.5 - gnp.abs(u)
        at_once = (distance >= 0.07) & (v <= v_limit)
        k = lax.floor((2 * a / distance + b) * u + c)
        outside = (k < 0) | (k > count)
        v = lax.log(v * alpha / (a / (distance * distance) + b))
        bound = (
            (mode + 0.5) * lax.log((mode + 1) / (odds * (count - mode + 1)))
            + (count + 1) * lax.log((count - mode + 1) / (count - k + 1))
            + (k + 0.5) * lax.log(odds * (count - k + 1) / (k + 1))
            + _factorial_rest(mode)
            + _factorial_rest(count - mode)
            - _factorial_rest(k)
            - _factorial_rest(count - k)
        )
        accept = at_once | (~outside & (v <= bound))
        return i + 1, gnp.where(accept, k, found), accepted | accept, key

    start = (_FIRST, constant_like(p, -1), gnp.zeros(shape, bool), key)
    found: Array = lax.while_loop(pending, draw, start)[1]
    return found


def binomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Numbers of the binomial distribution: successes in n trials.

    Args:
      key: one key.
      n: numbers of trials, not negative, that broadcast to the shape.
      p: probabilities of success that broadcast to the shape.
      shape: the shape of the result; by default the broadcast shape of the parameters.
      dtype: a floating point dtype; float32 by default.
    Returns:
      Whole numbers in a floating point dtype; nan where a parameter is nan or negative, or ``p``
      exceeds one; inf where ``n`` is infinite.

    Example:
      >>> from gnomon import random
      >>> binomial(random.key(0), 5, 1.0, (2,))
      Array([5., 5.], dtype=float32)
    """
    words = one_key("binomial", key)
    checked = float_dtype("binomial", dtype)
    sizes = sample_shape("binomial", shape, n, p)
    return _binomial(words, as_operand(n), as_operand(p), sizes, checked)


def _binomial(key: KeyArray, n: Array, p: Array, shape: Shape, dtype: DType) -> Array:
    work = _dtypes.to_inexact_dtype(p.dtype)
    count, p = (parameter("binomial", v, work, shape) for v in (n, p))
    is_rare = p < 0.5
    q = gnp.where(is_rare, p, 1.0 - p)
    bad_count = gnp.isnan(count) | (count < 0)
    endless = gnp.isinf(count)
    bad_q, negative = gnp.isnan(q), q < 0
    q = gnp.where(bad_q | negative, lax.full_like(q, 0.01), q)
    by_gaps = bad_count | (count * q <= 10.0)
    count = lax.floor(count)
    rounds = _rounds(float(ml_dtypes.finfo(dtype).max))
    samples = gnp.where(
        by_gaps,
        _binomial_by_gaps(key, gnp.where(by_gaps, count, lax.full_like(count, 0)), q, rounds),
        _binomial_by_rejection(
            key,
            gnp.where(by_gaps, lax.full_like(count, 1e4), count),
            gnp.where(by_gaps, lax.full_like(q, 0.5), q),
            rounds,
        ),
    )
    samples = lax.convert_element_type(samples, dtype)
    invalid = negative | bad_q | bad_count
    samples = gnp.where(invalid, lax.full_like(samples, np.nan), samples)
    samples = gnp.where(endless & ~invalid, lax.full_like(samples, np.inf), samples)
    rest = lax.convert_element_type(count, dtype) - samples
    return gnp.where(is_rare | bad_count | bad_q | endless, samples, rest)


def multinomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    unroll: int | bool = 1,
) -> Array:
    """Counts of the outcomes of n trials.

    Args:
      key: one key.
      n: numbers of trials, which broadcast to the shape without its last dimension.
      p: probabilities of the outcomes along the last dimension.
      shape: the shape of the result; that of ``p`` by default.
      dtype: the dtype of the result; float32 by default.
      unroll: the number of outcomes that an iteration of the loop over them draws.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> counts = random.multinomial(random.key(0), 100, gnp.array([0.2, 0.3, 0.5]))
      >>> counts.shape, float(counts.sum())
      ((3,), 100.0)
    """
    words = one_key("multinomial", key)
    trials, probabilities = promoted("multinomial", n, p, inexact=True)
    sizes = probabilities.shape if shape is None else as_shape("multinomial", shape)
    trials = gnp.broadcast_to(trials, sizes[:-1])
    weights = gnp.moveaxis(gnp.broadcast_to(probabilities, sizes), -1, 0)
    left = lax.cumsum(weights, 0, reverse=True)
    ratios = weights / gnp.where(gnp.equal(left, 0), 1, left)
    keys = split_key(words, ratios.shape[0])

    def draw(remainder: Array, outcome: Any) -> tuple[Array, Array]:
        ratio, outcome_key = outcome
        clipped = gnp.clip(ratio, 0, 1)
        drawn = _binomial(outcome_key, remainder, clipped, remainder.shape, remainder.dtype)
        return remainder - drawn, drawn

    _, counts = lax.scan(draw, trials, (ratios, keys), unroll=unroll)
    checked = _dtypes.default_float_dtype()
    if dtype is not None:
        checked = _dtypes.check_user_dtype(dtype, "random.multinomial")
    return gnp.astype(gnp.moveaxis(counts, 0, -1), checked)
