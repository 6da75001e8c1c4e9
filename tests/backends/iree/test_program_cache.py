"""Programs that were compiled before are recognized as they were traced, and not lowered."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.backends.cache import ExecutableCache
from gnomon.backends.compilation import Artifact, verified
from gnomon.backends.errors import ExecutionError
from gnomon.backends.iree import program_cache
from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.iree.executable import Executable
from gnomon.backends.iree.plan import KnownPlan
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir

PROGRAM = """
module @{name} {{
  func.func public @main(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{
    %0 = "gnomon.{op}"(%x) : (tensor<{size}xf32>) -> tensor<{size}xf32> loc("{line}")
    return %0 : tensor<{size}xf32>
  }}
}}
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExecutableCache:
    monkeypatch.setenv("GNOMON_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("GNOMON_CACHE", raising=False)
    return ExecutableCache(tmp_path / "executables")


def program(op: str = "neg", size: int = 3, line: str = "here", name: str = "jit_f") -> Program:
    ensure_context()
    text = PROGRAM.format(op=op, size=size, line=line, name=name)
    return Program(ir.Module.parse(text, context()))


def run(backend: IreeBackend, artifact: Artifact, x: Any) -> np.ndarray:
    (result,) = backend.compile(artifact)([np.asarray(x, np.float32)])
    return result.to_numpy()


def test_a_program_is_lowered_once(store: ExecutableCache) -> None:
    backend = IreeBackend("cpu")
    first = backend.lower_to_run(program())
    assert not isinstance(first.plan, KnownPlan)
    np.testing.assert_array_equal(run(backend, first, [1, 2, 3]), [-1, -2, -3])
    second = IreeBackend("cpu").lower_to_run(program(line="moved"))
    assert isinstance(second.plan, KnownPlan)
    assert (second.name, second.input_types, second.output_types) == (
        first.name,
        first.input_types,
        first.output_types,
    )
    np.testing.assert_array_equal(run(backend, second, [4, 5, 6]), [-4, -5, -6])


@pytest.mark.parametrize("other", [{"op": "sin"}, {"size": 4}, {"name": "jit_g"}], ids=str)
def test_another_program_is_another_entry(store: ExecutableCache, other: dict[str, Any]) -> None:
    backend = IreeBackend("cpu")
    backend.compile(backend.lower_to_run(program()))
    assert not isinstance(backend.lower_to_run(program(**other)).plan, KnownPlan)


def test_a_program_that_does_not_load_is_lowered(
    store: ExecutableCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = IreeBackend("cpu")
    backend.compile(backend.lower_to_run(program()))
    artifact = backend.lower_to_run(program())
    loaded: list[bytes] = []
    load = Executable.__init__

    def fail_once(self: Executable, vmfb: bytes, **others: Any) -> None:
        loaded.append(vmfb)
        if len(loaded) == 1:
            raise ExecutionError("made for another machine")
        load(self, vmfb, **others)

    monkeypatch.setattr(Executable, "__init__", fail_once)
    np.testing.assert_array_equal(run(backend, artifact, [1, 2, 3]), [-1, -2, -3])
    assert len(loaded) == 2


def _remembered(backend: IreeBackend) -> str:
    """The key of the program, after it was compiled."""
    backend.compile(backend.lower_to_run(program()))
    key = program_cache.key_of(program(), backend.target)
    assert key is not None
    return key


def test_an_entry_without_its_executable_is_not_used(store: ExecutableCache) -> None:
    backend = IreeBackend("cpu")
    key = _remembered(backend)
    entry = store.get(key)
    assert entry is not None
    store.remove(json.loads(entry)["executable"])
    artifact = backend.lower_to_run(program())
    assert not isinstance(artifact.plan, KnownPlan)
    np.testing.assert_array_equal(run(backend, artifact, [1, 2, 3]), [-1, -2, -3])


def test_a_damaged_entry_is_not_used(store: ExecutableCache) -> None:
    backend = IreeBackend("cpu")
    key = _remembered(backend)
    path = store._path(key)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert not isinstance(backend.lower_to_run(program()).plan, KnownPlan)


def _none(backend: IreeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_CACHE", "0")


def _other_flags(backend: IreeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_KERNELS_APART", "0")


def _reports(backend: IreeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("gnomon.backends"), "level", logging.DEBUG)
    logging.getLogger("gnomon.backends")._cache.clear()


def _other_code(backend: IreeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_cache, "_code_fingerprint", lambda: "other")


def _unknown_code(backend: IreeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_cache, "_code_fingerprint", lambda: None)


def _other_library(backend: IreeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_cache, "shipped_library", lambda: "/other.so")


def _other_cores(backend: IreeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_cache, "available_cores", lambda: 77)


@pytest.mark.parametrize(
    "change",
    [_none, _other_flags, _reports, _other_code, _unknown_code, _other_library, _other_cores],
)
def test_what_lowering_depends_on(
    store: ExecutableCache,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[IreeBackend, pytest.MonkeyPatch], None],
) -> None:
    backend = IreeBackend("cpu")
    backend.compile(backend.lower_to_run(program()))
    assert isinstance(backend.lower_to_run(program()).plan, KnownPlan)
    with monkeypatch.context() as patch:
        change(backend, patch)
        assert not isinstance(backend.lower_to_run(program()).plan, KnownPlan)
    logging.getLogger("gnomon.backends")._cache.clear()


def test_other_legalizations_targets_and_checks_lower(store: ExecutableCache) -> None:
    backend = IreeBackend("cpu")
    backend.compile(backend.lower_to_run(program()))
    legalizations = backend.pipeline.legalizations
    assert not isinstance(IreeBackend("cpu", legalizations).lower_to_run(program()).plan, KnownPlan)
    with verified():
        assert not isinstance(backend.lower_to_run(program()).plan, KnownPlan)
    other = IreeBackend("x86-64-v2")
    assert program_cache.key_of(program(), other.target) is None


def test_code_newer_than_the_process_is_not_identified(monkeypatch: pytest.MonkeyPatch) -> None:
    fingerprint = program_cache._code_fingerprint.__wrapped__
    assert fingerprint() is not None
    assert fingerprint() == program_cache._code_fingerprint()
    monkeypatch.setattr(program_cache, "IMPORTED_S", os.stat(program_cache.__file__).st_mtime)
    assert fingerprint() is None


def test_programs_that_call_python_are_lowered(store: ExecutableCache) -> None:
    calls: list[int] = []

    def make(n: int) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            calls.append(n)
            return x + np.float32(n)

        return gn.jit(lambda x: gn.pure_callback(call, gn.ShapeDtypeStruct((3,), gnp.float32), x))

    for n in (1, 2):
        np.testing.assert_array_equal(make(n)(gnp.zeros(3)), [n] * 3)
    assert calls == [1, 2]


def test_programs_with_host_functions_and_loops(store: ExecutableCache) -> None:
    def function(a: Any) -> Any:
        def step(carry: Any) -> Any:
            return gnp.linalg.inv(carry[0]), carry[1] + 1, carry[2]

        return gn.lax.while_loop(lambda carry: carry[1] < carry[2], step, a)

    given = (gnp.eye(12) * 2, 0, 3)
    first = gn.jit(function)(given)
    gn.clear_caches()
    second = gn.jit(function)(given)
    np.testing.assert_allclose(first[0], np.eye(12) / 2, rtol=1e-6)
    np.testing.assert_array_equal(first[0], second[0])


def test_a_new_process_does_not_import_the_passes(tmp_path: Path) -> None:
    code = textwrap.dedent(
        """
        import sys
        import gnomon as gn, gnomon.numpy as gnp
        print(gn.jit(lambda x: gnp.sin(x) * 2)(gnp.zeros(3)))
        print("gnomon.backends.iree.pipeline" in sys.modules)
        """
    )
    environment = {**os.environ, "GNOMON_CACHE_DIR": str(tmp_path)}
    environment.pop("GNOMON_CACHE", None)
    # The order of sets and dicts must not enter the key.
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\n")
        for seed in ("1", "2")
    ]
    assert [lines[1] for lines in outputs] == ["True", "False"]
    assert outputs[0][0] == outputs[1][0]
