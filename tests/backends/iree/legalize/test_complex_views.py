"""The parts of large complex arrays are copied as real numbers, and have the same values."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.iree.legalize import complex_views
from gnomon.backends.iree.legalize.complex_views import BITCAST, FEWEST
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir

SHAPES = [(197, 257), (1, FEWEST, 1)]


def draw(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def copies(function: Callable[..., Any], *shapes: tuple[int, ...]) -> int:
    """The number of copies of parts in the compiler's input."""
    arguments = [gn.ShapeDtypeStruct(shape, np.complex64) for shape in shapes]
    text = gn.jit(function).lower(*arguments).as_text("gnomon")
    ensure_context()
    artifact = IreeBackend("cpu").lower(Program(ir.Module.parse(text)))
    return (artifact.plan.code or b"").count(BITCAST.encode())


# Some read the parts by position, or update them in place.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "abs": gnp.abs,
    "real": lambda z: z.real + 1,
    "imag": lambda z: -z.imag,
    "conjugate": lambda z: gnp.conj(z) * z,
    "exp": lambda z: gnp.exp(z) * z,
    "sum": lambda z: (z * 2).sum(0),
    "transposed": lambda z: gnp.sin(z).T,
    "product": lambda z: gnp.tensordot(z, gnp.conj(z), z.ndim),
    "reversed": lambda z: lax.rev(z.real, tuple(range(z.ndim))),
    "gather": lambda z: z.imag.reshape(-1)[gnp.arange(0, z.size, 3)],
    "scan": lambda z: lax.cumsum(z, axis=0, reverse=True),
    "update": lambda z: (z.real.at[0].set(0), z.real, z.at[-1].add(1)),
    "host call": lambda z: gnp.fft.ifft(gnp.fft.fft(z.reshape(-1)) * 2).real,
    "loop": lambda z: lax.fori_loop(0, 3, lambda _, x: x * z, z),
}


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str, dtype: Any) -> None:
    function = FUNCTIONS[name]
    for shape in SHAPES:
        z = draw(shape, dtype)
        with gn.enable_x64(dtype == np.complex128):
            found = gn.tree.leaves(gn.jit(function)(z))
            expected = gn.tree.leaves(function(gnp.asarray(z)))
        for one, other in zip(found, expected, strict=True):
            one, other = np.asarray(one), np.asarray(other)
            assert one.dtype == other.dtype
            scale = np.abs(other).max() * np.finfo(other.dtype).eps
            np.testing.assert_allclose(one, other, rtol=0, atol=1000 * scale)


def test_the_parts_of_large_arrays_are_copied(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, complex_views.__name__):
        assert copies(gnp.abs, (FEWEST,)) == 2
        assert copies(gnp.abs, (FEWEST - 1,)) == 0
        assert copies(gnp.abs, ()) == copies(gnp.abs, (0, 3)) == 0
        assert copies(lambda z: z.real, (3, FEWEST)) == 1
        # The parts of two arrays; neither those of the sum, nor those of a literal.
        assert copies(lambda x, y: x + y, (FEWEST,), (FEWEST,)) == 4
        literal = draw((FEWEST,), np.complex64)
        assert copies(lambda x: x.real + literal.imag, (FEWEST,)) == 1
        # Carries of loops are parts already.
        assert copies(lambda z: lax.fori_loop(0, 3, lambda _, x: x * x, z), (FEWEST,)) == 2
    texts = [record.message for record in caplog.records]
    assert f"stablehlo.real of {FEWEST} elements: a strided copy" in texts
    reason = f"in its kernel, for it has under {FEWEST}"
    assert f"stablehlo.real of {FEWEST - 1} elements: {reason}" in texts


def test_all_elements_of_sizes_below_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complex_views, "FEWEST", 0)
    for shape in ((), (0,), (1,), (2, 1), (5,), (3, 4, 5)):
        z = draw(shape, np.complex64)
        expected = (z * z).conj(), z.real
        found = gn.jit(lambda z: (gnp.conj(z * z), z.real))(z)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(one), other, rtol=1e-5, atol=1e-6)
