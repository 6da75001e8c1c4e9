"""The libraries of Fourier transforms agree with each other and with the definition."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.dialects import fourier_library
from gnomon.dialects.fourier import KINDS, half
from gnomon.dialects.fourier_library import load_ducc0, numpy_transform, transform

# The last is large enough for several threads.
CASES = [((1,), 1), ((7,), 1), ((3, 31), 1), ((2, 1, 6), 3), ((5, 4, 9), 2), ((96, 1024), 2)]


def operand(kind: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(len(shape))
    real = rng.standard_normal(shape).astype(dtype)
    if kind == "RFFT":
        return real
    if kind == "IRFFT":
        real = real[..., : half(shape[-1])]
    imaginary = rng.standard_normal(real.shape).astype(dtype)
    return (real + 1j * imaginary).astype(np.result_type(real.dtype, np.complex64))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_libraries_agree(
    kind: str, shape: tuple[int, ...], rank: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_ducc0 = load_ducc0()
    assert by_ducc0 is not None, "ducc0 is one of the packages of the tests"
    x = operand(kind, shape, dtype)
    x.flags.writeable = False
    lengths = shape[len(shape) - rank :]
    chosen = transform(x, kind, lengths)
    exact = numpy_transform(x.astype(np.result_type(x.dtype, np.float64)), kind, lengths)
    monkeypatch.setattr(fourier_library, "load_ducc0", lambda: None)
    without = transform(x, kind, lengths)
    assert chosen.dtype == without.dtype
    assert chosen.shape == without.shape == exact.shape
    # The error of a transform grows with the logarithm of its length.
    bound = 4 * np.finfo(dtype).eps * (1 + np.log2(np.prod(lengths))) * np.abs(exact).max()
    assert np.abs(chosen - exact).max() <= bound
    assert np.abs(without - exact).max() <= bound


def test_views_are_operands() -> None:
    base = operand("FFT", (12, 20), "float32")
    for x in (base[::2], base[:, ::-1], base.T, np.broadcast_to(base[:1], (4, 20))):
        wanted = numpy_transform(np.ascontiguousarray(x), "FFT", x.shape)
        np.testing.assert_allclose(transform(x, "FFT", x.shape), wanted, rtol=0, atol=1e-4)
