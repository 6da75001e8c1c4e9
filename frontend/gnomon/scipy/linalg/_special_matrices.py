"""Special matrices: Toeplitz, Hankel, Hilbert and so on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon._arrays.dtypes import default_float_dtype
from gnomon._tracing.bind import with_weak_type
from gnomon.numpy._arguments import as_array, promoted
from gnomon.numpy._indexing import getitem


def block_diag(*arrs: ArrayLike) -> Array:
    """A matrix with the given arrays on its diagonal and zeros elsewhere.

    Args:
      arrs: arrays of at most two dimensions; scalars and vectors are rows.
    Raises:
      ValueError: an array has more dimensions.

    Example:
      >>> import gnomon.numpy as gnp
      >>> block_diag(gnp.ones((1, 2)), gnp.array([[3.0]]))
      Array([[1., 1., 0.],
             [0., 0., 3.]], dtype=float32)
    """
    arrays = promoted("scipy.linalg.block_diag", *(arrs or (gnp.zeros((1, 0)),)))
    for i, x in enumerate(arrays):
        if x.ndim > 2:
            raise ValueError(
                "Arguments to scipy.linalg.block_diag must have at most 2 dimensions, got shape "
                f"{x.shape} at argument {i}."
            )
    blocks = [gnp.atleast_2d(x) for x in arrays]
    width, left, rows = sum(x.shape[1] for x in blocks), 0, []
    for x in blocks:
        rows.append(gnp.pad(x, ((0, 0), (left, width - left - x.shape[1]))))
        left += x.shape[1]
    return with_weak_type(gnp.concatenate(rows, axis=0), False)


def _vector(function: str, x: Any) -> Array:
    return gnp.atleast_1d(as_array(f"scipy.linalg.{function}", x))


def _pair(function: str, c: Any, r: Any) -> tuple[Array, Array]:
    """Two (batches of) vectors of one dtype with the same leading dimensions."""
    first, second = (gnp.atleast_1d(x) for x in promoted(f"scipy.linalg.{function}", c, r))
    batch = tuple(lax.broadcast_shapes(first.shape[:-1], second.shape[:-1]))
    return (
        gnp.broadcast_to(first, (*batch, first.shape[-1])),
        gnp.broadcast_to(second, (*batch, second.shape[-1])),
    )


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Matrices that are constant along their diagonals.

    Args:
      c: the first column ``[..., m]``.
      r: the first row ``[..., n]``, whose first element is not used; by default ``conj(c)``.
    Returns:
      ``[..., m, n]``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> toeplitz(gnp.array([1, 2, 3]), gnp.array([1, 4]))
      Array([[1, 4],
             [2, 1],
             [3, 2]], dtype=int32)
    """
    column = _vector("toeplitz", c)
    column, row = _pair("toeplitz", column, gnp.conj(column) if r is None else r)
    m, n = column.shape[-1], row.shape[-1]
    if not (m and n):
        return gnp.zeros((*column.shape[:-1], m, n), column.dtype)
    elements = gnp.concatenate([gnp.flip(column, -1), getitem(row, (..., slice(1, None)))], -1)
    found = getitem(elements, (..., m - 1 - np.arange(m)[:, None] + np.arange(n)))
    return with_weak_type(found, False)


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Matrices that are constant along their anti-diagonals.

    Args:
      c: the first column ``[..., m]``.
      r: the last row ``[..., n]``, whose first element is not used; by default zeros.
    Raises:
      ValueError: an argument is a scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> hankel(gnp.array([1, 2, 3]))
      Array([[1, 2, 3],
             [2, 3, 0],
             [3, 0, 0]], dtype=int32)
    """
    column = as_array("scipy.linalg.hankel", c)
    row = gnp.zeros_like(column) if r is None else as_array("scipy.linalg.hankel", r, 1)
    if not (column.ndim and row.ndim):
        raise ValueError("hankel: c and r must be at least 1-dimensional, got a scalar.")
    column, row = _pair("hankel", column, row)
    m, n = column.shape[-1], row.shape[-1]
    if not (m and n):
        return gnp.zeros((*column.shape[:-1], m, n), column.dtype)
    elements = gnp.concatenate([column, getitem(row, (..., slice(1, None)))], -1)
    return getitem(elements, (..., np.arange(m)[:, None] + np.arange(n)))


def circulant(c: ArrayLike) -> Array:
    """Circulant matrices: each column is the previous one, rotated down by one element.

    Args:
      c: the first column ``[..., n]``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> circulant(gnp.array([1, 2, 3]))
      Array([[1, 3, 2],
             [2, 1, 3],
             [3, 2, 1]], dtype=int32)
    """
    column = _vector("circulant", c)
    n = column.shape[-1]
    places = np.arange(n)
    return getitem(column, (..., (places[:, None] - places) % max(n, 1)))


def companion(a: ArrayLike) -> Array:
    """The companion matrix of a polynomial.

    Args:
      a: the coefficients ``[..., n]``, the highest first.
    Returns:
      ``[..., n - 1, n - 1]``.
    Raises:
      ValueError: there are fewer than two coefficients.

    Example:
      >>> import gnomon.numpy as gnp
      >>> companion(gnp.array([1.0, -3.0, 2.0]))
      Array([[ 3., -2.],
             [ 1.,  0.]], dtype=float32)
    """
    (x,) = promoted("scipy.linalg.companion", a, inexact=True)
    x = gnp.atleast_1d(x)
    n = x.shape[-1]
    if n < 2:
        raise ValueError(
            f"The length of `a` along the last axis must be at least 2; got shape {x.shape}."
        )
    row = -getitem(x, (..., slice(1, None))) / getitem(x, (..., slice(0, 1)))
    below = gnp.broadcast_to(gnp.eye(n - 2, n - 1, dtype=row.dtype), (*x.shape[:-1], n - 2, n - 1))
    return gnp.concatenate([gnp.expand_dims(row, -2), below], axis=-2)


def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """The matrix of Leslie's model of a population.

    Args:
      f: fecundities ``[..., n]``, the first row.
      s: survival rates ``[..., n - 1]``, below the diagonal.
    Raises:
      ValueError: the lengths do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> leslie(gnp.array([0.0, 2.0]), gnp.array([0.5]))
      Array([[0. , 2. ],
             [0.5, 0. ]], dtype=float32)
    """
    row, rates = _pair("leslie", f, s)
    n = row.shape[-1]
    if n < 2 or rates.shape[-1] != n - 1:
        raise ValueError(
            "The length of f along the last axis must be at least 2, and that of s one less; got "
            f"f shape {row.shape} and s shape {rates.shape}."
        )
    identity = gnp.broadcast_to(gnp.eye(n - 1, n, dtype=rates.dtype), (*rates.shape, n))
    diagonal = gnp.expand_dims(rates, -1) * identity
    return gnp.concatenate([gnp.expand_dims(row, -2), diagonal], axis=-2)


def fiedler(a: ArrayLike) -> Array:
    """The matrix of distances ``|a[i] - a[j]|`` of all pairs of elements.

    Args:
      a: a vector.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import linalg
      >>> linalg.fiedler(gnp.array([1, 4]))
      Array([[0, 3],
             [3, 0]], dtype=int32)
    """
    x = _vector("fiedler", a)
    return gnp.abs(gnp.expand_dims(x, -1) - gnp.expand_dims(x, -2))


def hilbert(n: int) -> Array:
    """The Hilbert matrix with the elements ``1 / (i + j + 1)``, which is nearly singular.

    Args:
      n: the number of rows and columns.

    Example:
      >>> from gnomon.scipy import linalg
      >>> linalg.hilbert(2)
      Array([[1.        , 0.5       ],
             [0.5       , 0.33333334]], dtype=float32)

    See also:
      `invhilbert`
    """
    places = gnp.arange(n, dtype=float)
    return 1 / (gnp.expand_dims(places, 1) + gnp.expand_dims(places, 0) + 1)


def pascal(n: int, kind: str | None = None) -> Array:
    """Pascal's triangle as a matrix of float32.

    Args:
      n: the size.
      kind: ``"symmetric"`` (the default), ``"lower"`` or ``"upper"``.
    Raises:
      ValueError: ``kind`` is unknown.

    Example:
      >>> pascal(3)
      Array([[1., 1., 1.],
             [1., 2., 3.],
             [1., 3., 6.]], dtype=float32)
    """
    if kind not in (None, "symmetric", "lower", "upper"):
        raise ValueError(f"Expected kind to be one of: ['symmetric', 'lower', 'upper']; got {kind}")
    if kind in ("lower", "upper"):
        rows = [[math.comb(i, j) for j in range(n)] for i in range(n)]
    else:
        rows = [[math.comb(i + j, i) for j in range(n)] for i in range(n)]
    result = gnp.asarray(np.array(rows, np.float32).reshape(n, n))
    return gnp.matrix_transpose(result) if kind == "upper" else result


def helmert(n: int, full: bool = False) -> Array:
    """The Helmert matrix: orthonormal contrasts.

    Args:
      n: the number of columns.
      full: include the constant row, which is the first.
    Raises:
      ValueError: ``n`` is not positive.

    Example:
      >>> helmert(2, full=True).round(3)
      Array([[ 0.707,  0.707],
             [ 0.707, -0.707]], dtype=float32)
    """
    if n < 1:
        raise ValueError(f"n must be a positive integer; got {n}.")
    i, j = np.arange(1, n)[:, None], np.arange(n)
    contrasts = np.where(j < i, 1.0, np.where(j == i, -1.0 * i, 0.0)) / np.sqrt(i * (i + 1.0))
    if full:
        contrasts = np.concatenate([np.full((1, n), n**-0.5), contrasts])
    return gnp.array(contrasts, float)


def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Sylvester's Hadamard matrix.

    Args:
      n: a power of two.
      dtype: the dtype of the result.
    Raises:
      ValueError: ``n`` is not a power of two.

    Example:
      >>> hadamard(2)
      Array([[ 1,  1],
             [ 1, -1]], dtype=int32)
    """
    if n < 1 or n & (n - 1):
        raise ValueError(f"n must be a positive power of 2; got {n}.")
    result = np.ones((1, 1), np.int64)
    while result.shape[0] < n:
        result = np.block([[result, result], [result, -result]])
    return gnp.array(result, dtype)


