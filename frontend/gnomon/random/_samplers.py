"""The samplers that others are made of: bits, uniform and normal numbers, integers, booleans.

Random bits are those of ``jax.random`` with its default, partitionable Threefry: the number at a
position depends only on the key and the position.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from gnomon import lax
from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding, ShapeLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon._arrays.promotion import TypePromotionError
from gnomon._tracing.bind import as_operand, bind, with_weak_type
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_complex, is_floating, is_integer, real_dtype
from gnomon.lax._operands import as_shape, broadcast
from gnomon.random._implementations import host_values
from gnomon.random._key_array import KeyArray
from gnomon.random._keys import key_of

DType = np.dtype[Any]
Shape = tuple[int, ...]


# -------------------------------------------------------------------------------------- arguments


def one_key(function: str, key: Any) -> KeyArray:
    """The key that a sampler takes."""
    return key_of(function, key)[0]


def split_key(key: KeyArray, count: int) -> KeyArray:
    """An array of keys split off a key."""
    of = key.implementation
    return KeyArray(of.split(key.words, (count,)), of)


def keys_from(key: KeyArray, count: int) -> list[KeyArray]:
    """Keys split off a key, one by one."""
    return list(split_key(key, count))


def float_dtype(function: str, dtype: Any, kind: str = "float") -> DType:
    """The floating point dtype of a sampler's result; None means the default one."""
    if dtype is None:
        return _dtypes.default_float_dtype()
    checked: DType = _dtypes.check_user_dtype(dtype, f"random.{function}")
    if not (is_floating(checked) or (kind != "float" and is_complex(checked))):
        raise ValueError(
            f"dtype argument to random.{function} must be a {kind} dtype, got {checked.name}"
        )
    return checked


def sample_shape(function: str, shape: Any, *parameters: Any) -> Shape:
    """The shape of the result: the given one, or the broadcast shape of the parameters.

    Raises:
      ValueError: parameters do not broadcast to the shape.
    """
    shapes = [np.shape(p) for p in parameters]
    if shape is None:
        return lax.broadcast_shapes(*shapes)
    sizes = as_shape(f"random.{function}", shape)
    if shapes:
        try:
            together = lax.broadcast_shapes(sizes, *shapes)
        except ValueError:
            together = None
        if together != sizes:
            given = ", ".join(map(str, shapes))
            raise ValueError(
                f"random.{function}: parameters of shapes {given} do not broadcast to the shape "
                f"{sizes} of the result"
            )
    return sizes


def check_casts(function: str, dtype: DType, *parameters: Any) -> None:
    """Raise ``TypePromotionError`` for a parameter that the dtype cannot hold.

    Python numbers, and arrays made from them, fit every dtype.
    """
    for value in parameters:
        x = as_operand(value)
        if x.dtype != dtype and _dtypes.result_type(x, dtype) != dtype:
            raise TypePromotionError(
                f"random.{function}: a parameter of {x.aval} cannot be cast to {dtype.name} "
                "without loss; convert it, or pass a wider dtype"
            )


def constant(x: Array, value: Any) -> Array:
    """A scalar of the dtype of ``x``."""
    return wrap(np.asarray(value).astype(x.dtype))


def parameter(function: str, value: Any, dtype: DType, shape: Shape) -> Array:
    """A parameter of a distribution in the dtype and shape of the result."""
    x = as_operand(value)
    if is_complex(x.dtype) and not is_complex(dtype):
        raise TypeError(f"random.{function}: parameters must be real, got {x.aval}")
    converted = x if x.dtype == dtype else bind(ops.convert, x, dtype=dtype)
    return broadcast(with_weak_type(converted, False), shape)


# ------------------------------------------------------------------------------------------- bits


def raw_bits(key: KeyArray, bits: int, shape: Shape) -> Array:
    """Random unsigned integers of a width of 8, 16, 32 or 64 bits."""
    return key.implementation.bits(key.words, bits, shape)


