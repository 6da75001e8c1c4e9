"""Single operations, in PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


@torch.inference_mode()
def fft2(x: Tensor) -> Tensor:
    """See ``kernel/fft2``."""
    return torch.fft.fft2(x).abs()


@torch.inference_mode()
def matmul_bf16(a: Tensor, b: Tensor) -> Tensor:
    """See ``kernel/matmul_bf16``."""
    return a @ b


@torch.inference_mode()
def layer_norm(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """See ``kernel/layer_norm``."""
    return F.layer_norm(x, scale.shape, scale, bias)


@torch.inference_mode()
def segment_sum(x: Tensor, segments: Tensor) -> Tensor:
    """See ``kernel/segment_sum``."""
    # With indices of i32, `index_add_` takes four times as long.
    return x.new_zeros(512, x.shape[1]).index_add_(0, segments.long(), x)


@torch.inference_mode()
def eigh(x: Tensor) -> Tensor:
    """See ``kernel/eigh``."""
    return torch.linalg.eigvalsh(x)
