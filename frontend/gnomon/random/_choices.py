"""Discrete draws: signs, categories by their probabilities, elements of an array, permutations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from gnomon import lax
from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding, ShapeLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import as_operand, bind, with_weak_type
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import any_symbolic, surely_at_most
from gnomon.dialects.types import is_floating, is_integer
from gnomon.lax._operands import as_shape, broadcast
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._sorting import by_halves, method_for, position_dtype, searchsorted
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
    randint,
    raw_bits,
    sample_shape,
    unit_interval,
)


@takes_out_sharding
def gumbel(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    mode: str | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the standard Gumbel distribution: -log(-log(u)) of uniform u.

    Args:
      key: one key.
      shape: the shape of the result.
      dtype: a floating point dtype; float32 by default.
      mode: ``"low"`` (the default); ``"high"``, which uses twice as many bits and reaches larger
        values; or ``"highest"``, which uses all of these bits at both ends (in float32; other
        dtypes are drawn as in ``"high"``).
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      ValueError: the dtype or the mode is not supported.

    Example:
      >>> from gnomon import random
      >>> random.gumbel(random.key(0), (3,)).round(3)
      Array([ 2.923,  3.833, -0.097], dtype=float32)

    See also:
      `categorical`, which uses them to draw indices
    """
    words = one_key("gumbel", key)
    checked = float_dtype("gumbel", dtype)
    return standard_gumbel(words, as_shape("random.gumbel", shape), checked, mode)


def standard_gumbel(key: KeyArray, shape: Shape, dtype: DType, mode: str | None) -> Array:
    """`gumbel` of checked arguments."""
    if mode not in (None, "low", "high", "highest"):
        raise ValueError(f"random.gumbel: mode must be 'low', 'high' or 'highest', got {mode!r}")
    if mode == "highest" and dtype == np.float32:
        return _gumbel_of_64_bits(key, shape)
    info = ml_dtypes.finfo(dtype)
    if mode not in ("high", "highest"):
        u = between(key, shape, dtype, np.array(info.tiny, dtype), np.array(1.0, dtype))
        return lax.neg(lax.log(lax.neg(lax.log(u))))
    high, low = lax.unstack(unit_interval(key, (2, *shape), dtype))
    tail = lax.mul(low, constant(low, 2.0 ** -int(info.nmant)))
    fine = lax.add(lax.add(high, tail), constant(low, info.tiny))
    x = lax.select(lax.ge(high, constant(high, 0.5)), high, fine)
    return lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(x)))))


def _gumbel_of_64_bits(key: KeyArray, shape: Shape) -> Array:
    """`gumbel` of float32 whose uniform numbers have 64 bits and are near 0 or near 1 alike."""
    high, low = lax.unstack(raw_bits(key, 32, (2, *shape)))
    below = lax.lt(high, constant(high, 1 << 31))
    # 1 - u, of the numbers u >= 1/2: the negative of 64 bits.
    carry = lax.convert_element_type(lax.eq(low, constant(low, 0)), low.dtype)
    minus_low = lax.add(lax.bitwise_not(low), constant(low, 1))
    minus_high = lax.add(lax.bitwise_not(high), carry)
    near = _fraction(lax.select(below, high, minus_high), lax.select(below, low, minus_low))
    return lax.neg(lax.log(lax.neg(lax.select(below, lax.log1p(lax.neg(near)), lax.log(near)))))


def _fraction(high: Array, low: Array) -> Array:
    """The float32 number below 64 binary digits, of two words; its exponent is at least -64."""
    bits, digits = 32, int(np.finfo(np.float32).nmant)

    def word(value: int) -> Array:
        return constant(high, value)

    zeros, more = lax.clz(high), lax.clz(low)
    short = lax.eq(zeros, word(bits))
    # Shifts by 32 are 0, in both directions.
    rest = lax.select(
        short,
        lax.shift_left(low, more),
        lax.shift_right_logical(low, lax.sub(word(bits), zeros)),
    )
    leading = lax.bitwise_or(lax.shift_left(high, zeros), rest)
    mantissa = lax.bitwise_and(
        lax.shift_right_logical(leading, word(bits - digits - 1)), word((1 << digits) - 1)
    )
    zeros = lax.select(short, lax.add(word(bits), more), zeros)
    exponent = lax.shift_left(lax.sub(word(-int(np.finfo(np.float32).minexp)), zeros), word(digits))
    number = lax.bitwise_or(exponent, mantissa)
    return lax.bitcast_convert_type(number, np.float32)


