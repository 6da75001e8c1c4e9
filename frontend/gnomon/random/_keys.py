"""Random keys: `key`, `split`, `fold_in` and conversions.

A typed key is a `KeyArray`; a raw key is one uint32 array whose last dimension holds the words of a
key of the configured generator.
"""

from __future__ import annotations

import warnings
from typing import Any, NewType, cast

import numpy as np

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon._config.current import config
from gnomon._tracing.bind import as_operand, bind
from gnomon.dialects.emit import ops
from gnomon.lax._operands import as_shape
from gnomon.random._implementations import (
    Implementation,
    Words,
    host_values,
    implementation,
    word,
)
from gnomon.random._key_array import KeyArray, KeyDType, implementation_of

UINT32 = np.dtype(np.uint32)
UINT64 = np.dtype(np.uint64)

# The type of keys in annotations, raw ones included. A call returns its argument.
Key = NewType("Key", KeyArray)


# ---------------------------------------------------------------------------------- raw and typed


def _is_raw(x: Any) -> bool:
    return isinstance(x, Array | np.ndarray) and not isinstance(x, KeyArray)


def _from_raw(x: Any, of: Implementation | None = None) -> KeyArray:
    of = of or implementation()
    array = as_operand(x)
    if array.dtype != UINT32:
        raise TypeError(
            f"the words of random keys must be uint32, got an array of dtype {array.dtype.name}"
        )
    if array.ndim == 0 or array.shape[-1] != of.words:
        raise TypeError(
            f"an array of the words of {of} keys must have a last dimension of size {of.words}, "
            f"got shape {array.shape}"
        )
    known = host_values(array)
    if known is not None:
        return KeyArray([wrap(known[0][..., i]) for i in range(of.words)], of)
    rank = range(of.words)
    return KeyArray([lax.index_in_dim(array, i, -1, keepdims=False) for i in rank], of)


def _check_legacy() -> None:
    """Warn of a raw key, raise, or accept it, as the configuration says."""
    if config.legacy_prng_key != "allow":
        message = (
            "Legacy uint32 key array passed as key to random function. Please create keys using "
            "random.key(). If use of a raw key array was intended, set the config option "
            'gnomon_legacy_prng_key="allow".'
        )
        if config.legacy_prng_key == "error":
            raise ValueError(message)
        warnings.warn(message, stacklevel=4)


