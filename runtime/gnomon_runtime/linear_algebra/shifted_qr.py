"""The Schur form in NumPy, one matrix at a time.

It is computed from LAPACK's eigenvectors if these give it up to rounding errors, otherwise by
reduction to Hessenberg form and shifted QR steps.

For real matrices, the steps are Francis' double steps, which stay real. Pairs of complex
eigenvalues remain as blocks of two rows, in LAPACK's standard form (Golub & Van Loan, chapter 7).
"""

from __future__ import annotations

import math

import numpy as np

from gnomon_runtime.linear_algebra import reflectors, unthreaded

# The maximum number of QR steps per eigenvalue. At every tenth, an exceptional shift breaks cycles.
_STEPS = 40
_EPSILON = float(np.finfo(np.float64).eps)
# The relative error of LAPACK's own Schur form for matrices of a few hundred rows.
_VANISHING = 16 * _EPSILON


def schur(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Schur form ``a = z @ t @ z^H``, in double precision.

    Args:
      a: ``[n, n]``, real or complex.

    Returns:
      ``(t, z)``: t is triangular (for a real matrix, with blocks of two rows on the diagonal), and
      z is unitary.

    Raises:
      np.linalg.LinAlgError: the matrix is not finite, or the steps do not converge.
    """
    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError("the matrix is not finite")
    a = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    found = _from_eigenvectors(a)
    return found if found is not None else _by_steps(a)


def _from_eigenvectors(a: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The Schur form in the orthonormalized basis of LAPACK's eigenvectors.

    Returns None if the entries below the diagonal do not vanish to rounding, which happens for
    nearly dependent eigenvectors.
    """
    values, vectors = unthreaded.eig(a)
    basis, pairs = vectors, np.zeros(len(a), bool)
    if a.dtype.kind != "c":
        # The real and imaginary parts of a complex eigenvector span the plane of its pair.
        pairs = values.imag > 0
        basis = vectors.real.copy()
        basis[:, 1:][:, pairs[:-1]] = vectors.imag[:, :-1][:, pairs[:-1]]
    z = unthreaded.qr(basis, False)[0]
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
        step(t, z, low, high, exceptional=steps % 10 == 0)
    return (np.triu(t) if width == 1 else np.triu(t, -1)), z


def _active(t: np.ndarray, high: int, norm: float) -> int:
    """The first row of the unreduced block that ends at ``high``; sets small subdiagonals to 0."""
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
      rotation: a unitary matrix.
      left: the first nonzero column of the rows.
      stop: one past the last nonzero row of the columns.
    """
    span = slice(at, at + rotation.shape[0])
    adjoint = rotation.conj().T
    t[span, left:] = rotation @ t[span, left:]
    t[:stop, span] = t[:stop, span] @ adjoint
    z[:, span] = z[:, span] @ adjoint


def _complex_step(t: np.ndarray, z: np.ndarray, low: int, high: int, exceptional: bool) -> None:
    """One implicit QR step with Wilkinson's shift."""
    a, b, c, d = t[high - 1, high - 1], t[high - 1, high], t[high, high - 1], t[high, high]
    if exceptional:
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


def _real_step(t: np.ndarray, z: np.ndarray, low: int, high: int, exceptional: bool) -> None:
    """One implicit double QR step whose shifts are the two eigenvalues of the last block."""
    a, b, c, d = t[high - 1, high - 1], t[high - 1, high], t[high, high - 1], t[high, high]
    total, product = a + d, a * d - b * c
    if exceptional:
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
    """Split a block with real eigenvalues; give one with complex eigenvalues an equal diagonal."""
    a, b, c, d = (float(v) for v in (t[k, k], t[k, k + 1], t[k + 1, k], t[k + 1, k + 1]))
    half = (a - d) / 2
    discriminant = half * half + b * c
    if discriminant >= 0:
        # Real eigenvalues: rotate an eigenvector onto the first axis.
        shift = half + math.copysign(math.sqrt(discriminant), half)
        size = math.hypot(shift, c)
        cosine, sine = (shift / size, c / size) if size else (1.0, 0.0)
        _turn(t, z, k, np.array([[cosine, sine], [-sine, cosine]]), k, k + 2)
        t[k + 1, k] = 0
        return
    if half != 0:
        # The rotation that makes both diagonal elements equal to their mean.
        angle = math.atan2(-2 * half, b + c) / 2
        cosine, sine = math.cos(angle), math.sin(angle)
        _turn(t, z, k, np.array([[cosine, sine], [-sine, cosine]]), k, k + 2)
        t[k, k] = t[k + 1, k + 1] = (t[k, k] + t[k + 1, k + 1]) / 2
        if t[k, k + 1] * t[k + 1, k] >= 0:
            # By rounding, the two eigenvalues became real.
            _standardize(t, z, k)