def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """The matrix of the discrete Fourier transform.

    Args:
      n: the size.
      scale: None, ``"sqrtn"`` (unitary), or ``"n"``.
      dtype: a complex dtype.
    Raises:
      ValueError: ``scale`` is unknown, or ``dtype`` is not complex.

    Example:
      >>> dft(2).real
      Array([[ 1.,  1.],
             [ 1., -1.]], dtype=float32)
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale must be None, 'sqrtn', or 'n'; got {scale!r}.")
    kind = gnp.zeros((), complex if dtype is None else dtype).dtype
    if kind.kind != "c":
        raise ValueError(f"dtype must be a complex floating-point type; got {kind}.")
    places = np.arange(n)
    # Angles are reduced as integers, so no digits are lost for any size.
    result = np.exp(-2j * np.pi * (np.outer(places, places) % max(n, 1)) / max(n, 1))
    factor = {None: 1.0, "sqrtn": max(n, 1) ** -0.5, "n": 1.0 / max(n, 1)}[scale]
    return gnp.array(result * factor, kind)


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix that convolves a vector of ``n`` numbers with ``a``.

    Args:
      a: ``[..., m]``.
      n: the number of columns.
      mode: which rows: ``"full"``, ``"same"`` or ``"valid"``, as in `numpy.convolve`.
    Returns:
      ``[..., rows, n]``.
    Raises:
      ValueError: ``n`` is not positive, ``a`` is empty, or the mode is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> convolution_matrix(gnp.array([1, 2]), 2)
      Array([[1, 0],
             [2, 1],
             [0, 2]], dtype=int32)
    """
    if n <= 0:
        raise ValueError(f"n must be a positive integer; got {n}.")
    x = as_array("scipy.linalg.convolution_matrix", a)
    if x.ndim == 0 or not x.shape[-1]:
        raise ValueError(
            f"convolution_matrix takes at least one number along the last axis, got {x.shape}."
        )
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode must be one of 'full', 'valid', 'same'; got {mode!r}.")
    size = x.shape[-1]
    trimmed = {"full": 0, "same": min(n, size) - 1, "valid": 2 * (min(n, size) - 1)}[mode]
    first = trimmed // 2
    places = np.arange(first, size + n - 1 - (trimmed - first))[:, None] - np.arange(n)
    inside = (places >= 0) & (places < size)
    taken = gnp.take(x, gnp.asarray(np.where(inside, places, 0).astype(np.int32)), axis=-1)
    return gnp.where(inside, taken, gnp.zeros((), x.dtype))


