"""Programs compiled for TPUs, on a machine that has none."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.backends.errors import BackendUnavailable, OutOfMemory, UnsupportedOnTarget
from gnomon.backends.pjrt.backend import tpu_topology
from gnomon.backends.pjrt.plugin import has_tpu
from tests.backends.pjrt.test_programs import PROGRAMS

pytestmark = pytest.mark.tpu_compile


def compiled(function: Any, *arguments: Any, target: str = "tpu:v5e:2x2", **options: Any) -> Any:
    return gn.jit(function, **options).lower(*arguments).compile(target=target)


@pytest.mark.skipif(has_tpu(), reason="this machine has a TPU")
def test_a_machine_without_a_tpu_raises_quickly() -> None:
    start = time.perf_counter()
    with pytest.raises(BackendUnavailable, match=r"'tpu' has no usable device.*NOT_FOUND.*target="):
        gn.devices("tpu")
    assert time.perf_counter() - start < 20
    assert gn.jit(gnp.sin)(gnp.zeros(2)).tolist() == [0, 0]


def test_analyses_of_a_compiled_program() -> None:
    x = gn.ShapeDtypeStruct((512, 512), np.float32)
    program = compiled(lambda x, y: gnp.tanh(x @ y), x, x)
    assert len(program.serialize()) > 10_000
    memory = program.memory_analysis()
    assert memory.argument_size_in_bytes == 2 * 512 * 512 * 4
    assert memory.output_size_in_bytes == 512 * 512 * 4
    assert memory.generated_code_size_in_bytes > 0
    cost = program.cost_analysis()
    assert cost["flops"] == pytest.approx(2 * 512**3, rel=0.01)
    text = program.as_text()
    assert text.startswith("HloModule") and "ENTRY" in text
    assert "f32[512,512]{1,0} parameter(0)" in text and "convolution(" in text
    assert "stablehlo.dot_general" in program.as_text("stablehlo")
    with pytest.raises(BackendUnavailable, match="cannot run in this process"):
        program(np.zeros((512, 512), np.float32), np.zeros((512, 512), np.float32))


@pytest.mark.parametrize("target", ["v2", "v3", "v4:2x2x1", "v5p:2x2x1", "v6e:1x1", "7x:2x2x1"])
def test_every_generation(target: str) -> None:
    program = compiled(
        lambda x: gnp.sum(x * 2), np.ones((8, 128), np.float32), target=f"tpu:{target}"
    )
    assert len(program.serialize()) > 10_000


def test_names_of_topologies() -> None:
    assert tpu_topology("v6e") == "v6e:1x1"
    assert tpu_topology("v5p:4x4x4") == "v5p:4x4x4"
    assert tpu_topology("v7x:2x2x1") == "tpu7x:2x2x1"
    for target in ("tpu", "tpu:v9:1x1", "tpu:v5e:99999x1", "tpu:nonsense"):
        with pytest.raises(ValueError, match=r"knows no topology.*v5e:1x1"):
            compiled(gnp.sin, np.zeros(3, np.float32), target=target)


def test_donated_arguments_share_memory_with_results() -> None:
    x = gn.ShapeDtypeStruct((1024, 1024), np.float32)
    program = compiled(lambda x, y: x + y, x, x, donate_argnums=0)
    assert program.memory_analysis().alias_size_in_bytes == 4 << 20
    assert compiled(lambda x, y: x + y, x, x).memory_analysis().alias_size_in_bytes == 0


def test_programs_that_do_not_fit() -> None:
    x = gn.ShapeDtypeStruct((1 << 17, 1 << 17), np.float32)
    with pytest.raises(OutOfMemory, match="CompileTimeHbmOom"):
        compiled(lambda x: gnp.tanh(x @ x), x)


def test_ops_that_are_not_supported() -> None:
    x = gn.ShapeDtypeStruct((4, 4), np.float32)
    with pytest.raises(UnsupportedOnTarget, match=r"gnomon\.eig cannot run .*'tpu'.*test_tpu\.py"):
        compiled(gnp.linalg.eig, x)


@pytest.mark.sampled(0.2)
@pytest.mark.parametrize("target", ["tpu:v5e:2x2", "tpu:v6e"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, target: str) -> None:
    function, arguments = PROGRAMS[name]
    assert "ENTRY" in compiled(function, *arguments, target=target).as_text()


def test_libtpu_prints_nothing_and_lets_the_process_end() -> None:
    code = (
        "import gnomon as gn, gnomon.numpy as gnp\n"
        "try: gn.devices('tpu')\n"
        "except RuntimeError as error: print(type(error).__name__)\n"
        "p = gn.jit(gnp.sin).lower(gnp.zeros(4)).compile(target='tpu:v6e')\n"
        "print(len(p.serialize()) > 1000)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("True\n" if has_tpu() else "BackendUnavailable\nTrue\n")
