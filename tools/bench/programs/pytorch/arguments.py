"""Ports whose arguments differ: random numbers in the place of keys, and constants of programs.

PyTorch's generators have other bits, with which results could not be compared, so a port takes the
numbers that gnomon and JAX draw during the call. Its time lacks the time to draw as many: 0.05 to
0.14 ms on a CPU, which is 4 % of a call of ``ppo_step``, and less than 1 % of the other two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gnomon.tools.bench.frameworks import Framework
from gnomon.tools.bench.programs import simulation, statistics
from gnomon.tools.bench.programs.program import Arrays


def _diffusion_step(framework: Framework, params: Any, images: Any, key: Any) -> tuple[Any, ...]:
    random = framework.module.random
    times, noises = random.split(key)
    times = random.uniform(times, (len(images), 1, 1, 1))
    return params, images, times, random.normal(noises, images.shape)


def _hmc(framework: Framework, w: Any, key: Any) -> tuple[Any, ...]:
    random, vmap = framework.module.random, framework.module.vmap

    def sample(key: Any) -> tuple[Any, Any]:
        pushed, tossed = random.split(key)
        return random.normal(pushed, w.shape[1:]), random.uniform(tossed)

    keys = vmap(lambda chain: random.split(chain, 20))(random.split(key, len(w)))
    # A step of all chains draws together.
    pushes, tosses = vmap(vmap(sample), 1)(keys)
    return w, pushes, tosses, *statistics.observations(Arrays(framework))


def _ppo_step(framework: Framework, params: Any, state: Any, key: Any) -> tuple[Any, ...]:
    random, vmap = framework.module.random, framework.module.vmap
    # `categorical` returns the place of the largest sum of a logit and such noise.
    noise = vmap(lambda step: random.gumbel(step, (len(state), 2)))(random.split(key, 32))
    return params, state, noise


def _n_body(framework: Framework, x: Any, v: Any) -> tuple[Any, ...]:
    return x, v, simulation.masses(Arrays(framework))


ADAPTED: dict[str, Callable[..., tuple[Any, ...]]] = {
    "image/diffusion_step": _diffusion_step,
    "inference/hmc": _hmc,
    "inference/ppo_step": _ppo_step,
    "simulation/n_body": _n_body,
}

__all__ = ["ADAPTED"]
