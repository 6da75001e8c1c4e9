"""`gnomon.numpy.fft`: discrete Fourier transforms, with the arguments of ``jax.numpy.fft``.

Each transform takes ``n`` or ``s``, the number of points along the transformed axes, to which the
input is cut or padded with zeros; ``axis`` or ``axes``; and ``norm``. With "backward" (the default)
inverse transforms are divided by the number of points, with "forward" the other transforms, and
with "ortho" all transforms by its square root.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._api.devices import device_put
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DeviceLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon.dialects.types import is_complex
from gnomon.lax._creation import converted
from gnomon.lax._fourier import FftType
from gnomon.lax._operands import as_tuple
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array
from gnomon.numpy._construction import placement
from gnomon.numpy._dispatch import INEXACT_KIND, promoted_dtypes
from gnomon.numpy._manipulation import moveaxis
from gnomon.numpy._repetition import roll as _roll

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


def _transform(
    name: str, kind: FftType, a: Any, s: Any, axes: Sequence[int] | None, norm: str | None
) -> Array:
    """The transform along any axes, with padding and normalization."""
    x = as_array(f"fft.{name}", a)
    if s is not None:
        s = tuple(operator.index(n) for n in s)
        if any(n <= 0 for n in s):
            raise ValueError(f"fft.{name}: the shape should be positive, got {s}")
        if axes is not None and len(s) != len(axes):
            raise ValueError(
                f"fft.{name}: shape and axes have different lengths, got {s} and {tuple(axes)}"
            )
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f"fft.{name}: norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    count = x.ndim if axes is None and s is None else len(axes if axes is not None else s)
    last = tuple(range(x.ndim - count, x.ndim))
    places = last if axes is None else tuple(canonical_axis(d, x.ndim) for d in axes)
    if len(set(places)) != count:
        raise ValueError(f"fft.{name} does not support repeated axes, got {axes}")
    if kind is FftType.RFFT and is_complex(x.dtype):
        raise ValueError(f"fft.{name} takes real numbers; use fft for complex ones")
    x = moveaxis(x, places, last)
    if s is None:
        lengths = [x.shape[d] for d in last]
        if kind is FftType.IRFFT and count:
            lengths[-1] = max(0, 2 * (lengths[-1] - 1))
    else:
        lengths = list(s)
        x = _resized(x, last, lengths, halved=kind is FftType.IRFFT)
    result = lax.fft(x, kind, lengths)
    factor = _factor(name, math.prod(lengths), norm)
    if factor != 1:
        result = lax.mul(result, lax.full_like(result, factor))
    return moveaxis(result, last, places)


def _resized(x: Array, dims: Sequence[int], lengths: Sequence[int], halved: bool) -> Array:
    """Cut the input, or pad it with zeros, to the number of points of a transform."""
    wanted = list(lengths)
    if halved and wanted:
        wanted[-1] = wanted[-1] // 2 + 1
    limits, after = list(x.shape), [(0, 0, 0)] * x.ndim
    for d, n in zip(dims, wanted, strict=True):
        limits[d] = min(n, x.shape[d])
        after[d] = (0, n - limits[d], 0)
    if tuple(limits) != x.shape:
        x = lax.slice(x, (0,) * x.ndim, limits)
    if any(high for _, high, _ in after):
        x = lax.pad(x, np.zeros((), x.dtype), after)
    return x


def _factor(name: str, points: int, norm: str | None) -> float:
    """The factor by which a ``norm`` multiplies the result that ``"backward"`` gives."""
    if norm in (None, "backward"):
        return 1
    factor = math.sqrt(points) if norm == "ortho" else points
    if name.startswith("i"):
        return factor
    return 1 / factor if factor else math.inf


def _one_axis(name: str, axis: Any) -> list[int] | None:
    if isinstance(axis, (list, tuple)):
        raise ValueError(f"fft.{name} takes a single axis, got {axis}; use {name}n for several")
    return None if axis is None else [axis]


def _transform_1d(
    name: str, kind: FftType, a: Any, n: int | None, axis: int, norm: str | None
) -> Array:
    axes = _one_axis(name, axis)
    return _transform(name, kind, a, None if n is None else [n], axes, norm)


def _transform_2d(name: str, kind: FftType, a: Any, s: Any, axes: Any, norm: str | None) -> Array:
    if len(axes) != 2:
        raise ValueError(f"fft.{name} takes two axes, got {axes!r}")
    return _transform(name, kind, a, s, axes, norm)


def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The transform along one axis.

    Args:
      a: an array.
      n, axis, norm: see the module.
    Returns:
      A complex array.
    Raises:
      ValueError: ``n`` is not positive, the axis does not exist, or ``norm`` is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.fft(gnp.array([1.0, 2.0, 3.0, 4.0]))
      Array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)
    """
    return _transform_1d("fft", FftType.FFT, a, n, axis, norm)


