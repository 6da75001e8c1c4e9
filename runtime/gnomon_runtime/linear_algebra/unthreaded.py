"""Functions of `numpy.linalg`, computed without threads for matrices of medium size.

OpenBLAS splits factorizations into many short parts, and its threads spin while they wait for each
other. If another program runs on one of their cores, each part lasts until the scheduler takes that
program off the core: on two busy cores the eigenvalues of a matrix of 128 rows took 224 ms, and
take 1.4 ms in one thread. A program does other work next to such a call, so its cores are busy.

So matrices of `_FEWEST` elements or more, from which on NumPy's OpenBLAS uses threads, are factored
by a second copy of the library, which has none (`openblas`). Very large matrices (`most_elements`)
are left to `numpy.linalg` and its threads; if NumPy has another library, all matrices are. The
functions have the contracts of those with the same names in `numpy.linalg`, and raise `LinAlgError`
if any matrix of a batch fails.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

import numpy as np

from gnomon_runtime.linear_algebra.openblas import load_without_threads

__all__ = [
    "applies",
    "cholesky",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "geqrf",
    "most_elements",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
]

logger = logging.getLogger(__name__)

_DOUBLE: Final = np.dtype(np.float64)
_INT: Final = np.dtype(np.int64)
# The dtypes of matrices, and those in which they are factored: double precision, as in NumPy, so
# that the results have all the digits of the narrower dtype.
_WIDE: Final[dict[np.dtype, np.dtype]] = {
    np.dtype(np.float32): _DOUBLE,
    np.dtype(np.float64): _DOUBLE,
    np.dtype(np.complex64): np.dtype(np.complex128),
    np.dtype(np.complex128): np.dtype(np.complex128),
}
_SINGLE: Final = {wide: narrow for narrow, wide in _WIDE.items() if narrow != wide}
_LETTERS: Final = {_DOUBLE: "d", np.dtype(np.complex128): "z"}
# The least numbers of elements of a matrix for which OpenBLAS 0.3.31 uses threads, a little below
# those at which process time exceeded thread time: `eigh` from 26 rows on (LAPACK's SMLSIZ), the
# singular values from 48 on, the others from 48 to 128. A call costs 5 us more than NumPy's, which
# a batch of smaller matrices would pay for each.
_FEWEST: Final = {"eigh": 25 * 25}
_FEWEST_OTHERS: Final = 44 * 44
# The number of rows from which on two threads are worth the wait for them. With two busy cores,
# one thread is faster throughout: 0.7 of the time of two threads to solve systems of
# 2048 rows, 0.4 of 1024 rows and 0.2 of 512. With two idle cores, two threads factor 1024 rows no
# faster (Cholesky: 33 ms instead of 37). More threads save more.
_ROWS_FOR_TWO_THREADS: Final = 2048
_LEAST_ROWS_FOR_THREADS: Final = 512


@cache
def most_elements() -> int:
    """The number of elements of the matrices from which on NumPy's threads factor them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    rows = max(2 * _ROWS_FOR_TWO_THREADS // cores, _LEAST_ROWS_FOR_THREADS)
    return rows * rows if cores > 1 else 0


def applies(function: str, a: np.ndarray) -> bool:
    """Whether a function of this module factors such matrices itself; the log says why."""
    elements = a.shape[-1] * a.shape[-2]
    fewest = _FEWEST.get(function, _FEWEST_OTHERS)
    if a.dtype not in _WIDE or not a.size:
        return False
    if not fewest <= elements < most_elements():
        reason = f"it has {elements} elements, not {fewest} to {most_elements() - 1}"
    elif load_without_threads() is None:
        reason = "there is no OpenBLAS without threads"
    else:
        reason = ""
    if logger.isEnabledFor(logging.DEBUG):
        how = f"by NumPy, for {reason}" if reason else "in one thread"
        logger.debug("%s of %s%s: %s", function, a.dtype, list(a.shape), how)
    return not reason


# ------------------------------------------------------------------------------------------- calls


@dataclass(frozen=True)
class _Work:
    """Workspace of the size that the function asks for, followed by that size."""

    dtype: np.dtype


@dataclass(frozen=True)
class _Scratch:
    """Workspace of a fixed size."""

    size: int
    dtype: np.dtype


