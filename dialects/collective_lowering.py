"""The StableHLO forms of collectives, in a program that is partitioned over a mesh.

Partitions are numbered in row-major order of the axes of the mesh. A collective over some axes acts
within groups of partitions that have the same positions along all other axes. The lowering engine
provides the mesh (``engine.mesh``) and the numbers of channels (``engine.channel()``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.dialects.attributes import DENSE
from gnomon.dialects.collective_groups import Groups
from gnomon.dialects.combinators import (
    lowered,
    parse,
    stablehlo,
    stablehlo_constant,
    stablehlo_region,
)
from gnomon.dialects.contract import Instance, Rule
from gnomon.dialects.mlir import context, ir
from gnomon.dialects.shardy import Mesh
from gnomon.dialects.types import TensorType, mlir_type, type_of

__all__ = [
    "lower_all_gather",
    "lower_all_to_all",
    "lower_axis_index",
    "lower_ppermute",
    "lower_psum_scatter",
    "lower_reduction",
    "partition_groups",
    "position",
]

_UINT32 = np.dtype(np.uint32)


def partition_groups(mesh: Mesh, axes: Sequence[str], groups: Groups = ()) -> list[list[int]]:
    """The groups of partitions in which a collective over some axes acts.

    Args:
      mesh: the mesh.
      axes: the axes, the major one first.
      groups: positions along the axis; by default one group of all.

    Example:
      >>> partition_groups(Mesh(("x", "y"), (2, 3)), ["x"])
      [[0, 3], [1, 4], [2, 5]]
      >>> partition_groups(Mesh(("x", "y"), (2, 3)), ["y"], [[0, 2], [1]])
      [[0, 2], [1], [3, 5], [4]]
    """
    grid = np.arange(mesh.size).reshape(mesh.sizes)
    named = [mesh.axes.index(name) for name in axes]
    others = [d for d in range(grid.ndim) if d not in named]
    members = int(np.prod([mesh.sizes[d] for d in named], dtype=np.int64))
    rows: list[list[int]] = grid.transpose([*others, *named]).reshape(-1, members).tolist()
    if not groups:
        return rows
    return [[row[i] for i in group] for row in rows for group in groups]


def _replica_groups(inst: Instance) -> ir.Attribute:
    groups = partition_groups(
        inst.engine.mesh, inst.params["axes"], inst.params.get("groups") or ()
    )
    width = max(map(len, groups))
    # Groups that are smaller than the largest one are padded with -1.
    return DENSE.encode(np.array([[*g, *[-1] * (width - len(g))] for g in groups], np.int64))


def _attributes(inst: Instance) -> dict[str, ir.Attribute]:
    """The attributes that most collectives have: groups of global ids, and a channel."""
    return {
        "replica_groups": _replica_groups(inst),
        "channel_handle": _channel(inst),
    }


def _channel(inst: Instance) -> ir.Attribute:
    return parse(f"#stablehlo.channel_handle<handle = {inst.engine.channel()}, type = 1>")


def _i64(value: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context()), value)


def _reducing(
    name: str, x: ir.Value, type_: TensorType, combine: Rule, attributes: dict[str, ir.Attribute]
) -> ir.Value:
    created = ir.Operation.create(
        f"stablehlo.{name}",
        results=[mlir_type(type_)],
        operands=[x],
        attributes={**attributes, "use_global_device_ids": ir.UnitAttr.get(context())},
        regions=1,
    )
    scalar = type_.with_shape(())
    stablehlo_region(created.regions[0], [scalar, scalar], lambda a, b: [combine(a, b)])
    result: ir.Value = created.results[0]
    return result


def lower_reduction(combine: Rule) -> Rule:
    """The lowering of a reduction over named axes, given the combination of two scalars."""

    def lower(inst: Instance) -> ir.Value:
        (x,), (type_,) = inst.operands, inst.result_types
        return _reducing("all_reduce", x, type_, combine, _attributes(inst))

    return lower


def _sized(shape: Sequence[int], dimension: int, size: int) -> tuple[int, ...]:
    return (*shape[:dimension], size, *shape[dimension + 1 :])


def lower_all_gather(inst: Instance) -> list[ir.Value]:
    """Gather along a new dimension, in which the value of each member has size one."""
    (x,), (type_,), dimension = inst.operands, inst.result_types, inst.params["dimension"]
    one = type_.with_shape(_sized(type_.shape, dimension, 1))
    attributes = {
        **_attributes(inst),
        "all_gather_dim": _i64(dimension),
        "use_global_device_ids": ir.UnitAttr.get(context()),
    }
    return stablehlo("all_gather", stablehlo("reshape", [x], [one]), [type_], **attributes)


def lower_psum_scatter(inst: Instance) -> list[ir.Value]:
    """Scatter along a dimension with one slice per member; each member drops the dimension."""
    (x,), (given,), dimension = inst.operands, inst.operand_types, inst.params["dimension"]
    one = given.with_shape(_sized(given.shape, dimension, 1))
    attributes = {**_attributes(inst), "scatter_dimension": _i64(dimension)}
    slice_ = _reducing("reduce_scatter", x, one, lowered.add, attributes)
    return stablehlo("reshape", [slice_], inst.result_types)


def lower_all_to_all(inst: Instance) -> list[ir.Value]:
    """Exchange along the dimension that is split, then move that dimension to its position."""
    (x,), (given,), params = inst.operands, inst.operand_types, inst.params
    split, concat = params["split"], params["concat"]
    attributes = {
        **_attributes(inst),
        "split_dimension": _i64(split),
        "concat_dimension": _i64(split),
        "split_count": _i64(params["size"]),
    }
    exchanged = stablehlo("all_to_all", [x], [given], **attributes)
    order = [d for d in range(given.rank) if d != split]
    order.insert(concat, split)
    return [lowered.transpose(*exchanged, permutation=tuple(order))]


def lower_ppermute(inst: Instance) -> list[ir.Value]:
    """Permute within each group; a member without a source gets zeros."""
    rows = partition_groups(inst.engine.mesh, inst.params["axes"])
    pairs = [
        (row[source], row[destination])
        for row in rows
        for source, destination in inst.params["permutation"]
    ]
    attributes = {
        "source_target_pairs": DENSE.encode(np.array(pairs, np.int64).reshape(-1, 2)),
        "channel_handle": _channel(inst),
    }
    return stablehlo("collective_permute", inst.operands, inst.result_types, **attributes)


def position(mesh: Mesh, axis: str) -> ir.Value:
    """The position of this partition along an axis, from its partition id; an i32 scalar."""
    place = mesh.axes.index(axis)
    inner = int(np.prod(mesh.sizes[place + 1 :], dtype=np.int64))
    (number,) = stablehlo("partition_id", [], [TensorType((), _UINT32)])
    outer = lowered.div(number, stablehlo_constant(np.array(inner, np.uint32)))
    along = lowered.rem(outer, stablehlo_constant(np.array(mesh.sizes[place], np.uint32)))
    return lowered.convert(along, dtype=np.dtype(np.int32))


def lower_axis_index(inst: Instance) -> ir.Value:
    """The position along an axis, which the engine computes."""
    (axis,) = inst.params["axes"]
    value: ir.Value = inst.engine.position(axis)
    assert type_of(value) == inst.result_types[0]
    return value
