"""Ops at growing sizes, to check that the time grows like that of the algorithm.

Compare one size with the next: sixteen times the elements should take about sixteen times as long,
once the overhead of the call no longer matters. Algorithms of n log n operations take about twenty
times as long, and factorizations, whose matrices have four times as many rows, sixty-four times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon.tools.bench.workload import Case, Framework, Workload, like_jax

SIZES = (1 << 12, 1 << 16, 1 << 20)


def _sort(f: Framework, x: Any, i: Any) -> Any:
    return f.np.sort(x)


def _argsort(f: Framework, x: Any, i: Any) -> Any:
    return f.np.argsort(x, stable=True)


def _top_k(f: Framework, x: Any, i: Any) -> Any:
    return f.module.lax.top_k(x, 16)[0]


def _fft(f: Framework, x: Any, i: Any) -> Any:
    return f.np.abs(f.np.fft.fft(x))


def _cumsum(f: Framework, x: Any, i: Any) -> Any:
    return f.np.cumsum(x)


def _gather(f: Framework, x: Any, i: Any) -> Any:
    return x[i]


def _scatter_add(f: Framework, x: Any, i: Any) -> Any:
    return f.np.zeros_like(x).at[i].add(x)


def _window_max(f: Framework, x: Any, i: Any) -> Any:
    return f.module.lax.reduce_window(x, -f.np.inf, f.module.lax.max, (8,), (1,), "VALID")


def _convolution(f: Framework, x: Any, i: Any) -> Any:
    image = x.reshape(1, 1, math.isqrt(x.size), -1)
    return f.module.lax.conv(image, image[:, :, :5, :5], (1, 1), "SAME")


def _matrix(f: Framework, x: Any) -> Any:
    """A diagonally dominant matrix, for which every factorization is well conditioned."""
    rows = math.isqrt(x.size)
    return x.reshape(rows, rows) / rows + f.np.eye(rows)


def _cholesky(f: Framework, x: Any, i: Any) -> Any:
    a = _matrix(f, x)
    return f.np.linalg.cholesky(a + a.T)


def _lu(f: Framework, x: Any, i: Any) -> Any:
    return f.module.lax.linalg.lu(_matrix(f, x))[0]


def _workload(name: str, size: int, function: Callable[[Framework, Any, Any], Any]) -> Workload:
    def setup(framework: Framework) -> Case:
        rng = np.random.default_rng(0)
        x = framework.from_numpy(rng.standard_normal(size, dtype=np.float32))
        i = framework.from_numpy(rng.integers(0, size, size, dtype=np.int32))
        run = framework.module.jit(lambda x, i: function(framework, x, i))
        return Case(lambda: run(x, i).block_until_ready())

    # The tolerance is for sums of all elements in another order.
    return Workload(f"growth/{name}_{size}", f"jit, f32[{size}]", like_jax(setup), 4096.0)


_OPS: dict[str, Callable[[Framework, Any, Any], Any]] = {
    "sort": _sort,
    "argsort": _argsort,
    "top_k": _top_k,
    "fft": _fft,
    "cumsum": _cumsum,
    "gather": _gather,
    "scatter_add": _scatter_add,
    "window_max": _window_max,
    "convolution": _convolution,
    "cholesky": _cholesky,
    "lu": _lu,
}

WORKLOADS = tuple(_workload(name, size, f) for name, f in _OPS.items() for size in SIZES)