def fiedler_companion(a: ArrayLike) -> Array:
    """A pentadiagonal matrix whose eigenvalues are the roots of a polynomial.

    Args:
      a: coefficients ``[..., n + 1]``; the first one, of the highest power, is not zero.
    Returns:
      ``[..., n, n]``.
    Raises:
      ValueError: there is no coefficient.

    Example:
      >>> import gnomon.numpy as gnp
      >>> fiedler_companion(gnp.array([1.0, -3.0, 2.0]))
      Array([[ 3., -2.],
             [ 1.,  0.]], dtype=float32)
    """
    (x,) = promoted("scipy.linalg.fiedler_companion", a, inexact=True)
    x = gnp.atleast_1d(x)
    size = x.shape[-1] - 1
    if size < 0:
        raise ValueError(f"fiedler_companion takes at least one coefficient, got shape {x.shape}.")
    ones = np.zeros((size, size))
    places = np.zeros((size, size), np.int32)
    if size:
        places[0, 0] = 1
    if size > 1:
        ones[1, 0] = 1
        even, odd = np.arange(0, size, 2), np.arange(1, size, 2)
        for rows, columns, first in (
            (even[even + 1 < size], even[even + 1 < size] + 1, 2),
            (even[even >= 2], even[even >= 2] - 1, 1),
        ):
            places[rows, columns] = rows + first
        ones[even[even + 2 < size], even[even + 2 < size] + 2] = 1
        ones[odd[odd >= 3], odd[odd >= 3] - 2] = 1
    monic = x / x[..., :1]
    taken = gnp.take(monic, gnp.asarray(places), axis=-1)
    return gnp.where(places > 0, -taken, gnp.asarray(ones.astype(x.dtype)))


