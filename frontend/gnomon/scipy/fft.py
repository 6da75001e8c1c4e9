"""`gnomon.scipy.fft`: discrete cosine transforms (of type 2) and their inverses."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gnomon.numpy as gnp
from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon.dialects.types import is_complex
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array, axis_tuple, promoted

__all__ = ["dct", "dctn", "idct", "idctn"]


def _check(function: str, type: int, norm: str | None) -> None:
    if type != 2:
        raise NotImplementedError(f"{function} is implemented for type 2 only, got {type}")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"{function}: norm must be None, 'backward' or 'ortho', got {norm!r}")


def _along(vector: np.ndarray, axis: int, rank: int, dtype: np.dtype[Any]) -> Array:
    shape = tuple(vector.size if d == axis else 1 for d in range(rank))
    return wrap(vector.reshape(shape).astype(dtype))


def _resized(x: Array, axis: int, n: int | None) -> Array:
    if n is None or n == x.shape[axis]:
        return x
    if n < x.shape[axis]:
        return lax.slice_in_dim(x, 0, n, axis=axis)
    after = [(0, n - x.shape[axis] if d == axis else 0, 0) for d in range(x.ndim)]
    return lax.pad(x, np.zeros((), x.dtype), after)


def _turns(size: int) -> np.ndarray:
    return np.exp(-1j * np.pi * np.arange(size) / (2 * size))


def _orthonormal(size: int) -> np.ndarray:
    """The norms of the rows of the transform's matrix."""
    return np.sqrt(np.where(np.arange(size) == 0, 4.0, 2.0) * size)


def dct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The discrete cosine transform along an axis.

    Args:
      x: an array; the real and imaginary parts of complex numbers are transformed separately.
      type: must be 2.
      n: the number of points, to which the input is cut or padded with zeros.
      axis: the axis.
      norm: None or "backward" for no normalization, "ortho" for an orthogonal transform.
    Raises:
      NotImplementedError: the type is not 2.
      ValueError: the norm is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> dct(gnp.array([1.0, 2.0, 3.0]))
      Array([12.       , -3.4641016,  0.       ], dtype=float32)
    """
    _check("dct", type, norm)
    (y,) = promoted("dct", as_array("dct", x), inexact=True)
    return _apply_to_parts(lambda part: _dct(part, n, axis, norm), y)


def idct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The inverse of `dct`.

    Args:
      x: an array of real numbers.
      type: must be 2.
      n: the size to cut or pad the axis to with zeros; None keeps it.
      axis: the axis to transform.
      norm: the scaling, which must be the one of the forward transform.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import fft
      >>> fft.idct(fft.dct(gnp.array([1.0, 2.0, 4.0]))).round(4)
      Array([1., 2., 4.], dtype=float32)
    """
    _check("idct", type, norm)
    (y,) = promoted("idct", as_array("idct", x), inexact=True)
    return _apply_to_parts(lambda part: _idct(part, n, axis, norm), y)


def _apply_to_parts(function: Callable[[Array], Array], x: Array) -> Array:
    if is_complex(x.dtype):
        return lax.complex(function(lax.real(x)), function(lax.imag(x)))
    return function(x)


def _dct(x: Array, n: int | None, axis: int, norm: str | None) -> Array:
    place = canonical_axis(axis, x.ndim)
    x = _resized(x, place, n)
    size, rank = x.shape[place], x.ndim
    # Put the even positions first, then the odd ones backwards. The result is the Fourier transform
    # of that sequence, multiplied by phases.
    even = lax.slice_in_dim(x, 0, size, 2, place)
    odd = lax.rev(lax.slice_in_dim(x, min(1, size), size, 2, place), (place,))
    spectrum = gnp.fft.fft(lax.concatenate([even, odd], place), axis=place)
    turned = spectrum * _along(_turns(size), place, rank, spectrum.dtype)
    result = 2 * turned.real
    if norm == "ortho":
        result = result / _along(_orthonormal(size), place, rank, result.dtype)
    return result


def _idct(x: Array, n: int | None, axis: int, norm: str | None) -> Array:
    place = canonical_axis(axis, x.ndim)
    x = _resized(x, place, n)
    size, rank = x.shape[place], x.ndim
    lengths = _orthonormal(size)
    factors = 2 * size / (lengths if norm == "ortho" else lengths * lengths)
    work = np.dtype(np.complex128 if x.dtype == np.float64 else np.complex64)
    turned = lax.convert_element_type(x, work) * _along(factors / _turns(size), place, rank, work)
    v = gnp.fft.ifft(turned, axis=place).real
    even = lax.slice_in_dim(v, 0, -(-size // 2), axis=place)
    odd = lax.rev(lax.slice_in_dim(v, -(-size // 2), size, axis=place), (place,))
    odd = _resized(odd, place, even.shape[place])
    pairs = gnp.stack([even, odd], place + 1)
    shape = (*x.shape[:place], 2 * even.shape[place], *x.shape[place + 1 :])
    return lax.slice_in_dim(gnp.reshape(pairs, shape), 0, size, axis=place)


def _several(
    function: str,
    one: Callable[..., Array],
    x: Any,
    type: int,
    s: Any,
    axes: int | Sequence[int] | None,
    norm: str | None,
) -> Array:
    _check(function, type, norm)
    (y,) = promoted(function, as_array(function, x), inexact=True)
    sizes: list[int | None] | None = None
    if s is not None:
        sizes = [operator.index(n) for n in (s if hasattr(s, "__iter__") else [s])]
        if len(sizes) > y.ndim:
            raise ValueError(f"{function}: s must have at most {y.ndim} elements, got {len(sizes)}")
    if axes is None:
        places = tuple(range(y.ndim - len(sizes) if sizes else 0, y.ndim))
    else:
        places = axis_tuple(function, axes if isinstance(axes, int) else tuple(axes), y.ndim)
    for place, n in zip(places, sizes or [None] * len(places), strict=False):
        y = one(y, type, n, place, norm)
    return y


def dctn(
    x: ArrayLike,
    type: int = 2,
    s: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The discrete cosine transform along several axes.

    Args:
      x: an array of real numbers.
      type: must be 2.
      s: the sizes to cut or pad the axes to with zeros; None keeps them.
      axes: the axes, or one; None means the last ``len(s)``, or all.
      norm: None, or "ortho", with which the transform is orthogonal.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import fft
      >>> fft.dctn(gnp.ones((2, 2)))
      Array([[16.,  0.],
             [ 0.,  0.]], dtype=float32)

    See also:
      `dct`, `idctn`
    """
    return _several("dctn", dct, x, type, s, axes, norm)


def idctn(
    x: ArrayLike,
    type: int = 2,
    s: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `dctn`.

    Args:
      x: an array of real numbers.
      type: must be 2.
      s: the sizes to cut or pad the axes to with zeros; None keeps them.
      axes: the axes, or one; None means the last ``len(s)``, or all.
      norm: the scaling, which must be the one of the forward transform.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import fft
      >>> fft.idctn(fft.dctn(gnp.array([[1.0, 2.0], [3.0, 4.0]]))).round(4)
      Array([[1., 2.],
             [3., 4.]], dtype=float32)
    """
    return _several("idctn", idct, x, type, s, axes, norm)
