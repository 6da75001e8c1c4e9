"""Physics and pictures: stencils, particles, cloth, rays, fractals."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.tools.bench.frameworks import Framework
from gnomon.tools.bench.programs.program import Arrays, Built, Program


def _repeat(framework: Framework, step: Any, state: Any, times: int) -> Any:
    return framework.lax.fori_loop(0, times, lambda _, state: step(state), state)


def _heat(framework: Framework) -> Built:
    def step(u: Any) -> Any:
        inner = u[1:-1, 1:-1]
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        return u.at[1:-1, 1:-1].set(inner + 0.2 * (around - 4 * inner))

    u = Arrays(framework).uniform(256, 256)
    return lambda u: _repeat(framework, step, u, 200), (u,)


def _shallow_water(framework: Framework) -> Built:
    arrays, np_ = Arrays(framework), framework.np

    def slope(field: Any, axis: int) -> Any:
        return (np_.roll(field, -1, axis) - np_.roll(field, 1, axis)) * 0.5

    def step(state: Any) -> Any:
        h, u, v = state
        u = u - 0.05 * (u * slope(u, 0) + v * slope(u, 1) + slope(h, 0))
        v = v - 0.05 * (u * slope(v, 0) + v * slope(v, 1) + slope(h, 1))
        h = h - 0.05 * (slope((1 + h) * u, 0) + slope((1 + h) * v, 1))
        return h, u, v

    h, still = 0.05 * arrays.uniform(128, 128), np_.zeros((128, 128), np_.float32)
    return lambda *state: _repeat(framework, step, state, 100), (h, still, still)


def _cavity(framework: Framework) -> Built:
    """Flow in a lid-driven cavity: vorticity and stream function, 20 Jacobi sweeps a step."""
    np_ = framework.np

    def laplacian(f: Any) -> Any:
        return f[2:, 1:-1] + f[:-2, 1:-1] + f[1:-1, 2:] + f[1:-1, :-2] - 4 * f[1:-1, 1:-1]

    def step(state: Any) -> Any:
        vorticity, stream = state

        def sweep(stream: Any) -> Any:
            return np_.pad(
                stream[1:-1, 1:-1] + 0.25 * (laplacian(stream) + vorticity[1:-1, 1:-1]), 1
            )

        stream = _repeat(framework, sweep, stream, 20)
        u = (stream[1:-1, 2:] - stream[1:-1, :-2]) * 0.5
        v = (stream[:-2, 1:-1] - stream[2:, 1:-1]) * 0.5
        along = (vorticity[1:-1, 2:] - vorticity[1:-1, :-2]) * 0.5
        across = (vorticity[2:, 1:-1] - vorticity[:-2, 1:-1]) * 0.5
        inner = vorticity[1:-1, 1:-1]
        inner = inner + 0.1 * (0.5 * laplacian(vorticity) - u * across - v * along)
        vorticity = np_.pad(inner, 1).at[0].set(-2 * stream[1] - 0.5)
        return vorticity, stream

    zero = np_.zeros((64, 64), np_.float32)
    return lambda *state: _repeat(framework, step, state, 20), (zero, zero)


def masses(arrays: Arrays) -> Any:
    """The masses of 64 bodies, the first numbers of the program."""
    return arrays.uniform(64, low=0.5, high=1.5)


def _n_body(framework: Framework) -> Built:
    arrays = Arrays(framework)
    mass = masses(arrays)

    def step(state: Any) -> Any:
        x, v = state
        apart = x[None] - x[:, None]
        squared = (apart * apart).sum(-1) + 0.05
        v = v + 0.005 * (apart * (mass * squared**-1.5)[..., None]).sum(1)
        return x + 0.005 * v, v

    x = arrays.normal(64, 3)
    return lambda *state: _repeat(framework, step, state, 100), (x, 0.1 * x[::-1])


def _molecules(framework: Framework) -> Built:
    """Velocity Verlet with the forces of a Lennard-Jones potential in a periodic box."""
    arrays, np_, module = Arrays(framework), framework.np, framework.module
    side = 6.0
    grid = np_.stack(np_.meshgrid(*[np_.arange(5.0) * 1.2] * 3), -1).reshape(-1, 3)

    def energy(x: Any) -> Any:
        apart = x[:, None] - x[None]
        apart = apart - side * np_.round(apart / side)
        squared = (apart * apart).sum(-1) + 1e6 * np_.eye(len(x))
        sixth = (1.0 / squared) ** 3
        return 2.0 * (sixth * sixth - sixth).sum()

    force = module.grad(energy)

    def step(state: Any) -> Any:
        x, v, f = state
        v = v - 0.0005 * f
        x = x + 0.001 * v
        f = force(x)
        return x, v - 0.0005 * f, f

    def run(x: Any, v: Any) -> Any:
        return _repeat(framework, step, (x, v, force(x)), 50)[:2]

    return run, (grid, arrays.normal(125, 3))


def _cloth(framework: Framework) -> Built:
    """A cloth of 32x32 points that hangs from its upper edge, by positions and constraints."""
    np_ = framework.np

    def pulled(x: Any, axis: int) -> Any:
        first, second = (x[:-1], x[1:]) if axis == 0 else (x[:, :-1], x[:, 1:])
        apart = second - first
        length = np_.sqrt((apart * apart).sum(-1, keepdims=True) + 1e-9)
        move = 0.25 * apart * (1 - 0.1 / length)
        if axis == 0:
            return x.at[:-1].add(move).at[1:].add(-move)
        return x.at[:, :-1].add(move).at[:, 1:].add(-move)

    down = np_.asarray([0.0, -0.001, 0.0], np_.float32)

    def step(state: Any) -> Any:
        x, before = state
        moved = x + 0.99 * (x - before) + down
        for _ in range(4):
            moved = pulled(pulled(moved, 0), 1).at[0].set(x[0])
        return moved, x

    places = np_.arange(32, dtype=np_.float32) * 0.1
    x = np_.stack([*np_.meshgrid(places, places), np_.zeros((32, 32), np_.float32)], -1)
    # The motion is chaotic: after 50 steps, no digit of f32 is left in any framework.
    return lambda *state: _repeat(framework, step, state, 20), (x, x)


def _rays(framework: Framework) -> Built:
    """A picture of spheres: rays march along a distance field, its gradient shades them."""
    arrays, np_, module = Arrays(framework), framework.np, framework.module

    def distance(point: Any, centres: Any) -> Any:
        apart = np_.sqrt(((point - centres) ** 2).sum(-1) + 1e-12) - 0.5
        return np_.minimum(apart.min(), point[1] + 1.0)

    def colour(direction: Any, centres: Any) -> Any:
        def step(travelled: Any) -> Any:
            return travelled + distance(travelled * direction, centres)

        travelled = _repeat(framework, step, np_.float32(0), 32)
        normal = module.grad(distance)(travelled * direction, centres)
        light = np_.maximum(normal @ np_.asarray([0.5, 0.7, -0.5], np_.float32), 0.0)
        return np_.where(travelled < 20.0, light, 0.0)

    def picture(directions: Any, centres: Any) -> Any:
        return module.vmap(module.vmap(colour, (0, None)), (0, None))(directions, centres)

    across = np_.linspace(-0.5, 0.5, 96)
    directions = np_.stack(np_.meshgrid(across, across), -1)
    directions = np_.concatenate([directions, np_.ones((96, 96, 1))], -1)
    centres = arrays.normal(8, 3) + np_.asarray([0.0, 0.0, 5.0])
    return picture, (directions, centres)


def _mandelbrot(framework: Framework) -> Built:
    np_ = framework.np

    def escape(c: Any) -> Any:
        def step(state: Any) -> Any:
            z, count = state
            inside = (z.real * z.real + z.imag * z.imag) < 4.0
            return np_.where(inside, z * z + c, z), count + inside

        start = np_.zeros_like(c), np_.zeros(c.shape, np_.int32)
        return _repeat(framework, step, start, 50)[1]

    # Counts at the border of the set depend on the last bit of a point: NumPy computes the points.
    real, imaginary = np.linspace(-2, 0.5, 256), np.linspace(-1.2, 1.2, 256)
    points = (real[None] + 1j * imaginary[:, None]).astype(np.complex64)
    return escape, (framework.from_numpy(points),)


PROGRAMS = (
    Program("simulation/heat", "2-d heat equation, 256x256, 200 steps", _heat),
    Program("simulation/shallow_water", "128x128, 100 steps", _shallow_water),
    Program("simulation/cavity", "flow in a 64x64 cavity, 20 steps of 20 sweeps", _cavity),
    Program("simulation/n_body", "64 bodies, 100 steps", _n_body),
    Program("simulation/molecules", "125 molecules, 50 steps with grad", _molecules),
    Program("simulation/cloth", "32x32 points, 20 steps", _cloth),
    Program("simulation/rays", "96x96 rays march 32 steps, shaded by grad", _rays),
    Program("simulation/mandelbrot", "256x256, 50 steps, complex64", _mandelbrot),
)
