"""``gnomon.shard_map``: a function that runs once per member of a mesh, on the members' shards.

The op names a function on local values. A spec gives, for the leading dimensions of a value, the
mesh axes over which the dimension is split, the major one first; a value is the same for all
members along the axes that its spec does not mention.

The pass ``expand-transformations`` maps the function over the manual axes with the vectorizer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gnomon.dialects.attributes import BOOL, INTS, SPECS, STRINGS, SYMBOL
from gnomon.dialects.combinators import require
from gnomon.dialects.contract import EXPANDED, Op
from gnomon.dialects.emit import reshape, transpose
from gnomon.dialects.functions import Signature, check_operands, resolve_signature
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, type_of

# For the leading dimensions of a value, the mesh axes that each is split over.
Spec = Sequence[Sequence[str]]


class Partition(NamedTuple):
    """How a value is split over the members of some axes of a mesh.

    Attributes:
      spec: the axes of each leading dimension.
      sizes: the sizes of the axes, in the order of the mesh.
    """

    spec: Spec
    sizes: Mapping[str, int]

    @property
    def axes(self) -> list[str]:
        """The axes that the spec mentions, in the order of the mesh."""
        mentioned = {name for names in self.spec for name in names}
        return [name for name in self.sizes if name in mentioned]

    def parts(self, dimension: int) -> int:
        """The number of parts of a dimension."""
        names = self.spec[dimension] if dimension < len(self.spec) else ()
        return math.prod(self.sizes[name] for name in names)

    def whole(self, local: TensorType) -> TensorType:
        """The type of the whole value, from that of a shard."""
        return local.with_shape(tuple(n * self.parts(d) for d, n in enumerate(local.shape)))

    def split(self, x: ir.Value) -> ir.Value:
        """The shards of a value, stacked along leading dimensions: one for each axis of `axes`."""
        shape, order, local = self._split_shape(type_of(x).shape)
        return transpose(reshape(x, shape), [*order, *local])

    def join(self, x: ir.Value) -> ir.Value:
        """The inverse of `split`."""
        axes = self.axes
        local = type_of(x).shape[len(axes) :]
        whole = [n * self.parts(d) for d, n in enumerate(local)]
        shape, order, rest = self._split_shape(whole)
        places = [*order, *rest]
        inverse = [places.index(d) for d in range(len(shape))]
        return reshape(transpose(x, inverse), whole)

    def _split_shape(self, whole: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
        """The shape with dimensions split into axes and a local rest, and the positions of both."""
        shape: list[int] = []
        place: dict[str, int] = {}
        local = []
        for dimension, size in enumerate(whole):
            for name in self.spec[dimension] if dimension < len(self.spec) else ():
                place[name] = len(shape)
                shape.append(self.sizes[name])
            local.append(len(shape))
            shape.append(size // self.parts(dimension))
        return shape, [place[name] for name in self.axes], local


def partitions(
    specs: Sequence[Spec], mesh_axes: Sequence[str], mesh_sizes: Sequence[int]
) -> list[Partition]:
    """The partitions of values over a mesh."""
    sizes = dict(zip(mesh_axes, mesh_sizes, strict=True))
    return [Partition(spec, sizes) for spec in specs]


def _check_spec(what: str, spec: Spec, rank: int, manual: Sequence[str]) -> None:
    names = [name for dimension in spec for name in dimension]
    require(len(spec) <= rank, "shard_map", f"{what}: {spec} for a value of rank {rank}")
    require(len(set(names)) == len(names), "shard_map", f"{what}: {spec} repeats an axis name")
    unknown = [name for name in names if name not in manual]
    require(not unknown, "shard_map", f"{what}: {unknown} are no manual axes of {list(manual)}")


def _infer(
    *types: TensorType,
    callee: str,
    mesh_axes: tuple[str, ...],
    mesh_sizes: tuple[int, ...],
    manual_axes: tuple[str, ...],
    in_specs: Sequence[Spec],
    out_specs: Sequence[Spec],
    check_vma: bool,
    signature: Signature,
) -> tuple[TensorType, ...]:
    name = "shard_map"
    arguments, results = signature
    require(len(mesh_axes) == len(mesh_sizes), name, "a size for each axis of the mesh")
    require(len(set(mesh_axes)) == len(mesh_axes), name, f"axes with one name: {mesh_axes}")
    require(all(n > 0 for n in mesh_sizes), name, f"sizes must be positive: {mesh_sizes}")
    require(set(manual_axes) <= set(mesh_axes), name, f"{manual_axes} are no axes of {mesh_axes}")
    require(
        len(in_specs) == len(arguments) and len(out_specs) == len(results),
        name,
        f"{len(in_specs)} in_specs and {len(out_specs)} out_specs for a function of "
        f"{len(arguments)} arguments and {len(results)} results",
    )
    for what, specs, local in (
        ("in_specs", in_specs, arguments),
        ("out_specs", out_specs, results),
    ):
        for spec, type_ in zip(specs, local, strict=True):
            _check_spec(what, spec, type_.rank, manual_axes)
    given = partitions(in_specs, mesh_axes, mesh_sizes)
    check_operands(
        "gnomon.shard_map", [p.whole(t) for p, t in zip(given, arguments, strict=True)], types
    )
    returned = partitions(out_specs, mesh_axes, mesh_sizes)
    return tuple(p.whole(t) for p, t in zip(returned, results, strict=True))


shard_map = Op(
    name="shard_map",
    doc="a function applied by each member of a mesh to its shards of the operands",
    example='%y = "gnomon.shard_map"(%x) {callee = @f, mesh_axes = ["i"], '
    'mesh_sizes = array<i64: 4>, manual_axes = ["i"], in_specs = [[]], out_specs = [[]], '
    "check_vma = true} : (tensor<f32>) -> tensor<f32>",
    attributes={
        "callee": SYMBOL,
        "mesh_axes": STRINGS,
        "mesh_sizes": INTS,
        "manual_axes": STRINGS,
        "in_specs": SPECS,
        "out_specs": SPECS,
        "check_vma": BOOL,
    },
    results=None,
    resolve=resolve_signature,
    infer=_infer,
    evaluate=EXPANDED,
    jvp=EXPANDED,
    transpose=EXPANDED,
    batch=EXPANDED,
    lower=EXPANDED,
)

__all__ = ["Partition", "Spec", "partitions", "shard_map"]
