"""Recurrences, in PyTorch: loops of Python, and its own recurrent networks."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gnomon.tools.bench.programs.pytorch.gradients import descend, value_and_gradient


def _markov_loss(given: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    transition, emission, start = given
    moves = F.log_softmax(transition, -1)
    alpha = F.log_softmax(start, -1)
    for emitted in emission.unbind():
        alpha = torch.logsumexp(alpha[:, None] + moves, 0) + emitted
    return -torch.logsumexp(alpha, 0)


def hmm_grad(transition: Tensor, emission: Tensor, start: Tensor) -> Any:
    """See ``sequence/hmm_grad``."""
    return value_and_gradient(_markov_loss, (transition, emission, start))[1]


@torch.inference_mode()
def kalman(measured: Tensor) -> Tensor:
    """See ``sequence/kalman``; the covariances do not depend on what a filter measures."""
    moves = measured.new_tensor([[1.0, 0.1], [0.0, 0.98]])
    one = torch.eye(2, device=measured.device)
    x, p, states = measured.new_zeros(len(measured), 2), one, []
    for y in measured.unbind(1):
        x, p = x @ moves.T, moves @ p @ moves.T + 0.01 * one
        gain = torch.linalg.solve(p + 0.1 * one, p).T
        x, p = x + (y - x) @ gain.T, p - gain @ p
        states.append(x)
    return torch.stack(states, 1)


def _lstm_loss(params: dict[str, Tensor], xs: Tensor, wanted: Tensor) -> Tensor:
    # PyTorch has its gates in the order enter, forget, new, leave, and rows before columns.
    weights = [
        params[name].unflatten(1, (4, -1))[:, [1, 0, 3, 2]].flatten(1).T.contiguous()
        for name in ("input", "state")
    ]
    start = xs.new_zeros(1, xs.shape[1], params["state"].shape[0])
    hs, _, _ = torch.lstm(xs, (start, start), weights, False, 1, 0.0, True, False, False)
    return F.mse_loss(hs @ params["out"], wanted)


def lstm_step(params: dict[str, Tensor], xs: Tensor, wanted: Tensor) -> Any:
    """See ``sequence/lstm_step``."""
    return descend(_lstm_loss, 0.01, params, xs, wanted)


def _gru_loss(params: dict[str, Tensor], xs: Tensor, wanted: Tensor) -> Tensor:
    weights = [params[name].T.contiguous() for name in ("input", "state")]
    start = xs.new_zeros(1, xs.shape[1], params["state"].shape[0])
    hs, _ = torch.gru(xs, start, weights, False, 1, 0.0, True, False, False)
    return F.mse_loss(hs @ params["out"], wanted)


def gru_step(params: dict[str, Tensor], xs: Tensor, wanted: Tensor) -> Any:
    """See ``sequence/gru_step``."""
    return descend(_gru_loss, 0.01, params, xs, wanted)


@torch.inference_mode()
def chain(w: Tensor, x: Tensor) -> Tensor:
    """See ``sequence/chain``."""
    for _ in range(500):
        x = torch.tanh(w @ x)
    return x


@torch.inference_mode()
def beam_search(table: Tensor, start: Tensor) -> Any:
    """See ``sequence/beam_search``."""
    moves = F.log_softmax(table, -1)
    scores = table.new_full((8,), -1e9)
    scores[0] = 0.0
    tokens, beams, path = start.expand(8), [], []
    for _ in range(32):
        reached = scores[:, None] + moves[tokens]
        scores, picked = reached.flatten().topk(8)
        beam, tokens = picked // 256, picked % 256
        beams.append(beam)
        path.append(tokens)
    return scores, (torch.stack(beams).int(), torch.stack(path).int())


@torch.inference_mode()
def speech(sound: Tensor, bands: Tensor) -> Tensor:
    """See ``sequence/speech``."""
    frames = sound.unfold(0, 512, 160)
    window = torch.hann_window(512, periodic=False, device=sound.device)
    logs = torch.log(torch.fft.rfft(frames * window).abs() ** 2 @ bands + 1e-6)
    n = torch.arange(40.0, device=sound.device)
    return logs @ torch.cos(torch.pi / 40 * (n[:, None] + 0.5) * n[None, :13])