@takes_out_sharding
def bits(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Random bits, as unsigned integers.

    Args:
      key: one key.
      shape: the shape of the result.
      dtype: an unsigned integer dtype; uint32 by default (uint64 under x64).
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      ValueError: the dtype is not supported, or ``key`` is an array of keys.

    Example:
      >>> from gnomon import random
      >>> bits(random.key(0), (2,))
      Array([4070199207, 4202968722], dtype=uint32)
    """
    words = one_key("bits", key)
    if dtype is None:
        checked = _dtypes.default_uint_dtype()
    else:
        checked = _dtypes.check_user_dtype(dtype, "random.bits")
    if checked.kind != "u":
        raise ValueError(
            f"dtype argument to random.bits must be an unsigned integer dtype, got {checked.name}"
        )
    return raw_bits(words, 8 * checked.itemsize, as_shape("random.bits", shape))


# ---------------------------------------------------------------------------------------- uniform


def drawn_bits(dtype: DType) -> int:
    """The number of random bits for a uniform number of a dtype."""
    info = ml_dtypes.finfo(dtype)
    return 8 if info.nmant < 8 else int(info.bits)


def unit_interval(key: KeyArray, shape: Shape, dtype: DType) -> Array:
    """Uniform numbers in [0, 1): random bits are the mantissa of a number in [1, 2), minus one."""
    return bits_to_unit(raw_bits(key, drawn_bits(dtype), shape), dtype)


def bits_to_unit(random: Array, dtype: DType) -> Array:
    """The last step of `unit_interval`, from the number of random bits that `drawn_bits` gives."""
    info = ml_dtypes.finfo(dtype)
    drawn, width, mantissa = drawn_bits(dtype), int(info.bits), int(info.nmant)
    unsigned = np.dtype(f"uint{width}")
    known = host_values(random)
    if known is not None:
        return wrap(_from_bits(known[0].astype(unsigned, copy=False), drawn - mantissa, dtype))
    if drawn != width:
        random = bind(ops.convert, random, dtype=unsigned)
    shape = random.shape
    shift = broadcast(wrap(np.array(drawn - mantissa, unsigned)), shape)
    one = np.array(1.0, dtype)
    exponent = broadcast(wrap(one.view(unsigned)), shape)
    number = bind(ops.or_, bind(ops.shift_right_logical, random, shift), exponent)
    from_one = bind(ops.bitcast_convert, number, dtype=dtype)
    return bind(ops.sub, from_one, broadcast(wrap(one), shape))


def _from_bits(random: np.ndarray[Any, Any], shift: int, dtype: DType) -> np.ndarray[Any, Any]:
    """The last step of `unit_interval` in NumPy."""
    one = np.array(1.0, dtype)
    number = random >> random.dtype.type(shift)
    number |= one.view(random.dtype)
    # A view of a 0-d array is an array; operators on it would give a scalar.
    result = np.asarray(number).view(dtype)
    return np.subtract(result, one, out=result)


def between(key: KeyArray, shape: Shape, dtype: DType, low: Any, high: Any) -> Array:
    """Uniform numbers in [low, high), for bounds of the dtype that broadcast to the shape."""
    return scaled_to_interval(unit_interval(key, shape, dtype), low, high)


def scaled_to_interval(unit: Array, low: Any, high: Any) -> Array:
    """Scale numbers in [0, 1) to [low, high)."""
    if type(low) in (int, float) and type(high) in (int, float) and (low, high) == (0, 1):
        return unit  # scaling by one and adding zero change nothing
    dtype, shape = unit.dtype, unit.shape
    low, high = (parameter("uniform", bound, dtype, np.shape(bound)) for bound in (low, high))
    span = broadcast(lax.sub(*_aligned(high, low)), shape)
    low = broadcast(low, shape)
    # XLA computes the product and the sum with one rounding, but in narrow dtypes with two; the
    # bits of the result depend on this.
    together = dtype.itemsize >= 4
    scaled = bind(ops.fma, unit, span, low) if together else lax.add(lax.mul(unit, span), low)
    return lax.max(low, scaled)


def _aligned(x: Array, y: Array) -> tuple[Array, Array]:
    shape = lax.broadcast_shapes(x.shape, y.shape)
    return broadcast(x, shape), broadcast(y, shape)


@takes_out_sharding
def uniform(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers distributed uniformly in [minval, maxval).

    Args:
      key: one key.
      shape: the shape of the result.
      dtype: a floating point dtype; float32 by default (float64 under x64).
      minval, maxval: bounds that broadcast to the shape.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      ValueError: bounds do not broadcast to the shape, or the dtype is not floating point.

    Example:
      >>> from gnomon import random
      >>> uniform(random.key(0), (2,))
      Array([0.947667 , 0.9785799], dtype=float32)
    """
    words = one_key("uniform", key)
    checked = float_dtype("uniform", dtype)
    sizes = sample_shape("uniform", shape, minval, maxval)
    return between(words, sizes, checked, minval, maxval)


# ----------------------------------------------------------------------------------------- normal


def _real_normal(key: KeyArray, shape: Shape, dtype: DType) -> Array:
    return unit_to_normal(unit_interval(key, shape, dtype))


def unit_to_normal(unit: Array) -> Array:
    """Normal numbers from uniform ones in [0, 1)."""
    dtype = unit.dtype
    # The interval is symmetric about zero and excludes -1, whose image is infinite.
    low = np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype)).astype(dtype)
    u = scaled_to_interval(unit, low, np.array(1.0, dtype))
    return lax.mul(constant(u, np.sqrt(2)), lax.erf_inv(u))


