"""The choice between the compilers of the CPU's programs, and programs of earlier processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon._native import ObjectCode
from gnomon.backends import host_compiler, iree
from gnomon.backends.cache import default_cache
from gnomon.backends.kernels.lowering import KernelPlan
from gnomon.backends.llvm import backend as llvm
from gnomon.backends.llvm import engine
from gnomon.backends.llvm.executable import Executable
from tests.tolerance import assert_near


def unrolled(x: Any) -> Any:
    for k in range(500):
        x = gnp.sin(x) + k
    return x


def called_back(*given: Any) -> Any:
    types = [gn.ShapeDtypeStruct(x.shape, x.dtype) for x in given]
    return gn.pure_callback(lambda *given: list(given), types, *given)


def loop(x: Any) -> Any:
    return lax.while_loop(lambda c: gnp.sum(c) < 100, lambda c: c * 2, x)


def spectrum(x: Any) -> Any:
    return gnp.fft.fft(x)


def struct(*shape: int, dtype: Any = np.float32) -> gn.ShapeDtypeStruct:
    return gn.ShapeDtypeStruct(shape, dtype)


SMALL: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (gnp.tanh, (struct(),)),
    (gnp.tanh, (struct(0, 3),)),
    (gn.grad(lambda x: gnp.sum(gnp.exp(x) ** 2)), (struct(50, 50),)),
    (lambda x: gnp.sort(x.T, 0), (struct(16, 16),)),
    (gnp.matmul, (struct(64, 64), struct(64, 64))),
    (gnp.linalg.eigh, (struct(20, 20),)),
    (loop, (struct(8),)),
    (called_back, (struct(3), struct(dtype=np.int32))),
    (spectrum, (struct(64),)),
]
LARGE: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (gnp.tanh, (struct(2000, 2000),)),
    (gnp.matmul, (struct(512, 512), struct(512, 512))),
    (unrolled, (struct(),)),
    (gnp.sort, (struct(1000),)),
    (gnp.argmin, (struct(2000),)),
    (gnp.exp, (struct(5000, dtype=gnp.bfloat16),)),
    (lambda x: x.T + 1, (struct(100, 100),)),
    (lambda key: gn.random.normal(key, (5000,)), (gn.random.key(0),)),
    (spectrum, (struct(8, 1024),)),
    # LLVM's programs keep these dtypes as bytes.
    (called_back, (struct(3), struct(3, dtype=gnp.float8_e4m3fn))),
    (lambda x: lax.fori_loop(0, 10**5, lambda i, c: gnp.sin(c), x), (struct(100),)),
]


def compiler_of(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    plan = gn.jit(function).lower(*arguments)._artifact.plan
    return "llvm" if isinstance(plan, KernelPlan) else "iree"


@pytest.mark.skipif(not ObjectCode.is_supported(), reason="IREE compiles all programs here")
def test_the_work_of_a_program_chooses_its_compiler() -> None:
    assert [compiler_of(*program) for program in SMALL] == ["llvm"] * len(SMALL)
    assert [compiler_of(*program) for program in LARGE] == ["iree"] * len(LARGE)
    gn.config.update("gnomon_cpu_compiler", "llvm")
    assert compiler_of(*LARGE[0]) == "llvm"
    gn.config.update("gnomon_cpu_compiler", "iree")
    assert compiler_of(*SMALL[0]) == "iree"


def test_systems_without_a_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines stay, and IREE compiles what nobody wants LLVM to compile."""

    class Unknown:
        is_supported = staticmethod(lambda: False)

    for module in (host_compiler, engine):
        monkeypatch.setattr(module, "ObjectCode", Unknown)
    assert compiler_of(*SMALL[0]) == "iree"
    gn.config.update("gnomon_cpu_compiler", "llvm")
    np.testing.assert_array_equal(gn.jit(lambda x: x * 2)(X), X * 2)


@pytest.fixture
def _new_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GNOMON_CACHE_DIR", str(tmp_path / "cache"))


def factors(x: Any) -> Any:
    """A program that calls LAPACK and the C library."""
    return gnp.linalg.svd(x, compute_uv=False) + gnp.expm1(x[0])


X = np.random.default_rng(0).normal(size=(20, 20)).astype(np.float32)


@pytest.mark.usefixtures("_new_cache")
def test_programs_of_earlier_processes_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not lowered again, and give the same numbers; damaged ones are compiled again."""
    programs = [gn.grad(lambda x: gnp.sum(gnp.tanh(x) ** 2)), factors, loop]
    first = [gn.jit(program)(X) for program in programs]
    made = {e.key: default_cache().get(e.key) for e in default_cache().entries()}
    assert len(made) == 2 * len(programs)

    def again() -> None:
        gn.clear_caches()
        for program, expected in zip(programs, first, strict=True):
            function = gn.jit(program)
            for _ in range(2):
                np.testing.assert_array_equal(function(X), expected)

    with monkeypatch.context() as patch:
        patch.setattr(llvm.LlvmBackend, "lower_in", None)
        patch.setattr(iree.backend.IreeBackend, "lower_in", None)
        again()
    for key in made:
        default_cache().put(key, b"something else")
    again()
    assert {key: default_cache().get(key) for key in made} == made


@pytest.mark.usefixtures("_new_cache")
def test_what_is_stored_does_not_choose() -> None:
    gn.config.update("gnomon_cpu_compiler", "iree")
    expected = gn.jit(factors)(X)
    gn.config.update("gnomon_cpu_compiler", "auto")
    function = gn.jit(factors)
    assert_near(function(X), expected, 8)
    assert isinstance(function.lower(X).compile().executable, Executable)


@pytest.mark.usefixtures("_new_cache")
def test_programs_that_call_python_are_not_stored() -> None:
    seen: list[int] = []
    for k in range(2):
        gn.clear_caches()
        gn.jit(lambda x, k=k: gn.debug.callback(lambda _: seen.append(k), x) or x + 1)(gnp.ones(3))
        gn.effects_barrier()
    assert seen == [0, 1]
    assert default_cache().entries() == []


INTERRUPTED = """
import os, signal, threading, time
import gnomon as gn, gnomon.numpy as gnp, gnomon.lax as lax
# No number of iterations lets this end: the compiler cannot know the sum.
f = gn.jit(lambda x: lax.while_loop(lambda c: gnp.sum(c) < 1, lambda c: gnp.cos(c) * 0, x))
f(gnp.ones(4))
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    f(gnp.zeros(4))
except KeyboardInterrupt:
    print("interrupted", gn.jit(lambda x: x + 1)(gnp.ones(2)), f(gnp.ones(4)))
"""


@pytest.mark.skipif(os.name != "posix", reason="the signal is POSIX's")
def test_an_interrupt_ends_the_wait_for_a_loop() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted [2. 2.] [1. 1. 1. 1.]\n", done.stderr
    assert done.returncode == 0
