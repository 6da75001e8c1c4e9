"""Calls to NumPy's own LAPACK and BLAS for functions that `numpy.linalg` does not expose.

These are elimination and substitution. The functions are looked up, by the names that builds of
NumPy give them, in the library that NumPy has loaded. If they are not found (Windows, Accelerate),
`elimination` and `substitution` use NumPy operations. LAPACK factors a matrix of 256 rows in a
tenth of their time.

A call costs two microseconds, so batches of many small matrices are left to NumPy operations,
which process all matrices at once. Matrices of medium size are computed by a copy of the library
without threads, see `unthreaded`.

Fortran is column-major, so it sees our matrices transposed. Integers are passed by reference as
little-endian 64-bit numbers, which a library with 32-bit integers reads correctly, too. The width
of the integers that a library writes is verified once, on a small matrix.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from gnomon_runtime.linear_algebra.openblas import load_without_threads
from gnomon_runtime.linear_algebra.unthreaded import applies

# The letter for the dtype in a function's name.
_LETTERS: Final = {
    np.dtype(np.float32): "s",
    np.dtype(np.float64): "d",
    np.dtype(np.complex64): "c",
    np.dtype(np.complex128): "z",
}
# The name patterns of builds of NumPy, and the width of the integers that the functions write.
_NAMES: Final = (
    ("scipy_{}_64_", np.dtype(np.int64)),
    ("{}_64_", np.dtype(np.int64)),
    ("{}_", np.dtype(np.int32)),
)


def factor_in_place(columns: np.ndarray) -> np.ndarray | None:
    """Run LAPACK's getrf in place on transposed matrices, ``[count, n, m]``.

    Returns:
      The row with which each step's row was swapped, ``[count, min(m, n)]``, counted from zero; or
      None, with the matrices unchanged, if there is no LAPACK or calling it is not faster.
    """
    found = _getrf(columns.dtype, unthreaded=applies("lu", columns))
    count, n, m = columns.shape
    if found is None or not _is_worthwhile(count, min(m, n)):
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
    """Run BLAS's trsm: overwrite each ``x`` of a batch by ``matrix^-1 @ x``.

    Args:
      matrix: ``[count, n, n]``; each matrix or its transpose is contiguous.
      x: ``[count, n, k]``, contiguous.

    Returns:
      False, with ``x`` unchanged, if there is no BLAS or calling it is not faster.
    """
    count, n, k = x.shape
    found = _trsm(matrix.dtype, unthreaded=applies("triangular_solve", matrix if n >= k else x))
    if found is None or not _is_worthwhile(count, n):
        return False
    # Fortran sees the transposes: x^T = b^T matrix^-T.
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


def _is_worthwhile(count: int, size: int) -> bool:
    """Whether one call per matrix is faster than one NumPy operation per column on all of them."""
    return size >= 16 or count <= 8 * size


_Function = Callable[..., Any]


@cache
def _library(*, unthreaded: bool) -> ctypes.CDLL | None:
    if unthreaded:
        return load_without_threads()
    if sys.byteorder != "little":
        return None
    try:
        # A symbol looked up in this extension is found in the libraries linked with it.
        return ctypes.CDLL(vars(np.linalg)["_umath_linalg"].__file__)
    except (KeyError, AttributeError, OSError):
        return None


def _find(
    name: str, arguments: list[Any], *, unthreaded: bool
) -> tuple[_Function, np.dtype] | None:
    for pattern, integer in _NAMES:
        function = getattr(_library(unthreaded=unthreaded), pattern.format(name), None)
        if function is not None:
            function.argtypes, function.restype = arguments, None
            return function, integer
    return None


_POINTER = ctypes.c_void_p


@cache
def _getrf(dtype: np.dtype, *, unthreaded: bool) -> tuple[_Function, np.dtype] | None:
    """The getrf of a dtype and the dtype of its pivots, if it factors a test matrix correctly."""
    found = _find(f"{_LETTERS[dtype]}getrf", [_POINTER] * 6, unthreaded=unthreaded)
    if found is None:
        return None
    function, integer = found
    # [[1, 3], [2, 4]] by columns: row 1 is the pivot; subtracting half of it leaves 3 - 4 / 2.
    columns = np.array([[1, 2], [3, 4]], dtype)
    pivots, info = np.zeros(4, integer), ctypes.c_int64(0)
    size = ctypes.byref(ctypes.c_int64(2))
    function(size, size, columns.ctypes.data, size, pivots.ctypes.data, ctypes.byref(info))
    right = columns.tolist() == [[2, 0.5], [4, 1]] and pivots.tolist() == [2, 2, 0, 0]
    return found if right else None


@cache
def _trsm(dtype: np.dtype, *, unthreaded: bool) -> _Function | None:
    # Accept trsm only from the library whose integers were verified with getrf.
    found = _find(f"{_LETTERS[dtype]}trsm", [_POINTER] * 11, unthreaded=unthreaded)
    verified = _getrf(dtype, unthreaded=unthreaded) is not None
    return found[0] if found is not None and verified else None
