"""`scipy.signal`, `scipy.fft`, and polynomials that need linear algebra, against JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.fft
import jax.scipy.signal
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from tests.frontend.oracle import check, check_types, checks_in_one_program, sample, to_gnomon
from tests.tolerance import assert_near

# Sums of a dozen products, or transforms as long.
CLOSE: dict[str, Any] = {"ulps": 16.0, "scale": 3.0, "together": True}
A, B = sample("float32", (5, 7), 1), sample("float32", (3, 4), 2)
V, C = sample("float32", (6,), 3), sample("complex64", (4,), 4)


def test_convolutions() -> None:
    ours, theirs = gn.scipy.signal, jax.scipy.signal
    with checks_in_one_program() as check:
        for mode in ("full", "same", "valid"):
            for name in ("convolve2d", "correlate2d"):
                check(getattr(ours, name), getattr(theirs, name), A, B, mode, **CLOSE)
                check(getattr(ours, name), getattr(theirs, name), B, A, mode, **CLOSE)
            check(ours.convolve, theirs.convolve, V, C, mode, **CLOSE)
            check(ours.correlate, theirs.correlate, V, C, mode, **CLOSE)
            check(ours.convolve, theirs.convolve, A, B, mode, method="fft", **CLOSE)
            check(ours.fftconvolve, theirs.fftconvolve, C, V, mode, **CLOSE)
            check(ours.fftconvolve, theirs.fftconvolve, A, A[:, :3], mode, axes=1, **CLOSE)


def test_convolutions_of_numbers() -> None:
    # Transforms along no axis give complex numbers, whose conversion to real ones warns.
    for x in (np.float32(2), np.complex64(2 + 1j)):
        assert gn.scipy.signal.fftconvolve(x, x) == x * x
        assert gn.scipy.signal.convolve(x, x, method="fft") == x * x


def test_errors() -> None:
    ours, theirs = gn.scipy.signal, jax.scipy.signal
    check(ours.convolve, theirs.convolve, A, A.T)
    check(ours.convolve, theirs.convolve, A, V)
    check(ours.convolve, theirs.convolve, V, V, "all")
    check(ours.convolve, theirs.convolve, V, V, method="slow")
    check(ours.convolve2d, theirs.convolve2d, A, B, boundary="wrap")
    check(ours.convolve2d, theirs.convolve2d, V, V)
    check(ours.fftconvolve, theirs.fftconvolve, A, A[:, :3], axes=0)
    check(ours.detrend, theirs.detrend, V, type="square")
    check(gn.scipy.fft.dct, jax.scipy.fft.dct, V, 3)
    check(gn.scipy.fft.dct, jax.scipy.fft.dct, V, norm="forward")


def test_trends() -> None:
    with checks_in_one_program() as check:
        ours, theirs = gn.scipy.signal.detrend, jax.scipy.signal.detrend
        check(ours, theirs, A, **CLOSE)
        check(ours, theirs, A, 0, "constant", **CLOSE)
        check(ours, theirs, A, bp=(3, 5), **CLOSE)


@pytest.mark.slow
def test_cosine_transforms() -> None:
    with checks_in_one_program() as check:
        for name in ("dct", "idct"):
            ours, theirs = getattr(gn.scipy.fft, name), getattr(jax.scipy.fft, name)
            check(ours, theirs, A, **CLOSE)
            check(ours, theirs, A, n=3, axis=0, norm="ortho", **CLOSE)
            check(ours, theirs, C, n=7, **CLOSE)
            ours, theirs = getattr(gn.scipy.fft, f"{name}n"), getattr(jax.scipy.fft, f"{name}n")
            check(ours, theirs, A, **CLOSE)
            check(ours, theirs, A, s=(4,), norm="ortho", **CLOSE)
            check(ours, theirs, A, s=(4, 9), axes=(1, 0), **CLOSE)


def test_cosine_transform_along_one_axis() -> None:
    for ours, one in (
        (gn.scipy.fft.dctn, gn.scipy.fft.dct),
        (gn.scipy.fft.idctn, gn.scipy.fft.idct),
    ):
        x = to_gnomon(A)
        np.testing.assert_array_equal(ours(x, s=4, axes=0), one(x, n=4, axis=0))


@pytest.mark.parametrize("name", ["dct", "idct", "dctn", "idctn"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_cosine_transforms_of_16_bits_give_float32(name: str, dtype: str) -> None:
    ours, theirs = getattr(gn.scipy.fft, name), getattr(jax.scipy.fft, name)
    check_types(ours, theirs, A.astype(dtype))


def test_fits_and_roots() -> None:
    x = jnp.arange(6.0) / 3
    # The condition number of the fit; that of its covariance is the square.
    condition = np.linalg.cond(np.vander(x, 3))
    close: dict[str, Any] = {"ulps": 8 * condition**2, "together": True}
    with checks_in_one_program() as check:
        check(gnp.polyfit, jnp.polyfit, x, V, 2, **close)
        check(gnp.polyfit, jnp.polyfit, x, jnp.stack([V, 2 * V], 1), 1, w=abs(V), **close)
        check(gnp.polyfit, jnp.polyfit, x, V, 2, cov=True, **close)
        check(gnp.polyfit, jnp.polyfit, x, V, 1, full=True, **close)
        check(gnp.polyfit, jnp.polyfit, x, V, -1)
        check(gnp.polyfit, jnp.polyfit, x, V[:2], 1)
    for p in (jnp.array([0.0, 1.0, -3.0, 2.0]), jnp.array([2.0]), jnp.array([1, 0, 1, 0])):
        ours = np.sort_complex(np.asarray(gnp.roots(to_gnomon(p))))
        assert_near(ours, np.sort_complex(np.roots(np.asarray(p))), 16, scale=3.0)
    kept = np.asarray(
        gn.jit(lambda p: gnp.roots(p, strip_zeros=False))(gnp.array([0.0, 1.0, -2.0]))
    )
    assert_near(kept, [2.0, np.nan], 4)
    with pytest.raises(gn.errors.ConcretizationTypeError, match="pass strip_zeros=False"):
        gn.jit(gnp.roots)(gnp.array([0.0, 1.0, -2.0]))
    closed = gnp.array([0.0, 0.0, 1.0, 2.0])
    np.testing.assert_array_equal(gn.jit(lambda: gnp.trim_zeros(closed[:-1]))(), [1.0])
    assert_near(gnp.poly(gnp.array([[1.0, 2.0], [0.0, 3.0]])), [1, -4, 3], 8)
