"""Executables: compiled programs, loaded, and called with as little overhead as possible."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import iree.runtime as rt
import numpy as np

from gnomon._native import IreeLauncher
from gnomon.backends import profiling
from gnomon.backends.iree.buffer import (
    IMPORTED_USAGE_BIT,
    Buffer,
    Pending,
    execution_error,
    import_array,
    result_buffer,
)
from gnomon.backends.iree.device import Device, DriverState, cpu_device, runtime_generation
from gnomon.backends.iree.inside.runtime import invoke_context, pack_arguments
from gnomon.backends.iree.loaded import LoadedProgram
from gnomon.backends.iree.waiting import wait_for
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.deferred import Deferred
from gnomon.dialects.types import TensorType

if TYPE_CHECKING:
    from gnomon.backends.iree import memory_analysis as analysis
    from gnomon.backends.memory import MemoryAnalysis
else:
    analysis = Deferred("gnomon.backends.iree.memory_analysis")

__all__ = ["ArrayType", "Executable"]

# The most calls in flight on the thread pool, and the most memory that they may allocate, which
# they do at the time of the call; a call of unknown memory counts as half of it. Two calls are as
# fast as more: in chains of arrays of 100 kB, a call takes 19 us with 2, 32 or more in flight. With
# 8 MB it takes 3 ms with up to 8 in flight, but 5 ms with 32, which exceed the caches.
_RUN_AHEAD = 32
_RUN_AHEAD_BYTES = 64 << 20
# A list of results no larger than this is kept for the next call, and their memory with it.
_KEPT_RESULTS_BYTES = 4096

_VariantList = rt.VmVariantList
_BufferView = rt.HalBufferView


class ArrayType(Protocol):
    """Anything with a shape and a dtype."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its dimensions."""

    @property
    def dtype(self) -> Any:
        """Any value that NumPy accepts as a dtype."""


