"""The cost of differentiation without compilation: eager, and traced and transformed."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.tools.bench.workload import Case, Framework, Workload, like_jax
from gnomon.tools.bench.workloads.training import WIDE, batch, network, step_function

LAYERS = 100


def _small(framework: Framework, x: Any) -> Any:
    return (framework.np.sin(x) * x).sum()


def _value() -> np.ndarray:
    return np.random.default_rng(0).standard_normal(64, dtype=np.float32)


def _eager(framework: Framework) -> Case:
    x = framework.from_numpy(_value())
    gradient = framework.module.grad(lambda x: _small(framework, x))
    return Case(lambda: gradient(x).block_until_ready())


def _eager_torch(framework: Framework) -> Case:
    x = framework.from_numpy(_value()).requires_grad_()
    return Case(lambda: framework.module.autograd.grad(_small(framework, x), x))


def _eager_steps(framework: Framework) -> Case:
    def root(x: Any) -> Any:
        guess = x
        while abs(guess * guess - x) > 1e-3:
            guess = 0.5 * (guess + x / guess)
        return guess

    gradient = framework.module.grad(root)
    return Case(lambda: gradient(7.0).block_until_ready())


def _chain(framework: Framework, x: Any) -> Any:
    for _ in range(LAYERS):
        x = framework.np.sin(x) * 1.5 + x
    return x.sum()


def _lower_chain(framework: Framework) -> Case:
    module = framework.module
    x = framework.from_numpy(_value())

    def lower() -> Any:
        # A new function each time, so that neither framework can reuse the last one.
        module.jit(module.grad(lambda x: _chain(framework, x))).lower(x)

    return Case(lower, check=lambda: ())


def _lower_step(framework: Framework) -> Case:
    module = framework.module
    params = [(framework.from_numpy(w), framework.from_numpy(b)) for w, b in network(WIDE)]
    x, y = map(framework.from_numpy, batch(WIDE))

    def lower() -> Any:
        module.jit(step_function(framework)).lower(params, x, y)

    return Case(lower, check=lambda: ())


WORKLOADS = (
    Workload(
        "grad/eager",
        "grad(Σ x sin x) outside of jit, f32[64]",
        {**like_jax(_eager), "torch": _eager_torch},
    ),
    Workload(
        "grad/python_loop",
        "grad through Python's while: Newton's square root of 7",
        like_jax(_eager_steps),
    ),
    Workload(
        "trace/chain",
        f"jit(grad(f)).lower: {LAYERS} times sin(x) 1.5 + x, traced, differentiated, lowered",
        like_jax(_lower_chain),
    ),
    Workload(
        "trace/mlp_step",
        "jit(step).lower of train/mlp_step",
        like_jax(_lower_step),
    ),
)
