"""Physics and pictures, in PyTorch: loops of Python over whole arrays."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.inference_mode()
def heat(u: Tensor) -> Tensor:
    """See ``simulation/heat``."""
    u = u.clone()
    inner = u[1:-1, 1:-1]
    for _ in range(200):
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        inner += 0.2 * (around - 4 * inner)
    return u


def _slope(field: Tensor, axis: int) -> Tensor:
    return (torch.roll(field, -1, axis) - torch.roll(field, 1, axis)) * 0.5


@torch.inference_mode()
def shallow_water(h: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """See ``simulation/shallow_water``."""
    for _ in range(100):
        u = u - 0.05 * (u * _slope(u, 0) + v * _slope(u, 1) + _slope(h, 0))
        v = v - 0.05 * (u * _slope(v, 0) + v * _slope(v, 1) + _slope(h, 1))
        h = h - 0.05 * (_slope((1 + h) * u, 0) + _slope((1 + h) * v, 1))
    return h, u, v


def _laplacian(f: Tensor) -> Tensor:
    return f[2:, 1:-1] + f[:-2, 1:-1] + f[1:-1, 2:] + f[1:-1, :-2] - 4 * f[1:-1, 1:-1]


@torch.inference_mode()
def cavity(vorticity: Tensor, stream: Tensor) -> tuple[Tensor, Tensor]:
    """See ``simulation/cavity``; the border of the stream function is and stays zero."""
    vorticity, stream = vorticity.clone(), stream.clone()
    inner, inner_stream = vorticity[1:-1, 1:-1], stream[1:-1, 1:-1]
    for _ in range(20):
        for _ in range(20):
            inner_stream += 0.25 * (_laplacian(stream) + inner)
        u = (stream[1:-1, 2:] - stream[1:-1, :-2]) * 0.5
        v = (stream[:-2, 1:-1] - stream[2:, 1:-1]) * 0.5
        along = (vorticity[1:-1, 2:] - vorticity[1:-1, :-2]) * 0.5
        across = (vorticity[2:, 1:-1] - vorticity[:-2, 1:-1]) * 0.5
        inner += 0.1 * (0.5 * _laplacian(vorticity) - u * across - v * along)
        vorticity[0] = -2 * stream[1] - 0.5
    return vorticity, stream


@torch.inference_mode()
def n_body(x: Tensor, v: Tensor, masses: Tensor) -> tuple[Tensor, Tensor]:
    """See ``simulation/n_body``."""
    for _ in range(100):
        apart = x[None] - x[:, None]
        squared = (apart * apart).sum(-1) + 0.05
        v = v + 0.005 * (apart * (masses * squared**-1.5)[..., None]).sum(1)
        x = x + 0.005 * v
    return x, v


def molecules(x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """See ``simulation/molecules``."""
    side = 6.0
    itself = 1e6 * torch.eye(len(x), device=x.device)

    def force(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        apart = x[:, None] - x[None]
        apart = apart - side * torch.round(apart.detach() / side)
        squared = (apart * apart).sum(-1) + itself
        sixth = (1.0 / squared) ** 3
        energy = 2.0 * (sixth * sixth - sixth).sum()
        return torch.autograd.grad(energy, x)[0]

    f = force(x)
    for _ in range(50):
        v = v - 0.0005 * f
        x = x + 0.001 * v
        f = force(x)
        v = v - 0.0005 * f
    return x, v


def _pull(x: Tensor, axis: int) -> None:
    """Move the neighbours along an axis towards their distance, in place."""
    n = x.shape[axis]
    first, second = x.narrow(axis, 0, n - 1), x.narrow(axis, 1, n - 1)
    apart = second - first
    length = torch.sqrt((apart * apart).sum(-1, keepdim=True) + 1e-9)
    move = 0.25 * apart * (1 - 0.1 / length)
    first += move
    second -= move


@torch.inference_mode()
def cloth(x: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """See ``simulation/cloth``."""
    down = x.new_tensor([0.0, -0.001, 0.0])
    for _ in range(20):
        moved = x + 0.99 * (x - before) + down
        for _ in range(4):
            _pull(moved, 0)
            _pull(moved, 1)
            moved[0] = x[0]
        x, before = moved, x
    return x, before


def _distance(points: Tensor, centres: Tensor) -> Tensor:
    apart = torch.sqrt(((points[..., None, :] - centres) ** 2).sum(-1) + 1e-12) - 0.5
    return torch.minimum(apart.amin(-1), points[..., 1] + 1.0)


@torch.no_grad()
def rays(directions: Tensor, centres: Tensor) -> Tensor:
    """See ``simulation/rays``."""
    travelled = directions.new_zeros(directions.shape[:-1])
    for _ in range(32):
        travelled = travelled + _distance(travelled[..., None] * directions, centres)
    with torch.enable_grad():
        points = (travelled[..., None] * directions).requires_grad_()
        (normals,) = torch.autograd.grad(_distance(points, centres).sum(), points)
    light = (normals @ normals.new_tensor([0.5, 0.7, -0.5])).clamp_min(0.0)
    return torch.where(travelled < 20.0, light, 0.0)


@torch.inference_mode()
def mandelbrot(c: Tensor) -> Tensor:
    """See ``simulation/mandelbrot``."""
    z, count = torch.zeros_like(c), torch.zeros(c.shape, dtype=torch.int32, device=c.device)
    for _ in range(50):
        inside = z.real * z.real + z.imag * z.imag < 4.0
        z = torch.where(inside, z * z + c, z)
        count += inside
    return count