_Argument = bytes | int | np.ndarray | _Work | _Scratch


def _call(name: str, dtype: np.dtype, *arguments: _Argument) -> None:
    """Call a function of LAPACK for each matrix of a batch.

    Args:
      name: its name without the letter of the dtype.
      dtype: the dtype of the matrices.
      arguments: its arguments but the last, which is the status. Arrays have a leading dimension
        for the matrices.

    Raises:
      np.linalg.LinAlgError: it failed for one of the matrices.
    """
    function = getattr(load_without_threads(), f"scipy_{_LETTERS[dtype]}{name}_64_")
    function.restype = None
    given = list(arguments)
    asked = [_asking(x) for x in given]
    if any(isinstance(x, _Work) for x in given):
        _run(function, [part for parts in asked for part in parts], 1)
        given = [part for x, parts in zip(given, asked, strict=True) for part in _sized(x, parts)]
    count = max(len(x) for x in given if isinstance(x, np.ndarray))
    if _run(function, given, count).any():
        raise np.linalg.LinAlgError(f"{name} failed for a matrix")


def _asking(x: _Argument) -> list[_Argument]:
    """The arguments with which a function returns the size of a workspace, and nothing else."""
    return [np.zeros((1, 1), x.dtype), -1] if isinstance(x, _Work) else [x]


def _sized(x: _Argument, answer: Sequence[_Argument]) -> list[_Argument]:
    """A workspace of the size that the function answered; other arguments unchanged."""
    if not isinstance(x, _Work):
        return [x]
    assert isinstance(answer[0], np.ndarray)
    # A size in f32 may have been rounded down.
    size = math.ceil(float(answer[0][0, 0].real) * (1 + 2.0**-22))
    return [_Scratch(size, x.dtype), size]


def _run(function: Any, arguments: Sequence[_Argument], count: int) -> np.ndarray:
    """Call a function for each of some matrices; return their statuses."""
    status = np.zeros((count, 1), _INT)
    references: list[Any] = []
    moving: list[tuple[int, int, int]] = []
    kept: list[np.ndarray] = []
    for x in (*arguments, status):
        if isinstance(x, np.ndarray):
            moving.append((len(references), x.ctypes.data, x.strides[0]))
            references.append(None)
        elif isinstance(x, _Scratch):
            kept.append(np.empty(max(x.size, 1), x.dtype))
            references.append(ctypes.c_void_p(kept[-1].ctypes.data))
        elif isinstance(x, bytes):
            references.append(ctypes.c_char_p(x))
        elif isinstance(x, int):
            references.append(ctypes.byref(ctypes.c_int64(x)))
    for i in range(count):
        for place, start, step in moving:
            references[place] = ctypes.c_void_p(start + i * step)
        function(*references)
    return status


def _columns(a: np.ndarray) -> np.ndarray:
    """A copy of a batch in double precision, ``[count, n, m]``: each matrix in Fortran's order."""
    *batch, m, n = a.shape
    return a.reshape(math.prod(batch), m, n).swapaxes(1, 2).astype(_WIDE[a.dtype], order="C")


def _results(a: np.ndarray, *found: np.ndarray) -> tuple[np.ndarray, ...]:
    """Results for a batch ``a`` in its precision, with its leading dimensions."""
    batch = a.shape[:-2]
    found = tuple(x.reshape((*batch, *x.shape[1:])) for x in found)
    if a.dtype == _WIDE[a.dtype]:
        return found
    return tuple(x.astype(_SINGLE[x.dtype]) for x in found)


def _transposed(columns: np.ndarray) -> np.ndarray:
    return columns.swapaxes(1, 2)


# --------------------------------------------------------------------------------------- functions


def cholesky(a: np.ndarray) -> np.ndarray:
    """See `numpy.linalg.cholesky`."""
    if not applies("cholesky", a):
        return np.linalg.cholesky(a)
    n, x = a.shape[-1], _columns(a)
    _call("potrf", x.dtype, b"L", n, x, n)
    (lower,) = _results(a, np.tril(_transposed(x)))
    return lower


