"""Linear systems, and the factorizations that solve them: Cholesky and LU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.lax import linalg as lax_linalg
from gnomon.numpy._arguments import promoted
from gnomon.numpy._dispatch import broadcast_to_shape
from gnomon.numpy.linalg._arguments import adjoint, inexact, product, square


def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """The Cholesky factor: ``U^H @ U = a``, or ``L @ L^H = a`` with ``lower``.

    Args:
      a: positive definite matrices ``[..., n, n]``; only the requested triangle is read.
      overwrite_a, check_finite: ignored.
      lower: return the lower triangular factor instead of the upper one.
    Returns:
      ``[..., n, n]``; nan if a matrix is not positive definite.

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
    """The Cholesky factor of a positive definite matrix, in the form that `cho_solve` takes.

    Args:
      a: an array of matrices ``[..., n, n]``.
      lower: return the lower triangular factor instead of the upper one.
      overwrite_a, check_finite: ignored.
    Returns:
      The pair of the factor and ``lower``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import linalg
      >>> factor = linalg.cho_factor(gnp.array([[4.0, 0.0], [0.0, 9.0]]))
      >>> factor
      (Array([[2., 0.],
             [0., 3.]], dtype=float32), False)
      >>> linalg.cho_solve(factor, gnp.array([8.0, 18.0])).round(4)
      Array([2., 2.], dtype=float32)

    See also:
      `cholesky`, `cho_solve`
    """
    return cholesky(a, lower=lower), lower


def _for_systems(
    function: str, a: Array, b: Array, solve: Callable[[Array, Array], Array]
) -> Array:
    """Solve for vectors ``[n]`` or matrices ``[..., n, k]`` with broadcast leading dimensions."""
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
      trans: ``op``: 0 or ``"N"`` for a itself, 1 or ``"T"`` for its transpose, 2 or ``"C"`` for its
        adjoint.
      lower: which triangle is read.
      unit_diagonal: assume that the diagonal is one, and do not read it.
      overwrite_b, debug, check_finite: ignored.
    Raises:
      ValueError: ``trans`` is unknown, or the shapes do not fit.

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
      lower: which triangle is read if ``assume_a`` is ``"pos"``.
      assume_a: ``"gen"`` for general matrices, or ``"pos"`` for positive definite ones, which are
        solved by the Cholesky factor; ``"sym"`` and ``"her"`` are solved like general ones.
      overwrite_a, overwrite_b, debug, check_finite: ignored.
    Raises:
      ValueError: ``assume_a`` is unknown, or the shapes do not fit.

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

    # The derivative is the solution of another system, with the same factor.
    def by_factor(matvec: Any, y: Array) -> Array:
        return cho_solve(factor, y)

    def by_conjugate(matvec: Any, y: Array) -> Array:
        return gnp.conj(cho_solve(factor, gnp.conj(y)))

    def solve_one(a: Array, y: Array) -> Array:
        return lax.custom_linear_solve(lambda x: product(a, x), y, by_factor, by_conjugate)

    return _for_systems("solve", matrix, rhs, solve_one)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverse of square matrices.

    Args:
      a: an array of matrices ``[..., n, n]``.
      overwrite_a, check_finite: ignored.
    Returns:
      An array ``[..., n, n]``; its elements are not finite if a matrix is singular.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import linalg
      >>> linalg.inv(gnp.array([[2.0, 0.0], [0.0, 4.0]]))
      Array([[0.5 , 0.  ],
             [0.  , 0.25]], dtype=float32)

    See also:
      `solve`
    """
    return gnp.linalg.inv(a)


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinant of square matrices.

    Args:
      a: an array of matrices ``[..., n, n]``.
      overwrite_a, check_finite: ignored.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import linalg
      >>> linalg.det(gnp.array([[1.0, 2.0], [3.0, 4.0]]))
      Array(-2., dtype=float32)

    See also:
      `gnomon.numpy.linalg.slogdet`
    """
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
      trans: 0 for ``a @ x = b``, 1 for the transpose of a, 2 for its adjoint.
      overwrite_b, check_finite: ignored.
    Raises:
      ValueError: ``trans`` is unknown, or the shapes do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> lu_solve(lu_factor(gnp.array([[0.0, 2.0], [1.0, 0.0]])), gnp.array([4.0, 3.0]))
      Array([3., 2.], dtype=float32)
    """
    if trans not in (0, 1, 2):
        raise ValueError(f"'trans' value must be 0, 1, or 2, got {trans}")
    factors, rhs = promoted("scipy.linalg.lu_solve", lu_and_piv[0], b, inexact=True)
    if not rhs.ndim:
        raise ValueError("lu_solve takes a vector or a matrix, got a scalar as right-hand side")
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
