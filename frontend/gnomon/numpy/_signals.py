"""Convolution and correlation of vectors, windows, and the Bessel function that they need."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon.dialects.types import is_complex
from gnomon.lax._contraction import PrecisionLike
from gnomon.numpy._arguments import as_array, promoted
from gnomon.numpy._bessel import i0
from gnomon.numpy._creation import ones
from gnomon.numpy._manipulation import reshape
from gnomon.numpy._repetition import flip


def _sliding(
    function: str, x: Any, y: Any, mode: str, precision: PrecisionLike, preferred_element_type: Any
) -> Array:
    """Slide the shorter vector along the longer one; sum the products at each position."""
    # As in jax.numpy, the result is inexact unless a dtype is given; NumPy's may be integers.
    inexact = preferred_element_type is None
    x, y = promoted(function, x, y, inexact=inexact)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"{function} takes one-dimensional arrays, got {x.shape} and {y.shape}")
    if not x.size or not y.size:
        raise ValueError(f"{function} does not take empty arrays, got {x.shape} and {y.shape}")
    backwards = False
    if function == "correlate":
        y = lax.conj(y) if is_complex(y.dtype) else y
        backwards = x.size < y.size
    if x.size < y.size:
        x, y = y, x
    if function == "convolve":
        y = flip(y)
    size = y.size
    paddings = {
        "valid": (0, 0),
        "same": (size // 2, size - size // 2 - 1),
        "full": (size - 1, size - 1),
    }
    if mode not in paddings:
        raise ValueError(f"{function}: mode must be 'full', 'same' or 'valid', got {mode!r}")
    result = lax.conv_general_dilated(
        reshape(x, (1, 1, -1)),
        reshape(y, (1, 1, -1)),
        (1,),
        [paddings[mode]],
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
    result = reshape(result, (-1,))
    return flip(result) if backwards else result


def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The convolution of two vectors.

    Args:
      a, v: vectors.
      mode: "full" returns all positions at which the vectors overlap, "same" the middle ones, as
        many as the longer vector has elements, and "valid" those at which they overlap completely.
      precision, preferred_element_type: see `lax.conv_general_dilated`.
    Raises:
      ValueError: an argument is not a vector or is empty, or the mode is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.convolve(gnp.array([1.0, 2.0, 3.0]), gnp.array([1.0, 1.0]))
      Array([1., 3., 5., 3.], dtype=float32)
    """
    return _sliding("convolve", a, v, mode, precision, preferred_element_type)


def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The cross-correlation of two vectors; the second one is conjugated.

    Args:
      a, v: vectors of at least one element.
      mode: "valid" keeps positions where both overlap completely, "same" as many as the longer
        vector has, "full" all positions where they overlap.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.
      preferred_element_type: the dtype to accumulate in and to return; None means the promoted
        dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.correlate(gnp.array([1.0, 2.0, 3.0]), gnp.array([0.0, 1.0, 0.5]))
      Array([3.5], dtype=float32)
      >>> gnp.correlate(gnp.array([1, 2, 3]), gnp.array([1, 1]), mode="full")
      Array([1., 3., 5., 3.], dtype=float32)

    See also:
      `convolve`, which reverses the second vector
    """
    return _sliding("correlate", a, v, mode, precision, preferred_element_type)


# ----------------------------------------------------------------------------------------- windows


def _window(function: str, M: Any, cosines: tuple[float, ...] | None) -> Array:
    """A window of ``M`` points: a sum of cosines, or a triangle if ``cosines`` is None."""
    count = int(M)  # JAX takes floats, too
    dtype = _dtypes.default_float_dtype()
    if count <= 1:
        return ones((max(count, 0),), dtype)
    places = np.arange(count, dtype=np.float64)
    if cosines is None:
        values = 1 - np.abs(2 * places / (count - 1) - 1)
    else:
        angles = 2 * np.pi * places / (count - 1)
        values = np.cos(np.outer(angles, np.arange(len(cosines)))) @ np.array(cosines)
    return wrap(np.asarray(values, dtype))


def bartlett(M: int) -> Array:
    """The triangular (Bartlett) window of ``M`` points, which is zero at both ends.

    Args:
      M: the number of points, an int that is not traced; none or a negative number gives an empty
        array.
    Returns:
      A floating point array of shape ``(M,)``; its maximum is 1 for odd ``M``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.bartlett(5)
      Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)

    See also:
      `hanning`, `hamming`, `blackman`, `kaiser`
    """
    return _window("bartlett", M, None)


def hanning(M: int) -> Array:
    """The Hann window of ``M`` points, one period of a raised cosine that is zero at both ends.

    Args:
      M: the number of points, an int that is not traced.
    Returns:
      A floating point array of shape ``(M,)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.hanning(5)
      Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _window("hanning", M, (0.5, -0.5))


def hamming(M: int) -> Array:
    """The Hamming window of ``M`` points, a raised cosine that is 0.08 at both ends.

    Args:
      M: the number of points, an int that is not traced.
    Returns:
      A floating point array of shape ``(M,)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.hamming(5).round(2)
      Array([0.08, 0.54, 1.  , 0.54, 0.08], dtype=float32)
    """
    return _window("hamming", M, (0.54, -0.46))


def blackman(M: int) -> Array:
    """The Blackman window of ``M`` points, a sum of three cosines that is zero at both ends.

    Args:
      M: the number of points, an int that is not traced.
    Returns:
      A floating point array of shape ``(M,)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.blackman(5)[1:4].round(2)
      Array([0.34, 1.  , 0.34], dtype=float32)
    """
    return _window("blackman", M, (0.42, -0.5, 0.08))


def kaiser(M: int, beta: ArrayLike) -> Array:
    """The Kaiser window of ``M`` points.

    Args:
      M: the number of points, an int that is not traced.
      beta: the shape, a scalar: 0 gives a rectangle, 14 a narrow window with small side lobes.
    Returns:
      A floating point array of shape ``(M,)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.kaiser(5, 0.0)
      Array([1., 1., 1., 1., 1.], dtype=float32)
      >>> gnp.kaiser(5, 14.0).round(3)
      Array([0.   , 0.165, 1.   , 0.165, 0.   ], dtype=float32)
    """
    count = int(M)  # JAX takes floats, too
    dtype = _dtypes.default_float_dtype()
    if count <= 1:
        return ones((max(count, 0),), dtype)
    places = (2 * np.arange(count, dtype=np.float64) / (count - 1)) - 1
    radius = wrap(np.sqrt(np.maximum(0.0, 1 - places * places)).astype(dtype))
    shape = as_array("kaiser", beta)
    return i0(shape * radius) / i0(shape)


__all__ = [
    "bartlett",
    "blackman",
    "convolve",
    "correlate",
    "hamming",
    "hanning",
    "kaiser",
]
