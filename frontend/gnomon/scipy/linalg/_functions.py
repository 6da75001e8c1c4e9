"""Functions of matrices: the exponential, the square root, the polar decomposition."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import with_weak_type
from gnomon._transformations.differentiate import jvp
from gnomon._transformations.vmap import vmap
from gnomon.dialects.types import real_dtype
from gnomon.lax import linalg as lax_linalg
from gnomon.numpy._arguments import promoted
from gnomon.numpy.linalg._arguments import adjoint, inexact, product, square, supported
from gnomon.scipy.linalg._decompositions import schur
from gnomon.scipy.linalg._systems import solve_triangular

# For each width of real numbers: the coefficients of the Padé approximant of exp, and the 1-norm up
# to which it is exact to the spacing of the dtype (Higham 2005, table 2.3; Al-Mohy & Higham 2009).
_PADE = {
    32: ((17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0), 3.92572478),
    64: (
        (
            64764752532480000.0,
            32382376266240000.0,
            7771770303897600.0,
            1187353796428800.0,
            129060195264000.0,
            10559470521600.0,
            670442572800.0,
            33522128640.0,
            1323241920.0,
            40840800.0,
            960960.0,
            16380.0,
            182.0,
            1.0,
        ),
        5.371920351148152,
    ),
}


def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponential of matrices, by scaling, a Padé approximant, and squaring.

    Args:
      A: ``[..., n, n]``.
      upper_triangular: whether the matrices are upper triangular.
      max_squarings: the maximum number of squarings; a matrix that needs more gives nan.
    Raises:
      ValueError: the matrices are not square.

    Example:
      >>> import gnomon.numpy as gnp
      >>> expm(gnp.array([[0.0, 1.0], [0.0, 0.0]]))
      Array([[1., 1.],
             [0., 1.]], dtype=float32)
    """
    x = supported("expm", square("expm", A))
    function = _expm_of_one(upper_triangular, max_squarings)
    for _ in x.shape[:-2]:
        function = vmap(function)
    return function(x)


def _expm_of_one(upper_triangular: bool, max_squarings: int) -> Any:
    def expm(x: Array) -> Array:
        if not x.size:
            return x
        real = real_dtype(x.dtype)
        coefficients, largest = _PADE[8 * real.itemsize]
        norm = lax.stop_gradient(gnp.max(gnp.sum(gnp.abs(x), axis=0)))
        halvings = gnp.log2(norm / largest)
        count = gnp.clip(gnp.ceil(halvings), 0, max_squarings)
        scaled = x / gnp.exp2(count).astype(x.dtype)
        even, odd = _pade(scaled, coefficients)
        numerator, denominator = even + odd, even - odd
        if upper_triangular:
            root = solve_triangular(denominator, numerator)
        else:
            root = gnp.linalg.solve(denominator, numerator)

        def twice(root: Array, i: Array) -> tuple[Array, None]:
            return lax.cond(i < count, lambda r: product(r, r), lambda r: r, root), None

        steps = gnp.arange(max_squarings, dtype=real)
        result, _ = lax.scan(twice, root, steps)
        return gnp.where(gnp.floor(halvings) > max_squarings, np.nan, result).astype(x.dtype)

    return expm


def _pade(x: Array, coefficients: tuple[float, ...]) -> tuple[Array, Array]:
    """The even and the odd part of the numerator: polynomials in the square."""
    square_of_x = product(x, x)
    unit = gnp.eye(x.shape[-1], dtype=x.dtype)
    even, odd = coefficients[-2] * unit, coefficients[-1] * unit
    for i in range(len(coefficients) - 4, -1, -2):
        even = product(square_of_x, even) + coefficients[i] * unit
        odd = product(square_of_x, odd) + coefficients[i + 1] * unit
    return even, product(x, odd)


