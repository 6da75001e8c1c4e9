"""The estimated cost of programs, and the compilation options chosen from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.errors import CompilationFailed
from gnomon.backends.iree import backend
from gnomon.backends.iree.legalize import library_products
from gnomon.backends.iree.options import CompileOptions
from gnomon.dialects.body import Body
from gnomon.dialects.control_flow import switch
from gnomon.dialects.emit import ops
from gnomon.dialects.types import TensorType
from gnomon.passes.cost import estimate


def options_of(function: Callable[..., Any], *shapes: tuple[int, ...]) -> CompileOptions:
    lowered = gn.jit(function).lower(*(gn.ShapeDtypeStruct(s, np.float32) for s in shapes))
    options: CompileOptions = lowered._artifact.plan.options
    return options


def loss(weights: Any, x: Any) -> Any:
    return gnp.sum(gnp.tanh(x @ weights) ** 2)


def in_a_loop(weights: Any, x: Any) -> Any:
    return lax.fori_loop(0, 10, lambda i, x: gnp.tanh(x @ weights), x)


def attention(weights: Any, x: Any) -> Any:
    heads = gnp.reshape(x @ weights, (128, 8, 64))
    return gnp.einsum("shd,thd->hst", heads, heads)


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """IREE's kernels compute all products."""
    monkeypatch.setattr(library_products, "has_products", lambda: False)


@pytest.mark.iree
def test_operands_of_large_products_are_tiled(without_library: None) -> None:
    square = (512, 512)
    assert options_of(lambda a, b: a @ b, square, (512, 256)).data_tiling
    assert options_of(gn.grad(loss), square, (128, 512)).data_tiling
    assert not options_of(lambda a, b: a @ b, (64, 64), (64, 64)).data_tiling
    assert not options_of(lambda a, b: a @ b, square, (512, 8)).data_tiling
    assert not options_of(in_a_loop, square, (128, 512)).data_tiling
    assert not options_of(attention, square, (128, 512)).data_tiling


def test_a_program_that_cannot_be_tiled_is_compiled_without(
    without_library: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bool] = []
    compile_artifact = backend.compile_artifact

    def refusing(artifact: bytes, *, options: CompileOptions, **rest: Any) -> bytes:
        tried.append(options.data_tiling)
        if options.data_tiling:
            raise CompilationFailed("refused", diagnostics="", reproducer=None)
        return compile_artifact(artifact, options=options, **rest)

    monkeypatch.setattr(backend, "compile_artifact", refusing)
    x = gnp.full((256, 512), 0.5)
    y = gn.jit(lambda a, b: a @ b.T)(x, x)
    assert tried == [True, False]
    np.testing.assert_array_equal(y, np.full((256, 256), 128.0))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_branch_counts_once(count: int) -> None:
    number = TensorType((), np.dtype(np.float32))
    index = TensorType((), np.dtype(np.int32))
    branches = [Body.build([number], lambda x: [ops.sin(x)]) for _ in range(count)]
    body = Body.build([index, number], lambda i, x: switch.build([i, x], {}, branches))
    assert estimate(body).transcendentals == count
    assert estimate(body).dispatches == 2 + count
