"""Fourier transforms: `fft` in its four kinds."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np

from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import bind
from gnomon.dialects.contract import TypeRuleError
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_complex
from gnomon.lax._creation import converted
from gnomon.lax._operands import argument
from gnomon.lax._structural import ints


class FftType(enum.IntEnum):
    """The kinds of Fourier transform.

    Attributes:
      FFT: the transform of complex numbers.
      IFFT: the inverse of FFT.
      RFFT: the first half of the transform of real numbers.
      IRFFT: the inverse of RFFT.
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


# The dtypes that are transformed in double precision.
_DOUBLE = (np.dtype(np.float64), np.dtype(np.complex128))


def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """The discrete Fourier transform of the trailing dimensions of an array.

    Args:
      x: an array; real numbers for RFFT, complex ones otherwise (others are converted).
      fft_type: an `FftType`, or its name.
      fft_lengths: the lengths of the transforms, one for each trailing dimension; for IRFFT those
        of the result.
    Returns:
      A complex array (for IRFFT a real one). The inverse kinds divide by the number of points.
    Raises:
      TypeError: ``fft_type`` is neither an `FftType` nor a string.
      ValueError: the name is unknown, RFFT gets complex numbers, or the lengths do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> fft(gnp.array([1.0, 2.0, 3.0, 2.0]), "RFFT", (4,))
      Array([ 8.+0.j, -2.+0.j,  0.+0.j], dtype=complex64)
    """
    array = argument("fft", x)
    if isinstance(fft_type, str):
        if fft_type.upper() not in FftType.__members__ or not (
            fft_type.isupper() or fft_type.islower()
        ):
            raise ValueError(
                f"lax.fft: fft_type must be one of {', '.join(FftType.__members__)}, "
                f"got {fft_type!r}"
            )
        kind = FftType[fft_type.upper()]
    elif isinstance(fft_type, FftType):
        kind = fft_type
    else:
        raise TypeError(f"lax.fft: fft_type must be an FftType or its name, got {fft_type!r}")
    wide = array.dtype in _DOUBLE
    if kind is FftType.RFFT:
        if is_complex(array.dtype):
            raise ValueError("lax.fft: RFFT takes real numbers; use FFT for complex ones")
        array = converted(array, np.dtype(np.float64 if wide else np.float32))
    else:
        array = converted(array, np.dtype(np.complex128 if wide else np.complex64))
    lengths = ints("fft", "fft_lengths", fft_lengths)
    if not lengths:
        return array
    try:
        return bind(ops.fft, array, kind=kind.name, lengths=lengths)
    except TypeRuleError as error:
        raise ValueError(str(error).replace("gnomon.", "lax.", 1)) from None
