"""Compilation for devices that are not present, in a child process.

The TPU compiler aborts its process on some programs and does not terminate on a few others. It
therefore runs in a child process, which `backends.iree.process` keeps warm and replaces. The child
loads the plugin, converts the program to the plugin's version, compiles it, and queries all
analyses of the result. It returns only data.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gnomon.backends.errors import (
    BackendUnavailable,
    CompilerCrashed,
    CompilerTimeout,
    UnsupportedOnTarget,
)
from gnomon.backends.iree.process import CompilerProcess, ProcessDiedError, ProcessTimeoutError
from gnomon.backends.memory import MemoryAnalysis
from gnomon.backends.pjrt.c_api import PjrtError, address_of
from gnomon.backends.pjrt.client import Topology
from gnomon.backends.pjrt.compilation import program_struct, refused
from gnomon.backends.pjrt.executable import Inspected
from gnomon.backends.pjrt.hlo_text import hlo_text
from gnomon.backends.pjrt.negotiation import negotiated
from gnomon.backends.pjrt.plugin import PluginSpec, load_plugin
from gnomon.backends.pjrt.protobuf import compile_options
from gnomon.dialects.mlir import ensure_context

__all__ = [
    "AheadOfTimeExecutable",
    "DeviceDescription",
    "compile_ahead",
    "describe_topology",
    "serve",
]

_TIMEOUT_S = 600.0
_DIAGNOSTIC_LINES = 12


@dataclass(frozen=True)
class AheadOfTimeExecutable:
    """A program compiled for described devices; it cannot run in this process.

    Attributes:
      topology: the name of the topology for which it was compiled.
      serialized: the program, which a plugin of the same version can load.
      memory, cost: the compiler's analyses.
      kind, optimized: the format and the content of the optimized program.
    """

    topology: str
    serialized: bytes
    memory: MemoryAnalysis
    cost: dict[str, Any]
    kind: str
    optimized: bytes

    def serialize(self) -> bytes:
        """The compiled program as bytes."""
        return self.serialized

    def memory_analysis(self) -> MemoryAnalysis:
        """The memory that the program needs."""
        return self.memory

    def cost_analysis(self) -> dict[str, Any]:
        """The compiler's estimates: ``flops``, ``bytes accessed`` and others."""
        return dict(self.cost)

    def as_text(self) -> str:
        """The optimized HLO of the program."""
        if self.kind == "mlir":
            return self.optimized.decode(errors="replace")
        return hlo_text(self.kind, self.optimized)

    def __repr__(self) -> str:
        return f"AheadOfTimeExecutable({self.topology!r})"


# ----------------------------------------------------------------------------------- in the parent

_COMPILER = CompilerProcess(serve="gnomon.backends.pjrt.ahead_of_time:serve")


@dataclass(frozen=True)
class DeviceDescription:
    """A device of a topology.

    Attributes:
      id: the plugin's number of the device.
      process_index: the index of the process to which it would belong.
      device_kind: the plugin's name of the model.
      coords: its place in the topology; empty if the plugin reports none.
    """

    id: int
    process_index: int
    device_kind: str
    coords: tuple[int, ...]


def describe_topology(spec: PluginSpec, topology: str) -> list[DeviceDescription]:
    """The devices of a topology.

    Args:
      spec: the plugin.
      topology: the plugin's name of the topology.

    Raises:
      BackendUnavailable, LookupError, CompilerCrashed, CompilerTimeout: see `compile_ahead`.
    """
    answer = _ask(spec, b"", {"kind": "describe", "topology": topology})
    return [
        DeviceDescription(id_, process, kind, tuple(coords))
        for id_, process, kind, coords in json.loads(answer)
    ]


def compile_ahead(
    spec: PluginSpec,
    topology: str,
    portable: bytes,
    *,
    devices: Sequence[int] = (),
    donate: Sequence[int] = (),
    flags: Mapping[str, Any] | None = None,
) -> AheadOfTimeExecutable:
    """Compiles a program for devices of a topology.

    Args:
      spec: the plugin.
      topology: the plugin's name of the topology.
      portable: a StableHLO artifact of the newest version.
      devices: the ids of the devices, one for each partition of the program; by default the
        program is not partitioned, and is compiled for the first device.
      donate: positions of the arguments whose memory a call may reuse.
      flags: options of the compiler.

    Raises:
      BackendUnavailable: the plugin cannot be used.
      LookupError: the plugin knows no such topology.
      CompilationFailed, UnsupportedOnTarget, OutOfMemory: the compiler rejected the program.
      CompilerCrashed, CompilerTimeout: the compiler died or did not finish in time.
    """
    request = {
        "kind": "compile",
        "topology": topology,
        "devices": list(devices),
        "donate": list(donate),
        "flags": dict(flags or {}),
    }
    answer = _ask(spec, portable, request)
    size = int.from_bytes(answer[:8], "little")
    facts = json.loads(answer[8 : 8 + size])
    blobs = answer[8 + size :]
    return AheadOfTimeExecutable(
        topology,
        blobs[: facts["size"]],
        MemoryAnalysis(**facts["memory"]),
        facts["cost"],
        facts["kind"],
        blobs[facts["size"] :],
    )