@takes_out_sharding
def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: ShapeLike | None = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Indices of categories, drawn by their unnormalized log probabilities.

    Args:
      key: one key.
      logits: unnormalized log probabilities along ``axis``.
      axis: which dimension of ``logits``.
      shape: the shape of the result; it must end with the shape of ``logits`` without ``axis``,
        which is the default.
      replace: False draws distinct categories along the leading dimensions of ``shape``.
      mode: see `gumbel`.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Returns:
      Indices of the default integer dtype.
    Raises:
      ValueError: shapes do not fit, or the logits are not floating point.

    Example:
      >>> from gnomon import random
      >>> import gnomon.numpy as gnp
      >>> categorical(random.key(0), gnp.zeros((3, 4)))
      Array([1, 3, 2], dtype=int32)
    """
    words = one_key("categorical", key)
    x = as_operand(logits)
    dtype = x.dtype
    if not is_floating(dtype):
        raise ValueError(f"random.categorical: logits must be floating point, got {x.aval}")
    x = with_weak_type(x, False)
    axis = canonical_axis(axis, x.ndim)
    batch = (*x.shape[:axis], *x.shape[axis + 1 :])
    sizes = batch if shape is None else sample_shape("categorical", shape, np.empty(batch))
    prefix = sizes[: len(sizes) - len(batch)]
    if not replace:
        noise = standard_gumbel(words, x.shape, dtype, mode)
        return _largest(lax.add(x, noise), axis, prefix)
    place = axis + len(prefix)
    drawn = (*sizes[:place], x.shape[axis], *sizes[place:])
    noise = standard_gumbel(words, drawn, dtype, mode)
    shifted = lax.add(noise, broadcast(x, drawn))
    return lax.argmax(shifted, place, _dtypes.default_int_dtype())


def _largest(x: Array, axis: int, shape: Shape) -> Array:
    """Indices of the largest elements along an axis, in leading dimensions of that shape."""
    count = math.prod(shape)
    if count > x.shape[axis]:
        raise ValueError(
            f"random.categorical: {count} draws without replacement are more than the "
            f"{x.shape[axis]} categories"
        )
    last = x.ndim - 1
    order = [d for d in range(x.ndim) if d != axis]
    indices = lax.top_k(lax.transpose(x, (*order, axis)), count)[1]
    front = lax.transpose(indices, (last, *range(last)))
    return lax.reshape(front, (*shape, *front.shape[1:]))


@takes_out_sharding
def rademacher(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers that are 1 or -1 with equal probability.

    Args:
      key: one key.
      shape: the shape of the result.
      dtype: any dtype of numbers; int32 by default.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> from gnomon import random
      >>> random.rademacher(random.key(0), (6,))
      Array([-1, -1,  1,  1, -1,  1], dtype=int32)
    """
    words = one_key("rademacher", key)
    checked = _dtypes.default_int_dtype()
    if dtype is not None:
        checked = _dtypes.check_user_dtype(dtype, "random.rademacher")
    sizes = as_shape("random.rademacher", shape)
    unit = unit_interval(words, sizes, _dtypes.default_float_dtype())
    positive = lax.lt(unit, constant(unit, 0.5))
    # In unsigned dtypes 2 * 0 - 1 wraps around, as in JAX.
    work = _dtypes.default_int_dtype() if checked == np.bool_ else checked
    zero_or_one = bind(ops.convert, positive, dtype=work)
    doubled = lax.mul(zero_or_one, constant(zero_or_one, 2))
    return lax.convert_element_type(lax.sub(doubled, constant(doubled, 1)), checked)


