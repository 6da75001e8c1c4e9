"""Typical programs on a plugin's device through the API, compared with the evaluator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, nn
from gnomon.backends import platforms
from gnomon.backends.errors import ExecutionError, OutOfMemory, UnsupportedOnTarget
from gnomon.backends.pjrt.backend import PjrtBackend
from tests.tolerance import assert_near

pytestmark = pytest.mark.pjrt

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def mlp_step(params: Any, x: Any, y: Any) -> Any:
    def loss(params: Any) -> Any:
        (w1, b1), (w2, b2) = params
        logits = gnp.maximum(x @ w1 + b1, 0) @ w2 + b2
        return -gnp.mean(gnp.sum(nn.log_softmax(logits) * y, -1))

    value, gradient = gn.value_and_grad(loss)(params)
    return value, gn.tree.map(lambda p, g: p - 0.1 * g, params, gradient)


def recurrence(w: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = gnp.tanh(w @ h + x)
        return h, h.sum()

    return lax.scan(step, gnp.zeros(4), xs)


def branches(x: Any) -> Any:
    def member(x: Any) -> Any:
        kept = lax.cond(x > 0, lambda x: x * 2, lambda x: gnp.sin(x), x)
        return kept + lax.switch(gnp.int32(x), [gnp.cos, gnp.exp, gnp.negative], x)

    return gn.vmap(member)(x), member(x[0])


def halvings(x: Any) -> Any:
    count, _ = lax.while_loop(lambda c: c[1] > 1, lambda c: (c[0] + 1, c[1] / 2), (0, x.max() * 99))
    return count, lax.fori_loop(0, 5, lambda i, a: a * 0.5 + i, x)


def bits(seed: Any) -> Any:
    key = gn.random.key(seed)
    first, second = gn.random.split(key)
    return (
        gn.random.bits(first, (33,)),
        gn.random.normal(second, (4, 5)),
        gn.random.permutation(first, 20),
        gn.random.categorical(second, gnp.zeros((7, 3))),
    )


def sorts(x: Any) -> Any:
    ties = gnp.round(x * 2)
    # Sort bools, which a kernel would widen for each reader, and rows of whole vectors.
    narrow, even = gnp.argsort(x > 0, 0), gnp.sort(gnp.tile(x, (2, 2))[:8, :8])
    first, ordered = gnp.argsort(ties, -1, stable=True), gnp.sort(x, 0)
    return first, ordered, lax.top_k(ties, 3), gnp.median(x), narrow, even


def updates(x: Any, i: Any) -> Any:
    return x.at[i].add(x[::-1][i]), x.at[i, 1].set(7, mode="drop"), x[i], gnp.bincount(i, length=9)


def convolution(x: Any, w: Any) -> Any:
    def out(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (2, 1), "SAME", feature_group_count=2)

    y, pull = gn.vjp(out, x, w)
    return (
        y,
        pull(gnp.cos(y)),
        lax.reduce_window(x, -gnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
    )


def pools(x: Any, y: Any) -> Any:
    """Reductions over equal windows, for which the program itself pads with zeros."""

    def sums(v: Any) -> Any:
        return lax.reduce_window(v, np.zeros((), v.dtype), lax.add, (2, 2, 1), (1, 2, 1), "SAME")

    largest = lax.reduce_window(x, -gnp.inf, lax.max, (2, 2, 1), (1, 2, 1), "SAME")
    added = sums(y) + lax.full(largest.shape, 0.0, y.dtype)
    return sums(x.astype(gnp.float16)), sums(x), largest, added, lax.reduce_precision(x, 5, 3)


def attention(q: Any, k: Any, v: Any) -> Any:
    return nn.dot_product_attention(q, k, v, is_causal=True)


def derivatives(x: Any) -> Any:
    def f(x: Any) -> Any:
        return gnp.sum(gnp.sin(x) * gnp.cumsum(x) ** 2)

    return gn.hessian(f)(x), gn.jvp(f, (x,), (x,)), gn.vmap(gn.grad(f))(gnp.stack([x, x + 1]))


def algebra(a: Any, b: Any) -> Any:
    spd = a @ a.T + 5 * gnp.eye(5)
    factor = gnp.linalg.cholesky(spd)
    half = lax.linalg.triangular_solve(factor, b, left_side=True, lower=True)
    solution, pull = gn.vjp(gnp.linalg.solve, spd, b)
    q, r = gnp.linalg.qr(b)
    loops = solution, pull(b), gnp.linalg.slogdet(gnp.stack([a, a.T])), q @ r, gnp.linalg.inv(spd)
    return factor, half, gnp.fft.rfft(a), gnp.einsum("ij,kj->ik", a, b.T), loops


def wide(x: Any) -> Any:
    with gn.enable_x64(True):
        y = x.astype(gnp.float64)
        return gnp.tanh(y) @ y.T, (y[0] + 1j * y[1]) ** 2, x.astype(gnp.bfloat16).sum(-1)


LAYERS = [(normal(8, 16), normal(16)), (normal(16, 4), normal(4))]
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mlp step": (mlp_step, (LAYERS, normal(32, 8), np.eye(4, dtype=np.float32)[np.arange(32) % 4])),
    "scan": (recurrence, (normal(4, 4), normal(9, 4))),
    "grad of scan": (
        gn.grad(lambda w, xs: recurrence(w, xs)[1].sum(), argnums=(0, 1)),
        (normal(4, 4), normal(9, 4)),
    ),
    "branches": (branches, (np.float32([0.5, -1, 2.5, -0.0]),)),
    "loops": (halvings, (normal(6),)),
    "softmax": (nn.softmax, (normal(5, 33),)),
    "random numbers": (bits, (np.uint32(7),)),
    "sorts": (sorts, (normal(6, 7),)),
    "updates": (updates, (normal(9, 3), np.int32([0, 3, 3, 8, 2]))),
    "convolution": (convolution, (normal(2, 4, 6, 6), normal(6, 2, 3, 3))),
    "pools": (pools, (normal(4, 5, 6), normal(4, 5, 6))),
    "attention": (attention, (normal(2, 6, 2, 4), normal(2, 6, 2, 4), normal(2, 6, 2, 4))),
    "derivatives": (derivatives, (normal(5),)),
    "algebra": (algebra, (normal(5, 5), normal(5, 3))),
    "wide and narrow dtypes": (wide, (normal(2, 3),)),
}


@pytest.fixture(scope="module", autouse=True)
def platform(backend: PjrtBackend) -> Iterator[None]:
    platforms.register("xla_cpu", lambda name: backend)
    yield
    platforms.unregister("xla_cpu")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    function, arguments = PROGRAMS[name]
    expected = function(*gn.tree.map(gnp.asarray, arguments))
    device = gn.devices("xla_cpu")[1]
    placed = gn.device_put(arguments, device)
    results = gn.jit(function)(*placed)
    assert gn.tree.structure(results) == gn.tree.structure(expected)
    for result, reference in zip(gn.tree.leaves(results), gn.tree.leaves(expected), strict=True):
        assert result.devices() == {device}
        assert (result.shape, result.dtype) == (reference.shape, reference.dtype)
        # Sums of up to a hundred terms; 16-bit numbers are summed in 32 bits and rounded once.
        assert_near(result, reference, 64 if result.dtype.itemsize > 2 else 1, scale=1.0)


def test_an_error_comes_when_the_value_is_read() -> None:
    device = gn.devices("xla_cpu")[0]
    x = gn.device_put(np.float32([1, 2]), device)
    with pytest.raises((OutOfMemory, ExecutionError), match="RESOURCE_EXHAUSTED"):
        large = gn.jit(lambda x: gnp.broadcast_to(x, (1 << 46, 2)) + x)(x)
        sums = gn.jit(lambda y: y[0])(large)
        np.asarray(sums)
    assert (x + 1).tolist() == [2, 3]


def test_small_integers_are_computed_in_bytes() -> None:
    def f(x: Any) -> Any:
        return x + x, x.T, x.max(), lax.population_count(x), x.astype(gnp.int2).sum()

    x = gnp.arange(-3, 3).astype(gnp.int4).reshape(2, 3)
    found = gn.jit(f)(gn.device_put(x, gn.devices("xla_cpu")[0]))
    for a, b in zip(found, f(x), strict=True):
        assert (a.dtype, a.tolist()) == (b.dtype, b.tolist())


def test_arguments_are_donated() -> None:
    device = gn.devices("xla_cpu")[0]
    step = gn.jit(lambda state, x: gn.tree.map(lambda s: s + x, state), donate_argnums=0)
    x = gn.device_put(np.ones(1 << 14, np.float32), device)
    state = gn.device_put({"a": np.zeros(1 << 14, np.float32)}, device)
    first = state["a"]
    for _ in range(3):
        state = step(state, x)
    assert first.is_deleted() and state["a"][0] == 3
    with pytest.raises(RuntimeError, match="donated"):
        np.asarray(first)


def test_analyses_of_a_compiled_function() -> None:
    x = gn.device_put(np.ones((16, 16), np.float32), gn.devices("xla_cpu")[0])
    memory = gn.jit(lambda x: x @ x).lower(x).compile().memory_analysis()
    assert memory.argument_size_in_bytes == memory.output_size_in_bytes == 1024


def test_ops_that_run_on_no_plugin_are_named_with_their_line() -> None:
    device = gn.devices("xla_cpu")[0]
    x = gn.device_put(normal(3, 3), device)
    for function in (
        gnp.linalg.eig,
        lambda x: gn.pure_callback(np.sin, gn.ShapeDtypeStruct(x.shape, x.dtype), x),
    ):
        with pytest.raises(UnsupportedOnTarget, match=r"cannot run .*'xla_cpu'.*test_programs\.py"):
            gn.jit(lambda x, f=function: f(x))(x)
    assert gn.jit(gnp.sum)(x).shape == ()
