"""Calls of compiled functions with hardly any work: the overhead of a call."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.tools.bench.workload import Case, Framework, Workload, like_jax

LEAVES = 20


def _multiply_add(framework: Framework) -> tuple[Any, list[Any]]:
    compiled = framework.module.jit(lambda x, y, z: x * y + z)
    values = np.random.default_rng(0).standard_normal((3, 8), dtype=np.float32)
    return compiled, [framework.from_numpy(v) for v in values]


def _blocked(framework: Framework) -> Case:
    compiled, (x, y, z) = _multiply_add(framework)
    return Case(lambda: compiled(x, y, z).block_until_ready())


def _unblocked(framework: Framework) -> Case:
    compiled, (x, y, z) = _multiply_add(framework)
    return Case(lambda: compiled(x, y, z))


def _chained(framework: Framework) -> Case:
    compiled, (x, y, z) = _multiply_add(framework)

    def chain() -> Any:
        value = x
        for _ in range(10):
            value = compiled(value, y, z)
        return value.block_until_ready()

    return Case(chain)


def _to_numpy(framework: Framework) -> Case:
    compiled, (x, y, z) = _multiply_add(framework)
    return Case(lambda: np.asarray(compiled(x, y, z)))


def _tree(framework: Framework) -> Case:
    module = framework.module
    values = np.random.default_rng(1).standard_normal((LEAVES, 4, 8), dtype=np.float32)
    tree = {
        f"layer{i}": (framework.from_numpy(v), framework.from_numpy(v[0]))
        for i, v in enumerate(values[: LEAVES // 2])
    }
    compiled = module.jit(lambda t: module.tree_util.tree_map(lambda leaf: leaf * 0.9, t))
    return Case(lambda: module.block_until_ready(compiled(tree)))


WORKLOADS = (
    Workload("call/blocked", "jit(x * y + z), f32[8], waits for the result", like_jax(_blocked)),
    Workload("call/unblocked", "the same, does not wait", like_jax(_unblocked)),
    Workload("call/chain", "ten such calls in a row, each on the last result", like_jax(_chained)),
    Workload("call/to_numpy", "one call, the result read as a NumPy array", like_jax(_to_numpy)),
    Workload(
        "call/tree",
        f"jit of a dict of tuples with {LEAVES} arrays in all, to one of the same structure; waits",
        like_jax(_tree),
    ),
)