def standard_normal(key: KeyArray, shape: Shape, dtype: DType) -> Array:
    """Normal numbers, real or complex."""
    if not is_complex(dtype):
        return _real_normal(key, shape, dtype)
    part = real_dtype(dtype)
    parts = [_real_normal(k, shape, part) for k in keys_from(key, 2)]
    joined = bind(ops.complex, *parts)
    return lax.div(joined, constant(joined, np.sqrt(2)))


@takes_out_sharding
def normal(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Numbers of the standard normal distribution.

    Args:
      key: one key.
      shape: the shape of the result.
      dtype: a floating point or complex dtype (variance one in total); float32 by default.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      ValueError: the dtype is not supported.

    Example:
      >>> from gnomon import random
      >>> normal(random.key(0), (2,)).shape
      (2,)
    """
    words = one_key("normal", key)
    checked = float_dtype("normal", dtype, "float or complex")
    return standard_normal(words, as_shape("random.normal", shape), checked)


@takes_out_sharding
def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Normal numbers conditioned on the open interval (lower, upper).

    Args:
      key: one key.
      lower, upper: bounds that broadcast to the shape.
      shape: the shape of the result; by default the broadcast shape of the bounds.
      dtype: a floating point dtype; float32 by default.
      out_sharding: the sharding of the result on a mesh with explicit axes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> random.truncated_normal(random.key(0), -1.0, 1.0, (3,)).round(3)
      Array([ 0.862,  0.941, -0.291], dtype=float32)
      >>> bool(gnp.abs(random.truncated_normal(random.key(0), -1.0, 1.0, (1000,))).max() < 1)
      True
    """
    words = one_key("truncated_normal", key)
    checked = float_dtype("truncated_normal", dtype)
    sizes = sample_shape("truncated_normal", shape, lower, upper)
    low, high = (parameter("truncated_normal", v, checked, np.shape(v)) for v in (lower, upper))
    root = constant(low, np.sqrt(2))
    u = between(words, sizes, checked, *(lax.erf(lax.div(v, root)) for v in (low, high)))
    out = lax.mul(root, lax.erf_inv(u))
    # Rounding may reach a bound, which the open interval excludes.
    inside = [
        lax.nextafter(lax.stop_gradient(bound), constant(bound, limit))
        for bound, limit in ((low, np.inf), (high, -np.inf))
    ]
    least, greatest = (broadcast(v, sizes) for v in inside)
    return lax.min(lax.max(out, least), greatest)


# --------------------------------------------------------------------------------------- integers


@takes_out_sharding
def randint(
    key: ArrayLike,
    shape: ShapeLike,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Integers distributed uniformly in [minval, maxval).

    Args:
      key: one key.
      shape: the shape of the result.
      minval, maxval: integer bounds that broadcast to the shape. Where ``maxval <= minval`` the
        result is ``minval``.
      dtype: an integer dtype; int32 by default.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      TypeError: the dtype is not supported.
      ValueError: bounds do not broadcast to the shape.

    Example:
      >>> from gnomon import random
      >>> randint(random.key(0), (3,), 0, 10)
      Array([9, 0, 2], dtype=int32)
    """
    words = one_key("randint", key)
    checked = _dtypes.default_int_dtype()
    if dtype is not None:
        checked = _dtypes.check_user_dtype(dtype, "random.randint")
    if not is_integer(checked):
        raise TypeError(f"random.randint only accepts integer dtypes, got {checked.name}")
    sizes = sample_shape("randint", shape, minval, maxval)
    work = checked
    if checked.itemsize < 4:
        # With 32 bits, the remainders are nearly unbiased.
        info, work = ml_dtypes.iinfo(checked), np.dtype(np.int32)
        minval = _clipped(_as_int32(minval), int(info.min), int(info.max))
        maxval = _clipped(_as_int32(maxval), int(info.min), int(info.max) + 1)
    result = _integers(words, sizes, _integral(minval), _integral(maxval), work)
    return result if work == checked else bind(ops.convert, result, dtype=checked)


def _integral(bound: Any) -> Array:
    x = as_operand(bound)
    if is_integer(x.dtype):
        return with_weak_type(x, False)
    return lax.convert_element_type(x, _dtypes.default_int_dtype())


def _as_int32(bound: Any) -> Array:
    return lax.convert_element_type(as_operand(bound), np.dtype(np.int32))


def _clipped(x: Array, low: int, high: int) -> Array:
    return lax.min(lax.max(x, constant(x, low)), constant(x, high))


def _fitted(x: Array, dtype: DType) -> Array:
    """Convert an integer array to another integer dtype, clamped to its range."""
    to, own = ml_dtypes.iinfo(dtype), ml_dtypes.iinfo(x.dtype)
    x = _clipped(x, max(int(to.min), int(own.min)), min(int(to.max), int(own.max)))
    return x if x.dtype == dtype else bind(ops.convert, x, dtype=dtype)


def _integers(key: KeyArray, shape: Shape, low: Array, high: Array, dtype: DType) -> Array:
    """Random integers: twice as many bits as the dtype has, modulo the span of the bounds."""
    width = ml_dtypes.iinfo(dtype).bits
    unsigned = np.dtype(f"uint{width}")
    # A bound above the dtype's largest value means that the largest value is included.
    largest = min(int(ml_dtypes.iinfo(dtype).max), int(ml_dtypes.iinfo(high.dtype).max))
    beyond = lax.gt(high, constant(high, largest))
    low, high = (_fitted(bound, dtype) for bound in (low, high))
    low, high = _aligned(low, high)
    beyond = broadcast(beyond, low.shape)
    higher, lower = (raw_bits(k, width, shape) for k in keys_from(key, 2))

    span = bind(ops.convert, lax.sub(high, low), dtype=unsigned)
    one = constant(span, 1)
    span = lax.select(lax.le(high, low), broadcast(one, span.shape), span)
    wider = lax.bitwise_and(beyond, lax.gt(high, low))
    span = lax.select(wider, lax.add(span, one), span)
    # 2**width modulo span, by the square of 2**(width / 2).
    multiplier = lax.rem(broadcast(constant(span, 1 << width // 2), span.shape), span)
    multiplier = lax.rem(lax.mul(multiplier, multiplier), span)
    span, multiplier = broadcast(span, shape), broadcast(multiplier, shape)
    offset = lax.add(lax.mul(lax.rem(higher, span), multiplier), lax.rem(lower, span))
    offset = bind(ops.convert, lax.rem(offset, span), dtype=dtype)
    return lax.add(broadcast(low, shape), offset)


@takes_out_sharding
def bernoulli(
    key: ArrayLike,
    p: ArrayLike = 0.5,
    shape: ShapeLike | None = None,
    mode: str = "low",
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Booleans that are true with probability p.

    Args:
      key: one key.
      p: floating point probabilities that broadcast to the shape.
      shape: the shape of the result; that of ``p`` by default.
      mode: ``"high"`` draws twice as many bits, for probabilities below 1e-7.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      TypeError: ``p`` is not floating point.
      ValueError: ``p`` does not broadcast to the shape, or the mode is unknown.

    Example:
      >>> from gnomon import random
      >>> random.bernoulli(random.key(0), 0.7, (5,))
      Array([False, False,  True,  True,  True], dtype=bool)
      >>> random.bernoulli(random.key(0), 0.7, (10000,)).mean().round(2)
      Array(0.7, dtype=float32)
    """
    if mode not in ("high", "low"):
        raise ValueError(f"random.bernoulli: mode must be 'high' or 'low', got {mode!r}")
    words = one_key("bernoulli", key)
    probability = as_operand(p)
    dtype = probability.dtype
    if not is_floating(dtype):
        raise TypeError(
            f"random.bernoulli: the probability must have a floating dtype, got {dtype.name}"
        )
    sizes = sample_shape("bernoulli", shape, probability)
    threshold = parameter("bernoulli", probability, dtype, sizes)
    if mode == "low":
        return lax.lt(unit_interval(words, sizes, dtype), threshold)
    both = unit_interval(words, (2, *sizes), dtype)
    first, second = lax.unstack(both)
    fine = lax.mul(second, constant(second, 2.0 ** -int(ml_dtypes.finfo(dtype).nmant)))
    return lax.lt(fine, lax.sub(threshold, first))
