"""Devices that are described by a topology and need not be present.

Meshes and shardings take them in place of real devices, so that a program can be compiled ahead of
time for all of them. They hold no arrays and run nothing.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NoReturn

import numpy as np

from gnomon.backends.compilation import Artifact, Observer
from gnomon.backends.errors import BackendUnavailable
from gnomon.backends.pjrt.ahead_of_time import AheadOfTimeExecutable, DeviceDescription
from gnomon.backends.pjrt.backend import PjrtBackend
from gnomon.backends.pjrt.executable import Executable
from gnomon.backends.shards import NUMBERS
from gnomon.dialects.functions import Program

__all__ = ["DescribedBackend", "DescribedDevice", "described_devices"]


# Counts topologies from 1: the host's devices have the numbers below `NUMBERS`, and those of other
# platforms have much higher multiples of it.
_counts = itertools.count(1)


class DescribedDevice:
    """A device of a topology.

    Attributes:
      id: the plugin's number of the device.
      process_index: the index of the process to which it would belong.
      number: the number by which programs name it, different from that of any other device.
      device_kind: the plugin's name of the model.
      coords: its coordinates in the topology; empty if the plugin reports none.
      backend: the backend that compiles programs for it.
      memory_kinds: empty, since it has no memory.
    """

    __slots__ = (
        "__weakref__",
        "backend",
        "coords",
        "device_kind",
        "id",
        "memory_kinds",
        "number",
        "process_index",
    )

    def __init__(self, description: DeviceDescription, backend: DescribedBackend) -> None:
        self.id = description.id
        self.number = backend.first_number + description.id
        self.process_index = description.process_index
        self.device_kind = description.device_kind
        self.coords = description.coords
        self.backend = backend
        self.memory_kinds: tuple[str, ...] = ()

    @property
    def platform(self) -> str:
        """The name of the platform."""
        return self.backend.platform

    def memory_stats(self) -> None:
        """Return None, since there is no memory."""

    def __repr__(self) -> str:
        place = f", coords={self.coords}" if self.coords else ""
        return f"DescribedDevice({self.backend.target!r}, id={self.id}{place})"


class DescribedBackend:
    """The devices of a topology, and compilation for them.

    Args:
      compiler: the backend of the platform.
      topology: the name of the topology, such as ``"v5e:4x4"``.

    Attributes:
      platform: the name of the platform.
      is_described: True; backends of present devices lack the attribute.
      target: the topology as a target of `Lowered.compile`: ``"tpu:v5e:4x4"``.
      first_number: the number by which programs name the device with the id zero.
    """

    is_described = True

    def __init__(self, compiler: PjrtBackend, topology: str) -> None:
        self._compiler = compiler
        self._topology = topology
        self.platform = compiler.platform
        self.target = f"{compiler.platform}:{topology}"
        self.first_number = next(_counts) * NUMBERS
        descriptions = compiler.describe(topology)
        self._devices = tuple(DescribedDevice(d, self) for d in descriptions)

    def devices(self) -> tuple[DescribedDevice, ...]:
        """The devices of the topology."""
        return self._devices

    def lower(
        self, program: Program, *, keep_stages: bool = False, observe: Observer | None = None
    ) -> Artifact:
        """Lower a program; see `Backend.lower`."""
        return self._compiler.lower(program, keep_stages=keep_stages, observe=observe)

    def compile(
        self, artifact: Artifact, *, device: Any = None, donate: tuple[int, ...] = ()
    ) -> AheadOfTimeExecutable | Executable:
        """Compile a program for the devices that it is partitioned over, or for the first one."""
        return self._compiler.compile_for(artifact, self._topology, donate=donate)

    def compile_for(
        self, artifact: Artifact, topology: str, *, donate: tuple[int, ...] = ()
    ) -> AheadOfTimeExecutable | Executable:
        """Compile a program for another topology of the platform."""
        return self._compiler.compile_for(artifact, topology, donate=donate)

    def put(
        self, array: np.ndarray[Any, Any], device: Any = None, *, copy: bool = False
    ) -> NoReturn:
        """Raise, since described devices hold no arrays.

        Raises:
          BackendUnavailable: always.
        """
        raise BackendUnavailable(
            f"the devices of {self.target!r} are only described, so they cannot hold arrays. "
            "Lower functions for gnomon.ShapeDtypeStruct with a sharding instead"
        )


@functools.cache
def described_devices(compiler: PjrtBackend, topology: str) -> tuple[DescribedDevice, ...]:
    """The devices of a topology, always the same objects; see `PjrtBackend.describe`."""
    return DescribedBackend(compiler, topology).devices()
