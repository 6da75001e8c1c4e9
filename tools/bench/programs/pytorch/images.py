"""Convolutional networks, and preprocessing of images, in PyTorch.

Images arrive as NHWC and kernels as HWIO. Images are viewed as NCHW, which is PyTorch's format
``channels_last`` in memory, and kernels as OIHW.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gnomon.tools.bench.programs.pytorch.gradients import descend, value_and_gradient


def _channels_first(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def _convolve(x: Tensor, w: Tensor, stride: int = 1) -> Tensor:
    """A convolution of NCHW with HWIO; the padding is ``"SAME"``."""
    size = w.shape[0]
    if stride > 1 and size > 1:
        # Of an even number of places, a stride of 2 leaves one to pad, which is at the end;
        # the padding of `conv2d` is the same on both sides.
        x, padding = F.pad(x, (0, size - stride) * 2), 0
    else:
        padding = size // 2
    return F.conv2d(x, w.permute(3, 2, 0, 1), stride=stride, padding=padding)


def _normalized(x: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, training=True)


@torch.inference_mode()
def convolution(x: Tensor, w: Tensor) -> Tensor:
    """See ``image/convolution``."""
    return _convolve(_channels_first(x), w).permute(0, 2, 3, 1)


def _cnn_loss(params: dict[str, Tensor], x: Tensor, labels: Tensor) -> Tensor:
    x = F.max_pool2d(F.relu(_convolve(_channels_first(x), params["first"])), 2)
    x = F.max_pool2d(F.relu(_convolve(x, params["second"])), 2)
    # The rows of the dense layer are in the order of NHWC.
    x = F.relu(x.permute(0, 2, 3, 1).flatten(1) @ params["dense"])
    return F.cross_entropy(x @ params["out"], labels.long())


def cnn_step(params: dict[str, Tensor], x: Tensor, labels: Tensor) -> Any:
    """See ``image/cnn_step``."""
    return descend(_cnn_loss, 0.01, params, x, labels)


def _residual(params: list[Tensor], x: Tensor) -> Tensor:
    x = _channels_first(x)
    y = F.relu(_normalized(_convolve(x, params[0])))
    return F.relu(x + _normalized(_convolve(y, params[1])))


@torch.inference_mode()
def residual(params: list[Tensor], x: Tensor) -> Tensor:
    """See ``image/residual``."""
    return _residual(params, x).permute(0, 2, 3, 1)


def residual_grad(params: list[Tensor], x: Tensor) -> Any:
    """See ``image/residual_grad``."""
    return value_and_gradient(lambda given: (_residual(*given) ** 2).mean(), (params, x))[1]


def _resnet_block(x: Tensor, kernels: list[Tensor]) -> Tensor:
    stride = 2 if len(kernels) == 3 else 1
    y = F.relu(_normalized(_convolve(x, kernels[0], stride)))
    y = _normalized(_convolve(y, kernels[1]))
    if stride > 1:
        x = _normalized(_convolve(x, kernels[2], stride))
    return F.relu(x + y)


def _resnet_loss(params: Any, x: Tensor, labels: Tensor) -> Tensor:
    x = F.relu(_normalized(_convolve(_channels_first(x), params["stem"])))
    for kernels in params["blocks"]:
        x = _resnet_block(x, kernels)
    return F.cross_entropy(x.mean((2, 3)) @ params["out"], labels.long())


def resnet_step(params: Any, x: Tensor, labels: Tensor) -> Any:
    """See ``image/resnet_step``."""
    return descend(_resnet_loss, 0.01, params, x, labels)


def _unet(params: dict[str, Tensor], x: Tensor) -> Tensor:
    """The U-Net of an NCHW image."""
    fine = F.silu(_convolve(x, params["in"]))
    coarse = F.silu(_convolve(fine, params["down"], 2))
    coarse = F.silu(_normalized(_convolve(coarse, params["middle"])))
    coarse = F.silu(_convolve(F.interpolate(coarse, scale_factor=2), params["up"]))
    return _convolve(torch.cat([fine, coarse], 1), params["out"])


def unet_grad(params: dict[str, Tensor], x: Tensor) -> Any:
    """See ``image/unet_grad``."""
    x = _channels_first(x)
    return value_and_gradient(lambda params: (_unet(params, x) ** 2).mean(), params)[1]


def _denoising_loss(
    params: dict[str, Tensor], images: Tensor, times: Tensor, noise: Tensor
) -> Tensor:
    kept = torch.cos(times * 1.57) ** 2
    noisy = torch.sqrt(kept) * images + torch.sqrt(1 - kept) * noise
    return F.mse_loss(_unet(params, noisy), noise)


def diffusion_step(params: dict[str, Tensor], images: Tensor, times: Tensor, noise: Tensor) -> Any:
    """See ``image/diffusion_step``; times and noise in the place of a key."""
    images, noise = _channels_first(images), _channels_first(noise)
    return descend(_denoising_loss, 0.01, params, images, times, noise)


@torch.inference_mode()
def augmentation(images: Tensor, angle: Tensor, flip: Tensor, gain: Tensor) -> Tensor:
    """See ``image/augmentation``."""
    images, zero = _channels_first(images), torch.zeros_like(angle)
    sine, cosine = torch.sin(angle), torch.cos(angle)
    # PyTorch's coordinates are columns before rows.
    turns = torch.stack([cosine, sine, zero, -sine, cosine, zero], -1).view(-1, 2, 3)
    grid = F.affine_grid(turns, list(images.shape), align_corners=True)
    turned = F.grid_sample(images, grid, align_corners=True)
    turned = torch.where((flip > 0.5)[:, None, None, None], turned.flip(3), turned)
    return (turned * gain[:, None, None, None]).clamp(0.0, 1.0).permute(0, 2, 3, 1)
