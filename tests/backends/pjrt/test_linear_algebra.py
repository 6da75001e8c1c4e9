"""Singular values and eigenvalues by rotations, on a plugin's device: the hard matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.lax.linalg
import gnomon.numpy as gnp
from gnomon.backends import platforms
from gnomon.backends.pjrt.backend import PjrtBackend
from tests.tolerance import assert_each_near, assert_near, unit

pytestmark = pytest.mark.pjrt

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def platform(backend: PjrtBackend) -> Iterator[None]:
    platforms.register("xla_cpu", lambda name: backend)
    yield
    platforms.unregister("xla_cpu")


def on_device(function: Any, *arguments: Any) -> Any:
    placed = gn.device_put(arguments, gn.devices("xla_cpu")[0])
    return gn.tree.map(np.asarray, gn.jit(function)(*placed))


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def adjoint(a: np.ndarray) -> np.ndarray:
    return a.conj().swapaxes(-1, -2)


def decaying(n: int) -> np.ndarray:
    """Hilbert's matrix: singular values down to far below rounding."""
    return (1 / (1 + np.add.outer(np.arange(n), np.arange(n)))).astype(np.float32)


def test_singular_values_of_matrices_of_all_ranks_and_sizes() -> None:
    complex_ones = (normal(3, 5) + 1j * normal(3, 5)).astype(np.complex64)
    small = [normal(6, 2) @ normal(2, 4), complex_ones, np.zeros((3, 2), np.float32)]
    huge = np.diag(np.float32([1e30, -1, 1e-30]))
    matrices = [*small, huge, normal(3, 3) * np.float32(1e-35), decaying(40), normal(0, 3)]
    found = on_device(lambda *all: [gnp.linalg.svd(a) for a in all], *matrices)
    for a, (u, s, vh) in zip(matrices, found, strict=True):
        m, n = a.shape
        assert (u.shape, vh.shape) == ((m, m), (n, n))
        # In units of the largest element, however small that is.
        size = np.abs(a).max(initial=0) or np.float32(1)
        units, count = 4 * max(m, n), min(m, n)
        restored = (u[:, :count] * s) @ vh[:count]
        assert_near(restored / size, a / size, units)
        expected = np.linalg.svd((a / size).astype(np.complex128), compute_uv=False)
        assert_near(s / size, expected, units)
        assert_near(adjoint(u) @ u, np.eye(m), units)
        assert_near(vh @ adjoint(vh), np.eye(n), units)


def test_clustered_eigenvalues() -> None:
    close = np.diag(np.repeat(np.float32([1, -1]), 8)) + np.float32(1e-6) * normal(16, 16)
    a = np.stack([close + close.T, np.eye(16, dtype=np.float32), np.ones((16, 16), np.float32)])
    values, vectors = on_device(gnp.linalg.eigh, a)
    bound = 16 * unit(np.float32) * np.linalg.norm(a, axis=(-2, -1))[:, None, None]
    assert (np.abs(a @ vectors - vectors * values[:, None]) <= bound).all()
    assert_each_near(values, np.linalg.eigvalsh(a), 64, scale=1.0)
    assert_near(adjoint(vectors) @ vectors, np.tile(np.eye(16), (3, 1, 1)), 64)


def test_a_member_that_is_not_finite_is_nan_and_no_other_is() -> None:
    a = normal(3, 4, 4)
    a[1, 2, 3] = np.nan
    a[2] = np.inf
    found = on_device(lambda a: (gnp.linalg.svd(a), gnp.linalg.eigh(a, UPLO="U")), a)
    for result in gn.tree.leaves(found):
        assert np.isfinite(result[0]).all() and np.isnan(result[1:]).all()


def test_derivatives_are_those_of_the_op() -> None:
    def f(a: Any) -> Any:
        u, s, vh = gnp.linalg.svd(a, full_matrices=False)
        spectral = gnp.sum(s * gnp.arange(1, 4)) + gnp.sum((u * s) @ vh)
        return spectral + gnp.linalg.det(a[:3]) + gnp.sum(gnp.linalg.pinv(a))

    a = normal(2, 4, 3)
    expected = gn.vmap(gn.grad(f))(a)
    units = 16 * np.linalg.cond(a).max() ** 2  # the units of the pseudoinverse's derivative
    assert_near(on_device(gn.vmap(gn.grad(f)), a), expected, units)


def test_systems_of_three_diagonals() -> None:
    diagonals = normal(3, 2, 5)
    diagonals[1, 1] = 0
    diagonals[:, 1, 2] = 0
    b = normal(2, 5, 3)
    found = on_device(gnomon.lax.linalg.tridiagonal_solve, *diagonals, b)
    lower, middle, upper = diagonals[:, 0]
    matrix = np.diag(middle) + np.diag(lower[1:], -1) + np.diag(upper[:-1], 1)
    expected = gnomon.lax.linalg.tridiagonal_solve(*diagonals, b)
    assert_near(found, expected, 8 * np.linalg.cond(matrix))
    assert np.isfinite(found[0]).all() and np.isnan(found[1]).all()
