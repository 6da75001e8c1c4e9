"""Loops inside of compiled programs: a recurrent cell, its gradient, and a scalar recurrence."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.tools.bench.workload import Case, Framework, Workload, like_jax

STEPS = 100
HIDDEN = 32
BATCH = 8


def _inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    weight, recurrent = rng.standard_normal((2, HIDDEN, HIDDEN), dtype=np.float32)
    xs = rng.standard_normal((STEPS, BATCH, HIDDEN), dtype=np.float32)
    small = np.float32(0.1)
    return [weight * small, recurrent * small, np.zeros((BATCH, HIDDEN), np.float32), xs]


def _recur(framework: Framework, weight: Any, recurrent: Any, h: Any, xs: Any) -> Any:
    def cell(h: Any, x: Any) -> Any:
        h = framework.np.tanh(x @ weight + h @ recurrent)
        return h, h

    return framework.lax.scan(cell, h, xs)


def _forward(framework: Framework) -> Case:
    module = framework.module
    inputs = [framework.from_numpy(v) for v in _inputs()]
    run = module.jit(lambda *given: _recur(framework, *given))
    return Case(lambda: module.block_until_ready(run(*inputs)))


def _forward_python(framework: Framework) -> Case:
    weight, recurrent, start, xs = (framework.from_numpy(v) for v in _inputs())
    np_ = framework.np

    def run() -> Any:
        h, hs = start, []
        for x in xs:
            h = np_.tanh(x @ weight + h @ recurrent)
            hs.append(h)
        return h, np_.stack(hs)

    return Case(run)


def _gradient(framework: Framework) -> Case:
    module = framework.module
    inputs = [framework.from_numpy(v) for v in _inputs()]

    def loss(weight: Any, recurrent: Any, h: Any, xs: Any) -> Any:
        final, hs = _recur(framework, weight, recurrent, h, xs)
        return (final * final).sum() + (hs * hs).mean()

    run = module.jit(module.grad(loss, (0, 1)))
    return Case(lambda: module.block_until_ready(run(*inputs)))


def _gradient_torch(framework: Framework) -> Case:
    torch = framework.module
    weight, recurrent, start, xs = (framework.from_numpy(v) for v in _inputs())
    weight.requires_grad_()
    recurrent.requires_grad_()

    def run() -> Any:
        h, hs = start, []
        for x in xs:
            h = torch.tanh(x @ weight + h @ recurrent)
            hs.append(h)
        stacked = torch.stack(hs)
        value = (h * h).sum() + (stacked * stacked).mean()
        return torch.autograd.grad(value, (weight, recurrent))

    return Case(run)


def _logistic(framework: Framework) -> Case:
    run = framework.module.jit(
        lambda x: framework.lax.fori_loop(0, 1000, lambda i, x: 3.1 * x * (1.0 - x), x)
    )
    x = framework.from_numpy(np.linspace(0.1, 0.9, 8, dtype=np.float32))
    return Case(lambda: run(x).block_until_ready())


_CELL = f"{STEPS} steps of tanh(x W + h R), {HIDDEN} wide, batch {BATCH}"

WORKLOADS = (
    Workload(
        "loop/scan",
        f"jit(scan): {_CELL}",
        {**like_jax(_forward), "numpy": _forward_python, "torch": _forward_python},
        2048.0,
    ),
    Workload(
        "loop/scan_gradient",
        f"jit(grad) of a loss of {_CELL}",
        {**like_jax(_gradient), "torch": _gradient_torch},
        4096.0,
    ),
    Workload(
        "loop/fori",
        "jit(fori_loop): 1000 steps of 3.1 x (1 - x), f32[8]",
        like_jax(_logistic),
        # The recurrence magnifies a rounding error now and then.
        65536.0,
    ),
)
