"""The Schur form in NumPy, one matrix at a time: from LAPACK's eigenvectors where these give it to
rounding, elsewhere by way of the Hessenberg form and QR steps with shifts.

Real matrices take Francis' double steps, which stay real; pairs of complex eigenvalues are left as
blocks of two rows, in the standard form of LAPACK (Golub & Van Loan, chapter 7).
"""

from __future__ import annotations

import math

import numpy as np

from gnomon.dialects.linear_algebra import reflectors

# QR steps for one eigenvalue, after which the matrix is given up; at the tenth and twentieth an
# unusual shift breaks cycles.
_STEPS = 40
_EPSILON = float(np.finfo(np.float64).eps)
# Relative to the matrix: what LAPACK's own Schur form of matrices of some hundred rows is off by.
_VANISHING = 16 * _EPSILON


def schur(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``a = z @ t @ z^H``, in double precision.

    Args:
      a: ``[n, n]``, real or complex.
    Returns:
      ``(t, z)``: triangular (real: blocks of two rows on the diagonal), unitary.
    Raises:
      np.linalg.LinAlgError: not finite, or no convergence.
    """
    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError("the matrix is not finite")
    a = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    found = _from_eigenvectors(a)
    return found if found is not None else _by_steps(a)


def _from_eigenvectors(a: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The form in the basis that LAPACK's eigenvectors span one by one, made orthonormal.

    It is as good as any where what it should have below the diagonal vanishes to rounding; where
    eigenvectors are nearly dependent it does not, and there is None.
    """
    values, vectors = np.linalg.eig(a)
    basis, pairs = vectors, np.zeros(len(a), bool)
    if a.dtype.kind != "c":
        # Of a pair of complex eigenvectors the real and the imaginary part span the same plane.
        pairs = values.imag > 0
        basis = vectors.real.copy()
        basis[:, 1:][:, pairs[:-1]] = vectors.imag[:, :-1][:, pairs[:-1]]
    z = np.linalg.qr(basis)[0]
    t = z.conj().T @ a @ z
    kept = np.triu(t)
    rows = np.flatnonzero(pairs)
    kept[rows + 1, rows] = t[rows + 1, rows]
    if np.abs(t - kept).max(initial=0) > _VANISHING * np.linalg.norm(a):
        return None
    for k in rows.tolist():
        _standardize(kept, z, k)
    return kept, z


def _by_steps(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n = a.shape[0]
    packed, taus = reflectors.to_hessenberg(a)
    t = np.triu(packed, -1)
    z = np.eye(n, dtype=a.dtype)
    if n > 1:
        z[1:, 1:] = reflectors.product(packed[1:, :-1], taus)
    step = _complex_step if a.dtype.kind == "c" else _real_step
    width = 1 if a.dtype.kind == "c" else 2
    high, steps = n - 1, 0
    norm = float(np.abs(t).sum()) or 1.0
    while high > 0:
        low = _active(t, high, norm)
        if high - low < width:
            if high - low == 1:
                _standardize(t, z, low)
            high, steps = low - 1, 0
            continue
        steps += 1
        if steps > _STEPS:
            raise np.linalg.LinAlgError("no convergence to the Schur form")
        step(t, z, low, high, unusual=steps % 10 == 0)
    return (np.triu(t) if width == 1 else np.triu(t, -1)), z


def _active(t: np.ndarray, high: int, norm: float) -> int:
    """The first row of the unreduced block that ends at ``high``; small subdiagonals become 0."""
    for k in range(high, 0, -1):
        near = abs(t[k, k]) + abs(t[k - 1, k - 1]) or norm
        if abs(t[k, k - 1]) <= _EPSILON * near:
            t[k, k - 1] = 0
            return k
    return 0


def _turn(
    t: np.ndarray, z: np.ndarray, at: int, rotation: np.ndarray, left: int, stop: int
) -> None:
    """Apply ``rotation`` to some rows of ``t``, and its adjoint to the same columns of t and z.

    Args:
      at: the first of the rows.
      rotation: unitary.
      left: the first column that the rows reach to.
      stop: behind the last row that the columns reach to.
    """
    span = slice(at, at + rotation.shape[0])
    adjoint = rotation.conj().T
    t[span, left:] = rotation @ t[span, left:]
    t[:stop, span] = t[:stop, span] @ adjoint
    z[:, span] = z[:, span] @ adjoint


def _complex_step(t: np.ndarray, z: np.ndarray, low: int, high: int, unusual: bool) -> None:
    """One implicit step with Wilkinson's shift."""
    a, b, c, d = t[high - 1, high - 1], t[high - 1, high], t[high, high - 1], t[high, high]
    if unusual:
        shift = d + abs(c)
    else:
        half = (a - d) / 2
        root = np.sqrt(half * half + b * c)
        root = -root if abs(half + root) < abs(half - root) else root
        bottom = half + root
        shift = d if bottom == 0 else d - b * c / bottom
    x, y = t[low, low] - shift, t[low + 1, low]
    for k in range(low, high):
        size = math.hypot(abs(x), abs(y))
        if size:
            rotation = np.array([[np.conj(x), np.conj(y)], [-y, x]]) / size
            _turn(t, z, k, rotation, max(k - 1, 0), min(k + 3, high + 1))
        if k > low:
            t[k + 1, k - 1] = 0
        if k + 2 <= high:
            x, y = t[k + 1, k], t[k + 2, k]


def _real_step(t: np.ndarray, z: np.ndarray, low: int, high: int, unusual: bool) -> None:
    """One implicit double step with the two eigenvalues of the last block as shifts."""
    a, b, c, d = t[high - 1, high - 1], t[high - 1, high], t[high, high - 1], t[high, high]
    total, product = a + d, a * d - b * c
    if unusual:
        size = abs(c) + abs(t[high - 1, high - 2])
        total, product = 2 * (0.75 * size + d), (0.75 * size + d) ** 2 + 0.4375 * size * size
    h00, h10 = t[low, low], t[low + 1, low]
    column = np.array(
        [
            h00 * h00 + t[low, low + 1] * h10 - total * h00 + product,
            h10 * (h00 + t[low + 1, low + 1] - total),
            h10 * t[low + 2, low + 1],
        ]
    )
    for k in range(low, high):
        v, tau, _ = reflectors.reflector(column[None])
        turn = np.eye(column.size) - tau[0] * np.outer(v[0], v[0])
        _turn(t, z, k, turn, max(k - 1, 0), min(k + 4, high + 1))
        if k > low:
            t[k + 1 : k + column.size, k - 1] = 0
        column = t[k + 1 : min(k + 4, high + 1), k].copy()


def _standardize(t: np.ndarray, z: np.ndarray, k: int) -> None:
    """Split a block of two real eigenvalues, or give one of two complex ones equal diagonals."""
    a, b, c, d = (float(v) for v in (t[k, k], t[k, k + 1], t[k + 1, k], t[k + 1, k + 1]))
    half = (a - d) / 2
    discriminant = half * half + b * c
    if discriminant >= 0:
        # Real: turn an eigenvector onto the first axis.
        shift = half + math.copysign(math.sqrt(discriminant), half)
        size = math.hypot(shift, c)
        cosine, sine = (shift / size, c / size) if size else (1.0, 0.0)
        _turn(t, z, k, np.array([[cosine, sine], [-sine, cosine]]), k, k + 2)
        t[k + 1, k] = 0
        return
    if half != 0:
        # The angle at which both diagonal elements are the mean of the two.
        angle = math.atan2(-2 * half, b + c) / 2
        cosine, sine = math.cos(angle), math.sin(angle)
        _turn(t, z, k, np.array([[cosine, sine], [-sine, cosine]]), k, k + 2)
        t[k, k] = t[k + 1, k + 1] = (t[k, k] + t[k + 1, k + 1]) / 2
        if t[k, k + 1] * t[k + 1, k] >= 0:
            # Rounding made the two eigenvalues real.
            _standardize(t, z, k)
