"""Meshes: devices in a grid with named axes, and the same without devices."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon._config.current import config
from gnomon._diagnostics.errors import warn_user
from gnomon._sharding.axis_type import AxisType
from gnomon._sharding.device import Device, devices_of, is_addressable, is_device
from gnomon._sharding.topology_order import arranged

__all__ = ["AbstractDevice", "AbstractMesh", "Mesh", "make_mesh"]


@dataclass(frozen=True)
class AbstractDevice:
    """The kind of the devices of a mesh, which a program may know without the devices.

    Attributes:
      device_kind: the model, as the driver names it.
      num_cores: the number of cores of a device, or None if the number is not known.
      platform: the name of the platform.
    """

    device_kind: str
    num_cores: int | None
    platform: str | None = None

    def __repr__(self) -> str:
        return (
            f"AbstractDevice(device_kind={self.device_kind}, num_cores={self.num_cores}, "
            f"platform={self.platform})"
        )


class _Grid:
    """The axes of a mesh: the base of meshes with devices and of meshes without."""

    axis_names: tuple[Any, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]

    @property
    def shape(self) -> OrderedDict[Any, int]:
        """The size of each axis by its name."""
        return OrderedDict(self.shape_tuple)

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """Pairs of the name and the size of each axis."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.axis_sizes)

    @property
    def empty(self) -> bool:
        """Whether there is no device."""
        return self.size == 0

    @property
    def auto_axes(self) -> tuple[Any, ...]:
        """The names of the axes of type `AxisType.Auto`."""
        return self._axes_of(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[Any, ...]:
        """The names of the axes of type `AxisType.Explicit`."""
        return self._axes_of(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[Any, ...]:
        """The names of the axes of type `AxisType.Manual`."""
        return self._axes_of(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether each axis is of type `AxisType.Auto`."""
        return self._are_all(AxisType.Auto)

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether each axis is of type `AxisType.Explicit`."""
        return self._are_all(AxisType.Explicit)

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether each axis is of type `AxisType.Manual`."""
        return self._are_all(AxisType.Manual)

    def _axes_of(self, kind: AxisType) -> tuple[Any, ...]:
        pairs = zip(self.axis_names, self.axis_types, strict=True)
        return tuple(name for name, type_ in pairs if type_ is kind)

    def _are_all(self, kind: AxisType) -> bool:
        return bool(self.axis_types) and all(type_ is kind for type_ in self.axis_types)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: assignment to {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: deletion of {name!r}")

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _axes_text(self) -> str:
        return ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple)


def _axis_names(names: Any) -> tuple[Any, ...]:
    names = (names,) if isinstance(names, str) else tuple(names)
    if any(name is None for name in names):
        raise ValueError(f"the names of the axes of a mesh cannot be None, got {names}")
    return names


def _axis_types(types: Any, names: tuple[Any, ...]) -> tuple[AxisType, ...]:
    if types is None:
        return (AxisType.Auto,) * len(names)
    if isinstance(types, AxisType):
        types = (types,)
    types = tuple(types)
    if not all(isinstance(type_, AxisType) for type_ in types):
        raise TypeError(f"axis_types must be of gnomon.sharding.AxisType, got {types}")
    if len(types) != len(names):
        raise ValueError(
            f"there must be one axis type for each axis: got axis_names={names} and "
            f"axis_types={types}"
        )
    return types


class Mesh(_Grid):
    """A grid of devices with named axes.

    Equal meshes are the same object.

    Args:
      devices: an array of devices with one dimension for each axis, or a sequence of them.
      axis_names: the names of the axes.
      axis_types: an `AxisType` for each axis; by default all are `AxisType.Auto`.

    Attributes:
      devices: the array of devices; it cannot be written to.
      axis_names, axis_sizes, axis_types: the name, size and type of each axis.

    Example:
      >>> import gnomon as gn
      >>> gn.sharding.Mesh(gn.devices()[:1], ("data",))
      Mesh(axis_sizes=(1,), axis_names=('data',), axis_types=(Auto,))
    """

    devices: np.ndarray[Any, Any]
    # The devices in order; (None,) for the empty mesh, which has no axes either.
    _flat: tuple[Any, ...]
    _hash: int
    _abstract: AbstractMesh

    def __new__(
        cls,
        devices: Any,
        axis_names: str | Sequence[Any],
        axis_types: tuple[AxisType, ...] | None = None,
    ) -> Mesh:
        """The mesh of these arguments; equal arguments give the same object."""
        grid = devices if isinstance(devices, np.ndarray) else np.array(devices, dtype=object)
        names = _axis_names(axis_names)
        if grid.ndim != len(names):
            raise ValueError(
                "a mesh has one axis name for each dimension of its array of devices: got "
                f"devices.ndim == {grid.ndim} and len(axis_names) == {len(names)}"
            )
        if len(set(names)) != len(names):
            raise ValueError(f"the axes of a mesh must have different names, got {names}")
        flat: tuple[Any, ...] = tuple(grid.flat)
        if flat != (None,) and not all(is_device(device) for device in flat):
            raise TypeError(f"a mesh takes devices, such as gnomon.devices(), got {devices!r}")
        types = _axis_types(axis_types, names)
        key = (flat, grid.shape, names, types)
        found = _meshes.get(key)
        if found is None:
            with _lock:
                found = _meshes.get(key)
                if found is None:
                    found = _meshes[key] = _new_mesh(grid, key)
        return found

    @property
    def size(self) -> int:
        """The number of devices."""
        return 0 if self._flat == (None,) else self.devices.size

    @property
    def device_ids(self) -> np.ndarray[Any, Any]:
        """The ids of the devices, in the grid."""
        ids = [device.id for device in self._flat] if self.size else []
        return np.array(ids, dtype=int).reshape(self.axis_sizes)

    @property
    def is_multi_process(self) -> bool:
        """Whether devices belong to different processes."""
        return len({device.process_index for device in self._flat}) > 1 if self.size else False

    @property
    def local_devices(self) -> list[Device]:
        """The devices that belong to this process."""
        return [device for device in self._flat if is_addressable(device)] if self.size else []

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh with the devices of this process.

        Raises:
          ValueError: they are not a rectangular part of it.
        """
        here = np.vectorize(is_addressable, otypes=[bool])(self.devices)
        if here.all():
            return self
        part = self.devices
        for axis in range(here.ndim):
            others = tuple(other for other in range(here.ndim) if other != axis)
            part = np.compress(here.any(axis=others), part, axis)
        if part.size != here.sum():
            raise ValueError(
                "the devices of this process do not form a rectangular part of the mesh "
                f"{self.shape}"
            )
        return Mesh(part, self.axis_names, axis_types=self.axis_types)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The same axes without the devices."""
        return self._abstract

    @property
    def is_scalar(self) -> bool:
        """Whether the mesh has one device and no axes."""
        return not self.axis_names and self.size == 1

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """The mesh with some parts replaced."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __enter__(self) -> Mesh:
        warn_user(
            "`with mesh:` is deprecated: use `with gnomon.set_mesh(mesh):`", DeprecationWarning
        )
        before = config.mesh_context
        _entered.before.append(before)
        config.set_mesh_context((*before[:2], self))
        return self

    def __exit__(self, *exception: object) -> None:
        config.set_mesh_context(_entered.before.pop())

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={self.axis_types})"
        )

    def __str__(self) -> str:
        axes = self._axes_text()
        return f"Mesh({axes}, axis_types={self.axis_types})" if axes else "Mesh()"


_meshes: dict[Any, Mesh] = {}
_lock = threading.Lock()


def _new_mesh(grid: np.ndarray[Any, Any], key: tuple[Any, ...]) -> Mesh:
    flat, sizes, names, types = key
    devices = np.array(grid, dtype=object)
    devices.flags.writeable = False
    first = flat[0] if flat else None
    device = None
    if first is not None:
        cores = getattr(first, "num_cores", None)
        device = AbstractDevice(first.device_kind, cores, first.platform)
    mesh: Mesh = object.__new__(Mesh)
    mesh._set(
        devices=devices,
        axis_names=names,
        axis_sizes=sizes,
        axis_types=types,
        _flat=flat,
        _hash=hash(key),
        _abstract=AbstractMesh(sizes, names, types, device),
    )
    return mesh


class _MeshStack(threading.local):
    """The mesh contexts outside of this thread's ``with mesh:`` blocks, the innermost last."""

    def __init__(self) -> None:
        self.before: list[tuple[Any, Any, Any]] = []


_entered = _MeshStack()


class AbstractMesh(_Grid):
    """The axes of a mesh without its devices, which is all that a traced program knows.

    Args:
      axis_sizes, axis_names: the size and the name of each axis.
      axis_types: an `AxisType` for each axis; by default all are `AxisType.Auto`.
      abstract_device: the kind of the devices, or None.

    Example:
      >>> import gnomon as gn
      >>> gn.sharding.AbstractMesh((4, 2), ("x", "y"))
      AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto))
    """

    abstract_device: AbstractDevice | None
    _hash: int

    def __init__(
        self,
        axis_sizes: Sequence[int],
        axis_names: str | Sequence[Any],
        axis_types: tuple[AxisType, ...] | None = None,
        abstract_device: AbstractDevice | None = None,
    ) -> None:
        sizes = tuple(int(size) for size in axis_sizes)
        names = _axis_names(axis_names)
        if len(sizes) != len(names):
            raise ValueError(
                f"there must be one name for each axis: got axis_sizes={sizes} and "
                f"axis_names={names}"
            )
        if len(set(names)) != len(names):
            raise ValueError(f"the axes of a mesh must have different names, got {names}")
        types = _axis_types(axis_types, names)
        self._set(
            axis_sizes=sizes,
            axis_names=names,
            axis_types=types,
            abstract_device=abstract_device,
            _hash=hash((sizes, names, types, abstract_device)),
        )

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.axis_sizes) if self.axis_names else 0

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh itself."""
        return self

    @property
    def devices(self) -> Any:
        """Raise ``ValueError``: an abstract mesh has no devices."""
        raise ValueError("an AbstractMesh has no devices")

    def update(
        self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None, **kwargs: Any
    ) -> AbstractMesh:
        """The mesh with some parts replaced."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            kwargs.pop("abstract_device", self.abstract_device),
            **kwargs,
        )

    def update_axis_types(self, name_to_type: dict[Any, AxisType]) -> AbstractMesh:
        """The mesh with other types of the named axes."""
        types = tuple(
            name_to_type.get(name, type_)
            for name, type_ in zip(self.axis_names, self.axis_types, strict=True)
        )
        return self.update(axis_types=types)

    def __reduce__(self) -> Any:
        return AbstractMesh, (
            self.axis_sizes,
            self.axis_names,
            self.axis_types,
            self.abstract_device,
        )

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, AbstractMesh)
            and self._hash == other._hash
            and (self.axis_sizes, self.axis_names) == (other.axis_sizes, other.axis_names)
            and (self.axis_types, self.abstract_device) == (other.axis_types, other.abstract_device)
        )

    def __repr__(self) -> str:
        device = self.abstract_device
        kind = (
            ""
            if device is None
            else f", device_kind={device.device_kind}, num_cores={device.num_cores}, "
            f"platform={device.platform}"
        )
        return f"AbstractMesh({self._axes_text() or '()'}, axis_types={self.axis_types}{kind})"


