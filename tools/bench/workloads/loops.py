"""Loops in compiled programs: recurrent cells, a neural ODE, n-body, large residuals."""

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


def _lstm_step(framework: Framework) -> Case:
    """A training step: the loss, its gradient, and the update."""
    module, np_, lax = framework.module, framework.np, framework.lax
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        return framework.from_numpy(rng.standard_normal(shape, dtype=np.float32))

    wide, given = 64, 16
    weights = [0.1 * draw(given, 4 * wide), 0.1 * draw(wide, 4 * wide), 0.1 * draw(wide, given)]
    xs, wanted = draw(50, 16, given), draw(50, 16, given)

    def cell(weights: Any, state: Any, x: Any) -> Any:
        h, c = state
        parts = np_.split(x @ weights[0] + h @ weights[1], 4, axis=-1)
        forget, enter, leave = (1 / (1 + np_.exp(-part)) for part in parts[:3])
        c = forget * c + enter * np_.tanh(parts[3])
        h = leave * np_.tanh(c)
        return (h, c), h

    def loss(weights: Any, xs: Any, wanted: Any) -> Any:
        start = np_.zeros((xs.shape[1], wide), np.float32)
        _, hs = lax.scan(lambda state, x: cell(weights, state, x), (start, start), xs)
        return ((hs @ weights[2] - wanted) ** 2).mean()

    def step(weights: Any, xs: Any, wanted: Any) -> Any:
        value, gradient = module.value_and_grad(loss)(weights, xs, wanted)
        return value, [w - 0.01 * g for w, g in zip(weights, gradient, strict=True)]

    run = module.jit(step)
    return Case(lambda: module.block_until_ready(run(weights, xs, wanted)))


def _neural_ode(framework: Framework) -> Case:
    module, np_ = framework.module, framework.np
    rng = np.random.default_rng(0)
    shapes = (4, 64), (64, 4), (32, 4)
    arrays = [0.3 * rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
    weights, y = [framework.from_numpy(v) for v in arrays[:2]], framework.from_numpy(arrays[2])
    width = 0.05

    def field(weights: Any, y: Any) -> Any:
        return np_.tanh(y @ weights[0]) @ weights[1]

    def loss(weights: Any, y: Any) -> Any:
        def step(i: Any, y: Any) -> Any:
            k1 = field(weights, y)
            k2 = field(weights, y + width / 2 * k1)
            k3 = field(weights, y + width / 2 * k2)
            k4 = field(weights, y + width * k3)
            return y + width / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        return (framework.lax.fori_loop(0, 20, step, y) ** 2).mean()

    run = module.jit(module.grad(loss))
    return Case(lambda: module.block_until_ready(run(weights, y)))


def _bodies(framework: Framework) -> tuple[Any, list[Any]]:
    """A function that maps positions and velocities of 32 bodies to those after 100 steps."""
    np_ = framework.np
    rng = np.random.default_rng(0)
    masses = framework.from_numpy(rng.uniform(0.5, 1.5, 32).astype(np.float32))
    places = framework.from_numpy(rng.standard_normal((32, 3), dtype=np.float32))

    def acceleration(x: Any) -> Any:
        apart = x[None] - x[:, None]
        squared = (apart * apart).sum(-1) + 0.05
        return (apart * (masses * squared**-1.5)[..., None]).sum(1)

    def step(state: Any, _: None) -> Any:
        x, v, a = state
        v = v + 0.005 * a
        x = x + 0.01 * v
        a = acceleration(x)
        return (x, v + 0.005 * a, a), None

    def simulate(x: Any, v: Any) -> Any:
        (x, v, _), _ = framework.lax.scan(step, (x, v, acceleration(x)), None, length=100)
        return x, v

    return simulate, [places, 0.1 * np_.flip(places, 0)]


def _n_body(framework: Framework) -> Case:
    simulate, start = _bodies(framework)
    run = framework.module.jit(simulate)
    return Case(lambda: framework.module.block_until_ready(run(*start)))


def _n_body_gradient(framework: Framework) -> Case:
    simulate, start = _bodies(framework)

    def loss(x: Any, v: Any) -> Any:
        x, v = simulate(x, v)
        return (x * x).sum() + (v * v).sum()

    run = framework.module.jit(framework.module.grad(loss, (0, 1)))
    return Case(lambda: framework.module.block_until_ready(run(*start)))


def _residuals(framework: Framework) -> Case:
    module, np_ = framework.module, framework.np
    rng = np.random.default_rng(0)
    h, w = rng.standard_normal((2, 512, 512), dtype=np.float32)
    given = [framework.from_numpy(v) for v in (h, w, rng.standard_normal(20, dtype=np.float32))]

    def loss(h: Any, w: Any, xs: Any) -> Any:
        h, _ = framework.lax.scan(lambda h, x: (np_.tanh(h * w + x), None), h, xs)
        return (h * h).sum()

    run = module.jit(module.grad(loss, (0, 1)))
    return Case(lambda: module.block_until_ready(run(*given)))


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
        # The recurrence is chaotic and amplifies rounding errors.
        65536.0,
    ),
    Workload(
        "loop/lstm_step",
        "jit: loss, gradient and update of an LSTM, 50 steps, 64 wide, batch 16",
        like_jax(_lstm_step),
        4096.0,
    ),
    Workload(
        "loop/neural_ode",
        "jit(grad) of 20 Runge-Kutta steps of tanh(y A) B, f32[32,4], 64 wide",
        like_jax(_neural_ode),
        4096.0,
    ),
    Workload(
        "loop/n_body",
        "jit(scan): 100 leapfrog steps of 32 bodies",
        like_jax(_n_body),
        65536.0,
    ),
    Workload(
        "loop/n_body_gradient",
        "jit(grad) through 100 leapfrog steps of 32 bodies",
        like_jax(_n_body_gradient),
        65536.0,
    ),
    Workload(
        "loop/residuals",
        "jit(grad) of 20 steps of tanh(h w + x), f32[512,512]: 2 MB kept for each",
        like_jax(_residuals),
        4096.0,
    ),
)
