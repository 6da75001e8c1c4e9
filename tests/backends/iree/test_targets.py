"""The table of targets: lookups, and compilation for other machines."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.lax
import gnomon.numpy as gnp
from gnomon.backends.errors import BackendUnavailable, UnsupportedOnTarget
from gnomon.backends.iree.ahead_of_time import device_code
from gnomon.backends.iree.targets import (
    CPUS,
    FAMILIES,
    TARGETS,
    find_target,
    linking_flags,
    target_names,
)
from gnomon.dialects.types import ANY, short_name
from tests.tolerance import assert_each_near

# The machines in headers of ELF files, and the processors of AMD's GPUs in the headers' flags.
MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243}
EM_AMDGPU = 224
EF_AMDGPU_MACH = {"gfx908": 0x30, "gfx90a": 0x3F, "gfx942": 0x4C, "gfx950": 0x4F, "gfx1100": 0x41}
EF_AMDGPU_MACH |= {"gfx1101": 0x46, "gfx1151": 0x4A, "gfx1200": 0x48, "gfx1201": 0x4E}


def test_every_row_is_complete() -> None:
    assert {"cpu", "cuda", "vulkan", "rocm", "metal"} <= TARGETS.keys()
    assert {"aarch64-linux", "riscv64-linux", "wasm32"} <= TARGETS.keys()
    dtypes = {short_name(d) for d in ANY}
    for name in target_names():
        target = find_target(name)
        for flag in (*target.flags, *target.process_flags, *linking_flags(target)):
            assert flag.name.startswith("--iree-")
            assert flag.reason
        assert target.capabilities.dtypes <= dtypes
        assert target.legalized
        assert set(target.drivers) in ({"sync", "blocking", "async"}, set())
        assert target.platform in ("cpu", "cuda", "rocm", "vulkan", "metal")
        assert find_target(name) is target
    assert all(target.meaning for target in CPUS)


def test_a_family_alone_is_its_default_architecture() -> None:
    for family in FAMILIES:
        default = f"{family.target.name}:{family.default}"
        assert TARGETS[family.target.name] == find_target(default)
        # This holds unless the machine has such a device.
        detected = family.detect() or family.default
        assert find_target(family.target.name).name.endswith(detected)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cuda:sm_9", r"did you mean 'cuda:sm_90'.*sm_80 \(Ampere"),
        ("cudda", r"did you mean 'cuda'.*there are cpu, .*cuda\[:sm_70\|"),
        ("x86-64", r"did you mean 'x86-64-v\d'"),
        ("cuda:", "unknown target 'cuda:'"),
        ("cpu:host", "unknown target 'cpu:host'"),
        ("", "unknown target ''"),
    ],
)
def test_the_error_for_an_unknown_target_lists_the_targets(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_target(name)


# ------------------------------------------------------------------------------------- artifacts


def small(x: Any) -> Any:
    return gnp.sin(x) @ gnp.ones((4, 2), x.dtype) + 1


LOWERED = gnomon.jit(small).lower(np.ones((3, 4), np.float32))


def check_code(name: str, files: list[bytes]) -> None:
    """Check that files hold code for a target."""
    target = find_target(name)
    architecture = name.partition(":")[2]
    assert files
    for file in files:
        if target.code == "elf":
            machine = MACHINES[target.machine or "x86_64"]
            assert file[:4] == b"\x7fELF"
            assert struct.unpack_from("<H", file, 18) == (machine,)
        elif target.code == "wasm":
            assert file[:8] == b"\0asm\1\0\0\0"
        elif target.code == "ptx":
            assert b".version" in file
            assert f".target {architecture}".encode() in file
        elif target.code == "hsaco":
            start = file.index(b"\x7fELF")
            assert struct.unpack_from("<H", file, start + 18) == (EM_AMDGPU,)
            # The processor is the low byte of the ELF header's flags.
            (flags,) = struct.unpack_from("<I", file, start + 48)
            assert flags & 0xFF == EF_AMDGPU_MACH[architecture]
        elif target.code == "spirv":
            assert struct.pack("<I", 0x07230203) in file
        else:
            assert target.code == "msl"
            assert b"#include <metal_stdlib>" in file


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize(
    "name",
    [
        *(t.name for t in CPUS if not t.is_host),
        *("cuda:sm_80", "cuda:sm_90", "cuda:sm_100", "rocm:gfx942", "rocm:gfx1100"),
        *("vulkan:portable", "metal:macos"),
    ],
)
def test_an_artifact_holds_code_for_its_target(name: str) -> None:
    compiled = LOWERED.compile(target=name)
    check_code(name, device_code(compiled.serialize()))
    target = find_target(name)
    if target.code in ("ptx", "msl"):
        marker = ".visible .entry" if target.code == "ptx" else "kernel void"
        assert marker in compiled.as_text()
    else:
        with pytest.raises(ValueError, match=f"binary.*{target.code}"):
            compiled.as_text()
    assert "stablehlo" in compiled.as_text("stablehlo")
    assert compiled.cost_analysis()["flops"] > 0


@pytest.mark.slow
@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    "name", [f"{f.target.name}:{a.name}" for f in FAMILIES for a in f.architectures]
)
def test_every_architecture_compiles(name: str) -> None:
    check_code(name, device_code(LOWERED.compile(target=name).serialize()))


def test_a_program_for_this_processor_runs() -> None:
    weights = gnp.asarray(np.arange(200, dtype=np.float32))
    f = gnomon.jit(lambda x: {"y": gnp.exp(x["a"]) + weights[:4] + gnp.sum(weights)})
    x = {"a": np.linspace(-1, 1, 4, dtype=np.float32)}
    compiled = f.lower(x).compile(target="x86-64-v2")
    if BackendUnavailable in _errors(lambda: compiled(x)):
        pytest.skip("this processor is another one")
    assert_each_near(compiled(x)["y"], f(x)["y"], 4)
    with pytest.raises(TypeError, match=r"compiled for float32\[4\]"):
        compiled({"a": np.ones(5, np.float32)})


def _errors(call: Any) -> list[type[BaseException]]:
    try:
        call()
    except Exception as error:
        return [type(error)]
    return []


@pytest.mark.parametrize("name", ["wasm32", "metal:macos", "riscv64-linux"])
def test_a_call_without_the_device_is_a_named_error(name: str) -> None:
    with pytest.raises(BackendUnavailable, match=f"compiled for '{name}'"):
        LOWERED.compile(target=name)(np.ones((3, 4), np.float32))


def test_complex_products_compile_for_rocm() -> None:
    lowered = gnomon.jit(lambda x: gnp.fft.fft(x @ x)).lower(np.ones((6, 6), np.complex64))
    assert lowered.compile(target="rocm:gfx942").serialize()


# -------------------------------------------------------------------------------------- refusals


def test_an_unsupported_dtype_is_refused_before_compilation() -> None:
    with gnomon.enable_x64():
        lowered = gnomon.jit(lambda x: gnp.sum(x * 2)).lower(np.ones(3))
        with pytest.raises(UnsupportedOnTarget, match=r"f64\[3\].*'vulkan:.*float32.*'cuda'"):
            lowered.compile(target="vulkan")
        inside = gnomon.jit(lambda x: x.astype(np.float64).sum().astype(np.float32))
        with pytest.raises(UnsupportedOnTarget, match=r"gnomon.convert of type f64\[3\].*metal"):
            inside.lower(np.ones(3, np.float32)).compile(target="metal")


def test_an_op_without_a_form_is_refused_by_name() -> None:
    lowered = gnomon.jit(gnp.linalg.cholesky).lower(np.eye(9, dtype=np.float32))
    with pytest.raises(UnsupportedOnTarget, match=r"gnomon.cholesky of \(f32\[9,9\]\).*'wasm32'"):
        lowered.compile(target="wasm32")