def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Any:
    """The exponential of ``A`` and its derivative in the direction ``E``.

    Args:
      A, E: ``[..., n, n]``.
      method: ignored.
      compute_expm: return both; otherwise only the derivative.
    Raises:
      ValueError: the shapes differ, or the matrices are not square.

    Example:
      >>> import gnomon.numpy as gnp
      >>> expm_frechet(gnp.zeros((1, 1)), gnp.ones((1, 1)))
      (Array([[1.]], dtype=float32), Array([[1.]], dtype=float32))
    """
    x, direction = promoted("scipy.linalg.expm_frechet", A, E, inexact=True)
    for name, value in (("A", x), ("E", direction)):
        if value.ndim < 2 or value.shape[-1] != value.shape[-2]:
            raise ValueError(
                f"expected {name} to be a (batched) square matrix, got {name}.shape={value.shape}"
            )
    if x.shape != direction.shape:
        raise ValueError(
            f"expected A and E to be the same shape, got A.shape={x.shape} "
            f"E.shape={direction.shape}"
        )
    value, derivative = jvp(expm, (x,), (direction,))
    return (value, derivative) if compute_expm else derivative


def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square root of a matrix, by its complex Schur form (Björck & Hammarling 1983).

    Args:
      A: ``[n, n]``.
      blocksize: must be 1.
    Returns:
      A complex ``[n, n]``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> sqrtm(gnp.array([[4.0, 0.0], [0.0, 9.0]])).real
      Array([[2., 0.],
             [0., 3.]], dtype=float32)
    """
    if blocksize > 1:
        raise NotImplementedError("Blocked version is not implemented yet.")
    x = square("sqrtm", A)
    if x.ndim != 2:
        raise ValueError(f"scipy.linalg.sqrtm takes one matrix, got shape {x.shape}")
    form, vectors = schur(x, output="complex")
    n = x.shape[0]
    if not n:
        return form
    roots = gnp.sqrt(gnp.diagonal(form))

    # Column by column, from the diagonal upwards: T[i, j] = sum_k U[i, k] U[k, j].
    def element(step: Any, carry: tuple[Any, Array]) -> tuple[Any, Array]:
        j, u = carry
        i = j - 1 - step
        rest = form[i, j] - gnp.sum(u[i, :] * u[:, j])
        value = gnp.where(gnp.equal(rest, 0), 0, rest / (roots[i] + roots[j]))
        return j, u.at[i, j].set(value)

    def column(j: Any, u: Array) -> Array:
        return lax.fori_loop(0, j, element, (j, u))[1]

    root = lax.fori_loop(0, n, column, gnp.diag(roots))
    return product(product(vectors, root), adjoint(vectors))


def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """The polar decomposition ``u @ p = a``, or ``p @ u = a`` with ``side="left"``.

    Args:
      a: ``[..., m, n]``.
      side: the side of the positive semidefinite factor.
      method: ``"qdwh"`` or ``"svd"``; both use singular values.
      eps, max_iterations: ignored.
    Returns:
      ``(u, p)``: u has orthonormal columns or rows, and p is Hermitian.
    Raises:
      ValueError: ``side`` or ``method`` is unknown, or ``a`` is not a matrix.

    Example:
      >>> import gnomon.numpy as gnp
      >>> polar(gnp.array([[0.0, -2.0], [2.0, 0.0]]))[1]
      Array([[2., 0.],
             [0., 2.]], dtype=float32)
    """
    x = inexact("polar", a)
    if x.ndim < 2:
        raise ValueError("The input `a` must be at least a 2-D array.")
    if side not in ("right", "left"):
        raise ValueError("The argument `side` must be either 'right' or 'left'.")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"Unknown polar decomposition method {method}.")
    u, s, vh = lax_linalg.svd(x, full_matrices=False)
    unitary = with_weak_type(product(u, vh), False)
    sizes = gnp.expand_dims(s.astype(x.dtype), -2)
    if side == "right":
        v = adjoint(vh)
        return unitary, product(v * sizes, vh)
    return unitary, product(u * sizes, adjoint(u))
