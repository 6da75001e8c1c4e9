"""What the frontend asks of a backend: the only things that it knows of one.

IREE's backends (`backends/iree`) and PJRT's (`backends/pjrt`) have this face; `platforms` finds
them by name. Whatever goes wrong is raised as an error of `backends.errors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gnomon.backends.compilation import Artifact, Observer
from gnomon.dialects.functions import Program

__all__ = ["Backend", "Buffer", "Device", "Executable"]


@runtime_checkable
class Device(Protocol):
    """A place where arrays live and programs run; one object for each, compared by identity."""

    @property
    def id(self) -> int:
        """Its number among the devices of its platform."""

    @property
    def platform(self) -> str:
        """``"cpu"``, ``"cuda"``, ``"vulkan"``, ``"tpu"``, ..."""

    @property
    def device_kind(self) -> str:
        """The model, as the driver names it."""

    @property
    def process_index(self) -> int:
        """The process that it belongs to."""

    @property
    def backend(self) -> Backend:
        """Whose device it is."""

    def __hash__(self) -> int:
        """By identity."""

    def memory_stats(self) -> dict[str, int] | None:
        """Figures such as ``bytes_in_use`` and ``bytes_limit``; None where there are none."""


class Buffer(Protocol):
    """An array on a device, perhaps not computed yet."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""

    @property
    def device(self) -> Any:
        """Where it is: a `Device`."""

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Wait for the value; a read-only array, without a copy where memory is shared."""

    def wait(self) -> None:
        """Wait for the value; raises what went wrong with it."""

    def is_ready(self) -> bool:
        """Whether reading the value would not wait for its computation."""

    def delete(self, reason: str = ...) -> None:
        """Free the memory; any later use raises, and says why."""

    def is_deleted(self) -> bool:
        """Whether it was deleted or donated."""

    def is_lost(self) -> bool:
        """Whether its device went away, to another process or for ever, with the value on it."""

    def copy_to_host_async(self) -> None:
        """Start to bring the value to the host, so that `to_numpy` waits less."""


class Executable(Protocol):
    """A compiled program, loaded on a device.

    It may have more: ``serialize() -> bytes``, ``memory_analysis()``, ``cost_analysis()``,
    ``as_text()``.
    """

    @property
    def input_types(self) -> Sequence[tuple[tuple[int, ...], Any]]:
        """Shape and dtype of each argument."""

    @property
    def output_types(self) -> Sequence[tuple[tuple[int, ...], Any]]:
        """Shape and dtype of each result."""

    def run(self, buffers: Sequence[Any]) -> Sequence[Any]:
        """Run or start the program on buffers of just its types and device: nothing is checked."""

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run or start the program on buffers or NumPy arrays, whose types are checked."""


class Backend(Protocol):
    """One platform: its devices, and the way from a program to something that runs on them."""

    @property
    def platform(self) -> str:
        """Its name."""

    def devices(self) -> Sequence[Any]:
        """Its devices, at least one and always the same objects; starts the driver.

        Raises:
          BackendUnavailable: what was looked for, and what to install.
        """

    def lower(
        self, program: Program, *, keep_stages: bool = ..., observe: Observer | None = ...
    ) -> Artifact:
        """Lower a program whose public function is ``main``; the module is consumed.

        Raises:
          UnsupportedOnTarget: the platform has no form of something in it.
        """

    def compile(
        self, artifact: Artifact, *, device: Any = ..., donate: tuple[int, ...] = ...
    ) -> Executable:
        """Compile a program that this backend lowered.

        Args:
          artifact: the program.
          device: where it will run; the first device by default.
          donate: arguments whose memory a call takes over.

        Raises:
          CompilationError: the compiler refused it, crashed, or is not there.
        """

    def put(self, array: np.ndarray[Any, Any], device: Any = ..., *, copy: bool = ...) -> Any:
        """A `Buffer` of an array, which nobody writes to from now on unless ``copy``.

        Raises:
          OutOfMemory: the device has no room for it.
        """
