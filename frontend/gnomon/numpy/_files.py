"""Arrays in files and as text, by NumPy's functions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import IO, Any

import ml_dtypes
import numpy as np
from numpy.exceptions import ComplexWarning

from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import as_operand
from gnomon.numpy._construction import asarray

File = str | os.PathLike[str] | IO[bytes]


def load(file: File, *args: Any, **kwargs: Any) -> Any:
    """Read an array that `save` or NumPy wrote, or an archive of arrays.

    Args:
      file: a path, or a file opened in binary mode.
      args, kwargs: further arguments of ``numpy.load``, for example ``allow_pickle``.
    Returns:
      An array; for a ``.npz`` archive, a mapping from names to NumPy arrays.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import io
      >>> file = io.BytesIO()
      >>> gnp.save(file, gnp.arange(3))
      >>> _ = file.seek(0)
      >>> gnp.load(file)
      Array([0, 1, 2], dtype=int32)
    """
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    # NumPy's format has no name for bfloat16, and calls it two bytes.
    return asarray(found.view(ml_dtypes.bfloat16) if found.dtype == "V2" else found)


def save(file: File, arr: ArrayLike | Sequence[Any], allow_pickle: bool = True) -> None:
    """Write an array to a file in NumPy's ``.npy`` format.

    Args:
      file: a path, to which ``.npy`` is added if it has another suffix; or a file opened in binary
        mode.
      arr: an array that is not traced.
      allow_pickle: whether arrays of Python objects may be written.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import io
      >>> file = io.BytesIO()
      >>> gnp.save(file, gnp.arange(3))
      >>> _ = file.seek(0)
      >>> gnp.load(file)
      Array([0, 1, 2], dtype=int32)

    See also:
      `savez`, `load`
    """
    np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


def savez(file: File, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Write several arrays to one file in NumPy's ``.npz`` format.

    Args:
      file: a path, to which ``.npz`` is added if it has another suffix; or a file opened in binary
        mode.
      args: arrays, which are named ``arr_0``, ``arr_1``, and so on.
      allow_pickle: whether arrays of Python objects may be written.
      kwds: arrays by name.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import io
      >>> file = io.BytesIO()
      >>> gnp.savez(file, weights=gnp.ones(2), steps=gnp.array(7))
      >>> _ = file.seek(0)
      >>> sorted(gnp.load(file))
      ['steps', 'weights']

    See also:
      `save`, `load`
    """
    named = {name: np.asarray(x) for name, x in kwds.items()}
    np.savez(file, *map(np.asarray, args), allow_pickle=allow_pickle, **named)


def fromfile(*args: Any, **kwargs: Any) -> Array:
    """Not supported, because reading a file is a side effect.

    Args:
      args, kwargs: ignored.
    Raises:
      NotImplementedError: always; use ``gnomon.numpy.asarray(numpy.fromfile(...))``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fromfile("data.bin")
      Traceback (most recent call last):
          ...
      NotImplementedError: numpy.fromfile is not available, since it may have side ...
    """
    raise NotImplementedError(
        "numpy.fromfile is not available, since it may have side effects; call "
        "gnomon.numpy.asarray(numpy.fromfile(...))"
    )


def fromiter(*args: Any, **kwargs: Any) -> Array:
    """Not supported, because an iterator is changed by reading it.

    Args:
      args, kwargs: ignored.
    Raises:
      NotImplementedError: always; use ``gnomon.numpy.asarray(numpy.fromiter(...))``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.fromiter(iter([1, 2]), gnp.int32)
      Traceback (most recent call last):
          ...
      NotImplementedError: numpy.fromiter is not available, since it consumes its ...
    """
    raise NotImplementedError(
        "numpy.fromiter is not available, since it consumes its argument; call "
        "gnomon.numpy.asarray(numpy.fromiter(...))"
    )


def iterable(y: object) -> bool:
    """Whether an object can be iterated over.

    Args:
      y: any object.
    Returns:
      A Python bool; False for arrays without dimensions.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.iterable([1, 2]), gnp.iterable(gnp.arange(3)), gnp.iterable(5)
      (True, True, False)
    """
    if isinstance(y, Array):
        return y.ndim > 0
    return isinstance(y, Iterable) or np.iterable(y)


def array_repr(
    arr: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text of an array with its dtype, as NumPy's ``repr`` writes it.

    Args:
      arr: an array that is not traced.
      max_line_width: the number of characters after which lines break; None means NumPy's option.
      precision: the number of decimals; None means NumPy's option.
      suppress_small: print numbers that round to zero at this precision as zero.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.array_repr(gnp.array([1.0, 2.0]))
      'array([1., 2.], dtype=float32)'

    See also:
      `array_str`, `printoptions`
    """
    return np.array_repr(_value(arr), max_line_width, precision, suppress_small)


def array_str(
    a: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The values of an array as text, without the dtype.

    Args:
      a: an array that is not traced.
      max_line_width: the number of characters after which lines break; None means NumPy's option.
      precision: the number of decimals; None means NumPy's option.
      suppress_small: print numbers that round to zero at this precision as zero.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.array_str(gnp.array([1.23456, 2.0]), precision=2)
      '[1.23 2.  ]'
    """
    return np.array_str(_value(a), max_line_width, precision, suppress_small)


def _value(x: Any) -> np.ndarray:
    return np.asarray(as_operand(x))


__all__ = [
    "ComplexWarning",
    "array_repr",
    "array_str",
    "fromfile",
    "fromiter",
    "iterable",
    "load",
    "save",
    "savez",
]
