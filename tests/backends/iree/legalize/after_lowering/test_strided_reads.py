"""Strided slices of gathered elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.lax as lax
import gnomon.numpy as gnp
from gnomon.backends.iree.targets import find_target, incompatibility
from tests.backends.iree.joined import Call, check_joined

READS: dict[str, Callable[[Any, Any], Any]] = {
    "elements": lambda x, i: x[i],
    "rows": lambda x, i: gnp.stack([x, x + 1, x * 2])[:, i],
    "clipped": lambda x, i: gnp.take(x, i, mode="clip"),
    "sorted": lambda x, i: x[gnp.argsort(x)],
    "positions": lambda x, i: gnp.argsort(x).astype(x.dtype),
    "computed": lambda x, i: gnp.where(x > 2, x[i] * 2 - x, x),
    "loop": lambda x, i: lax.fori_loop(0, 2, lambda k, c: c[i] + x, x),
    "reversed": lambda x, i: x[i][::-1] + x[::-1],
}
SLICES: dict[str, Callable[[Any], Any]] = {
    "[::2]": lambda v: v[..., ::2],
    "[1::3]": lambda v: v[..., 1::3],
    "[::-2]": lambda v: v[..., ::-2],
    "both": lambda v: (v[..., ::2] * 3, v[..., 1::2], v),
}


# Each read in each dtype; the sizes take turns, so that each read is tested in each size.
DTYPES = ["float64", "int64", "float32", "int16", "complex64"]


@pytest.mark.sampled(0.13)
@pytest.mark.parametrize("turn", range(3))
@pytest.mark.parametrize("dtype", DTYPES)
def test_strided_slices_of_what_is_gathered(dtype: str, turn: int) -> None:
    def slices(read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda x, i: [cut(read(x, i)) for cut in SLICES.values()]

    calls: dict[str, Call] = {}
    sizes = ((5, "int32"), (16, "int32"), (37, "int16"))
    for k, (name, read) in enumerate(READS.items(), DTYPES.index(dtype) + turn):
        size, index = sizes[k % 3]
        rng = np.random.default_rng(k)
        x = rng.integers(0, 50, size).astype(dtype)
        i = rng.integers(0, size, size).astype(index)
        calls[f"{name} of {size} elements"] = slices(read), (x, i)
    with gn.enable_x64(True):
        check_joined(calls)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_other_processors(target: str) -> None:
    with gn.enable_x64(True):
        x, i = gnp.arange(11.0), gnp.asarray(np.arange(11)[::-1].astype(np.int32))
        compiled = gn.jit(lambda x, i: x[i][::2] + 1).lower(x, i).compile(target=target)
        if not incompatibility(find_target(target)):
            np.testing.assert_array_equal(np.asarray(compiled(x, i)), np.arange(11.0)[::-2] + 1)


@pytest.mark.parametrize("axis", [0, 1])
def test_gathered_bools_are_read_in_both_directions(axis: int) -> None:
    x = np.random.default_rng(0).integers(0, 2, (2, 9)).astype(bool)

    def f(p: Any, x: Any, i: Any) -> Any:
        rows = x[i]
        return gnp.where(p, rows, gnp.flip(rows, axis)), gnp.flip(rows, axis)

    i = np.array([1, 0], np.int32)
    for p in (True, False):
        chosen, reversed_ = gn.jit(f)(p, x, i)
        np.testing.assert_array_equal(chosen, x[i] if p else np.flip(x[i], axis))
        np.testing.assert_array_equal(reversed_, np.flip(x[i], axis))


def test_gathered_bools_are_reversed_in_a_branch() -> None:
    x = np.random.default_rng(0).integers(0, 2, (1, 9)).astype(bool)

    def f(p: Any, x: Any) -> Any:
        rows = gnp.insert(x, 0, 1, axis=0)
        return lax.cond(p, lambda r: r, lambda r: r[::-1], rows)

    rows = np.insert(x, 0, 1, axis=0)
    for p in (True, False):
        np.testing.assert_array_equal(gn.jit(f)(p, x), rows if p else rows[::-1])
