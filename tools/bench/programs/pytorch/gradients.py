"""Gradients with respect to trees of parameters, by autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optree
import torch


def value_and_gradient(loss: Callable[..., Any], params: Any, *data: Any) -> tuple[Any, Any]:
    """A loss and its gradient with respect to each leaf of its first argument."""
    leaves, tree = optree.tree_flatten(params)
    leaves = [p.detach().requires_grad_() for p in leaves]
    value = loss(tree.unflatten(leaves), *data)
    gradient = torch.autograd.grad(value, leaves)
    return value.detach(), tree.unflatten(gradient)


def descend(loss: Callable[..., Any], rate: float, params: Any, *data: Any) -> tuple[Any, Any]:
    """A step of gradient descent: the loss and the next parameters."""
    value, gradient = value_and_gradient(loss, params, *data)
    return value, optree.tree_map(lambda p, g: torch.sub(p, g, alpha=rate), params, gradient)


__all__ = ["descend", "value_and_gradient"]
