"""Training a multilayer perceptron: one step, and the gradient of each example."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.tools.bench.workload import Case, Framework, Workload, like_jax

WIDE = (784, 512, 512, 10)
NARROW = (64, 128, 10)
BATCH = 128
RATE = 0.1


def network(widths: Sequence[int], seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases of each layer."""
    rng = np.random.default_rng(seed)
    return [
        (
            rng.standard_normal((n, m), dtype=np.float32) * np.float32((2 / n) ** 0.5),
            np.zeros(m, np.float32),
        )
        for n, m in itertools.pairwise(widths)
    ]


def batch(widths: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and one-hot targets."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((BATCH, widths[0]), dtype=np.float32)
    return x, np.eye(widths[-1], dtype=np.float32)[rng.integers(0, widths[-1], BATCH)]


def loss(framework: Framework, params: Any, x: Any, y: Any) -> Any:
    """The mean cross-entropy in terms of NumPy's functions; ``x`` may be one example."""
    np_ = framework.np
    for weight, bias in params[:-1]:
        x = np_.maximum(x @ weight + bias, 0.0)
    weight, bias = params[-1]
    logits = x @ weight + bias
    shifted = logits - logits.max(-1, keepdims=True)
    log_probability = shifted - np_.log(np_.exp(shifted).sum(-1, keepdims=True))
    return -(log_probability * y).sum(-1).mean()


def _on(framework: Framework, params: Any) -> list[tuple[Any, Any]]:
    return [(framework.from_numpy(w), framework.from_numpy(b)) for w, b in params]


# ------------------------------------------------------------------------------------------ a step


def step_function(framework: Framework) -> Any:
    """One step of gradient descent for gnomon or JAX, without `jit`."""

    def step(params: Any, x: Any, y: Any) -> Any:
        value, gradient = framework.module.value_and_grad(lambda p: loss(framework, p, x, y))(
            params
        )
        moved = [
            (w - RATE * dw, b - RATE * db)
            for (w, b), (dw, db) in zip(params, gradient, strict=True)
        ]
        return value, moved

    return step


def _step(framework: Framework) -> Case:
    params = _on(framework, network(WIDE))
    x, y = map(framework.from_numpy, batch(WIDE))
    step = framework.module.jit(step_function(framework))
    return Case(lambda: framework.module.block_until_ready(step(params, x, y)))


def _forward(params: Any, x: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """The input of each layer, and the log-probabilities."""
    inputs = [x]
    for weight, bias in params[:-1]:
        inputs.append(np.maximum(inputs[-1] @ weight + bias, 0))
    weight, bias = params[-1]
    logits = inputs[-1] @ weight + bias
    shifted = logits - logits.max(-1, keepdims=True)
    return inputs, shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _step_by_hand(framework: Framework) -> Case:
    params = network(WIDE)
    x, y = batch(WIDE)

    def step() -> Any:
        inputs, log_probability = _forward(params, x)
        delta = (np.exp(log_probability) - y) / np.float32(len(x))
        moved = []
        for (weight, bias), value in zip(reversed(params), reversed(inputs), strict=True):
            moved.append(
                (
                    weight - np.float32(RATE) * (value.T @ delta),
                    bias - np.float32(RATE) * delta.sum(0),
                )
            )
            delta = (delta @ weight.T) * (value > 0)
        return -(log_probability * y).sum(-1).mean(), moved[::-1]

    return Case(step)


def _step_torch(framework: Framework) -> Case:
    torch = framework.module
    params = [(w.requires_grad_(), b.requires_grad_()) for w, b in _on(framework, network(WIDE))]
    leaves = [leaf for layer in params for leaf in layer]
    x, y = map(framework.from_numpy, batch(WIDE))

    def step() -> Any:
        value = _torch_loss(torch, params, x, y)
        gradient = torch.autograd.grad(value, leaves)
        with torch.no_grad():
            moved = [p - RATE * g for p, g in zip(leaves, gradient, strict=True)]
        return framework.wait((value, moved))

    return Case(step)


def _torch_loss(torch: Any, params: Any, x: Any, y: Any) -> Any:
    for weight, bias in params[:-1]:
        x = torch.relu(torch.addmm(bias, x, weight) if x.ndim == 2 else x @ weight + bias)
    weight, bias = params[-1]
    return -(torch.log_softmax(x @ weight + bias, -1) * y).sum(-1).mean()


# ---------------------------------------------------------------------------- per-example gradients


def _per_example(framework: Framework) -> Case:
    module = framework.module
    params = _on(framework, network(NARROW))
    x, y = map(framework.from_numpy, batch(NARROW))
    gradients = module.jit(
        module.vmap(module.grad(lambda p, x, y: loss(framework, p, x, y)), (None, 0, 0))
    )
    return Case(lambda: module.block_until_ready(gradients(params, x, y)))


def _per_example_by_hand(framework: Framework) -> Case:
    params = network(NARROW)
    x, y = batch(NARROW)

    def gradients() -> Any:
        inputs, log_probability = _forward(params, x)
        delta = np.exp(log_probability) - y
        found = []
        for (weight, _), value in zip(reversed(params), reversed(inputs), strict=True):
            found.append((value[:, :, None] * delta[:, None, :], delta))
            delta = (delta @ weight.T) * (value > 0)
        return found[::-1]

    return Case(gradients)


def _per_example_torch(framework: Framework) -> Case:
    torch = framework.module
    params = _on(framework, network(NARROW))
    x, y = map(framework.from_numpy, batch(NARROW))
    gradients = torch.func.vmap(
        torch.func.grad(lambda p, x, y: _torch_loss(torch, p, x, y)), (None, 0, 0)
    )
    return Case(lambda: framework.wait(gradients(params, x, y)))


WORKLOADS = (
    Workload(
        "train/mlp_step",
        f"jit: loss, gradient and update of a {'-'.join(map(str, WIDE))} perceptron, batch {BATCH}",
        {**like_jax(_step), "numpy": _step_by_hand, "torch": _step_torch},
    ),
    Workload(
        "train/per_example",
        f"jit(vmap(grad(loss))) of a {'-'.join(map(str, NARROW))} perceptron, {BATCH} examples",
        {**like_jax(_per_example), "numpy": _per_example_by_hand, "torch": _per_example_torch},
    ),
)
