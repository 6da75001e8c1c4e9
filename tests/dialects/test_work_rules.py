"""The work of ops: a rule for each, compared with XLA's counts and with formulas for matrices."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import export, lax, random
from gnomon.backends import compilation
from gnomon.dialects.body import Body, operands_of, results_of
from gnomon.dialects.contract import REGISTRY, all_operations, lookup, params_of
from gnomon.dialects.example import example_program
from gnomon.dialects.types import type_of
from gnomon.passes.cost import Cost, estimate
from gnomon.passes.lower import LoweringError

jax = pytest.importorskip("jax")

X, IMAGES, KERNELS = np.ones((6, 4), "f4"), np.ones((2, 3, 8, 8), "f4"), np.ones((4, 3, 3, 3), "f4")
# Functions of an array and of `numpy`, `lax` and `nn`, gnomon's or JAX's.
COUNTED_ALIKE: dict[str, Callable[..., Any]] = {
    "add": lambda x, np, lax, nn: x + 1.0,
    "exp": lambda x, np, lax, nn: np.exp(x),
    "sqrt": lambda x, np, lax, nn: np.sqrt(x),
    "pow": lambda x, np, lax, nn: x**2.5,
    "arctan2": lambda x, np, lax, nn: np.arctan2(x, x),
    "compare": lambda x, np, lax, nn: x > 0,
    "where": lambda x, np, lax, nn: np.where(x > 0, x, 1.0),
    "clip": lambda x, np, lax, nn: lax.clamp(0.0, x, 1.0) + np.clip(x, 0.0, 1.0),
    "convert": lambda x, np, lax, nn: x.astype("int32"),
    "reshape": lambda x, np, lax, nn: x.reshape(-1),
    "transpose": lambda x, np, lax, nn: np.broadcast_to(x.T, (3, 4, 6)),
    "gather": lambda x, np, lax, nn: x[np.array([2, 1, 5])],
    "scatter_add": lambda x, np, lax, nn: x.at[np.array([2, 1])].add(1.0),
    "concatenate": lambda x, np, lax, nn: np.concatenate([x, x[::-1]]),
    "sum": lambda x, np, lax, nn: np.sum(x, axis=1),
    "max": lambda x, np, lax, nn: np.max(x),
    "product": lambda x, np, lax, nn: x @ x.T,
    "batched": lambda x, np, lax, nn: np.einsum("bi,bj->bij", x, x),
    "softmax": lambda x, np, lax, nn: nn.softmax(x),
    "perceptron": lambda x, np, lax, nn: np.sum(np.tanh(x @ x.T) ** 2),
    "pooling": lambda x, np, lax, nn: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "VALID"),
}


def counted(function: Callable[..., Any], *arguments: Any) -> tuple[float, float]:
    cost = gn.jit(function).lower(*arguments).cost_analysis()
    return cost["flops"], cost["transcendentals"]


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_op_has_work(name: str) -> None:
    for op in all_operations(example_program(REGISTRY[name]).body("main")):
        definition = lookup(op)
        operands = [type_of(v) for v in operands_of(op)]
        results = [type_of(v) for v in results_of(op)]
        work = definition.work(operands, results, **params_of(op, definition))
        assert all(math.isfinite(count) and count >= 0 for count in work)


@pytest.mark.parametrize("name", sorted(COUNTED_ALIKE))
def test_counts_are_those_of_xla(name: str) -> None:
    function = COUNTED_ALIKE[name]
    ours = counted(lambda x: function(x, gnp, lax, gn.nn), X)
    cost = jax.jit(lambda x: function(x, jax.numpy, jax.lax, jax.nn)).lower(X).cost_analysis()
    assert ours == (cost.get("flops", 0.0), cost.get("transcendentals", 0.0))


def test_a_loop_counts_once_per_iteration() -> None:
    def loop(x: Any) -> Any:
        return lax.fori_loop(0, 10, lambda i, x: gnp.sin(x) * 2, x)

    assert counted(loop, X) == (10 * X.size, 10 * X.size)


@pytest.mark.parametrize(
    ("function", "flops"),
    [
        (gnp.linalg.cholesky, 8**3 / 3),
        (gnp.linalg.slogdet, 2 / 3 * 8**3),
        (lambda a: gnp.linalg.eigh(a), 9 * 8**3),
        (lambda a: lax.linalg.eigh(a)[1], 4 / 3 * 8**3),
        (gnp.linalg.eigvals, 10 * 8**3),
        (gnp.linalg.eig, 25 * 8**3),
        (lambda a: lax.linalg.svd(a, full_matrices=False), 22 * 8**3),
        (lambda a: lax.linalg.lu(a)[0], 2 / 3 * 8**3),
        (lambda a: lax.linalg.hessenberg(a)[0], 10 / 3 * 8**3),
        (lambda a: lax.linalg.triangular_solve(a, a[:, :3], left_side=True), 8 * 8 * 3),
        (lambda a: gnp.fft.fft(a + 0j), 8 * 8 + 8 * 8 + 5 * 8 * 8 * 3),
        (lambda a: gnp.fft.rfft(a), 2.5 * 8 * 8 * 3),
        (lambda a: gnp.sort(a, axis=0), 8 * 8 * 3),
        (lambda a: gnp.cumsum(a, axis=0), 8 * 8),
    ],
)
def test_formulas(function: Callable[..., Any], flops: float) -> None:
    """Of the algorithm, with at most some operations per element around it."""
    a = np.eye(8, dtype=np.float32)
    assert flops <= counted(function, a)[0] * (1 + 1e-12) <= flops + 6 * a.size
    batch = np.broadcast_to(a, (5, 8, 8))
    each = counted(gn.vmap(function), batch)[0]
    assert each == pytest.approx(5 * counted(function, a)[0], rel=0.05)


def test_convolutions_and_products_of_batches() -> None:
    def convolution(x: Any, w: Any) -> Any:
        return lax.conv(x, w, (1, 1), "SAME")

    assert counted(convolution, IMAGES, KERNELS)[0] == 2 * (2 * 4 * 8 * 8) * (3 * 3 * 3)
    batch = np.ones((5, 6, 4), "f4")
    assert counted(lambda a: a @ a.mT, batch)[0] == 2 * 5 * 6 * 6 * 4


def test_random_words() -> None:
    """20 rounds of Threefry are 3 operations each, or more, for each word."""
    flops = counted(lambda: random.bits(random.key(0), (1000,)))[0]
    assert flops > 20 * 3 * 1000


def test_bytes_of_arguments_and_results_count_once() -> None:
    a, b = np.ones((8, 16), "f4"), np.ones((16, 4), "f4")
    cost = gn.jit(gnp.matmul).lower(a, b).cost_analysis()
    assert cost["bytes accessed"] == 4 * (8 * 16 + 16 * 4 + 8 * 4)
    # Elementwise operations are fused with a product, which writes what they read.
    fused = gn.jit(lambda a, b: gnp.tanh(a @ b)).lower(a, b).cost_analysis()
    assert fused["bytes accessed"] == cost["bytes accessed"] + 4 * 8 * 4


@pytest.mark.parametrize(
    ("function", "flops"),
    [
        (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, x.shape[1]), (1, 1), "VALID"), 32 * 31),
        (lambda x: gnp.fft.rfft(x), 2.5 * 32 * 32 * 5),
        (lambda x: gnp.exp(x) + x, 32 * 32),
    ],
)
def test_symbolic_sizes_are_assumed(
    function: Callable[..., Any], flops: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs: list[Cost] = []

    def recorded(body: Body) -> Cost:
        costs.append(estimate(body))
        return costs[-1]

    monkeypatch.setattr(compilation, "estimate", recorded)
    shape = export.symbolic_shape("b, h")
    exported = export.export(gn.jit(function))(gn.ShapeDtypeStruct(shape, np.float32))
    # The first two have no StableHLO, which does not matter here.
    with contextlib.suppress(LoweringError):
        exported.mlir_module()
    assert [cost.flops for cost in costs] == [flops]
