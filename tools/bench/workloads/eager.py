"""Single operations on small arrays outside of `jit`: the overhead of the framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon.tools.bench.workload import Case, Framework, Setup, Workload

LENGTH = 64


def _vectors(framework: Framework) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, LENGTH), dtype=np.float32)
    return framework.from_numpy(x), framework.from_numpy(y)


def _matrices(framework: Framework) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 8, 8), dtype=np.float32)
    return framework.from_numpy(a), framework.from_numpy(b)


def _large(framework: Framework) -> tuple[Any, Any]:
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((2, 1000, 1000), dtype=np.float32)
    return framework.from_numpy(x), framework.from_numpy(y)


Operation = Callable[[Framework, Any, Any], Callable[[], Any]]


def _waiting(
    make: Callable[[Framework], tuple[Any, Any]], operation: Operation
) -> dict[str, Setup]:
    """The operation in every framework, including the wait for asynchronous ones."""

    def setup(framework: Framework) -> Case:
        run = operation(framework, *make(framework))
        if framework.name == "numpy":
            return Case(run)
        if framework.name == "torch":
            return Case(lambda: framework.wait(run()))
        return Case(lambda: run().block_until_ready())

    return dict.fromkeys(("gnomon", "jax", "numpy", "torch"), setup)


def _sin(framework: Framework, x: Any, y: Any) -> Callable[[], Any]:
    sin = framework.np.sin
    return lambda: sin(x)


def _workload(
    name: str, doc: str, make: Callable[[Framework], tuple[Any, Any]], operation: Operation
) -> Workload:
    return Workload(f"eager/{name}", doc, _waiting(make, operation))


WORKLOADS = (
    _workload("add", f"x + y, f32[{LENGTH}]", _vectors, lambda f, x, y: lambda: x + y),
    _workload("scale", f"x * 2.0, f32[{LENGTH}]", _vectors, lambda f, x, y: lambda: x * 2.0),
    _workload("sin", f"sin(x), f32[{LENGTH}]", _vectors, _sin),
    _workload("sum", f"x.sum(), f32[{LENGTH}]", _vectors, lambda f, x, y: x.sum),
    _workload("slice", f"x[2:5], f32[{LENGTH}]", _vectors, lambda f, x, y: lambda: x[2:5]),
    _workload("matmul", "a @ b, f32[8,8]", _matrices, lambda f, a, b: lambda: a @ b),
    _workload("add_large", "x + y, f32[1000,1000]", _large, lambda f, x, y: lambda: x + y),
)
