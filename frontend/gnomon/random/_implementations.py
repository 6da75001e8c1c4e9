"""Generators of random numbers: the words of a key, and the bits and new keys made from them.

Each generator is a table of functions of words, which are uint32 arrays. ``seed``, ``split``,
``fold_in`` and ``bits`` take the words of one key. ``split_each`` and ``bits_each`` take those of
an array of keys, and give the same results for each key as for the key alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, wrap
from gnomon._config.current import config
from gnomon._tracing.bind import bind
from gnomon._tracing.stack import needs_bind
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.lax._operands import broadcast, constant_like
from gnomon.random import _halves

UINT32 = np.dtype(np.uint32)
UINT64 = np.dtype(np.uint64)

Words = tuple[Array, ...]
Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Implementation:
    """A generator.

    Attributes:
      name: the name that the argument ``impl`` takes.
      tag: the tag in the name of the dtype, ``key<tag>``.
      words: the number of words of a key.
      seed: ``(high, low) -> words``.
      split: ``(words, shape) -> words``, new keys of that shape.
      fold_in: ``(words, data) -> words``.
      bits: ``(words, width, shape) -> array`` of unsigned integers of a width of 8 to 64 bits.
      split_each: ``(words, count) -> [words]``, each of the shape of the given words.
      bits_each: ``(words, width) -> array``.
    """

    name: str
    tag: str
    words: int
    seed: Callable[[Array, Array], Words]
    split: Callable[[Words, Shape], Words]
    fold_in: Callable[[Words, Array], Words]
    bits: Callable[[Words, int, Shape], Array]
    split_each: Callable[[Words, int], list[Words]]
    bits_each: Callable[[Words, int], Array]

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return implementation, (self.name,)


# ------------------------------------------------------------------------------------------- words


def word(value: int) -> Array:
    """One word."""
    return wrap(np.array(value, UINT32))


def host_values(*arrays: Array) -> list[np.ndarray[Any, Any]] | None:
    """The NumPy values of arrays, if they are known and nothing is staged.

    With them, the fast samplers call NumPy directly, because a single op through `bind` costs as
    much as all these calls.
    """
    if needs_bind():
        return None
    values = []
    for array in arrays:
        value = array._value if type(array) is ConcreteArray else None
        if value is None:
            return None
        values.append(value)
    return values


def counters(shape: Shape) -> tuple[Array, Array]:
    """0, 1, 2, ... in row-major order, as the high and low words of 64-bit numbers."""
    size = math.prod(shape)
    # A symbolic size is the size of a dimension and therefore below 2**31 in every call.
    if is_symbolic_dim(size) or size <= 2**32:
        low = bind(ops.iota, dtype=UINT32, shape=(size,), dimension=0)
        return broadcast(word(0), shape), lax.reshape(low, shape)
    wide = bind(ops.iota, dtype=UINT64, shape=(size,), dimension=0)
    bits = broadcast(wrap(np.array(32, UINT64)), (size,))
    high = bind(ops.convert, bind(ops.shift_right_logical, wide, bits), dtype=UINT32)
    low = bind(ops.convert, wide, dtype=UINT32)
    return lax.reshape(high, shape), lax.reshape(low, shape)


def joined_words(words: Words, bits: int) -> Array:
    """The first two random words as one unsigned integer of a width of 8, 16, 32 or 64 bits."""
    high, low = words[:2]
    return _wide(high, low) if bits == 64 else narrow(bind(ops.xor, high, low), bits)


def narrow(x: Array, bits: int) -> Array:
    """The lower bits of words."""
    return x if bits == 32 else bind(ops.convert, x, dtype=np.dtype(f"uint{bits}"))


def _wide(high: Array, low: Array) -> Array:
    shift = broadcast(wrap(np.array(32, UINT64)), high.shape)
    high, low = (bind(ops.convert, w, dtype=UINT64) for w in (high, low))
    return bind(ops.or_, bind(ops.shift_left, high, shift), low)


def hashed(op: Any, *words: Array) -> Words:
    """A hash of words that broadcast together."""
    shape = lax.broadcast_shapes(*(w.shape for w in words))
    return tuple(bind(op, *(broadcast(w, shape) for w in words)))


# ------------------------------------------------------------------------------------ threefry2x32

# From this size on, a view that repeats a word costs less than an array.
_LARGE = 1 << 14


def hashed_counters(key: Words, shape: Shape) -> Words:
    """`threefry` of `counters`."""
    size = math.prod(shape)
    known = host_values(*key)
    if known is None or is_symbolic_dim(size) or size > 2**32:
        return threefry(key, *counters(shape))
    repeat = np.full if size < _LARGE else lambda n, word: np.broadcast_to(word, n)
    high, low = ops.threefry2x32.evaluate(
        *(repeat(shape, word) for word in known),
        np.zeros(shape, UINT32),
        np.arange(size, dtype=UINT32).reshape(shape),
    )
    return wrap(high), wrap(low)


def threefry(key: Words, high: Array, low: Array) -> Words:
    """The hash of counters: two words for each counter."""
    return hashed(ops.threefry2x32, *key, high, low)


def _threefry_split(key: Words, shape: Shape) -> Words:
    if not config.threefry_partitionable:
        return _halves.split(threefry, key, shape)
    return hashed_counters(key, shape)


def _threefry_bits(key: Words, bits: int, shape: Shape) -> Array:
    if not config.threefry_partitionable:
        return _halves.bits(threefry, key, bits, shape)
    return joined_words(hashed_counters(key, shape), bits)


def _threefry_split_each(keys: Words, count: int) -> list[Words]:
    if not config.threefry_partitionable:
        return _halves.split_each(threefry, keys, count)
    zero = constant_like(keys[0], 0)
    return [threefry(keys, zero, constant_like(zero, i)) for i in range(count)]


def _threefry_bits_each(keys: Words, bits: int) -> Array:
    if not config.threefry_partitionable:
        return _halves.bits_each(threefry, keys, bits)
    zero = constant_like(keys[0], 0)
    return joined_words(threefry(keys, zero, zero), bits)


_THREEFRY_2 = Implementation(
    name="threefry2x32",
    tag="fry",
    words=2,
    seed=lambda high, low: (high, low),
    split=_threefry_split,
    fold_in=lambda key, data: threefry(key, word(0), data),
    bits=_threefry_bits,
    split_each=_threefry_split_each,
    bits_each=_threefry_bits_each,
)


# ----------------------------------------------------------------- other hashes of key and counter


def _by_hash(
    name: str,
    tag: str,
    words: int,
    op: Any,
    seed: Callable[[Array, Array], Words],
    for_keys: Callable[[Array, Array], Words],
    for_bits: Callable[[Array, Array], Words],
    drawn: Callable[[Words, int], Array],
) -> Implementation:
    """A generator that hashes positions.

    Args:
      seed: the operands of the hash whose first words are a new key.
      for_keys, for_bits: functions from the words of a position to a counter.
      drawn: a function from the words of the hash to random bits.
    """

    def keys(key: Words, high: Array, low: Array) -> Words:
        return hashed(op, *key, *for_keys(high, low))[:words]

    def bits(key: Words, width: int, high: Array, low: Array) -> Array:
        return drawn(hashed(op, *key, *for_bits(high, low)), width)

    return Implementation(
        name=name,
        tag=tag,
        words=words,
        seed=lambda high, low: hashed(op, *seed(high, low))[:words],
        split=lambda key, shape: keys(key, *counters(shape)),
        fold_in=lambda key, data: keys(key, word(0), data),
        bits=lambda key, width, shape: bits(key, width, *counters(shape)),
        split_each=lambda each, count: [keys(each, word(0), word(i)) for i in range(count)],
        bits_each=lambda each, width: bits(each, width, word(0), word(0)),
    )


def _mixed(words: Words) -> Array:
    first, *rest = words
    for other in rest:
        first = bind(ops.xor, first, other)
    return first


_PHILOX_2 = _by_hash(
    "philox2x32",
    "phx2",
    1,
    ops.philox2x32,
    seed=lambda high, low: (word(0), high, low),
    for_keys=lambda high, low: (high, low),
    for_bits=lambda high, low: (high, low),
    drawn=joined_words,
)

_PHILOX_4 = _by_hash(
    "philox4x32",
    "phx4",
    2,
    ops.philox4x32,
    seed=lambda high, low: (word(0), word(0), high, low, word(0), word(0)),
    for_keys=lambda high, low: (word(0), word(0), high, low),
    for_bits=lambda high, low: (high, low, word(0), word(0)),
    drawn=lambda words, bits: _wide(*words[:2]) if bits == 64 else narrow(_mixed(words), bits),
)

_THREEFRY_4 = _by_hash(
    "threefry4x32",
    "fry4",
    4,
    ops.threefry4x32,
    seed=lambda high, low: (high, low, *(word(0) for _ in range(6))),
    for_keys=lambda high, low: (word(0), word(0), high, low),
    for_bits=lambda high, low: (high, low, word(0), word(0)),
    drawn=lambda words, bits: (
        _wide(bind(ops.xor, words[0], words[2]), bind(ops.xor, words[1], words[3]))
        if bits == 64
        else narrow(_mixed(words), bits)
    ),
)


# -------------------------------------------------------------------------- XLA's rng_bit_generator


def _state(key: Words) -> Array:
    return lax.concatenate([lax.reshape(w, (1,)) for w in key], 0)


def _generated(key: Words, shape: Shape, dtype: np.dtype[Any]) -> Array:
    return bind(ops.rng_bit_generator, _state(key), shape=shape, dtype=dtype, algorithm="philox")[1]


def _philox_block(key: Words, ahead: int) -> Words:
    """The four words of the generator for each key, ``ahead`` steps after its counter."""
    k0, k1, low, high = key
    one = constant_like(low, ahead)
    moved = lax.add(low, one)
    carry = lax.convert_element_type(lax.lt(moved, one), UINT32)
    higher = lax.add(high, carry)
    carry = lax.convert_element_type(lax.lt(higher, carry), UINT32)
    third = lax.add(k0, carry)
    carry = lax.convert_element_type(lax.lt(third, carry), UINT32)
    return hashed(ops.philox4x32, k0, k1, moved, higher, third, lax.add(k1, carry))


def _rbg_bits_each(keys: Words, bits: int) -> Array:
    first, second, *_ = _philox_block(keys, 0)
    return _wide(second, first) if bits == 64 else narrow(first, bits)


def _rbg_split(key: Words, shape: Shape) -> Words:
    return (*_threefry_split(key[:2], shape), *_threefry_split(key[2:], shape))


def _rbg_split_each(keys: Words, count: int) -> list[Words]:
    halves = (_threefry_split_each(half, count) for half in (keys[:2], keys[2:]))
    return [(*first, *second) for first, second in zip(*halves, strict=True)]


_RBG = Implementation(
    name="rbg",
    tag="rbg",
    words=4,
    seed=lambda high, low: (high, low, high, low),
    split=_rbg_split,
    fold_in=lambda key, data: (
        *threefry(key[:2], word(0), data),
        *threefry(key[2:], word(0), data),
    ),
    bits=lambda key, bits, shape: _generated(key, shape, np.dtype(f"uint{bits}")),
    split_each=_rbg_split_each,
    bits_each=_rbg_bits_each,
)

# A new key is taken after this many blocks of the generator.
_ROUNDS = 10


def _unsafe_split(key: Words, shape: Shape) -> Words:
    drawn = _generated(key, (_ROUNDS * math.prod(shape), 4), UINT32)
    kept = lax.slice_in_dim(drawn, None, None, _ROUNDS)
    return tuple(lax.reshape(w, shape) for w in lax.unstack(kept, 1))


def _unsafe_fold_in(key: Words, data: Array) -> Words:
    drawn = _generated((word(0), data, word(0), data), (_ROUNDS, 4), UINT32)
    last = lax.unstack(lax.index_in_dim(drawn, -1, 0, keepdims=False))
    return tuple(bind(ops.xor, k, w) for k, w in zip(key, last, strict=True))


_UNSAFE_RBG = Implementation(
    name="unsafe_rbg",
    tag="urbg",
    words=4,
    seed=_RBG.seed,
    split=_unsafe_split,
    fold_in=_unsafe_fold_in,
    bits=_RBG.bits,
    split_each=lambda keys, count: [_philox_block(keys, _ROUNDS * i) for i in range(count)],
    bits_each=_rbg_bits_each,
)

IMPLEMENTATIONS = {
    each.name: each for each in (_THREEFRY_2, _RBG, _UNSAFE_RBG, _PHILOX_2, _PHILOX_4, _THREEFRY_4)
}


def implementation(impl: Any = None) -> Implementation:
    """The generator of a name, or the configured one for None.

    Raises:
      ValueError: there is no generator of that name.
      TypeError: the argument is not a name.
    """
    if isinstance(impl, Implementation):
        return impl
    name = config.default_prng_impl if impl is None else impl
    if not isinstance(name, str):
        raise TypeError(f"a generator must be a name or a key dtype, got {impl!r}")
    found = IMPLEMENTATIONS.get(name)
    if found is None:
        names = ", ".join(map(repr, IMPLEMENTATIONS))
        raise ValueError(f"unrecognized generator {name!r}: the generators are {names}")
    return found