def _whole_numbers(rows: list[list[int]], n: int) -> Array:
    """Convert a matrix of Python integers, with a single rounding."""
    dtype = default_float_dtype()
    return gnp.asarray(np.array(rows, object).reshape(n, n).astype(np.float64).astype(dtype))


def invhilbert(n: int) -> Array:
    """The inverse of the Hilbert matrix; its elements are whole numbers.

    Args:
      n: the number of rows and columns.

    Example:
      >>> from gnomon.scipy import linalg
      >>> linalg.invhilbert(2)
      Array([[ 4., -6.],
             [-6., 12.]], dtype=float32)

    See also:
      `hilbert`
    """

    def element(i: int, j: int) -> int:
        product = math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1)
        return (-1) ** (i + j) * (i + j + 1) * product * math.comb(i + j, i) ** 2

    return _whole_numbers([[element(i, j) for j in range(n)] for i in range(n)], n)


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal`; its elements are whole numbers.

    Args:
      n: the size.
      kind: see `pascal`.

    Example:
      >>> invpascal(2)
      Array([[ 2., -1.],
             [-1.,  1.]], dtype=float32)
    """
    if kind not in (None, "symmetric", "lower", "upper"):
        raise ValueError(f"Expected kind to be one of: ['symmetric', 'lower', 'upper']; got {kind}")

    def lower(i: int, j: int) -> int:
        return (-1) ** (i - j) * math.comb(i, j) if i >= j else 0

    if kind == "lower":
        rows = [[lower(i, j) for j in range(n)] for i in range(n)]
    elif kind == "upper":
        rows = [[lower(j, i) for j in range(n)] for i in range(n)]
    else:
        rows = [
            [sum(lower(k, i) * lower(k, j) for k in range(n)) for j in range(n)] for i in range(n)
        ]
    return _whole_numbers(rows, n)
