"""jaxlib's CPU client as a backend."""

from __future__ import annotations

import hashlib
import threading
from typing import Any, NamedTuple

import numpy as np

from gnomon.backends import platforms, profiling
from gnomon.backends.compilation import Artifact, Observer
from gnomon.backends.distributed import buffer as buffers
from gnomon.backends.distributed.called_functions import CalledFunctions
from gnomon.backends.distributed.connection import Connection
from gnomon.backends.distributed.device import Device
from gnomon.backends.distributed.executable import Executable
from gnomon.backends.distributed.jaxlib_client import compile_program, jaxlib
from gnomon.backends.distributed.python_calls import (
    PythonCall,
    emit_custom_calls,
    thread_status,
)
from gnomon.backends.errors import (
    BackendUnavailable,
    CompilationFailed,
    OutOfMemory,
    UnsupportedOnTarget,
)
from gnomon.backends.pjrt.lowering import Partitions, devices_of_plan, lower_for_xla
from gnomon.backends.pjrt.negotiation import mark_donated
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ir, stablehlo

__all__ = ["XlaCpuBackend"]

# With XLA's default, the maximum of nan and a number is the number.
_FLAGS = (("xla_cpu_enable_fast_min_max", "False"),)

# A version of StableHLO that all supported versions of jaxlib read: jaxlib does not report its own.
_VERSION = "1.14.0"


class _Plan(NamedTuple):
    """What `XlaCpuBackend.compile` needs besides the StableHLO.

    Attributes:
      partitions: how a program for several devices is partitioned; None if it is for one.
      calls: the program's calls of Python.
    """

    partitions: Partitions | None
    calls: list[PythonCall]


class XlaCpuBackend:
    """The CPU devices of this process, and of the processes that it is connected to.

    Args:
      platform: the name of the platform.
      device_count: the number of devices of this process; by default the configured number for the
        host's platform.
      connection: the connection to the other processes, if there are any.

    Attributes:
      partitions_programs: True: XLA's compiler splits programs over several devices.
    """

    partitions_programs = True

    def __init__(
        self,
        platform: str,
        device_count: int | None = None,
        connection: Connection | None = None,
    ) -> None:
        self.platform = platform
        self._device_count = device_count
        self._connection = connection
        self._client: Any = None
        self._devices: tuple[Device, ...] = ()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"XlaCpuBackend({self.platform!r})"

    @property
    def connection(self) -> Connection | None:
        """The connection to the other processes, if there are any."""
        return self._connection

    @property
    def process_index(self) -> int:
        """The index of this process."""
        return 0 if self._connection is None else self._connection.process_id

    def devices(self) -> tuple[Device, ...]:
        """The devices of all processes; see `Backend.devices`."""
        with self._lock:
            if self._client is None:
                self._start()
            return self._devices

    def _start(self) -> None:
        connection, count = self._connection, self._device_count
        if count is None:
            count = platforms.host_device_count()
        if connection is None:
            self._client = jaxlib().xla.make_cpu_client(num_devices=count)
        else:
            self._client = connection.make_client(count)
        process = self.process_index
        self._devices = tuple(
            Device(handle, self, process, connection)
            for handle in sorted(self._client.devices(), key=lambda d: d.id)
        )

    def lower(
        self, program: Program, *, keep_stages: bool = False, observe: Observer | None = None
    ) -> Artifact:
        """Lower a program; see `Backend.lower`."""
        calls: list[PythonCall] = []

        def find(module: ir.Module) -> None:
            calls.extend(thread_status(module))

        artifact = lower_for_xla(
            program,
            self.platform,
            "cpu",
            keep_stages=keep_stages,
            observe=observe,
            python_calls=(find, emit_custom_calls),
        )
        artifact.plan = _Plan(artifact.plan, calls)
        return artifact

    def compile(
        self, artifact: Artifact, *, device: Any = None, donate: tuple[int, ...] = ()
    ) -> Executable:
        """Compile a lowered program; see `Backend.compile`.

        Raises:
          DistributedError: the program is for the devices of several processes, and they do not
            all compile the same program.
        """
        with profiling.span("compile", program=artifact.name):
            return self._compiled(artifact, device, donate)

    def _compiled(
        self, artifact: Artifact, device: Device | None, donate: tuple[int, ...]
    ) -> Executable:
        plan: Partitions | None
        plan, calls = artifact.plan
        available = self.devices()
        if plan is None:
            devices: tuple[Device, ...] = (
                device or next(d for d in available if d.is_addressable),
            )
            inputs, outputs = artifact.input_types, artifact.output_types
        else:
            devices = devices_of_plan(available, plan, self.platform)
            inputs, outputs = plan.input_types, plan.output_types
        if not any(d.is_addressable for d in devices):
            # Other processes run the program; this one gets arrays without local parts.
            return Executable(None, devices, inputs, outputs, donate, artifact.name, None)
        code = _readable(artifact.portable, donate)
        processes = tuple(sorted({d.process_index for d in devices}))
        if self._connection is not None and len(processes) > 1:
            order = repr([d.id for d in devices])
            digest = hashlib.sha256(code + order.encode()).hexdigest()
            self._connection.agree(artifact.name, digest, processes)
        called = CalledFunctions(calls, self.process_index, len(devices) == 1) if calls else None
        try:
            loaded = compile_program(
                self._client,
                code,
                [d.handle for d in devices],
                _compile_options(devices),
                called.functions if called else (),
            )
        except RuntimeError as error:
            raise _compile_error(error) from error
        return Executable(loaded, devices, inputs, outputs, donate, artifact.name, called)

    def compile_for(self, artifact: Artifact, topology: str, **_: Any) -> Any:
        """Raise, since this backend compiles only for its own devices.

        Raises:
          BackendUnavailable: always.
        """
        raise BackendUnavailable(
            f"the platform {self.platform!r} of jaxlib compiles for its own devices, not for "
            f"{topology!r}"
        )

    def put(
        self, array: np.ndarray[Any, Any], device: Device | None = None, *, copy: bool = False
    ) -> buffers.Buffer:
        """Transfer an array to a device of this process; see `Backend.put`."""
        return buffers.put(
            array, device or next(d for d in self.devices() if d.is_addressable), copy=copy
        )


def _readable(portable: bytes, donate: tuple[int, ...]) -> bytes:
    """The program in a version that jaxlib reads, with the donated arguments marked."""
    module = stablehlo.deserialize_portable_artifact(context(), portable)
    mark_donated(module, donate)
    return bytes(stablehlo.serialize_portable_artifact_str(str(module), _VERSION))


def _compile_options(devices: tuple[Device, ...]) -> Any:
    xla = jaxlib().xla
    options = xla.CompileOptions()
    build = options.executable_build_options
    options.num_replicas = build.num_replicas = 1
    options.num_partitions = build.num_partitions = len(devices)
    build.use_spmd_partitioning = build.use_shardy_partitioner = len(devices) > 1
    ids = np.array([[device.id for device in devices]], np.int32)
    build.device_assignment = xla.DeviceAssignment.create(ids)
    options.env_option_overrides = list(_FLAGS)
    return options


def _compile_error(error: RuntimeError) -> Exception:
    """Convert an error of the compiler."""
    message = str(error)
    if message.startswith("RESOURCE_EXHAUSTED"):
        return OutOfMemory(f"the program does not fit on the device: {message}")
    if message.startswith("UNIMPLEMENTED"):
        return UnsupportedOnTarget(f"XLA's compiler rejected it: {message}")
    return CompilationFailed(f"XLA's compiler failed: {message}", diagnostics=message)
