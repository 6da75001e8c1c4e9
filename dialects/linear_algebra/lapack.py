"""The LAPACK and BLAS that NumPy is linked with: elimination and substitution, which `numpy.linalg`
has no functions for.

The functions are found by the names that builds of NumPy give them, in the library that NumPy has
loaded; where they are not found (Windows, Accelerate) `elimination` and `substitution` stay with
NumPy's own operations. 256 rows are factored in a tenth of the time.

A call costs two microseconds, so many small matrices are left to NumPy's operations, which take
all of them at once.

Fortran has columns side by side, so it takes our matrices as their transposes. Its numbers are
passed by reference: as 64-bit ones here, whose low half comes first, so that a library which counts
in 32 bits reads the same. What it writes is tried once, before it is used.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

# The letter by which a function's name says its dtype.
_LETTERS: Final = {
    np.dtype(np.float32): "s",
    np.dtype(np.float64): "d",
    np.dtype(np.complex64): "c",
    np.dtype(np.complex128): "z",
}
# How builds of NumPy name them, and how wide the integers are that they write.
_NAMES: Final = (
    ("scipy_{}_64_", np.dtype(np.int64)),
    ("{}_64_", np.dtype(np.int64)),
    ("{}_", np.dtype(np.int32)),
)


def factor_in_place(columns: np.ndarray) -> np.ndarray | None:
    """LAPACK's getrf on each of ``[count, n, m]`` matrices, transposed: their columns in order.

    Returns:
      the rows that each step's row was swapped with, ``[count, min(m, n)]``, from zero; or None,
      and nothing done, where there is no LAPACK or it does not pay.
    """
    found = _getrf(columns.dtype)
    count, n, m = columns.shape
    if found is None or not _pays(count, min(m, n)):
        return None
    function, integer = found
    pivots = np.empty((count, min(m, n)), integer)
    rows, width, info = (ctypes.byref(ctypes.c_int64(v)) for v in (m, n, 0))
    at, step = columns.ctypes.data, columns.strides[0]
    chosen, stride = pivots.ctypes.data, pivots.strides[0]
    for i in range(count if columns.size else 0):
        function(rows, width, at + i * step, rows, chosen + i * stride, info)
    pivots -= 1
    return pivots.astype(np.int32)


def substitute_in_place(
    matrix: np.ndarray, x: np.ndarray, *, lower: bool, unit_diagonal: bool
) -> bool:
    """BLAS's trsm: ``matrix^-1 @ x`` in the place of ``x``, for each of a batch.

    Args:
      matrix: ``[count, n, n]``, each one in order, or its transpose.
      x: ``[count, n, k]``, in order.
    Returns:
      False, and nothing is done, where there is no BLAS or it does not pay.
    """
    found = _trsm(matrix.dtype)
    count, n, k = x.shape
    if found is None or not _pays(count, n):
        return False
    # As Fortran sees it: x^T = b^T matrix^-T.
    transposed = not matrix.flags.c_contiguous
    if transposed and not matrix.swapaxes(-1, -2).flags.c_contiguous:
        matrix, transposed = np.ascontiguousarray(matrix), False
    is_upper = lower != transposed
    letters = (b"R", b"U" if is_upper else b"L", b"T" if transposed else b"N")
    flags = [ctypes.c_char(c) for c in (*letters, b"U" if unit_diagonal else b"N")]
    one = np.ones((), x.dtype)
    columns, rows = (ctypes.byref(ctypes.c_int64(v)) for v in (k, n))
    head = (*map(ctypes.byref, flags), columns, rows, one.ctypes.data)
    at, step = matrix.ctypes.data, matrix.strides[0]
    to, stride = x.ctypes.data, x.strides[0]
    for i in range(count if x.size else 0):
        found(*head, at + i * step, rows, to + i * stride, columns)
    return True


def _pays(count: int, size: int) -> bool:
    """Whether a call for each matrix is faster than operations on all of them for each column."""
    return size >= 16 or count <= 8 * size


_Function = Callable[..., Any]


@cache
def _library() -> ctypes.CDLL | None:
    if sys.byteorder != "little":
        return None
    try:
        # Looked up in this module, a name is found in the libraries that it was linked with.
        return ctypes.CDLL(vars(np.linalg)["_umath_linalg"].__file__)
    except (KeyError, AttributeError, OSError):
        return None


def _find(name: str, arguments: list[Any]) -> tuple[_Function, np.dtype] | None:
    for pattern, integer in _NAMES:
        function = getattr(_library(), pattern.format(name), None)
        if function is not None:
            function.argtypes, function.restype = arguments, None
            return function, integer
    return None


_POINTER = ctypes.c_void_p


@cache
def _getrf(dtype: np.dtype) -> tuple[_Function, np.dtype] | None:
    """The function, and the dtype of its pivots, if it factors a matrix rightly."""
    found = _find(f"{_LETTERS[dtype]}getrf", [_POINTER] * 6)
    if found is None:
        return None
    function, integer = found
    # [[1, 3], [2, 4]] by columns: the second row comes first, 1 / 2 of it leaves 3 - 4 / 2.
    columns = np.array([[1, 2], [3, 4]], dtype)
    pivots, info = np.zeros(4, integer), ctypes.c_int64(0)
    size = ctypes.byref(ctypes.c_int64(2))
    function(size, size, columns.ctypes.data, size, pivots.ctypes.data, ctypes.byref(info))
    right = columns.tolist() == [[2, 0.5], [4, 1]] and pivots.tolist() == [2, 2, 0, 0]
    return found if right else None


@cache
def _trsm(dtype: np.dtype) -> _Function | None:
    # The same library as that of the factors, whose integers were tried.
    found = _find(f"{_LETTERS[dtype]}trsm", [_POINTER] * 11)
    return found[0] if found is not None and _getrf(dtype) is not None else None
