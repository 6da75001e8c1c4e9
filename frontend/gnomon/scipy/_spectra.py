"""Spectra of pieces of a signal: `stft`, `istft`, `csd`, `welch`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from operator import index
from typing import Any, NamedTuple

import numpy as np

import gnomon.numpy as gnp
from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.dtypes import to_complex_dtype
from gnomon.dialects.types import is_complex, real_dtype
from gnomon.lax._creation import converted
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array, promoted
from gnomon.scipy._trends import detrend
from gnomon.scipy._windows import window_of

__all__ = ["csd", "istft", "stft", "welch"]

Window = str | tuple[Any, ...] | ArrayLike
Detrend = str | bool | Callable[[Array], Array]

_BOUNDARIES = ("even", "odd", "constant", "zeros", None)


class _Pieces(NamedTuple):
    """The segmentation of a signal.

    Attributes:
      window: the samples that each piece is multiplied by.
      size, step: the length of a piece, and the distance from one to the next.
      length: the length of the transforms.
    """

    window: Array
    size: int
    step: int
    length: int


def _pieces(
    function: str,
    window: Window,
    size: int | None,
    overlap: int | None,
    length: int | None,
    available: int,
    dtype: np.dtype[Any],
) -> _Pieces:
    if size is not None and index(size) < 1:
        raise ValueError(f"{function}: nperseg must be a positive integer, got {size}")
    if isinstance(window, (str, tuple)):
        size = 256 if size is None else index(size)
        if size > available > 0:
            warnings.warn(
                f"nperseg={size} is greater than the signal's length {available}, using "
                f"nperseg={available}",
                stacklevel=4,
            )
            size = available
    else:
        given = len(as_array(function, window)) if np.ndim(window) == 1 else 0
        size = given if size is None else index(size)
        if given > available > 0:
            raise ValueError(f"{function}: window is longer than the signal, {available}")
    samples = window_of(function, window, size, dtype)
    shared = size // 2 if overlap is None else index(overlap)
    transform = size if length is None else index(length)
    if transform < size:
        raise ValueError(
            f"{function}: nfft must be greater than or equal to nperseg, got {transform} and {size}"
        )
    if shared >= size:
        raise ValueError(f"{function}: noverlap must be less than nperseg, got {shared} and {size}")
    return _Pieces(samples, size, size - shared, transform)


def _extended(x: Array, count: int, boundary: str | None) -> Array:
    """Extend the signal at both ends of its last axis."""
    if boundary is None or not count:
        return x
    widths = [*((0, 0) for _ in range(x.ndim - 1)), (count, count)]
    if boundary == "zeros":
        return gnp.pad(x, widths)
    if boundary == "constant":
        return gnp.pad(x, widths, "edge")
    mirrored = gnp.pad(x, widths, "reflect")
    # An odd extension is also reflected about the value at the end.
    return mirrored if boundary == "even" else 2 * gnp.pad(x, widths, "edge") - mirrored


def _trend_remover(kind: Any) -> Callable[[Array], Array]:
    if isinstance(kind, str):
        return lambda x: detrend(x, type=kind, axis=-1)
    if callable(kind):
        return kind
    if kind:
        raise ValueError(f"Unsupported detrend type: {kind}")
    return lambda x: x


def _transforms(
    x: Array, pieces: _Pieces, without_trend: Callable[[Array], Array], onesided: bool
) -> Array:
    """The transform of each piece: ``(..., pieces, frequencies)``."""
    count = max(0, (x.shape[-1] - pieces.size) // pieces.step + 1)
    places = np.arange(count)[:, None] * pieces.step + np.arange(pieces.size)
    cut = without_trend(gnp.take(x, gnp.asarray(places.astype(np.int32)), axis=-1))
    window = lax.broadcast_to_rank(pieces.window, cut.ndim)
    weighed = (converted(window, cut.dtype) if is_complex(cut.dtype) else window) * cut
    if onesided:
        return gnp.fft.rfft(gnp.real(weighed), pieces.length)
    return gnp.fft.fft(weighed, pieces.length)


def _spectra(
    function: str,
    x: Any,
    y: Any,
    fs: Any,
    window: Window,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    detrend: Detrend,
    return_onesided: bool,
    scaling: str,
    axis: int,
    boundary: str | None = None,
    padded: bool = False,
    amplitude: bool = False,
) -> tuple[Array, Array, Array]:
    """Frequencies, times, and the (cross-)spectrum of each piece of signals, or its amplitude."""
    if boundary not in _BOUNDARIES:
        raise ValueError(
            f"Unknown boundary option '{boundary}', must be one of: {list(_BOUNDARIES)}"
        )
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"Unknown scaling: {scaling!r}; it is 'density' or 'spectrum'")
    signals = promoted(function, x, *(() if y is None else (y,)), inexact=True)
    if len({s.ndim for s in signals}) > 1:
        raise ValueError(
            f"{function}: signals must have the same rank, got {[s.shape for s in signals]}"
        )
    dtype = signals[0].dtype
    complex_dtype = np.dtype(to_complex_dtype(dtype))
    place = canonical_axis(axis, signals[0].ndim)
    pieces = _pieces(
        function,
        window,
        nperseg,
        noverlap,
        nfft,
        signals[0].shape[place],
        np.dtype(real_dtype(dtype)),
    )
    signals = [gnp.moveaxis(s, place, -1) for s in signals]
    try:
        gnp.broadcast_shapes(*(s.shape[:-1] for s in signals))
    except ValueError as error:
        raise ValueError(f"{function}: x and y cannot be broadcast together") from error
    if any(not s.size for s in signals):
        shape = np.shape(x) if y is None else (*signals[0].shape[:-1], 0)
        empty = gnp.zeros(shape, real_dtype(dtype))
        return empty, empty, gnp.zeros(shape, complex_dtype)
    longest = max(s.shape[-1] for s in signals)
    signals = [_prepared(s, longest, pieces, boundary, padded) for s in signals]

    onesided = return_onesided
    if onesided and any(is_complex(s.dtype) for s in signals):
        warnings.warn("Input data is complex, switching to return_onesided=False", stacklevel=3)
        onesided = False
    without_trend = _trend_remover(detrend)
    found = [_transforms(s, pieces, without_trend, onesided) for s in signals]
    result = found[0] if amplitude else gnp.conj(found[0]) * found[-1]
    if scaling == "density":
        scale = 1.0 / (fs * gnp.sum(pieces.window**2))
    else:
        scale = 1.0 / gnp.sum(pieces.window) ** 2
    result = result * converted(gnp.sqrt(scale) if amplitude else scale, result.dtype)
    frequencies = gnp.fft.rfftfreq if onesided else gnp.fft.fftfreq
    if onesided and not amplitude:
        # The other half of the spectrum is the mirror image of this one.
        last = result.shape[-1] - (pieces.length % 2 == 0)
        doubled = np.ones(result.shape[-1])
        doubled[1:last] = 2
        factors = gnp.asarray(doubled.astype(result.dtype))
        result = result * lax.broadcast_to_rank(factors, result.ndim)
    result = converted(result, complex_dtype)
    if y is None and not amplitude:
        result = gnp.real(result)
    steps = np.arange(result.shape[-2]) * pieces.step
    start = 0 if boundary is not None else pieces.size / 2
    times = gnp.asarray((steps + start).astype(real_dtype(dtype))) / fs
    freqs = converted(frequencies(pieces.length, 1 / fs), np.dtype(real_dtype(dtype)))
    return freqs, times, gnp.moveaxis(result, -1, place)


def _prepared(x: Array, longest: int, pieces: _Pieces, boundary: str | None, padded: bool) -> Array:
    """Pad a signal to the length of the longer one, extend it, and pad it to whole pieces."""
    lead = [(0, 0)] * (x.ndim - 1)
    x = gnp.pad(x, [*lead, (0, longest - x.shape[-1])])
    x = _extended(x, pieces.size // 2, boundary)
    if not padded:
        return x
    missing = (-(x.shape[-1] - pieces.size) % pieces.step) % pieces.size
    return gnp.pad(x, [*lead, (0, missing)])


def stft(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """The short-time Fourier transform.

    Args:
      x: a signal.
      fs: the sampling frequency of the signal.
      window: the window that multiplies each piece: a name, a tuple of a name and parameters, or an
        array of the length of a piece.
      nperseg: the length of a piece.
      noverlap: the overlap of neighbouring pieces, by default half their length.
      nfft: the length of the transforms; pieces are padded with zeros.
      detrend: ``False``, ``"constant"`` or ``"linear"``: the trend to remove from each piece; or a
        function of the pieces, which run along their last axis.
      return_onesided: omit the negative frequencies of real signals.
      boundary: how the signal is extended at its ends: ``"zeros"``, ``"even"``, ``"odd"``,
        ``"constant"``, or None for no extension.
      padded: pad the signal with zeros to whole pieces.
      axis: the axis of time.
    Returns:
      ``(frequencies, times, spectrum)``. In the spectrum, ``axis`` is that of the frequencies, and
      the last axis is that of the times.

    Example:
      >>> import gnomon.numpy as gnp
      >>> f, t, z = stft(gnp.ones(8), nperseg=4)
      >>> z.shape
      (3, 5)
    """
    return _spectra(
        "stft",
        *(x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided),
        scaling="spectrum",
        axis=axis,
        boundary=boundary,
        padded=padded,
        amplitude=True,
    )


def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The cross spectral density of two signals, by Welch's method.

    Args:
      x, y: signals; None for ``y`` means ``x`` and gives real numbers.
      scaling: ``"density"`` (power per frequency) or ``"spectrum"`` (power).
      average: the average over the pieces: ``"mean"`` or ``"median"``.
      fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis: see `stft`.
    Returns:
      ``(frequencies, density)``.
    Raises:
      ValueError: an argument is none of the accepted values.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import signal
      >>> x = gnp.array([1.0, -1.0] * 8)
      >>> f, density = signal.csd(x, -x, nperseg=4)
      >>> f
      Array([0.  , 0.25, 0.5 ], dtype=float32)
      >>> density.real.round(3) + 0.0
      Array([ 0.   , -1.333, -2.667], dtype=float32)

    See also:
      `welch`
    """
    freqs, _, found = _spectra(
        "csd",
        *(x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis),
    )
    if found.ndim < 2 or not found.size:
        return freqs, found
    count = found.shape[-1]
    if count == 1:
        return freqs, gnp.reshape(found, found.shape[:-1])
    if average == "mean":
        return freqs, gnp.mean(found, -1)
    if average != "median":
        raise ValueError(f'average must be "median" or "mean", got {average}')
    if is_complex(found.dtype):
        parts = (gnp.median(part(found), -1) for part in (gnp.real, gnp.imag))
        middle = lax.complex(*parts)
    else:
        middle = gnp.median(found, -1)
    return freqs, middle / _median_bias(count)


