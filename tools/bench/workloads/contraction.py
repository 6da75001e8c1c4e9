"""Matrix products, compiled and eager."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.tools.bench.workload import Case, Framework, Workload, like_jax

SIZES = (256, 1024, 2048)


def _inputs(framework: Framework, size: int) -> tuple[Any, Any]:
    a, b = np.random.default_rng(0).standard_normal((2, size, size), dtype=np.float32)
    return framework.from_numpy(a), framework.from_numpy(b)


def _compiled(size: int) -> Workload:
    def jitted(framework: Framework) -> Case:
        a, b = _inputs(framework, size)
        product = framework.module.jit(lambda a, b: a @ b)
        return Case(lambda: product(a, b).block_until_ready())

    def plain(framework: Framework) -> Case:
        a, b = _inputs(framework, size)
        return Case(lambda: framework.wait(a @ b))

    setups = {**like_jax(jitted), "numpy": plain, "torch": plain}
    return Workload(f"matmul/jit_{size}", f"jit(a @ b), f32[{size},{size}]", setups)


def _eager(size: int) -> Workload:
    def waiting(framework: Framework) -> Case:
        a, b = _inputs(framework, size)

        def product() -> Any:
            return (a @ b).block_until_ready()

        return Case(product)

    doc = f"a @ b outside of jit, f32[{size},{size}]"
    return Workload(f"matmul/eager_{size}", doc, like_jax(waiting))


WORKLOADS = (*map(_compiled, SIZES), *map(_eager, SIZES))
