"""Long sums are as precise as sums in stages are."""

from __future__ import annotations

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp


@pytest.mark.parametrize("shape", [(3_000_001,), (1500, 2000), (2, 5000, 3)])
def test_a_long_sum_is_precise(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random(shape, np.float32)
    whole, columns = gn.jit(lambda x: (gnp.sum(x * x), gnp.sum(x * x, axis=0)))(x)
    # Stages of at most 4096 additions, each of them off by half a unit at most; three stages.
    rtol = 3 * 4096 * np.finfo(np.float32).eps / 2
    exact = x.astype(np.float64) ** 2
    np.testing.assert_allclose(np.asarray(whole), exact.sum(), rtol=rtol)
    np.testing.assert_allclose(np.asarray(columns), exact.sum(0), rtol=rtol)
