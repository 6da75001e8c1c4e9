"""The type of a value before the program runs: shape, dtype, weak type, axes of meshes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gnomon._config.current import config
from gnomon._sharding.manual_axis_type import ManualAxisType
from gnomon._sharding.mesh import AbstractMesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon.dialects.sharding_rules import Split, spec_text
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.dialects.types import TensorType

__all__ = [
    "INVARIANT",
    "ShapedArray",
    "explicit_sharding",
    "map_text",
    "shaped_array",
    "split_alike",
]

# The most types of a side that `map_text` lists.
_LISTED = 6


class ShapedArray:
    """A shape, a dtype, the weak-type flag, and the part of the type that concerns a mesh.

    Interned: made by `shaped_array` only, and compared by identity, so that a signature is a tuple
    of pointers.

    Attributes:
      shape: a tuple of ints, or of symbolic dimensions where a function is exported for them.
      dtype: a NumPy dtype.
      weak_type: whether the dtype came from a Python scalar, and so gives way to others in
        promotion.
      vma: inside of a `shard_map` that checks them, the names of the mesh axes over which the
        value may differ between members (varying manual axes).
      explicit: the sharding over a mesh with explicit axes, which has an entry for each dimension;
        None if no such mesh is known. Inside of a `shard_map` it also has the manual axes over
        which the value is unreduced or reduced.
      type: the `TensorType` of the dialect.
    """

    __slots__ = ("dtype", "explicit", "shape", "type", "vma", "weak_type")

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak_type: bool
    vma: frozenset[str]
    explicit: NamedSharding | None
    type: TensorType

    def __new__(cls, *args: Any, **kwargs: Any) -> ShapedArray:
        """Calls go to `shaped_array`."""
        return shaped_array(*args, **kwargs)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.type.size

    @property
    def sharding(self) -> NamedSharding:
        """How the value is split over the explicit axes of a mesh.

        A type without a sharding is replicated over the mesh that is set, which may be empty.
        """
        if self.explicit is not None:
            return self.explicit
        mesh: Any = config.mesh_context[1]
        return NamedSharding(mesh or _NO_AXES, PartitionSpec(*(None,) * self.ndim))

    @property
    def manual_axis_type(self) -> ManualAxisType:
        """Along which axes of a `shard_map` devices may have different values."""
        manual = frozenset() if self.explicit is None else set(self.explicit.mesh.manual_axes)
        return ManualAxisType(self.vma, self.unreduced & manual, self.reduced & manual)

    mat = manual_axis_type

    @property
    def split(self) -> Split:
        """The explicit axes that split each dimension."""
        return ((),) * self.ndim if self.explicit is None else self.explicit._axes

    @property
    def unreduced(self) -> frozenset[Any]:
        """The axes over which each device holds one term of a sum."""
        return INVARIANT if self.explicit is None else self.explicit.spec.unreduced

    @property
    def reduced(self) -> frozenset[Any]:
        """The axes over which cotangents of the value are `unreduced`."""
        return INVARIANT if self.explicit is None else self.explicit.spec.reduced

    def with_sums(self, unreduced: frozenset[Any], reduced: frozenset[Any]) -> ShapedArray:
        """The same type with other unreduced and reduced axes; there must be a mesh for them."""
        if (self.unreduced, self.reduced) == (unreduced, reduced):
            return self
        assert self.explicit is not None
        spec = self.explicit.spec.update(unreduced=unreduced, reduced=reduced)
        return self.replicated().update(sharding=self.explicit.update(spec=spec))

    def cotangent(self) -> ShapedArray:
        """The type of cotangents of values of this type."""
        return self.with_sums(self.reduced, self.unreduced)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an unsized value: its shape is ()")
        return self.shape[0]

    def update(
        self,
        shape: tuple[int, ...] | None = None,
        dtype: Any = None,
        weak_type: bool | None = None,
        vma: frozenset[str] | None = None,
        sharding: NamedSharding | None = None,
    ) -> ShapedArray:
        """The same type with some parts replaced; a new shape drops the old sharding."""
        if sharding is None and (shape is None or tuple(shape) == self.shape):
            sharding = self.explicit
        return shaped_array(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.weak_type if weak_type is None else weak_type,
            self.vma if vma is None else vma,
            sharding,
        )

    def replicated(self) -> ShapedArray:
        """The same type without a sharding."""
        return shaped_array(self.shape, self.dtype, self.weak_type, self.vma)

    def strip_weak_type(self) -> ShapedArray:
        """The same type with a strong dtype."""
        return self.update(weak_type=False) if self.weak_type else self

    def __str__(self) -> str:
        dimensions = ",".join(map(spec_text, self.shape, self.split))
        sets = (("V", self.vma), ("U", self.unreduced), ("R", self.reduced))
        parts = []
        for letter, names in sets:
            axes = ",".join(sorted(map(str, names)))
            if names:
                parts.append(f"{letter}:{axes if len(names) == 1 else f'({axes})'}")
        return f"{self.dtype.name}[{dimensions}]" + (f"{{{', '.join(parts)}}}" if parts else "")

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self}{weak})"

    def __reduce__(self) -> Any:
        return shaped_array, (self.shape, self.dtype, self.weak_type, self.vma, self.explicit)


INVARIANT: frozenset[str] = frozenset()
_NO_AXES = AbstractMesh((), ())

_Key = tuple[tuple[int, ...], np.dtype[Any], bool, frozenset[str], NamedSharding | None]
_interned: dict[_Key, ShapedArray] = {}


def shaped_array(
    shape: tuple[int, ...],
    dtype: Any,
    weak_type: bool = False,
    vma: frozenset[str] = INVARIANT,
    sharding: NamedSharding | None = None,
) -> ShapedArray:
    """The `ShapedArray` of these arguments: equal arguments give the same object."""
    try:
        return _interned[shape, dtype, weak_type, vma, sharding]
    except (KeyError, TypeError):
        pass
    # The key may hold a list of NumPy ints, a scalar type, ...: normalize it and look again.
    shape = tuple(d if is_symbolic_dim(d) else int(d) for d in shape)
    dtype = np.dtype(dtype)
    weak_type = bool(weak_type)
    vma = frozenset(vma)
    sharding = explicit_sharding(sharding, len(shape))
    aval = object.__new__(ShapedArray)
    aval.shape, aval.dtype, aval.weak_type, aval.vma = shape, dtype, weak_type, vma
    aval.explicit = sharding
    aval.type = TensorType(shape, dtype)
    # setdefault: another thread may have come first, and identity must hold.
    return _interned.setdefault((shape, dtype, weak_type, vma, sharding), aval)


def explicit_sharding(sharding: Any, ndim: int) -> NamedSharding | None:
    """The part of a sharding that belongs to types: over an abstract mesh, only explicit axes.

    The spec has an entry for each dimension. None if the mesh has no explicit axis, and no manual
    axis is unreduced or reduced.
    """
    if not isinstance(sharding, NamedSharding):
        return None
    given = sharding.spec
    if not (sharding.mesh.explicit_axes or given.unreduced or given.reduced):
        return None
    mesh = sharding.mesh.abstract_mesh
    explicit = mesh.explicit_axes
    split = (*sharding._axes, *((),) * ndim)[:ndim]
    if mesh is sharding.mesh and len(sharding._axes) == ndim and mesh.are_all_axes_explicit:
        return sharding
    entries = [tuple(axis for axis in axes if axis in explicit) for axes in split]
    return NamedSharding(mesh, given.update(partitions=entries))


def split_alike(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether the shardings in two types of the same rank have the same specs."""
    return a.explicit is b.explicit or (
        (a.split, a.unreduced, a.reduced) == (b.split, b.unreduced, b.reduced)
    )


def map_text(ins: Iterable[ShapedArray], outs: Iterable[ShapedArray]) -> str:
    """The types of a function's arguments and results, as ``(f32[3], f32[]) -> (f32[3])``."""

    def listed(types: Iterable[ShapedArray]) -> str:
        texts = list(map(str, types))
        more = [f"{len(texts) - _LISTED} more"] if len(texts) > _LISTED else []
        return f"({', '.join([*texts[:_LISTED], *more])})"

    return f"{listed(ins)} -> {listed(outs)}"