def eigh(a: np.ndarray, uplo: Literal["L", "U"]) -> tuple[np.ndarray, np.ndarray]:
    """See `numpy.linalg.eigh`: the eigenvalues, then the eigenvectors."""
    if not applies("eigh", a):
        values, vectors = np.linalg.eigh(a, uplo)
        return values, vectors
    values, x = _syevd(a, b"V", uplo)
    values, vectors = _results(a, values, _transposed(x))
    return values, vectors


def eigvalsh(a: np.ndarray, uplo: Literal["L", "U"]) -> np.ndarray:
    """See `numpy.linalg.eigvalsh`."""
    if not applies("eigh", a):
        return np.linalg.eigvalsh(a, uplo)
    return _results(a, _syevd(a, b"N", uplo)[0])[0]


def _syevd(a: np.ndarray, job: bytes, uplo: Literal["L", "U"]) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, and for the job ``V`` the columns of eigenvectors."""
    n, x = a.shape[-1], _columns(a)
    is_complex = x.dtype.kind == "c"
    values = np.empty((len(x), n))
    work = [_Work(x.dtype), *([_Work(_DOUBLE)] if is_complex else []), _Work(_INT)]
    name = "heevd" if is_complex else "syevd"
    _call(name, x.dtype, job, uplo.encode(), n, x, n, values, *work)
    return values, x


def eig(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See `numpy.linalg.eig`, which makes the results real if all eigenvalues are."""
    if not applies("eig", a):
        values, vectors = np.linalg.eig(a)
        return values, vectors
    values, vectors = _results(a, *_geev(a, b"V"))
    return values, vectors


def eigvals(a: np.ndarray) -> np.ndarray:
    """See `numpy.linalg.eigvals`, which makes the result real if all eigenvalues are."""
    return _results(a, _geev(a, b"N")[0])[0] if applies("eig", a) else np.linalg.eigvals(a)


