"""Linear algebra against JAX: values, types, errors; gradients, batches."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from tests import sample as sampling
from tests.frontend.oracle import check, checks_in_one_program, sample, to_gnomon
from tests.newest_jax import IS_NEWEST
from tests.tolerance import assert_near

jax.config.update("jax_enable_x64", False)

# With well-conditioned operands, errors are at most a dozen units of the largest element.
ULPS = 32.0


def regular(shape: tuple[int, ...], dtype: Any = "float32", seed: int = 0) -> jax.Array:
    """Matrices far from singular, with well separated eigenvalues and singular values."""
    steps = (np.eye(*shape[-2:]) * (4 + 3 * np.arange(shape[-1]))).astype(dtype)
    return jnp.asarray(np.asarray(sample(dtype, shape, seed, -1, 1)) + steps)


def positive(shape: tuple[int, ...], dtype: Any = "float32") -> jax.Array:
    x = np.asarray(sample(dtype, shape, 1, -1, 1))
    spread = np.diag(2 + 3 * np.arange(shape[-1])).astype(dtype)
    return jnp.asarray(x @ x.conj().swapaxes(-1, -2) + spread)


def equal(name: str, *args: Any, module: str = "numpy", check: Any = check, **kwargs: Any) -> None:
    ours = getattr({"numpy": gnp.linalg, "lax": gn.lax.linalg}[module], name)
    theirs = getattr({"numpy": jnp.linalg, "lax": jax.lax.linalg}[module], name)
    check(ours, theirs, *args, ulps=ULPS, together=True, weak=False, **kwargs)


@contextmanager
def one_program() -> Iterator[Callable[..., None]]:
    """Give an `equal` whose calls are checked at the end of the block."""
    with checks_in_one_program() as check:
        yield functools.partial(equal, check=check)


SHAPES = [(3, 3), (1, 1), (0, 0), (2, 0, 3, 3), (2, 3, 3)]
SQUARE = [
    *((regular(shape), str(shape)) for shape in SHAPES),
    (regular((3, 3), "complex64"), "c64"),
    (jnp.asarray(np.array([[2, 1], [2, 5]], np.int32)), "i32"),
]


@pytest.mark.parametrize("x", [pytest.param(x, id=label) for x, label in SQUARE])
def test_functions_of_square_matrices(x: jax.Array) -> None:
    with one_program() as equal:
        for name in ("inv", "det", "slogdet", "svdvals", "pinv", "eigvalsh"):
            equal(name, x)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        *((shape, "float32") for shape in ((3, 3), (2, 0, 3, 3), (4, 3), (3, 0), (0, 3))),
        ((1, 1), "complex64"),
        ((2, 3, 5), "complex64"),
        pytest.param((2, 3, 3), "complex64", marks=pytest.mark.slow),
        pytest.param((4, 3), "complex64", marks=pytest.mark.slow),
    ],
)
def test_factorizations(shape: tuple[int, ...], dtype: str) -> None:
    x = regular(shape, dtype)
    with one_program() as equal:
        equal("lu", x, module="lax")
        if 0 in shape[-2:]:
            return
        for mode in ("reduced", "complete", "r", "raw"):
            equal("qr", x, mode=mode)
        if shape[-1] == shape[-2]:
            a = positive(shape, dtype)
            equal("cholesky", a)
            equal("cholesky", a, upper=True)
            equal("eigvals", x)
    for full in (True, False):
        u, s, vh = gnp.linalg.svd(to_gnomon(x), full_matrices=full)
        theirs = jnp.linalg.svd(x, full_matrices=full)
        assert (u.shape, s.shape, vh.shape) == tuple(t.shape for t in theirs)
        k = s.shape[-1]
        again = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
        assert_near(again, x, 4)
        assert_near(s, theirs[1], 8)
    if shape[-1] == shape[-2]:
        w, v = gnp.linalg.eigh(to_gnomon(a))
        assert_near(to_gnomon(a) @ v, v * w[..., None, :], 4)
        w, v = gnp.linalg.eig(to_gnomon(x))
        assert w.dtype == v.dtype == np.dtype("complex64")
        assert_near(to_gnomon(x) @ v, v * w[..., None, :], 4)


def test_solve_broadcasts_as_jax() -> None:
    with one_program() as equal:
        for a, b in (
            ((3, 3), (3,)),
            ((3, 3), (3, 2)),
            ((3, 3), (2, 3, 2)),
            ((2, 1, 3, 3), (4, 3, 2)),
            ((2, 3, 3), (3,)),
            ((0, 0), (0, 2)),
            ((2, 0, 3, 3), (3, 1)),
            ((3, 3), (2,)),
            ((3, 2), (3,)),
            ((3,), (3,)),
            ((2, 3, 3), (2, 3)),
        ):
            for dtype in ("float32", "complex64"):
                matrix = regular(a, dtype) if len(a) > 1 else sample(dtype, a)
                equal("solve", matrix, sample("float32", b))


def test_triangular_solve() -> None:
    a, b = regular((2, 3, 3), "complex64"), sample("complex64", (2, 3, 3))
    matrix, vector = regular((3, 3), "complex64", 2), sample("complex64", (3,))
    with one_program() as equal:
        for left_side, lower, transpose_a in itertools.product((True, False), repeat=3):
            flags = {"left_side": left_side, "lower": lower, "transpose_a": transpose_a}
            equal("triangular_solve", a, b, module="lax", conjugate_a=True, **flags)
            equal("triangular_solve", a, b, module="lax", unit_diagonal=True, **flags)
            equal("triangular_solve", matrix, vector, module="lax", **flags)
            equal("triangular_solve", a, sample("complex64", (2, 4, 4)), module="lax", **flags)


def test_the_rest_of_lax_linalg() -> None:
    with one_program() as equal:
        a, taus = sample("float32", (2, 4, 3)), sample("float32", (2, 3), low=0, high=1)
        equal("householder_product", a, taus, module="lax")
        equal("householder_product", sample("complex64", (4, 3)), taus[0] + 0j, module="lax")
        equal("householder_product", a, taus[0], module="lax")
        for left, transpose in ((True, False), (True, True), (False, True)):
            c = sample("float32", (2, 4, 4))
            equal("ormqr", a, taus, c, module="lax", left=left, transpose=transpose)
        equal(
            "symmetric_product", a, sample("float32", (2, 4, 4)), module="lax", alpha=2.0, beta=0.5
        )
        equal("lu_pivots_to_permutation", jnp.array([[2, 1, 2], [0, 2, 2]]), 4, module="lax")
        for dtype in ("float32", "complex64"):
            x = regular((2, 4, 4), dtype)
            equal("hessenberg", x, module="lax")
            equal("tridiagonal", x, module="lax")
            equal("tridiagonal", x, module="lax", lower=False)
            t, q = gn.lax.linalg.schur(to_gnomon(x))
            assert_near(q @ t @ q.conj().mT, x, 4)
        diagonals = [sample("float32", (2, 5), seed) for seed in range(3)]
        equal("tridiagonal_solve", *diagonals, sample("float32", (2, 5, 3)), module="lax")
        equal("tridiagonal_solve", *diagonals, sample("float32", (2, 4, 3)), module="lax")
        equal(
            "tridiagonal_solve", *(jnp.zeros(3) for _ in range(3)), jnp.ones((3, 1)), module="lax"
        )
        equal("qr", regular((5, 3)), module="lax", pivoting=True)
        equal("qr", regular((3, 5), "complex64"), module="lax", pivoting=True, full_matrices=False)
        x = to_gnomon(regular((3, 3), "complex64"))
        w, left, _ = gn.lax.linalg.eig(x)
        assert_near(left.conj().T @ x, w[:, None] * left.conj().T, 4)
        equal("svd", regular((3, 3)), module="lax", subset_by_index=(0, 2), full_matrices=False)
    # JAX refuses these when it lowers them.
    equal("cholesky", jnp.eye(2, dtype="bfloat16"), module="lax")
    equal("lu", jnp.eye(2, dtype="int32"), module="lax")


def test_vector_norms() -> None:
    x = sample("float32", (4, 3))
    with one_program() as equal:
        for order in [None, 1, 2, 3, -1, 0.5, 0, np.inf, -np.inf, "fro"]:
            equal("norm", x, order, axis=0)
            equal("norm", x, order, axis=-1, keepdims=True)
            equal("norm", sample("complex64", (4,)), order)
            equal("norm", jnp.array([3, -4]), order)
            equal("vector_norm", x, ord=order)
            equal("vector_norm", x, ord=order, axis=(0, 1), keepdims=True)


def test_matrix_norms() -> None:
    x = sample("float32", (2, 4, 3))
    with one_program() as equal:
        for order in [None, 1, 2, -1, -2, np.inf, -np.inf, "fro", "nuc", 3, "no"]:
            equal("norm", x, order, axis=(0, 2))
            equal("norm", x, order, axis=(2, 1), keepdims=True)
            equal("norm", x[0], order)
            equal("norm", x, order, axis=(0, 1, 2))
            if order is not None:
                equal("matrix_norm", x, ord=order)
            if order != "nuc":
                equal("cond", regular((3, 3)), order)


def test_systems_and_products() -> None:
    with one_program() as equal:
        a, b = sample("float32", (5, 3)), sample("float32", (5, 2))
        equal("lstsq", a, b)
        equal("lstsq", a, b[:, 0], rcond=0.1)
        equal("lstsq", a.T, sample("float32", (3,)), numpy_resid=True)
        equal("lstsq", jnp.ones((3, 2)), jnp.arange(3.0))
        equal("lstsq", a, b[:2])
        equal("lstsq", jnp.zeros((3, 0)), jnp.ones((3, 2)))
        equal("pinv", jnp.ones((2, 3)))
        equal("pinv", a, rtol=0.3)
        equal("pinv", regular((2, 3, 3), "complex64"), hermitian=True)
        equal("pinv", a, 0.1, rcond=0.1)
        for n in (-2, -1, 0, 1, 3):
            equal("matrix_power", regular((2, 2)), n)
        equal("matrix_power", jnp.arange(4).reshape(2, 2), 3)
        equal("matrix_power", a, 2)
        equal("matrix_rank", jnp.ones((2, 3, 3)))
        equal("matrix_rank", jnp.ones(3))
        equal("matrix_rank", regular((3, 3)), rtol=5.0)
        equal("matrix_rank", regular((3, 3)), hermitian=True)
        equal("tensorinv", jnp.eye(6).reshape(2, 3, 6) * 2)
        equal("tensorinv", jnp.ones((2, 3)), 1)
        equal("tensorsolve", regular((6, 6)).reshape(2, 3, 6), sample("float32", (2, 3)))
        equal("tensorsolve", regular((6, 6)).reshape(6, 2, 3), sample("float32", (6,)))
        equal("multi_dot", [a.T, b, sample("float32", (2,))])
        equal("multi_dot", [a.T, a.T])
        equal("cross", sample("float32", (2, 3)), sample("float32", (3,)))
        equal("cross", sample("float32", (2, 2)), sample("float32", (2, 2)))
        equal("outer", sample("float32", (2,)), jnp.arange(3))
        equal("outer", a, b)
        equal("trace", sample("float32", (2, 3, 4)), offset=1)
        equal("diagonal", sample("float32", (2, 3, 4)), offset=-1)
        equal("matrix_transpose", a)
        equal("vecdot", a, a)
        equal("matmul", a.T, b)
        equal("tensordot", a, b, axes=1)


def test_outer_of_booleans() -> None:
    for a, b in (([True, False], [True, True, False]), ([[True], [False]], [True])):
        x, y = np.array(a), np.array(b)
        np.testing.assert_array_equal(gnp.outer(x, y), np.outer(x, y), strict=True)
        np.testing.assert_array_equal(gn.jit(gnp.outer)(x, y), np.outer(x, y), strict=True)
    equal("outer", np.array([True, False]), np.array([True, True, False]))


def test_hermitian_svd() -> None:
    x = positive((3, 3), "complex64") - 6 * jnp.eye(3)
    equal("svd", x, compute_uv=False, hermitian=True)
    u, s, vh = gnp.linalg.svd(to_gnomon(x), hermitian=True)
    assert_near((u * s) @ vh, x, 4)
    for singular in (np.diag([1.0, 0.0]), np.zeros((2, 2)), np.diag([0.0, -2.0])):
        for factor in gnp.linalg.svd(singular.astype(np.float32), hermitian=True)[::2]:
            assert_near(factor.T @ factor, np.eye(2), 4)


def test_failures_are_nan_as_in_jax() -> None:
    with one_program() as equal:
        for bad in (-jnp.eye(2), jnp.full((2, 2), jnp.nan), jnp.zeros((2, 2))):
            batch = jnp.stack([jnp.eye(2), bad])
            equal("cholesky", batch)
            equal("slogdet", batch)
            equal("eigh", batch)
            equal("svd", batch, compute_uv=False)
            equal("eigvals", batch)
        equal("solve", jnp.zeros((2, 2)), jnp.ones(2))
        equal("inv", jnp.ones((2, 2)))
        equal("det", jnp.ones((4, 4)))


@pytest.mark.parametrize("name", ["cholesky", "svd", "qr", "inv", "eigh", "det", "slogdet", "eig"])
def test_errors_as_in_jax(name: str) -> None:
    half = jnp.eye(4, dtype="float16")
    if IS_NEWEST:  # JAX raises a TypeError since 0.12, in the place of a NotImplementedError.
        with pytest.raises(TypeError, match="float16"):
            getattr(jnp.linalg, name)(half)
        with pytest.raises(NotImplementedError, match="float16"):
            getattr(gnp.linalg, name)(to_gnomon(half))
    else:
        equal(name, half)
    if name not in ("svd", "qr", "cholesky", "eigh", "eig"):
        equal(name, jnp.ones((2, 3)))
    with pytest.raises((TypeError, ValueError)):
        getattr(gnp.linalg, name)(gnp.ones(3))


# ------------------------------------------------------------------------------------ derivatives


def _pair(build: Callable[[Any, Any], Callable[..., Any]]) -> tuple[Any, Any]:
    return build(gnp, gn.lax.linalg), build(jnp, jax.lax.linalg)


FUNCTIONS: dict[str, Callable[[Any, Any], Callable[..., Any]]] = {
    "cholesky": lambda np_, lax: lambda x: np_.linalg.cholesky(x @ x.T + np_.eye(3)),
    "lower cholesky": lambda np_, lax: (
        lambda x: lax.cholesky(x @ x.T + np_.eye(3), symmetrize_input=False) ** 2
    ),
    "triangular_solve": lambda np_, lax: lambda x: lax.triangular_solve(x, x**2, lower=True),
    "lu": lambda np_, lax: lambda x: lax.lu(x)[0],
    "lu wide": lambda np_, lax: lambda x: lax.lu(x[:2])[0],
    "solve": lambda np_, lax: lambda x: np_.linalg.solve(x, x[0] ** 2),
    "inv": lambda np_, lax: lambda x: np_.linalg.inv(x) * x,
    "det": lambda np_, lax: lambda x: np_.linalg.det(np_.kron(x / 6, np_.eye(2))),
    "det 3": lambda np_, lax: lambda x: np_.linalg.det(x),
    "slogdet": lambda np_, lax: lambda x: np_.linalg.slogdet(x)[1],
    "qr": lambda np_, lax: lambda x: np_.linalg.qr(x)[0] * np_.linalg.qr(x)[1],
    "qr tall": lambda np_, lax: lambda x: np_.linalg.qr(x[:, :2])[0] ** 3,
    "qr wide": lambda np_, lax: lambda x: np_.linalg.qr(x[:2])[1] ** 2,
    "qr full": lambda np_, lax: lambda x: lax.qr(x[:, :2])[0] ** 3,
    "svd": lambda np_, lax: lambda x: np_.abs(np_.linalg.svd(x)[0]) * np_.linalg.svd(x)[1],
    "svd wide": lambda np_, lax: (
        lambda x: np_.abs(np_.linalg.svd(x[:2], full_matrices=False)[2]) ** 3
    ),
    "svdvals": lambda np_, lax: lambda x: np_.linalg.svdvals(x[:2]) ** 2,
    "eigh": lambda np_, lax: lambda x: np_.linalg.eigh(x)[1] ** 2 * np_.linalg.eigh(x)[0],
    "eigvalsh": lambda np_, lax: lambda x: np_.linalg.eigvalsh(x) ** 1.5,
    "eigvals": lambda np_, lax: lambda x: np_.abs(np_.linalg.eigvals(x)) ** 2,
    "eig": lambda np_, lax: lambda x: np_.abs(lax.eig(x, enable_eigvec_derivs=True)[2]) ** 3,
    "pinv": lambda np_, lax: lambda x: np_.linalg.pinv(x[:, :2]) ** 2,
    "lstsq": lambda np_, lax: lambda x: np_.linalg.lstsq(x[:, :2], x[:, 2])[0],
    "matrix_power": lambda np_, lax: lambda x: np_.linalg.matrix_power(x, -2),
    "norm": lambda np_, lax: lambda x: np_.linalg.norm(x, "nuc") + np_.linalg.norm(x, 3, axis=0),
}


def _gradient(np_: Any, function: Any, grad: Any) -> Any:
    return grad(lambda x: np_.sum(function(x) * np_.cos(function(x))))


def _condition(function: Any, x: Any) -> float:
    """The factor by which `_gradient` magnifies errors: for an angle f, cos f is off by f units."""
    values = gn.vmap(function)(to_gnomon(x))
    return max(8.0, float(np.abs(np.asarray(values)).max()))


def test_gradients_over_a_batch() -> None:
    x = regular((2, 3, 3), seed=5)
    pairs = {name: _pair(FUNCTIONS[name]) for name in sampling.sample(FUNCTIONS, 5, __name__)}

    @jax.jit
    def expected(x: Any) -> dict[str, Any]:
        return {n: jax.vmap(_gradient(jnp, f, jax.grad))(x) for n, (_, f) in pairs.items()}

    for name, theirs in expected(x).items():
        ours = pairs[name][0]
        found = gn.vmap(_gradient(gnp, ours, gn.grad))(to_gnomon(x))
        assert_near(found, theirs, 8 * _condition(ours, x), scale=1.0, message=name)


@pytest.mark.slow
@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"eigvals"}))  # JAX's are refused
def test_second_derivatives(name: str) -> None:
    x = regular((3, 3), seed=5)
    ours, theirs = _pair(FUNCTIONS[name])
    first, expected = _gradient(gnp, ours, gn.grad), _gradient(jnp, theirs, jax.grad)
    assert_near(
        gn.grad(lambda x: gnp.sum(first(x) ** 2))(to_gnomon(x)),
        jax.jit(jax.grad(lambda x: jnp.sum(expected(x) ** 2)))(x),
        2**14,  # for derivatives of functions that magnify errors themselves
        scale=1.0,
    )


@pytest.mark.slow
def test_complex_gradients() -> None:
    x = regular((3, 3), "complex64")

    for name in ("inv", "cholesky", "slogdet", "eigvals", "pinv", "svdvals"):

        def value(x: Any, np_: Any, name: str = name) -> Any:
            given = x @ x.conj().T + np_.eye(3) if name == "cholesky" else x
            result = getattr(np_.linalg, name)(given)
            result = result[0] if name == "slogdet" else result
            return np_.sum(np_.real(result) * np_.arange(float(result.size)).reshape(result.shape))

        ours = gn.grad(lambda x: value(x, gnp))(to_gnomon(x))
        theirs = jax.jit(jax.grad(lambda x: value(x, jnp)))(x)
        assert_near(ours, theirs, 16 * ULPS)


def test_ops_without_derivatives_raise() -> None:
    x = to_gnomon(regular((3, 3)))
    with pytest.raises(NotImplementedError, match="householder_product"):
        gn.grad(lambda x: gn.lax.linalg.householder_product(x, x[0]).sum())(x)
    with pytest.raises(NotImplementedError, match="eigenvectors"):
        gn.grad(lambda x: gnp.abs(gnp.linalg.eig(x)[1]).sum())(x)
    with pytest.raises(NotImplementedError, match="full_matrices"):
        gn.grad(lambda x: gnp.linalg.svd(x[:2])[0].sum())(x)


def test_the_gradient_of_det_of_singular_matrices() -> None:
    x = np.diag([1.0, 2.0, 3.0, 0.0]).astype("float32")
    ours = gn.grad(gnp.linalg.det)(gnp.asarray(x))
    assert_near(ours, jax.grad(jnp.linalg.det)(x), 8)


def test_second_derivatives_of_eigenvalues() -> None:
    x = to_gnomon(regular((3, 3)))
    ours = gn.hessian(lambda x: gnp.real(gnp.linalg.eigvals(x)).sum())(x)
    assert_near(ours, np.zeros((3, 3, 3, 3)), 4, scale=1.0)  # the trace is linear


def test_cholesky_update() -> None:
    rng = np.random.default_rng(3)
    factor = np.triu(rng.normal(size=(4, 4))).astype(np.float32)
    for w in (rng.normal(size=4), np.zeros(4), np.array([0.0, 1.0, 0.0, 2.0])):
        w = jnp.asarray(w.astype(np.float32))
        ours, theirs = gn.lax.linalg.cholesky_update, jax.lax.linalg.cholesky_update
        check(ours, theirs, jnp.asarray(factor), w, ulps=4.0, together=True)
    # The derivative of a row that is not rotated is not zero.
    update = lambda w: gn.lax.linalg.cholesky_update(gnp.eye(2), w)[0, 1]  # noqa: E731
    found = gn.jit(gn.hessian(update))(gnp.zeros(2))
    assert_near(found, [[0.0, 1.0], [1.0, 0.0]], 4)
    with pytest.raises(ValueError, match="square matrix and a vector of the same size"):
        gn.lax.linalg.cholesky_update(factor, np.ones(3, np.float32))


@pytest.mark.parametrize("dtype", ["float32", pytest.param("complex64", marks=pytest.mark.slow)])
def test_qdwh(dtype: str) -> None:
    x = sample(dtype, (5, 3), 1)
    ours, theirs = gn.lax.linalg.qdwh, jax.lax.linalg.qdwh
    check(ours, theirs, x, ulps=4.0, together=True)
    u, h, _, _ = gn.jit(lambda x, n: ours(x, dynamic_shape=(4, n)))(to_gnomon(x), 2)
    part = np.zeros((5, 3), dtype)
    part[:4, :2] = np.asarray(x)[:4, :2]
    assert_near(u @ h, part, 8)
    assert_near(u.conj().T @ u, np.diag([1, 1, 0]), 8)
    _, _, count, is_converged = ours(to_gnomon(x), max_iterations=2)
    assert int(count) == 2 and not is_converged
    with pytest.raises(ValueError, match="M >= N"):
        ours(to_gnomon(x.T))
