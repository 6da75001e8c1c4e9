"""Iterative solution of linear systems: `cg`, `bicgstab`, `gmres`.

The matrix is an array, or a function that returns its product with a vector; a vector may be a
pytree of arrays. The derivative of a solution is the solution of another system, so its error
depends on the errors of both solutions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

import gnomon.numpy as gnp
from gnomon import lax, tree_util
from gnomon._api.functions import eval_shape
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.dtypes import canonicalize_dtype
from gnomon._compilation.stages import ShapeDtypeStruct
from gnomon._trees.prefixes import difference_of_structures
from gnomon.dialects.types import is_complex
from gnomon.flatten_util import ravel_pytree
from gnomon.numpy._arguments import as_array, promoted
from gnomon.scipy.linalg import solve_triangular

__all__ = ["bicgstab", "cg", "gmres"]

Map = Callable[[Any], Any]


class SupportsMatmul(Protocol):
    """A linear operator that is applied by ``@``, such as an array."""

    def __matmul__(self, other: Any, /) -> Any:
        """The product with a vector."""


Operator = Map | SupportsMatmul

# A solver of ``map(x) = b`` for vectors, with an initial guess and a preconditioner.
Solver = Callable[[Map, Map, Array, Array], Array]

_dot = partial(gnp.dot, precision=lax.Precision.HIGHEST)


def cg(
    A: Operator,
    b: Any,
    x0: Any = None,
    *,
    tol: ArrayLike = 1e-5,
    atol: ArrayLike = 0.0,
    maxiter: int | None = None,
    M: Operator | None = None,
) -> tuple[Any, None]:
    """Solve ``A x = b`` by conjugate gradients.

    Args:
      A: a Hermitian, positive definite matrix: an array, a function ``x -> A x``, or an object with
        ``@``.
      b: an array or a pytree of arrays.
      x0: an initial guess with the structure of ``b``; zero by default.
      tol, atol: stop when ``norm(residual) <= max(tol * norm(b), atol)``.
      maxiter: the maximum number of iterations, by default ten for each element of ``b``.
      M: a preconditioner: an approximate inverse of ``A``, given like ``A``.
    Returns:
      ``(x, None)``.
    Raises:
      ValueError: ``A`` is not square, or ``x0`` does not have the structure and shapes of ``b``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x, _ = cg(gnp.array([[4.0, 1.0], [1.0, 3.0]]), gnp.array([1.0, 2.0]))
      >>> print(gnp.round(11 * x, 3))
      [1. 7.]
    """
    return _solved(_cg, A, b, x0, tol, atol, maxiter, M, hermitian=True), None


def bicgstab(
    A: Operator,
    b: Any,
    x0: Any = None,
    *,
    tol: ArrayLike = 1e-5,
    atol: ArrayLike = 0.0,
    maxiter: int | None = None,
    M: Operator | None = None,
) -> tuple[Any, None]:
    """Solve ``A x = b`` by stabilized biconjugate gradients; ``A`` is any invertible matrix.

    Arguments and results are those of `cg`.

    Args:
      A: an invertible matrix: an array, a function ``x -> A x``, or an object with ``@``.
      b: an array or a pytree of arrays.
      x0: an initial guess with the structure of ``b``; None means zero.
      tol, atol: stop when ``norm(residual) <= max(tol * norm(b), atol)``.
      maxiter: the maximum number of iterations; None means ten for each element of ``b``.
      M: a preconditioner: an approximate inverse of ``A``, in the form of ``A``.
    Returns:
      ``(x, None)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy.sparse import linalg
      >>> x, _ = linalg.bicgstab(gnp.array([[4.0, 1.0], [0.0, 2.0]]), gnp.array([6.0, 4.0]))
      >>> x.round(3)
      Array([1., 2.], dtype=float32)

    See also:
      `cg`, `gmres`
    """
    return _solved(_bicgstab, A, b, x0, tol, atol, maxiter, M), None


def gmres(
    A: Operator,
    b: Any,
    x0: Any = None,
    *,
    tol: ArrayLike = 1e-5,
    atol: ArrayLike = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Operator | None = None,
    solve_method: str = "batched",
) -> tuple[Any, Array]:
    """Solve ``A x = b`` by generalized minimal residuals.

    Args:
      A, b, x0, tol, atol, M: see `cg`; ``A`` may be any invertible matrix.
      restart: the dimension of the Krylov space in which the residual is minimized.
      maxiter: the maximum number of Krylov spaces, by default ten for each element of ``b``.
      solve_method: ``"incremental"`` may stop within a Krylov space when the residual is small
        enough; ``"batched"`` always uses the whole space.
    Returns:
      ``(x, info)``; info is -1 if the solution is nan, otherwise 0.
    Raises:
      ValueError: see `cg`; or ``solve_method`` is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x, info = gmres(gnp.array([[0.0, 1.0], [2.0, 0.0]]), gnp.array([3.0, 4.0]))
      >>> print(gnp.round(x, 3), info)
      [2. 3.] 0
    """
    if solve_method not in ("incremental", "batched"):
        raise ValueError(
            f"invalid solve_method {solve_method}, must be either 'incremental' or 'batched'"
        )
    early = solve_method == "incremental"
    solver = partial(_gmres, restart=int(restart), early=early)
    x = _solved(solver, A, b, x0, tol, atol, maxiter, M)
    failed = gnp.isnan(_norm(ravel_pytree(x)[0]))
    return x, gnp.where(failed, -1, 0)


# ---------------------------------------------------------------------------------------- arguments


def _as_map(matrix: Any) -> Map:
    if callable(matrix):
        return matrix
    shape = getattr(matrix, "shape", None)
    if not hasattr(matrix, "__matmul__"):
        raise TypeError(f"linear operator must be either a function or ndarray: {matrix}")
    if shape is not None and (len(shape) != 2 or shape[0] != shape[1]):
        raise ValueError(f"linear operator must be a square matrix, but has shape: {shape}")
    if isinstance(matrix, (np.ndarray, Array)):
        return partial(_dot, matrix)
    return lambda x: matrix @ x


def _image(operator: Any, b: Any) -> Any:
    """The types of the product of an operator and ``b``, leaf by leaf."""
    if not callable(operator) and hasattr(operator, "dtype"):
        dtype = canonicalize_dtype(operator.dtype)
        return tree_util.tree_map(lambda x: ShapeDtypeStruct(x.shape, dtype), b)
    return eval_shape(_as_map(operator), b)


def _in_dtypes_of_solution(b: Any, x0: Any, *operators: Any) -> Any:
    """The right side in the dtypes of the solution.

    A solution is complex if the matrix or the preconditioner is, although the right side may be
    real; and it is inexact, although the right side may be of integers.
    """
    images = [_image(each, b) for each in operators if each is not None]
    structure = tree_util.tree_structure(b)
    if any(tree_util.tree_structure(image) != structure for image in images):
        return b  # `custom_linear_solve` raises the error that names the structures.

    def converted_leaf(x: Array, *others: Any) -> Array:
        zeros = (gnp.zeros((), other.dtype) for other in others)
        return promoted("b", x, *zeros, inexact=True)[0]

    return tree_util.tree_map(converted_leaf, b, x0, *images)


def _solved(
    solver: Callable[..., Array],
    A: Any,
    b: Any,
    x0: Any,
    tol: Any,
    atol: Any,
    maxiter: int | None,
    M: Any,
    hermitian: bool = False,
) -> Any:
    """Apply a solver for vectors to pytrees, and differentiate the solution implicitly."""
    b = tree_util.tree_map(lambda x: as_array("b", x), b)
    if x0 is None:
        x0 = tree_util.tree_map(gnp.zeros_like, b)
    x0 = tree_util.tree_map(lambda x: as_array("x0", x), x0)
    structures = tree_util.tree_structure(x0), tree_util.tree_structure(b)
    if structures[0] != structures[1]:
        raise ValueError(
            "x0 and b must have matching tree structure: "
            + difference_of_structures(*structures, "x0", "b")
        )
    shapes = [[x.shape for x in tree_util.tree_leaves(tree)] for tree in (x0, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"arrays in x0 and b must have matching shapes: {shapes[0]} vs {shapes[1]}"
        )
    matvec, preconditioner = _as_map(A), None if M is None else _as_map(M)
    b = _in_dtypes_of_solution(b, x0, A, M)
    leaves = tree_util.tree_leaves(b)
    limit = 10 * sum(x.size for x in leaves) if maxiter is None else maxiter

    def solve(matvec: Map, b: Any) -> Any:
        vector, unravel = ravel_pytree(b)
        start = ravel_pytree(x0)[0].astype(vector.dtype)

        def flat(f: Map) -> Map:
            return lambda v: ravel_pytree(f(unravel(v)))[0].astype(vector.dtype)

        condition = (lambda v: v) if preconditioner is None else flat(preconditioner)
        enough = gnp.maximum(tol * _norm(vector), atol)
        return unravel(solver(flat(matvec), condition, vector, start, enough, limit))

    symmetric = hermitian and not any(is_complex(x.dtype) for x in leaves)
    return lax.custom_linear_solve(matvec, b, solve, transpose_solve=solve, symmetric=symmetric)


def _inner(x: Array, y: Array) -> Array:
    return gnp.vdot(x, y, precision=lax.Precision.HIGHEST)


def _square(x: Array) -> Array:
    return gnp.real(_inner(x, x))


def _norm(x: Array) -> Array:
    return gnp.sqrt(_square(x))


def _scaled(factor: Array, x: Array) -> Array:
    """The product of a real number and a vector, which may be complex."""
    return factor.astype(x.dtype) * x


# ------------------------------------------------------------------------------------------ solvers


def _cg(A: Map, M: Map, b: Array, x: Array, enough: Array, limit: int) -> Array:
    # M. R. Hestenes, E. Stiefel (1952), with a preconditioner.
    def unfinished(state: Any) -> Any:
        _, r, _, _, count = state
        return (_square(r) > enough**2) & (count < limit)

    def step(state: Any) -> Any:
        x, r, p, gamma, count = state
        q = A(p)
        alpha = gamma / gnp.real(_inner(p, q))
        x, r = x + _scaled(alpha, p), r - _scaled(alpha, q)
        z = M(r)
        new = gnp.real(_inner(r, z))
        return x, r, z + _scaled(new / gamma, p), new, count + 1

    r = b - A(x)
    z = M(r)
    found: Array = lax.while_loop(unfinished, step, (x, r, z, gnp.real(_inner(r, z)), 0))[0]
    return found


def _bicgstab(A: Map, M: Map, b: Array, x: Array, enough: Array, limit: int) -> Array:
    # H. A. van der Vorst: Bi-CGSTAB (1992). A negative count means a breakdown.
    def unfinished(state: Any) -> Any:
        _, r, *_, count = state
        return (_square(r) > enough**2) & (count < limit) & (count >= 0)

    def step(state: Any) -> Any:
        x, r, p, q, alpha, omega, rho, count = state
        new_rho = _inner(shadow, r)
        beta = new_rho / rho * alpha / omega
        p = r + beta * (p - omega * q)
        direction = M(p)
        q = A(direction)
        alpha = new_rho / _inner(shadow, q)
        s = r - alpha * q
        done = _square(s) < enough**2
        smooth = M(s)
        t = A(smooth)
        omega = _inner(t, s) / _inner(t, t)
        half = x + alpha * direction
        x = gnp.where(done, half, half + omega * smooth)
        r = gnp.where(done, s, s - omega * t)
        broken = gnp.equal(omega, 0) | gnp.equal(alpha, 0) | gnp.equal(new_rho, 0)
        count = gnp.where(broken, -1, count + 1)
        return x, r, p, q, alpha, omega, new_rho, count

    shadow = r = b - A(x)
    one = gnp.ones((), b.dtype)
    state = x, r, r, r, one, one, one, 0
    found: Array = lax.while_loop(unfinished, step, state)[0]
    return found


def _gmres(
    A: Map, M: Map, b: Array, x: Array, enough: Array, limit: int, restart: int, early: bool
) -> Array:
    # Y. Saad, M. H. Schultz: GMRES (1986).
    size = min(restart, b.size)
    scale = gnp.minimum(1.0, enough / _norm(b))
    inner_enough = _norm(M(b)) * scale if early else gnp.zeros((), _norm(b).dtype)

    def unfinished(state: Any) -> Any:
        _, _, norm, count = state
        return (norm > enough) & (count < limit)

    def cycle(state: Any) -> Any:
        x, residual, norm, count = state
        x = x + _in_krylov_space(A, M, residual, norm, inner_enough, size)
        residual = M(b - A(x))
        return x, residual, _norm(residual), count + 1

    residual = M(b - A(x))
    found: Array = lax.while_loop(unfinished, cycle, (x, residual, _norm(residual), 0))[0]
    return found


def _in_krylov_space(
    A: Map, M: Map, residual: Array, norm: Array, enough: Array, size: int
) -> Array:
    """The correction of a guess, from the Krylov space of its residual.

    The rows of ``basis`` are orthonormal. The rows of ``r`` are the columns of the triangular
    factor of the Hessenberg matrix; rotations keep it triangular as the space grows.
    """
    dtype = residual.dtype
    tiny = gnp.finfo(dtype).eps
    basis = gnp.zeros((size + 1, residual.size), dtype).at[0].set(residual / norm.astype(dtype))
    r = gnp.eye(size, size + 1, dtype=dtype)
    rotations = gnp.zeros((size, 2), dtype)
    side = gnp.zeros(size + 1, dtype).at[0].set(norm.astype(dtype))

    def unfinished(state: Any) -> Any:
        _, _, _, side, count, broken = state
        rest = gnp.abs(lax.dynamic_index_in_dim(side, count, keepdims=False))
        return (count < size) & ~broken & (rest > enough)

    def extend(state: Any) -> Any:
        basis, r, rotations, side, count, _ = state
        v = M(A(lax.dynamic_index_in_dim(basis, count, keepdims=False)))
        before = _norm(v)
        # Two orthogonalizations are enough: W. Giraud, J. Langou.
        column = gnp.zeros(size + 1, dtype)
        for _ in range(2):
            overlap = _dot(gnp.conj(basis), v)
            v, column = v - _dot(overlap, basis), column + overlap
        after = _norm(v)
        broken = after <= tiny * before
        unit = gnp.where(broken, 0, v / gnp.where(broken, 1, after).astype(dtype))
        basis = basis.at[count + 1].set(unit)
        column = column.at[count + 1].set(gnp.where(broken, 0, after).astype(dtype))
        column = lax.fori_loop(0, count, lambda i, c: _rotate(c, i, rotations[i]), column)
        rotation = _rotation(column[count], column[count + 1])
        rotations = rotations.at[count].set(rotation)
        r = r.at[count].set(_rotate(column, count, rotation))
        return basis, r, rotations, _rotate(side, count, rotation), count + 1, broken

    state = basis, r, rotations, side, 0, False
    basis, r, _, side, _, _ = lax.while_loop(unfinished, extend, state)
    weights = solve_triangular(r[:, :-1].T, side[:-1])
    return _dot(weights, basis[:-1])


def _rotation(a: Array, b: Array) -> Array:
    """Cosine and sine of the rotation that takes (a, b), b real, to (length, 0)."""
    length = gnp.sqrt(gnp.abs(a) ** 2 + gnp.abs(b) ** 2)
    is_zero = gnp.equal(length, 0)
    safe = gnp.where(is_zero, 1, length).astype(a.dtype)
    return gnp.stack([gnp.where(is_zero, 1, gnp.conj(a) / safe), b / safe])


def _rotate(column: Array, i: Any, rotation: Array) -> Array:
    cosine, sine = rotation
    upper = lax.dynamic_index_in_dim(column, i, keepdims=False)
    lower = lax.dynamic_index_in_dim(column, i + 1, keepdims=False)
    column = column.at[i].set(cosine * upper + gnp.conj(sine) * lower)
    return column.at[i + 1].set(gnp.conj(cosine) * lower - sine * upper)
