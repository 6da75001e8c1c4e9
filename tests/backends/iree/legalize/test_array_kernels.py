"""Loops over small arrays as one kernel of vector code: values, and which loops become kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, tree_util
from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.iree.legalize.array_kernels import array_kernel
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir
from tests.sample import sample
from tests.tolerance import assert_near

RNG = np.random.default_rng(0)
f32, f64, i32, u8 = np.float32, np.float64, np.int32, np.uint8


def normal(*shape: int, dtype: Any = f32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def _markov(moves: Any, emitted: Any, start: Any) -> Any:
    def step(alpha: Any, here: Any) -> Any:
        return gn.nn.logsumexp(alpha[:, None] + moves, 0) + here, alpha

    return gn.nn.logsumexp(lax.scan(step, start, emitted)[0])


def _recurrent(w: Any, u: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = gnp.tanh(h @ w + x @ u)
        return h, h

    return lax.scan(step, gnp.zeros((5, w.shape[0]), w.dtype), xs)[1].sum(0)


def _newton(a: Any) -> Any:
    def step(state: Any) -> Any:
        x, _, i = state
        change = (x * x - a) / (2 * x)
        return x - change, change, i + 1

    start = (gnp.ones_like(a), gnp.ones_like(a), 0)
    return lax.while_loop(lambda s: (abs(s[1]).max() > 1e-5) & (s[2] < 30), step, start)


def _exchanged(x: Any, y: Any) -> Any:
    """Carries that trade places, branches, and updates of arrays that are read again."""

    def step(i: Any, state: Any) -> Any:
        a, b, c = state
        c = lax.cond(i % 2 == 0, lambda c: c * 2, lambda c: c.at[i].set(a[i] + c[0]), c)
        return b, a + 1, c.at[i + 1].add(c[i])

    return lax.fori_loop(0, 7, step, (x, y, x + y))


def _nested(x: Any) -> Any:
    """Loops in a loop, one over rows, and the rows of a table by an index."""

    def outer(i: Any, x: Any) -> Any:
        y, rows = lax.scan(lambda c, row: (c + row, c * row), x[0], x)
        table = x[(gnp.arange(x.shape[0]) * 3 + i) % x.shape[0]]
        return gnp.where(table > 0, rows, table) * 0.5 + y[::-1] * 0.1

    return lax.fori_loop(0, 3, outer, x)


def _moved(x: Any) -> Any:
    """Whatever only moves elements, reductions of all kinds, and integers and bools."""

    def step(i: Any, state: Any) -> Any:
        x, n, seen = state
        wide = gnp.pad(x, ((1, 0), (0, 2)), constant_values=2)[:-1, 1:-1]
        x = gnp.concatenate([wide.T.reshape(x.shape)[:2], x[:-2] - x[1:-1:1]], 0) * 0.3
        n = n[::-1] * 3 % 7 + gnp.argmax(x, 1).astype(n.dtype)
        return x + x.max(0) - x.min(1, keepdims=True), n, seen | (x.sum(1) > 0) & (n > 2)

    rows = x.shape[0]
    return lax.fori_loop(0, 4, step, (x, gnp.arange(rows, dtype=i32), gnp.zeros(rows, bool)))


def _contracted(a: Any, b: Any) -> Any:
    """Products whose operands have all orders of dimensions, and batches of products."""

    def step(_: int, state: Any) -> Any:
        a, b, c = state
        products = (
            a @ b,
            a.T @ b.T,
            gnp.einsum("ij,kj->ik", a, b),
            c @ c.mT,
            gnp.einsum("bij,j->i", c, a[0]),
        )
        return products[0] - products[1], products[2], c + products[3] * products[4]

    cube = gnp.stack([a, b, a + b])
    return lax.fori_loop(0, 2, step, (a, b, cube))


def _reached(edges: Any, start: Any) -> Any:
    """Products of bools: the vertices that paths reach, and the edges on them."""

    def step(_: int, state: Any) -> Any:
        nodes, paths = state
        return nodes ^ edges @ nodes, paths ^ edges @ paths

    return lax.fori_loop(0, 3, step, (start, edges))


LOOPS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "markov_gradient": (gn.grad(_markov, (0, 1, 2)), (normal(20, 20), normal(9, 20), normal(20))),
    "recurrent_gradient": (
        gn.grad(lambda *a: _recurrent(*a).sum(), (0, 1, 2)),
        (0.2 * normal(19, 19, dtype=f64), normal(7, 19, dtype=f64), normal(4, 5, 7, dtype=f64)),
    ),
    "mapped": (
        gn.vmap(_recurrent, (None, None, 0)),
        (0.2 * normal(18, 18), normal(3, 18), normal(2, 3, 5, 3)),
    ),
    "newton": (_newton, (np.abs(normal(40)) + 1,)),
    "exchanged": (_exchanged, (normal(33), normal(33))),
    "nested": (_nested, (normal(5, 21),)),
    "moved": (_moved, (normal(11, 19),)),
    "reached": (_reached, (normal(33, 33) > 1, normal(33) > 1)),
    "contracted": (_contracted, (0.1 * normal(17, 17), 0.1 * normal(17, 17))),
}


def backend(target: str = "cpu") -> IreeBackend:
    return IreeBackend(target)


def lowered(function: Callable[..., Any], arguments: tuple[Any, ...], target: str = "cpu") -> Any:
    ensure_context()
    with gn.enable_x64(True):
        text = gn.jit(function).lower(*arguments).as_text("gnomon")
    one = backend(target)
    return one, one.lower(Program(ir.Module.parse(text)))


def is_kernel(artifact: Any) -> bool:
    """Whether a loop of the program is a kernel of vector code, and no loop is on the host."""
    code = artifact.plan.code.decode()
    *_, main = code.partition("func.func @main")
    return array_kernel.PREFIX in code and "scf.for" not in main


def test_values() -> None:
    """Half of the loops in one program: the values are NumPy's, and each loop is a kernel."""
    names = sample(LOOPS, len(LOOPS) // 2, __name__)
    counts = [len(LOOPS[name][1]) for name in names]

    def several(*given: Any) -> Any:
        out, at = [], 0
        for name, count in zip(names, counts, strict=True):
            out.append(LOOPS[name][0](*given[at : at + count]))
            at += count
        return out

    arguments = tuple(x for name in names for x in LOOPS[name][1])
    assert is_kernel(lowered(several, arguments)[1])
    before = [x.copy() for x in arguments]
    with gn.enable_x64(True):
        compiled = gn.jit(several)
        expected = tree_util.tree_leaves(several(*arguments))
        for _ in range(2):
            found = tree_util.tree_leaves(compiled(*arguments))
            for result, value in zip(found, expected, strict=True):
                assert_near(np.asarray(result), np.asarray(value), 2.0**14, scale=1.0)
    for given, kept in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(given, kept)


@pytest.mark.parametrize("size", [6, 100])
def test_starts_above_the_largest_signed_integer_are_clamped(size: int) -> None:
    """In kernels of scalar code and of vector code."""

    def step(_: int, state: Any) -> Any:
        x, start = state
        part = lax.dynamic_slice(x, (start,), (size // 2,))
        return x + part[0], start + np.uint64(1)

    with gn.enable_x64(True):
        start = (gnp.arange(size, dtype=f32), gnp.uint64(2**63 + 5))
        result = gn.jit(lambda *state: lax.fori_loop(0, 2, step, state))(*start)
        np.testing.assert_array_equal(result[0], np.arange(size) + 3 * (size - size // 2))


def _grown(x: Any) -> Any:
    return lax.fori_loop(0, 9, lambda _, x: gnp.tanh(x @ x) + 1, x)


@pytest.mark.parametrize(
    ("function", "shape", "kernel"),
    [
        (_grown, (40, 40), True),
        # Long products gain from several threads.
        (_grown, (160, 160), False),
        (lambda x: lax.fori_loop(0, 9, lambda _, x: gnp.sort(x) + 1, x), (40,), True),
        # Long sorts call NumPy.
        (lambda x: lax.fori_loop(0, 9, lambda _, x: gnp.sort(x) + 1, x), (400,), False),
        # Complex numbers are pairs of real ones.
        (lambda x: lax.fori_loop(0, 9, lambda _, x: x * (1 + 1j), x + 0j), (40,), True),
    ],
)
def test_which_loops_are_kernels(function: Any, shape: tuple[int, ...], kernel: bool) -> None:
    _, artifact = lowered(function, (np.ones(shape, f32),))
    assert (array_kernel.PREFIX in artifact.plan.code.decode()) == kernel


@pytest.mark.slow
@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    "target",
    ["x86-64-v2", "x86-64-v3", "x86-64-v4", "znver5", "sapphirerapids", "aarch64-linux"],
)
def test_kernels_compile_for_other_processors(target: str) -> None:
    for name in ("markov_gradient", "recurrent_gradient", "moved"):
        one, artifact = lowered(*LOOPS[name], target)
        assert is_kernel(artifact)
        assert one.executable_bytes(artifact)
