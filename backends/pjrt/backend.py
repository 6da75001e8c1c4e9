"""PJRT as a backend: one `PjrtBackend` for each plugin."""

from __future__ import annotations

import functools
import hashlib
import importlib
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.backends import platforms, profiling
from gnomon.backends.cache import cache_key, default_cache
from gnomon.backends.compilation import Artifact, Observer
from gnomon.backends.errors import BackendUnavailable, CompilationFailed
from gnomon.backends.iree.targets import host_fingerprint
from gnomon.backends.pjrt import buffer as buffers
from gnomon.backends.pjrt.ahead_of_time import (
    AheadOfTimeExecutable,
    DeviceDescription,
    compile_ahead,
    describe_topology,
)
from gnomon.backends.pjrt.c_api import PjrtError
from gnomon.backends.pjrt.client import Client, Device
from gnomon.backends.pjrt.compilation import compile_loaded, load_serialized
from gnomon.backends.pjrt.executable import Executable, Signature
from gnomon.backends.pjrt.lowering import Partitions, devices_of_plan, lower_for_xla
from gnomon.backends.pjrt.negotiation import negotiated
from gnomon.backends.pjrt.plugin import (
    Plugin,
    PluginSpec,
    find_libtpu,
    load_plugin,
    parse_plugins,
)
from gnomon.backends.shards import NUMBERS
from gnomon.dialects.functions import Program
from gnomon.dialects.types import TensorType

__all__ = ["PjrtBackend", "pjrt_backend", "tpu_topology"]

logger = logging.getLogger(__name__)

# The module of described devices. It imports this module, so it is imported by name.
_DESCRIBED = "gnomon.backends.pjrt.described"

# The compiler's options, by the plugin's own name of the platform.
_FLAGS: dict[str, dict[str, Any]] = {
    # With XLA's default, the maximum of nan and a number is the number.
    "cpu": {"xla_cpu_enable_fast_min_max": False},
}


