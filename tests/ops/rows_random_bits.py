"""Rows of the op table: ``threefry2x32``, against known answers and an evaluation word by word."""

from __future__ import annotations

import numpy as np

from tests.ops.row import Operand, Row

_UINT32 = np.dtype(np.uint32)

# Random123's known-answer tests of threefry2x32, 20 rounds: counter, key, bits.
_KNOWN = (
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
)


def _word(i: int, which: int, repeat: int) -> Operand:
    column = np.array([answer[i][which] for answer in _KNOWN] * repeat, _UINT32)
    return Operand(column.shape, dtype=_UINT32, draw=lambda rng, shape, dtype: column)


def _known(repeat: int) -> Row:
    operands = (
        _word(1, 0, repeat),
        _word(1, 1, repeat),
        _word(0, 0, repeat),
        _word(0, 1, repeat),
    )
    answers = tuple(
        np.array([answer[2][which] for answer in _KNOWN] * repeat, _UINT32) for which in (0, 1)
    )
    return Row("threefry2x32", operands, lambda *_: answers, dtypes="u32", label=f"known-{repeat}")


def _one(k0: int, k1: int, x0: int, x1: int) -> tuple[int, int]:
    """Threefry-2x32 as its paper has it: a key schedule, then rounds of mixing."""
    modulus = 1 << 32
    schedule = [k0, k1, 0x1BD11BDA ^ k0 ^ k1]
    rotations = [13, 15, 26, 6, 17, 29, 16, 24]
    for round_ in range(20):
        if round_ % 4 == 0:
            s = round_ // 4
            x0 = (x0 + schedule[s % 3]) % modulus
            x1 = (x1 + schedule[(s + 1) % 3] + s) % modulus
        x0 = (x0 + x1) % modulus
        r = rotations[round_ % 8]
        x1 = (x1 * 2**r % modulus + x1 // 2 ** (32 - r)) ^ x0
    return (x0 + schedule[5 % 3]) % modulus, (x1 + schedule[6 % 3] + 5) % modulus


def _reference(*words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shape = words[0].shape
    pairs = [
        _one(*(int(w) for w in ws)) for ws in zip(*(w.reshape(-1) for w in words), strict=True)
    ]
    bits = np.array(pairs, _UINT32).reshape(-1, 2)
    return bits[:, 0].reshape(shape), bits[:, 1].reshape(shape)


def _uniform(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.asarray(rng.integers(0, 2**32, shape, dtype=np.uint32))


def _repeated(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """One key word for all counters, as if it were broadcast."""
    return np.broadcast_to(_uniform(rng, (), dtype), shape)


def _row(shape: tuple[int, ...], *, one_key: bool = False) -> Row:
    key = Operand(shape, dtype=_UINT32, draw=_repeated if one_key else _uniform)
    counter = Operand(shape, dtype=_UINT32, draw=_uniform)
    label = "x".join(map(str, shape)) or "scalar"
    return Row(
        "threefry2x32",
        (key, key, counter, counter),
        _reference,
        dtypes="u32",
        label=f"{label}-one-key" if one_key else label,
    )


ROWS = [
    _known(1),
    _known(10),
    _row(()),
    _row((), one_key=True),
    _row((0,)),
    _row((3, 0, 2)),
    _row((2,), one_key=True),
    _row((5, 4)),
    _row((3, 2, 4), one_key=True),
    _row((16384 + 5,), one_key=True),
]
