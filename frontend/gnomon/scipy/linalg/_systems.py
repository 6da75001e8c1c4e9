"""Factorizations and linear systems, by SciPy's names and conventions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.dialects.types import is_complex
from gnomon.lax import linalg as lax_linalg
from gnomon.numpy._arguments import promoted
from gnomon.numpy._dispatch import broadcast_to_shape
from gnomon.numpy._indexing import getitem
from gnomon.numpy.linalg._arguments import adjoint, inexact, product, square


def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """The Cholesky factor: ``U^H @ U = a``, or ``L @ L^H = a`` with ``lower``.

    Args:
      a: positive definite, ``[..., n, n]``; only the triangle that is asked for is read.
      overwrite_a, check_finite: ignored.
    Returns:
      ``[..., n, n]``; nan where ``a`` is not positive definite.

    Example:
      >>> import gnomon.numpy as gnp
      >>> cholesky(gnp.array([[4.0, 2.0], [2.0, 5.0]]))
      Array([[2., 1.],
             [0., 2.]], dtype=float32)
    """
    x = square("cholesky", a)
    factor = lax_linalg.cholesky(x if lower else adjoint(x), symmetrize_input=False)
    return factor if lower else adjoint(factor)


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """The Cholesky factor and ``lower``, for `cho_solve`; arguments as for `cholesky`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> cho_factor(gnp.array([[4.0]]))
      (Array([[2.]], dtype=float32), False)
    """
    return cholesky(a, lower=lower), lower


def _for_systems(
    function: str, a: Array, b: Array, solve: Callable[[Array, Array], Array]
) -> Array:
    """Solve for vectors ``[n]`` or matrices ``[..., n, k]``, leading dimensions broadcast."""
    vector = b.ndim == 1
    if a.ndim == b.ndim + 1 and b.ndim > 1 and a.shape[-1] == b.shape[-1]:
        warnings.warn(
            f"gnomon.scipy.linalg.{function}: batched 1D solves with b.ndim > 1 are deprecated, "
            f"and in the future will be treated as a batched 2D solve. Use {function}(..., "
            "b[..., None])[..., 0].",
            FutureWarning,
            stacklevel=3,
        )
        vector = True
    rhs = gnp.expand_dims(b, -1) if vector else b
    if rhs.ndim < 2 or a.ndim < 2 or a.shape[-1] != a.shape[-2] or rhs.shape[-2] != a.shape[-1]:
        raise ValueError(
            f"scipy.linalg.{function} takes a matrix [..., n, n] and right-hand sides [n] or "
            f"[..., n, k]; got {a.shape} and {b.shape}"
        )
    batch = tuple(lax.broadcast_shapes(a.shape[:-2], rhs.shape[:-2]))
    matrix = broadcast_to_shape(a, (*batch, *a.shape[-2:]))
    x = solve(matrix, broadcast_to_shape(rhs, (*batch, *rhs.shape[-2:])))
    return lax.squeeze(x, (x.ndim - 1,)) if vector else x


def cho_solve(
    c_and_lower: tuple[Any, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve ``a @ x = b`` from the result of `cho_factor`.

    Args:
      c_and_lower: the factor, and which triangle it is.
      b: ``[n]`` or ``[..., n, k]``.
      overwrite_b, check_finite: ignored.

    Example:
      >>> import gnomon.numpy as gnp
      >>> cho_solve(cho_factor(gnp.array([[4.0]])), gnp.array([8.0]))
      Array([2.], dtype=float32)
    """
    factor, lower = c_and_lower
    c, rhs = promoted("scipy.linalg.cho_solve", factor, b, inexact=True)

    def solve(c: Array, x: Array) -> Array:
        for adjoined in (not lower, lower):
            x = lax_linalg.triangular_solve(
                c, x, left_side=True, lower=lower, transpose_a=adjoined, conjugate_a=adjoined
            )
        return x

    return _for_systems("cho_solve", c, rhs, solve)


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """Solve ``op(a) @ x = b`` for a triangular matrix.

    Args:
      a: ``[..., n, n]``; one triangle is read.
      b: ``[n]`` or ``[..., n, k]``.
      trans: 0 or ``"N"``: a; 1 or ``"T"``: its transpose; 2 or ``"C"``: its adjoint.
      lower: which triangle.
      unit_diagonal: take the diagonal for ones.
      overwrite_b, debug, check_finite: ignored.
    Raises:
      ValueError: ``trans`` is something else, or the shapes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> solve_triangular(gnp.array([[2.0, 0.0], [1.0, 4.0]]), gnp.array([2.0, 9.0]), lower=True)
      Array([1., 2.], dtype=float32)
    """
    kinds = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in kinds:
        raise ValueError(f"Invalid 'trans' value {trans}")
    matrix, rhs = promoted("scipy.linalg.solve_triangular", a, b, inexact=True)

    def solve(a: Array, b: Array) -> Array:
        return lax_linalg.triangular_solve(
            a,
            b,
            left_side=True,
            lower=lower,
            transpose_a=kinds[trans] > 0,
            conjugate_a=kinds[trans] == 2,
            unit_diagonal=unit_diagonal,
        )

    return _for_systems("solve_triangular", matrix, rhs, solve)


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """Solve ``a @ x = b``.

    Args:
      a: ``[..., n, n]``.
      b: ``[n]`` or ``[..., n, k]``.
      lower: which triangle is read, where ``assume_a`` is ``"pos"``.
      assume_a: ``"gen"``; ``"pos"``: positive definite, solved by the Cholesky factor; ``"sym"``
        and ``"her"`` are solved as general ones.
      overwrite_a, overwrite_b, debug, check_finite: ignored.
    Raises:
      ValueError: ``assume_a`` is something else, or the shapes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> solve(gnp.array([[4.0, 0.0], [0.0, 16.0]]), gnp.array([4.0, 32.0]), assume_a="pos")
      Array([1., 2.], dtype=float32)
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(
            f"Expected assume_a to be one of ['gen', 'sym', 'her', 'pos']; got {assume_a!r}"
        )
    if assume_a != "pos":
        return gnp.linalg.solve(a, b)
    matrix, rhs = promoted("scipy.linalg.solve", a, b, inexact=True)
    factor = cho_factor(lax.stop_gradient(matrix), lower=lower)

    # The derivative is by the equation: another system with the same factor.
    def by_factor(matvec: Any, y: Array) -> Array:
        return cho_solve(factor, y)

    def by_conjugate(matvec: Any, y: Array) -> Array:
        return gnp.conj(cho_solve(factor, gnp.conj(y)))

    def solve_one(a: Array, y: Array) -> Array:
        return lax.custom_linear_solve(lambda x: product(a, x), y, by_factor, by_conjugate)

    return _for_systems("solve", matrix, rhs, solve_one)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverse; see `gnomon.numpy.linalg.inv`."""
    return gnp.linalg.inv(a)


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinant; see `gnomon.numpy.linalg.det`."""
    return gnp.linalg.det(a)


def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """The factors of Gaussian elimination and the pivots, for `lu_solve`.

    Args:
      a: ``[..., m, n]``.
      overwrite_a, check_finite: ignored.
    Returns:
      ``(lu, pivots)``; see `gnomon.lax.linalg.lu`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> lu_factor(gnp.array([[1.0, 2.0], [4.0, 6.0]]))[1]
      Array([1, 1], dtype=int32)
    """
    factors, pivots, _ = lax_linalg.lu(inexact("lu_factor", a))
    return factors, pivots


def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a system from the result of `lu_factor`.

    Args:
      lu_and_piv: the factors and the pivots.
      b: ``[n]`` or ``[..., n, k]``.
      trans: 0: ``a @ x = b``; 1: with the transpose; 2: with the adjoint.
      overwrite_b, check_finite: ignored.
    Raises:
      ValueError: ``trans`` is something else, or the shapes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> lu_solve(lu_factor(gnp.array([[0.0, 2.0], [1.0, 0.0]])), gnp.array([4.0, 3.0]))
      Array([3., 2.], dtype=float32)
    """
    if trans not in (0, 1, 2):
        raise ValueError(f"'trans' value must be 0, 1, or 2, got {trans}")
    factors, rhs = promoted("scipy.linalg.lu_solve", lu_and_piv[0], b, inexact=True)
    permutation = lax_linalg.lu_pivots_to_permutation(lu_and_piv[1], factors.shape[-2])

    def solve(lu: Array, x: Array) -> Array:
        order = broadcast_to_shape(gnp.expand_dims(permutation, -1), (*x.shape[:-1], 1))

        def eliminate(x: Array, lower: bool) -> Array:
            return lax_linalg.triangular_solve(
                lu,
                x,
                left_side=True,
                lower=lower,
                unit_diagonal=lower,
                transpose_a=trans > 0,
                conjugate_a=trans == 2,
            )

        if trans == 0:
            return eliminate(eliminate(gnp.take_along_axis(x, order, axis=-2), True), False)
        half = eliminate(eliminate(x, False), True)
        places = lax.broadcasted_iota(np.dtype(np.int32), order.shape, order.ndim - 2)
        _, inverse = lax.sort((order, places), dimension=order.ndim - 2, num_keys=1)
        return gnp.take_along_axis(half, inverse, axis=-2)

    return _for_systems("lu_solve", factors, rhs, solve)