def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `fft`.

    Args:
      a: an array; integers become complex numbers.
      n: the size to cut or pad the axis to with zeros; None keeps it.
      axis: the axis to transform.
      norm: the scaling, which must be the one of the forward transform; "backward" divides by
        ``n``.
    Returns:
      A complex array, also if the signal is real.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.ifft(gnp.array([4.0, 0.0, 0.0, 0.0]))
      Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)

    See also:
      `fft`, `irfft`
    """
    return _transform_1d("ifft", FftType.IFFT, a, n, axis, norm)


def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The Fourier transform of real numbers: the coefficients of frequencies that are not negative.

    Args:
      a: an array of real numbers.
      n: the size to cut or pad the axis to with zeros; None keeps it.
      axis: the axis to transform.
      norm: the scaling, as in `fft`: "backward", "ortho" or "forward".
    Returns:
      A complex array with ``n // 2 + 1`` elements along the axis. The other coefficients are their
      complex conjugates.
    Raises:
      ValueError: the numbers are complex, or an argument is not valid for `fft`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.rfft(gnp.array([1.0, 0.0, -1.0, 0.0]))
      Array([0.+0.j, 2.+0.j, 0.+0.j], dtype=complex64)

    See also:
      `irfft`, `fft`, `rfftfreq`
    """
    return _transform_1d("rfft", FftType.RFFT, a, n, axis, norm)


