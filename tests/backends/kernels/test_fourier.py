"""Fourier transforms have errors like NumPy's, for each way to compute them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.numpy as gnp
from tests.backends.kernels.emitters import EMITTERS
from tests.backends.kernels.test_random_programs import results_of

# One number, fours and a two, all kinds of factors, a prime factor, a prime that becomes a
# convolution with two tables of roots, and a length with two tables.
LENGTHS = (1, 32, 60, 37, 211, 1000)


def _error(found: Any, exact: np.ndarray) -> float:
    return float(np.abs(np.asarray(found) - exact).max() / np.abs(exact).max())


@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_errors_are_like_those_of_numpy(dtype: Any, emitter: Any) -> None:
    rng = np.random.default_rng(0)
    signals = [rng.normal(size=(2, n, 2)).astype(dtype(0).real.dtype) @ [1, 1j] for n in LENGTHS]
    signals = [x.astype(dtype) for x in signals]

    def transforms(xs: list[Any]) -> list[Any]:
        return [(gnp.fft.fft(x), gnp.fft.ifft(x)) for x in xs]

    with gnomon.enable_x64(True):
        found = iter(results_of(emitter, transforms, [signals]))
    for x in signals:
        wide = x.astype(np.clongdouble)
        for function in (np.fft.fft, np.fft.ifft):
            exact = function(wide)
            bound = 1.5 * _error(function(x), exact) + np.finfo(dtype).eps
            assert _error(next(found), exact) <= bound, (function.__name__, x.shape)


@pytest.mark.parametrize("emitter", EMITTERS)
def test_real_signals_of_several_dimensions(emitter: Any) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    z = np.fft.rfftn(x).astype(np.complex64)
    found = results_of(
        emitter,
        lambda x, z: (gnp.fft.rfftn(x), gnp.fft.irfftn(z, x.shape, axes=(0, 1, 2))),
        [x, z],
    )
    assert _error(found[0], np.fft.rfftn(x.astype(np.float64))) < 1e-6
    assert _error(found[1], np.fft.irfftn(z.astype(np.complex128), x.shape, axes=(0, 1, 2))) < 1e-6
