"""Attention, and models made of it, in PyTorch."""

from __future__ import annotations

from typing import Any

import optree
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gnomon.tools.bench.programs.pytorch.gradients import descend, value_and_gradient

_HEADS = 4

Weights = dict[str, Tensor]


@torch.inference_mode()
def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """See ``transformer/attention``."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _layer_norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _layer(x: Tensor, layer: Weights, causal: bool) -> Tensor:
    n, t, width = x.shape
    heads = (_layer_norm(x) @ layer["qkv"]).view(n, t, 3, _HEADS, width // _HEADS)
    q, k, v = heads.permute(2, 0, 3, 1, 4).unbind()
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    x = x + mixed.transpose(1, 2).reshape(n, t, width) @ layer["out"]
    return x + F.gelu(_layer_norm(x) @ layer["up"], approximate="tanh") @ layer["down"]


def _next_token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten().long())


def _gpt_loss(params: Any, tokens: Tensor) -> Tensor:
    x = F.embedding(tokens[:, :-1], params["tokens"]) + params["positions"]
    for layer in params["layers"]:
        x = _layer(x, layer, True)
    return _next_token_loss(_layer_norm(x) @ params["tokens"].T, tokens)


@torch.inference_mode()
def gpt(params: Any, tokens: Tensor) -> Tensor:
    """See ``transformer/gpt``."""
    return _gpt_loss(params, tokens)


def gpt_step(params: Any, tokens: Tensor) -> Any:
    """See ``transformer/gpt_step``."""
    return descend(_gpt_loss, 0.1, params, tokens)


def _vit_loss(params: Any, images: Tensor, labels: Tensor) -> Tensor:
    n = len(images)
    patches = images.view(n, 8, 4, 8, 4, 3).transpose(2, 3).reshape(n, 64, 48)
    x = patches @ params["patches"] + params["positions"]
    for layer in params["layers"]:
        x = _layer(x, layer, False)
    return F.cross_entropy(_layer_norm(x).mean(1) @ params["out"], labels.long())


def vit_step(params: Any, images: Tensor, labels: Tensor) -> Any:
    """See ``transformer/vit_step``."""
    return descend(_vit_loss, 0.01, params, images, labels)


def _narrow_loss(params: Any, tokens: Tensor) -> Tensor:
    """The loss of a transformer in bf16, whose layers are computed again for the gradient."""
    cast = optree.tree_map(lambda p: p.bfloat16(), params)
    x = F.embedding(tokens[:, :-1], cast["tokens"])
    names, stacked = zip(*cast["layers"].items(), strict=True)
    for weights in zip(*(weight.unbind() for weight in stacked), strict=True):
        layer = dict(zip(names, weights, strict=True))
        x = checkpoint(_layer, x, layer, True, use_reentrant=False)
    return _next_token_loss((_layer_norm(x) @ cast["tokens"].T).float(), tokens)


def scan_bf16(params: Any, mean: Any, square: Any, tokens: Tensor) -> Any:
    """See ``transformer/scan_bf16``."""
    value, gradient = value_and_gradient(_narrow_loss, params, tokens)
    mean = optree.tree_map(lambda m, g: m.lerp(g, 0.1), mean, gradient)
    square = optree.tree_map(lambda s, g: (0.99 * s).addcmul_(g, g, value=0.01), square, gradient)
    params = optree.tree_map(
        lambda p, m, s: torch.addcdiv(p, m, s.sqrt().add_(1e-3), value=-1e-3), params, mean, square
    )
    return value, params, mean, square