def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `rfft`, a real signal.

    Args:
      a: an array of coefficients.
      n: the number of real results; None means ``2 * (points - 1)``, which is even. Pass ``n`` to
        get an odd number back.
      axis: the axis to transform.
      norm: the scaling, which must be the one of the forward transform.
    Returns:
      A real array.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.array([1.0, 2.0, 3.0])
      >>> gnp.fft.irfft(gnp.fft.rfft(x), n=3).round(4)
      Array([1., 2., 3.], dtype=float32)
      >>> gnp.fft.irfft(gnp.fft.rfft(x)).shape
      (2,)
    """
    return _transform_1d("irfft", FftType.IRFFT, a, n, axis, norm)


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The Fourier transform of a signal with Hermitian symmetry, which is real.

    Args:
      a: an array that holds the first half of the signal.
      n: the number of real results; None means ``2 * (points - 1)``.
      axis: the axis to transform.
      norm: the scaling, as in `fft`: "backward", "ortho" or "forward".
    Returns:
      A real array.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.hfft(gnp.array([1.0, 2.0, 3.0]))
      Array([ 8., -2.,  0., -2.], dtype=float32)

    See also:
      `ihfft`, `rfft`
    """
    (x,) = promoted_dtypes("fft.hfft", INEXACT_KIND, a)
    conjugate = lax.conj(lax.fft(x, "FFT", ()))
    _one_axis("hfft", axis)
    points = (conjugate.shape[axis] - 1) * 2 if n is None else n
    result = _transform_1d("hfft", FftType.IRFFT, conjugate, n, axis, norm)
    return lax.mul(result, lax.full_like(result, points))


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`: the first half of a signal with Hermitian symmetry.

    Args:
      a: an array of real numbers.
      n: the number of points to use; None means all.
      axis: the axis to transform.
      norm: the scaling, which must be the one of the forward transform.
    Returns:
      A complex array with ``n // 2 + 1`` elements along the axis.
    Raises:
      ValueError: the axis has length 0, or an argument is not valid for `fft`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.ihfft(gnp.array([9.0, -4.0, 1.0, -4.0])) + 0.0
      Array([0.5+0.j, 2. +0.j, 4.5+0.j], dtype=complex64)
    """
    x = as_array("fft.ihfft", a)
    _one_axis("ihfft", axis)
    points = x.shape[axis] if n is None else n
    if points == 0:
        raise ValueError(f"fft.ihfft takes at least one point, got {x.shape} and axis {axis}")
    result = lax.conj(_transform_1d("ihfft", FftType.RFFT, x, n, axis, norm))
    return lax.mul(result, lax.full_like(result, 1 / points))


def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """The two-dimensional discrete Fourier transform.

    Args:
      a: an array of at least two dimensions; integers become complex numbers.
      s: the sizes to cut or pad the axes to with zeros; None keeps them.
      axes: the two axes to transform.
      norm: the scaling, as in `fft`: "backward", "ortho" or "forward".
    Returns:
      A complex array.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.fft2(gnp.array([[1.0, 0.0], [0.0, 0.0]]))
      Array([[1.+0.j, 1.+0.j],
             [1.+0.j, 1.+0.j]], dtype=complex64)

    See also:
      `ifft2`, `rfft2`, `fftn`
    """
    return _transform_2d("fft2", FftType.FFT, a, s, axes, norm)


def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """The inverse of `fft2`.

    Args:
      a: an array of at least two dimensions.
      s: the sizes to cut or pad the axes to with zeros; None keeps them.
      axes: the two axes to transform.
      norm: the scaling, which must be the one of the forward transform.
    Returns:
      A complex array.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.ifft2(gnp.ones((2, 2)))
      Array([[1.+0.j, 0.+0.j],
             [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform_2d("ifft2", FftType.IFFT, a, s, axes, norm)


def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """The Fourier transform of real numbers along two axes; the last one is halved.

    Args:
      a: an array of real numbers with at least two dimensions.
      s: the sizes to cut or pad the axes to with zeros; None keeps them.
      axes: the two axes to transform.
      norm: the scaling, as in `fft`: "backward", "ortho" or "forward".
    Returns:
      A complex array with ``n // 2 + 1`` elements along the last of the axes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.rfft2(gnp.ones((4, 4))).shape
      (4, 3)

    See also:
      `irfft2`, `fft2`
    """
    return _transform_2d("rfft2", FftType.RFFT, a, s, axes, norm)


def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """The inverse of `rfft2`, a real signal.

    Args:
      a: an array of coefficients with at least two dimensions.
      s: the sizes of the result along the axes; None means that the last one is even.
      axes: the two axes to transform.
      norm: the scaling, which must be the one of the forward transform.
    Returns:
      A real array.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.arange(6.0).reshape(2, 3)
      >>> gnp.allclose(gnp.fft.irfft2(gnp.fft.rfft2(x), s=x.shape), x)
      Array(True, dtype=bool)
    """
    return _transform_2d("irfft2", FftType.IRFFT, a, s, axes, norm)


def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The discrete Fourier transform along several axes.

    Args:
      a: an array; integers become complex numbers.
      s: the sizes to cut or pad the axes to with zeros; None keeps them.
      axes: the axes; None means the last ``len(s)``, or all.
      norm: the scaling, as in `fft`: "backward", "ortho" or "forward".
    Returns:
      A complex array.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.fftn(gnp.ones((2, 2, 2)))[0]
      Array([[8.+0.j, 0.+0.j],
             [0.+0.j, 0.+0.j]], dtype=complex64)

    See also:
      `ifftn`, `rfftn`
    """
    return _transform("fftn", FftType.FFT, a, s, axes, norm)


def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `fftn`.

    Args:
      a: an array.
      s: the sizes to cut or pad the axes to with zeros; None keeps them.
      axes: the axes; None means the last ``len(s)``, or all.
      norm: the scaling, which must be the one of the forward transform.
    Returns:
      A complex array.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.arange(4.0).reshape(2, 2)
      >>> gnp.allclose(gnp.fft.ifftn(gnp.fft.fftn(x)), x)
      Array(True, dtype=bool)
    """
    return _transform("ifftn", FftType.IFFT, a, s, axes, norm)


def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The Fourier transform of real numbers along several axes; the last one is halved.

    Args:
      a: an array of real numbers.
      s: the sizes to cut or pad the axes to with zeros; None keeps them.
      axes: the axes; None means the last ``len(s)``, or all.
      norm: the scaling, as in `fft`: "backward", "ortho" or "forward".
    Returns:
      A complex array with ``n // 2 + 1`` elements along the last of the axes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.rfftn(gnp.ones((2, 2, 4))).shape
      (2, 2, 3)

    See also:
      `irfftn`, `fftn`
    """
    return _transform("rfftn", FftType.RFFT, a, s, axes, norm)


def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `rfftn`, a real signal.

    Args:
      a: an array of coefficients.
      s: the sizes of the result along the axes; None means that the last one is even.
      axes: the axes; None means the last ``len(s)``, or all.
      norm: the scaling, which must be the one of the forward transform.
    Returns:
      A real array.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.irfftn(gnp.fft.rfftn(gnp.ones((2, 2, 4)))).shape
      (2, 2, 4)
    """
    return _transform("irfftn", FftType.IRFFT, a, s, axes, norm)


# ------------------------------------------------------------------------------------ frequencies


def _frequencies(
    name: str, indices: np.ndarray, n: int, d: Any, dtype: Any, device: DeviceLike | None
) -> Array:
    if isinstance(d, (list, tuple)):
        raise ValueError(f"fft.{name}: d must be a single number, got {d}")
    target = (
        _dtypes.default_float_dtype() if dtype is None else _dtypes.check_user_dtype(dtype, name)
    )
    work = np.zeros((), _dtypes.to_inexact_dtype(target)).real.dtype
    spacing = converted(lax.mul(as_array(name, d), lax.full_like(d, n)), work)
    counts = lax.convert_element_type(wrap(indices), work)
    made = lax.convert_element_type(lax.div(counts, spacing), target)
    place = placement(name, device)
    return made if place is None else device_put(made, place)


def _one_count(name: str, n: Any) -> int:
    if isinstance(n, (list, tuple)):
        raise ValueError(f"fft.{name}: n must be an int, got {n}")
    return operator.index(n)


def fftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Array:
    """The frequencies of the coefficients that `fft` returns.

    Args:
      n: the number of samples.
      d: the distance between two samples, so that ``1 / d`` is the sampling rate.
      dtype: the dtype of the result; None means the default float dtype.
      device: where the result is placed; None means the default device.
    Returns:
      An array of shape ``(n,)``: zero, the positive frequencies, then the negative ones.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.fftfreq(4, 0.5)
      Array([ 0. ,  0.5, -1. , -0.5], dtype=float32)

    See also:
      `rfftfreq`, `fftshift`
    """
    count = _one_count("fftfreq", n)
    indices = (np.arange(count, dtype=np.int32) + count // 2) % max(count, 1) - count // 2
    return _frequencies("fftfreq", indices, count, d, dtype, device)


def rfftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Array:
    """The frequencies of the coefficients that `rfft` returns.

    Args:
      n: the number of samples, not of coefficients.
      d: the distance between two samples, so that ``1 / d`` is the sampling rate.
      dtype: the dtype of the result; None means the default float dtype.
      device: where the result is placed; None means the default device.
    Returns:
      An array of shape ``(n // 2 + 1,)``; none is negative.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.rfftfreq(4, 0.5)
      Array([0. , 0.5, 1. ], dtype=float32)

    See also:
      `fftfreq`
    """
    count = _one_count("rfftfreq", n)
    indices = np.arange(count // 2 + 1, dtype=np.int32)
    return _frequencies("rfftfreq", indices, count, d, dtype, device)


def _shifted(name: str, x: Any, axes: Any, sign: int) -> Array:
    array = as_array(name, x)
    if axes is None:
        axes = range(array.ndim)
    dims = [canonical_axis(d, array.ndim) for d in as_tuple(axes)]
    # Both shift by half the size, rounded alike, so that they are inverses for odd sizes, too.
    return _roll(array, [sign * (array.shape[d] // 2) for d in dims], dims) if dims else array


def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Move the zero frequency from the front to the middle.

    Args:
      x: an array.
      axes: the axes to shift, by half of their size each; None means all.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.fftshift(gnp.arange(5))
      Array([3, 4, 0, 1, 2], dtype=int32)
      >>> gnp.fft.fftshift(gnp.fft.fftfreq(4))
      Array([-0.5 , -0.25,  0.  ,  0.25], dtype=float32)

    See also:
      `ifftshift`
    """
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Move the zero frequency from the middle to the front: the inverse of `fftshift`.

    Args:
      x: an array.
      axes: the axes to shift; None means all.
    Returns:
      An array of the shape of ``x``. For odd sizes, this differs from `fftshift`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fft.ifftshift(gnp.fft.fftshift(gnp.arange(5)))
      Array([0, 1, 2, 3, 4], dtype=int32)
    """
    return _shifted("ifftshift", x, axes, -1)
