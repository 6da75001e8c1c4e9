"""Rows of the op table: Philox, Threefry of four words, and the generator of bits made of hashes.

The hashes are compared with Random123's known answers, the generator with one that counts in
Python's integers, word by word.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.ops.row import Operand, Row
from tests.ops.rows_random_bits import _one as threefry2x32

_UINT32 = np.dtype(np.uint32)
_MASK = 0xFFFFFFFF
# The digits of pi, from which Random123 takes words that are not special.
_PI = (
    0x243F6A88,
    0x85A308D3,
    0x13198A2E,
    0x03707344,
    0xA4093822,
    0x299F31D0,
    0x082EFA98,
    0xEC4E6C89,
)

# The number of key words, and the hashes of counters and keys of all zeros, all ones, and digits of
# pi.
_KNOWN: dict[str, tuple[int, tuple[tuple[int, ...], ...]]] = {
    "philox2x32": (
        1,
        ((0xFF1DAE59, 0x6CD10DF2), (0x2C3F628B, 0xAB4FD7AD), (0xDD7CE038, 0xF62A4C12)),
    ),
    "philox4x32": (
        2,
        (
            (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ),
    "threefry4x32": (
        4,
        (
            (0x9C6CA96A, 0xE17EAE66, 0xFC10ECD4, 0x5256A7D8),
            (0x2A881696, 0x57012287, 0xF6C7446E, 0xA16A6732),
            (0x59CD1DBB, 0xB8879579, 0x86B5D00C, 0xAC8B6D84),
        ),
    ),
}


def _given(shape: tuple[int, ...], column: list[int]) -> Operand:
    values = np.resize(np.array(column, _UINT32), shape)
    return Operand(shape, dtype=_UINT32, draw=lambda rng, shape, dtype: values)


def _known(op: str, shape: tuple[int, ...]) -> Row:
    """The known answers, repeated to a shape."""
    keys, answers = _KNOWN[op]
    counters = len(answers[0])
    inputs = [(0,) * 8, (_MASK,) * 8, _PI]
    at = [*range(counters, counters + keys), *range(counters)]
    operands = tuple(_given(shape, [words[i] for words in inputs]) for i in at)
    expected = tuple(
        np.resize(np.array([a[i] for a in answers], _UINT32), shape) for i in range(counters)
    )
    label = "x".join(map(str, shape)) or "scalar"
    return Row(op, operands, lambda *_: expected, dtypes="u32", label=label)


def _philox(k0: int, k1: int, *x: int) -> tuple[int, ...]:
    for _ in range(10):
        first, second = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = ((second >> 32) ^ x[1] ^ k0, second & _MASK, (first >> 32) ^ x[3] ^ k1, first & _MASK)
        k0, k1 = (k0 + 0x9E3779B9) & _MASK, (k1 + 0xBB67AE85) & _MASK
    return x


def _generator(
    shape: tuple[int, ...], dtype: Any, algorithm: str, state: tuple[int, int, int, int]
) -> Row:
    kind = np.dtype(dtype)
    size, is_wide = math.prod(shape), kind.itemsize == 8

    def bits(words: list[int]) -> np.ndarray:
        if is_wide:
            words = [low | high << 32 for low, high in zip(words[::2], words[1::2], strict=True)]
        return np.array([w & (2 ** (8 * kind.itemsize) - 1) for w in words[:size]], kind)

    def words(key: list[int], i: int) -> tuple[int, ...]:
        k0, k1, low, high = key
        if algorithm == "philox":
            count = ((k1 << 96) + (k0 << 64) + (high << 32) + low + i) % 2**128
            return _philox(k0, k1, *(count >> 32 * j & _MASK for j in range(4)))
        count = ((high << 32) + low + i) % 2**64
        return threefry2x32(k0, k1, count & _MASK, count >> 32)

    def reference(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        given = [int(w) for w in key]
        if algorithm == "philox":
            used = -(-size // (2 if is_wide else 4))
            out = bits([w for i in range(used) for w in words(given, i)]).reshape(shape)
        elif is_wide or not size:
            used = size
            out = bits([w for i in range(used) for w in words(given, i)]).reshape(shape)
        else:
            # The two words of a counter are adjacent along the first dimension of even
            # length, or else along the longest.
            d = next((d for d, n in enumerate(shape) if n % 2 == 0), None)
            d = int(np.argmax(shape)) if d is None and shape else d
            half = shape if d is None else (*shape[:d], -(-shape[d] // 2), *shape[d + 1 :])
            used = math.prod(half)
            out = np.empty(shape, kind)
            pairs = [words(given, i) for i in range(used)]
            for index in np.ndindex(shape):
                at = index if d is None else (*index[:d], index[d] // 2, *index[d + 1 :])
                place = int(np.ravel_multi_index(at, half)) if shape else 0
                word = pairs[place][0 if d is None else index[d] % 2]
                out[index] = word & (2 ** (8 * kind.itemsize) - 1)
        count = ((given[3] << 32) + given[2] + used) % 2**64
        new = np.array([*given[:2], count & _MASK, count >> 32], _UINT32)
        return new, out

    return Row(
        "rng_bit_generator",
        (_given((4,), list(state)),),
        reference,
        {"shape": shape, "dtype": kind, "algorithm": algorithm},
        dtypes="u32",
        label=f"{algorithm}-{kind.name}-{'x'.join(map(str, shape)) or 'scalar'}",
    )


_STATE = (7, 9, 3, 4)
# The counter carries into its upper half, and Philox's into the key's words above.
_LAST = (_MASK, _MASK, _MASK - 1, _MASK)

ROWS = [
    *(_known(op, shape) for op in _KNOWN for shape in ((3,), (2, 3), (0,))),
    _known("philox4x32", ()),
    _known("philox4x32", (3 * 8192 + 3,)),
    _generator((), np.uint32, "philox", _STATE),
    _generator((5, 3), np.uint32, "philox", _LAST),
    _generator((7,), np.uint64, "philox", _LAST),
    _generator((2, 0, 3), np.uint16, "philox", _STATE),
    _generator((), np.uint8, "threefry", _STATE),
    _generator((3, 2, 4), np.uint8, "threefry", _LAST),
    _generator((3, 5), np.uint32, "threefry", _STATE),
    _generator((3,), np.uint64, "threefry", _LAST),
    _generator((0,), np.uint32, "threefry", _STATE),
]
