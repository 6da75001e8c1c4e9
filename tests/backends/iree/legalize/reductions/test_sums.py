"""Long sums and contractions are as precise as staged sums, in every dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.lax
import gnomon.numpy as gnp
from gnomon import nn
from tests.ops.check import assert_close
from tests.tolerance import assert_each_near


@pytest.mark.parametrize("shape", [(3_000_001,), (1500, 2000), (2, 5000, 3), (130, 8, 1024)])
def test_a_long_sum_is_precise(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random(shape, np.float32)
    whole, columns = gn.jit(lambda x: (gnp.sum(x * x), gnp.sum(x * x, axis=0)))(x)
    # Stages of at most 4096 additions, each of them off by half a unit at most; three stages.
    units = 3 * 4096 / 2
    exact = x.astype(np.float64) ** 2
    assert_each_near(whole, exact.sum(), units)
    assert_each_near(columns, exact.sum(0), units)


def test_rows_and_columns_that_fill_no_whole_vectors() -> None:
    """For 1003 columns, the last vector of sums overlaps the one before it."""
    x = np.random.default_rng(3).random((2, 30, 1003), np.float32)

    def program(x: Any) -> Any:
        halves = x.astype("float16")
        return x.sum(1), x.sum((0, 1)), halves.sum(0), x.sum(-1), nn.softmax(x), x.max(1), -x.min(0)

    found = gn.jit(program)(x)
    exact = x.astype(np.float64)
    powers = np.exp(exact)
    expected = (
        exact.sum(1),
        exact.sum((0, 1)),
        x.astype(np.float16).astype(np.float64).sum(0),
        exact.sum(-1),
        powers / powers.sum(-1, keepdims=True),
        exact.max(1),
        -exact.min(0),
    )
    for result, e in zip(found, expected, strict=True):
        assert_close(np.asarray(result), e, np.asarray(result).dtype, 32.0)


def test_sums_of_a_million_elements_in_every_dtype() -> None:
    """NumPy adds pairwise; results are within a few units of its sum in the accumulation dtype."""
    base = np.random.default_rng(1).normal(1, 1, 1_000_000)
    dtypes = ("float16", "bfloat16", "float32", "float64")

    def statistics(x: Any) -> Any:
        weights = nn.softmax(x)
        return gnp.mean(x), gnp.var(x), gnp.sum(weights.astype(float)), nn.logsumexp(x)

    with gn.enable_x64(True):
        arrays = [gnp.asarray(base, d) for d in dtypes]
        found = gn.jit(lambda xs: [statistics(x) for x in xs])(arrays)
    for x, results in zip(arrays, found, strict=True):
        exact = np.asarray(x).astype(np.float64)
        powers = np.exp(exact)
        expected = (exact.mean(), exact.var(), 1.0, np.log(powers.sum()))
        for result, e in zip(results, expected, strict=True):
            # In units of the dtype, because each weight of the softmax is rounded to it.
            assert_close(np.asarray(result), np.float64(e), x.dtype, 8.0, str(x.dtype))


def test_contractions_are_formed_in_f32_and_long_ones_in_stages() -> None:
    rng = np.random.default_rng(2)
    shapes = ((3, 20000), (20000, 2), (9000,), (1, 64, 9, 9), (5, 64, 7, 7))
    values = [rng.random(shape) / 16 for shape in shapes]
    dtypes = ("float16", "bfloat16", "float32")

    def program(a: Any, b: Any, v: Any, x: Any, w: Any) -> Any:
        return a @ b, v @ v, gnomon.lax.conv(x, w, (1, 1), "VALID")

    arrays = [[gnp.asarray(v, dtype) for v in values] for dtype in dtypes]
    found = gn.jit(lambda operands: [program(*o) for o in operands])(arrays)
    for dtype, operands, results in zip(dtypes, arrays, found, strict=True):
        a, b, v, x, w = (np.asarray(o).astype(np.float64) for o in operands)
        windows = np.lib.stride_tricks.sliding_window_view(x, (7, 7), (2, 3))
        expected = (a @ b, v @ v, np.einsum("nchwij,ocij->nohw", windows, w))
        for result, e in zip(results, expected, strict=True):
            # In f32, stages of at most 4096 additions, each of them off by half a unit at most.
            ulps = 3 * 2048.0 if dtype == "float32" else 1.0
            assert_close(np.asarray(result), e, np.asarray(result).dtype, ulps, dtype)


def test_contractions_of_one_term_in_16_bits() -> None:
    def program(y: Any) -> Any:
        one = 2 * gnp.einsum("i,ji->j", y, y[None])
        return gnp.einsum("i,ij->j", one, y[None]) + gnp.einsum("i,j->ij", one, y)[0]

    values = [gnp.full(1, 3.0, dtype) for dtype in ("float16", "bfloat16")]
    for result, value in zip(
        gn.jit(lambda *v: [program(y) for y in v])(*values), values, strict=True
    ):
        assert result.dtype == value.dtype
        assert float(result[0]) == 108.0