def _geev(a: np.ndarray, right: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, and right eigenvectors if ``right`` is ``"V"``."""
    _check_finite(a)
    n, x = a.shape[-1], _columns(a)
    count = len(x)
    left, vectors = (np.empty((count, k, k), x.dtype) for k in (1, n if right == b"V" else 1))
    head = (b"N", right, n, x, n)
    tail = (left, 1, vectors, vectors.shape[-1], _Work(x.dtype))
    if x.dtype.kind == "c":
        values = np.empty((count, n), x.dtype)
        _call("geev", x.dtype, *head, values, *tail, _Scratch(2 * n, _DOUBLE))
    else:
        real, imag = np.empty((2, count, n))
        _call("geev", x.dtype, *head, real, imag, *tail)
        values = real + 1j * imag
        if right == b"V":
            vectors = _complex_vectors(vectors, imag > 0)
    return values, _transposed(vectors)


def _complex_vectors(packed: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Eigenvectors of real matrices: LAPACK packs the parts of a conjugate pair as two vectors.

    Args:
      packed: ``[count, n, n]``, a vector in each row.
      first: ``[count, n]``, whether a row is the first of a pair.
    """
    is_first, is_second = first[..., None], np.roll(first, 1, -1)[..., None]
    real = np.where(is_second, np.roll(packed, 1, -2), packed)
    imag = np.where(is_first, np.roll(packed, -1, -2), np.where(is_second, -packed, 0))
    vectors: np.ndarray = real + 1j * imag
    return vectors


def svd(a: np.ndarray, full_matrices: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """See `numpy.linalg.svd`."""
    if not applies("svd", a):
        u, values, vh = np.linalg.svd(a, full_matrices=full_matrices)
        return u, values, vh
    m, n = a.shape[-2:]
    k = min(m, n)
    counts = (m, n) if full_matrices else (k, k)
    u, values, vh = _results(a, *_gesdd(a, b"A" if full_matrices else b"S", *counts))
    return u, values, vh


def svdvals(a: np.ndarray) -> np.ndarray:
    """See ``compute_uv=False`` of `numpy.linalg.svd`."""
    if not applies("svd", a):
        return np.linalg.svd(a, compute_uv=False)
    return _results(a, _gesdd(a, b"N", 1, 1)[1])[0]


def _gesdd(
    a: np.ndarray, job: bytes, left: int, right: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``left`` left vectors, singular values, ``right`` right vectors; no vectors for job ``N``."""
    _check_finite(a)
    m, n = a.shape[-2:]
    k, x, has_vectors = min(m, n), _columns(a), job != b"N"
    rows = m if has_vectors else 1
    values = np.empty((len(x), k))
    u = np.empty((len(x), left, rows), x.dtype)
    vh = np.empty((len(x), n if has_vectors else 1, right), x.dtype)
    work: list[_Argument] = [_Work(x.dtype), _Scratch(8 * k, _INT)]
    if x.dtype.kind == "c":
        size = max(5 * k * k + 5 * k, 2 * max(m, n) * k + 2 * k * k + k) if has_vectors else 7 * k
        work.insert(1, _Scratch(size, _DOUBLE))
    _call("gesdd", x.dtype, job, m, n, x, m, values, u, rows, vh, right, *work)
    return _transposed(u), values, _transposed(vh)


def geqrf(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The transpose of the first result of ``mode="raw"`` of `numpy.linalg.qr`, and the second."""
    if not applies("qr", a):
        # NumPy returns LAPACK's column-major array without transposing it.
        packed, taus = np.linalg.qr(a, mode="raw")
        return packed.swapaxes(-1, -2), taus
    x, taus = _geqrf(a)
    packed, taus = _results(a, _transposed(x), taus)
    return packed, taus


def _geqrf(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    m, n = a.shape[-2:]
    x = _columns(a)
    taus = np.empty((len(x), min(m, n)), x.dtype)
    _call("geqrf", x.dtype, m, n, x, m, taus, _Work(x.dtype))
    return x, taus


def qr(a: np.ndarray, full_matrices: bool) -> tuple[np.ndarray, np.ndarray]:
    """See the modes ``"complete"`` and ``"reduced"`` of `numpy.linalg.qr`."""
    if not applies("qr", a):
        q, r = np.linalg.qr(a, mode="complete" if full_matrices else "reduced")
        return q, r
    m, n = a.shape[-2:]
    x, taus = _geqrf(a)
    k = min(m, n)
    count = m if full_matrices else k
    columns = np.zeros((len(x), count, m), x.dtype)
    columns[:, :k] = x[:, :k]
    name = "ungqr" if x.dtype.kind == "c" else "orgqr"
    _call(name, x.dtype, m, count, k, columns, m, taus, _Work(x.dtype))
    q, r = _results(a, _transposed(columns), np.triu(_transposed(x)[:, :count]))
    return q, r


def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """See `numpy.linalg.solve`; both operands have the same dtype and leading dimensions."""
    n, k = b.shape[-2:]
    if not applies("solve", a if n >= k else b):
        return np.linalg.solve(a, b)
    x, columns = _columns(a), _columns(b)
    _call("gesv", x.dtype, n, k, x, n, np.empty((len(x), n), _INT), columns, n)
    return _results(a, _transposed(columns))[0]


def slogdet(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See `numpy.linalg.slogdet`."""
    if not applies("det", a):
        sign, log = np.linalg.slogdet(a)
        return sign, log
    sign, log = _results(a, *_slogdet(a))
    return sign, log


def det(a: np.ndarray) -> np.ndarray:
    """See `numpy.linalg.det`."""
    if not applies("det", a):
        return np.linalg.det(a)
    sign, log = _slogdet(a)
    # NumPy too computes it so.
    return _results(a, sign * np.exp(log))[0]


def _slogdet(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Signs and logarithms for the matrices of a batch, in double precision."""
    n, x = a.shape[-1], _columns(a)
    pivots = np.empty((len(x), n), _INT)
    with contextlib.suppress(np.linalg.LinAlgError):
        # A zero pivot is a result, not a failure.
        _call("getrf", x.dtype, n, n, x, n, pivots)
    diagonal = np.diagonal(x, axis1=1, axis2=2)
    singular = (diagonal == 0).any(-1)
    diagonal = np.where(singular[:, None], 1, diagonal)
    sizes = np.abs(diagonal)
    swaps = (pivots != np.arange(1, n + 1)).sum(-1) % 2
    signs = np.prod(diagonal / sizes, -1) * np.where(swaps, -1, 1)
    return np.where(singular, 0, signs), np.where(singular, -np.inf, np.log(sizes).sum(-1))


def _check_finite(a: np.ndarray) -> None:
    # LAPACK's iterations may not end on infinities.
    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError("a matrix is not finite")
