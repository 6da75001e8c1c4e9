"""Executables: programs compiled by a plugin, for present devices and for topologies."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.backends import profiling
from gnomon.backends.arguments import buffers_of_arguments
from gnomon.backends.errors import CompilationFailed
from gnomon.backends.memory import MemoryAnalysis
from gnomon.backends.pjrt.buffer import Buffer, Memory, execution_error, result_buffer
from gnomon.backends.pjrt.c_api import STRUCTS, Api, address_of, text_at
from gnomon.backends.pjrt.client import Client, Device
from gnomon.backends.pjrt.hlo_text import hlo_text
from gnomon.dialects.types import TensorType

__all__ = ["Executable", "Inspected", "Signature"]


@dataclass(frozen=True)
class Signature:
    """The devices, the arguments and the results of a program.

    Attributes:
      devices: the devices that run it: one for each replica and partition, in replica-major order.
      input_types, output_types: the types of arguments and results on each device.
      donate: positions of the arguments whose buffers a call consumes.
    """

    devices: Sequence[Device]
    input_types: Sequence[TensorType]
    output_types: Sequence[TensorType]
    donate: tuple[int, ...] = ()


class Inspected:
    """A plugin's information about a compiled program.

    Attributes:
      api: the plugin's functions.
      program: the handle of the program, which is not tied to a device.
    """

    api: Api
    program: int

    def serialize(self) -> bytes:
        """The program as bytes, which a plugin of the same version can load."""
        made = self.api.call("Executable_Serialize", executable=self.program)
        try:
            return ctypes.string_at(made.bytes, made.bytes_size)
        finally:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(made.deleter)(made.serialized)

    def memory_analysis(self) -> MemoryAnalysis:
        """The memory that the program needs."""
        stats = self.api.call("Executable_GetCompiledMemoryStats", executable=self.program)
        names = MemoryAnalysis.__dataclass_fields__
        return MemoryAnalysis(**{name: getattr(stats, name) for name in names})

    def cost_analysis(self) -> dict[str, Any]:
        """The compiler's estimates: ``flops``, ``bytes accessed`` and others."""
        cost = self.api.call("Executable_GetCostAnalysis", executable=self.program)
        return self.api.named_values(cost.properties, cost.num_properties)

    def optimized_program(self) -> tuple[str, bytes]:
        """The format and the content of the optimized program."""
        struct = STRUCTS["Program"]
        program = struct()
        program.struct_size = struct.size
        fields = {"executable": self.program, "program": address_of(program)}
        # The first call returns the size, the second fills the memory.
        self.api.call("Executable_OptimizedProgram", **fields)
        code = ctypes.create_string_buffer(program.code_size)
        program.code = address_of(code)
        self.api.call("Executable_OptimizedProgram", **fields)
        kind = ctypes.cast(ctypes.addressof(program) + struct.format.offset, _POINTERS)[0]
        return text_at(kind, program.format_size), code.raw

    def as_text(self) -> str:
        """The optimized HLO of the program."""
        kind, code = self.optimized_program()
        return code.decode(errors="replace") if kind == "mlir" else hlo_text(kind, code)


_POINTERS = ctypes.POINTER(ctypes.c_void_p)


class _Call:
    """The C structs for a call of a program, reused by later calls."""

    __slots__ = ("address", "arguments", "ends", "execute", "kept", "options", "outputs")

    def __init__(self, executable: Executable) -> None:
        devices = len(executable.local)
        arity, count = len(executable.input_types), len(executable.output_types)
        pointers = ctypes.c_void_p
        self.arguments = [(pointers * max(arity, 1))() for _ in range(devices)]
        self.outputs = [(pointers * max(count, 1))() for _ in range(devices)]
        inputs = (pointers * devices)(*map(address_of, self.arguments))
        results = (pointers * devices)(*map(address_of, self.outputs))
        struct = STRUCTS["ExecuteOptions"]
        self.options = struct()
        self.options.struct_size = struct.size
        # Where NumPy arrays may keep the client until the process ends, see `Client.close`.
        self.ends = (pointers * devices)() if executable.client.shares_host_memory else None
        struct = STRUCTS["LoadedExecutable_Execute"]
        self.execute = struct(
            executable=executable.loaded,
            options=address_of(self.options),
            argument_lists=address_of(inputs),
            num_devices=devices,
            num_args=arity,
            output_lists=address_of(results),
            device_complete_events=None if self.ends is None else address_of(self.ends),
        )
        self.execute.struct_size = struct.size
        self.kept = (inputs, results)
        self.address = address_of(self.execute)


