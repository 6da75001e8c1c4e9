"""The library that computes Fourier transforms on the host: ducc0 if it is installed, or NumPy.

ducc0 (the extra ``gnomon[fft]``) transforms several rows at once in vector registers, with several
threads: a transform of 512 by 512 complex64 elements takes it a sixth of NumPy's time, since NumPy
transforms one row after another, and copies each column. Both compute in the operand's precision.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import numpy as np

__all__ = ["Transform", "load_ducc0", "numpy_transform", "transform"]

Transform = Callable[[np.ndarray, str, "tuple[int, ...]"], np.ndarray]
"""A transform of an array, of a kind, over trailing dimensions with the given lengths."""

_NUMPY: dict[str, Callable[..., np.ndarray]] = {
    "FFT": np.fft.fftn,
    "IFFT": np.fft.ifftn,
    "RFFT": np.fft.rfftn,
    "IRFFT": np.fft.irfftn,
}
# Two threads are faster from twice as many elements on: 178 us instead of 289 for 65536 complex64,
# and no faster for 32768.
_ELEMENTS_PER_THREAD = 1 << 15


def _axes(x: np.ndarray, lengths: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(x.ndim - len(lengths), x.ndim))


def numpy_transform(x: np.ndarray, kind: str, lengths: tuple[int, ...]) -> np.ndarray:
    """A transform by NumPy, whose arguments are those of `transform`."""
    return _NUMPY[kind](x, s=lengths, axes=_axes(x, lengths))


@functools.cache
def load_ducc0() -> Transform | None:
    """A transform by ducc0, whose arguments are those of `transform`; None without ducc0."""
    try:
        # Only programs that transform load this library, which is optional.
        from ducc0 import fft  # noqa: PLC0415
    except ImportError:
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()

    def by_ducc0(x: np.ndarray, kind: str, lengths: tuple[int, ...]) -> np.ndarray:
        axes = _axes(x, lengths)
        threads = max(1, min(cores or 1, x.size // _ELEMENTS_PER_THREAD))
        result: np.ndarray
        if kind == "RFFT":
            result = fft.r2c(x, axes=axes, nthreads=threads)
        elif kind == "IRFFT":
            result = fft.c2r(
                x, axes=axes, lastsize=lengths[-1], forward=False, inorm=2, nthreads=threads
            )
        else:
            forward = kind == "FFT"
            scaling = 0 if forward else 2
            result = fft.c2c(x, axes=axes, forward=forward, inorm=scaling, nthreads=threads)
        return result

    return by_ducc0


def transform(x: np.ndarray, kind: str, lengths: tuple[int, ...]) -> np.ndarray:
    """The discrete Fourier transform of trailing dimensions, none of which is empty.

    Args:
      x: an array of float32, float64, complex64 or complex128.
      kind: ``"FFT"``, ``"IFFT"``, ``"RFFT"`` or ``"IRFFT"``.
      lengths: the lengths of the trailing dimensions, of the result for ``"IRFFT"``.
    """
    return (load_ducc0() or numpy_transform)(x, kind, lengths)
