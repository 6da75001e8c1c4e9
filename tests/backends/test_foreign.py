"""Programs of JAX, as it prints and exports them, have JAX's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

from gnomon.backends.bytecode import BytecodeError, RefusedProgramError
from gnomon.backends.foreign import read_program
from gnomon.backends.reference import Evaluator
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon.dialects.types import TensorType
from gnomon.passes.refine_stablehlo import Argument


def evaluate(text: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    ensure_context()
    program = Program(ir.Module.parse(text, context()))
    assert program.module.operation.verify()
    return Evaluator(program)("main", *arrays)


def everything(x: Any, i: Any, key: Any) -> Any:
    """One function for all families: a program costs more than an operation."""
    pooled = lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID")
    symmetric = x @ x.T + 4 * jnp.eye(4)
    return {
        "powers": jnp.round(x) ** 3.0,
        "gather": x[jnp.array([1, 200000000])],
        "scatter": x.at[jnp.array([1, 3, 3, 12])].add(x),
        "chlo": (
            jax.nn.gelu(x, approximate=False),
            lax.top_k(x, 2),
            jax.scipy.special.gammaln(x * x),
        ),
        "random": jax.random.normal(jax.random.wrap_key_data(key), (5,)),
        "sorted": (jnp.argsort(i), lax.sort((i, x[0], x[1]), num_keys=2)),
        "extrema": (jnp.argmax(x, 0), pooled, lax.approx_max_k(x, 2)),
        "bf16": jnp.dot(x.astype(jnp.bfloat16), x.astype(jnp.bfloat16)),
        "loop": lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 1.5 + x), (0, x)),
        "scan": lax.scan(lambda c, y: (c + y, c * y), jnp.zeros(4), x),
        "branch": lax.switch(i[0] + 7, [jnp.sin, jnp.cos, jnp.tan], x),
        "linear algebra": (
            jnp.linalg.cholesky(symmetric),
            jnp.linalg.solve(symmetric, x),
            jnp.linalg.eigvalsh(symmetric),
            jnp.linalg.svd(x, compute_uv=False),
            jnp.linalg.qr(x)[1],
        ),
        "fourier": jnp.abs(jnp.fft.rfft(x)),
        "folds": (jnp.cumsum(x, 1), lax.reduce(x, np.float32(0), lambda a, b: a + b * 1, (1,))),
    }


def gradient(x: Any, k: Any) -> Any:
    def loss(x: Any, k: Any) -> Any:
        y = lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        pooled = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return (jax.nn.softmax(pooled) ** 2).sum()

    return jax.grad(loss, (0, 1))(x, k)


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (everything, [drawn(4, 4), np.array([1, 0, 1, 0], np.int32), np.array([0, 7], np.uint32)]),
        (gradient, [drawn(1, 4, 4, 2), drawn(3, 3, 2, 3)]),
    ],
)
def test_functions_of_jax(function: Callable[..., Any], arrays: list[np.ndarray]) -> None:
    """As text with CHLO, and as a portable artifact with annotations of Shardy."""
    jitted = jax.jit(function)
    expected = [np.asarray(v) for v in jax.tree.leaves(jitted(*arrays))]
    text = jitted.lower(*arrays).as_text()
    for form in (text.encode(), export.export(jitted)(*arrays).mlir_module_serialized):
        results = evaluate(read_program(form), arrays)
        for actual, wanted in zip(results, expected, strict=True):
            assert actual.dtype == wanted.dtype
            tolerance = 2e-2 if wanted.dtype.itemsize == 2 else 2e-5
            np.testing.assert_allclose(
                np.asarray(actual, np.float64), np.asarray(wanted, np.float64), tolerance, tolerance
            )


def test_symbolic_shapes_of_jax_are_refined() -> None:
    """The sizes come from the types of the arguments; assertions about them are checked."""
    x, y = drawn(5, 3), drawn(5, 2)
    (b,) = export.symbolic_shape("b", constraints=["b >= 2"])

    def function(x: Any, y: Any) -> Any:
        rows = jnp.arange(x.shape[0])[:, None] * jnp.concatenate([x, y], 1)
        return jax.nn.softmax(rows).reshape(-1), lax.scan(lambda c, r: (c + r, c), jnp.zeros(3), x)

    types = (jax.ShapeDtypeStruct((b, n), np.float32) for n in (3, 2))
    data = export.export(jax.jit(function))(*types).mlir_module_serialized
    known = [Argument(TensorType(a.shape, a.dtype)) for a in (x, y)]
    results = evaluate(read_program(data, known), [x, y])
    for actual, wanted in zip(results, jax.tree.leaves(function(x, y)), strict=True):
        np.testing.assert_allclose(actual, wanted, 1e-5, 1e-6)
    with pytest.raises(RefusedProgramError, match="the sizes of the arguments are not known"):
        read_program(data)
    with pytest.raises(RefusedProgramError, match="Input shapes do not match"):
        read_program(data, [Argument(TensorType((1, n), x.dtype)) for n in (3, 2)])
    with pytest.raises(RefusedProgramError, match="given are tensor<4x3xf32>"):
        read_program(data, [Argument(TensorType((4, 3), x.dtype))])


def test_what_is_no_program_is_refused() -> None:
    """Text that is not MLIR, and types for a program that has all of them."""
    with pytest.raises(BytecodeError, match='"-":1:1'):
        read_program(b"no program")
    with pytest.raises(BytecodeError, match="damaged"):
        read_program(b"\xff\xfe")
    dialect = b'func.func @main() -> tensor<f32> {%0 = "gnomon.iota"() : () -> tensor<f32>}'
    with pytest.raises(BytecodeError):
        read_program(dialect)
