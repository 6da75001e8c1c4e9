"""A platform of the tests: devices that compute with the NumPy evaluator, and count what they do.

It is a minimal implementation of `gnomon.backends.interface`. Its memory is separate from the
host's: values are copied in and out. Tests can make it fail in the ways in which real devices fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gnomon.backends import platforms
from gnomon.backends.compilation import Artifact, Lowering, Observer
from gnomon.backends.errors import (
    BackendUnavailable,
    BufferDeletedError,
    ExecutionError,
    OutOfMemory,
    UnsupportedOnTarget,
)
from gnomon.backends.reference import Evaluator
from gnomon.dialects.functions import Program


@dataclass(eq=False)
class Device:
    """A device with a given number of bytes of memory."""

    id: int
    backend: NumpyBackend
    limit: int
    process_index: int = 0
    in_use: int = 0
    lost: bool = False

    @property
    def platform(self) -> str:
        return self.backend.platform

    @property
    def device_kind(self) -> str:
        return "NumPy"

    def memory_stats(self) -> dict[str, int] | None:
        return {"bytes_in_use": self.in_use, "bytes_limit": self.limit}

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def allocate(self, nbytes: int) -> None:
        if self.lost:
            raise ExecutionError(f"{self!r} was lost")
        if self.in_use + nbytes > self.limit:
            raise OutOfMemory(
                f"{self!r} has no room for {nbytes} bytes: {self.in_use} of {self.limit} in use"
            )
        self.in_use += nbytes


class Buffer:
    """An array in the memory of a device."""

    def __init__(self, array: np.ndarray[Any, Any], device: Device) -> None:
        self._array: np.ndarray[Any, Any] | None = None
        self._reason = ""
        self.device = device
        self.shape, self.dtype, self.nbytes = array.shape, array.dtype, array.nbytes
        device.allocate(array.nbytes)
        self._array = array.copy()

    @property
    def array(self) -> np.ndarray[Any, Any]:
        if self._array is None:
            raise BufferDeletedError(f"the buffer was used after {self._reason}")
        if self.device.lost:
            raise ExecutionError(f"{self.device!r} was lost, and this value with it")
        return self._array

    def to_numpy(self) -> np.ndarray[Any, Any]:
        self.device.backend.counts.read += 1
        value = self.array.copy()
        value.flags.writeable = False
        return value

    def wait(self) -> None:
        _ = self.array

    def is_ready(self) -> bool:
        return True

    def delete(self, reason: str = "delete()") -> None:
        if self._array is not None:
            self._array, self._reason = None, reason
            self.device.in_use -= self.nbytes

    def __del__(self) -> None:
        self.delete()

    def is_deleted(self) -> bool:
        return self._array is None

    def is_lost(self) -> bool:
        return self.device.lost

    def copy_to_host_async(self) -> None:
        pass


class Executable:
    """A program and the evaluator that runs it."""

    def __init__(self, artifact: Artifact, device: Device, donate: tuple[int, ...]) -> None:
        self._run = Evaluator(artifact.plan)
        self.device = device
        self.donate = donate
        self.input_types = [(t.shape, t.dtype) for t in artifact.input_types]
        self.output_types = [(t.shape, t.dtype) for t in artifact.output_types]

    def run(self, buffers: Sequence[Any]) -> list[Buffer]:
        self.device.backend.counts.run += 1
        given = [(b.shape, b.dtype) for b in buffers]
        assert given == self.input_types, (given, self.input_types)
        assert all(b.device is self.device for b in buffers)
        results = self._run("main", *[b.array for b in buffers])
        for i in self.donate:
            buffers[i].delete("it was donated")
        return [Buffer(np.asarray(r), self.device) for r in results]

    def __call__(self, args: Sequence[Any]) -> list[Buffer]:
        return self.run(
            [a if isinstance(a, Buffer) else self.device.backend.put(a, self.device) for a in args]
        )


@dataclass
class Counts:
    """The requests that a backend got."""

    compiled: int = 0
    run: int = 0
    put: int = 0
    read: int = 0


@dataclass
class NumpyBackend:
    """A platform of several devices."""

    platform: str
    device_count: int = 2
    limit: int = 1 << 20
    missing: str = ""
    refused: frozenset[str] = frozenset()
    counts: Counts = field(default_factory=Counts)
    _devices: tuple[Device, ...] = ()

    def devices(self) -> tuple[Device, ...]:
        if self.missing:
            raise BackendUnavailable(self.missing)
        if not self._devices:
            self._devices = tuple(Device(i, self, self.limit) for i in range(self.device_count))
        return self._devices

    def lower(
        self, program: Program, *, keep_stages: bool = False, observe: Observer | None = None
    ) -> Artifact:
        lowering = Lowering(program, keep_stages=keep_stages, observe=observe)
        lowering.expand()
        text = str(lowering.module)
        for name in sorted(self.refused):
            if f'"gnomon.{name}"' in text:
                raise UnsupportedOnTarget(f"{self.platform} has no form of {name}")
        plan = Program(type(lowering.module).parse(text, lowering.module.context))
        lowering.to_stablehlo()
        return lowering.artifact(plan=plan)

    def compile(
        self, artifact: Artifact, *, device: Any = None, donate: tuple[int, ...] = ()
    ) -> Executable:
        self.counts.compiled += 1
        return Executable(artifact, device or self.devices()[0], donate)

    def put(self, array: np.ndarray[Any, Any], device: Any = None, *, copy: bool = False) -> Buffer:
        self.counts.put += 1
        return Buffer(array, device or self.devices()[0])


@contextmanager
def registered(name: str, **options: Any) -> Iterator[NumpyBackend]:
    """A context in which the platform is registered."""
    backend = NumpyBackend(name, **options)
    platforms.register(name, lambda _: backend)
    try:
        yield backend
    finally:
        platforms.unregister(name)
