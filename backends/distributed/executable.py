"""Programs that jaxlib has compiled, for one device or for several, of one or more processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.backends.arguments import buffers_of_arguments
from gnomon.backends.distributed.buffer import Buffer
from gnomon.backends.distributed.called_functions import CalledFunctions
from gnomon.backends.distributed.device import Device
from gnomon.backends.distributed.jaxlib_client import assemble_argument, execution_error
from gnomon.backends.distributed.python_calls import STATUS
from gnomon.backends.errors import DistributedError
from gnomon.dialects.types import TensorType

__all__ = ["Executable"]


class Executable:
    """A compiled program.

    Args:
      loaded: jaxlib's executable; None if no device belongs to this process, which then takes no
        part in the program.
      devices: the devices of all processes that run it, in the order of the mesh.
      input_types, output_types: the types of arguments and results on each device.
      donate: positions of the arguments whose buffers a call consumes.
      name: the name of the program in messages and profiles.
      called: the Python functions that it calls, if any; the program then returns its status after
        its other results, and a call waits for it.

    Attributes:
      local: the devices that belong to this process.
      device: the first device in ``local``, or None.
    """

    def __init__(
        self,
        loaded: Any,
        devices: Sequence[Device],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
        donate: tuple[int, ...],
        name: str,
        called: CalledFunctions | None,
    ) -> None:
        self.name = name
        self._loaded = loaded
        self._called = called
        self.devices = tuple(devices)
        self.local = tuple(device for device in devices if device.is_addressable)
        self.device: Any = self.local[0] if self.local else None
        self.input_types = tuple((tuple(t.shape), np.dtype(t.dtype)) for t in input_types)
        self.output_types = tuple((tuple(t.shape), np.dtype(t.dtype)) for t in output_types)
        self.donate = donate
        self._handles = tuple(device.handle for device in devices)

    def __call__(self, args: Sequence[np.ndarray[Any, Any] | Buffer]) -> list[Buffer]:
        """Start a program that is for one device.

        Raises:
          TypeError: the number of arguments, a shape, a dtype or a device is not the declared one.
        """
        return self.run(buffers_of_arguments(args, self.input_types, self.device, Buffer))

    def run(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Start a program that is for one device, without checks."""
        return self.run_on_all([buffers])[0]

    def run_on_all(self, buffers: Sequence[Sequence[Buffer]]) -> list[list[Buffer]]:
        """Start the program on all its devices in this process.

        Args:
          buffers: for each device in ``local``, the parts of the arguments.

        Returns:
          For each device in ``local``, the parts of the results.

        Raises:
          TypeError: ``buffers`` are for another number of devices.
          ExecutionError: the program failed to start.
          DistributedError: another process is gone.
          BaseException: a Python function that the program calls raised it.
        """
        if len(buffers) != len(self.local):
            raise TypeError(
                f"the program runs on {len(self.local)} devices of this process, got arguments for "
                f"{len(buffers)}"
            )
        if not self.local:
            return []
        is_sharded = len(self.devices) > 1
        world = self.device.world if is_sharded else None
        arguments = [
            assemble_argument(shape, dtype, self._handles, [parts[i].array for parts in buffers])
            if is_sharded
            else buffers[0][i].array
            for i, (shape, dtype) in enumerate(self.input_types)
        ]

        def start() -> Any:
            started = self._loaded.execute_sharded(arguments)
            return started.disassemble_into_single_device_arrays()

        try:
            # The call itself may wait for the other processes.
            outputs = start() if world is None else world.call(start)
        except DistributedError:
            raise
        except RuntimeError as error:
            raise execution_error(error, f"the program {self.name} failed to start") from error
        for parts in buffers:
            for index in self.donate:
                parts[index].delete("it was donated to a call")
        if self._called is not None:
            *outputs, statuses = outputs
            self._called.check(self._status(statuses))
        return [
            [
                Buffer(parts[position], shape, dtype, device)
                for parts, (shape, dtype) in zip(outputs, self.output_types, strict=True)
            ]
            for position, device in enumerate(self.local)
        ]

    def _status(self, parts: Sequence[Any]) -> int:
        """Wait for all devices of this process; return the status of the calls of Python."""
        values = [
            int(Buffer(part, STATUS.shape, STATUS.dtype, device).to_numpy())
            for part, device in zip(parts, self.local, strict=True)
        ]
        return values[0]

    def as_text(self) -> str:
        """The optimized HLO of the program."""
        return "\n".join(module.to_string() for module in self._loaded.hlo_modules())

    def cost_analysis(self) -> dict[str, Any]:
        """The compiler's estimates: ``flops``, ``bytes accessed`` and others."""
        return dict(self._loaded.cost_analysis())

    def memory_analysis(self) -> Any:
        """The memory that the program needs on each device."""
        return self._loaded.get_compiled_memory_stats()

    def __repr__(self) -> str:
        return (
            f"Executable({len(self.input_types)} arguments, {len(self.output_types)} results, "
            f"devices={list(self.devices)!r})"
        )
