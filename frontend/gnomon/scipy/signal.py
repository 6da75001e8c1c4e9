"""`gnomon.scipy.signal`: convolutions, correlations, spectra and trends of any rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gnomon.numpy as gnp
from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._transformations.vmap import vmap
from gnomon.lax._contraction import PrecisionLike
from gnomon.lax._operands import as_tuple
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array, promoted
from gnomon.scipy._spectra import csd, istft, stft, welch
from gnomon.scipy._trends import detrend

__all__ = [
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "csd",
    "detrend",
    "fftconvolve",
    "istft",
    "stft",
    "welch",
]

_MODES = ("full", "same", "valid")


def _check_mode(function: str, mode: str) -> None:
    if mode not in _MODES:
        raise ValueError(f"{function}: mode must be 'full', 'same' or 'valid', got {mode!r}")


def _by_size(function: str, x: Array, y: Array) -> tuple[Array, Array, bool]:
    """The larger and the smaller array, and whether they were exchanged."""
    if x.ndim != y.ndim:
        raise ValueError(f"{function} takes arrays of one rank, got shapes {x.shape} and {y.shape}")
    if not x.size or not y.size:
        raise ValueError(f"{function} does not take empty arrays, got {x.shape} and {y.shape}")
    pairs = list(zip(x.shape, y.shape, strict=True))
    if all(m <= n for m, n in pairs):
        return y, x, True
    if all(m >= n for m, n in pairs):
        return x, y, False
    raise ValueError(
        f"{function}: one array must be the smaller in every dimension, got {x.shape} and {y.shape}"
    )


def _direct(function: str, in1: Any, in2: Any, mode: str, precision: PrecisionLike) -> Array:
    _check_mode(function, mode)
    x, y = promoted(function, in1, in2, inexact=True)
    second = y.shape
    x, y, _ = _by_size(function, x, y)
    paddings = {
        "valid": [(0, 0) for _ in y.shape],
        # "same" is the middle part, of the size of the first array.
        "same": [
            (n - 1 - (m - 1) // 2, n - m + (m - 1) // 2)
            for n, m in zip(y.shape, second, strict=True)
        ],
        "full": [(n - 1, n - 1) for n in y.shape],
    }
    result = lax.conv_general_dilated(
        gnp.expand_dims(x, (0, 1)),
        gnp.expand_dims(gnp.flip(y), (0, 1)),
        (1,) * x.ndim,
        paddings[mode],
        precision=precision,
    )
    return gnp.squeeze(result, (0, 1))


def convolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: PrecisionLike = None,
) -> Array:
    """The convolution of two arrays of one rank.

    Args:
      in1, in2: arrays; one is at most as large as the other in every dimension.
      mode: "full" returns all positions at which the arrays overlap, "same" the middle part, of the
        size of the first array, and "valid" the positions at which they overlap completely.
      method: "direct", "fft", or "auto", which is the same as "direct".
      precision: see `lax.Precision`.
    Raises:
      ValueError: the shapes do not fit, or the mode or the method is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> convolve(gnp.array([1.0, 2.0, 3.0]), gnp.array([1.0, 1.0]), mode="same")
      Array([1., 3., 5.], dtype=float32)
    """
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    if method not in ("auto", "direct"):
        raise ValueError(f"convolve: method must be 'auto', 'direct' or 'fft', got {method!r}")
    return _direct("convolve", in1, in2, mode, precision)


def correlate(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: PrecisionLike = None,
) -> Array:
    """The cross-correlation of two arrays of one rank; the second one is conjugated.

    Args:
      in1, in2: arrays; one is at most as large as the other in every dimension.
      mode: "full", "same" or "valid", as for `convolve`.
      method: "direct", "fft", or "auto", which is the same as "direct".
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import signal
      >>> signal.correlate(gnp.array([1.0, 2.0, 3.0]), gnp.array([0.0, 1.0, 0.5]), mode="valid")
      Array([3.5], dtype=float32)

    See also:
      `convolve`, which reverses the second array
    """
    return convolve(in1, gnp.flip(gnp.conj(in2)), mode, method, precision)


def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Array:
    """`convolve` by Fourier transforms.

    Args:
      in1, in2, mode: see `convolve`.
      axes: the axes to convolve along; all others are batch dimensions of equal sizes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import signal
      >>> signal.fftconvolve(gnp.array([1.0, 2.0, 3.0]), gnp.array([1.0, 1.0])).round(4)
      Array([1., 3., 5., 3.], dtype=float32)

    See also:
      `convolve`
    """
    x, y = promoted("fftconvolve", in1, in2, inexact=True)
    _check_mode("fftconvolve", mode)
    if x.ndim != y.ndim:
        raise ValueError(
            f"fftconvolve takes arrays of one rank, got shapes {x.shape} and {y.shape}"
        )
    function: Callable[..., Any] = lambda x, y: _by_transforms(x, y, mode)  # noqa: E731
    if axes is None:
        return function(x, y)
    given = as_tuple(axes)
    along = {canonical_axis(axis, x.ndim) for axis in given}
    others = [d for d in range(x.ndim) if d not in along]
    if any(x.shape[d] != y.shape[d] for d in others):
        raise ValueError(
            f"fftconvolve: dimensions other than {tuple(along)} must have equal sizes, got "
            f"{x.shape} and {y.shape}"
        )
    for d in others:
        function = vmap(function, in_axes=d, out_axes=d)
    return function(x, y)


def _by_transforms(x: Array, y: Array, mode: str) -> Array:
    if not x.ndim:
        return x * y
    first = x.shape
    x, y, _ = _by_size("fftconvolve", x, y)
    shape = tuple(m + n - 1 for m, n in zip(x.shape, y.shape, strict=True))
    if _dtypes.issubdtype(x.dtype, np.complexfloating):
        product = gnp.fft.ifftn(gnp.fft.fftn(x, shape) * gnp.fft.fftn(y, shape), shape)
    else:
        product = gnp.fft.irfftn(gnp.fft.rfftn(x, shape) * gnp.fft.rfftn(y, shape), shape)
    if mode == "full":
        sizes = shape
    elif mode == "same":
        sizes = first
    else:
        sizes = tuple(m - n + 1 for m, n in zip(x.shape, y.shape, strict=True))
    starts = [(n - size) // 2 for n, size in zip(shape, sizes, strict=True)]
    limits = [start + size for start, size in zip(starts, sizes, strict=True)]
    return lax.convert_element_type(lax.slice(product, starts, limits), x.dtype)


def _planar(function: str, boundary: str, fillvalue: float, *arrays: Any) -> list[Array]:
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(f"{function} supports boundary='fill' and fillvalue=0 only")
    found = [as_array(function, x, i) for i, x in enumerate(arrays)]
    if any(x.ndim != 2 for x in found):
        raise ValueError(f"{function} takes matrices, got shapes {[x.shape for x in found]}")
    return found


def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: PrecisionLike = None,
) -> Array:
    """The convolution of two matrices.

    Args:
      in1, in2: matrices; one is at most as large as the other in both dimensions.
      mode: "full", "same" or "valid", as for `convolve`.
      boundary: must be "fill".
      fillvalue: must be 0.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import signal
      >>> signal.convolve2d(gnp.ones((2, 2)), gnp.ones((2, 2)))
      Array([[1., 2., 1.],
             [2., 4., 2.],
             [1., 2., 1.]], dtype=float32)

    See also:
      `convolve`, `correlate2d`
    """
    x, y = _planar("convolve2d", boundary, fillvalue, in1, in2)
    return _direct("convolve2d", x, y, mode, precision)


def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: PrecisionLike = None,
) -> Array:
    """The cross-correlation of two matrices; the second one is conjugated.

    Args:
      in1, in2: matrices; one is at most as large as the other in both dimensions.
      mode: "full", "same" or "valid", as for `convolve`; "same" centers even sizes differently.
      boundary: must be "fill".
      fillvalue: must be 0.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import signal
      >>> signal.correlate2d(gnp.array([[1.0, 2.0], [3.0, 4.0]]), gnp.ones((2, 2)), mode="valid")
      Array([[10.]], dtype=float32)

    See also:
      `correlate`, `convolve2d`
    """
    x, y = _planar("correlate2d", boundary, fillvalue, in1, in2)
    smaller = all(m <= n for m, n in zip(x.shape, y.shape, strict=True))
    if smaller and mode != "same" and not (mode == "valid" and x.shape == y.shape):
        result = _direct("correlate2d", gnp.flip(y), gnp.conj(x), mode, precision)
        return gnp.conj(result) if mode == "full" else result
    return gnp.flip(_direct("correlate2d", gnp.flip(x), gnp.conj(y), mode, precision))