class PjrtBackend:
    """The devices of a plugin, and compilation for them and for devices that are not present.

    Attributes:
      platform: the name of the plugin's platform.
      partitions_programs: True: the plugin's compiler splits programs over several devices.
    """

    partitions_programs = True

    def __init__(self, platform: str, spec: PluginSpec | None = None) -> None:
        self.platform = platform
        self._spec = spec
        self._client: Client | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"PjrtBackend({self.platform!r})"

    @property
    def plugin(self) -> Plugin:
        """The plugin, loaded on first use.

        Raises:
          BackendUnavailable: the plugin is missing or cannot be used.
        """
        return load_plugin(self.spec)

    @property
    def spec(self) -> PluginSpec:
        """The description of the plugin."""
        return find_libtpu() if self._spec is None else self._spec

    @property
    def client(self) -> Client:
        """The plugin's client, which owns the devices; created at the first use."""
        with self._lock:
            client = self._client
            if client is None or client.handle is None:
                client = self._client = _connected_client(self.plugin, self.spec)
                for device in client.devices:
                    device.backend = self
            return client

    @property
    def process_index(self) -> int:
        """The index of this process among those that the plugin's devices belong to."""
        return self.client.process_index

    def devices(self) -> tuple[Device, ...]:
        """The devices; see `Backend.devices`."""
        return self.client.devices

    def _kind(self) -> str:
        """The plugin's own name of its devices; empty if there are none."""
        if self.platform == "tpu":
            return self.platform
        try:
            return self.client.platform_name
        except BackendUnavailable:
            return ""

    def close(self) -> None:
        """Frees the client with all its buffers and programs; the next use creates a new one."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def lower(
        self, program: Program, *, keep_stages: bool = False, observe: Observer | None = None
    ) -> Artifact:
        """Lower a program; see `Backend.lower`."""
        return lower_for_xla(
            program, self.platform, self._kind(), keep_stages=keep_stages, observe=observe
        )

    def compile(
        self, artifact: Artifact, *, device: Device | None = None, donate: tuple[int, ...] = ()
    ) -> Executable:
        """Compile a lowered program; see `Backend.compile`."""
        with profiling.span("compile", program=artifact.name):
            executable = self._compiled(artifact, device, donate)
        executable.name = artifact.name
        return executable

    def _compiled(
        self, artifact: Artifact, device: Device | None, donate: tuple[int, ...]
    ) -> Executable:
        client = self.client
        plan: Partitions | None = artifact.plan
        portable = self.portable(artifact, donate)
        if plan is None:
            devices = [device or client.local[0]]
            signature = Signature(devices, artifact.input_types, artifact.output_types, donate)
        else:
            devices = list(devices_of_plan(client.devices, plan, client.plugin.name))
            signature = Signature(devices, plan.input_types, plan.output_types, donate)
        flags = {**_FLAGS.get(client.platform_name, {}), **self.spec.flags}
        cache = default_cache()
        ids = " ".join(str(device.id) for device in devices)
        key = cache_key(portable, ids, repr(flags), *_identity(client)) if cache else ""
        cached = cache.get(key) if cache else None
        if cached is not None:
            try:
                return load_serialized(client, cached, signature)
            except CompilationFailed as error:
                logger.warning("compiling the cached program again: %s", error)
        executable = compile_loaded(
            client, portable, signature, flags=flags, partitions=len(devices)
        )
        if cache is not None:
            try:
                cache.put(key, executable.serialize())
            except PjrtError as error:
                logger.debug("%s does not serialize programs: %s", self.platform, error)
        return executable

    def fingerprint(self) -> str:
        """A hash of the plugin's version and devices; executables run only where it is the same."""
        client = self.client
        kinds = sorted({device.device_kind for device in client.devices})
        # Plugins for processors do not check which instructions an executable uses.
        machine = host_fingerprint() if client.shares_host_memory else ""
        parts = [client.platform_name, client.platform_version, *kinds, machine]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def load(
        self,
        serialized: bytes,
        *,
        device: Device,
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
        donate: tuple[int, ...] = (),
    ) -> Executable:
        """Load the bytes of a serialized executable for a device.

        Raises:
          CompilationFailed: they are damaged, from another version of the plugin, or for other
            devices; or the plugin loads no serialized executables.
        """
        signature = Signature([device], input_types, output_types, donate)
        return load_serialized(self.client, serialized, signature)

    def compile_for(
        self, artifact: Artifact, topology: str, *, donate: tuple[int, ...] = ()
    ) -> AheadOfTimeExecutable | Executable:
        """Compile a lowered program for devices of a topology, which need not be present.

        It is compiled for the devices that it is partitioned over, or else for the first one.

        Args:
          artifact: the program.
          topology: the name of the topology, such as ``"v5e:2x2"``; if empty, the plugin's devices.
          donate: positions of the arguments whose memory a call may reuse.

        Raises:
          ValueError: the plugin knows no such topology.
          UnsupportedOnTarget: the compiler rejects an op.
          OutOfMemory: the program does not fit on the device.
          CompilationError: compilation failed in another way.
        """
        if not topology and self.platform != "tpu":
            return self.compile(artifact, donate=donate)
        plan: Partitions | None = artifact.plan
        with self._known_topology(topology) as name:
            return compile_ahead(
                self.spec,
                name,
                artifact.portable,
                devices=() if plan is None else [number % NUMBERS for number in plan.devices],
                donate=donate,
                flags=self.spec.flags,
            )

    def describe(self, topology: str) -> list[DeviceDescription]:
        """The devices of a topology, which need not be present.

        Args:
          topology: its name, such as ``"v5e:4x4"``.
        Raises:
          ValueError: the plugin knows no such topology.
        """
        with self._known_topology(topology) as name:
            return describe_topology(self.spec, name)

    def described(self, topology: str) -> Sequence[Any]:
        """The described devices of a topology, for meshes and shardings.

        Raises:
          ValueError: the plugin knows no such topology.
        """
        devices: Sequence[Any] = importlib.import_module(_DESCRIBED).described_devices(
            self, topology
        )
        return devices

    @contextmanager
    def _known_topology(self, topology: str) -> Iterator[str]:
        """Yield the plugin's name of a topology; turn its `LookupError` into a `ValueError`."""
        try:
            yield tpu_topology(topology) if self.platform == "tpu" else topology
        except LookupError as error:
            known = f" (for a TPU, such as {_examples()})" if self.platform == "tpu" else ""
            raise ValueError(
                f"the platform {self.platform!r} knows no topology {topology!r}{known}: {error}"
            ) from None

    def put(
        self, array: np.ndarray[Any, Any], device: Device | None = None, *, copy: bool = False
    ) -> buffers.Buffer:
        """Transfer an array to a device; see `Backend.put`."""
        return buffers.put(array, device or self.client.local[0], copy=copy)

    def portable(self, artifact: Artifact, donate: tuple[int, ...] = ()) -> bytes:
        """The portable artifact at the plugin's version, with the donated arguments marked.

        Raises:
          UnsupportedOnTarget: the program has an op that is too new for the plugin.
        """
        return negotiated(self.plugin, artifact.portable, donate)


