"""Programs that IREE handles wrongly without a legalization.

Each test is strict: if a new compiler compiles the program correctly, the test fails, and the
legalization can be removed.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gnomon.backends.errors import CompilationError, ExecutionError
from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.iree.compiler import compile_flags
from gnomon.backends.iree.legalize.array_kernels import emitter
from gnomon.backends.iree.legalize.legalization import Kind, Stage, without
from gnomon.backends.iree.legalize.order import LEGALIZATIONS
from gnomon.backends.iree.worker import OWN_FLAGS
from gnomon.backends.reference import Evaluator
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir
from tests.backends.iree.legalize.reproducers import REPRODUCERS, Measure, Reproducer
from tests.backends.iree.test_random_loops import GIVES, ROUNDINGS, TAKES, arguments_of
from tests.dialects.random_programs import Dialect, Plain, random_body
from tests.tolerance import assert_near

BY_NAME = {one.name: one for one in LEGALIZATIONS}
# The number of calls of each program whose processor time is measured, and how often that is done.
CALLS = 15
ROUNDS = 20
# The program of `steps`, which fails by a wrong order of calls.
IN_A_TEST_OF_ITS_OWN = "steps"


def test_each_legalization_has_a_reproducer_or_a_reason() -> None:
    declared = {one.name for one in LEGALIZATIONS if one.reproducer}
    assert declared == {*REPRODUCERS, IN_A_TEST_OF_ITS_OWN}
    for name, reproducer in REPRODUCERS.items():
        assert (BY_NAME[name].kind is Kind.SLOW) == (reproducer.measure is not None)
        assert set(reproducer.beside) <= set(BY_NAME)


def test_a_legalization_says_one_of_the_two() -> None:
    steps = BY_NAME["steps"]
    for given in ({"reproducer": ""}, {"no_reproducer": "too"}):
        with pytest.raises(ValueError, match="a reproducer or a reason for having none"):
            replace(steps, **given)


def _runs_on_vulkan(name: str) -> bool:
    return REPRODUCERS[name].target.startswith("vulkan") and BY_NAME[name].kind is not Kind.REFUSED


def _lowered(backend: IreeBackend, text: str) -> Any:
    ensure_context()
    return backend.lower(Program(ir.Module.parse(text)))


def _error(text: str, arguments: tuple[Any, ...], backend: IreeBackend) -> float:
    """The largest difference of the compiled program's results from the evaluator's."""
    expected = Evaluator(Program(ir.Module.parse(text)))("main", *arguments)
    executable = backend.compile(_lowered(backend, text))
    worst = 0.0
    for result, value in zip(executable([np.asarray(x) for x in arguments]), expected, strict=True):
        wanted = np.asarray(value)
        kind = complex if np.iscomplexobj(wanted) else float
        difference = np.abs(result.to_numpy().astype(kind) - wanted.astype(kind))
        # `np.maximum` keeps a nan, `max` does not.
        worst = float(np.maximum(worst, np.max(difference, initial=0.0)))
    return worst


def _callee(backend: IreeBackend, text: str, arguments: tuple[Any, ...]) -> Callable[[], float]:
    """A function that calls the compiled program, and returns the seconds of processor time."""
    executable = backend.compile(_lowered(backend, text))
    given = [np.asarray(x) for x in arguments]

    def call() -> float:
        start = time.process_time()
        for result in executable(given):
            result.to_numpy()
        return time.process_time() - start

    return call


def _slowdowns(
    text: str, arguments: tuple[Any, ...], broken: IreeBackend, taken: IreeBackend
) -> Iterator[float]:
    """Ratios of the least processor times of two backends' calls, which take turns.

    A ratio is too low if other processes kept the threads of a call from running together.
    """
    slow, fast = (_callee(one, text, arguments) for one in (broken, taken))
    for _ in range(ROUNDS):
        times = [(slow(), fast()) for _ in range(CALLS)]
        yield min(a for a, _ in times) / min(b for _, b in times)


def _scheduled(backend: IreeBackend, text: str) -> str:
    """A program as the compiler schedules it."""
    from iree.compiler.tools import binaries

    artifact = _lowered(backend, text)
    code = artifact.plan.code or artifact.portable
    flags = [
        flag
        for flag in compile_flags(backend.target, artifact.plan.options)
        if not flag.startswith(OWN_FLAGS)
    ]
    command = [binaries.find_tool("iree-compile"), *flags, "--compile-to=stream", "-"]
    done = subprocess.run(command, input=code, capture_output=True, check=True)
    return done.stdout.decode()


def _code(backend: IreeBackend, text: str) -> str:
    """The program that the compiler is given."""
    return backend.pipeline.lower(Program(ir.Module.parse(text))).text


def _measured(one: Reproducer, text: str, backend: IreeBackend) -> float:
    if one.measure is Measure.DISPATCHES:
        return _scheduled(backend, text).count("stream.cmd.dispatch @")
    if one.measure is Measure.WAITS:
        return _scheduled(backend, text).count("stream.timepoint.await")
    if one.measure is Measure.BYTES:
        return len(backend.executable_bytes(_lowered(backend, text)))
    return _code(backend, text).count("stablehlo.")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.vulkan] if _runs_on_vulkan(name) else [])
        for name in REPRODUCERS
    ],
)
def test_the_compiler_is_still_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = REPRODUCERS[name]
    if BY_NAME[name].stage is Stage.CONTROL_FLOW:
        monkeypatch.setattr(emitter, "MOST_OPS", -1)
    text, arguments = one.lowered()
    taken = IreeBackend(one.target, without(LEGALIZATIONS, *one.beside))
    broken = IreeBackend(one.target, without(LEGALIZATIONS, name, *one.beside))
    if one.measure is Measure.CPU_SECONDS:
        assert _error(text, arguments, taken) <= one.bound
        assert _error(text, arguments, broken) <= one.bound
        ratios = _slowdowns(text, arguments, broken, taken)
        assert any(ratio > one.factor for ratio in ratios)
    elif one.measure is not None:
        assert _measured(one, text, broken) > one.factor * _measured(one, text, taken)
    elif BY_NAME[name].kind is Kind.REFUSED or one.target.startswith("cuda"):
        # What would be wrong on a GPU is found and refused without one.
        if name != "missing-dtypes":
            taken.compile_for(_lowered(taken, text))
        with pytest.raises((CompilationError, ExecutionError)):
            if broken.target.is_host:
                _error(text, arguments, broken)
            broken.compile_for(_lowered(broken, text))
    else:
        assert _error(text, arguments, taken) <= one.bound
        assert not _error(text, arguments, broken) <= one.bound


@pytest.mark.slow
def test_the_compiler_still_calls_python_in_another_order() -> None:
    takes = arguments_of(7)
    function = random_body(7, TAKES, GIVES, 2, updates=True, calls=True)
    function(plain := Plain(), *takes)
    logs = []
    for legalizations in (LEGALIZATIONS, without(LEGALIZATIONS, "steps")):
        dialect, program = Dialect(), Program()
        program.add("main", dialect.body(function, TAKES), public=True)
        backend = IreeBackend("cpu", legalizations)
        executable = backend.compile(backend.lower(program))
        dialect.log.clear()
        executable(takes)
        logs.append(dialect.log)
    assert_near(logs[0], plain.log, ROUNDINGS, scale=1.0)
    with pytest.raises(AssertionError):
        assert_near(logs[1], plain.log, ROUNDINGS, scale=1.0)
