"""Functions that use the Schur form: `funm`, `solve_sylvester`; `rsf2csf` and `qr_multiply`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.dtypes import to_complex_dtype
from gnomon._transformations.vmap import vmap
from gnomon.dialects.types import is_complex, real_dtype
from gnomon.lax import linalg as lax_linalg
from gnomon.lax._creation import converted
from gnomon.numpy._arguments import promoted
from gnomon.numpy.linalg._arguments import adjoint, inexact, product, square
from gnomon.scipy.linalg._decompositions import qr

__all__ = ["funm", "qr_multiply", "rsf2csf", "solve_sylvester"]


def _complex(x: Array) -> Array:
    return converted(x, np.dtype(to_complex_dtype(x.dtype)))


def _complex_schur(x: Array) -> tuple[Array, Array]:
    triangular, vectors = lax_linalg.schur(_complex(x))
    return triangular, vectors


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex Schur form of a matrix from the real one.

    Args:
      T: ``[..., n, n]``: triangular, except for 2 by 2 blocks.
      Z: ``[..., n, n]``: the Schur vectors. Leading dimensions are broadcast.
      check_finite: ignored.
    Returns:
      ``(t, z)``: triangular and unitary, with ``z @ t @ z^H = Z @ T @ Z^H``.
    Raises:
      ValueError: the shapes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import linalg
      >>> t, z = linalg.schur(gnp.array([[0.0, 2.0], [-2.0, 0.0]]))
      >>> linalg.rsf2csf(t, z)[0].shape
      (2, 2)

    See also:
      `schur`
    """
    t, z = promoted("scipy.linalg.rsf2csf", T, Z, inexact=True)
    for name, x in (("T", t), ("Z", z)):
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(f"Input '{name}' must be square, got shape {x.shape}.")
    if t.shape[-1] != z.shape[-1]:
        raise ValueError(f"Input array shapes must match: Z: {z.shape} vs. T: {t.shape}")
    batch = tuple(lax.broadcast_shapes(t.shape[:-2], z.shape[:-2]))
    shape = (*batch, *t.shape[-2:])
    triangular, vectors = _complex_schur(t)
    vectors = gnp.broadcast_to(vectors, shape)
    z = gnp.broadcast_to(_complex(z), shape)
    return gnp.broadcast_to(triangular, shape), product(z, vectors)


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """The QR factorization of a matrix, and the product of Q and another matrix.

    Args:
      a: ``[..., m, n]``; Q has ``k = min(m, n)`` columns.
      c: ``[..., p, m]`` or a row; with the mode ``"left"``, ``[..., k, p]`` or a column.
      mode: ``"right"`` for ``c @ Q``, or ``"left"`` for ``Q @ c``.
      pivoting: permute the columns of ``a``, and also return the permutation.
      conjugate: use the conjugate of Q.
      overwrite_a, overwrite_c: ignored.
    Returns:
      ``(product, r)`` or ``(product, r, permutation)``.
    Raises:
      ValueError: the mode is unknown, or the shapes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x, r = qr_multiply(gnp.array([[3.0, 1.0], [4.0, 2.0]]), gnp.array([5.0, 0.0]))
      >>> print(x.round(3))
      [-3. -4.]
    """
    matrix, other = promoted("scipy.linalg.qr_multiply", a, c, inexact=True)
    if mode not in ("right", "left"):
        raise ValueError(f"mode must be 'right' or 'left', got {mode!r}")
    if matrix.ndim < 2:
        raise ValueError(f"qr_multiply takes matrices, got shape {matrix.shape}")
    if not other.ndim:
        raise ValueError("qr_multiply takes a vector or a matrix to multiply, got a scalar")
    left, single = mode == "left", other.ndim == 1
    if single:
        other = other[:, None] if left else other[None, :]
    rows = matrix.shape[-2]
    wanted, given = (min(matrix.shape[-2:]), other.shape[-2]) if left else (rows, other.shape[-1])
    if wanted != given:
        raise ValueError(
            f"Array shapes are not compatible for {'Q @ c' if left else 'c @ Q'}: a has shape "
            f"{matrix.shape}, so c must have {wanted} {'rows' if left else 'columns'}, got {given}"
        )
    q, *rest = qr(matrix, mode="economic", pivoting=pivoting)
    q = gnp.conj(q) if conjugate else q
    found = product(q, other) if left else product(other, q)
    return (gnp.ravel(found) if single else found), *rest


# ------------------------------------------------------------------------------ matrix functions


def funm(A: ArrayLike, func: Callable[[Array], Array], disp: bool = True) -> Any:
    """A function of a matrix, computed from its values at the eigenvalues.

    It uses Parlett's recurrence in the Schur form, so eigenvalues must not be too close together.

    Args:
      A: ``[n, n]``.
      func: an elementwise function of an array of complex numbers.
      disp: return only the result, without an estimate of its relative error.
    Returns:
      A complex ``[n, n]``, or with ``disp=False`` the pair of this matrix and the estimate.
    Raises:
      ValueError: the matrix is not square.

    Example:
      >>> import gnomon.numpy as gnp
      >>> print(funm(gnp.array([[1.0, 2.0], [0.0, 3.0]]), lambda x: x * x).real.round(3))
      [[1. 8.]
       [0. 9.]]
    """
    a = inexact("funm", A)
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(f"expected square array_like input, got shape {a.shape}")
    triangular, vectors = _complex_schur(a)
    eigenvalues = gnp.diagonal(triangular)
    found = gnp.diag(_complex(gnp.asarray(func(eigenvalues))))
    size = a.shape[0]
    gaps = eigenvalues[None, :] - eigenvalues[:, None]
    same = gnp.equal(gaps, 0)
    for p in range(1, size):
        # The diagonals below p are known; solve the equation F T = T F on diagonal p.
        change = gnp.matmul(triangular, found) - gnp.matmul(found, triangular)
        quotient = gnp.where(same, change, change / gnp.where(same, 1, gaps))
        found = gnp.where(np.eye(size, k=p, dtype=bool), quotient, found)
    result = gnp.matmul(gnp.matmul(vectors, found), adjoint(vectors))
    if disp:
        return result
    accuracy = float(np.finfo(real_dtype(result.dtype)).eps)
    above = np.triu(np.ones((size, size), bool), 1)
    smallest = gnp.min(gnp.where(above, gnp.abs(gaps), np.inf), initial=np.inf)
    smallest = gnp.where(gnp.equal(smallest, 0), accuracy, smallest)
    size_above = gnp.max(gnp.sum(gnp.where(above, gnp.abs(triangular), 0), 0), initial=0)
    error = gnp.clip(accuracy / smallest * size_above, accuracy, 1)
    return result, gnp.where(gnp.any(gnp.isinf(result)), np.inf, error)


