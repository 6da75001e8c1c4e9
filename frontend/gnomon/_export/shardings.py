"""The shardings of exported functions, which are over abstract meshes."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._sharding.axis_type import AxisType
from gnomon._sharding.mesh import AbstractMesh, Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon._sharding.sharding import Sharding
from gnomon._tracing.shardings import sharding_in
from gnomon.dialects.attributes import INTS
from gnomon.dialects.contract import all_operations, params_of
from gnomon.dialects.functions import Program

__all__ = [
    "HloSharding",
    "calling_devices",
    "device_count",
    "forget_devices",
    "from_notes",
    "hlo_sharding",
    "logical",
    "on_devices",
    "on_mesh",
    "to_notes",
]


@dataclasses.dataclass(frozen=True)
class HloSharding:
    """A sharding over numbered devices in XLA's form; its ``repr`` is XLA's text form.

    Attributes:
      tiles: the number of parts of each dimension, followed by the number of copies of each part if
        there are several. Empty for a replicated array.
      sizes: the shape of the grid of all devices in the order of their numbers.
      order: the transposition of that grid which lists the devices in the order of the parts.
      has_copies: whether ``tiles`` ends in the number of copies.
    """

    tiles: tuple[int, ...]
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    has_copies: bool

    def __repr__(self) -> str:
        if not self.tiles:
            return "{replicated}"
        tiles, sizes, order = (",".join(map(str, n)) for n in (self.tiles, self.sizes, self.order))
        transposed = f"T({order})" if len(self.order) > 1 else ""
        copies = " last_tile_dim_replicate" if self.has_copies else ""
        return f"{{devices=[{tiles}]<=[{sizes}]{transposed}{copies}}}"


def hlo_sharding(sharding: NamedSharding | None, ndim: int) -> HloSharding | None:
    """The sharding of an array of rank ``ndim``, over numbered devices."""
    if sharding is None:
        return None
    mesh, axes = sharding.mesh.shape, (*sharding._axes, *((),) * ndim)[:ndim]
    tiles = tuple(math.prod(mesh[name] for name in names) for names in axes)
    copies = math.prod(mesh.values()) // math.prod(tiles)
    if math.prod(tiles) == 1:
        return HloSharding((), (), (), False)
    names = list(mesh)
    used = [names.index(name) for name in itertools.chain(*axes)]
    rest = [i for i in range(len(names)) if i not in used]
    sizes, order = _merged([mesh[name] for name in names], [*used, *rest])
    return HloSharding(
        (*tiles, copies) if copies > 1 else tiles, tuple(sizes), tuple(order), copies > 1
    )


def _merged(sizes: list[int], order: list[int]) -> tuple[list[int], list[int]]:
    """The same transposition of a grid, with as few dimensions as possible."""
    runs: list[list[int]] = []
    for dim in (i for i in order if sizes[i] > 1):
        between = range(runs[-1][-1] + 1, dim) if runs else ()
        follows = bool(runs) and dim > runs[-1][-1] and all(sizes[i] == 1 for i in between)
        if follows:
            runs[-1].append(dim)
        else:
            runs.append([dim])
    ordered = sorted(runs)
    return [math.prod(sizes[i] for i in run) for run in ordered], [ordered.index(r) for r in runs]


def logical(sharding: Any) -> NamedSharding | None:
    """A sharding over the abstract mesh; None for a single device, which exports do not record."""
    if not isinstance(sharding, NamedSharding):
        return None
    return NamedSharding(sharding.mesh.abstract_mesh, sharding.spec)


def device_count(program: Program, shardings: Sequence[NamedSharding | None], what: str) -> int:
    """The number of devices of a program's meshes; 1 if it has no mesh.

    Raises:
      ValueError: the program has meshes of different sizes.
    """
    counts = {s.mesh.size for s in shardings if s is not None}
    for op in _operations(program):
        if op.name == "gnomon.sharding_constraint":
            counts.add(math.prod(params_of(op)["sizes"]))
        elif op.name == "gnomon.shard_map":
            counts.add(math.prod(params_of(op)["mesh_sizes"]))
    if len(counts) > 1:
        raise ValueError(
            f"export of {what}: its meshes have different numbers of devices: "
            f"{', '.join(map(str, sorted(counts)))}"
        )
    return counts.pop() if counts else 1


def forget_devices(program: Program) -> None:
    """Remove the devices from sharding constraints: each call determines them."""
    for op in _operations(program):
        if op.name == "gnomon.sharding_constraint":
            op.operation.attributes["devices"] = INTS.encode(())


def _operations(program: Program) -> list[Any]:
    return [op for body in map(program.body, program.names) for op in all_operations(body)]


def on_mesh(shardings: Sequence[NamedSharding | None], mesh: Any) -> tuple[Any, ...]:
    """Replace the abstract meshes of shardings by the devices of a mesh, in the mesh's order.

    Args:
      shardings: shardings over abstract meshes.
      mesh: a `Mesh` of as many devices. Its axes may differ from those of the shardings.
    Raises:
      ValueError: the mesh has another number of devices.
    """
    return tuple(None if s is None else _on_devices(s, mesh) for s in shardings)


def _on_devices(sharding: NamedSharding, mesh: Any) -> NamedSharding:
    wanted = sharding.mesh
    if not isinstance(mesh, Mesh) or mesh.size != wanted.size:
        raise ValueError(
            f"the function was exported for {wanted.size} devices, got the mesh {mesh}"
        )
    return on_devices(sharding, mesh._flat)


def on_devices(sharding: NamedSharding, devices: Sequence[Any]) -> NamedSharding:
    """Replace the abstract mesh of a sharding by a mesh of given devices."""
    wanted = sharding.mesh
    grid = np.empty(len(devices), dtype=object)
    grid[:] = devices
    mesh = Mesh(grid.reshape(wanted.axis_sizes), wanted.axis_names, wanted.axis_types)
    return NamedSharding(mesh, sharding.spec)


def calling_devices(operands: Sequence[Any], count: int, what: str) -> tuple[Any, ...]:
    """The devices of the arguments of a call.

    Raises:
      ValueError: the function was exported for another number of devices.
    """
    devices: tuple[Any, ...] = ()
    for x in operands:
        sharding = sharding_in(x)
        found = sharding._device_tuple if isinstance(sharding, Sharding) else ()
        if len(found) > len(devices):
            devices = found
    if len(devices) != count:
        raise ValueError(
            f"the function {what!r} was exported for {count} devices, but is called on "
            f"{len(devices) or 1}; distribute the arguments with gnomon.device_put, for example "
            "with the shardings of Exported.in_shardings_jax"
        )
    return devices


# ------------------------------------------------------------------------------------------- files


def to_notes(shardings: Sequence[NamedSharding | None]) -> list[Any]:
    """Shardings as JSON values.

    Raises:
      ValueError: an axis has a name that is not a string.
    """
    return [None if s is None else _to_note(s) for s in shardings]


def _to_note(sharding: NamedSharding) -> dict[str, Any]:
    mesh = sharding.mesh
    if not all(isinstance(name, str) for name in mesh.axis_names):
        raise ValueError(f"only meshes whose axis names are strings can be serialized, got {mesh}")
    return {
        "names": list(mesh.axis_names),
        "sizes": list(mesh.axis_sizes),
        "types": [type_.name for type_ in mesh.axis_types],
        "spec": [list(axes) for axes in sharding._axes],
    }


def from_notes(notes: Sequence[Any]) -> tuple[NamedSharding | None, ...]:
    """The shardings from the JSON values that `to_notes` returned."""
    return tuple(None if note is None else _from_note(note) for note in notes)


def _from_note(note: dict[str, Any]) -> NamedSharding:
    types = tuple(AxisType[name] for name in note["types"])
    mesh = AbstractMesh(tuple(note["sizes"]), tuple(note["names"]), types)
    return NamedSharding(mesh, PartitionSpec(*(tuple(axes) or None for axes in note["spec"])))
