"""The update of a Cholesky factor, and the polar decomposition."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon._diagnostics.errors import ConcretizationTypeError
from gnomon._tracing.bind import bind, with_weak_type
from gnomon._tracing.trace import is_tracer
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_complex, real_dtype
from gnomon.lax._broadcasting import broadcast_in_dim
from gnomon.lax._creation import converted, full, iota
from gnomon.lax._elementwise import (
    abs,
    add,
    bitwise_and,
    div,
    eq,
    gt,
    lt,
    max,
    mul,
    neg,
    rsqrt,
    sqrt,
    square,
    sub,
)
from gnomon.lax._gradient import stop_gradient
from gnomon.lax._loops import scan, while_loop
from gnomon.lax._operands import broadcast, constant_like
from gnomon.lax._reductions import reduce_max, reduce_sum
from gnomon.lax._selection import select
from gnomon.lax._slicing import dynamic_index_in_dim
from gnomon.lax._structural import concatenate
from gnomon.lax.linalg._factorizations import cholesky, qr
from gnomon.lax.linalg._operands import adjoint, as_matrices, as_matrix, matmul
from gnomon.lax.linalg._systems import triangular_solve

# --------------------------------------------------------------------------------- rank-1 updates


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """Update a Cholesky factor after a rank-1 update of its matrix.

    Args:
      r_matrix: an upper triangular R, ``[n, n]``, real.
      w_vector: ``[n]``.
    Returns:
      The upper triangular S with ``S^T @ S = R^T @ R + w w^T``, by one rotation for each row.
    Raises:
      ValueError: the shapes do not fit.
      TypeError: an argument is complex.

    Example:
      >>> import gnomon.numpy as gnp
      >>> cholesky_update(gnp.array([[3.0, 0.0], [0.0, 1.0]]), gnp.array([4.0, 0.0]))
      Array([[5., 0.],
             [0., 1.]], dtype=float32)
    """
    r, w = as_matrices("cholesky_update", r_matrix, w_vector)
    if is_complex(r.dtype):
        raise TypeError(
            f"lax.linalg.cholesky_update takes real matrices, got {r.dtype.name}; factor the "
            "updated matrix with lax.linalg.cholesky"
        )
    if r.ndim != 2 or r.shape[0] != r.shape[1] or w.shape != r.shape[1:]:
        raise ValueError(
            "Rank-1 update to Cholesky decomposition takes a square matrix and a vector of the "
            f"same size as input. Got shapes {r.shape} and {w.shape} instead"
        )

    def rotate(w: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        row, place = step
        cosine, sine = _rotation(
            dynamic_index_in_dim(row, place, keepdims=False),
            dynamic_index_in_dim(w, place, keepdims=False),
        )
        turned = add(mul(cosine, row), mul(sine, w))
        return sub(mul(cosine, w), mul(sine, row)), turned

    rows: Array = scan(rotate, w, (r, iota(np.int32, r.shape[0])))[1]
    return rows


def _rotation(x: Array, y: Array) -> tuple[Array, Array]:
    """Cosine and sine of the rotation of (x, y) to (length, 0); no rotation if y is zero."""
    zero, one = constant_like(x, 0), constant_like(x, 1)
    size = stop_gradient(max(abs(x), abs(y)))
    is_origin = eq(size, zero)
    x, y = (div(v, select(is_origin, one, size)) for v in (x, y))
    length = sqrt(select(is_origin, one, add(square(x), square(y))))
    # A row that need not be rotated keeps its sign.
    keeps_sign = bitwise_and(eq(y, zero), lt(x, zero))
    length = select(keeps_sign, neg(length), length)
    return select(is_origin, one, div(x, length)), div(y, length)


# ---------------------------------------------------------------------------- polar decomposition

# Y. Nakatsukasa, Z. Bai, F. Gygi: Optimizing Halley's Iteration for Computing the Matrix Polar
# Decomposition (2010).

# Up to this weight, a step by a Cholesky factor is as accurate as one by QR, and cheaper.
_CHOLESKY_WEIGHT = 100.0

Weights = tuple[float, float, float]
_HALLEY: Weights = (3.0, 1.0, 3.0)


def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[Any, Any] | None = None,
) -> tuple[Array, Array, Any, Array]:
    """The polar decomposition ``u @ h = x``, by weighted Halley iterations.

    Args:
      x: a matrix of full rank, ``[m, n]`` with ``m >= n``.
      is_hermitian: accepted for compatibility.
      max_iterations: the largest number of iterations, by default 10.
      eps: the accuracy, by default that of the dtype. The smallest singular value is taken to be
        this fraction of the largest one.
      dynamic_shape: ``(rows, columns)``, traced or not; elements beyond it count as zero.
    Returns:
      ``(u, h, iterations, is_converged)``: a matrix with orthonormal columns, a symmetric or
      Hermitian positive semidefinite matrix, the number of iterations, and a bool.
    Raises:
      ValueError: ``x`` has more columns than rows.

    Example:
      >>> import gnomon.numpy as gnp
      >>> u, h, iterations, is_converged = qdwh(gnp.array([[0.0, 2.0], [3.0, 0.0]]))
      >>> print(abs(gnp.round(u, 3)), bool(is_converged))
      [[0. 1.]
       [1. 0.]] True
    """
    a = as_matrix("qdwh", x)
    for name, value in (("is_hermitian", is_hermitian), ("max_iterations", max_iterations)):
        if is_tracer(value):
            raise ConcretizationTypeError(
                value, f"qdwh needs the value of {name} when it is traced"
            )
    if a.ndim != 2 or a.shape[0] < a.shape[1]:
        raise ValueError(
            f"The input matrix of shape M x N must have M >= N, got shape {a.shape}; decompose the "
            "transpose"
        )
    if dynamic_shape is not None:
        a = _masked(a, dynamic_shape)
    limit = 10 if max_iterations is None else int(max_iterations)
    part = real_dtype(a.dtype)
    accuracy = float(np.finfo(part).eps if eps is None else eps)
    weights, tolerance = _weights(accuracy, limit)
    u = mul(a, broadcast(converted(_inverse_bound(a), a.dtype), a.shape))
    pending: Array = wrap(np.array(True))
    enough = wrap(np.array(np.cbrt(tolerance), part))
    for step in weights:
        before, u = u, _halley_step(u, step)
        if step[2] <= _CHOLESKY_WEIGHT:
            pending = gt(_norm(sub(u, before)), enough)

    def unfinished(state: Any) -> Any:
        count, _, pending = state
        return bitwise_and(pending, lt(count, np.int32(limit)))

    def advance(state: Any) -> Any:
        count, u, _ = state
        after = _halley_step(u, _HALLEY)
        return add(count, np.int32(1)), after, gt(_norm(sub(after, u)), enough)

    begun = wrap(np.array(len(weights), np.int32))
    count, u, pending = while_loop(unfinished, advance, (begun, u, pending))
    # A Newton-Schulz step corrects rounding errors.
    cubed = matmul(u, matmul(adjoint(u), u))
    u = sub(mul(u, constant_like(u, 1.5)), mul(cubed, constant_like(u, 0.5)))
    h = matmul(adjoint(u), a)
    h = mul(add(h, adjoint(h)), constant_like(h, 0.5))
    return u, h, with_weak_type(count), bind(ops.not_, pending)


def _weights(accuracy: float, limit: int) -> tuple[list[Weights], float]:
    """The weights a, b, c of each step, from a bound on the singular values; and the tolerance."""
    tolerance = 5.0 * accuracy
    found: list[Weights] = []
    low = accuracy
    while low + tolerance < 1 and len(found) < limit:
        square_low = low * low
        d = np.cbrt(4 * (1 - square_low) / square_low**2)
        root = np.sqrt(1 + d)
        a = root + np.sqrt(2 - d + 2 * (2 - square_low) / (square_low * root))
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        low = low * (a + b * square_low) / (1 + c * square_low)
        found.append((float(a), float(b), float(c)))
    return found, tolerance


def _halley_step(u: Array, weights: Weights) -> Array:
    """``u (a + b u^H u) (1 + c u^H u)^-1``."""
    a, b, c = weights
    rows, columns = u.shape
    identity = wrap(np.eye(columns, dtype=u.dtype))
    kept = mul(u, constant_like(u, b / c))
    if c > _CHOLESKY_WEIGHT:
        stacked = concatenate([mul(u, constant_like(u, np.sqrt(c))), identity], 0)
        q = qr(stacked, full_matrices=False)[0]
        upper = bind(ops.slice, q, start=(0, 0), limit=(rows, columns), strides=(1, 1))
        lower = bind(ops.slice, q, start=(rows, 0), limit=(rows + columns, columns), strides=(1, 1))
        moved, factor = matmul(upper, adjoint(lower)), (a - b / c) / np.sqrt(c)
    else:
        gram = matmul(adjoint(u), u)
        factored = cholesky(add(mul(gram, constant_like(gram, c)), identity))
        moved, factor = u, a - b / c
        for transpose_a in (True, False):
            moved = triangular_solve(
                factored,
                moved,
                lower=True,
                transpose_a=transpose_a,
                conjugate_a=transpose_a,
            )
    return add(kept, mul(moved, constant_like(moved, factor)))


def _inverse_bound(a: Array) -> Array:
    """One over an upper bound on the largest singular value; 1 for a zero matrix."""
    sizes = abs(a)
    if not a.size:
        return wrap(np.ones((), sizes.dtype))
    by_columns, by_rows = (reduce_max(reduce_sum(sizes, (d,)), (0,)) for d in (0, 1))
    is_zero = eq(by_columns, constant_like(by_columns, 0))
    one = constant_like(by_columns, 1)
    bound = mul(rsqrt(select(is_zero, one, by_columns)), rsqrt(select(is_zero, one, by_rows)))
    return select(is_zero, one, bound)


def _norm(a: Array) -> Array:
    sizes = abs(a)
    return sqrt(reduce_sum(square(sizes), (0, 1)))


def _masked(a: Array, shape: tuple[Any, Any]) -> Array:
    for d, size in enumerate(shape):
        place = broadcast_in_dim(iota(np.int32, a.shape[d]), a.shape, (d,))
        limit = full(a.shape, converted(size, np.dtype(np.int32)))
        a = select(lt(place, limit), a, constant_like(a, 0))
    return a
