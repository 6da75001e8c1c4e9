"""Strided slices that are joined, taken back, and read by computed indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from tests.backends.iree.joined import Call, check_joined

X = np.arange(9, dtype=np.int32).reshape(3, 3)

# Each takes three rows of a slice, and gives them back.
WAYS: dict[str, Callable[[Any], Any]] = {
    "stack": lambda s: gnp.stack([s, s])[-1],
    "concatenate": lambda s: gnp.concatenate([s, s])[3:],
    "other part": lambda s: gnp.concatenate([s + 1, s])[3:],
    "both parts": lambda s: gnp.concatenate([s, s])[2:5],
    "nested": lambda s: gnp.concatenate([gnp.concatenate([s, s]), s])[3:6],
    "transposed": lambda s: gnp.concatenate([s, s]).T[:, 3:].T,
    "pad": lambda s: gnp.pad(s, ((0, 1), (0, 0)))[:3],
    "pad before": lambda s: gnp.pad(s, ((2, 0), (0, 0)), constant_values=7)[2:],
    "update": lambda s: gnp.zeros((4, 2), s.dtype).at[:3].set(s)[:3],
    "tile": lambda s: gnp.tile(s, (2, 1))[:3],
    "roll": lambda s: gnp.roll(gnp.roll(s, 1, 0), -1, 0),
    "split": lambda s: gnp.split(gnp.concatenate([s, s]), 2)[1],
}
READS: dict[str, Callable[[Any], Any]] = {
    "reversed sum": lambda v: gnp.sum(v[::-2], axis=0),
    "reversed": lambda v: v[::-1] + 1,
    "gathered": lambda v: v[gnp.asarray([1, 0])],
    "reversed scan": lambda v: lax.cumsum(v, axis=0, reverse=True),
}


def test_parts_of_joined_slices() -> None:
    def both(way: str, read: str) -> Callable[[Any], Any]:
        return lambda x: READS[read](WAYS[way](x[:, ::2]))

    calls: dict[str, Call] = {
        f"{way}, {read}": (both(way, read), (X,)) for way in WAYS for read in READS
    }
    check_joined(calls)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v4", "aarch64-linux"])
def test_parts_of_joined_slices_compile_for_other_processors(target: str) -> None:
    def program(x: Any, y: Any) -> Any:
        return [
            gnp.sum(WAYS[way](v[:, ::2])[::-2], axis=0) for way, v in (("stack", x), ("pad", y))
        ]

    gn.jit(program).lower(X, X).compile(target=target)
