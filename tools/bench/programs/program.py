"""Programs: a function as a user would write it, with the arrays of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.tools.bench.frameworks import Framework

Built = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class Program:
    """A program that JAX and gnomon run from the same source.

    Attributes:
      name: ``family/name``.
      doc: the description of a call, in one line.
      build: returns the function, without `jit`, and the arguments of its calls.
      tolerance: the tolerance of results, in units of the dtype's epsilon relative to the largest
        element.
    """

    name: str
    doc: str
    build: Callable[[Framework], Built]
    tolerance: float = 4096.0


class Arrays:
    """Arguments of programs: the same random numbers in every framework."""

    def __init__(self, framework: Framework, seed: int = 0) -> None:
        self.framework = framework
        self.rng = np.random.default_rng(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> Any:
        """Normally distributed f32."""
        values = self.rng.standard_normal(shape, dtype=np.float32)
        return self.framework.from_numpy(values * np.float32(scale))

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Any:
        """Uniformly distributed f32."""
        return self.framework.from_numpy(self.rng.uniform(low, high, shape).astype(np.float32))

    def integers(self, *shape: int, below: int) -> Any:
        """Integers from 0 on, i32."""
        return self.framework.from_numpy(self.rng.integers(0, below, shape).astype(np.int32))


def descent(framework: Framework, loss: Callable[..., Any], rate: float = 0.01) -> Any:
    """A step of gradient descent: ``(params, *data)`` to the loss and the next parameters."""

    def step(params: Any, *data: Any) -> Any:
        value, gradient = framework.module.value_and_grad(loss)(params, *data)
        return value, framework.module.tree.map(lambda p, g: p - rate * g, params, gradient)

    return step


__all__ = ["Arrays", "Built", "Program", "descent"]