def _ask(spec: PluginSpec, portable: bytes, request: dict[str, Any]) -> bytes:
    """The child's answer to a request."""
    request |= {"name": spec.name, "path": os.path.abspath(spec.path)}
    try:
        ok, answer, _ = _COMPILER.compile(portable, [json.dumps(request)], (), _TIMEOUT_S)
    except ProcessDiedError as error:
        raise CompilerCrashed(
            f"the compiler of {spec.name!r} crashed (exit status {error.status}); it says:\n"
            f"{_without_addresses(error.diagnostics)}",
            diagnostics=error.diagnostics,
        ) from None
    except ProcessTimeoutError as error:
        raise CompilerTimeout(
            f"the compiler of {spec.name!r} did not finish in {_TIMEOUT_S:.0f} s",
            diagnostics=error.diagnostics,
        ) from None
    if not ok:
        kind, code, message = json.loads(answer)
        if kind == "refused":
            raise refused(PjrtError(code, message), spec.name)
        raise _ERRORS[kind](message)
    return answer


def _without_addresses(diagnostics: str) -> str:
    """The output of a crashed compiler without the addresses of its functions."""
    lines = [line for line in diagnostics.splitlines() if not line.lstrip().startswith("@")]
    failed = list(dict.fromkeys(line for line in lines if "Check failed" in line))
    return "\n".join(failed or lines[:_DIAGNOSTIC_LINES])


# ------------------------------------------------------------------------------------ in the child

_ERRORS: dict[str, type[Exception]] = {
    "unavailable": BackendUnavailable,
    "topology": LookupError,
    "unsupported": UnsupportedOnTarget,
}


def serve(requests: Sequence[str], portable: bytes) -> tuple[dict[str, object], bytes]:
    """Serves a request of `compile_ahead` or `describe_topology` in the child process."""
    # libtpu's lock is for processes that use a TPU, not for those that only compile.
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    ensure_context()

    def failed(kind: str, message: str, code: str = "") -> tuple[dict[str, object], bytes]:
        return {"ok": False, "stage": kind}, json.dumps([kind, code, message]).encode()

    request = json.loads(requests[0])
    try:
        plugin = load_plugin(PluginSpec(request["name"], request["path"]))
        topology = Topology(plugin, request["topology"])
    except BackendUnavailable as error:
        return failed("unavailable", str(error))
    except PjrtError as error:
        return failed("topology", error.message)
    if request["kind"] == "describe":
        return {"ok": True}, json.dumps(topology.describe()).encode()
    try:
        code = negotiated(plugin, portable, request["donate"])
    except BackendUnavailable as error:
        return failed("unavailable", str(error))
    except UnsupportedOnTarget as error:
        return failed("unsupported", str(error))
    try:
        program = _Compiled(topology, code, request["devices"], request["flags"])
    except PjrtError as error:
        return failed("refused", error.message, error.code)
    kind, optimized = program.optimized_program()
    serialized = program.serialize()
    facts = {
        "size": len(serialized),
        "memory": dataclasses.asdict(program.memory_analysis()),
        "cost": program.cost_analysis(),
        "kind": kind,
    }
    text = json.dumps(facts).encode()
    return {"ok": True}, len(text).to_bytes(8, "little") + text + serialized + optimized


class _Compiled(Inspected):
    """A program compiled for devices of a topology, by default for the first one."""

    def __init__(
        self,
        topology: Topology,
        portable: bytes,
        devices: Sequence[int],
        flags: Mapping[str, Any],
    ) -> None:
        self.api = topology.plugin.api
        program, code = program_struct(portable)
        options = compile_options(
            devices or [topology.device_ids[0]],
            partitions=max(len(devices), 1),
            shardy=len(devices) > 1,
            flags=flags,
        )
        self.program = self.api.call(
            "Compile",
            topology=topology.handle,
            program=address_of(program),
            compile_options=options,
            compile_options_size=len(options),
        ).executable
        del code

    def __del__(self) -> None:
        if hasattr(self, "program"):
            self.api.call("Executable_Destroy", executable=self.program)
