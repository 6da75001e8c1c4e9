"""Factorizations by the library without threads: NumPy's results, on both sides of the limits."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

from gnomon_runtime.linear_algebra import factorizations, systems, unthreaded
from gnomon_runtime.linear_algebra.openblas import load_without_threads
from tests.tolerance import assert_near

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
BATCHES: list[tuple[int, ...]] = [(), (3,), (2, 2)]
TRIANGLES: tuple[Literal["L", "U"], ...] = ("L", "U")


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of a machine with two cores, whatever this one has."""
    monkeypatch.setattr(unthreaded, "most_elements", lambda: 2048 * 2048)


pytestmark = pytest.mark.skipif(
    load_without_threads() is None, reason="NumPy ships no OpenBLAS that could run without threads"
)


def draw(*shape: int, dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def positive(*shape: int, dtype: Any) -> np.ndarray:
    x = draw(*shape, shape[-1], dtype=dtype)
    n = shape[-1]
    return (x @ x.conj().swapaxes(-1, -2) / n + np.eye(n)).astype(dtype)


def assert_close(found: Any, expected: Any, units: float = 1e4) -> None:
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    assert_near(found, expected, units)


def rows(function: str, below: bool) -> int:
    """A number of rows on one side of the least size that the library factors."""
    fewest = unthreaded._FEWEST.get(function, unthreaded._FEWEST_OTHERS)
    return round(fewest**0.5) - below


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_square_matrices(dtype: Any, batch: tuple[int, ...], below: bool) -> None:
    for uplo in TRIANGLES:
        n = rows("eigh", below)
        a = positive(*batch, n, dtype=dtype)
        # Only one triangle is read.
        half = np.tril(a) if uplo == "L" else np.triu(a)
        assert unthreaded.applies("eigh", half) is not below
        values, vectors = unthreaded.eigh(half, uplo)
        assert_close(values, np.linalg.eigvalsh(half, uplo))
        assert_close(a @ vectors, vectors * values[..., None, :])
        assert_close(unthreaded.eigvalsh(half, uplo), values)
    n = rows("cholesky", below)
    a = positive(*batch, n, dtype=dtype)
    assert unthreaded.applies("cholesky", a) is not below
    assert_close(unthreaded.cholesky(a), np.linalg.cholesky(a))
    b = draw(*batch, n, 7, dtype=dtype)
    assert_close(unthreaded.solve(a, b), np.linalg.solve(a, b))
    wide = draw(*batch, n, 3 * n, dtype=dtype)
    assert_close(unthreaded.solve(a, wide), np.linalg.solve(a, wide))
    assert_close(unthreaded.det(a), np.linalg.det(a))
    general = draw(*batch, n, n, dtype=dtype)
    for found, expected in zip(
        unthreaded.slogdet(general), np.linalg.slogdet(general), strict=True
    ):
        assert_close(found, expected)


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues_of_general_matrices(dtype: Any, batch: tuple[int, ...], below: bool) -> None:
    a = draw(*batch, rows("eig", below), rows("eig", below), dtype=dtype)
    values, vectors = unthreaded.eig(a)
    assert_close(a @ vectors, vectors * values[..., None, :], 1e5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-2), 1, rtol=1e-5)
    # The order of the values depends on their rounding.
    assert_close(np.sort_complex(unthreaded.eigvals(a)), np.sort_complex(values), 1e5)
    real_only = positive(*batch, a.shape[-1], dtype=dtype)
    values, vectors = unthreaded.eig(real_only)
    assert_close(real_only @ vectors, vectors * values[..., None, :].astype(vectors.dtype), 1e5)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("shape", [(44, 44), (60, 44), (44, 60), (500, 5), (5, 500), (43, 45)])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rectangular_matrices(dtype: Any, batch: tuple[int, ...], shape: tuple[int, int]) -> None:
    a = draw(*batch, *shape, dtype=dtype)
    k = min(shape)
    for full_matrices in (False, True):
        q, r = unthreaded.qr(a, full_matrices)
        expected = np.linalg.qr(a, mode="complete" if full_matrices else "reduced")
        for found, one in zip((q, r), expected, strict=True):
            assert_close(found, one)
        u, values, vh = unthreaded.svd(a, full_matrices)
        expected_svd = np.linalg.svd(a, full_matrices=full_matrices)
        assert_close(values, expected_svd[1])
        assert (u.shape, vh.shape) == (expected_svd[0].shape, expected_svd[2].shape)
        assert_close(u[..., :k] * values[..., None, :] @ vh[..., :k, :], a)
        assert_close(
            u.conj().swapaxes(-1, -2) @ u,
            np.broadcast_to(np.eye(u.shape[-1], dtype=dtype), (*batch, *[u.shape[-1]] * 2)),
        )
    assert_close(unthreaded.svdvals(a), np.linalg.svd(a, compute_uv=False))
    packed, taus = np.linalg.qr(a, mode="raw")
    for found, one in zip(unthreaded.geqrf(a), (packed.swapaxes(-1, -2), taus), strict=True):
        assert_close(found, one)