def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, ...]:
    """``P @ L @ U = a``.

    Args:
      a: ``[..., m, n]``.
      permute_l: return ``P @ L`` for L.
      overwrite_a, check_finite: ignored.
    Returns:
      ``(p, l, u)``, or ``(p @ l, u)``: ``[..., m, m]``, ``[..., m, k]``, ``[..., k, n]`` with
      ``k = min(m, n)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> lu(gnp.array([[1.0, 2.0], [4.0, 6.0]]), permute_l=True)[0]
      Array([[0.25, 1.  ],
             [1.  , 0.  ]], dtype=float32)
    """
    x = inexact("lu", a)
    factors, _, permutation = lax_linalg.lu(x)
    m, n = x.shape[-2:]
    k = min(m, n)
    rows = gnp.arange(m, dtype=permutation.dtype)[:, None]
    p = lax.eq(
        *(
            broadcast_to_shape(v, (*x.shape[:-2], m, m))
            for v in (gnp.expand_dims(permutation, -2), rows)
        )
    )
    lower = gnp.tril(getitem(factors, (..., slice(None), slice(0, k))), -1)
    lower = lower + gnp.eye(m, k, dtype=x.dtype)
    upper = gnp.triu(getitem(factors, (..., slice(0, k), slice(None))))
    if permute_l:
        return product(p.astype(x.dtype), lower), upper
    return lax.real(p.astype(x.dtype)) if is_complex(x.dtype) else p.astype(x.dtype), lower, upper


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """The QR factorization.

    Args:
      a: ``[..., m, n]``.
      mode: ``"full"``: a square Q; ``"economic"``: only ``min(m, n)`` columns; ``"r"``: R alone.
      pivoting: permute the columns so that the diagonal of R descends.
      overwrite_a, lwork, check_finite: ignored.
    Returns:
      ``(q, r)`` or ``(r,)``, with pivoting and the permutation.
    Raises:
      ValueError: the mode is another.

    Example:
      >>> import gnomon.numpy as gnp
      >>> qr(gnp.array([[3.0, 1.0], [4.0, 2.0]]), mode="r")
      (Array([[-5. , -2.2],
             [ 0. ,  0.4]], dtype=float32),)
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    q, *others = lax_linalg.qr(
        inexact("qr", a), pivoting=pivoting, full_matrices=mode != "economic"
    )
    return tuple(others) if mode == "r" else (q, *others)


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """The singular value decomposition ``(u, s, vh)``, or ``s``; see `gnomon.lax.linalg.svd`."""
    return lax_linalg.svd(inexact("svd", a), full_matrices=full_matrices, compute_uv=compute_uv)


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Ascending eigenvalues, and eigenvectors as columns, of ``(a + a^H) / 2``.

    Args:
      a: ``[..., n, n]``.
      eigvals_only: return the eigenvalues alone.
      lower, overwrite_a, overwrite_b, turbo, check_finite: ignored.
    Raises:
      NotImplementedError: ``b`` or ``eigvals`` is given, or ``type`` is not 1.

    Example:
      >>> import gnomon.numpy as gnp
      >>> eigh(gnp.array([[2.0, 1.0], [1.0, 2.0]]), eigvals_only=True)
      Array([1., 3.], dtype=float32)
    """
    if b is not None:
        raise NotImplementedError("Only the b=None case of eigh is implemented")
    if type != 1:
        raise NotImplementedError("Only the type=1 case of eigh is implemented.")
    if eigvals is not None:
        raise NotImplementedError("Only the eigvals=None case of eigh is implemented.")
    vectors, values = lax_linalg.eigh(inexact("eigh", a), lower=lower)
    return values if eigvals_only else (values, vectors)


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Array | None = None,
) -> Any:
    """Eigenvalues and eigenvectors of a symmetric or Hermitian matrix of three diagonals.

    Args:
      d: the (real) diagonal ``[n]``.
      e: the one above it, ``[n - 1]``.
      eigvals_only: return the eigenvalues alone.
      select: ``"a"``: all; ``"i"``: those with indices in ``select_range``, both ends included.
      select_range: see ``select``.
      tol, key: ignored.
    Raises:
      NotImplementedError: ``select`` is ``"v"``.
      ValueError: it is something else, or the range is missing or empty.

    Example:
      >>> import gnomon.numpy as gnp
      >>> eigh_tridiagonal(gnp.array([2.0, 2.0]), gnp.array([1.0]), eigvals_only=True)
      Array([1., 3.], dtype=float32)
    """
    if select == "v":
        raise NotImplementedError("eigh_tridiagonal(..., select='v') is not implemented")
    if select not in ("a", "i"):
        raise ValueError("'select must have a value in {'a', 'i', 'v'}.")
    diagonal, beside = promoted("scipy.linalg.eigh_tridiagonal", d, e, inexact=True)
    chosen = slice(None)
    if select == "i":
        if select_range is None:
            raise ValueError("for select='i', select_range must be specified.")
        if select_range[0] > select_range[1]:
            raise ValueError("Got empty index range in select_range.")
        chosen = slice(int(select_range[0]), int(select_range[1]) + 1)
    above = gnp.diag(beside, 1)
    matrix = gnp.diag(diagonal) + above + adjoint(above)
    values, vectors = gnp.linalg.eigh(matrix)
    values = getitem(values, chosen)
    return values if eigvals_only else (values, getitem(vectors, (slice(None), chosen)))