profiling.instrument(PjrtBackend, "put", profiling.record_put)


def _connected_client(plugin: Plugin, spec: PluginSpec) -> Client:
    """A client that finds the clients of other processes after `gnomon.distributed.initialize`.

    In the options, ``{process}`` is the index of this process, and ``{processes}`` the number of
    processes.
    """
    connection = getattr(platforms.host_engine(), "connection", None)
    index, count = (0, 1) if connection is None else (connection.process_id, connection.count)
    numbers = {"{process}": index, "{processes}": count}
    options = {
        name: numbers.get(value, value) if isinstance(value, str) else value
        for name, value in spec.options.items()
    }
    return Client(plugin, options, connection)


def _identity(client: Client) -> list[str]:
    """The parts of the cache key other than the program."""
    status = Path(client.plugin.path).stat()
    library = f"{client.plugin.path} {status.st_size} {status.st_mtime_ns}"
    kinds = " ".join(f"{d.id}:{d.device_kind}" for d in client.devices)
    # Programs for a CPU are specialized to its features.
    machine = host_fingerprint() if client.shares_host_memory else ""
    return [client.platform_name, client.platform_version, library, kinds, machine]


# --------------------------------------------------------------------------------------------- TPU

# The smallest slice of each generation, and libtpu's name of the generation if it is different.
_GENERATIONS: dict[str, tuple[str, str]] = {
    "v2": ("v2", "2x2"),
    "v3": ("v3", "2x2"),
    "v4": ("v4", "2x2x1"),
    "v5e": ("v5e", "1x1"),
    "v5p": ("v5p", "2x2x1"),
    "v6e": ("v6e", "1x1"),
    "v7x": ("tpu7x", "2x2x1"),
    "7x": ("tpu7x", "2x2x1"),
    "tpu7x": ("tpu7x", "2x2x1"),
}


def tpu_topology(name: str) -> str:
    """The libtpu name of a topology; for a generation without a shape, its smallest slice.

    Example:
      >>> tpu_topology("v5e"), tpu_topology("7x:2x2x1")
      ('v5e:1x1', 'tpu7x:2x2x1')
    """
    generation, separator, slice_ = name.partition(":")
    known, smallest = _GENERATIONS.get(generation, (generation, ""))
    return f"{known}:{slice_ if separator else smallest}"


def _examples() -> str:
    return ", ".join(f"{name}:{s}" for name, (_, s) in _GENERATIONS.items() if name[0] == "v")


# ------------------------------------------------------------------------------------ the registry


@functools.cache
def pjrt_backend(platform: str) -> PjrtBackend:
    """The backend of the TPU, or of a plugin that ``GNOMON_PJRT_PLUGIN`` names.

    Raises:
      BackendUnavailable: no plugin of this name is set.
    """
    specs = {spec.name: spec for spec in parse_plugins(os.environ.get("GNOMON_PJRT_PLUGIN", ""))}
    if platform in specs:
        return PjrtBackend(platform, specs[platform])
    if platform == "tpu":
        return PjrtBackend(platform)
    raise BackendUnavailable(
        f"there is no PJRT plugin named {platform!r}; GNOMON_PJRT_PLUGIN names "
        f"{', '.join(map(repr, specs)) or 'none'} (write name:path)"
    )
