"""Slices as StableHLO: strides of dimensions that keep one element."""

from __future__ import annotations

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax


@pytest.mark.sampled(0.8)
@pytest.mark.parametrize("target", ["cpu", "x86-64-v2", "x86-64-v4"])
@pytest.mark.parametrize("shape", [(1,), (2, 1), (2, 2, 2, 1), (1, 3, 1)])
def test_a_literal_is_sliced_with_strides_along_one_element(
    shape: tuple[int, ...], target: str
) -> None:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    strides = tuple(2 if n == 1 else 1 for n in shape)

    def f() -> gn.Array:
        return lax.slice(gnp.array(values), (0,) * len(shape), shape, strides) * 2

    compiled = gn.jit(f).lower().compile(target=target)
    if target == "cpu":
        np.testing.assert_array_equal(np.asarray(compiled()), values * 2)


@pytest.mark.parametrize(
    ("slices", "text"),
    [
        pytest.param(((4, 5, 3), (0, 8, 2)), "[4:5, 0:8:2]", id="one"),
        pytest.param(((4, 7, 3), (0, 8, 2)), "[4:5, 0:8:2]", id="one before a larger limit"),
        pytest.param(((4, 4, 3), (0, 8, 2)), "[4:4, 0:8:2]", id="none"),
        pytest.param(((4, 8, 3), (0, 8, 2)), "[4:8:3, 0:8:2]", id="several"),
    ],
)
def test_one_element_has_the_stride_1(slices: tuple[tuple[int, ...], ...], text: str) -> None:
    x = np.ones((8, 8), np.float32)
    start, limit, strides = zip(*slices, strict=True)
    lowered = gn.jit(lambda x: lax.slice(x, start, limit, strides)).lower(x)
    assert f"stablehlo.slice %arg0 {text}" in lowered.as_text("stablehlo")
    np.testing.assert_array_equal(
        gn.jit(lambda x: lax.slice(x, start, limit, strides))(x),
        x[tuple(slice(*s) for s in slices)],
    )