def key_of(function: str, keys: Any) -> tuple[KeyArray, bool]:
    """One key, and whether it is a raw key.

    Raises:
      TypeError: the argument is not a key.
      ValueError: the argument is an array of keys.
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
    shape = keys.words[0].shape
    if shape:
        raise ValueError(
            f"random.{function} accepts a single key, but was given a key array of shape "
            f"{shape}. Use gnomon.vmap for a batch of keys."
        )
    return keys, raw


def _result(words: Words, of: Implementation, raw: bool) -> Key:
    keys = KeyArray(words, of)
    return cast("Key", key_data(keys) if raw else keys)


def key_data(keys: ArrayLike) -> Array:
    """The words of keys.

    Args:
      keys: an array of keys, or a raw key.
    Returns:
      A uint32 array with an additional last dimension.

    Example:
      >>> key_data(key(7))
      Array([0, 7], dtype=uint32)
    """
    if type(keys) is not KeyArray:
        if not _is_raw(keys):
            raise TypeError(f"key_data takes keys, got a value of type {type(keys).__name__}")
        keys = _from_raw(keys)
    known = host_values(*keys.words)
    return keys.data() if known is None else wrap(np.stack(known, -1))


def wrap_key_data(
    key_bits_array: ArrayLike, *, impl: str | KeyDType | None = None, dtype: KeyDType | None = None
) -> Key:
    """Keys from their words, the inverse of `key_data`.

    Args:
      key_bits_array: a uint32 array whose last dimension holds the words of a key.
      impl, dtype: the generator; see `key`.
    Raises:
      TypeError: the dtype is not uint32, or the last dimension is not as long as a key.

    Example:
      >>> from gnomon import random
      >>> key = random.key(7)
      >>> words = random.key_data(key)
      >>> bool(random.normal(random.wrap_key_data(words)) == random.normal(key))
      True
    """
    of = _implementation("wrap_key_data", impl, dtype)
    if not _is_raw(key_bits_array):
        raise TypeError(
            f"wrap_key_data takes an array of uint32, got {type(key_bits_array).__name__}"
        )
    return Key(_from_raw(key_bits_array, of))


def _implementation(
    function: str, impl: str | KeyDType | None, dtype: KeyDType | None
) -> Implementation:
    if impl is not None and dtype is not None:
        raise ValueError(f"random.{function}: pass impl or dtype, not both")
    return implementation_of(dtype if impl is None else impl)


def key_impl(keys: ArrayLike) -> str:
    """The name of the generator of keys.

    Args:
      keys: keys, typed or raw.

    Example:
      >>> from gnomon import random
      >>> random.key_impl(random.key(0, impl="rbg"))
      'rbg'
    """
    if type(keys) is not KeyArray:
        if not _is_raw(keys):
            raise TypeError(f"key_impl takes keys, got a value of type {type(keys).__name__}")
        keys = _from_raw(keys)
    return str(keys.implementation.name)


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
            raise OverflowError(f"{function}: the seed {seed} does not fit in 64 bits")
        high = seed >> 32 & 0xFFFFFFFF if config.x64 else 0
        return word(high), word(seed & 0xFFFFFFFF)
    array = as_operand(seed)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{function}: the seed must be an integer, got {array.aval}")
    bits = 8 * array.dtype.itemsize
    unsigned = np.dtype(f"uint{bits}")
    if bits <= 32:
        # The high word of a 32-bit seed is zero, negative seeds included.
        low = lax.convert_element_type(array, UINT32)
        return word(0), low
    wide = array if array.dtype == unsigned else bind(ops.bitcast_convert, array, dtype=unsigned)
    high_word = lax.shift_right_logical(wide, np.uint64(32))
    low_word = lax.bitwise_and(wide, np.uint64(0xFFFFFFFF))
    high, low = (bind(ops.convert, w, dtype=UINT32) for w in (high_word, low_word))
    return high, low


def key(
    seed: ArrayLike, *, impl: str | KeyDType | None = None, dtype: KeyDType | None = None
) -> Key:
    """A random key from a seed.

    Args:
      seed: an integer, or an integer array without dimensions. Without 64-bit types, only the lower
        32 bits are used.
      impl, dtype: the generator, by its name or by the dtype of its keys, but not both. The names
        are ``"threefry2x32"``, ``"rbg"``, ``"unsafe_rbg"``, ``"philox2x32"``, ``"philox4x32"`` and
        ``"threefry4x32"``. By default, it is the configured one.
    Returns:
      A key array without dimensions.
    Raises:
      TypeError: the seed is not a single integer.
      OverflowError: the seed does not fit 64 bits.
      ValueError: the generator is unknown, or given twice.

    Example:
      >>> key(7)
      Array((), dtype=key<fry>) overlaying:
      [0 7]
    """
    of = _implementation("key", impl, dtype)
    return Key(KeyArray(of.seed(*_seed_words("key", seed)), of))


def PRNGKey(seed: ArrayLike, *, impl: str | KeyDType | None = None) -> Any:
    """A raw random key from a seed: a uint32 array of its words.

    It can be used only while the same generator is configured; `key` makes typed keys, which know
    their generator. With the option ``gnomon_enable_custom_prng``, the result is a typed key.

    Args:
      seed: an integer; its lowest 64 bits count (32 without ``gnomon_enable_x64``).
      impl: the generator, for example "threefry2x32"; None means the configured one.

    Example:
      >>> from gnomon import random
      >>> random.PRNGKey(7)
      Array([0, 7], dtype=uint32)

    See also:
      `key`, `split`
    """
    of = implementation_of(impl)
    made = KeyArray(of.seed(*_seed_words("PRNGKey", seed)), of)
    return made if config.enable_custom_prng else key_data(made)


def split(key: ArrayLike, num: int | tuple[int, ...] = 2) -> Key:
    """New keys from a key.

    Args:
      key: one key.
      num: the number of new keys, or the shape of their array.
    Returns:
      Keys of the kind of ``key`` (typed or raw), with the leading dimensions ``num``.
    Raises:
      ValueError: ``key`` is an array of keys.

    Example:
      >>> key_data(split(key(0)))
      Array([[1797259609, 2579123966],
             [ 928981903, 3453687069]], dtype=uint32)
    """
    one, raw = key_of("split", key)
    shape = as_shape("random.split", num)
    of = one.implementation
    return _result(of.split(one.words, shape), of, raw)


def fold_in(key: ArrayLike, data: ArrayLike) -> Key:
    """A new key from a key and an integer.

    Args:
      key: one key.
      data: an integer of 32 bits, or an integer array without dimensions.
    Returns:
      One key of the kind of ``key``.
    Raises:
      TypeError: ``data`` has dimensions.
      OverflowError: ``data`` is a Python int that does not fit uint32.

    Example:
      >>> from gnomon import random
      >>> key = random.key(0)
      >>> random.uniform(random.fold_in(key, 0)).round(3)
      Array(0.842, dtype=float32)
      >>> random.uniform(random.fold_in(key, 1)).round(3)
      Array(0.007, dtype=float32)

    See also:
      `split`
    """
    one, raw = key_of("fold_in", key)
    if np.ndim(data):
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape {np.shape(data)}. Use "
            "gnomon.vmap for a batch."
        )
    if isinstance(data, int) and not 0 <= data < 2**32:
        raise OverflowError(f"fold_in: the integer {data} is out of bounds for uint32")
    low = lax.convert_element_type(data, UINT32)
    of = one.implementation
    return _result(of.fold_in(one.words, low), of, raw)


def clone(key: Array | np.ndarray) -> Any:
    """The same keys, to mark an intended reuse.

    Args:
      key: keys, typed or raw.

    Example:
      >>> from gnomon import random
      >>> key = random.key(0)
      >>> bool(random.normal(key) == random.normal(random.clone(key)))
      True

    See also:
      `split`, which makes independent keys
    """
    key_data(key)  # Raises if it is not a key.
    return key.copy()
