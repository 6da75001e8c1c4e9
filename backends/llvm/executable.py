"""Programs that LLVM has compiled in this process."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from gnomon._native import FunctionLauncher
from gnomon.backends import profiling
from gnomon.backends.arguments import buffers_of_arguments
from gnomon.backends.compilation import Artifact
from gnomon.backends.interrupts import run_interruptibly
from gnomon.backends.iree.buffer import Buffer
from gnomon.backends.iree.device import Device
from gnomon.backends.kernels.workspace import ALIGNMENT
from gnomon.backends.llvm.engine import Code, bind_functions, call_function, entry_of
from gnomon.backends.llvm.host import HostCalls
from gnomon.backends.llvm.stored import Facts
from gnomon.backends.memory import MemoryAnalysis
from gnomon.dialects.types import TensorType

__all__ = ["Executable"]


class Executable:
    """A program as a function in this process; see `backends.interface.Executable`.

    A call runs in the calling thread, and returns when the results are there. If it may take long,
    another thread runs it for the main thread, so that an interrupt can end the wait.

    Args:
      artifact: the program, for its name and its types.
      code: the compiled program, whose function ``main`` takes the memory of arguments, of results,
        and of intermediate values.
      facts: what else calls need to know of it.
      device: the device of the results, which shares memory with Python.
      donate: positions of the arguments that a call consumes.
      host: the functions of Python that the program calls.
    """

    def __init__(
        self,
        artifact: Artifact,
        code: Code,
        facts: Facts,
        device: Device,
        donate: tuple[int, ...],
        host: HostCalls | None,
    ) -> None:
        self.name = artifact.name
        self.device = device
        self.donate = donate
        self.input_types = _frozen(artifact.input_types)
        self.output_types = _frozen(artifact.output_types)
        self._workspace = facts.workspace
        self._host = host
        self._slow = facts.slow
        self._code = code
        if host is not None:
            bind_functions(code, host.addresses)
        self._address = entry_of(code, "main")
        # Calls may run at the same time, each with a workspace of its own.
        self._idle: list[_Workspace] = []
        self.launcher = self._new_launcher()

    def _new_launcher(self) -> FunctionLauncher | None:
        # Exceptions of functions of Python are raised by Python.
        if self._host is not None or self._slow:
            return None
        what = Buffer, self.device, self.output_types, np.empty
        return FunctionLauncher(*what, self._address, self._workspace, self._code)

    def __call__(self, args: Sequence[np.ndarray[Any, Any] | Buffer]) -> list[Buffer]:
        """Run the program; see `backends.interface.Executable`."""
        return self.run(buffers_of_arguments(args, self.input_types, self.device, Buffer))

    def run(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Run the program without checking the arguments."""
        arrays = [_in_order(buffer.to_numpy()) for buffer in buffers]
        results = [np.empty(shape, dtype) for shape, dtype in self.output_types]
        try:
            workspace = self._idle.pop()
        except IndexError:
            workspace = _Workspace(self._workspace)
        addresses = [*(array.ctypes.data for array in (*arrays, *results)), workspace.start]

        def call() -> None:
            with self._host.raising() if self._host is not None else nullcontext():
                call_function(self._address, addresses)

        if self._slow and threading.current_thread() is threading.main_thread():
            # The call may outlive an interrupt.
            run_interruptibly(functools.partial(_calling, call, (self, arrays, results, workspace)))
        else:
            call()
        if self._workspace <= _KEPT_WORKSPACE_BYTES:
            self._idle.append(workspace)
        for index in self.donate:
            buffers[index].delete("it was donated to a call")
        return [Buffer(result.shape, result.dtype, self.device, array=result) for result in results]

    def memory_analysis(self) -> MemoryAnalysis:
        """The memory that the program needs."""
        arguments, results = (
            sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in types)
            for types in (self.input_types, self.output_types)
        )
        return MemoryAnalysis(
            generated_code_size_in_bytes=getattr(self._code, "nbytes", 0),
            argument_size_in_bytes=arguments,
            output_size_in_bytes=results,
            alias_size_in_bytes=0,
            temp_size_in_bytes=self._workspace,
            peak_memory_in_bytes=arguments + results + self._workspace,
        )

    def __repr__(self) -> str:
        return (
            f"Executable({len(self.input_types)} arguments, {len(self.output_types)} results, "
            f"llvm, device={self.device!r})"
        )


# A larger workspace is freed after the call.
_KEPT_WORKSPACE_BYTES = 16 << 20


def _calling(call: Callable[[], None], _keep_alive: object) -> None:
    call()


def _frozen(types: Sequence[TensorType]) -> tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]:
    return tuple((tuple(type_.shape), np.dtype(type_.dtype)) for type_ in types)


class _Workspace:
    """The memory for the intermediate values of a call, from an aligned address on."""

    __slots__ = ("_memory", "start")

    def __init__(self, nbytes: int) -> None:
        self._memory = np.empty(nbytes + ALIGNMENT, np.uint8)
        address = self._memory.ctypes.data
        self.start = address + -address % ALIGNMENT


def _in_order(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array, or a copy: loops read elements in order, at multiples of their size."""
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")


def _record_run(recorder: profiling.Recorder, run: Any) -> Any:
    """A `run` that records the call."""

    def recording(self: Executable, buffers: Sequence[Buffer]) -> list[Buffer]:
        started = recorder.now()
        outputs: list[Buffer] = run(self, buffers)
        recorder.add(f"call {self.name}", profiling.HOST, started, {"device": str(self.device)})
        return outputs

    return recording


profiling.instrument(Executable, "run", _record_run)
