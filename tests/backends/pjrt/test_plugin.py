"""Finding, loading and refusing plugins: errors are named, and leave other platforms usable."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon._native as _native
import gnomon.numpy as gnp
from gnomon.backends import platforms
from gnomon.backends.errors import BackendUnavailable, UnsupportedOnTarget
from gnomon.backends.pjrt.backend import PjrtBackend, pjrt_backend
from gnomon.backends.pjrt.c_api import (
    FUNCTIONS,
    MINIMUM_MINOR,
    STRUCTS,
    Api,
    ApiVersionError,
    PjrtError,
    address_of,
    named_values_of,
)
from gnomon.backends.pjrt.client import Device
from gnomon.backends.pjrt.plugin import Plugin, PluginSpec, find_libtpu, load_plugin, parse_plugins
from gnomon.backends.pjrt.protobuf import compile_options, field, fields, varints
from gnomon.dialects.body import Body
from gnomon.dialects.emit import ops
from gnomon.dialects.functions import Program
from gnomon.dialects.types import TensorType

# ------------------------------------------------------------------------------------- the C API


def test_memory_statistics_are_those_that_the_plugin_knows() -> None:
    stats = STRUCTS["Device_MemoryStats"](
        device=1, bytes_in_use=5, bytes_limit=9, has_bytes_limit=True, num_allocs=3
    )
    api = SimpleNamespace(call=lambda function, **arguments: stats)
    client = SimpleNamespace(api=api, check_alive=lambda: None)
    found = Device.memory_stats(SimpleNamespace(client=client, handle=1))  # type: ignore[arg-type]
    assert found == {"bytes_in_use": 5, "bytes_limit": 9}


def _table(major: int, minor: int, functions: int = len(FUNCTIONS)) -> ctypes.Array[Any]:
    """The structure that ``GetPjrtApi`` returns, of a version, with null functions."""
    table = (ctypes.c_size_t * (5 + functions))()
    table[0] = ctypes.sizeof(table)
    ctypes.c_int.from_address(address_of(table) + 32).value = major
    ctypes.c_int.from_address(address_of(table) + 36).value = minor
    return table


@pytest.mark.parametrize(("major", "minor"), [(1, 0), (2, 81), (0, MINIMUM_MINOR - 1)])
def test_another_version_of_the_interface_is_refused(major: int, minor: int) -> None:
    table = _table(major, minor)
    with pytest.raises(ApiVersionError, match=rf"speaks version {major}\.{minor}.*0\.40 and later"):
        Api(address_of(table))


def test_invalid_tables_are_refused() -> None:
    table = (ctypes.c_size_t * 2)(16)
    with pytest.raises(ApiVersionError, match="has 16 bytes"):
        Api(address_of(table))


def test_functions_that_a_plugin_lacks_are_named() -> None:
    table = _table(0, MINIMUM_MINOR, functions=12)
    api = Api(address_of(table))
    for name in ("Client_Compile", "Error_Destroy"):  # beyond the end, and null
        assert not api.has(name)
        with pytest.raises(PjrtError, match=f"0.40 of the PJRT C API, has no function PJRT_{name}"):
            api.function(name)


def test_sizes_of_structs_leave_padding_out() -> None:
    assert STRUCTS["Plugin_Initialize"].size == 16
    assert STRUCTS["Event_IsReady"].size == 25
    assert STRUCTS["LoadedExecutable_Execute"].size == 80
    assert STRUCTS["NamedValue"].size == 56


def test_named_values_survive_the_journey() -> None:
    given = {"a": 3, "flag": True, "text": "x y", "ratio": 0.5, "negative": -(1 << 40)}
    array, kept = named_values_of(given)
    assert kept
    assert Api(address_of(table := _table(0, 81))).named_values(address_of(array), 5) == given
    assert table


def test_protocol_buffers() -> None:
    message = field(1, 300) + field(2, "text") + field(3, -1) + field(19, b"\x01\xac\x02")
    assert list(fields(message)) == [(1, 300), (2, b"text"), (3, 2**64 - 1), (19, b"\x01\xac\x02")]
    assert varints(b"\x01\xac\x02") == [1, 300]
    assert varints(7) == [7]
    options = dict(fields(compile_options([4, 5, 6, 7], replicas=2, partitions=2)))
    build = dict(fields(options[3]))
    assert build[4] == build[5] == 2
    assert [number for number, _ in fields(build[9])] == [1, 2, 3, 3]
    devices = [dict(fields(v))[1] for n, v in fields(build[9]) if n == 3]
    assert devices == [b"\x04\x06", b"\x05\x07"]


# ---------------------------------------------------------------------------------------- plugins


def test_plugins_named_by_the_environment() -> None:
    specs = parse_plugins("a:/x.so, b:/y.so?n=2&verbose=true&kind=fast&xla_dump_to=/tmp ,")
    assert [(s.name, s.path) for s in specs] == [("a", "/x.so"), ("b", "/y.so")]
    assert specs[1].options == {"n": 2, "verbose": True, "kind": "fast"}
    assert specs[1].flags == {"xla_dump_to": "/tmp"}
    assert parse_plugins("") == ()


@pytest.mark.parametrize("text", ["/only/a/path.so", "name:", ":path", "two words:/x.so"])
def test_errors_in_environment_variables(text: str) -> None:
    with pytest.raises(ValueError, match="write name:path"):
        parse_plugins(text)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/nowhere/plugin.so", "no file /nowhere/plugin.so"),
        (__file__, "cannot be loaded"),
        (_native.__file__, "is not a PJRT plugin: it has no function GetPjrtApi"),
    ],
)
def test_files_that_are_not_plugins(path: str, message: str) -> None:
    backend = PjrtBackend("mine", PluginSpec("mine", path))
    for _ in range(2):  # the next request searches again
        with pytest.raises(BackendUnavailable, match=f"'mine'.*{message}"):
            backend.devices()
    assert gn.jit(lambda x: x + 1)(gnp.ones(2)).tolist() == [2, 2]


def test_a_plugin_that_is_cut_off(tmp_path: Path) -> None:
    whole = Path(_native.__file__).read_bytes()
    for size in (len(whole) // 2, 70):
        path = tmp_path / "plugin.so"
        path.write_bytes(whole[:size])
        with pytest.raises(BackendUnavailable, match=r"'mine'.*is truncated"):
            load_plugin(PluginSpec("mine", str(path)))


def test_a_plugin_replaces_the_platform_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_PJRT_PLUGIN", "cuda:/x.so,cpu:/y.so")
    monkeypatch.setattr(platforms, "_backends", {})
    assert isinstance(platforms.backend("cuda"), PjrtBackend)
    with pytest.raises(ValueError, match=r"'cpu'.*another name, such as xla_cpu:path"):
        platforms.backend("cpu")


def test_an_unknown_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_PJRT_PLUGIN", "mine:/x.so")
    with pytest.raises(BackendUnavailable, match=r"no PJRT plugin named 'yours'.*'mine'"):
        pjrt_backend("yours")


def test_libtpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'gnomon\[tpu\]'"):
        find_libtpu()
    monkeypatch.setenv("TPU_LIBRARY_PATH", str(tmp_path / "libtpu.so"))
    with pytest.raises(BackendUnavailable, match="no file"):
        load_plugin(find_libtpu())


# ------------------------------------------------------------------------------------ negotiation


def _older(spec: PluginSpec, current: object, minimum: object = (0, 9, 0)) -> PjrtBackend:
    """A backend whose plugin says that it reads these versions of StableHLO."""

    class Older(PjrtBackend):
        plugin = Plugin(spec)

    Older.plugin.attributes = {
        "stablehlo_current_version": current,
        "stablehlo_minimum_version": minimum,
    }
    return Older("xla_cpu", spec)


def _program(name: str, dtype: object = np.float32) -> Program:
    program = Program()
    body = Body.build([TensorType((4,), np.dtype(dtype))], lambda x: [getattr(ops, name)(x)])
    program.add("main", body, public=True)
    return program


@pytest.mark.pjrt
def test_the_artifact_has_the_version_that_both_sides_know(spec: PluginSpec) -> None:
    older = _older(spec, (1, 2, 0))
    artifact = older.lower(_program("sin"))
    assert older.plugin.stablehlo_version == "1.2.0"
    assert b"StableHLO_v1.2.0" in older.portable(artifact)
    newer = _older(spec, (99, 0, 0))
    assert newer.portable(artifact) == artifact.portable
    silent = _older(spec, None)
    silent.plugin.attributes = {}
    assert b"StableHLO_v0.9.0" in silent.portable(artifact)


@pytest.mark.pjrt
def test_a_plugin_that_reads_too_old_or_too_new_stablehlo(spec: PluginSpec) -> None:
    older = _older(spec, (0, 3, 0), (0, 1, 0))
    with pytest.raises(BackendUnavailable, match=r"reads StableHLO up to 0\.3\.0.*newer plugin"):
        older.portable(older.lower(_program("sin")))
    newer = _older(spec, (99, 0, 0), (98, 0, 0))
    with pytest.raises(BackendUnavailable, match=r"from 98\.0\.0 on.*newer gnomon"):
        newer.portable(newer.lower(_program("sin")))


@pytest.mark.pjrt
def test_an_op_that_is_newer_than_the_plugin(spec: PluginSpec) -> None:
    older = _older(spec, (0, 9, 0))
    # `stablehlo.tan` came with version 1.4.
    with pytest.raises(UnsupportedOnTarget, match=r"StableHLO 0\.9\.0.*install a newer plugin"):
        older.portable(older.lower(_program("tan")))


@pytest.mark.pjrt
def test_descriptions_of_a_plugin(spec: PluginSpec) -> None:
    plugin = load_plugin(spec)
    assert load_plugin(spec) is plugin
    assert plugin.api.version >= (0, MINIMUM_MINOR)
    assert isinstance(plugin.attributes["stablehlo_current_version"], tuple)
    assert "PJRT 0." in repr(plugin)
