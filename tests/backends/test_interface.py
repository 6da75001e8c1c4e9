"""The interface of backends and the registry of platforms: several devices, and errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.backends import interface, platforms
from gnomon.backends.errors import (
    BackendUnavailable,
    CompilationError,
    ExecutionError,
    OutOfMemory,
    UnsupportedOnTarget,
)
from gnomon.dialects.body import Body
from gnomon.dialects.emit import ops
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ir
from gnomon.dialects.types import TensorType
from tests.backends.numpy_platform import NumpyBackend, registered
from tests.tolerance import assert_near

VALUE = np.arange(4, dtype=np.float32)


@pytest.fixture
def platform() -> Iterator[NumpyBackend]:
    with registered("fake") as backend:
        yield backend
        gn.clear_caches()


def double() -> Program:
    """``main`` adds its argument to itself."""
    program = Program()
    with context(), ir.Location.unknown(context()):
        body = Body.build([TensorType((4,), np.dtype(np.float32))], lambda x: [ops.add(x, x)])
        program.add("main", body, public=True)
    return program


def test_gpu_is_the_first_gpu_platform_that_has_a_device(
    platform: NumpyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise BackendUnavailable(f"no {name}")

    monkeypatch.setattr(platforms, "_backends", {})
    monkeypatch.setitem(platforms._FACTORIES, "cuda", missing)
    monkeypatch.setitem(platforms._FACTORIES, "rocm", lambda name: platform)
    monkeypatch.setattr(platforms, "_selected", [None])
    for chosen in (None, ("gpu", "cpu"), ("rocm",)):
        platforms.choose(chosen)
        assert gn.devices("gpu") == list(platform.devices())
    monkeypatch.setitem(platforms._FACTORIES, "rocm", missing)
    platforms._backends.clear()
    with pytest.raises(BackendUnavailable, match="no rocm"):
        gn.devices("gpu")
    platforms.choose(("fake",))
    with pytest.raises(BackendUnavailable, match="'gpu' is not among those in use: fake"):
        gn.devices("gpu")


@pytest.mark.parametrize("name", ["cpu", "fake"])
def test_a_backend_implements_the_interface(name: str, platform: NumpyBackend) -> None:
    backend: interface.Backend = platforms.backend(name)
    assert backend.platform == name
    devices = backend.devices()
    assert all(a is b for a, b in zip(devices, backend.devices(), strict=True))
    for device in devices:
        assert isinstance(device, interface.Device)
        assert device.backend is backend
        assert (device.platform, device.process_index) == (name, 0)
        assert len({device, *devices}) == len(devices)
    seen: list[str] = []
    artifact = backend.lower(double(), keep_stages=True, observe=lambda p, _: seen.append(p.name))
    assert "gnomon.add" in artifact.stages.traced.plain
    assert "stablehlo.add" in artifact.stages.stablehlo.plain
    assert seen[0] == "expand-transformations"
    assert artifact.portable.startswith(b"ML\xefR")
    assert [tuple(t) for t in artifact.input_types] == [((4,), np.dtype(np.float32))]
    device = devices[-1]
    executable = backend.compile(artifact, device=device)
    assert [(tuple(s), np.dtype(d)) for s, d in executable.output_types] == [
        ((4,), np.dtype(np.float32))
    ]
    source = VALUE.copy()
    buffer = backend.put(source, device, copy=True)
    source[:] = 9
    for (result,) in (executable.run([buffer]), executable([VALUE]), executable([buffer])):
        assert (result.shape, result.dtype, result.device) == ((4,), np.float32, device)
        result.wait()
        assert result.is_ready()
        result.copy_to_host_async()
        value = result.to_numpy()
        np.testing.assert_array_equal(value, 2 * VALUE)
        assert not value.flags.writeable
        result.delete("the test is done")
        assert result.is_deleted()
        with pytest.raises(RuntimeError, match="the test is done"):
            result.to_numpy()
    donating = backend.compile(artifact, device=device, donate=(0,))
    donating.run([buffer])
    assert buffer.is_deleted()


def test_a_platform_is_created_on_first_use() -> None:
    made: list[str] = []

    def factory(name: str) -> Any:
        made.append(name)
        return NumpyBackend(name)

    platforms.register("late", factory)
    try:
        assert "late" in platforms.known()
        assert made == []
        assert platforms.backend("late") is platforms.backend("late")
        assert made == ["late"]
    finally:
        platforms.unregister("late")
    with pytest.raises(BackendUnavailable, match="unknown platform 'late'"):
        platforms.backend("late")


def test_a_missing_driver_is_named_and_looked_for_again(platform: NumpyBackend) -> None:
    platform.missing = "fake: no driver libfake.so was found; install the package fake-driver"
    for use in (
        lambda: gn.devices("fake"),
        lambda: gn.jit(gnp.sin, backend="fake")(1.0),
        lambda: gn.jit(gnp.sin, backend="fake").lower(1.0),
    ):
        with pytest.raises(BackendUnavailable, match=r"libfake\.so.*install the package"):
            use()
    with gn.default_device("fake"), pytest.raises(BackendUnavailable, match="libfake"):
        gnp.zeros(3)
    assert float(gn.jit(gnp.cos)(0.0)) == 1
    platform.missing = ""
    assert len(gn.devices("fake")) == 2


def test_a_device_that_is_lost(platform: NumpyBackend) -> None:
    first, second = platform.devices()
    x, y = gn.device_put(VALUE, first), gn.device_put(VALUE, second)
    f = gn.jit(lambda v: v * 3)
    assert float(f(x)[1]) == 3
    first.lost = True
    for use in (
        lambda: f(x),
        lambda: x + 1,
        lambda: np.asarray(x),
        x.block_until_ready,
        lambda: gn.grad(lambda v: (v * v).sum())(x),
        lambda: gn.device_put(x, second),
        lambda: gn.device_put(VALUE, first),
    ):
        with pytest.raises(ExecutionError, match=r"FakeDevice\(id=0\) was lost"):
            use()
    # The other devices keep working, and so does this one when it is back.
    assert float(f(y)[1]) == 3
    assert float((gnp.asarray(VALUE) + 1)[1]) == 2
    first.lost = False
    assert float(f(x)[1]) == 3


def test_memory_that_is_full(platform: NumpyBackend) -> None:
    first, second = platform.devices()
    first.limit = 1000
    x = gn.device_put(np.ones(200, np.float32), first)
    with pytest.raises(OutOfMemory, match="no room for 4000 bytes: 800 of 1000 in use"):
        gn.device_put(np.ones(1000, np.float32), first)
    with pytest.raises(OutOfMemory):
        gnp.concatenate([x, x])
    assert gn.device_put(np.ones(1000, np.float32), second).shape == (1000,)
    del x
    assert gn.device_put(np.ones(240, np.float32), first).shape == (240,)
    assert first.memory_stats()["bytes_limit"] == 1000  # type: ignore[index]


def test_an_op_that_a_platform_does_not_support(platform: NumpyBackend) -> None:
    platform.refused = frozenset({"sin"})
    x = gn.device_put(VALUE, platform.devices()[0])
    with pytest.raises(UnsupportedOnTarget, match="fake has no form of sin") as caught:
        gnp.sin(x)
    assert "sin was to be computed on FakeDevice(id=0)" in caught.value.__notes__[0]
    with pytest.raises(CompilationError):
        gn.jit(gnp.sin)(x)
    assert_near(gnp.cos(x), np.cos(VALUE), 2)


PROGRAM = """
import sys, gnomon as gn, gnomon.numpy as gnp
from gnomon.backends import platforms
print(gn.default_backend(), [n for n in ("nowhere",) if n in platforms.known()])
with gn.default_device("cpu"):
    print(float(gn.jit(lambda x: x + 1)(1.0)), gn.devices("cpu"))
try:
    gnp.zeros(3)
except gn.errors.BackendUnavailable as error:
    print("named:", error)
try:
    gn.devices(sys.argv[1])
except gn.errors.BackendUnavailable as error:
    print("named:", error)
"""


def run(program: str, argument: str, **environment: str) -> list[str]:
    """The lines that a program prints in a separate process."""
    result = subprocess.run(
        [sys.executable, "-c", program, argument],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_the_environment_chooses_platforms() -> None:
    lines = run(PROGRAM, "vulkan", GNOMON_PLATFORMS="nowhere,cpu")
    assert lines[0] == "nowhere []"
    # Using a missing platform raises a named error; the host keeps working.
    assert lines[1] == "2.0 [CpuDevice(id=0)]"
    assert lines[2].startswith("named: unknown platform 'nowhere': the platforms are 'cpu'")
    assert lines[3].startswith("named: the platform 'vulkan' is not among those in use: nowhere, ")
