"""Reductions of several dimensions for CUDA and ROCm, which IREE would configure wrongly."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, nn
from gnomon.backends.errors import CompilationError
from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.iree.legalize.legalization import without
from gnomon.backends.iree.legalize.order import LEGALIZATIONS
from gnomon.backends.iree.legalize.reductions.stepwise import reduce_stepwise
from gnomon.backends.iree.targets import find_target
from gnomon.backends.reference import Evaluator
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir
from tests.tolerance import assert_near

F32 = np.float32
NATIVE = ("cuda:sm_90", "rocm:gfx942", "rocm:gfx1100")


def program_of(f: Callable[..., Any], *arguments: Any) -> Program:
    text = gn.jit(f).lower(*arguments).as_text("gnomon")
    ensure_context()
    return Program(ir.Module.parse(text))


def steps_of(target: str, f: Callable[..., Any], *arguments: Any) -> int:
    """The number of reductions in a program for a target."""
    program = program_of(f, *arguments)
    reduce_stepwise(program, find_target(target))
    return str(program.module).count("gnomon.reduce_")


def added(axes: tuple[int, ...]) -> Callable[[Any, Any], Any]:
    return lambda x, y: gnp.sum(x[:, :, None] + y, axes)


def given(*shape: int, dtype: Any = F32) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(shape[:2], dtype), np.ones(shape, dtype)


@pytest.mark.parametrize(
    ("target", "shape", "axes", "steps"),
    [
        ("cuda", (64, 256, 3), (1, 2), 2),
        ("cuda", (64, 256, 3), (0, 1, 2), 2),
        ("cuda", (64, 16, 6), (1, 2), 2),
        ("cuda", (64, 256, 3), (0, 2), 2),
        ("cuda", (64, 256, 1), (0, 1), 1),  # the last dimension has one element
        ("cuda", (64, 256, 3), (0, 1), 1),  # it is kept
        ("cuda", (64, 256, 3), (2,), 1),
        ("cuda", (64, 5, 3), (1, 2), 1),  # no multiple of the lanes
        ("cuda", (64, 5, 32), (1, 2), 1),  # only the last dimension is divided
        ("rocm:gfx942", (64, 6, 32), (1, 2), 2),  # among 64 lanes
        ("rocm:gfx942", (64, 6, 64), (1, 2), 1),
    ],
)
def test_reductions_whose_last_dimension_leaves_lanes_are_taken_apart(
    target: str, shape: tuple[int, ...], axes: tuple[int, ...], steps: int
) -> None:
    assert steps_of(target, added(axes), *given(*shape)) == steps


def test_arrays_in_order_are_reduced_at_once() -> None:
    y = np.ones((64, 256, 3), F32)
    programs: dict[Callable[..., Any], int] = {
        (lambda y: gnp.sum(y, (1, 2))): 1,
        (lambda y: gnp.sum(gnp.sin(y) * y[0, 0, 0] + 2, (1, 2))): 1,
        (lambda y: gnp.sum(gnp.sin(y.reshape(-1, 16, 6)), (1, 2))): 1,
        (lambda y: gnp.max(gnp.sum(y.reshape(2, 32, 256, 3), 0), (1, 2))): 2,
        (lambda y: gnp.sum(y[:, ::-1], (1, 2))): 2,
        (lambda y: gnp.sum(gnp.transpose(y, (1, 0, 2)) * 2, (1, 2))): 2,
        (lambda y: gnp.sum(y * gnp.arange(3), (1, 2))): 2,
    }
    for program, steps in programs.items():
        assert steps_of("cuda", program, y) == steps


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: gnp.sum(x, (1, 2)),
    "prod": lambda x: gnp.prod(x, (1, 2)),
    "max": lambda x: gnp.max(x, (1, 2)),
    "min": lambda x: gnp.min(x, (0, 1, 2)),
    "all": lambda x: gnp.all(x > 0, (1, 2)),
    "any": lambda x: gnp.any(x > 0.9, (1, 2)),
    "xor": lambda x: lax.reduce((x * 100).astype("int32"), np.int32(0), lax.bitwise_xor, (1, 2)),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_steps_have_the_value_of_the_whole(name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1.5, (3, 16)).astype(dtype)
    y = rng.uniform(0.9, 1.1, (3, 16, 6)).astype(dtype)
    program = program_of(lambda x, y: REDUCTIONS[name](x[:, :, None] * y), x, y)
    whole = Evaluator(program)("main", x, y)
    before = str(program.module).count("gnomon.reduce_")
    reduce_stepwise(program, find_target("cuda"))
    assert str(program.module).count("gnomon.reduce_") == before + 1
    for found, expected in zip(Evaluator(program)("main", x, y), whole, strict=True):
        # Sums in another order; 16-bit numbers are added in f32, and rounded once.
        assert_near(found, expected, 8 if np.dtype(dtype).itemsize > 2 else 1)


@pytest.mark.slow
@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("target", NATIVE)
def test_the_compiled_programs_keep_all_partial_results(target: str) -> None:
    """`partial_results` refuses a program that does not."""
    sizes = (3, 6, 16, 24, 32, 100)
    dtypes = (F32, np.float16, ml_dtypes.bfloat16, np.int8, np.bool_)

    def programs(*arrays: Any) -> list[Any]:
        pairs = zip(arrays[::2], arrays[1::2], strict=True)
        return [
            nn.logsumexp(x[:, :, None] * y, (1, 2)) if i % 5 == 0 else f(x, y)
            for i, (x, y) in enumerate(pairs)
            for f in (added((1, 2)), added((0, 1, 2)))
        ]

    arrays = [
        a
        for i, (m, n) in enumerate(itertools.product(sizes, sizes))
        for a in given(8, m, n, dtype=dtypes[i % 5])
    ]
    lowered = gn.jit(programs).lower(*arrays)
    assert lowered.compile(target=target).serialize()


def test_a_program_that_loses_partial_results_is_refused() -> None:
    backend = IreeBackend("cuda:sm_90", without(LEGALIZATIONS, "stepwise-reductions"))
    lowered = backend.lower(program_of(added((1, 2)), *given(64, 256, 3)))
    with pytest.raises(CompilationError, match="only some partial results of a reduction"):
        backend.compile_for(lowered)
