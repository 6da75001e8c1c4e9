"""`numpy.fft` and `lax.fft` against JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from tests.frontend.oracle import check, checks_in_one_program, sample, to_gnomon
from tests.tolerance import assert_near

CLOSE: dict[str, Any] = {"ulps": 16.0, "together": True}
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")


def both(name: str, *args: Any, check: Any = check, **kwargs: Any) -> None:
    check(getattr(gnp.fft, name), getattr(jnp.fft, name), *args, **CLOSE, **kwargs)


@contextmanager
def one_program() -> Iterator[Callable[..., None]]:
    """Give a `both` whose calls are checked at the end of the block."""
    with checks_in_one_program() as check:
        yield functools.partial(both, check=check)


@pytest.mark.parametrize("name", ONE)
def test_one_axis(name: str) -> None:
    with one_program() as both:
        dtype = "complex64" if name in ("irfft", "hfft") else "float32"
        x = sample(dtype, (3, 5, 4), 1)
        both(name, x)
        for axis, n, norm in ((0, None, "ortho"), (1, 3, "forward"), (-2, 8, None)):
            both(name, x, n, axis, norm)
        both(name, x, norm="none")
        both(name, x, 0)
        both(name, x, axis=3)
        both(name, sample("int32", (6,), 2))
        both(name, sample("complex64", (6,), 2))


@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes(name: str) -> None:
    with one_program() as both:
        dtype = "float32" if name == "rfftn" else "complex64"
        x = sample(dtype, (3, 2, 5, 4), 1)
        both(name, x, (3, 6))
        both(name, x, axes=(2, 0), norm="ortho")
        both(name, x, (2, 7), (-1, 1), "forward")
        both(name, x, (2, 7), (-1,))
        both(name, x, axes=(1, 1))
        two = name.replace("n", "2")
        both(two, x)
        both(two, x, (2, 3), (0, 1))
        both(two, x, axes=(0,))


def test_frequencies_and_shifts() -> None:
    with one_program() as both:
        for n in (6, 7):
            for name in ("fftfreq", "rfftfreq"):
                both(name, n)
                both(name, n, d=2, dtype="float16")
        both("fftfreq", [3])
        x = jnp.arange(15).reshape(3, 5)
        for name in ("fftshift", "ifftshift"):
            for axes in (None, 1, (0,), (-1, 0)):
                both(name, x, axes)


def test_primitive() -> None:
    with checks_in_one_program() as check:
        x = sample("float32", (2, 4, 6), 1)
        cases = [("RFFT", (6,)), ("fft", (4, 6)), ("IFFT", (6,)), ("IRFFT", (10,)), ("RFFT", ())]
        for kind, lengths in cases:
            check(lax.fft, jax.lax.fft, x, kind, lengths, **CLOSE)
        check(lax.fft, jax.lax.fft, x, "FFT", (5,))
        check(lax.fft, jax.lax.fft, x, "Fft", (6,))
        check(lax.fft, jax.lax.fft, x, 3, (6,))
        check(lax.fft, jax.lax.fft, x.astype("complex64"), "RFFT", (6,))
        check(lax.fft, jax.lax.fft, x, "FFT", (2, 2, 4, 6))


@pytest.mark.parametrize("name", ["rfft", "irfft", "rfft2", "irfft2"])
def test_gradients(name: str) -> None:
    dtype = "float32" if name.startswith("r") else "complex64"
    x = sample(dtype, (3, 4), 1)

    def loss(library: Any) -> Any:
        return lambda x: (abs(getattr(library.fft, name)(x)) ** 2).sum()

    assert_near(gn.grad(loss(gnp))(to_gnomon(x)), jax.jit(jax.grad(loss(jnp)))(x), 16)


@pytest.mark.parametrize("points", [0, 1])
def test_a_transform_without_results(points: int) -> None:
    x = jnp.zeros((3, points), "complex64")
    for name in ("irfft", "hfft", "irfftn", "irfft2"):
        both(name, x)
    check(lax.fft, jax.lax.fft, x, "IRFFT", (0,))
    slope = gn.grad(lambda x: gnp.fft.irfft(x).sum().astype("float32"))(to_gnomon(x))
    assert (slope.shape, slope.dtype) == (x.shape, x.dtype)
    compiled = gn.jit(gnp.fft.irfft)(to_gnomon(x))
    assert (compiled.shape, compiled.dtype) == ((3, 0), "float32")


def test_no_points_have_no_inverse() -> None:
    with pytest.raises(ValueError, match="at least one point"):
        gnp.fft.ihfft(gnp.zeros((3, 0)))


def test_compiled_in_both_ways() -> None:
    # Some are computed by products of matrices, others by calls of NumPy: a long prime, many
    # points.
    x = to_gnomon(sample("float32", (3, 60), 1))
    y = to_gnomon(sample("float32", (2, 211), 2))

    def run(x: Any, y: Any) -> Any:
        return gnp.fft.rfft(x), gnp.fft.irfft(gnp.fft.rfft(x, axis=0), 5, 0), gnp.fft.rfft(y)

    for ours, evaluated in zip(gn.jit(run)(x, y), run(x, y), strict=True):
        assert (ours.shape, ours.dtype) == (evaluated.shape, evaluated.dtype)
        assert_near(ours, evaluated, 32)  # sums of sixty products


@pytest.mark.iree
@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(211,), (3, 211), (2, 96, 100)])
def test_of_real_numbers(shape: tuple[int, ...], dtype: str) -> None:
    """A large transform of real numbers reads them as they are; other operands are converted."""

    def run(x: Any) -> Any:
        several = (gnp.fft.fftn(x), gnp.fft.ifftn(x)) if x.ndim < 3 else (gnp.fft.fft2(x),)
        return *several, gnp.fft.fft(x.astype(gnp.float16)), gnp.fft.fft(x + 1j * x)

    with gn.enable_x64(True):
        x = to_gnomon(sample(dtype, shape, 1))
        text = gn.jit(lambda x: abs(gnp.fft.fftn(x))).lower(x).as_text("stablehlo")
        assert "stablehlo.complex" not in text
        for ours, evaluated in zip(gn.jit(run)(x), run(x), strict=True):
            assert (ours.shape, ours.dtype) == (evaluated.shape, evaluated.dtype)
            scale = float(abs(evaluated).max())
            assert_near(ours, evaluated, 32, scale=scale)


def test_transforms_along_no_axis() -> None:
    x = sample("float32", (3, 3))
    check(gnp.fft.irfftn, jnp.fft.irfftn, x, axes=())
    # JAX cuts the last dimension here, although it is not transformed.
    assert (gnp.fft.irfftn(to_gnomon(x), s=()) == to_gnomon(x)).all()
