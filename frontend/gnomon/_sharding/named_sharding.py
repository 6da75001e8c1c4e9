"""Named shardings: the axes of a mesh split the dimensions of an array."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gnomon._sharding.device import Device
from gnomon._sharding.mesh import AbstractMesh, Mesh
from gnomon._sharding.partition_spec import PartitionSpec, Unconstrained, axes_of
from gnomon._sharding.sharding import Index, Shape, Sharding, checked_memory_kind

__all__ = ["NamedSharding"]


class NamedSharding(Sharding):
    """A sharding in which axes of a mesh split the dimensions of an array.

    Devices along axes that split no dimension hold copies.

    Args:
      mesh: a `Mesh`, or an `AbstractMesh`.
      spec: a `PartitionSpec`.
      memory_kind: the kind of memory on the devices; by default their own memory.
    Raises:
      ValueError: the spec names an axis that the mesh does not have, or names one twice.

    Example:
      >>> import gnomon as gn
      >>> mesh = gn.make_mesh((1,), ("data",))
      >>> gn.sharding.NamedSharding(mesh, gn.P("data", None)).shard_shape((6, 4))
      (6, 4)
    """

    __slots__ = ("_axes", "_hash", "_memory_kind", "_mesh", "_spec")

    _mesh: Mesh | AbstractMesh
    # The axes of each dimension in the spec; empty for unconstrained dimensions.
    _axes: tuple[tuple[Any, ...], ...]

    def __init__(
        self, mesh: Mesh | AbstractMesh, spec: PartitionSpec, *, memory_kind: str | None = None
    ) -> None:
        if not isinstance(mesh, (Mesh, AbstractMesh)):
            raise TypeError(f"NamedSharding takes a mesh, got {mesh!r}")
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"NamedSharding takes a PartitionSpec, got {spec!r}")
        self._mesh = mesh
        self._spec = spec
        self._axes = tuple(axes_of(entry) for entry in spec.partitions)
        self._check_axes()
        if isinstance(mesh, Mesh) and mesh.size:
            memory_kind = checked_memory_kind(mesh._flat[0], memory_kind)
        self._memory_kind = memory_kind
        self._hash = hash((mesh, spec, memory_kind))

    def _check_axes(self) -> None:
        names, spec = self._mesh.axis_names, self._spec
        seen = set()
        for axis in (a for axes in (*self._axes, spec.unreduced, spec.reduced) for a in axes):
            if axis not in names:
                raise ValueError(
                    f"{spec} names the axis {axis!r}, but the mesh has the axes {names}"
                )
            if axis in seen:
                raise ValueError(
                    f"a mesh axis can split at most one dimension of an array, but {spec} has "
                    f"{axis!r} twice"
                )
            seen.add(axis)
        for name in ("unreduced", "reduced"):
            if wrong := sorted(getattr(spec, name).intersection(self._mesh.auto_axes)):
                raise ValueError(
                    f"{name} axes must be of type Explicit, but {spec} has {wrong}, and the mesh "
                    f"is {self._mesh}"
                )
        if any(isinstance(entry, Unconstrained) for entry in spec.partitions) and not (
            self._mesh.auto_axes or self._mesh.empty
        ):
            raise ValueError(
                f"{spec} cannot have UNCONSTRAINED entries: no axis of {self._mesh} is Auto"
            )

    @property
    def mesh(self) -> Any:
        """The mesh."""
        return self._mesh

    @property
    def spec(self) -> PartitionSpec:
        """The axes that split each dimension."""
        return self._spec

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that holds the array; None for an `AbstractMesh`."""
        return self._memory_kind

    @property
    def _device_tuple(self) -> tuple[Device, ...]:
        if isinstance(self._mesh, AbstractMesh):
            raise ValueError("the mesh of the sharding is an AbstractMesh, which has no devices")
        return self._mesh._flat

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return self._mesh.size

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        sizes = self._mesh.shape
        return all(
            sizes[axis] == 1 for axes in (*self._axes, self._spec.unreduced) for axis in axes
        )

    @property
    def replicated_axes(self) -> frozenset[Any]:
        """The axes of the mesh along which devices hold copies."""
        used = {axis for axes in self._axes for axis in axes}
        return frozenset(self._mesh.axis_names) - used - self._spec.unreduced

    def update(self, **changes: Any) -> NamedSharding:
        """The sharding with another ``mesh``, ``spec`` or ``memory_kind``."""
        memory_kind = changes.pop("memory_kind", self._memory_kind)
        mesh, spec = changes.pop("mesh", self._mesh), changes.pop("spec", self._spec)
        return NamedSharding(mesh, spec, memory_kind=memory_kind, **changes)

    def with_memory_kind(self, kind: str) -> NamedSharding:
        """The same sharding in another memory of the devices."""
        return self.update(memory_kind=kind)

    # ---------------------------------------------------------------------- the part of each device

    def _counts(self) -> tuple[int, ...]:
        """The number of parts of each dimension that has an entry in the spec."""
        sizes = self._mesh.shape
        return tuple(math.prod(sizes[axis] for axis in axes) for axes in self._axes)

    def check_compatible_aval(self, aval_shape: Shape) -> None:
        """Raise ``ValueError`` if the spec has more entries than the shape has dimensions."""
        if len(aval_shape) < len(self._axes):
            raise ValueError(
                f"the sharding {self} is for arrays of {len(self._axes)} or more dimensions, got "
                f"the shape {tuple(aval_shape)}"
            )

    def shard_shape(self, global_shape: Shape) -> Shape:
        """The shape of the part that each device holds.

        Raises:
          ValueError: the number of parts of a dimension does not divide its size.
        """
        self.check_compatible_aval(global_shape)
        shape = list(global_shape)
        for dim, count in enumerate(self._counts()):
            if shape[dim] % count:
                raise ValueError(
                    f"the sharding {self} splits dimension {dim} of an array into {count} parts, "
                    f"but its size {shape[dim]} is not divisible by that (the shape is "
                    f"{tuple(global_shape)})"
                )
            shape[dim] //= count
        return tuple(shape)

    def devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index]:
        """The part of an array that each device holds, as one slice for each dimension."""
        return dict(_indices_map(self, tuple(global_shape)))

    def _part_numbers(self) -> tuple[np.ndarray[Any, Any], ...]:
        """For each dimension in the spec, the number of the part that each device holds."""
        sizes, names = self._mesh.axis_sizes, self._mesh.axis_names
        places = np.indices(sizes).reshape(len(sizes), -1)
        numbers = []
        for axes in self._axes:
            number = np.zeros(places.shape[1], dtype=np.int64)
            for axis in axes:
                position = names.index(axis)
                number = number * sizes[position] + places[position]
            numbers.append(number)
        return tuple(numbers)

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Whether another sharding distributes an array in the same way."""
        if not isinstance(other, Sharding) or self.memory_kind != other.memory_kind:
            return False
        mine, theirs = self._split(), {}
        summed, theirs_summed = self._summed(), frozenset[Any]()
        if isinstance(other, NamedSharding):
            theirs, theirs_summed = other._split(), other._summed()
        if summed != theirs_summed:
            return False
        abstract = [isinstance(x._mesh, AbstractMesh) for x in (self, other) if hasattr(x, "_mesh")]
        if any(abstract):
            return isinstance(other, NamedSharding) and (self._mesh, mine) == (other._mesh, theirs)
        if self._device_tuple != other._device_tuple:
            return False
        if not mine and not theirs:
            return True
        if not isinstance(other, NamedSharding):
            return False
        if self._mesh is other._mesh and mine == theirs:
            return True
        if mine.keys() != theirs.keys():
            return False
        # Axes of different meshes may still give each device the same part.
        numbers, others = self._part_numbers(), other._part_numbers()
        return all(np.array_equal(numbers[dim], others[dim]) for dim in mine)

    def _holds_sum(self) -> np.ndarray[Any, Any]:
        """For each device, whether it is the first one along all unreduced axes."""
        sizes, names = self._mesh.axis_sizes, self._mesh.axis_names
        places = np.indices(sizes).reshape(len(sizes), -1)
        positions = [names.index(axis) for axis in self._spec.unreduced]
        return np.asarray((places[positions] == 0).all(axis=0))

    def _summed(self) -> frozenset[Any]:
        """The unreduced axes along which there are several devices."""
        sizes = self._mesh.shape
        return frozenset(axis for axis in self._spec.unreduced if sizes[axis] > 1)

    def _split(self) -> dict[int, tuple[Any, ...]]:
        """The axes of the dimensions that are split into more than one part."""
        sizes = self._mesh.shape
        kept = (tuple(axis for axis in axes if sizes[axis] > 1) for axes in self._axes)
        return {dim: axes for dim, axes in enumerate(kept) if axes}

    def __reduce__(self) -> Any:
        return _restored, (self._mesh, self._spec, self._memory_kind)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, NamedSharding)
            and self._hash == other._hash
            and self._mesh == other._mesh
            and self._spec == other._spec
            and self._memory_kind == other._memory_kind
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        kind = "" if self._memory_kind is None else f", memory_kind={self._memory_kind}"
        return f"NamedSharding(mesh={self._mesh}, spec={self._spec}{kind})"


def _restored(mesh: Any, spec: PartitionSpec, memory_kind: str | None) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind=memory_kind)


@functools.lru_cache(1024)
def _indices_map(sharding: NamedSharding, shape: Shape) -> Mapping[Device, Index]:
    part = sharding.shard_shape(shape)
    devices = sharding._device_tuple
    slices: list[list[slice]] = []
    for dim, (number, count) in enumerate(
        zip(sharding._part_numbers(), sharding._counts(), strict=True)
    ):
        size = part[dim]
        parts = [slice(i * size, (i + 1) * size) for i in range(count)]
        slices.append([slice(None) if count == 1 else parts[i] for i in number])
    rest = (slice(None),) * (len(shape) - len(slices))
    return {device: (*(of_dim[i] for of_dim in slices), *rest) for i, device in enumerate(devices)}