def test_transposed_and_strided_operands() -> None:
    a = positive(3, 60, dtype=np.complex128)
    assert_close(unthreaded.cholesky(a.swapaxes(-1, -2)), np.linalg.cholesky(a.swapaxes(-1, -2)))
    b = draw(3, 60, 60, dtype=np.float64)[:, ::-1]
    before = b.copy()
    assert_close(unthreaded.det(b), np.linalg.det(b))
    assert_close(unthreaded.solve(b, b), np.broadcast_to(np.eye(60), b.shape))
    assert (b == before).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_matrix_that_fails_is_nan_and_the_others_are_not(dtype: Any) -> None:
    good = positive(60, dtype=dtype)
    batch = np.stack([good, -good, np.full_like(good, np.nan)])
    lower = np.tri(60, dtype=bool)
    factor = factorizations.cholesky(batch)
    assert_close(factor[0], np.linalg.cholesky(good))
    assert np.isnan(factor[1:, lower]).all() and not factor[:, ~lower].any()
    batch[2, 0, 0] = np.inf
    vectors, values = factorizations.eigh(batch, lower=True)
    assert np.isfinite(vectors[:2]).all() and np.isfinite(values[:2]).all()
    assert not np.isfinite(values[2]).any()
    for found in (
        factorizations.svd(batch, full_matrices=False, compute_uv=True),
        factorizations.svd(batch, full_matrices=False, compute_uv=False),
        factorizations.eig(
            batch, compute_left=False, compute_right=True, enable_eigvec_derivs=False
        ),
    ):
        for one in found:
            assert np.isfinite(one[:2]).all() and np.isnan(one[2]).all()


def test_singular_matrices() -> None:
    ones = np.ones((60, 60))
    batch = np.stack([positive(60, dtype=np.float64), ones])
    with np.errstate(all="ignore"):
        x = systems.solve(batch, np.ones((2, 60, 1)), transpose_a=False)
    assert_close(x[0], np.linalg.solve(batch[0], np.ones((60, 1))))
    assert not np.isfinite(x[1]).any()
    assert unthreaded.det(ones) == 0 and not np.signbit(unthreaded.det(ones))
    assert tuple(unthreaded.slogdet(ones)) == (0, -np.inf)
    sign, log = systems.slogdet(np.full((60, 60), np.nan))
    assert np.isnan(sign) and np.isnan(log)
    turned = np.roll(np.eye(60), 1, 0)
    assert unthreaded.det(turned) == np.linalg.det(turned) == -1


EMPTY: list[tuple[Callable[[np.ndarray], Any], tuple[int, ...]]] = [
    (unthreaded.cholesky, (0, 60, 60)),
    (unthreaded.det, (0, 60, 60)),
    (unthreaded.svdvals, (0, 60, 60)),
    (unthreaded.cholesky, (0, 0)),
    (unthreaded.det, (0, 0)),
    (unthreaded.eigvals, (1, 1)),
]


@pytest.mark.parametrize(("function", "shape"), EMPTY)
def test_empty_and_small_matrices_are_left_to_numpy(
    function: Callable[[np.ndarray], Any], shape: tuple[int, ...]
) -> None:
    expected = {unthreaded.svdvals: lambda a: np.linalg.svd(a, compute_uv=False)}
    by_numpy: Any = expected.get(function) or getattr(np.linalg, function.__name__)
    found = function(np.ones(shape))
    assert found.shape == by_numpy(np.ones(shape)).shape


def test_the_log_says_what_computes_a_matrix_and_why(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.eye(60)
    large = np.broadcast_to(1.0, (2048, 2048))
    with caplog.at_level(logging.DEBUG, unthreaded.__name__):
        assert unthreaded.applies("det", a)
        assert not unthreaded.applies("det", a[:43, :43])
        assert unthreaded.applies("det", large[1:])
        assert not unthreaded.applies("det", large)
        assert not unthreaded.applies("det", a.astype(np.longdouble))
        monkeypatch.setattr(unthreaded, "load_without_threads", lambda: None)
        assert not unthreaded.applies("det", a)
    texts = [record.message for record in caplog.records]
    assert texts[0] == "det of float64[60, 60]: in one thread"
    assert texts[1].endswith("by NumPy, for it has 1849 elements, not 1936 to 4194303")
    assert texts[-1].endswith("by NumPy, for there is no OpenBLAS without threads")
    assert_close(unthreaded.cholesky(a), a)


@pytest.mark.parametrize(("cores", "rows"), [(1, 0), (2, 2048), (4, 1024), (8, 512), (64, 512)])
def test_more_cores_leave_more_to_threads(
    cores: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores), raising=False)
    assert unthreaded.most_elements.__wrapped__() == rows * rows


def test_no_other_thread_computes() -> None:
    program = """
import time, numpy as np
from gnomon_runtime.linear_algebra import factorizations, elimination, systems
a = np.random.default_rng(0).standard_normal((128, 128))
def factor():
    factorizations.eigh(a + a.T, lower=True)
    factorizations.qr(a, full_matrices=False, pivoting=False)
    elimination.factor(a)
    systems.solve(a, a, transpose_a=False)
factor()
process, thread = time.process_time(), time.thread_time()
for _ in range(5):
    factor()
others = (time.process_time() - process) - (time.thread_time() - thread)
assert others < 0.2 * (time.thread_time() - thread), others
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