# ----------------------------------------------------------------------------- Sylvester equations


def solve_sylvester(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8
) -> Array:
    """The solution of ``A X + X B = C``.

    Args:
      A: ``[..., m, m]``.
      B: ``[..., n, n]``.
      C: ``[..., m, n]``.
      method: ``"schur"``; or ``"eigen"``, for matrices with well-conditioned eigenvectors.
      tol: if the sum of an eigenvalue of ``A`` and one of ``B`` is smaller, the result is nan.
    Returns:
      ``[..., m, n]``, differentiable in all three matrices.
    Raises:
      ValueError: the shapes do not fit, or the method is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> one = gnp.eye(2)
      >>> print(solve_sylvester(one, 3.0 * one, gnp.array([[4.0, 8.0], [0.0, 4.0]])).round(3))
      [[1. 2.]
       [0. 1.]]
    """
    a, b, c = promoted("scipy.linalg.solve_sylvester", A, B, C, inexact=True)
    if method not in _SYLVESTER:
        raise ValueError(
            f'Unrecognized method {method}. The two valid methods are either "schur" or "eigen".'
        )
    if c.ndim < 2 or a.shape[-2:] != (c.shape[-2],) * 2 or b.shape[-2:] != (c.shape[-1],) * 2:
        raise ValueError(
            f"Incompatible shapes for Sylvester equation:\nA: {a.shape}\nB: {b.shape}\nC: {c.shape}"
        )
    batch = gnp.broadcast_shapes(a.shape[:-2], b.shape[:-2], c.shape[:-2])
    solver = _SYLVESTER[method]

    def single(a: Array, b: Array, c: Array) -> Array:
        def solve(a: Array, b: Array) -> Callable[[Any, Array], Array]:
            def run(_: Any, c: Array) -> Array:
                found = solver(lax.stop_gradient(a), lax.stop_gradient(b), c, tol)
                return found if is_complex(c.dtype) else gnp.real(found)

            return run

        found: Array = lax.custom_linear_solve(
            lambda x: gnp.matmul(a, x) + gnp.matmul(x, b),
            c,
            solve(a, b),
            transpose_solve=solve(a.T, b.T),
        )
        return found

    if not batch:
        return single(square("solve_sylvester", a), square("solve_sylvester", b), c)
    flat = [
        gnp.reshape(gnp.broadcast_to(x, (*batch, *x.shape[-2:])), (-1, *x.shape[-2:]))
        for x in (a, b, c)
    ]
    return gnp.reshape(vmap(single)(*flat), (*batch, *c.shape[-2:]))


def _without_singular(sums: Array, found: Array, tol: float) -> Array:
    return gnp.where(gnp.any(gnp.abs(sums) < tol), np.nan, found)


def _by_schur(a: Array, b: Array, c: Array, tol: float) -> Array:
    # R. H. Bartels, G. W. Stewart (1972), column after column.
    r, u = _complex_schur(a)
    s, v = _complex_schur(b)
    right = gnp.matmul(gnp.matmul(adjoint(u), _complex(c)), v)
    identity = gnp.eye(r.shape[0], dtype=r.dtype)

    def column(y: Array, j: Array) -> tuple[Array, None]:
        known = gnp.matmul(y, lax.dynamic_index_in_dim(s, j, 1, keepdims=False))
        rest = lax.dynamic_index_in_dim(right, j, 1, keepdims=False) - known
        shift = lax.dynamic_index_in_dim(gnp.diagonal(s), j, keepdims=False)
        solved = lax_linalg.triangular_solve(r + shift * identity, rest[:, None], left_side=True)
        return lax.dynamic_update_index_in_dim(y, solved[:, 0], j, 1), None

    y, _ = lax.scan(column, gnp.zeros_like(right), gnp.arange(c.shape[1]))
    sums = gnp.diagonal(r)[:, None] + gnp.diagonal(s)[None, :]
    return _without_singular(sums, gnp.matmul(gnp.matmul(u, y), adjoint(v)), tol)


def _by_eigenvectors(a: Array, b: Array, c: Array, tol: float) -> Array:
    of_a, p = gnp.linalg.eig(a)
    of_b, q = gnp.linalg.eig(b)
    sums = of_a[:, None] + of_b[None, :]
    inner = gnp.linalg.solve(p, gnp.matmul(_complex(c), q)) / sums
    found = gnp.matmul(p, gnp.linalg.solve(q.T, inner.T).T)
    return _without_singular(sums, found, tol)


_SYLVESTER = {"schur": _by_schur, "eigen": _by_eigenvectors}
