"""The fuzzer moves the thresholds of the cost models."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.iree import blas
from gnomon.backends.iree.backend import IreeBackend
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir
from gnomon.tools.fuzz.checking import Failure
from gnomon.tools.fuzz.reporting import reproducer
from gnomon.tools.fuzz.session import Settings, explore_isolated
from gnomon.tools.fuzz.ways import THRESHOLDS, Ways, take
from tests.sample import sample
from tests.tools.fuzz.test_fuzz import program


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thresholds as they were, after each test."""
    monkeypatch.setenv("GNOMON_CACHE", "off")
    for threshold in THRESHOLDS:
        module = importlib.import_module(threshold.module)
        monkeypatch.setattr(module, threshold.name, getattr(module, threshold.name))


def kernels(function: Callable[..., Any], *arguments: Any) -> set[str]:
    """The kinds of kernels of ours in the compiler's input."""
    ensure_context()
    text = gn.jit(function).lower(*arguments).as_text("gnomon")
    plan = IreeBackend("cpu").lower(Program(ir.Module.parse(text))).plan
    return set(
        re.findall(r"gnomon_(rows|loop|product)", (plan.code or b"").decode(errors="ignore"))
    )


def _loop(x: Any) -> Any:
    return lax.fori_loop(0, 10, lambda i, c: gnp.sin(c) + x, x)


X = np.ones((8, 8), np.float32)
SMALL: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "rows": (lambda x: gnp.exp(x) / gnp.sum(gnp.exp(x), 1, keepdims=True), X),
    "product": (lambda x: x @ x, X),
}


@pytest.mark.parametrize("kind", SMALL)
def test_small_arrays_take_the_ways_of_large_ones(kind: str) -> None:
    if kind == "product" and not blas.has_products():
        pytest.skip("NumPy ships no OpenBLAS that kernels could call")
    function, x = SMALL[kind]
    assert kind not in kernels(function, x)
    take(Ways.EVERYWHERE)
    assert kind in kernels(function, x)


def test_no_loop_becomes_a_kernel() -> None:
    assert "loop" in kernels(_loop, X)
    take(Ways.NOWHERE)
    assert not kernels(_loop, X)


def test_chosen_thresholds_are_left_alone() -> None:
    before = [getattr(importlib.import_module(t.module), t.name) for t in THRESHOLDS]
    take(Ways.CHOSEN)
    assert [getattr(importlib.import_module(t.module), t.name) for t in THRESHOLDS] == before
    take(Ways.NOWHERE)
    after = [getattr(importlib.import_module(t.module), t.name) for t in THRESHOLDS]
    assert after == [t.nowhere for t in THRESHOLDS]


@pytest.mark.slow
def test_scripts_move_the_thresholds() -> None:
    failure = Failure("values", "1.0 instead of 2.0 at (0,)")
    script = reproducer(program("gnp.sin({x})"), failure, Ways.EVERYWHERE)
    assert "take(Ways.EVERYWHERE)" in script
    exec(compile(script, "<script>", "exec"), {})
    assert getattr(importlib.import_module(THRESHOLDS[1].module), THRESHOLDS[1].name) == 1
    assert "take(" not in reproducer(program("gnp.sin({x})"), failure)


@pytest.mark.slow
@pytest.mark.parametrize("ways", [Ways.EVERYWHERE, Ways.NOWHERE])
def test_random_programs_agree_on_both_sides(ways: Ways) -> None:
    report = explore_isolated(sample(range(200), 80, ways.value), Settings(ways=ways.value))
    assert report.counts.programs == 80
    assert not report.findings, "\n".join(f.script for f in report.findings.values())
