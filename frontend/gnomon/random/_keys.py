"""Keys: what `key`, `split` and `fold_in` make and every sampler takes.

A typed key is a `KeyArray`; a raw key is one uint32 array whose last dimension holds the two words.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._array import Array, ConcreteArray, wrap
from gnomon._config import config
from gnomon._trace_stack import staging
from gnomon._tracing import as_operand, bind
from gnomon.dialects.emit import ops
from gnomon.lax._operands import as_shape, broadcast
from gnomon.random._key_array import IMPLEMENTATION, KeyArray, check_implementation

UINT32 = np.dtype(np.uint32)
UINT64 = np.dtype(np.uint64)


# ---------------------------------------------------------------------------------- raw and typed


def _is_raw(x: Any) -> bool:
    return isinstance(x, Array | np.ndarray) and not isinstance(x, KeyArray)


def _from_raw(x: Any) -> KeyArray:
    array = as_operand(x)
    if array.dtype != UINT32:
        raise TypeError(
            f"the words of random keys must be uint32, got an array of dtype {array.dtype.name}"
        )
    if array.ndim == 0 or array.shape[-1] != 2:
        raise TypeError(
            "an array of the words of random keys must have a last dimension of size 2, got shape "
            f"{array.shape}"
        )
    known = host_values(array)
    if known is not None:
        return KeyArray(wrap(known[0][..., 0]), wrap(known[0][..., 1]))
    return KeyArray(*(lax.index_in_dim(array, i, -1, keepdims=False) for i in (0, 1)))


def _check_legacy() -> None:
    """Say that a raw key was given, if the configuration asks for it."""
    if config.legacy_prng_key != "allow":
        message = (
            "Legacy uint32 key array passed as key to random function. Please create keys using "
            "random.key(). If use of a raw key array was intended, set the config option "
            'gnomon_legacy_prng_key="allow".'
        )
        if config.legacy_prng_key == "error":
            raise ValueError(message)
        warnings.warn(message, stacklevel=4)


def words_of(function: str, keys: Any) -> tuple[Array, Array, bool]:
    """The words of one key, and whether it was a raw one.

    Raises:
      TypeError: it is not a key.
      ValueError: it is an array of keys.
    """
    raw = False
    if type(keys) is not KeyArray:
        if not _is_raw(keys):
            raise TypeError(
                f"random.{function} takes a key, made by random.key or random.PRNGKey; got a value "
                f"of type {type(keys).__name__}"
            )
        _check_legacy()
        keys, raw = _from_raw(keys), True
    first, second = keys.words
    if first.shape:
        raise ValueError(
            f"random.{function} accepts a single key, but was given a key array of shape "
            f"{first.shape}. Use gnomon.vmap for a batch of keys."
        )
    return first, second, raw


def _result(first: Array, second: Array, raw: bool) -> Array:
    keys = KeyArray(first, second)
    return key_data(keys) if raw else keys


def key_data(keys: Any) -> Array:
    """The words of keys.

    Args:
      keys: an array of keys, or a raw key.
    Returns:
      A uint32 array with one more dimension, the last, of size two.

    Example:
      >>> key_data(key(7))
      Array([0, 7], dtype=uint32)
    """
    if type(keys) is not KeyArray:
        if not _is_raw(keys):
            raise TypeError(f"key_data takes keys, got a value of type {type(keys).__name__}")
        keys = _from_raw(keys)
    first, second = keys.words
    known = host_values(first, second)
    if known is not None:
        data = np.empty((*known[0].shape, 2), UINT32)
        data[..., 0], data[..., 1] = known
        return wrap(data)
    return keys.data()


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """Keys from their words, the inverse of `key_data`.

    Args:
      key_bits_array: a uint32 array whose last dimension has size two.
      impl, dtype: the generator (at most one is given); there is ``"threefry2x32"``.
    Raises:
      TypeError: another dtype or shape.
    """
    check_implementation(_implementation("wrap_key_data", impl, dtype))
    if not _is_raw(key_bits_array):
        raise TypeError(
            f"wrap_key_data takes an array of uint32, got {type(key_bits_array).__name__}"
        )
    return _from_raw(key_bits_array)


def _implementation(function: str, impl: Any, dtype: Any) -> Any:
    if impl is not None and dtype is not None:
        raise ValueError(f"random.{function}: give impl or dtype, not both")
    return dtype if impl is None else impl


def key_impl(keys: Any) -> str:
    """The name of the generator of keys: ``"threefry2x32"``."""
    if type(keys) is not KeyArray:
        if not _is_raw(keys):
            raise TypeError(f"key_impl takes keys, got a value of type {type(keys).__name__}")
        _from_raw(keys)
    return IMPLEMENTATION


# ------------------------------------------------------------------------------------ making keys


def _seed_words(function: str, seed: Any) -> tuple[Array, Array]:
    if isinstance(seed, KeyArray):
        raise TypeError(f"{function} accepts a scalar seed, but was given a random key")
    if np.ndim(seed):
        raise TypeError(
            f"{function} accepts a scalar seed, but was given an array of shape {np.shape(seed)}. "
            "Use gnomon.vmap for a batch of seeds."
        )
    if isinstance(seed, int):
        if not -(2**63) <= seed < 2**63:
            raise OverflowError(f"{function}: the seed {seed} does not fit 64 bits")
        high = seed >> 32 & 0xFFFFFFFF if config.x64 else 0
        return _word(high), _word(seed & 0xFFFFFFFF)
    array = as_operand(seed)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{function}: the seed must be an integer, got {array.aval}")
    bits = 8 * array.dtype.itemsize
    unsigned = np.dtype(f"uint{bits}")
    if bits <= 32:
        # The high word of a 32-bit seed is zero, negative seeds included.
        low = lax.convert_element_type(array, UINT32)
        return _word(0), low
    wide = array if array.dtype == unsigned else bind(ops.bitcast_convert, array, dtype=unsigned)
    high_word = lax.shift_right_logical(wide, np.uint64(32))
    low_word = lax.bitwise_and(wide, np.uint64(0xFFFFFFFF))
    high, low = (bind(ops.convert, w, dtype=UINT32) for w in (high_word, low_word))
    return high, low


def _word(value: int) -> Array:
    return wrap(np.array(value, UINT32))


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """A random key from a seed.

    Args:
      seed: an integer, or an integer array without dimensions. Without 64-bit types the lower 32
        bits count.
      impl, dtype: the generator (at most one is given); there is ``"threefry2x32"``.
    Returns:
      A key array without dimensions.
    Raises:
      TypeError: the seed is not one integer.
      OverflowError: it does not fit 64 bits.

    Example:
      >>> key(7)
      Array((), dtype=key<fry>) overlaying:
      [0 7]
    """
    check_implementation(_implementation("key", impl, dtype))
    return KeyArray(*_seed_words("key", seed))


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """A raw random key from a seed: a uint32 array of two words; see `key` for typed ones.

    Example:
      >>> PRNGKey(7)
      Array([0, 7], dtype=uint32)
    """
    check_implementation(impl)
    made = KeyArray(*_seed_words("PRNGKey", seed))
    return made if config.enable_custom_prng else key_data(made)


def host_values(*arrays: Array) -> list[np.ndarray[Any, Any]] | None:
    """The NumPy values of arrays, where they are at hand and nothing is staged.

    With them the short samplers call NumPy at once: each op that goes through `bind` costs as much
    as all of them.
    """
    if staging():
        return None
    values = []
    for array in arrays:
        value = array._value if type(array) is ConcreteArray else None
        if value is None:
            return None
        values.append(value)
    return values


# From this size on a view that repeats a word costs less than an array of them.
_LARGE = 1 << 14


def hashed_counters(first: Array, second: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """`threefry` of `counters`."""
    size = math.prod(shape)
    known = host_values(first, second)
    if known is None or size > 2**32:
        return threefry(first, second, *counters(shape))
    repeat = np.full if size < _LARGE else lambda n, word: np.broadcast_to(word, n)
    high, low = ops.threefry2x32.evaluate(
        *(repeat(shape, word) for word in known),
        np.zeros(shape, UINT32),
        np.arange(size, dtype=UINT32).reshape(shape),
    )
    return wrap(high), wrap(low)


def threefry(first: Array, second: Array, high: Array, low: Array) -> tuple[Array, Array]:
    """The hash of counters under one key: two words for each counter."""
    shape = high.shape
    out = bind(ops.threefry2x32, broadcast(first, shape), broadcast(second, shape), high, low)
    return out[0], out[1]


def counters(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """0, 1, 2, ... in row-major order, as the high and low words of 64-bit numbers."""
    size = math.prod(shape)
    if size <= 2**32:
        low = bind(ops.iota, dtype=UINT32, shape=(size,), dimension=0)
        return broadcast(_word(0), shape), lax.reshape(low, shape)
    wide = bind(ops.iota, dtype=UINT64, shape=(size,), dimension=0)
    bits = broadcast(wrap(np.array(32, UINT64)), (size,))
    high = bind(ops.convert, bind(ops.shift_right_logical, wide, bits), dtype=UINT32)
    low = bind(ops.convert, wide, dtype=UINT32)
    return lax.reshape(high, shape), lax.reshape(low, shape)


def split(key: Any, num: int | tuple[int, ...] = 2) -> Array:
    """New keys from a key.

    Args:
      key: one key.
      num: how many, or the shape of the array of new keys.
    Returns:
      Keys of the given kind (typed or raw) with the dimensions of ``num`` in front.
    Raises:
      ValueError: ``key`` is an array of keys.

    Example:
      >>> key_data(split(key(0)))
      Array([[1797259609, 2579123966],
             [ 928981903, 3453687069]], dtype=uint32)
    """
    first, second, raw = words_of("split", key)
    shape = as_shape("random.split", num)
    return _result(*hashed_counters(first, second, shape), raw)


def fold_in(key: Any, data: Any) -> Array:
    """A new key from a key and an integer.

    Args:
      key: one key.
      data: an integer of 32 bits, or an integer array without dimensions.
    Returns:
      One key of the given kind.
    Raises:
      TypeError: ``data`` has dimensions.
      OverflowError: a Python int that does not fit uint32.
    """
    first, second, raw = words_of("fold_in", key)
    if np.ndim(data):
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape {np.shape(data)}. Use "
            "gnomon.vmap for a batch."
        )
    if type(data) is int and not 0 <= data < 2**32:
        raise OverflowError(f"fold_in: the integer {data} is out of bounds for uint32")
    low = lax.convert_element_type(data, UINT32)
    return _result(*threefry(first, second, _word(0), low), raw)


def clone(key: Any) -> Any:
    """The same key, for reuse on purpose."""
    words_of("clone", key)
    return key.copy()