class Executable(Inspected):
    """A compiled program, loaded on devices of a client.

    Args:
      client: the client.
      loaded: the plugin's handle.
      signature: its devices, arguments and results.

    Attributes:
      local: the devices that belong to this process.
      device: the first of these.
      name: the name of the program in profiles.
    """

    def __init__(self, client: Client, loaded: int, signature: Signature) -> None:
        self.name = "main"
        self.client = client
        self.api = client.api
        self.loaded = client.adopt(loaded, "LoadedExecutable_Destroy")
        self.devices = tuple(signature.devices)
        self.local = tuple(device for device in self.devices if device.is_addressable)
        self.device = self.local[0]
        self.input_types = tuple((tuple(t.shape), np.dtype(t.dtype)) for t in signature.input_types)
        self.output_types = tuple(
            (tuple(t.shape), np.dtype(t.dtype)) for t in signature.output_types
        )
        self.donate = signature.donate
        self._execute = self.api.function("LoadedExecutable_Execute")
        self._idle: list[_Call] = []
        handle = self.api.call("LoadedExecutable_GetExecutable", loaded=loaded).executable
        self.program = client.adopt(handle, "Executable_Destroy")
        count = self.api.call("Executable_NumOutputs", executable=handle).num_outputs
        if count != len(self.output_types):
            raise CompilationFailed(
                f"the compiled program has {count} results, expected {len(self.output_types)}"
            )

    def __del__(self) -> None:
        client = self.client
        client.release(self.program)
        client.release(self.loaded)

    def __call__(self, args: Sequence[np.ndarray[Any, Any] | Buffer]) -> list[Buffer]:
        """Starts the program.

        Args:
          args: NumPy arrays or buffers of exactly the declared shapes and dtypes. NumPy arrays may
            be modified after the call has returned.

        Returns:
          The results, which may not have been computed yet.

        Raises:
          TypeError: the number of arguments, a shape, a dtype or a device is not the declared one.
          BufferDeletedError: an argument was deleted or donated before.
          ExecutionError: the program failed to start.
        """
        return self.run(buffers_of_arguments(args, self.input_types, self.device, Buffer))

    def run(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Starts the program like a call, without checking the arguments.

        Args:
          buffers: buffers of the declared shapes and dtypes.
        """
        return self._run([buffers])[0]

    def run_on_all(self, buffers: Sequence[Sequence[Buffer]]) -> list[list[Buffer]]:
        """Starts the program on all its devices, as collectives require.

        Args:
          buffers: the arguments on each device of this process, in the order of ``local``.

        Returns:
          The results on each device.
        """
        if len(buffers) != len(self.local):
            raise TypeError(
                f"the program runs on {len(self.local)} devices, got arguments for {len(buffers)}"
            )
        return self._run(buffers)

    def _run(self, buffers: Sequence[Sequence[Buffer]]) -> list[list[Buffer]]:
        client = self.client
        if not client.usable:
            client.check_alive()
        try:
            call = self._idle.pop()
        except IndexError:
            call = _Call(self)
        for given, arguments in zip(buffers, call.arguments, strict=True):
            for index, buffer in enumerate(given):
                memory = buffer._memory
                # The property raises an error that states what happened to the buffer.
                arguments[index] = (memory or buffer.memory).handle
        if self.donate:
            kept = self._not_to_be_donated(buffers)
            call.options.non_donatable = address_of(kept)
            call.options.num_non_donatable = len(kept)
        error = self._execute(call.address)
        if error:
            raise execution_error(self.api.error(error), "the program failed to start")
        results = [
            [
                result_buffer(shape, dtype, device, Memory(client, handle))
                for (shape, dtype), handle in zip(self.output_types, outputs, strict=False)
            ]
            for device, outputs in zip(self.local, call.outputs, strict=True)
        ]
        if call.ends is not None:
            client.await_at_close(call.ends)
        self._idle.append(call)
        for given in buffers:
            for index in self.donate:
                given[index].delete("it was donated to a call")
        return results

    def _not_to_be_donated(self, buffers: Sequence[Sequence[Buffer]]) -> Any:
        """The donated arguments that the program must copy.

        NumPy arrays view their memory, or it is passed for several arguments.
        """
        for given in buffers:
            for index in self.donate:
                # A view that only the buffer itself caches does not require a copy.
                given[index]._host = None
        kept = {
            index
            for given in buffers
            for index in self.donate
            if given[index].memory.is_shared
            or sum(other._memory is given[index]._memory for other in given) > 1
        }
        return (ctypes.c_int64 * len(kept))(*sorted(kept))

    def __repr__(self) -> str:
        return (
            f"Executable({len(self.input_types)} arguments, {len(self.output_types)} results, "
            f"devices={list(self.devices)!r})"
        )


_WAIT = Buffer.wait  # the original method, not the one that profiling wraps


def _record_run(recorder: profiling.Recorder, run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `_run` to record the call, and the run on each device until it finishes there."""

    def recording(self: Executable, buffers: Sequence[Sequence[Buffer]]) -> list[list[Buffer]]:
        started = recorder.now()
        outputs: list[list[Buffer]] = run(self, buffers)
        recorder.add(f"call {self.name}", profiling.HOST, started, {"device": str(self.device)})
        for device, results in zip(self.local, outputs, strict=True):
            if results:
                done = functools.partial(_WAIT, results[0])
                recorder.add_when_done(self.name, started, device.id, {}, done)
        return outputs

    return recording


profiling.instrument(Executable, "_run", _record_run)