def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Elements of an array (or numbers below an integer).

    Args:
      key: one key.
      a: an array, or an integer n, which means 0, ..., n - 1.
      shape: the shape of the draws.
      replace: False draws distinct elements.
      p: probabilities of the elements along ``axis``; uniform by default.
      axis: the dimension of ``a`` whose slices are drawn.
      mode: as in `gumbel`, for draws by ``p`` without replacement.
    Raises:
      TypeError: ``shape`` is not a sequence.
      ValueError: there are too few elements to draw from, or ``p`` has another length.

    Example:
      >>> from gnomon import random
      >>> choice(random.key(0), 5, (5,), replace=False).sum()
      Array(10, dtype=int32)
    """
    words = one_key("choice", key)
    if not isinstance(shape, Sequence):
        raise TypeError(f"random.choice: shape must be a sequence, got {shape!r}")
    sizes = as_shape("random.choice", shape)
    x = as_operand(a)
    scalar = x.ndim == 0
    axis = 0 if scalar else canonical_axis(axis, x.ndim)
    count = int(x) if scalar else x.shape[axis]
    if not math.prod(sizes):
        return lax.full(sizes, 0, x.dtype)
    if count <= 0:
        raise ValueError("random.choice: a must be greater than 0 unless no samples are taken")
    draws = math.prod(sizes)
    if not replace and draws > count:
        raise ValueError(
            f"random.choice: {draws} draws without replacement are more than the {count} elements"
        )
    if p is not None:
        chosen = _by_probability(words, as_operand(p), count, sizes, replace, mode)
    elif replace:
        chosen = randint(words, sizes, 0, count)
    else:
        order = permuted(words, count if scalar else x, axis)
        taken = lax.slice_in_dim(order, 0, draws, axis=axis)
        return lax.reshape(taken, (*order.shape[:axis], *sizes, *order.shape[axis + 1 :]))
    return chosen if scalar else _taken(x, chosen, axis)


def _by_probability(
    key: KeyArray, p: Array, count: int, shape: Shape, replace: bool, mode: str | None
) -> Array:
    if p.shape != (count,):
        raise ValueError(
            "random.choice: p must be a vector with one probability for each element, got shape "
            f"{p.shape} for {count} elements"
        )
    dtype = _dtypes.to_inexact_dtype(p.dtype)
    int_dtype = _dtypes.default_int_dtype()
    weights = parameter("choice", p, dtype, p.shape)
    if not replace:
        noisy = lax.add(standard_gumbel(key, (count,), dtype, mode), lax.log(weights))
        indices = lax.top_k(noisy, math.prod(shape))[1]
        return lax.reshape(lax.convert_element_type(indices, int_dtype), shape)
    sums = _sums_in_blocks(weights)
    unit = unit_interval(key, shape, dtype)
    drawn = lax.mul(lax.index_in_dim(sums, -1, 0, keepdims=False), lax.sub(constant(unit, 1), unit))
    if surely_at_most(count, _BLOCK**2):
        index = searchsorted(sums, drawn, method=method_for(sums, drawn))
    else:
        # Rounded sums of more rows are not always sorted: what is found depends on the steps.
        index = by_halves(sums, drawn, "left", position_dtype(count))
    return lax.convert_element_type(index, int_dtype)


# The rows in which XLA adds a vector up, before it adds up their sums.
_BLOCK = 16


def _sums_in_blocks(x: Array) -> Array:
    """Cumulative sums with the roundings of XLA's, so that the same elements are drawn."""
    (count,) = x.shape
    if any_symbolic(x.shape) or count <= _BLOCK:
        return lax.cumsum(x)
    rows = -(-count // _BLOCK)
    padded = lax.pad(x, constant(x, 0), ((0, rows * _BLOCK - count, 0),))
    inner = lax.cumsum(lax.reshape(padded, (rows, _BLOCK)), axis=1)
    totals = _sums_in_blocks(lax.index_in_dim(inner, -1, 1, keepdims=False))
    before = lax.pad(totals, constant(x, 0), ((1, -1, 0),))
    sums = lax.add(inner, lax.broadcast_in_dim(before, inner.shape, (0,)))
    return lax.slice(lax.reshape(sums, (rows * _BLOCK,)), (0,), (count,))


# ------------------------------------------------------------------------------------------ orders


@takes_out_sharding
def permutation(
    key: ArrayLike,
    x: ArrayLike,
    axis: int = 0,
    independent: bool = False,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Permute the slices of an array, or the numbers below an integer, randomly.

    Args:
      key: one key.
      x: an array, or an integer n, which means 0, ..., n - 1.
      axis: the dimension to permute along.
      independent: permute each vector along ``axis`` independently.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      TypeError: ``x`` is a number but not an integer.

    Example:
      >>> from gnomon import random
      >>> permutation(random.key(0), 4).sum()
      Array(6, dtype=int32)
    """
    words = one_key("permutation", key)
    array = as_operand(x)
    if array.ndim == 0:
        if not is_integer(array.dtype):
            raise TypeError(
                "random.permutation: x must be an integer or have one dimension at least, got "
                f"{array.aval}"
            )
        canonical_axis(axis, 1)
        return permuted(words, int(array), 0)
    place = canonical_axis(axis, array.ndim)
    return _shuffled(words, array, place) if independent else permuted(words, array, place)


def permuted(key: KeyArray, x: Array | int, axis: int) -> Array:
    """`permutation` of checked arguments, with the same order for all vectors along the axis."""
    if isinstance(x, int):
        return _shuffled(key, lax.iota(_dtypes.default_int_dtype(), x), 0)
    if x.ndim == 1:
        return _shuffled(key, x, axis)
    order = _shuffled(key, lax.iota(_dtypes.default_int_dtype(), x.shape[axis]), 0)
    return _taken(x, order, axis)


# The number of possible keys over all rounds must be at least this power of the number of elements,
# so that two elements are unlikely to have equal keys in all rounds.
_EXPONENT = 3


def _shuffled(key: KeyArray, x: Array, axis: int) -> Array:
    """Sort by random keys, as often as needed to distinguish all elements."""
    rounds = math.ceil(_EXPONENT * math.log(max(1, x.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, drawn_from = keys_from(key, 2)
        x = lax.sort_key_val(raw_bits(drawn_from, 32, x.shape), x, axis)[1]
    return x


def _taken(x: Array, indices: Array, axis: int) -> Array:
    """Slices of ``x`` along a dimension at indices that must be in bounds."""
    rank = indices.ndim
    offset = (*range(axis), *range(axis + rank, axis + rank + x.ndim - axis - 1))
    return lax.gather(
        x,
        lax.expand_dims(indices, (rank,)),
        lax.GatherDimensionNumbers(offset, (axis,), (axis,)),
        (*x.shape[:axis], 1, *x.shape[axis + 1 :]),
        mode="promise_in_bounds",
    )
