"""Periodic windows for spectra, under SciPy's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gnomon.numpy as gnp
from gnomon._arrays.array import Array
from gnomon.dialects.types import is_inexact
from gnomon.lax._creation import converted
from gnomon.numpy._arguments import as_array

__all__ = ["window_of"]

Samples = np.ndarray[Any, np.dtype[np.float64]]


def _cosines(*weights: float) -> Callable[[int], Samples]:
    """A sum of cosines over one period."""

    def window(size: int) -> Samples:
        angles = 2 * np.pi * np.arange(size) / size
        terms = [(-1) ** k * weight * np.cos(k * angles) for k, weight in enumerate(weights)]
        result: Samples = np.sum(terms, axis=0)
        return result

    return window


def _symmetric(window: Callable[..., Samples]) -> Callable[..., Samples]:
    """Make a symmetric window periodic: compute one more sample, and drop the last one."""
    return lambda size, *parameters: window(size + 1, *parameters)[:size]


def _triangle(size: int) -> Samples:
    half = (size + 1) // 2
    odd = size % 2
    steps = np.arange(1, half + 1)
    rising = 2 * steps / (size + 1) if odd else (2 * steps - 1) / size
    return np.concatenate([rising, rising[::-1][odd:]])


def _gaussian(size: int, deviation: float) -> Samples:
    places = np.arange(size) - (size - 1) / 2
    return np.exp(-0.5 * (places / deviation) ** 2)


def _tukey(size: int, fraction: float = 0.5) -> Samples:
    if fraction <= 0:
        return np.ones(size)
    edge = np.minimum(np.arange(size), np.arange(size)[::-1]) / (fraction * (size - 1) / 2)
    return 0.5 * (1 - np.cos(np.pi * np.minimum(edge, 1)))


_WINDOWS: dict[str, Callable[..., Samples]] = {
    "boxcar": np.ones,
    "hann": _cosines(0.5, 0.5),
    "hamming": _cosines(0.54, 0.46),
    "blackman": _cosines(0.42, 0.50, 0.08),
    "nuttall": _cosines(0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": _cosines(0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": _cosines(0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
    "bartlett": _symmetric(np.bartlett),
    "triang": _symmetric(_triangle),
    "cosine": _symmetric(lambda size: np.sin(np.pi / size * (np.arange(size) + 0.5))),
    "kaiser": _symmetric(np.kaiser),
    "gaussian": _symmetric(_gaussian),
    "tukey": _symmetric(_tukey),
}
_NAMES = {"box": "boxcar", "ones": "boxcar", "rect": "boxcar", "rectangular": "boxcar"}


def window_of(function: str, window: Any, size: int, dtype: np.dtype[Any]) -> Array:
    """The samples of a window.

    Args:
      function: the name of the caller in messages.
      window: a name, a tuple of a name and parameters, or an array.
      size: the number of samples.
      dtype: the dtype of the samples, unless ``window`` is an array.
    Raises:
      ValueError: the name is unknown, or the array has another size.
    """
    if isinstance(window, (str, tuple)):
        name, *parameters = (window,) if isinstance(window, str) else window
        found = _WINDOWS.get(_NAMES.get(str(name), str(name)))
        if found is None:
            raise ValueError(
                f"{function}: unknown window {name!r}; it is one of {', '.join(_WINDOWS)}, or an "
                "array"
            )
        values = np.ones(1) if size == 1 else found(size, *parameters)
        return gnp.asarray(values.astype(dtype))
    samples = as_array(function, window)
    if samples.ndim != 1:
        raise ValueError(f"{function}: window must be 1-D, got shape {samples.shape}")
    if samples.shape[0] != size:
        raise ValueError(f"{function}: window must have length of {size}, got {samples.shape[0]}")
    return samples if is_inexact(samples.dtype) else converted(samples, dtype)
