"""Attention, and models made of it."""

from __future__ import annotations

from typing import Any

from gnomon.tools.bench.frameworks import Framework
from gnomon.tools.bench.programs.program import Arrays, Built, Program, descent

_HEADS, _WIDTH, _CONTEXT, _VOCABULARY = 4, 128, 64, 65


def attention(framework: Framework, q: Any, k: Any, v: Any, causal: bool = True) -> Any:
    """Attention of ``[batch, heads, time, width]``."""
    np_ = framework.np
    scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        scores = np_.where(np_.tril(np_.ones(scores.shape[-2:], bool)), scores, -1e9)
    return framework.module.nn.softmax(scores, -1) @ v


def _layer_norm(framework: Framework, x: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return x / framework.np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def _layer(framework: Framework, x: Any, layer: Any, causal: bool, activation: Any) -> Any:
    n, t, width = x.shape
    heads = (_layer_norm(framework, x) @ layer["qkv"]).reshape(n, t, 3, _HEADS, width // _HEADS)
    q, k, v = (heads[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    mixed = attention(framework, q, k, v, causal).transpose(0, 2, 1, 3).reshape(n, t, width)
    x = x + mixed @ layer["out"]
    return x + activation(_layer_norm(framework, x) @ layer["up"]) @ layer["down"]


def _layer_weights(arrays: Arrays, *stacked: int) -> dict[str, Any]:
    shapes = {
        "qkv": (_WIDTH, 3 * _WIDTH),
        "out": (_WIDTH, _WIDTH),
        "up": (_WIDTH, 4 * _WIDTH),
        "down": (4 * _WIDTH, _WIDTH),
    }
    return {name: arrays.normal(*stacked, *shape, scale=0.02) for name, shape in shapes.items()}


def gpt(
    framework: Framework, *, layers: int = 4, batch: int = 8, changed_layer: bool = False
) -> tuple[Any, Any, Any]:
    """The loss of a GPT of width 128, its parameters, and tokens.

    Args:
      changed_layer: whether the last layer has another activation than the others.
    """
    arrays, np_, nn = Arrays(framework), framework.np, framework.module.nn
    params = {
        "tokens": arrays.normal(_VOCABULARY, _WIDTH, scale=0.02),
        "positions": arrays.normal(_CONTEXT, _WIDTH, scale=0.02),
        "layers": [_layer_weights(arrays) for _ in range(layers)],
    }
    activations = [nn.gelu] * layers
    if changed_layer:
        activations[-1] = nn.silu

    def loss(params: Any, tokens: Any) -> Any:
        x = params["tokens"][tokens[:, :-1]] + params["positions"]
        for layer, activation in zip(params["layers"], activations, strict=True):
            x = _layer(framework, x, layer, True, activation)
        logits = nn.log_softmax(_layer_norm(framework, x) @ params["tokens"].T, -1)
        return -np_.take_along_axis(logits, tokens[:, 1:, None], -1).mean()

    return loss, params, arrays.integers(batch, _CONTEXT + 1, below=_VOCABULARY)


def _gpt_forward(framework: Framework) -> Built:
    loss, params, tokens = gpt(framework)
    return loss, (params, tokens)


def gpt_step(framework: Framework, *, batch: int = 8, changed_layer: bool = False) -> Built:
    """A step of gradient descent of the GPT with 4 layers."""
    loss, params, tokens = gpt(framework, batch=batch, changed_layer=changed_layer)
    return descent(framework, loss, 0.1), (params, tokens)


def _attention(framework: Framework) -> Built:
    arrays = Arrays(framework)
    q, k, v = (arrays.normal(4, 8, 256, 64) for _ in range(3))
    return lambda q, k, v: attention(framework, q, k, v), (q, k, v)


def _vit_step(framework: Framework) -> Built:
    arrays, nn, np_ = Arrays(framework), framework.module.nn, framework.np
    params = {
        "patches": arrays.normal(48, _WIDTH, scale=0.1),
        "positions": arrays.normal(64, _WIDTH, scale=0.02),
        "layers": [_layer_weights(arrays) for _ in range(2)],
        "out": arrays.normal(_WIDTH, 10, scale=0.1),
    }

    def loss(params: Any, images: Any, labels: Any) -> Any:
        n = len(images)
        patches = images.reshape(n, 8, 4, 8, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(n, 64, 48)
        x = patches @ params["patches"] + params["positions"]
        for layer in params["layers"]:
            x = _layer(framework, x, layer, False, nn.gelu)
        logits = nn.log_softmax(_layer_norm(framework, x).mean(1) @ params["out"])
        return -np_.take_along_axis(logits, labels[:, None], -1).mean()

    images, labels = arrays.normal(16, 32, 32, 3), arrays.integers(16, below=10)
    return descent(framework, loss), (params, images, labels)


def _scanned_step(framework: Framework) -> Built:
    """A step of Adam of a transformer in bf16, its layers in a scan of checkpoints."""
    arrays, np_, module = Arrays(framework), framework.np, framework.module
    narrow = np_.bfloat16
    params = {
        "tokens": arrays.normal(_VOCABULARY, _WIDTH, scale=0.02),
        "layers": _layer_weights(arrays, 4),
    }
    zeros = module.tree.map(np_.zeros_like, params)

    def loss(params: Any, tokens: Any) -> Any:
        @module.checkpoint
        def layer(x: Any, weights: Any) -> Any:
            return _layer(framework, x, weights, True, module.nn.gelu), None

        cast = module.tree.map(lambda p: p.astype(narrow), params)
        x, _ = framework.lax.scan(layer, cast["tokens"][tokens[:, :-1]], cast["layers"])
        logits = (_layer_norm(framework, x) @ cast["tokens"].T).astype(np_.float32)
        logits = module.nn.log_softmax(logits, -1)
        return -np_.take_along_axis(logits, tokens[:, 1:, None], -1).mean()

    def step(params: Any, mean: Any, square: Any, tokens: Any) -> Any:
        value, gradient = module.value_and_grad(loss)(params, tokens)
        mean = module.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        square = module.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, gradient)
        params = module.tree.map(
            lambda p, m, s: p - 1e-3 * m / (np_.sqrt(s) + 1e-3), params, mean, square
        )
        return value, params, mean, square

    tokens = arrays.integers(4, _CONTEXT + 1, below=_VOCABULARY)
    return step, (params, zeros, zeros, tokens)


PROGRAMS = (
    Program("transformer/attention", "causal, 4 of 8 heads, 256 steps, 64 wide", _attention),
    Program("transformer/gpt", "loss of a GPT, 4 layers, 128 wide, 8 x 64 tokens", _gpt_forward),
    Program("transformer/gpt_step", "a step of gradient descent of that GPT", gpt_step),
    Program("transformer/vit_step", "a step of a ViT, 2 layers, 16 images of 32x32", _vit_step),
    Program(
        "transformer/scan_bf16",
        "a step of Adam, bf16, scan over 4 checkpointed layers",
        _scanned_step,
        # Gradients of bf16 with another order of sums, kept in f32.
        3e5,
    ),
)
