"""Sharding constraints on the values of a program."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from gnomon._config.current import config
from gnomon._sharding.axis_type import AxisType
from gnomon._sharding.device import devices_of, in_host_memory, number_of
from gnomon._sharding.mesh import AbstractMesh, Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec, Unconstrained, axes_of
from gnomon._tracing.bind import bind
from gnomon._tracing.explicit import retyped
from gnomon.backends.platforms import HOST_PLATFORM
from gnomon.dialects.body import Body
from gnomon.dialects.contract import all_operations, params_of
from gnomon.dialects.emit import ops
from gnomon.dialects.functions import Program

__all__ = ["constrained", "constraint_mesh", "resolved"]

# The spec entry of a dimension that may be split in any way.
_OPEN = "?"


def resolved(sharding: Any, what: str) -> Any:
    """A sharding unchanged; a spec becomes a sharding over the mesh of the context.

    Raises:
      RuntimeError: ``sharding`` is a spec, and the context has no mesh.
    """
    if not isinstance(sharding, PartitionSpec):
        return sharding
    concrete, abstract, entered = config.mesh_context
    mesh = concrete or abstract or entered
    if mesh is None:
        raise RuntimeError(
            f"{what}: the spec {sharding} needs a mesh: set one with gnomon.set_mesh, or pass a "
            "gnomon.NamedSharding"
        )
    return NamedSharding(mesh, sharding)


# The devices of constraints, by the numbers that name them in programs; devices of the host's
# platform are left out.
_named: dict[int, Any] = {}

# Set when the first constraint is made; before that, no program need be searched for one.
_constraints = threading.Event()


def constrained(x: Any, sharding: NamedSharding, *, others_open: bool = False) -> Any:
    """Constrain the sharding of a traced value.

    Args:
      x: the value.
      sharding: the sharding that the value is to have.
      others_open: whether dimensions that ``sharding`` does not split may be split in any way.
    """
    _constraints.set()
    mesh, rank = _other_grid(sharding.mesh), x.ndim
    typed = x.aval.explicit
    if typed is not None and typed.mesh.shape != mesh.shape:
        x = retyped(x, None)  # Its type has other axes, and the new ones replace them.
    entries = (*sharding.spec.partitions, *(None,) * rank)[:rank]
    spec = tuple(
        _OPEN
        if isinstance(entry, Unconstrained) or (others_open and not axes_of(entry))
        else ",".join(axes_of(entry))
        for entry in entries
    )
    devices: tuple[int, ...] = ()
    if isinstance(mesh, Mesh):
        devices = tuple(map(number_of, mesh._flat))
        if not in_host_memory(mesh._flat[0]):
            _named.update(zip(devices, mesh._flat, strict=True))
    types = tuple(type_.name.lower() for type_ in mesh.axis_types)
    params = {"names": mesh.axis_names, "sizes": mesh.axis_sizes, "types": types}
    result = bind(ops.sharding_constraint, x, **params, devices=devices, spec=spec)
    return retyped(result, sharding)


def _other_grid(mesh: Mesh | AbstractMesh) -> Mesh | AbstractMesh:
    """Give an abstract mesh the devices of the mesh that is set, if its shape is another one.

    `use_abstract_mesh` may name the devices of a program by other axes. Any other mesh is returned
    unchanged.
    """
    concrete = config.mesh_context[0]
    if isinstance(mesh, Mesh) or concrete is None or mesh.manual_axes:
        return mesh
    if concrete.shape == mesh.shape or concrete.size != mesh.size:
        return mesh
    grid = np.empty(concrete.size, dtype=object)
    grid[:] = concrete._flat
    return Mesh(grid.reshape(mesh.axis_sizes), mesh.axis_names, mesh.axis_types)


def constraint_mesh(program: Program, body: Body) -> Mesh | None:
    """The mesh of the first constraint with devices in a body or in functions of its program."""
    if not _constraints.is_set():
        return None
    with program.lock:
        constraints = (
            params_of(op)
            for each in (body, *map(program.body, program.names))
            for op in all_operations(each)
            if op.name == "gnomon.sharding_constraint"
        )
        found = next((params for params in constraints if params["devices"]), None)
    return None if found is None else _mesh_of_constraint(found)


def _mesh_of_constraint(params: dict[str, Any]) -> Mesh:
    devices_by_id = _named
    if not devices_by_id.keys() >= set(params["devices"]):
        devices_by_id = {device.id: device for device in devices_of(HOST_PLATFORM)}
    grid = np.array([devices_by_id[number] for number in params["devices"]], dtype=object)
    types = tuple(AxisType[type_.capitalize()] for type_ in params["types"])
    return Mesh(grid.reshape(params["sizes"]), params["names"], types)