def _median_bias(count: int) -> float:
    """The median of exponentially distributed numbers divided by their mean."""
    even = 2 * np.arange(1, (count - 1) // 2 + 1)
    return float(1 + np.sum(1 / (even + 1) - 1 / even))


def welch(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The power spectral density of a signal, averaged over pieces of it.

    Args:
      x: the signal.
      fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis: see `stft`.
      scaling: ``"density"`` (power per frequency) or ``"spectrum"`` (power).
      average: the average over the pieces: ``"mean"`` or ``"median"``.
    Returns:
      ``(frequencies, density)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import signal
      >>> f, density = signal.welch(gnp.array([1.0, -1.0] * 8), nperseg=4)
      >>> density.round(3)
      Array([0.   , 1.333, 2.667], dtype=float32)

    See also:
      `csd`, `stft`
    """
    options = (nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)
    freqs, found = csd(x, None, fs, window, *options)
    return freqs, gnp.real(found)


def _overlapped(pieces: Array, step: int) -> Array:
    """The sum of pieces ``(..., count, size)`` that begin ``step`` apart."""
    *lead, count, size = pieces.shape
    places = np.arange(count)[:, None] * step + np.arange(size)
    total = gnp.zeros((*lead, step * (count - 1) + size), pieces.dtype)
    return total.at[..., places].add(pieces)


def istft(
    Zxx: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """The signal of a short-time Fourier transform: the inverse of `stft`.

    Args:
      Zxx: the transform.
      fs, window, nperseg, noverlap, nfft: the arguments of `stft`; by default they are determined
        from the shape of ``Zxx``.
      input_onesided: whether the negative frequencies are omitted.
      boundary: whether the signal was extended at its ends.
      time_axis, freq_axis: the axes of ``Zxx``.
    Returns:
      ``(times, signal)``.
    Raises:
      ValueError: lengths or axes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.array([1.0, 2.0, 3.0, 2.0, 1.0, 0.0, 1.0, 2.0])
      >>> print(istft(stft(x, nperseg=4)[2])[1].round(3))
      [1. 2. 3. 2. 1. 0. 1. 2.]
    """
    z = as_array("istft", Zxx)
    if z.ndim < 2:
        raise ValueError(f"Input stft must be at least 2d! It is of shape {z.shape}")
    along, across = (canonical_axis(a, z.ndim) for a in (time_axis, freq_axis))
    if along == across:
        raise ValueError("Must specify differing time and frequency axes!")
    z = converted(z, np.dtype(to_complex_dtype(z.dtype)))
    whole = 2 * (z.shape[across] - 1) if input_onesided else z.shape[across]
    size = index(nperseg or whole)
    if size < 1:
        raise ValueError(f"nperseg must be a positive integer, got {size}")
    # The number of frequencies does not tell whether the length is odd.
    default = whole + (input_onesided and size == whole + 1)
    length = default if nfft is None else index(nfft)
    if length < size:
        raise ValueError(f"FFT length ({length}) must be longer than nperseg ({size}).")
    shared = size // 2 if noverlap is None else index(noverlap)
    if shared >= size:
        raise ValueError(f"noverlap must be less than nperseg, got {shared} and {size}")
    z = gnp.moveaxis(z, (along, across), (-2, -1))
    inverse = gnp.fft.irfft if input_onesided else gnp.fft.ifft
    pieces = inverse(z, length)[..., :size]
    samples = window_of("istft", window, size, np.dtype(real_dtype(pieces.dtype)))
    step = size - shared
    # The spectrum was scaled by the sum of the window.
    scale = converted(samples, pieces.dtype)
    weighed = pieces * lax.broadcast_to_rank(scale, pieces.ndim)
    x = _overlapped(weighed * gnp.sum(scale), step)
    weights = gnp.broadcast_to(samples * samples, (pieces.shape[-2], size))
    norm = _overlapped(weights, step)
    if boundary:
        half = size // 2
        x, norm = (v[..., half : v.shape[-1] - half] for v in (x, norm))
    norm = gnp.where(norm > 1e-10, norm, 1.0).astype(x.dtype)
    x = x / lax.broadcast_to_rank(norm, x.ndim)
    if x.ndim > 1:
        x = gnp.moveaxis(x, -1, along - (across < along))
    times = gnp.arange(x.shape[0], dtype=real_dtype(x.dtype)) / fs
    return times, x
