"""Recurrences: hidden states, filters, recurrent networks, searches."""

from __future__ import annotations

from typing import Any

from gnomon.tools.bench.frameworks import Framework
from gnomon.tools.bench.programs.program import Arrays, Built, Program, descent


def _hidden_markov(framework: Framework) -> Built:
    arrays, nn = Arrays(framework), framework.module.nn
    logsumexp = nn.logsumexp

    def loss(transition: Any, emission: Any, start: Any) -> Any:
        moves = nn.log_softmax(transition, -1)

        def step(alpha: Any, emitted: Any) -> Any:
            return logsumexp(alpha[:, None] + moves, 0) + emitted, None

        alpha, _ = framework.lax.scan(step, nn.log_softmax(start), emission)
        return -logsumexp(alpha)

    given = arrays.normal(20, 20), arrays.normal(500, 20), arrays.normal(20)
    return framework.module.grad(loss, (0, 1, 2)), given


def _kalman(framework: Framework) -> Built:
    arrays, np_ = Arrays(framework), framework.np
    moves = np_.asarray([[1.0, 0.1], [0.0, 0.98]], np_.float32)
    noise = 0.01 * np_.eye(2, dtype=np_.float32)

    def one(measured: Any) -> Any:
        def step(state: Any, y: Any) -> Any:
            x, p = state
            x, p = moves @ x, moves @ p @ moves.T + noise
            gain = np_.linalg.solve(p + 0.1 * np_.eye(2, dtype=np_.float32), p).T
            x, p = x + gain @ (y - x), p - gain @ p
            return (x, p), x

        start = np_.zeros(2, np_.float32), np_.eye(2, dtype=np_.float32)
        return framework.lax.scan(step, start, measured)[1]

    return framework.module.vmap(one), (arrays.normal(32, 100, 2),)


def _gates(framework: Framework, params: Any, x: Any, h: Any, parts: int) -> Any:
    return framework.np.split(x @ params["input"] + h @ params["state"], parts, axis=-1)


def _recurrent_arrays(arrays: Arrays, parts: int) -> tuple[Any, ...]:
    params = {
        "input": arrays.normal(16, parts * 64, scale=0.1),
        "state": arrays.normal(64, parts * 64, scale=0.1),
        "out": arrays.normal(64, 16, scale=0.1),
    }
    return params, arrays.normal(50, 16, 16), arrays.normal(50, 16, 16)


def _lstm_step(framework: Framework) -> Built:
    np_, sigmoid = framework.np, framework.module.nn.sigmoid

    def loss(params: Any, xs: Any, wanted: Any) -> Any:
        def cell(state: Any, x: Any) -> Any:
            h, c = state
            forget, enter, leave, new = _gates(framework, params, x, h, 4)
            c = sigmoid(forget) * c + sigmoid(enter) * np_.tanh(new)
            h = sigmoid(leave) * np_.tanh(c)
            return (h, c), h

        start = np_.zeros((16, 64), np_.float32)
        _, hs = framework.lax.scan(cell, (start, start), xs)
        return ((hs @ params["out"] - wanted) ** 2).mean()

    return descent(framework, loss), _recurrent_arrays(Arrays(framework), 4)


def _gru_step(framework: Framework) -> Built:
    np_, sigmoid = framework.np, framework.module.nn.sigmoid

    def loss(params: Any, xs: Any, wanted: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            reset, keep, new = np_.split(x @ params["input"], 3, axis=-1)
            reset_h, keep_h, new_h = np_.split(h @ params["state"], 3, axis=-1)
            keep = sigmoid(keep + keep_h)
            h = keep * h + (1 - keep) * np_.tanh(new + sigmoid(reset + reset_h) * new_h)
            return h, h

        _, hs = framework.lax.scan(cell, np_.zeros((16, 64), np_.float32), xs)
        return ((hs @ params["out"] - wanted) ** 2).mean()

    return descent(framework, loss), _recurrent_arrays(Arrays(framework), 3)


def _chain(framework: Framework) -> Built:
    arrays = Arrays(framework)

    def run(w: Any, x: Any) -> Any:
        for _ in range(500):
            x = framework.np.tanh(w @ x)
        return x

    return run, (arrays.normal(64, 64, scale=0.12), arrays.normal(64))


def _beam_search(framework: Framework) -> Built:
    """Eight beams over a table of bigrams, 32 steps."""
    arrays, np_, lax = Arrays(framework), framework.np, framework.lax

    def search(table: Any, start: Any) -> Any:
        moves = framework.module.nn.log_softmax(table, -1)
        scores = np_.where(np_.arange(8) == 0, 0.0, -1e9).astype(np_.float32)

        def step(state: Any, _: None) -> Any:
            scores, tokens = state
            reached = (scores[:, None] + moves[tokens]).reshape(-1)
            scores, picked = lax.top_k(reached, 8)
            beams, tokens = picked // 256, picked % 256
            return (scores, tokens), (beams, tokens)

        tokens = np_.full(8, start, np_.int32)
        (scores, _), path = lax.scan(step, (scores, tokens), None, length=32)
        return scores, path

    return search, (arrays.normal(256, 256), arrays.integers(below=256))


def _speech_features(framework: Framework) -> Built:
    """Cepstra of two seconds of sound: windows, spectra, 40 bands, logarithms, cosines."""
    arrays, np_ = Arrays(framework), framework.np

    def features(sound: Any, bands: Any) -> Any:
        starts = np_.arange(0, 32000 - 512, 160)
        frames = sound[starts[:, None] + np_.arange(512)]
        spectrum = np_.abs(np_.fft.rfft(frames * np_.hanning(512).astype(np_.float32))) ** 2
        logs = np_.log(spectrum @ bands + 1e-6)
        n = np_.arange(40.0)
        return logs @ np_.cos(np_.pi / 40 * (n[:, None] + 0.5) * n[None, :13])

    return features, (arrays.normal(32000), arrays.uniform(257, 40))


PROGRAMS = (
    Program(
        "sequence/hmm_grad",
        "gradient of a hidden Markov model, 20 states, 500 steps",
        _hidden_markov,
    ),
    Program("sequence/kalman", "vmap of 32 Kalman filters, 100 steps, 2x2 solves", _kalman),
    Program("sequence/lstm_step", "a step of an LSTM, 50 x 16, 64 wide", _lstm_step),
    Program("sequence/gru_step", "a step of a GRU, 50 x 16, 64 wide", _gru_step),
    Program("sequence/chain", "1000 ops: 500 times tanh(w @ x), f32[64,64]", _chain, 65536.0),
    Program("sequence/beam_search", "8 beams, 32 steps, 256 tokens", _beam_search),
    Program("sequence/speech", "cepstra of 2 s of sound at 16 kHz", _speech_features),
)
