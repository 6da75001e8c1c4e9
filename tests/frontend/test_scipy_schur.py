"""Structured matrices, and functions computed in the Schur form, compared with SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.scipy import linalg
from tests.tolerance import assert_each_near, assert_near, units_of_differences

RNG = np.random.default_rng(11)


def f32(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def close(ours: Any, theirs: Any, ulps: float = 16.0) -> None:
    assert_near(ours, theirs, ulps, scale=1.0)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolution_matrix(mode: str) -> None:
    for m, n in ((3, 5), (5, 3), (4, 4), (1, 2), (2, 1)):
        a = f32(m)
        close(linalg.convolution_matrix(a, n, mode), scipy.linalg.convolution_matrix(a, n, mode), 0)
    assert linalg.convolution_matrix(f32(2, 3), 2).shape == (2, 4, 2)
    with pytest.raises(ValueError, match="positive"):
        linalg.convolution_matrix(f32(2), 0)


def test_companion_and_inverse_matrices() -> None:
    for n in range(2, 8):
        a = f32(n) + 3
        close(linalg.fiedler_companion(a), scipy.linalg.fiedler_companion(a))
    assert linalg.fiedler_companion(f32(1)).shape == (0, 0)
    assert linalg.fiedler_companion(f32(2, 5)).shape == (2, 4, 4)
    for n in (1, 3, 6):
        close(linalg.invhilbert(n), scipy.linalg.invhilbert(n))
        for kind in ("lower", "upper", "symmetric"):
            close(linalg.invpascal(n, kind), scipy.linalg.invpascal(n, kind))
    with pytest.raises(ValueError, match="kind"):
        linalg.invpascal(2, "x")


@pytest.mark.parametrize("options", [{}, {"conjugate": True}, {"pivoting": True}])
def test_qr_multiply(options: dict[str, bool]) -> None:
    for a, c, mode in (
        (f32(4, 3), f32(2, 4), "right"),
        (f32(4, 3), f32(3, 2), "left"),
        (f32(3, 4), f32(3), "right"),
        (f32(4, 3), f32(3), "left"),
        (f32(4, 3) + 1j * f32(4, 3), f32(2, 4), "right"),
    ):
        ours = linalg.qr_multiply(a, c, mode, **options)
        theirs = scipy.linalg.qr_multiply(a, c, mode, **options)
        for x, y in zip(ours, theirs, strict=True):
            close(np.abs(np.asarray(x)), np.abs(y))
    with pytest.raises(ValueError, match="c must have 4 columns, got 3"):
        linalg.qr_multiply(f32(4, 3), f32(2, 3))


A = f32(4, 4) + 3 * np.eye(4, dtype=np.float32)
B, C = f32(3, 3) + 3 * np.eye(3, dtype=np.float32), f32(4, 3)


def test_sylvester_equations() -> None:
    for a in (A, A + 1j * f32(4, 4)):
        expected = scipy.linalg.solve_sylvester(a, B, C)
        for method in ("schur", "eigen"):
            close(linalg.solve_sylvester(a, B, C, method=method), expected)
    pair = linalg.solve_sylvester(np.stack([A, 2 * A]), B, C)
    close(pair[1], scipy.linalg.solve_sylvester(2 * A, B, C))
    one = np.eye(2, dtype=np.float32)
    assert np.isnan(np.asarray(linalg.solve_sylvester(one, -one, one))).all()
    with pytest.raises(ValueError, match="Incompatible shapes"):
        linalg.solve_sylvester(A, A, C)
    with pytest.raises(ValueError, match="Unrecognized method"):
        linalg.solve_sylvester(A, B, C, method="x")


def test_derivatives_of_sylvester_equations() -> None:
    arguments = [x.astype(np.float64) for x in (A, B, C)]
    step = 1e-6
    with gn.enable_x64():
        found = gn.grad(lambda *xs: (linalg.solve_sylvester(*xs) ** 2).sum(), (0, 1, 2))(
            *map(gnp.array, arguments)
        )
    for i, slope in enumerate(found):
        sides = []
        for sign in (1, -1):
            moved = [x.copy() for x in arguments]
            moved[i][1, 2] += sign * step
            sides.append((scipy.linalg.solve_sylvester(*moved) ** 2).sum())
        expected = (sides[0] - sides[1]) / (2 * step)
        assert_each_near(slope[1, 2], expected, 64 * units_of_differences(step))


def test_functions_in_the_schur_form() -> None:
    t, z = (x.astype(np.float32) for x in scipy.linalg.schur(A))
    triangular, vectors = (np.asarray(x) for x in linalg.rsf2csf(t, z))
    close(vectors @ triangular @ vectors.conj().T, A)
    assert not np.tril(triangular, -1).any()
    for shapes in (((), (3,)), ((2, 1), (3,)), ((3,), ())):
        batch = np.broadcast_shapes(*shapes)
        results = linalg.rsf2csf(
            *(np.broadcast_to(x, (*n, *x.shape)) for n, x in zip(shapes, (t, z), strict=True))
        )
        for result, expected in zip(results, (triangular, vectors), strict=True):
            np.testing.assert_array_equal(result, np.broadcast_to(expected, (*batch, *A.shape)))
    close(linalg.funm(A, gnp.exp), scipy.linalg.expm(A), 32)
    result, error = linalg.funm(A, gnp.sin, disp=False)
    expected, estimate = scipy.linalg.funm(A, np.sin, disp=False)
    close(result, expected, 32)
    # The order of eigenvalues is not settled, so neither are the entries above them.
    assert estimate / 2 < float(error) < 2 * estimate
    with pytest.raises(ValueError, match="square"):
        linalg.funm(C, gnp.exp)


def test_scalars_are_no_operands_of_factorizations() -> None:
    a = np.eye(2, dtype=np.float32)
    with pytest.raises(ValueError, match="got a scalar"):
        linalg.qr_multiply(a, 2.0)
    with pytest.raises(ValueError, match="got a scalar"):
        linalg.lu_solve(linalg.lu_factor(a), 2.0)
