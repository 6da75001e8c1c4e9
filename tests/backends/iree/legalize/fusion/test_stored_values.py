"""Devices store a reduction unless it reduces the last dimensions and is broadcast along them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.nn
import gnomon.numpy as gnp
from gnomon.backends.iree.backend import IreeBackend, iree_backend
from gnomon.backends.iree.legalize.legalization import without
from gnomon.backends.iree.legalize.order import LEGALIZATIONS
from gnomon.backends.reference import Evaluator
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir
from tests.backends.iree.joined import Call, check_joined
from tests.tolerance import assert_near

STORED: dict[str, Callable[[Any], Any]] = {
    "quotients by sums of columns": lambda x: x / x.sum(0),
    "softmax of columns": lambda x: gnomon.nn.softmax(x, 0),
    "sums of rows as a row": lambda x: x + x.sum(1),
    "maxima of rows as a row": lambda x: x - x.max(1)[None, :],
    "places of maxima": lambda x: x + gnp.argmax(x, 1).astype(np.float32),
    "computed with before": lambda x: (x * 2).sum(1) * (x * 3),
    "transposed": lambda x: x * (x[:, None] + x).sum(2).T,
    "matrix and vector": lambda x: x @ x[0] + x,
    "vector and matrix": lambda x: x[0] @ x + x,
    "of a product": lambda x: (x @ x).sum(1) + x,
}
FUSED: dict[str, Callable[[Any], Any]] = {
    "softmax of rows": lambda x: gnomon.nn.softmax(x, 1),
    "sums of rows as a column": lambda x: x - x.sum(1)[:, None],
    "everything": lambda x: x / x.sum(),
    "not broadcast": lambda x: gnp.sqrt(x.sum(0)) * 2,
}
# Sums of up to 300 numbers, in another order than the evaluator's.
ROUNDINGS = 64


def _text(function: Callable[[Any], Any], x: np.ndarray) -> str:
    return str(gn.jit(function).lower(x).as_text("gnomon"))


def _parsed(text: str) -> Program:
    ensure_context()
    return Program(ir.Module.parse(text))


def _barriers(backend: IreeBackend, function: Callable[[Any], Any]) -> int:
    text = _text(function, np.ones((32, 32), np.float32))
    return backend.pipeline.lower(_parsed(text)).text.count("optimization_barrier")


@pytest.mark.parametrize("target", ["vulkan:portable", "cuda:sm_90"])
def test_barriers_are_where_kernels_would_race(target: str) -> None:
    backend = iree_backend(target)
    # Long expressions have their own barriers.
    fused = IreeBackend(target, without(LEGALIZATIONS, "values-read-across"))
    for name, function in STORED.items():
        assert _barriers(backend, function) > _barriers(fused, function), name
    for name, function in FUSED.items():
        assert _barriers(backend, function) == _barriers(fused, function), name


def test_processors_fuse_them() -> None:
    assert _barriers(iree_backend("cpu"), STORED["quotients by sums of columns"]) == 0


# Functions, and how many barriers they get on processors.
READ_BY_ROWS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "sums": (lambda x: gnp.zeros((64, 32)) * x[0, 0] + (x[:, :4] * 2).sum(1), 1),
    "maxima": (lambda x: gnp.zeros((3, 64, 32)) + gnp.sqrt(x.max(1)) * x[0, 0], 1),
    "positions": (lambda x: gnp.zeros((64, 32)) * x[0, 0] + gnp.argmin(x, 1), 1),
    "as in a softmax": (lambda x: gnp.zeros((32, 64)) * x[0, 0] + x.sum(1)[:, None], 0),
    "no more elements than are read": (lambda x: x / x.sum(0), 0),
    "a row": (lambda x: x.sum(0) * 2, 0),
    "nothing is reduced": (lambda x: gnp.zeros((64, 32)) * x[0, 0] + x[0] * 2, 0),
}


def test_processors_store_reductions_that_rows_of_larger_arrays_read() -> None:
    for name, (function, barriers) in READ_BY_ROWS.items():
        assert _barriers(iree_backend("cpu"), function) == barriers, name
    x = np.random.default_rng(0).uniform(1, 2, (32, 32)).astype(np.float32)
    calls: dict[str, Call] = {name: (f, (x,)) for name, (f, _) in READ_BY_ROWS.items()}
    check_joined(calls, lambda found, expected: assert_near(found, expected, ROUNDINGS))


@pytest.mark.vulkan
@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("size", [32, 300])
@pytest.mark.parametrize("name", [*STORED, *FUSED])
def test_values_on_vulkan(name: str, size: int) -> None:
    if name == "transposed" and size > 32:
        pytest.skip("a cube of 300 is too large for a test")
    x = np.random.default_rng(0).uniform(1, 2, (size, size)).astype(np.float32)
    text = _text({**STORED, **FUSED}[name], x)
    (expected,) = Evaluator(_parsed(text))("main", x)
    backend = iree_backend("vulkan:portable")
    executable = backend.compile(backend.lower(_parsed(text)))
    for _ in range(2):
        (found,) = executable([x])
        assert_near(found.to_numpy(), np.asarray(expected), ROUNDINGS)
