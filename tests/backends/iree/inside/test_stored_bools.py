"""Results that are one value in two representations, of which one is a conversion without work."""

from __future__ import annotations

from typing import Any

import numpy as np

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax

BYTE = gnp.float8_e4m3fn
# Functions of bools; each program has other ones, so that each has a kernel of its own.
OF_BOOLS = {
    "int8": lambda b: b.astype(np.int8),
    "uint8": lambda b: b.astype(np.uint8),
    "both": lambda b: (b.astype(np.int8), b.astype(np.uint8)),
    "selected": lambda b: gnp.where(b, np.int8(1), np.int8(0)),
    "viewed": lambda b: b.view(np.int8),
    "reshaped": lambda b: b.astype(np.int8).reshape(2, -1),
    "float8": lambda b: lax.bitcast_convert_type(b.astype(np.uint8), BYTE),
    "int4": lambda b: b.astype(gnp.int4),
    "int32": lambda b: (b.astype(np.int32), b.astype(np.uint32)),
    "negated": lambda b: (~b, (~b).astype(np.uint8)),
    "reduced": lambda b: (b.any(), b.any().astype(np.int8)),
    "broadcast": lambda b: (gnp.broadcast_to(b, (3, 8)), gnp.tile(b.astype(np.int8), (3, 1))),
}
# Functions of a value of each dtype.
OTHERS = {
    "signs": (np.float32, lambda x: (gnp.signbit(x), gnp.signbit(x).astype(np.uint8))),
    "narrowed": (np.int32, lambda x: (x.astype(np.int8), x.astype(np.uint8), x.view(np.uint32))),
    "bits": (np.float32, lambda x: (x + 1, lax.bitcast_convert_type(x + 1, np.int32))),
    "shapes": (np.float32, lambda x: (x * 2, (x * 2).reshape(2, 4), (x * 2).ravel())),
    "parts": (np.complex64, lambda z: (z * 2, (z * 2).real, gnp.conj(z * 2))),
    "same": (np.int8, lambda x: (x + 1, (x + 1).astype(np.uint8))),
}


def test_one_value_in_two_representations() -> None:
    def f(v: Any, *others: Any) -> Any:
        bools = [(v + k) % (k + 2) > k // 2 for k in range(len(OF_BOOLS))]
        return (
            [(b, function(b)) for b, function in zip(bools, OF_BOOLS.values(), strict=True)],
            [function(x) for x, (_, function) in zip(others, OTHERS.values(), strict=True)],
        )

    v = np.arange(8, dtype=np.int32)
    others: list[np.ndarray] = [(np.arange(8) - 4).astype(dtype) for dtype, _ in OTHERS.values()]
    expected = gn.tree.leaves(f(gnp.asarray(v), *map(gnp.asarray, others)))
    for result, wanted in zip(gn.tree.leaves(gn.jit(f)(v, *others)), expected, strict=True):
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(np.asarray(result), np.asarray(wanted))


def test_bools_and_their_bytes_alone() -> None:
    """The smallest such program."""
    f = gn.jit(lambda v: ((v & 1).astype(bool), (v & 1).astype(bool).astype(np.int8)))
    bools, numbers = f(np.arange(4, dtype=np.int32))
    np.testing.assert_array_equal(bools, [False, True, False, True])
    np.testing.assert_array_equal(numbers, np.array([0, 1, 0, 1], np.int8))
