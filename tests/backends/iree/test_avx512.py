"""Products of f64, whose kernels on AVX-512 are as large as the compiler allows: they compile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.numpy as gnp
from gnomon.backends.errors import BackendUnavailable
from tests.tolerance import assert_near

TARGETS = ("x86-64-v4", "skylake-avx512", "sapphirerapids", "znver4", "znver5")
SOME = pytest.mark.slow, pytest.mark.sampled(0.5)


def products(a: Any, batch: Any) -> Any:
    return {
        "product": a @ a,
        "transposed": a.T @ a[:, :24],
        "wide": a @ gnp.concatenate([a, a[:, :17]], axis=1),
        "complex": (a + 1j * a.T) @ a,
        "batched": batch @ batch,
        "hessian": gnomon.hessian(lambda v: gnp.sum(gnp.sin(a @ v) ** 2) * gnp.sum(v * v))(a[0]),
    }


def _arguments(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, n)), rng.normal(size=(3, n, n))


@pytest.mark.parametrize(
    ("name", "n"),
    [
        pytest.param(name, n, marks=() if (name, n) == ("x86-64-v4", 32) else SOME)
        for name in TARGETS
        for n in (32, 33)
    ],
)
def test_products_of_f64_compile_for_avx512(name: str, n: int) -> None:
    arguments = _arguments(n)
    with gnomon.enable_x64(True):
        compiled = gnomon.jit(products).lower(*arguments).compile(target=name)
        try:
            found = compiled(*arguments)
        except BackendUnavailable:
            # Compiled for a processor that is not here.
            assert compiled.serialize()
            return
        expected = products(*(gnp.asarray(a) for a in arguments))
        for key, value in expected.items():
            # Sums of terms that cancel are as exact as their terms.
            assert_near(found[key], value, 64, scale=float(np.abs(value).max()), message=key)


def test_products_of_f64_compile_here() -> None:
    a, _ = _arguments(32)
    with gnomon.enable_x64(True):
        expected = a @ a
        found = gnomon.jit(lambda a: a @ a)(a)
        assert_near(found, expected, 64, scale=float(np.abs(expected).max()))
