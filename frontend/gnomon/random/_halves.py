"""Threefry's random words as JAX drew them before each depended on its own position alone.

With ``gnomon_threefry_partitionable=False``, the counters of an array of words are cut into two
halves. Each hash takes one counter from each half, and its two words go to the same two places. So
a word depends on the size of the array that it belongs to.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gnomon import lax
from gnomon._arrays.array import Array
from gnomon.dialects.symbolic.dimension import is_symbolic_dim

__all__ = ["bits", "bits_each", "split", "split_each"]

_UINT32 = np.dtype(np.uint32)
# Beyond this many words, JAX draws blocks from keys of their own.
_MOST_WORDS = 2**32 - 1

Words = tuple[Array, ...]
Hash = Callable[[Words, Array, Array], Words]
"""Two words for a key and for each pair of counters."""


def _words(hash_: Hash, key: Words, count: int) -> Array:
    """``count`` random words."""
    if is_symbolic_dim(count) or count > _MOST_WORDS:
        raise NotImplementedError(
            f"with gnomon_threefry_partitionable=False, at most {_MOST_WORDS} words are drawn "
            f"at once, and not of symbolic sizes; got {count}. Use the default, True"
        )
    if not count:
        return lax.full((0,), 0, _UINT32)
    padded = count + count % 2
    counters = lax.iota(_UINT32, padded)
    if padded != count:
        counters = counters.at[-1].set(0)
    first, second = counters[: padded // 2], counters[padded // 2 :]
    return lax.concatenate(list(hash_(key, first, second)), 0)[:count]


def split(hash_: Hash, key: Words, shape: tuple[int, ...]) -> Words:
    """New keys."""
    pairs = lax.reshape(_words(hash_, key, 2 * math.prod(shape)), (*shape, 2))
    return pairs[..., 0], pairs[..., 1]


def bits(hash_: Hash, key: Words, width: int, shape: tuple[int, ...]) -> Array:
    """Unsigned integers of a width of 8 to 64 bits."""
    size = math.prod(shape)
    words = _words(hash_, key, -(-width * size // 32))
    dtype = np.dtype(f"uint{width}")
    if width == 64:
        high, low = (lax.convert_element_type(w, dtype) for w in (words[:size], words[size:]))
        words = (high << np.uint64(32)) | low
    elif width < 32:
        # A word has several numbers, the first one in its lowest bits.
        shifts = width * lax.iota(_UINT32, 32 // width)
        parts = lax.convert_element_type(words[:, None] >> shifts, dtype)
        words = lax.reshape(parts, (parts.size,))[:size]
    return lax.reshape(words, shape)


def split_each(hash_: Hash, keys: Words, count: int) -> list[Words]:
    """New keys for each of an array of keys."""
    pairs = [
        hash_(keys, lax.full_like(keys[0], i), lax.full_like(keys[0], count + i))
        for i in range(count)
    ]
    words = [pair[half] for half in (0, 1) for pair in pairs]
    return [(words[2 * i], words[2 * i + 1]) for i in range(count)]


def bits_each(hash_: Hash, keys: Words, width: int) -> Array:
    """One unsigned integer for each of an array of keys."""
    zero = lax.full_like(keys[0], 0)
    dtype = np.dtype(f"uint{width}")
    if width < 64:
        return lax.convert_element_type(hash_(keys, zero, zero)[0], dtype)
    high, low = hash_(keys, zero, lax.full_like(zero, 1))
    shifted = lax.convert_element_type(high, dtype) << np.uint64(32)
    return shifted | lax.convert_element_type(low, dtype)