class Executable:
    """A compiled program, ready to be called.

    Attributes:
      launcher: makes common calls without Python code; None if the program has no such calls.

    Args:
      vmfb: the executable, as `compile_artifact` returns it.
      name: the program's name in profiles.
      input_types: the shape and dtype of each argument.
      output_types: the shape and dtype of each result.
      device: the device that runs it; the CPU by default.
      execution_model: the execution model for which it was compiled.
      donate: positions of arguments whose buffers a call consumes.
      callbacks: the Python functions that the program calls, in the order of their numbers.
      slow: whether the first call may take long.
      unbounded: whether any call may take long, even if earlier ones did not.

    Raises:
      ExecutionError: the executable is damaged, or was made for another machine.
    """

    def __init__(
        self,
        vmfb: bytes,
        *,
        name: str = "main",
        input_types: Sequence[ArrayType],
        output_types: Sequence[ArrayType],
        device: Device | None = None,
        execution_model: str = "sync",
        donate: tuple[int, ...] = (),
        callbacks: tuple[Callback, ...] = (),
        slow: bool = False,
        unbounded: bool = False,
    ) -> None:
        self.name = name
        self.device = device or cpu_device()
        self.execution_model = execution_model
        self.input_types = _freeze(input_types)
        self.output_types = _freeze(output_types)
        self.donate = donate
        if not all(0 <= index < len(self.input_types) for index in donate):
            raise ValueError(f"donate={donate} names arguments that do not exist")
        self._vmfb = vmfb
        self._asynchronous = execution_model == "async"
        self._arity = len(self.input_types)
        self._callbacks = callbacks
        self._slow, self._unbounded = slow, unbounded
        self.launcher = self._new_launcher()
        self._use(self._reload())
        self._footprint = self._footprint_of(self._loaded)
        # A Python function that a program calls may call the program again, in this thread or in
        # another one, so each running call of such a program has its own context.
        self._idle = [self._loaded]

    def __call__(self, args: Sequence[np.ndarray[Any, Any] | Buffer]) -> list[Buffer]:
        """Run the program, or start it if it was compiled as an asynchronous one.

        Args:
          args: NumPy arrays or buffers of exactly the declared shapes and dtypes. NumPy arrays
            may be changed when the call has returned; arrays that buffers use may not.

        Returns:
          The results.

        Raises:
          TypeError: the number of arguments, a shape or a dtype is not the declared one.
          ValueError: an argument is on another device.
          BufferDeletedError: an argument was deleted or donated before.
          ExecutionError, OutOfMemory: the program, or one that computes an argument, failed.
        """
        if len(args) != self._arity:
            raise TypeError(f"the program takes {self._arity} arguments, got {len(args)}")
        buffers = []
        for index, (arg, (shape, dtype)) in enumerate(zip(args, self.input_types, strict=True)):
            if not isinstance(arg, (Buffer, np.ndarray)):
                raise self._mismatch(index, arg)
            if arg.shape != shape or arg.dtype != dtype:
                raise self._mismatch(index, arg)
            if isinstance(arg, Buffer):
                buffers.append(arg)
            else:
                buffers.append(self._given(arg))
        return self.run(buffers)

    def run(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Run or start the program without checking the arguments.

        Args:
          buffers: the arguments, of the declared number, shapes and dtypes.
        """
        loaded = self._loaded
        if loaded.generation != runtime_generation():
            loaded = self._load()
        state = loaded.state
        arguments = _VariantList(self._arity + 2)
        push = arguments.push_ref
        pending: list[Pending] = []
        keep_alive: list[object] = []
        device = self.device
        for buffer in buffers:
            # First, since another thread may delete the buffer, and with it memory that is read.
            array = buffer._array
            view = buffer._view
            if view is None or buffer.device is not device:
                self._check_device(buffer)
                if buffer.failed_to_start:
                    return self._failed(buffer.pending)
                view = buffer.view_for(state)
            push(view)
            program = buffer._pending
            if program is not None:
                pending.append(program)
            if array is not None:
                keep_alive.append(array)
        results = _VariantList(len(self.output_types))
        if self._asynchronous:
            if state.shares_memory:
                state.in_flight.throttle(_RUN_AHEAD, self._footprint, _RUN_AHEAD_BYTES)
            outputs = self._launch(loaded, arguments, results, pending, keep_alive)
        else:
            for program in pending:
                program.wait()
            if loaded.host is not None:
                self._invoke_with_host(arguments, results)
            else:
                try:
                    loaded.call(arguments, results, (buffers, keep_alive))
                except Exception as error:
                    raise execution_error("the program failed", error, state) from error
                except KeyboardInterrupt:
                    self._abandon(loaded)
                    raise
            outputs = self._wrap(results, None, bool(keep_alive), state)
            if self.launcher is not None and self._loaded is loaded:
                self.launcher.ready = not loaded.slow
        for index in self.donate:
            buffers[index].delete("it was donated to a call")
        return outputs

    def memory_analysis(self) -> MemoryAnalysis | None:
        """The memory that the program needs; None if it depends on the arguments of a call."""
        arguments, results = (
            [TensorType(*type_) for type_ in types]
            for types in (self.input_types, self.output_types)
        )
        return analysis.analyze_memory(self._vmfb, arguments, results)

    def _footprint_of(self, loaded: LoadedProgram) -> int:
        """The bytes that a call allocates at most."""
        if loaded.temporaries is None:
            return _RUN_AHEAD_BYTES // 2
        return loaded.temporaries + _nbytes(self.output_types)

    def _given(self, array: np.ndarray[Any, Any]) -> Buffer:
        """A buffer of an array that the caller may change as soon as we return."""
        view, kept = import_array(self._load().state, array, copy=self._asynchronous)
        return Buffer(array.shape, array.dtype, self.device, view=view, array=kept)

    def _check_device(self, buffer: Buffer) -> None:
        if buffer.device is not self.device:
            raise ValueError(
                f"an argument of shape {buffer.shape} and dtype {buffer.dtype} is on "
                f"{buffer.device}, but the program runs on {self.device}; move it there with "
                "device_put"
            )

    def _load(self) -> LoadedProgram:
        """The loaded program; it is loaded again if its device is gone."""
        loaded = self._loaded
        if loaded.generation != runtime_generation():
            loaded = self._reload()
            self._use(loaded)
        return loaded

    def _new_launcher(self) -> IreeLauncher | None:
        if self._asynchronous or self.donate or not self.device.shares_memory:
            return None
        keep = _nbytes(self.output_types) <= _KEPT_RESULTS_BYTES
        types = Buffer, _BufferView, _VariantList
        return IreeLauncher(*types, self.device, self.output_types, keep, _raise_failure, _owned)

    def _use(self, loaded: LoadedProgram) -> None:
        """Make later calls with this loaded program."""
        self._loaded = loaded
        if self.launcher is not None and loaded.host is None and loaded.function is not None:
            context = invoke_context(loaded.state.device)
            self.launcher.bind(
                pack_arguments, context, loaded.context.invoke, loaded.function, loaded
            )

    def _abandon(self, loaded: LoadedProgram) -> None:
        """Leave the loaded program to an interrupted call, which continues to run."""
        if self._loaded is loaded:
            self._use(self._reload())

    def _reload(self) -> LoadedProgram:
        state = self.device.driver_state(self.execution_model)
        return LoadedProgram(self._vmfb, state, self._callbacks, self._slow, self._unbounded)

    def _invoke_with_host(self, arguments: Any, results: Any) -> None:
        """Run a program that calls Python; exceptions of Python functions are raised here."""
        try:
            loaded = self._idle.pop()
            if loaded.generation != runtime_generation():
                loaded = self._reload()
        except IndexError:
            loaded = self._reload()
        assert loaded.host is not None
        try:
            loaded.invoke(arguments, results)
        except BaseException as error:
            raised = loaded.host.take_error()
            if raised is not None:
                raise raised from None
            if not isinstance(error, Exception):
                raise
            raise execution_error("the program failed", error, loaded.state) from error
        finally:
            self._idle.append(loaded)

    def _launch(
        self,
        loaded: LoadedProgram,
        arguments: Any,
        results: Any,
        pending: list[Pending],
        keep_alive: list[object],
    ) -> list[Buffer]:
        state = loaded.state
        if not state.shares_memory:
            # On CUDA, a program that waits for a failed one would fail all later work.
            for program in pending:
                if program.failure() is not None:
                    return self._failed(program)
        # Each call has its own semaphore, since calls may finish in any order, and the failure of
        # one must not fail the others.
        semaphore = state.device.create_semaphore(0)
        done = rt.HalFence.create_at(semaphore, 1)
        fences = list(dict.fromkeys(program.fence for program in pending))
        if len(fences) == 1:
            wait_for = fences[0]
        else:
            wait_for = rt.HalFence.join(fences) if fences else rt.HalFence(0)
        arguments.push_ref(wait_for)
        arguments.push_ref(done)
        pace = loaded.pace if state.in_flight.idle else None
        started = time.monotonic()
        # Before the launch, since the program may read this memory immediately.
        state.in_flight.add(semaphore, (arguments, results, keep_alive), self._footprint)
        try:
            loaded.call(arguments, results, keep_alive)
        except KeyboardInterrupt:
            # Nothing waits for the call now, not even the end of the process.
            semaphore.fail("the call was interrupted")
            self._abandon(loaded)
            raise
        except Exception as error:
            # IREE refuses to start a program after one that has already failed. Whether that one
            # fails before or after this call depends on timing, so both look the same.
            semaphore.fail(str(error))
            for program in pending:
                if program.failure() is not None:
                    return self._failed(program)
            raise execution_error("the program failed to start", error, state) from error
        ticket = Pending(semaphore, done, state, pace, started)
        return self._wrap(results, ticket, bool(keep_alive), state)

    def _failed(self, cause: Pending | None) -> list[Buffer]:
        """Results that raise when they are read, because a program before this one failed.

        A synchronous program raises immediately.
        """
        if cause is not None and not self._asynchronous:
            cause.wait()
        return [self._without_value(shape, dtype, cause) for shape, dtype in self.output_types]

    def _without_value(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], cause: Pending | None
    ) -> Buffer:
        return Buffer(shape, dtype, self.device, pending=cause)

    def _wrap(
        self, results: Any, pending: Pending | None, may_alias: bool, state: DriverState
    ) -> list[Buffer]:
        device, get = self.device, results.get_as_object
        views = [get(index, _BufferView) for index in range(len(self.output_types))]
        outputs = [
            result_buffer(self._shape(index, view), dtype, device, view, pending)
            for index, (view, (_, dtype)) in enumerate(zip(views, self.output_types, strict=True))
        ]
        return _owned(outputs, state) if may_alias else outputs

    def _shape(self, index: int, view: Any) -> tuple[int, ...]:
        """The shape of a result, given its view."""
        return self.output_types[index][0]

    def _mismatch(self, index: int, arg: Any) -> TypeError:
        shape, dtype = self.input_types[index]
        if not isinstance(arg, (Buffer, np.ndarray)):
            return TypeError(
                f"argument {index} must be a NumPy array or a Buffer, got {type(arg).__name__}"
            )
        return TypeError(
            f"argument {index} has shape {arg.shape} and dtype {arg.dtype}, but the program was "
            f"compiled for shape {shape} and dtype {dtype}"
        )

    def __repr__(self) -> str:
        return (
            f"Executable({self._arity} arguments, {len(self.output_types)} results, "
            f"{self.execution_model}, device={self.device!r})"
        )


def _raise_failure(error: BaseException, state: DriverState) -> None:
    if isinstance(error, Exception):
        raise execution_error("the program failed", error, state) from error


def _owned(outputs: list[Buffer], state: DriverState) -> list[Buffer]:
    """The results of a program; those that are in the memory of arguments are copied."""
    return [
        _copy_of_argument(output, state)
        if output._view.get_buffer().allowed_usage() & IMPORTED_USAGE_BIT
        else output
        for output in outputs
    ]


def _copy_of_argument(result: Buffer, state: DriverState) -> Buffer:
    """Copy a result that is a view of an argument's memory, which the caller may change or free.

    There is no need to wait for the program, since the argument's value is computed before it ends.
    """
    shape, dtype, device = result.shape, result.dtype, result.device
    borrowed = Buffer(shape, dtype, device, view=result._view)
    view, _ = import_array(state, borrowed.to_numpy(), copy=True)
    return Buffer(shape, dtype, device, view=view)


def _freeze(types: Sequence[ArrayType]) -> tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]:
    return tuple((tuple(entry.shape), np.dtype(entry.dtype)) for entry in types)


def _nbytes(types: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]) -> int:
    return sum(math.prod(shape) * dtype.itemsize for shape, dtype in types)


def _record_run(recorder: profiling.Recorder, run: Callable[..., Any]) -> Callable[..., Any]:
    """A `run` that records the call, and the started program until its end."""

    def recording(self: Executable, buffers: Sequence[Buffer]) -> list[Buffer]:
        started = recorder.now()
        outputs: list[Buffer] = run(self, buffers)
        recorder.add(f"call {self.name}", profiling.HOST, started, {"device": str(self.device)})
        pending = outputs[0].pending if outputs else None
        done = functools.partial(wait_for, pending.semaphore) if pending else _nothing
        recorder.add_when_done(self.name, started, self.device.id, {}, done)
        return outputs

    return recording


def _nothing() -> None:
    """Wait for nothing: the program of a synchronous call has ended when the call returns."""


profiling.instrument(Executable, "run", _record_run)
