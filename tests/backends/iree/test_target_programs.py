"""Programs and the op table compiled for machines that are not here, or for levels of this one.

Most of it is slow.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.lax
import gnomon.nn
import gnomon.numpy as gnp
import gnomon.random
from gnomon.backends.errors import CompilationError, UnsupportedOnTarget
from gnomon.backends.iree.ahead_of_time import device_code
from gnomon.backends.iree.backend import IreeBackend, iree_backend
from gnomon.backends.iree.targets import find_target, incompatibility
from tests.backends.devices.test_programs import ALL as ON_DEVICES
from tests.ops.cases import OPS, few_cases_of
from tests.ops.check import (
    Case,
    check_compiled,
    draw_all,
    joint_program,
    more_units_than_the_row,
)
from tests.tolerance import assert_near

GPUS = ["cuda:sm_90", "rocm:gfx942", "metal"]
# Levels of x86-64, which run if the processor supports them, and processors of the same levels.
LEVELS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
AVX512 = ["skylake-avx512", "sapphirerapids", "znver4", "znver5"]

F32, F8 = np.float32, gnp.float8_e5m2


def pieces(x: Any, image: Any, kernel: Any, places: Any) -> Any:
    key = gnomon.random.PRNGKey(0)
    return {
        "softmax": gnomon.nn.softmax(x, axis=-1),
        "conv": gnomon.lax.conv(image, kernel, (1, 1), "SAME"),
        "sort": (gnp.sort(x, axis=0), gnp.argsort(gnp.tile(x.ravel(), 2))),
        "long sort": gnp.sort(gnp.tile(x.ravel(), 30)),
        "scatter": [gnp.zeros(9, t).at[places].add(x[0, :5].astype(t)) for t in ("f4", "f2")],
        "scatter of bytes": gnp.zeros(9, F8).at[places].max(x[0, :5].astype(F8)),
        "random": gnomon.random.normal(key, (3,)) + gnomon.random.uniform(key, (3,)),
        "fft": gnp.abs(gnp.fft.fft(x)),
        "trigonometry": gnp.sin(x) + gnp.arctan2(x, x + 1) ** gnp.abs(x),
        "branch": gnomon.lax.cond(x[0, 0] > 0, lambda v: v * 2, lambda v: gnp.cos(v), x),
    }


# The programs that other tests run on devices, and programs of long sorts and of all dtypes.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **ON_DEVICES,
    "pieces": (
        pieces,
        (
            np.ones((5, 6), F32),
            np.ones((1, 3, 8, 8), F32),
            np.ones((4, 3, 3, 3), F32),
            np.array([1, 1, 3, 8, 20], np.int32),
        ),
    ),
}
# Programs with factorizations, which are left to Python: no file holds the whole program.
FACTORIZATIONS = ("algebra",)
QUICK = ("grad of scan", "pieces")
# Parts of the op table, of some sixty cases each.
_PARTS = 5


@pytest.mark.slow
@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize("program", FACTORIZATIONS)
def test_programs_that_call_python_compile_and_are_not_serialized(name: str, program: str) -> None:
    function, arguments = PROGRAMS[program]
    compiled = gnomon.jit(function).lower(*arguments).compile(target=name)
    with pytest.raises(ValueError, match=r"calls Python for cholesky, "):
        compiled.serialize()


@pytest.mark.parametrize(
    ("name", "program"),
    [
        *((GPUS[0], program) for program in QUICK),
        *(
            pytest.param(name, program, marks=[pytest.mark.slow, pytest.mark.sampled(0.2)])
            for name in (*GPUS, *AVX512, "graviton3")
            for program in PROGRAMS
            if program not in FACTORIZATIONS and (name, program) not in product(GPUS[:1], QUICK)
        ),
    ],
)
def test_programs_that_run_here_compile(name: str, program: str) -> None:
    function, arguments = PROGRAMS[program]
    compiled = gnomon.jit(function).lower(*arguments).compile(target=name)
    assert len(device_code(compiled.serialize())) >= 1
    if not find_target(name).capabilities.f64:
        assert "f64" not in compiled.as_text("stablehlo")
    if find_target(name).code == "ptx":
        assert compiled.as_text().count(".visible .entry") >= 1


@pytest.mark.slow
@pytest.mark.sampled(0.35)
@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p not in FACTORIZATIONS])
def test_programs_run_on_levels_of_x86_64(name: str, program: str) -> None:
    if missing := incompatibility(find_target(name)):
        pytest.skip(missing)
    function, arguments = PROGRAMS[program]
    results = gnomon.jit(function).lower(*arguments).compile(target=name)(*arguments)
    expected = function(*gnomon.tree.map(gnp.asarray, arguments))
    for found, value in zip(gnomon.tree.leaves(results), gnomon.tree.leaves(expected), strict=True):
        assert found.dtype == value.dtype
        # Sums of up to a hundred terms; 16-bit numbers are summed in 32 bits and rounded once.
        assert_near(found, value, 64 if found.dtype.itemsize > 2 else 1, scale=1.0)


def _accepted(backend: IreeBackend, cases: list[Case]) -> list[Case]:
    """The cases that are not refused by name, before the compiler sees them."""
    try:
        backend.lower(joint_program(cases, [draw_all(*case) for case in cases]))
    except UnsupportedOnTarget:
        if len(cases) == 1:
            return []
        middle = len(cases) // 2
        return _accepted(backend, cases[:middle]) + _accepted(backend, cases[middle:])
    return cases


def _refused(backend: IreeBackend, cases: list[Case]) -> list[str]:
    """The compiler's error for each case that it refuses, found by halving."""
    artifact = backend.lower(joint_program(cases, [draw_all(*case) for case in cases]))
    try:
        backend.compile_for(artifact)
    except CompilationError as error:
        if len(cases) == 1:
            ((row, dtype),) = cases
            return [f"{row.id} of {dtype}: {error}"]
        middle = len(cases) // 2
        return _refused(backend, cases[:middle]) + _refused(backend, cases[middle:])
    return []


@pytest.mark.slow
@pytest.mark.sampled(0.25)
@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("name", [*GPUS, *AVX512, "aarch64-linux", "graviton3", "wasm32"])
def test_the_op_table_compiles(name: str, part: int) -> None:
    """Every op in f32 and in another dtype, many at once."""
    backend = iree_backend(name)
    dtypes = backend.target.capabilities.dtypes
    cases = [case for op in OPS[part::_PARTS] for case in few_cases_of(op, dtypes)]
    accepted = _accepted(backend, cases)
    assert len(accepted) > len(cases) // 2
    assert not _refused(backend, accepted)


@pytest.mark.slow
@pytest.mark.sampled(0.35)
@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("name", LEVELS)
def test_the_op_table_runs(name: str, part: int) -> None:
    """The same on levels of x86-64 that this processor has, compared with the evaluator."""
    backend = iree_backend(name)
    if missing := incompatibility(backend.target):
        pytest.skip(missing)
    dtypes = backend.target.capabilities.dtypes
    cases = [case for op in OPS[part::_PARTS] for case in few_cases_of(op, dtypes)]
    accepted = _accepted(backend, cases)
    assert len(accepted) > len(cases) // 2
    check_compiled(backend, accepted, more_units_than_the_row(8))
