"""`gnomon.scipy.linalg` against JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as theirs
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
import gnomon.scipy.linalg as ours
from tests.frontend.oracle import checks_in_one_program, sample, to_gnomon
from tests.frontend.test_linalg import positive, regular
from tests.tolerance import assert_near

# With well-conditioned operands, errors are at most some dozen units of the largest element.
CLOSE: dict[str, Any] = {"ulps": 64.0, "together": True, "weak": False}


@contextmanager
def one_program() -> Iterator[Callable[..., None]]:
    """Give a function that compares both functions of a name, at the end of the block."""
    with checks_in_one_program() as check:
        yield functools.partial(_equal, check)


def _equal(check: Callable[..., None], name: str, *args: Any, **kwargs: Any) -> None:
    check(getattr(ours, name), getattr(theirs, name), *args, **CLOSE, **kwargs)


def _solve_gradients(a: Any, b: Any, assume_a: str, lower: bool) -> Any:
    def loss(a: Any, b: Any) -> Any:
        return gnp.sum(gnp.abs(ours.solve(a, b, lower=lower, assume_a=assume_a)) ** 2)

    return gn.grad(loss, (0, 1))(to_gnomon(a), to_gnomon(b))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_factorizations_and_systems(dtype: str) -> None:
    with one_program() as equal:
        a, b = positive((3, 3), dtype), sample(dtype, (3, 2))
        for lower in (True, False):
            equal("cholesky", a, lower=lower)
            equal("cho_solve", (theirs.cholesky(a, lower=lower), lower), b)
            equal("solve", a, b, assume_a="pos", lower=lower)
            gradients = [_solve_gradients(a, b, assumed, lower) for assumed in ("pos", "gen")]
            for by_factor, by_elimination in zip(*gradients, strict=True):
                np.testing.assert_allclose(by_factor, by_elimination, rtol=1e-4, atol=1e-5)
            for trans in (0, 1, 2, "T", "no"):
                equal("solve_triangular", a, b, trans=trans, lower=lower)
        x = regular((3, 3), dtype)[jnp.array([2, 0, 1])]
        for trans in (0, 1, 2):
            equal("lu_solve", theirs.lu_factor(x), b, trans=trans)
            equal("lu_solve", theirs.lu_factor(x), b[:, 0], trans=trans)
        for y in (x, x[:2], x[:, :2]):
            equal("lu", y)
            equal("lu", y, permute_l=True)
            equal("lu_factor", y)
            for mode in ("full", "economic", "r", "no"):
                equal("qr", y, mode=mode)
        equal("qr", x, pivoting=True, mode="r")
        equal("inv", x)
        equal("det", x)
        equal("svd", x, compute_uv=False)
        equal("eigh", a, eigvals_only=True)
        equal("hessenberg", x)
        equal("hessenberg", x, calc_q=True)
        equal("expm", x / 4)
        equal("expm", sample(dtype, (2, 3, 3)), max_squarings=8)
        equal("expm_frechet", x / 4, x / 3)
        equal("sqrtm", a)
        equal("polar", x, method="svd")
        equal("polar", x, "left", method="svd")
    t, z = ours.schur(to_gnomon(x), output="complex")
    assert_near(z @ t @ z.conj().T, x, 64)
    assert not np.tril(t, -1).any()


def test_permutations_of_lu_are_found_in_64_bits() -> None:
    with gn.enable_x64(True):
        x = gnp.array([[1.0, 2.0], [4.0, 6.0]])
        permutation, lower, upper = gn.scipy.linalg.lu(x)
        assert permutation.dtype == np.float64
        np.testing.assert_array_equal(np.asarray(permutation @ lower @ upper), np.asarray(x))


def test_leslie_without_rank_promotion() -> None:
    rows, rates = np.arange(6.0).reshape(2, 3), np.arange(4.0).reshape(2, 2)
    with gn.numpy_rank_promotion("raise"):
        matrices = ours.leslie(rows, rates)
    for matrix, row, rate in zip(matrices, rows, rates, strict=True):
        np.testing.assert_array_equal(matrix, theirs.leslie(row, rate))


@pytest.mark.slow
def test_the_rest() -> None:
    with one_program() as equal:
        d, e = sample("float32", (4,)), sample("float32", (3,))
        equal("eigh_tridiagonal", d, e, eigvals_only=True)
        equal("eigh_tridiagonal", d, e, eigvals_only=True, select="i", select_range=(1, 2))
        equal("eigh_tridiagonal", d, e, select="v")
        equal("expm", jnp.full((2, 2), 1e8))
        equal("expm", jnp.triu(regular((3, 3))) / 4, upper_triangular=True)
        equal("expm", jnp.ones((2, 3)))
        equal("expm", jnp.zeros((3, 3)))
        equal("block_diag", jnp.ones((1, 2)), 3, jnp.arange(2))
        equal("block_diag")
        equal("block_diag", jnp.ones((1, 2, 2)))
        c, r = jnp.arange(3), jnp.array([7.0, 8.0])
        for name in ("toeplitz", "hankel"):
            equal(name, c)
            equal(name, c, r)
            equal(name, sample("complex64", (2, 3)))
            equal(name, jnp.zeros(0))
        equal("circulant", c)
        equal("companion", jnp.array([2.0, 3.0, 4.0]))
        equal("companion", r[:1])
        equal("leslie", jnp.arange(3.0), r)
        equal("leslie", r, r)
        equal("fiedler", sample("float32", (2, 3)))
        for n in (1, 3):
            equal("hilbert", n)
            equal("helmert", n)
            equal("helmert", n, full=True)
            equal("pascal", n)
            equal("pascal", n, kind="lower")
            equal("dft", n, "sqrtn")
        equal("hadamard", 4)
        equal("hadamard", 3)
        equal("dft", 4, "no")


@pytest.mark.slow
def test_gradients() -> None:
    x = regular((2, 3, 3)) / 5
    cases = {
        "expm": lambda m, np_, x: m.expm(x),
        "cho": lambda m, np_, x: m.cho_solve(m.cho_factor(x @ x.T + np_.eye(3)), x),
        "lu": lambda m, np_, x: m.lu_solve(m.lu_factor(x), x**2, trans=1),
        "toeplitz": lambda m, np_, x: m.toeplitz(x[0], x[1]) ** 2,
    }
    for name, case in cases.items():

        def of(m: Any, np_: Any, case: Any = case) -> Any:
            return lambda x: np_.sum(np_.cos(case(m, np_, x)) * np_.arange(3.0))

        found = gn.vmap(gn.grad(of(ours, gnp)))(to_gnomon(x))
        expected = jax.jit(jax.vmap(jax.grad(of(theirs, jnp))))(x)
        assert_near(found, expected, 128, message=name)


def _sampled(random: Any, key: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(random, name)(key, *args, **kwargs)


def test_samples_by_factorizations() -> None:
    pair = (gn.random.key(3), jax.random.key(3))
    samplers = (
        functools.partial(_sampled, gn.random, pair[0]),
        functools.partial(_sampled, jax.random, pair[1]),
    )
    with checks_in_one_program() as check:
        same = functools.partial(check, *samplers, **CLOSE)
        same("orthogonal", 3)
        same("orthogonal", 2, (2,), m=4)
        cov = positive((2, 2))
        same("multivariate_normal", jnp.arange(2.0), cov)
        same("multivariate_normal", jnp.ones((3, 1, 2)), cov, (3, 2))
        same("multivariate_normal", jnp.arange(2.0), cov, (4,), method="no")
        same("multivariate_normal", jnp.arange(3.0), cov)
    for ours_, theirs_ in (
        (gn.nn.initializers.orthogonal, jax.nn.initializers.orthogonal),
        (gn.nn.initializers.delta_orthogonal, jax.nn.initializers.delta_orthogonal),
    ):
        assert_near(ours_(2.0)(pair[0], (3, 2, 4)), theirs_(2.0)(pair[1], (3, 2, 4)), 64)
