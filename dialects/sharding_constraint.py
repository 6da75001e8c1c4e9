"""``gnomon.sharding_constraint``: an identity that constrains the sharding of a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gnomon.dialects import work_rules
from gnomon.dialects.attributes import INTS, STRINGS
from gnomon.dialects.combinators import Values, require
from gnomon.dialects.contract import Instance, MappedAxis, Op
from gnomon.dialects.mlir import ir
from gnomon.dialects.sharding_rules import ShardingRule, Split, SplitUse, creation, valid_axes
from gnomon.dialects.shardy import OPEN
from gnomon.dialects.traits import Form, linear
from gnomon.dialects.types import TensorType

_TYPES = ("auto", "explicit", "manual")


def _infer(
    x: TensorType,
    *,
    names: tuple[str, ...],
    sizes: tuple[int, ...],
    types: tuple[str, ...],
    devices: tuple[int, ...],
    spec: tuple[str, ...],
) -> TensorType:
    def check(condition: bool, problem: str) -> None:
        require(condition, "sharding_constraint", problem)

    check(
        len(names) == len(sizes) == len(types) and len(set(names)) == len(names),
        "the mesh must have a name, a size and a type for each axis, got "
        f"{names}, {sizes}, {types}",
    )
    check(
        all(kind in _TYPES for kind in types),
        f"the types of axes are {', '.join(_TYPES)}, got {types}",
    )
    count = int(np.prod(sizes, dtype=np.int64))
    check(
        len(devices) in (0, count),
        f"the mesh has {count} devices, but {len(devices)} device ids are given",
    )
    check(len(spec) == x.rank, f"spec must have an entry for each dimension of {x}, got {spec}")
    used = [axis for entry in spec if entry != OPEN for axis in entry.split(",") if axis]
    check(
        set(used) <= set(names) and len(set(used)) == len(used),
        f"spec must name axes among {names}, each once, got {spec}",
    )
    return x


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], Sequence[int | None]]:
    (dim,) = dims
    assert dim is not None
    spec = list(inst.params["spec"])
    # The mapped dimension may be split in any way.
    spec.insert(dim, OPEN)
    return inst.op.build(operands, {**inst.params, "spec": tuple(spec)}), dims


def _explicit(use: SplitUse) -> list[Split]:
    """The explicit axes of the spec, regardless of the sharding of the operand."""
    p = use.params
    explicit = {n for n, kind in zip(p["names"], p["types"], strict=True) if kind == "explicit"}
    entries = [() if entry == OPEN else tuple(entry.split(",")) for entry in p["spec"]]
    return [tuple(tuple(a for a in axes if a in explicit) for axes in entries)]


def _automatic(use: SplitUse) -> list[Split]:
    """The constraint, if it is on the same mesh."""
    if dict(zip(use.params["names"], use.params["sizes"], strict=True)) != dict(use.sizes):
        return creation.automatic(use)
    return [valid_axes(use, constraint_split(use.params, use.splits[0]), use.results[0])]


def constraint_split(params: Mapping[str, Any], split: Split) -> Split:
    """The sharding after a constraint of a value whose sharding before it is ``split``."""
    requested = [None if entry == OPEN else _axes(entry) for entry in params["spec"]]
    fixed = {axis for axes in requested if axes for axis in axes}
    return tuple(
        tuple(a for a in old if a not in fixed) if axes is None else axes
        for axes, old in zip(requested, split, strict=True)
    )


def _axes(entry: str) -> tuple[str, ...]:
    return tuple(entry.split(",")) if entry else ()


def _lower(inst: Instance) -> Sequence[ir.Value]:
    if inst.engine.mesh is None:
        return inst.operands
    value: ir.Value = inst.engine.constrain(inst)
    return [value]


sharding_constraint = Op(
    name="sharding_constraint",
    doc="the operand, split over the devices of a mesh: `spec` has the axes that split each "
    'dimension, separated by commas, or "?" for a dimension that may be split in any way',
    example='%y = "gnomon.sharding_constraint"(%x) {names = ["data", "model"], '
    'sizes = array<i64: 2, 1>, types = ["auto", "auto"], devices = array<i64: 0, 1>, '
    'spec = ["data", "?"]} : (tensor<4x3xf32>) -> tensor<4x3xf32>',
    attributes={
        "names": STRINGS,
        "sizes": INTS,
        "types": STRINGS,
        "devices": INTS,
        "spec": STRINGS,
    },
    operands=("x",),
    form=Form.IDENTITY,
    work=work_rules.nothing,
    infer=_infer,
    evaluate=lambda x, **params: x,
    jvp=lambda inst, outs, tangents: inst.op.build(tangents, inst.params),
    linear=linear(),
    transpose=lambda inst, cotangents, linear: inst.op.build(cotangents, inst.params),
    batch=_batch,
    sharding=ShardingRule(_explicit, _automatic),
    lower=_lower,
)

__all__ = ["OPEN", "sharding_constraint"]
