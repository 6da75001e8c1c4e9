"""Chains of elementwise operations and reductions on large arrays: the benefit of fusion."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.tools.bench.workload import Case, Framework, Workload, like_jax

SIDE = 5000


def _inputs(framework: Framework) -> tuple[Any, Any]:
    x, y = np.random.default_rng(0).standard_normal((2, SIDE, SIDE), dtype=np.float32)
    return framework.from_numpy(x), framework.from_numpy(y)


def _polynomial(f: Framework, x: Any, y: Any) -> Any:
    return (x * y + x) * (y - 0.5) + x * x * 2.0


def _transcendental(f: Framework, x: Any, y: Any) -> Any:
    return f.np.sin(x) * f.np.exp(-y * y) + f.np.tanh(x * y)


def _sum_of_squares(f: Framework, x: Any, y: Any) -> Any:
    return ((x - y) ** 2).sum()


def _softmax(f: Framework, x: Any, y: Any) -> Any:
    if f.name == "torch":
        return f.module.softmax(x, dim=-1)
    e = f.np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _workload(name: str, doc: str, function: Any) -> Workload:
    def compiled(framework: Framework) -> Case:
        x, y = _inputs(framework)
        run = framework.module.jit(lambda x, y: function(framework, x, y))
        return Case(lambda: run(x, y).block_until_ready())

    def plain(framework: Framework) -> Case:
        x, y = _inputs(framework)
        return Case(lambda: framework.wait(function(framework, x, y)))

    setups = {**like_jax(compiled), "numpy": plain, "torch": plain}
    # The tolerance is for a sum of 25 million numbers in another order.
    return Workload(f"elementwise/{name}", f"jit, f32[{SIDE},{SIDE}]: {doc}", setups, 2048.0)


WORKLOADS = (
    _workload("polynomial", "(x y + x) (y - 0.5) + 2 x²", _polynomial),
    _workload("transcendental", "sin(x) exp(-y²) + tanh(x y)", _transcendental),
    _workload("sum_of_squares", "Σ (x - y)²", _sum_of_squares),
    _workload("softmax", "softmax of each row of x", _softmax),
)
