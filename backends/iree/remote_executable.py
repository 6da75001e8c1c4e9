"""Programs on devices with separate memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import iree.runtime as rt
import numpy as np

from gnomon.backends.errors import OutOfMemory
from gnomon.backends.iree.buffer import Buffer, Pending
from gnomon.backends.iree.driver import DriverState
from gnomon.backends.iree.executable import Executable
from gnomon.backends.iree.remote import RemoteBuffer, put

__all__ = ["RemoteExecutable"]

# The most programs and copies that wait for a device. Each holds memory until it has ended.
_RUN_AHEAD = 64


class RemoteExecutable(Executable):
    """A program that runs on a device with separate memory.

    A call returns when the program is queued, unless Python runs a part of it. NumPy arguments are
    copied to the device first, and the program waits for the copies there.
    """

    def run(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Start the program without checking the arguments.

        Args:
          buffers: the arguments, of the declared number, shapes and dtypes.

        Raises:
          OutOfMemory: it needs more memory than is free after everything before it has ended.
        """
        state = self._load().state
        state.activate()
        state.in_flight.throttle(_RUN_AHEAD)
        try:
            return super().run(buffers)
        except OutOfMemory:
            if self._loaded.host is not None:
                # A second attempt would call its Python functions again.
                raise
        # Outside the handler, since the traceback keeps the buffers of the first attempt alive.
        state.free_memory()
        return super().run(buffers)

    def _given(self, array: np.ndarray[Any, Any]) -> Buffer:
        return put(array, self.device, self._load().state)

    def _without_value(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], cause: Pending | None
    ) -> Buffer:
        return RemoteBuffer(shape, dtype, self.device, self._loaded.state, pending=cause)

    def _wrap(
        self, results: Any, pending: Pending | None, may_alias: bool, state: DriverState
    ) -> list[Buffer]:
        # A result may share the memory of an argument, since both are immutable.
        get = results.get_as_object
        return [
            RemoteBuffer(
                shape,
                dtype,
                self.device,
                state,
                view=get(index, rt.HalBufferView),
                pending=pending,
            )
            for index, (shape, dtype) in enumerate(self.output_types)
        ]
