"""Programs that JAX exported, differentiated, vectorized and compiled here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export as jax_export
from jax import lax

import gnomon as gn
import gnomon.numpy as gnp


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def attention(q: Any, k: Any, v: Any) -> Any:
    # The functions are expanded in the export, or composites.
    functions = jax.nn.gelu(v, approximate=False) + lax.lgamma(v * v) + lax.erf_inv(v / 8)
    return jax.nn.softmax(q @ k.T / 2) @ (functions + lax.erf(v) + jnp.arcsinh(v))


def recurrent(w: Any, x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        state = jnp.tanh(state @ w + row)
        return state, state

    return lax.scan(step, jnp.zeros(3), x)[1]


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (attention, [drawn(3, 4), drawn(3, 4), drawn(3, 4)]),
        (recurrent, [drawn(3, 3), drawn(5, 3)]),
    ],
)
def test_values_and_gradients_are_those_of_jax(
    function: Callable[..., Any], arrays: list[np.ndarray]
) -> None:
    imported = gn.import_stablehlo(
        jax_export.export(jax.jit(function))(*arrays).mlir_module_serialized
    )
    np.testing.assert_allclose(imported(*arrays), function(*arrays), 1e-5, 1e-6)
    every = tuple(range(len(arrays)))
    gradients = gn.jit(gn.grad(lambda *a: gnp.sum(imported(*a) ** 2), every))(*arrays)
    wanted = jax.grad(lambda *a: jnp.sum(function(*a) ** 2), every)(*arrays)
    for actual, expected in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(actual, expected, 1e-4, 1e-5)
    batched = gn.vmap(imported, in_axes=(0, *(None for _ in arrays[1:])))
    several = np.stack([arrays[0], -arrays[0]])
    wanted = jax.vmap(function, in_axes=(0, *(None for _ in arrays[1:])))(several, *arrays[1:])
    np.testing.assert_allclose(batched(several, *arrays[1:]), wanted, 1e-5, 1e-6)


def test_open_sizes_are_those_of_each_call() -> None:
    (n,) = jax_export.symbolic_shape("n")
    exported = jax_export.export(jax.jit(lambda x: jnp.cumsum(jnp.sort(x))[::-1]))(
        jax.ShapeDtypeStruct((n,), np.float32)
    )
    imported = gn.import_stablehlo(exported.mlir_module_serialized)
    for size in (1, 4):
        x = drawn(size)
        np.testing.assert_allclose(imported(x), np.cumsum(np.sort(x))[::-1], 1e-5, 1e-6)


def test_errors_name_the_file_and_the_types(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text(
        "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    )
    imported = gn.import_stablehlo(path)
    assert imported.__name__ == "model"
    with pytest.raises(TypeError, match=r"model.mlir takes \(f32\[2\]\), got \(f32\[3\]\)"):
        imported(np.zeros(3, np.float32))
    path.write_text(
        "func.func @f() -> tensor<ui32> {\n"
        "  %0 = stablehlo.replica_id : tensor<ui32>\n  return %0 : tensor<ui32>\n}"
    )
    with pytest.raises(ValueError, match=r"model.mlir:2:8: stablehlo.replica_id: .* other devices"):
        gn.import_stablehlo(path)
