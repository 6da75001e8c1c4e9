"""Eager computation on arrays that are spread over devices which do not share memory.

An op is compiled once for each signature, as on one device (`on_device`), but for all devices of
the mesh: the types of operands and results have shardings, and the backend's compiler splits the
program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._arrays.aval import shaped_array
from gnomon._arrays.concrete import PlacedArray
from gnomon._arrays.sharded import ShardedArray, sharded_buffer
from gnomon._config.current import Config
from gnomon._sharding.device import Device
from gnomon._sharding.device_group import is_spread
from gnomon._sharding.mesh import Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._tracing import on_device
from gnomon._tracing.partitioned import compiled_on_mesh, mesh_buffer, on_mesh
from gnomon._tracing.shardings import mesh_of, result_shardings, sharding_in
from gnomon.backends.interface import Executable
from gnomon.dialects.contract import Op
from gnomon.dialects.functions import Program
from gnomon.dialects.types import TensorType

__all__ = ["clear_caches", "run_op_on_mesh", "run_program_on_mesh"]

_executables: dict[Any, Executable] = {}


def clear_caches() -> None:
    """Forget the compiled ops and programs."""
    _executables.clear()


def run_op_on_mesh(
    op: Op, operands: Sequence[Any], params: dict[str, Any], device: Device, *, weak_type: bool
) -> list[ShardedArray]:
    """Apply an op to arrays of which some are spread over a mesh.

    Args:
      op, operands, params: the op, the arrays and its parameters.
      device: the group of the mesh's devices, or its only device.
      weak_type: whether the results are weakly typed.
    Raises:
      CompilationError: the op cannot be compiled for the devices.
      ShardingTypeError: axes are explicit, and the operands disagree.
    """
    types = op.infer_types([TensorType(x.shape, x.dtype) for x in operands], params)
    shardings = result_shardings(op, operands, params, [tuple(t.shape) for t in types])
    if not is_spread(device):
        results = on_device.run_op(
            op, operands, params, device, committed=True, weak_type=weak_type
        )
        return _with_shardings(results, shardings)
    if Config.guards_somewhere:
        on_device.guard_operands(operands, device)
    op, operands, params = on_device.with_places_as_operands(op, operands, params)
    mesh = _mesh(operands)
    signature, values = on_device.scalars_of_uniform(operands, device)
    ins = [on_mesh(sharding_in(x), mesh, np.ndim(v)) for x, v in zip(operands, values, strict=True)]
    key = (op.full_name, on_device.frozen(params), signature, tuple(ins), tuple(shardings))
    executable = _executables.get(key)
    if executable is None:
        program = on_device.program_of_op(op, signature, params)
        with on_device.compiling(op.full_name.removeprefix("gnomon."), device):
            executable = compiled_on_mesh(program, mesh, ins, shardings)
        _executables[key] = executable
    buffers = [mesh_buffer(v, s) for v, s in zip(values, ins, strict=True)]
    return _arrays(executable, buffers, shardings, weak_type)


def run_program_on_mesh(
    program: Program,
    name: str,
    operands: Sequence[Any],
    device: Device,
    shardings: Sequence[NamedSharding],
) -> list[ShardedArray]:
    """Run a function of a program on the devices of a mesh, compiled.

    Args:
      program, name: the function.
      operands: the arguments of the function.
      device: the group of the mesh's devices, or its only device.
      shardings: the shardings of the results, over one mesh.
    """
    if not is_spread(device):
        results = on_device.run_program(program, name, operands, device, committed=True)
        return _with_shardings(results, shardings)
    copy = on_device.program_of_function(program, name)
    mesh: Mesh = shardings[0].mesh if shardings else _mesh(operands)
    ins = [on_mesh(sharding_in(x), mesh, np.ndim(x)) for x in operands]
    key = (str(copy.module), tuple(ins), tuple(shardings))
    executable = _executables.get(key)
    if executable is None or program.callbacks:
        with on_device.compiling(f"a call of {name}", device):
            executable = compiled_on_mesh(copy, mesh, ins, shardings)
        _executables[key] = executable
    if Config.guards_somewhere:
        on_device.guard_operands(operands, device)
    buffers = [mesh_buffer(x, s) for x, s in zip(operands, ins, strict=True)]
    return _arrays(executable, buffers, shardings, False)


def _mesh(operands: Sequence[Any]) -> Mesh:
    mesh = mesh_of([sharding_in(x) for x in operands])
    assert mesh is not None
    return mesh


def _arrays(
    executable: Executable,
    buffers: Sequence[Any],
    shardings: Sequence[NamedSharding],
    weak_type: bool,
) -> list[ShardedArray]:
    types = executable.output_types
    return [
        sharded_buffer(buffer, shaped_array(shape, dtype, weak_type), sharding)
        for buffer, (shape, dtype), sharding in zip(
            executable.run(buffers), types, shardings, strict=True
        )
    ]


def _with_shardings(
    results: Sequence[PlacedArray], shardings: Sequence[NamedSharding]
) -> list[ShardedArray]:
    """Results on the only device of a mesh, with their shardings."""
    return [
        sharded_buffer(x.device_buffer(), x.aval, sharding)
        for x, sharding in zip(results, shardings, strict=True)
    ]
