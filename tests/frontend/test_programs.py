"""Whole programs: jit(grad(f)) of typical models, compared with JAX."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.lax.linalg
import gnomon.numpy as gnp
from gnomon import nn
from gnomon.scipy import special
from tests.tolerance import assert_near

jax = pytest.importorskip("jax")
jax_numpy = pytest.importorskip("jax.numpy")

OURS = SimpleNamespace(api=gnomon, np=gnp, lax=gnomon.lax, nn=nn, special=special)
THEIRS = SimpleNamespace(api=jax, np=jax_numpy, lax=jax.lax, nn=jax.nn, special=jax.scipy.special)

RNG = np.random.default_rng(0)


def normal(*shape: int, scale: float = 0.5) -> np.ndarray:
    return (scale * RNG.normal(size=shape)).astype(np.float32)


def lstm(ns: Any) -> Any:
    def loss(params: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            gates = ns.np.concatenate([x, h]) @ params["w"] + params["b"]
            i, f, g, o = ns.np.split(gates, 4)
            c = ns.nn.sigmoid(f) * c + ns.nn.sigmoid(i) * ns.np.tanh(g)
            h = ns.nn.sigmoid(o) * ns.np.tanh(c)
            return (h, c), h

        _, hs = ns.lax.scan(step, (ns.np.zeros(5), ns.np.zeros(5)), xs)
        return ns.np.mean((hs @ params["out"] - ns.np.sin(xs[:, :1])) ** 2)

    return loss


LSTM = ({"w": normal(8, 20), "b": normal(20), "out": normal(5, 1)}, normal(12, 3))


def transformer(ns: Any) -> Any:
    def norm(x: Any) -> Any:
        centered = x - ns.np.mean(x, -1, keepdims=True)
        return centered * ns.lax.rsqrt(ns.np.mean(centered**2, -1, keepdims=True) + 1e-5)

    def block(x: Any, p: Any) -> Any:
        length, width = x.shape
        q, k, v = ns.np.split(norm(x) @ p["qkv"], 3, axis=-1)
        heads = [a.reshape(length, 2, width // 2).transpose(1, 0, 2) for a in (q, k, v)]
        scores = ns.np.einsum("hqd,hkd->hqk", heads[0], heads[1]) / np.sqrt(width / 2)
        causal = ns.np.tril(ns.np.ones((length, length), bool))
        weights = ns.nn.softmax(ns.np.where(causal, scores, -1e9), axis=-1)
        mixed = ns.np.einsum("hqk,hkd->qhd", weights, heads[2]).reshape(length, width)
        x = x + mixed @ p["out"]
        return x + ns.nn.gelu(norm(x) @ p["up"]) @ p["down"]

    def loss(params: Any, tokens: Any) -> Any:
        x = params["embed"][tokens]
        for p in params["blocks"]:
            x = block(x, p)
        logits = ns.nn.log_softmax(norm(x)[:-1] @ params["embed"].T)
        return -ns.np.mean(ns.np.take_along_axis(logits, tokens[1:, None], axis=-1))

    return loss


def _block() -> dict[str, np.ndarray]:
    return {
        "qkv": normal(8, 24),
        "out": normal(8, 8),
        "up": normal(8, 16),
        "down": normal(16, 8),
    }


TRANSFORMER = (
    {"embed": normal(11, 8), "blocks": [_block(), _block()]},
    RNG.integers(0, 11, 7).astype(np.int32),
)


def neural_ode(ns: Any) -> Any:
    def field(y: Any, t: Any, params: Any) -> Any:
        return ns.np.tanh(y @ params["a"] + t) @ params["b"]

    def loss(params: Any, y0: Any) -> Any:
        h = 0.1

        def rk4(y: Any, t: Any) -> Any:
            k1 = field(y, t, params)
            k2 = field(y + h / 2 * k1, t + h / 2, params)
            k3 = field(y + h / 2 * k2, t + h / 2, params)
            k4 = field(y + h * k3, t + h, params)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), y[0]

        final, path = ns.lax.scan(rk4, y0, ns.np.arange(10) * h)
        return ns.np.sum(final**2) + ns.np.mean(path)

    return loss


NEURAL_ODE = ({"a": normal(3, 6), "b": normal(6, 3)}, normal(3))


def n_body(ns: Any) -> Any:
    def acceleration(x: Any, masses: Any) -> Any:
        away = x[None, :, :] - x[:, None, :]
        distance = ns.np.sum(away**2, -1) + 0.1
        return ns.np.einsum("ijd,ij,j->id", away, distance**-1.5, masses)

    def energy(masses: Any, x: Any, v: Any) -> Any:
        def leapfrog(_: Any, state: Any) -> Any:
            x, v = state
            v = v + 0.05 * acceleration(x, masses)
            x = x + 0.1 * v
            return x, v + 0.05 * acceleration(x, masses)

        x, v = ns.lax.fori_loop(0, 15, leapfrog, (x, v))
        return 0.5 * ns.np.sum(masses * ns.np.sum(v**2, -1)) + ns.np.sum(x[0] ** 2)

    return energy


N_BODY = (np.abs(normal(4)), normal(4, 3), normal(4, 3))


def maml(ns: Any) -> Any:
    def predict(params: Any, x: Any) -> Any:
        return ns.np.tanh(x[:, None] * params["w"] + params["b"]) @ params["v"]

    def task_loss(params: Any, x: Any, phase: Any) -> Any:
        return ns.np.mean((predict(params, x) - ns.np.sin(x + phase)) ** 2)

    def adapted_loss(params: Any, x: Any, phase: Any) -> Any:
        for _ in range(2):
            gradient = ns.api.grad(task_loss)(params, x, phase)
            params = ns.api.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, gradient)
        return task_loss(params, x + 0.3, phase)

    def loss(params: Any, x: Any, phases: Any) -> Any:
        return ns.np.mean(ns.api.vmap(adapted_loss, (None, None, 0))(params, x, phases))

    return loss


MAML = ({"w": normal(6), "b": normal(6), "v": normal(6)}, normal(5, scale=2.0), normal(3))


def hidden_markov_model(ns: Any) -> Any:
    def loss(params: Any, observed: Any) -> Any:
        moves = ns.nn.log_softmax(params["moves"], axis=1)
        emits = ns.nn.log_softmax(params["emits"], axis=1)

        def step(alpha: Any, symbol: Any) -> Any:
            alpha = ns.special.logsumexp(alpha[:, None] + moves, axis=0) + emits[:, symbol]
            return alpha, None

        first = ns.nn.log_softmax(params["first"]) + emits[:, observed[0]]
        alpha, _ = ns.lax.scan(step, first, observed[1:])
        return -ns.special.logsumexp(alpha)

    return loss


HIDDEN_MARKOV_MODEL = (
    {"moves": normal(4, 4), "emits": normal(4, 6), "first": normal(4)},
    RNG.integers(0, 6, 15).astype(np.int32),
)


def checkpointed(ns: Any) -> Any:
    def layer(x: Any, p: Any) -> Any:
        return x + ns.np.tanh(ns.np.tanh(x @ p["w"]) @ p["w"] + p["b"])

    def loss(params: Any, x: Any) -> Any:
        for p in params["first"]:
            x = ns.api.checkpoint(layer)(x, p)
        body = ns.api.checkpoint(lambda x, p: (layer(x, p), None), prevent_cse=False)
        x, _ = ns.lax.scan(body, x, params["rest"])
        return ns.np.mean(x**2)

    return loss


CHECKPOINTED = (
    {
        "first": [{"w": normal(4, 4), "b": normal(4)} for _ in range(2)],
        "rest": {"w": normal(6, 4, 4), "b": normal(6, 4)},
    },
    normal(3, 4),
)


def convolutional(ns: Any) -> Any:
    def loss(params: Any, images: Any) -> Any:
        x = images
        for kernel in params["kernels"]:
            x = ns.nn.relu(ns.lax.conv_general_dilated(x, kernel, (2, 2), "SAME"))
        logits = ns.np.mean(x, (2, 3)) @ params["out"]
        return -ns.np.mean(ns.nn.log_softmax(logits)[:, 0])

    return loss


CONVOLUTIONAL = (
    {"kernels": [normal(4, 1, 3, 3), normal(5, 4, 3, 3)], "out": normal(5, 3)},
    normal(2, 1, 9, 9),
)


def gaussian_process(ns: Any) -> Any:
    def loss(params: Any, x: Any, y: Any) -> Any:
        scaled = x / ns.np.exp(params["scale"])
        squares = ns.np.sum((scaled[:, None] - scaled[None, :]) ** 2, -1)
        covariance = ns.np.exp(params["height"] - 0.5 * squares)
        noise = ns.np.exp(params["noise"]) * ns.np.eye(len(x))
        factor = ns.np.linalg.cholesky(covariance + noise)
        whitened = ns.lax.linalg.triangular_solve(factor, y[:, None], left_side=True, lower=True)
        return 0.5 * ns.np.sum(whitened**2) + ns.np.sum(ns.np.log(ns.np.diagonal(factor)))

    return loss


GAUSSIAN_PROCESS = (
    {"scale": normal(2), "height": normal(), "noise": np.float32(-2.0)},
    normal(9, 2, scale=1.0),
    normal(9, scale=1.0),
)

PROGRAMS: dict[Callable[[Any], Any], tuple[Any, ...]] = {
    lstm: LSTM,
    transformer: TRANSFORMER,
    neural_ode: NEURAL_ODE,
    n_body: N_BODY,
    maml: MAML,
    hidden_markov_model: HIDDEN_MARKOV_MODEL,
    checkpointed: CHECKPOINTED,
    convolutional: CONVOLUTIONAL,
    gaussian_process: GAUSSIAN_PROCESS,
}
# A gradient is a sum of products with a factor for each layer, and each factor rounds.
ROUNDINGS = dict.fromkeys(PROGRAMS, 64)
# Twice the condition number of its covariance matrix, which is near 70.
ROUNDINGS[gaussian_process] = 128
QUICK = (checkpointed,)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(p, id=p.__name__, marks=[] if p in QUICK else [pytest.mark.slow])
        for p in PROGRAMS
    ],
)
def test_gradient_is_that_of_jax(program: Callable[[Any], Any]) -> None:
    arguments = PROGRAMS[program]
    found = gnomon.jit(gnomon.value_and_grad(program(OURS)))(*arguments)
    expected = jax.jit(jax.value_and_grad(program(THEIRS)))(*arguments)
    ours, theirs = gnomon.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(expected)
    scale = max(float(np.abs(np.asarray(b)).max()) for b in theirs)
    assert len(ours) == len(theirs) and scale > 1e-3
    for a, b in zip(ours, theirs, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert_near(a, b, ROUNDINGS[program], scale)