def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """The Schur form ``(t, z)``: ``z @ t @ z^H = a``.

    Args:
      a: ``[..., n, n]``.
      output: ``"real"``: a real matrix has a real form, with blocks of two rows; ``"complex"``:
        a triangular one.
    Raises:
      ValueError: ``output`` is something else.

    Example:
      >>> import gnomon.numpy as gnp
      >>> schur(gnp.array([[2.0, 3.0], [0.0, 1.0]]))[0]
      Array([[2., 3.],
             [0., 1.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ValueError(
            f"Expected 'output' to be either 'real' or 'complex', got output={output!r}."
        )
    x = inexact("schur", a)
    if output == "complex":
        x = x.astype(np.result_type(x.dtype, np.complex64))
    form, vectors = lax_linalg.schur(x)
    return form, vectors


def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The Hessenberg form: ``q @ h @ q^H = a`` with zeros below the first subdiagonal of h.

    Args:
      a: ``[..., n, n]``.
      calc_q: return ``(h, q)``.
      overwrite_a, check_finite: ignored.

    Example:
      >>> import gnomon.numpy as gnp
      >>> hessenberg(gnp.array([[1.0, 2.0], [3.0, 4.0]]))
      Array([[1., 2.],
             [3., 4.]], dtype=float32)
    """
    x = inexact("hessenberg", a)
    packed, taus = lax_linalg.hessenberg(x)
    h = gnp.triu(packed, -1)
    if not calc_q:
        return h
    n = x.shape[-1]
    if n < 2:
        return h, broadcast_to_shape(gnp.eye(n, dtype=x.dtype), x.shape)
    vectors = getitem(packed, (..., slice(1, None), slice(0, n - 1)))
    q = lax_linalg.householder_product(vectors, taus)
    widths = [(0, 0)] * (x.ndim - 2) + [(1, 0), (1, 0)]
    corner = gnp.zeros((n, n), x.dtype).at[0, 0].set(1)
    return h, gnp.pad(q, widths) + corner
