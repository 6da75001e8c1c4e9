"""Programs that IREE takes wrongly as long as a legalization is left out.

Each test is strict: where a new compiler takes the program rightly, the test fails, and the
legalization can go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.errors import CompilationFailed, ExecutionError
from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, without
from gnomon.backends.iree.legalize.order import LEGALIZATIONS
from gnomon.backends.reference import Evaluator
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir

f32, i32 = np.float32, np.int32
ROW = np.arange(1, 9, dtype=f32)
SMALL = ml_dtypes.bfloat16(0.01)
BY_NAME = {one.name: one for one in LEGALIZATIONS}


class Reproducer(NamedTuple):
    """A function, its arguments, and the error that a right result may have."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    bound: float = 0.0


def _spread(u: Any, i: Any) -> Any:
    updated = lax.dynamic_update_slice(gnp.zeros((3, 7), u.dtype), u, (i, 0))
    return lax.pad(updated, f32(0), [(0, 0, 1), (0, 0, 0)])


REPRODUCERS = {
    "constant-reductions": Reproducer(
        lambda x: gnp.sum((x.astype(i32) & 0) | 3), (np.arange(10, dtype=f32),)
    ),
    "contractions": Reproducer(
        lambda a, b: a @ b, (np.full((1, 4096), SMALL), np.full((4096, 1), SMALL)), 0.01
    ),
    "fourier-transforms": Reproducer(gnp.fft.fft, (np.arange(7, dtype=f32),), 1e-5),
    "functions": Reproducer(gnp.sin, (np.array([1e5, 3e7, 1e10], f32),), 1e-6),
    "host-calls": Reproducer(gnp.linalg.cholesky, (4 * np.eye(3, dtype=f32),)),
    "pads-of-pads": Reproducer(
        lambda x: lax.pad(lax.pad(x, f32(0), [(1, 0, 0)]), f32(0), [(0, 0, 1)]), (ROW,)
    ),
    "saturating-conversions": Reproducer(
        lambda x: x.astype(i32), (np.array([np.inf, -np.inf, 3e10, 1.5], f32),)
    ),
    "sorts": Reproducer(
        lambda k, x: lax.sort((k, x), num_keys=1)[1], (np.arange(8, dtype=i32) % 2, ROW)
    ),
    "spread-updates": Reproducer(_spread, (np.arange(1, 8, dtype=f32)[None], i32(1))),
    # Of 4 million squares of 0.1; the evaluator's own sum is pairwise.
    "sums-on-cores": Reproducer(lambda x: gnp.sum(x * x), (np.full(1 << 22, 0.1, f32),), 1.0),
    "strided-views": Reproducer(lambda x, i: x[::2][i], (ROW, np.array([0, 2, 1], i32))),
    "unsigned-factors": Reproducer(
        lambda a, b: a.astype(f32) @ b, (np.full((3, 4), 200, np.uint8), np.ones(4, f32))
    ),
    "wide-fusions": Reproducer(
        lambda *rows: sum(rows), tuple(np.full(4, k, f32) for k in range(60))
    ),
}


def _error(text: str, arguments: tuple[Any, ...], legalizations: tuple[Legalization, ...]) -> float:
    """The largest difference of the compiled program's result from the evaluator's."""
    ensure_context()
    (expected,) = Evaluator(Program(ir.Module.parse(text)))("main", *arguments)
    backend = IreeBackend("cpu", legalizations)
    executable = backend.compile(backend.lower(Program(ir.Module.parse(text))))
    (found,) = executable([np.asarray(x) for x in arguments])
    kind = complex if np.iscomplexobj(expected) else float
    difference = found.to_numpy().astype(kind) - np.asarray(expected).astype(kind)
    return float(np.max(np.abs(difference)))


@pytest.mark.slow
@pytest.mark.parametrize("name", REPRODUCERS)
def test_the_compiler_is_still_wrong(name: str) -> None:
    function, arguments, bound = REPRODUCERS[name]
    text = gn.jit(function).lower(*arguments).as_text("gnomon")
    assert _error(text, arguments, LEGALIZATIONS) <= bound
    left_out = without(LEGALIZATIONS, name)
    if BY_NAME[name].kind is Kind.REFUSED:
        with pytest.raises((CompilationFailed, ExecutionError)):
            _error(text, arguments, left_out)
    else:
        assert _error(text, arguments, left_out) > bound
