"""Inference and optimization: Gaussian processes, factor models, chains, policies, solvers."""

from __future__ import annotations

import itertools
from typing import Any

from gnomon.tools.bench.frameworks import Framework
from gnomon.tools.bench.programs.program import Arrays, Built, Program, descent


def _gaussian_process(framework: Framework) -> Built:
    arrays, np_, module = Arrays(framework), framework.np, framework.module

    def loss(params: Any, x: Any, y: Any) -> Any:
        squared = ((x[:, None] - x[None]) ** 2 / np_.exp(params["scale"])).sum(-1)
        k = np_.exp(params["height"] - 0.5 * squared) + np_.exp(params["noise"]) * np_.eye(len(x))
        factor = np_.linalg.cholesky(k)
        white = module.scipy.linalg.solve_triangular(factor, y, lower=True)
        return 0.5 * white @ white + np_.log(np_.diag(factor)).sum()

    names = "scale", "height", "noise"
    params = {name: framework.from_numpy(arrays.rng.standard_normal()) for name in names}
    params = {name: value.astype(np_.float32) for name, value in params.items()}
    return module.grad(loss), (params, arrays.normal(256, 3), arrays.normal(256))


def _alternating_squares(framework: Framework) -> Built:
    """Ten rounds of a factorization of ratings: a solve for each user, then for each item."""
    arrays, np_, module = Arrays(framework), framework.np, framework.module

    def solve(factors: Any, ratings: Any, seen: Any) -> Any:
        weighted = factors * seen[:, None]
        return np_.linalg.solve(weighted.T @ factors + 0.1 * np_.eye(8), weighted.T @ ratings)

    rows = module.vmap(solve, (None, 0, 0))

    def run(items: Any, ratings: Any, seen: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            users = rows(state[1], ratings, seen)
            return users, rows(users, ratings.T, seen.T)

        return framework.lax.fori_loop(0, 10, step, (np_.zeros((96, 8), np_.float32), items))

    seen = (arrays.uniform(96, 64) < 0.5).astype(np_.float32)
    return run, (arrays.normal(64, 8), arrays.normal(96, 64), seen)


def _mixture(framework: Framework) -> Built:
    """Expectation maximization of a mixture of 8 normal distributions."""
    arrays, np_, nn = Arrays(framework), framework.np, framework.module.nn

    def run(x: Any, means: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            weights, means, spread = state
            squared = ((x[:, None] - means) ** 2 / spread).sum(-1)
            logs = np_.log(weights) - 0.5 * (squared + np_.log(spread).sum(-1))
            share = nn.softmax(logs, -1)
            count = share.sum(0) + 1e-3
            means = (share.T @ x) / count[:, None]
            apart = (x[:, None] - means) ** 2
            return (
                count / count.sum(),
                means,
                (share[..., None] * apart).sum(0) / count[:, None] + 1e-2,
            )

        state = np_.full(8, 1 / 8, np_.float32), means, np_.ones((8, 4), np_.float32)
        return framework.lax.fori_loop(0, 20, step, state)

    x = arrays.normal(2048, 4)
    return run, (x, x[:8])


def observations(arrays: Arrays) -> tuple[Any, Any]:
    """The data of the logistic regression, the first numbers of the program."""
    x, y = arrays.normal(128, 8), arrays.integers(128, below=2)
    return x, y.astype(arrays.framework.np.float32)


def _chains(framework: Framework) -> Built:
    """Hamiltonian Monte Carlo: 16 chains of 20 steps of 10 leapfrogs, a logistic regression."""
    arrays, np_, module = Arrays(framework), framework.np, framework.module
    random, lax = module.random, framework.lax
    x, y = observations(arrays)

    def energy(w: Any) -> Any:
        logits = x @ w
        return (np_.logaddexp(0.0, logits) - y * logits).sum() + 0.5 * w @ w

    force = module.grad(energy)

    def sample(w: Any, key: Any) -> Any:
        pushed, tossed = random.split(key)
        start = random.normal(pushed, w.shape)

        def leap(_: Any, state: Any) -> Any:
            w, p = state
            p = p - 0.025 * force(w)
            w = w + 0.05 * p
            return w, p - 0.025 * force(w)

        moved, p = lax.fori_loop(0, 10, leap, (w, start))
        gain = energy(w) + 0.5 * start @ start - energy(moved) - 0.5 * p @ p
        return np_.where(np_.log(random.uniform(tossed)) < gain, moved, w), None

    def chain(w: Any, key: Any) -> Any:
        return lax.scan(sample, w, random.split(key, 20))[0]

    def run(w: Any, key: Any) -> Any:
        return module.vmap(chain)(w, random.split(key, 16))

    return run, (arrays.normal(16, 8, scale=0.1), random.key(0))


def _policy_step(framework: Framework) -> Built:
    """A clipped policy step (PPO) on 64 cart poles: 32 steps of play, then one update."""
    arrays, np_, module = Arrays(framework), framework.np, framework.module
    random, lax, nn = module.random, framework.lax, module.nn
    params = {"in": arrays.normal(4, 32, scale=0.5), "out": arrays.normal(32, 3, scale=0.1)}

    def policy(params: Any, state: Any) -> Any:
        out = np_.tanh(state @ params["in"]) @ params["out"]
        return nn.log_softmax(out[..., :2]), out[..., 2]

    def move(state: Any, action: Any) -> Any:
        x, v, angle, turn = state.T
        force = 20.0 * action - 10.0
        sine, cosine = np_.sin(angle), np_.cos(angle)
        push = (force + 0.05 * turn**2 * sine) / 1.1
        spin = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        moved = [x + 0.02 * v, v + 0.02 * push, angle + 0.02 * turn, turn + 0.02 * spin]
        state = np_.stack(moved, -1)
        fallen = (np_.abs(state[:, 2]) > 0.2) | (np_.abs(state[:, 0]) > 2.4)
        return np_.where(fallen[:, None], 0.0, state), 1.0 - fallen

    def play(params: Any, state: Any, key: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            logits, value = policy(params, state)
            action = random.categorical(key, logits)
            chosen = np_.take_along_axis(logits, action[:, None], -1)[:, 0]
            after, reward = move(state, action.astype(np_.float32))
            return after, (state, action, chosen, value, reward)

        return lax.scan(step, state, random.split(key, 32))

    def loss(params: Any, played: Any, returns: Any) -> Any:
        states, actions, before, values, _ = played
        logits, value = policy(params, states)
        chosen = np_.take_along_axis(logits, actions[..., None], -1)[..., 0]
        ratio, gain = np_.exp(chosen - before), returns - values
        clipped = np_.minimum(ratio * gain, np_.clip(ratio, 0.8, 1.2) * gain)
        return ((value - returns) ** 2).mean() - clipped.mean()

    def step(params: Any, state: Any, key: Any) -> Any:
        state, played = play(params, state, key)

        def discount(later: Any, reward: Any) -> Any:
            later = reward + 0.95 * later
            return later, later

        _, returns = lax.scan(discount, np_.zeros(64, np_.float32), played[-1], reverse=True)
        return descent(framework, loss)(params, played, returns), state

    return step, (params, arrays.normal(64, 4, scale=0.02), random.key(0))


def _conjugate_gradients(framework: Framework) -> Built:
    """A sparse system, five entries a row, by 50 steps of conjugate gradients."""
    arrays, np_ = Arrays(framework), framework.np
    side = 64

    def run(values: Any, columns: Any, rows: Any, b: Any) -> Any:
        def product(x: Any) -> Any:
            return framework.module.ops.segment_sum(values * x[columns], rows, side * side)

        def step(_: Any, state: Any) -> Any:
            x, r, p, size = state
            ap = product(p)
            alpha = size / (p @ ap)
            x, r = x + alpha * p, r - alpha * ap
            after = r @ r
            return x, r, r + after / size * p, after

        return framework.lax.fori_loop(0, 50, step, (np_.zeros_like(b), b, b, b @ b))[0]

    places = np_.arange(side * side, dtype=np_.int32)
    rows = np_.tile(places, 5)
    shifts = np_.repeat(np_.asarray([0, 1, -1, side, -side], np_.int32), side * side)
    columns = (rows + shifts) % (side * side)
    values = np_.where(shifts == 0, 5.0, -1.0).astype(np_.float32)
    return run, (values, columns, rows, arrays.normal(side * side))


def _k_means(framework: Framework) -> Built:
    arrays, np_ = Arrays(framework), framework.np

    def run(x: Any, centres: Any) -> Any:
        def step(_: Any, centres: Any) -> Any:
            squared = (centres**2).sum(-1) - 2 * x @ centres.T
            nearest = squared.argmin(-1)
            one = (nearest[:, None] == np_.arange(16)).astype(np_.float32)
            return (one.T @ x) / np_.maximum(one.sum(0), 1.0)[:, None]

        return framework.lax.fori_loop(0, 20, step, centres)

    x = arrays.normal(4096, 8)
    return run, (x, x[:16])


def _perceptron_step(framework: Framework) -> Built:
    arrays, np_, nn = Arrays(framework), framework.np, framework.module.nn
    widths = 784, 512, 512, 10
    params = [
        (arrays.normal(n, m, scale=(2 / n) ** 0.5), np_.zeros(m, np_.float32))
        for n, m in itertools.pairwise(widths)
    ]

    def loss(params: Any, x: Any, labels: Any) -> Any:
        for w, b in params[:-1]:
            x = nn.relu(x @ w + b)
        logits = nn.log_softmax(x @ params[-1][0] + params[-1][1])
        return -np_.take_along_axis(logits, labels[:, None], -1).mean()

    return descent(framework, loss), (
        params,
        arrays.normal(128, 784),
        arrays.integers(128, below=10),
    )


PROGRAMS = (
    Program("inference/mlp_step", "a step of a 784-512-512-10 perceptron", _perceptron_step),
    Program(
        "inference/gaussian_process",
        "gradient of a marginal likelihood, 256 points, cholesky",
        _gaussian_process,
        65536.0,
    ),
    Program("inference/als", "10 rounds, 96 users, 64 items, rank 8", _alternating_squares),
    Program("inference/mixture", "20 rounds of EM, 2048 points, 8 components", _mixture, 65536.0),
    # A proposal close to the threshold may be accepted by one framework only.
    Program("inference/hmc", "16 chains, 20 steps of 10 leapfrogs", _chains, 65536.0),
    Program("inference/ppo_step", "64 cart poles, 32 steps, an update", _policy_step, 65536.0),
    Program("inference/cg", "50 steps of a sparse system, 4096 rows", _conjugate_gradients),
    # A point between two centres may go to either, and moves both.
    Program("inference/k_means", "20 rounds, 4096 points, 16 centres", _k_means),
)
