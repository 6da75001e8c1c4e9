"""Sums of products of two arrays are compiled apart from the products, and stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from tests.backends.iree.joined import Call, check_joined
from tests.tolerance import assert_near

F32 = np.dtype(np.float32)


def text_of(f: Any, *shapes: tuple[int, ...]) -> str:
    arguments = [gn.ShapeDtypeStruct(shape, F32) for shape in shapes]
    text: str = gn.jit(f).lower(*arguments).as_text("legalized")
    return text


@pytest.mark.parametrize(
    ("f", "shapes", "kept_apart"),
    [
        (lambda x, y: (x * y).sum(0), ((8, 4), (8, 4)), True),
        (lambda x, y: (x * y.T).sum((0, 1)), ((8, 4), (4, 8)), True),
        (lambda x, y: (x * x).sum(0), ((8, 4), (8, 4)), False),
        (lambda x, y: (x * y).sum(1), ((8, 4), (4,)), False),
        (lambda x, y: (x * 3).sum(1), ((8, 4), (4,)), False),
        (lambda x, y: (x + y).sum(0), ((8, 4), (8, 4)), False),
    ],
)
def test_products_of_arrays_are_kept_apart(
    f: Any, shapes: tuple[tuple[int, ...], ...], kept_apart: bool
) -> None:
    assert ("gnomon.min" in text_of(f, *shapes)) == kept_apart


def test_special_values_pass() -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-30], F32)
    x, y = (a.astype(F32) for a in np.meshgrid(special, special))
    # One term, so that each product is seen; and sums of all.
    for operands in ((x[None], y[None]), (x, y), (x[:, :0], y[:, :0])):
        wanted = gn.jit(lambda x, y: x * y)(*operands)
        with gn.disable_jit():
            wanted = wanted.sum(0)
        found = gn.jit(lambda x, y: (x * y).sum(0))(*operands)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def test_every_dtype() -> None:
    rng = np.random.default_rng(0)
    calls: dict[str, Call] = {}
    for dtype in ("float32", "float16", "bfloat16", "int32", "int8", "uint8"):
        for axes in (0, 1, (0, 1)):
            xs = tuple(gnp.asarray(rng.integers(0, 9, (33, 17))).astype(dtype) for _ in range(2))
            calls[f"{dtype} over {axes}"] = lambda x, y, axes=axes: (x * y).sum(axes), xs
    check_joined(calls, lambda found, expected: assert_near(found, expected, 4.0))
