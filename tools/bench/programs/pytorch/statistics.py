"""Inference and optimization, in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gnomon.tools.bench.programs.pytorch.gradients import descend, value_and_gradient


def _perceptron_loss(params: Any, x: Tensor, labels: Tensor) -> Tensor:
    for w, b in params[:-1]:
        x = F.relu(torch.addmm(b, x, w))
    w, b = params[-1]
    return F.cross_entropy(torch.addmm(b, x, w), labels.long())


def mlp_step(params: Any, x: Tensor, labels: Tensor) -> Any:
    """See ``inference/mlp_step``."""
    return descend(_perceptron_loss, 0.01, params, x, labels)


def _marginal_loss(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    squared = ((x[:, None] - x[None]) ** 2 / torch.exp(params["scale"])).sum(-1)
    noise = torch.exp(params["noise"]) * torch.eye(len(x), device=x.device)
    factor = torch.linalg.cholesky(torch.exp(params["height"] - 0.5 * squared) + noise)
    white = torch.linalg.solve_triangular(factor, y[:, None], upper=False)
    return 0.5 * (white * white).sum() + torch.log(factor.diagonal()).sum()


def gaussian_process(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Any:
    """See ``inference/gaussian_process``."""
    return value_and_gradient(_marginal_loss, params, x, y)[1]


@torch.inference_mode()
def als(items: Tensor, ratings: Tensor, seen: Tensor) -> Any:
    """See ``inference/als``."""
    ridge = 0.1 * torch.eye(8, device=items.device)

    def solve(factors: Tensor, ratings: Tensor, seen: Tensor) -> Tensor:
        squares = (factors * seen[..., None]).mT @ factors
        return torch.linalg.solve(squares + ridge, (ratings * seen) @ factors)

    for _ in range(10):
        users = solve(items, ratings, seen)
        items = solve(users, ratings.T, seen.T)
    return users, items


@torch.inference_mode()
def mixture(x: Tensor, means: Tensor) -> Any:
    """See ``inference/mixture``."""
    weights, spread = x.new_full((8,), 1 / 8), x.new_ones(8, 4)
    for _ in range(20):
        squared = ((x[:, None] - means) ** 2 / spread).sum(-1)
        logs = torch.log(weights) - 0.5 * (squared + torch.log(spread).sum(-1))
        share = F.softmax(logs, -1)
        count = share.sum(0) + 1e-3
        means = (share.T @ x) / count[:, None]
        apart = (x[:, None] - means) ** 2
        weights = count / count.sum()
        spread = (share[..., None] * apart).sum(0) / count[:, None] + 1e-2
    return weights, means, spread


@torch.no_grad()
def hmc(w: Tensor, pushes: Tensor, tosses: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """See ``inference/hmc``; all chains at once, with random numbers in the place of a key."""

    def energy(w: Tensor) -> Tensor:
        logits = w @ x.T
        return (F.softplus(logits) - y * logits).sum(-1) + 0.5 * (w * w).sum(-1)

    def force(w: Tensor) -> Tensor:
        with torch.enable_grad():
            w = w.detach().requires_grad_()
            return torch.autograd.grad(energy(w).sum(), w)[0]

    for start, toss in zip(pushes.unbind(), tosses.unbind(), strict=True):
        moved, p = w, start
        for _ in range(10):
            p = p - 0.025 * force(moved)
            moved = moved + 0.05 * p
            p = p - 0.025 * force(moved)
        kinetic = 0.5 * ((start * start).sum(-1) - (p * p).sum(-1))
        gain = energy(w) - energy(moved) + kinetic
        w = torch.where((torch.log(toss) < gain)[:, None], moved, w)
    return w


def _policy(params: dict[str, Tensor], state: Tensor) -> tuple[Tensor, Tensor]:
    out = torch.tanh(state @ params["in"]) @ params["out"]
    return F.log_softmax(out[..., :2], -1), out[..., 2]


def _move(state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    _, v, angle, turn = state.unbind(-1)
    force = 20.0 * action - 10.0
    sine, cosine = torch.sin(angle), torch.cos(angle)
    push = (force + 0.05 * turn**2 * sine) / 1.1
    spin = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    state = state + 0.02 * torch.stack([v, push, turn, spin], -1)
    fallen = (state[:, 2].abs() > 0.2) | (state[:, 0].abs() > 2.4)
    return torch.where(fallen[:, None], 0.0, state), 1.0 - fallen.float()


def _clipped_loss(params: dict[str, Tensor], played: Any, returns: Tensor) -> Tensor:
    states, actions, before, values = played
    logits, value = _policy(params, states)
    chosen = logits.gather(-1, actions[..., None]).squeeze(-1)
    ratio, gain = torch.exp(chosen - before), returns - values
    clipped = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
    return F.mse_loss(value, returns) - clipped.mean()


def ppo_step(params: dict[str, Tensor], state: Tensor, noise: Tensor) -> Any:
    """See ``inference/ppo_step``; the noise of the actions in the place of a key."""
    played, rewards = [], []
    with torch.no_grad():
        for one in noise.unbind():
            logits, value = _policy(params, state)
            action = (logits + one).argmax(-1)
            chosen = logits.gather(-1, action[:, None]).squeeze(-1)
            played.append((state, action, chosen, value))
            state, reward = _move(state, action.float())
            rewards.append(reward)
        later, returns = torch.zeros_like(rewards[0]), []
        for reward in reversed(rewards):
            later = reward + 0.95 * later
            returns.append(later)
        steps = tuple(torch.stack(part) for part in zip(*played, strict=True))
    return descend(_clipped_loss, 0.01, params, steps, torch.stack(returns[::-1])), state


@torch.inference_mode()
def cg(values: Tensor, columns: Tensor, rows: Tensor, b: Tensor) -> Tensor:
    """See ``inference/cg``."""
    rows, columns = rows.long(), columns.long()
    x, r, p, size = torch.zeros_like(b), b, b, b @ b
    for _ in range(50):
        ap = torch.zeros_like(b).index_add_(0, rows, values * p.index_select(0, columns))
        alpha = size / (p @ ap)
        x, r = x + alpha * p, r - alpha * ap
        after = r @ r
        p, size = r + after / size * p, after
    return x


@torch.inference_mode()
def k_means(x: Tensor, centres: Tensor) -> Tensor:
    """See ``inference/k_means``."""
    for _ in range(20):
        squared = (centres**2).sum(-1) - 2 * x @ centres.T
        one = F.one_hot(squared.argmin(-1), 16).float()
        centres = (one.T @ x) / one.sum(0).clamp_min(1.0)[:, None]
    return centres