def make_mesh(
    axis_shapes: Iterable[int],
    axis_names: str | Sequence[Any],
    axis_types: tuple[AxisType, ...] | None = None,
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """A mesh of the first devices, as many as its axes need.

    Devices with coordinates, such as the chips of a TPU, are ordered so that neighbours along an
    axis are neighbours in the hardware. Other devices keep their order.

    Args:
      axis_shapes: the size of each axis.
      axis_names: the name of each axis.
      axis_types: an `AxisType` for each axis; by default all are `AxisType.Explicit`.
      devices: the devices to choose from; by default all of ``gnomon.devices()``.
    Raises:
      ValueError: there are too few devices, or the numbers of axes differ.

    Example:
      >>> import gnomon as gn
      >>> gn.make_mesh((1,), ("data",))
      Mesh(axis_sizes=(1,), axis_names=('data',), axis_types=(Explicit,))
    """
    sizes = tuple(int(size) for size in axis_shapes)
    names = _axis_names(axis_names)
    if axis_types is None:
        axis_types = (AxisType.Explicit,) * len(names)
    found = devices_of(None) if devices is None else list(devices)
    wanted = math.prod(sizes)
    if wanted > len(found):
        raise ValueError(
            f"a mesh of shape {sizes} needs {wanted} devices, but there are {len(found)} "
            "(gnomon_num_cpu_devices sets the number of CPU devices)"
        )
    return Mesh(arranged(found[:wanted], sizes), names, axis_types)
