"""From a Python function to an executable: tracing, lowering and compiling, without any cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gnomon.tools.bench.workload import Case, Framework, Workload, like_jax
from gnomon.tools.bench.workloads.training import WIDE, batch, network, step_function


@contextmanager
def _without_disk_cache() -> Iterator[None]:
    """Disable gnomon's cache of executables on disk; JAX has none by default."""
    before = os.environ.get("GNOMON_CACHE")
    os.environ["GNOMON_CACHE"] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["GNOMON_CACHE"]
        else:
            os.environ["GNOMON_CACHE"] = before


def _compile(framework: Framework, function: Any, arguments: tuple[Any, ...]) -> Any:
    # A new function each time, so that neither framework can reuse the last one.
    def fresh(*given: Any) -> Any:
        return function(*given)

    with _without_disk_cache():
        return framework.module.jit(fresh).lower(*arguments).compile()


def _tiny(framework: Framework) -> Case:
    values = np.random.default_rng(0).standard_normal((3, 8), dtype=np.float32)
    arguments = tuple(framework.from_numpy(v) for v in values)

    def function(x: Any, y: Any, z: Any) -> Any:
        return x * y + z

    return Case(
        lambda: (_compile(framework, function, arguments), ())[1],
        check=lambda: _compile(framework, function, arguments)(*arguments),
    )


def _step(framework: Framework) -> Case:
    params = [(framework.from_numpy(w), framework.from_numpy(b)) for w, b in network(WIDE)]
    x, y = map(framework.from_numpy, batch(WIDE))
    step = step_function(framework)
    return Case(
        lambda: (_compile(framework, step, (params, x, y)), ())[1],
        check=lambda: _compile(framework, step, (params, x, y))(params, x, y),
    )


WORKLOADS = (
    Workload(
        "compile/tiny", "jit(x * y + z).lower(...).compile(), f32[8], no cache", like_jax(_tiny)
    ),
    Workload(
        "compile/mlp_step",
        "jit(step).lower(...).compile() of train/mlp_step, no cache",
        like_jax(_step),
    ),
)
