"""Eager computation on arrays outside of host memory.

An op is compiled once for each signature (its attributes, the types of its operands, the device)
and then called like any compiled program; the result stays on the device. To keep the signatures
few, values that change from call to call are operands and not part of the program: the starts of
slices, and Python's numbers. Small host values are kept on the device from call to call, so that a
loop does not transfer the same numbers repeatedly.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gnomon._arrays.aval import shaped_array
from gnomon._arrays.concrete import ConcreteArray, PlacedArray, committed_device, placed_buffer
from gnomon._arrays.transfers import described, guard_transfer, is_user_value
from gnomon._config.current import Config
from gnomon._sharding.device import HOST, Device, default_device, in_host_memory, memory_of
from gnomon.backends.errors import CompilationError, add_note
from gnomon.backends.interface import Buffer, Executable, lower_to_run
from gnomon.dialects.body import Body
from gnomon.dialects.contract import Op
from gnomon.dialects.emit import ops
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ir
from gnomon.dialects.types import TensorType

__all__ = [
    "clear_caches",
    "compiling",
    "computes_on_host",
    "frozen",
    "guard_operands",
    "input_buffer",
    "place_of",
    "program_of_function",
    "program_of_op",
    "run_op",
    "run_program",
    "scalars_of_uniform",
    "with_places_as_operands",
]

# The size of the cache of small host values on devices, and the limit on the bytes of one value.
_MAX_SMALL_BUFFERS = 512
_MAX_SMALL_BYTES = 1 << 14

# An op on uncommitted operands with at most this many elements in total runs on the host.
_MAX_HOST_ELEMENTS = 1 << 16

_executables: dict[Any, Executable] = {}
_small_buffers: OrderedDict[Any, Buffer] = OrderedDict()
_lock = threading.Lock()


def clear_caches() -> None:
    """Forget the compiled ops, and the values that are cached on devices."""
    _executables.clear()
    with _lock:
        _small_buffers.clear()


def place_of(operands: Sequence[Any], what: str) -> tuple[Device, bool] | None:
    """The device that computes with arrays, and whether the results are committed to it.

    It is the device to which operands are committed, or else the default device. None means the
    host, with uncommitted results.

    Raises:
      ValueError: operands are committed to different devices.
    """
    if not any(isinstance(x, PlacedArray) for x in operands):
        return None
    device = committed_device(operands, lambda i: f"operand {i} of {what}")
    if device is not None:
        return device, True
    device = default_device()
    return None if device is HOST else (device, False)


def computes_on_host(operands: Sequence[Any]) -> bool:
    """Whether an op on uncommitted arrays runs on the host: if their values are there, and small.

    This saves the compilation of programs that only initialize parameters under a
    `default_device`. The results are moved when a program on the device needs them.
    """
    size = 0
    for x in operands:
        if isinstance(x, PlacedArray) and x._value is None:
            return False
        size += x.size
    return size <= _MAX_HOST_ELEMENTS


# ----------------------------------------------------------------------------------------- operands


def input_buffer(x: Any, device: Device, *, fresh: bool = False) -> Buffer:
    """The buffer of an array on a device; the array is transferred if necessary.

    Args:
      x: an array, or a NumPy array.
      device: the device that needs the buffer.
      fresh: whether the program may overwrite the buffer, so that it must not come from the cache.
    """
    if isinstance(x, ConcreteArray) and in_host_memory(device) and in_host_memory(_device_of(x)):
        return _shared_buffer(x)
    value = _value_to_transfer(x, device)
    if value is None:
        buffer: Buffer = x.device_buffer()
    elif value.nbytes <= _MAX_SMALL_BYTES and not fresh:
        buffer = _small_buffer(value, device)
    elif isinstance(x, PlacedArray) and x._device is device and not fresh:
        buffer = x.device_buffer()
    else:
        # The caller may write to a NumPy array as soon as the call has returned.
        copy = not isinstance(x, ConcreteArray)
        buffer = device.backend.put(value, device, copy=copy)
    return buffer


def _device_of(x: ConcreteArray) -> Device:
    """The device of an array, or the group of its devices."""
    return x._device if isinstance(x, PlacedArray) else HOST


def _shared_buffer(x: ConcreteArray) -> Buffer:
    """The buffer of an array in host memory; it is made on first use."""
    if x._buffer is None or (x._buffer.is_deleted() and x._value is not None):
        x._buffer = HOST.backend.put(x.numpy_value(), HOST)
    return x._live_buffer()


def guard_operands(operands: Sequence[Any], device: Device) -> None:
    """Apply `transfer_guard` to the arrays that a program on a device reads."""
    for x in operands:
        if isinstance(x, PlacedArray):
            if memory_of(x._device) is not memory_of(device):
                guard_transfer("device_to_device", f"{x.aval} on {x._device!r}", device)
        elif not in_host_memory(device) and is_user_value(x):
            aval = x.aval if isinstance(x, ConcreteArray) else described(x)
            guard_transfer("host_to_device", aval, device)


def _value_to_transfer(x: Any, device: Device) -> np.ndarray[Any, Any] | None:
    """The host value of an array that must be transferred to a device; None if none must be."""
    if isinstance(x, PlacedArray) and memory_of(x._device) is memory_of(device):
        return x._value if x._buffer is None else None
    # The caller has applied the transfer guard.
    return ConcreteArray.numpy_value(x) if isinstance(x, ConcreteArray) else np.asarray(x)


def _small_buffer(value: np.ndarray[Any, Any], device: Device) -> Buffer:
    """The buffer of a small value, cached on the device for later calls."""
    key = (device, value.dtype, value.shape, value.tobytes())
    with _lock:
        buffer = _small_buffers.pop(key, None)
        if buffer is not None and not (buffer.is_deleted() or buffer.is_lost()):
            _small_buffers[key] = buffer  # moved to the end, as the most recently used
            return buffer
    made: Buffer = device.backend.put(value, device, copy=True)
    with _lock:
        _small_buffers[key] = made
        if len(_small_buffers) > _MAX_SMALL_BUFFERS:
            _small_buffers.popitem(last=False)
    return made


def _is_uniform(value: np.ndarray[Any, Any]) -> bool:
    """Whether an array is a broadcast scalar: all its strides are zero."""
    return value.size > 1 and not any(value.strides)


# ---------------------------------------------------------------------------------------------- ops


def run_op(
    op: Op,
    operands: Sequence[Any],
    params: dict[str, Any],
    device: Device,
    *,
    committed: bool,
    weak_type: bool,
) -> list[PlacedArray]:
    """Apply an op to arrays, on a device.

    Raises:
      CompilationError: the op cannot be compiled for the device; the message names both.
    """
    if Config.guards_somewhere:
        guard_operands(operands, device)
    op, operands, params = with_places_as_operands(op, operands, params)
    types, values = scalars_of_uniform(operands, device)
    key = (op.full_name, frozen(params), types, device)
    executable = _executables.get(key)
    if executable is None:
        program, name = program_of_op(op, types, params), op.full_name.removeprefix("gnomon.")
        executable = _executables[key] = _compiled(program, device, name)
    buffers = [input_buffer(x, device) for x in values]
    return _arrays(executable, buffers, device, committed, weak_type)


Types = tuple[tuple[TensorType, bool], ...]


def scalars_of_uniform(operands: Sequence[Any], device: Device) -> tuple[Types, list[Any]]:
    """Replace host arrays that are broadcast scalars by the scalars, which alone are transferred.

    Returns:
      For each operand its type and whether a scalar replaces it, and the values to give.
    """
    types: list[tuple[TensorType, bool]] = []
    transferred: list[Any] = []
    for x in operands:
        value = _value_to_transfer(x, device)
        uniform = value is not None and _is_uniform(value)
        types.append((TensorType(x.shape, x.dtype), uniform))
        transferred.append(value[(0,) * value.ndim] if uniform else x)  # type: ignore[index, union-attr]
    return tuple(types), transferred


def _arrays(
    executable: Executable,
    buffers: Sequence[Buffer],
    device: Device,
    committed: bool,
    weak_type: bool = False,
) -> list[PlacedArray]:
    """Call a compiled program, and return the results as arrays."""
    return [
        placed_buffer(buffer, shaped_array(shape, dtype, weak_type), device, committed)
        for buffer, (shape, dtype) in zip(
            executable.run(buffers), executable.output_types, strict=True
        )
    ]


def with_places_as_operands(
    op: Op, operands: Sequence[Any], params: dict[str, Any]
) -> tuple[Op, Sequence[Any], dict[str, Any]]:
    """The same op, with values that often change from call to call as operands, not parameters.

    ``slice`` would need a program for each start; ``dynamic_slice`` is one program for all starts.
    """
    if op.name != "slice" or any(s != 1 for s in params["strides"]):
        return op, operands, params
    starts = [np.array(start, np.int32) for start in params["start"]]
    sizes = tuple(b - a for a, b in zip(params["start"], params["limit"], strict=True))
    return ops.dynamic_slice, [operands[0], *starts], {"sizes": sizes}


def frozen(value: Any) -> Any:
    """A hashable key that is equal for equal parameters of an op."""
    if isinstance(value, dict):
        return tuple((name, frozen(v)) for name, v in sorted(value.items()))
    if isinstance(value, (tuple, list)):
        return tuple(map(frozen, value))
    if isinstance(value, (np.ndarray, np.generic)):
        return value.shape, value.dtype, value.tobytes()
    # 1 and True, or 0.0 and -0.0, are equal in Python, but are different parameters.
    return type(value), repr(value) if isinstance(value, (float, complex)) else value


def program_of_op(op: Op, types: Types, params: dict[str, Any]) -> Program:
    """The program of an op, for operands as `scalars_of_uniform` gives them."""

    def emit(*arguments: ir.Value) -> Sequence[ir.Value]:
        return op.build(
            [
                ops.broadcast_in_dim(a, shape=t.shape, dims=()) if uniform else a
                for a, (t, uniform) in zip(arguments, types, strict=True)
            ],
            params,
        )

    argument_types = [TensorType((), t.dtype) if uniform else t for t, uniform in types]
    program = Program()
    with context(), ir.Location.unknown(context()):
        program.add("main", Body.build(argument_types, emit), public=True)
    return program


def _compiled(program: Program, device: Device, what: str) -> Executable:
    with compiling(what, device):
        executable: Executable = device.backend.compile(
            lower_to_run(device.backend, program), device=device
        )
    return executable


@contextmanager
def compiling(what: str, device: Device) -> Iterator[None]:
    """Name the compiled function and the device in compilation errors that the block raises."""
    try:
        yield
    except CompilationError as error:
        add_note(
            error,
            f"This happened when {what} was to be computed on {device!r}, where its operands live. "
            "To compute it on the host, move them there: gnomon.device_put(x, "
            'gnomon.devices("cpu")[0])',
        )
        raise


# ----------------------------------------------------------------------------------------- programs


def program_of_function(program: Program, name: str) -> Program:
    """A function of a program as a separate program."""
    copy = Program()
    copied = copy.import_function(program, name, {})
    body = copy.body(copied).clone()
    copy.erase(copied)
    copy.add("main", body, public=True)
    return copy


def run_program(
    program: Program, name: str, operands: Sequence[Any], device: Device, *, committed: bool
) -> list[PlacedArray]:
    """Run a function of a program on a device, compiled."""
    copy = program_of_function(program, name)
    key = (str(copy.module), device)
    executable = _executables.get(key)
    if executable is None or program.callbacks:
        executable = _executables[key] = _compiled(copy, device, f"a call of {name}")
    if Config.guards_somewhere:
        guard_operands(operands, device)
    buffers = [input_buffer(x, device) for x in operands]
    return _arrays(executable, buffers, device, committed)
