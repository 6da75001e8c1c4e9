"""The shardings of results, from those of operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._arrays.array import Array
from gnomon._arrays.sharded import ShardedArray, sharded
from gnomon._sharding.mesh import Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._tracing.explicit import explicit_types
from gnomon._tracing.partitioned import named, split_of
from gnomon.dialects.body import Body, operands_of
from gnomon.dialects.contract import Op, all_operations, params_of
from gnomon.dialects.emit import ops
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ir
from gnomon.dialects.sharding_rules import SplitUse
from gnomon.dialects.types import type_of
from gnomon.passes.pipeline import EXPAND, run_passes
from gnomon.passes.propagate_shardings import Inspected, Split, propagate

__all__ = [
    "check_fits",
    "mesh_of",
    "program_shardings",
    "propagated",
    "result_shardings",
    "sharded_results",
    "sharding_in",
    "typed_split",
]


def mesh_of(shardings: Sequence[Any]) -> Mesh | None:
    """The mesh of a program whose arguments have these shardings: that of the first one.

    If meshes differ in the types of their axes only, it is the one with explicit axes: a function
    whose axes are automatic may use values from outside, whose axes are explicit.

    Raises:
      ValueError: they are of different meshes, one of which has explicit axes.
    """
    first_mesh: Mesh | None = None
    for sharding in shardings:
        if not isinstance(sharding, NamedSharding):
            continue
        mesh = sharding.mesh
        if first_mesh is None:
            first_mesh = mesh
        elif mesh is first_mesh or not (mesh.explicit_axes or first_mesh.explicit_axes):
            continue
        elif (
            mesh.shape == first_mesh.shape
            and mesh.update(axis_types=first_mesh.axis_types) == first_mesh
        ):
            first_mesh = first_mesh if first_mesh.explicit_axes else mesh
        else:
            raise ValueError(
                f"arrays with explicit axes must all be on one mesh; got {first_mesh} and {mesh}. "
                "Move them with gnomon.device_put"
            )
    return first_mesh


def check_fits(sharding: NamedSharding, shape: tuple[int, ...], what: str) -> None:
    """Raise ``ValueError`` unless an array of this shape can have a sharding."""
    try:
        sharding.shard_shape(shape)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def sharding_in(x: Any) -> Any:
    """The `NamedSharding` of an array, or of a value with a ``sharding``; None if it has none."""
    if type(x) is ShardedArray:
        return x._sharding
    sharding = None if isinstance(x, Array) else getattr(x, "sharding", None)
    return sharding if isinstance(sharding, NamedSharding) else None


def program_shardings(
    program: Program,
    name: str,
    operands: Sequence[Any],
    mesh: Mesh,
    inspected: list[Inspected],
) -> list[NamedSharding]:
    """The shardings of the results of a function on arrays.

    Args:
      program, name: the function.
      operands: the arrays.
      mesh: the mesh of the operands, or of the constraints.
      inspected: the inspections of the program are added here.
    """
    shardings = [sharding_in(x) for x in operands]
    splits = propagated(program, program.body(name), shardings, mesh, inspected)
    return [named(mesh, split) for split in splits]


def propagated(
    program: Program,
    body: Body,
    shardings: Sequence[Any],
    mesh: Mesh | None,
    inspected: list[Inspected],
) -> list[Split]:
    """How the results of a body of a program are split, given the shardings of its arguments.

    Args:
      program, body: the body, and the functions that it calls.
      shardings: the shardings of its arguments; None for those that are not sharded.
      mesh: None where nothing is sharded.
      inspected: the inspections of the program are added here.
    """
    # Rules exist for ops only: calls and transformations are expanded, in a copy.
    copy = Program()
    copy.add("main", copy.import_body(program, body, {}), public=True)
    if mesh is not None and mesh.explicit_axes:
        _forget_in_maps(copy)
    run_passes(copy.module, EXPAND)
    main = Program(copy.module).body("main")
    splits = [
        split_of(sharding, mesh, type_.rank)
        for sharding, type_ in zip(shardings, main.argument_types, strict=True)
    ]
    return propagate(main, splits, {} if mesh is None else mesh.shape, inspected)


def _forget_in_maps(program: Program) -> None:
    """Constrain the operands of each `shard_map` to be unsplit: inside, their sharding is not used.

    A `shard_map` over only some axes of the mesh is not changed: the others split values inside.
    """
    for body in map(program.body, program.names):
        for op in all_operations(body):
            if op.name != "gnomon.shard_map":
                continue
            params = params_of(op)
            names = params["mesh_axes"]
            if set(params["manual_axes"]) != set(names):
                continue
            mesh = {"names": names, "sizes": params["mesh_sizes"], "devices": ()}
            types = ("auto",) * len(names)
            # Several operands are packed by a separate operation.
            holder = op if list(op.operands) == operands_of(op) else op.operands[0].owner
            with ir.InsertionPoint(holder), op.location:
                for i, value in enumerate(list(holder.operands)):
                    spec = ("",) * type_of(value).rank
                    holder.operands[i] = ops.sharding_constraint(
                        value, **mesh, types=types, spec=spec
                    )


def typed_split(mesh: Mesh, explicit: Split, propagated: Split) -> Split:
    """How a value is split: over explicit axes as its type says, over others as propagated."""
    if mesh.are_all_axes_explicit:
        return explicit
    auto = set(mesh.axis_names).difference(mesh.explicit_axes)
    return tuple(
        (*axes, *(axis for axis in propagated_axes if axis in auto))
        for axes, propagated_axes in zip(explicit, propagated, strict=True)
    )


def sharded_results(
    op: Op,
    operands: Sequence[Any],
    params: dict[str, Any],
    values: Sequence[np.ndarray[Any, Any]],
    weak_type: bool,
) -> list[ShardedArray]:
    """Results of an op on arrays of which some are sharded, with the shardings that follow."""
    shardings = result_shardings(op, operands, params, [v.shape for v in values])
    return [sharded(v, s, weak_type) for v, s in zip(values, shardings, strict=True)]


def result_shardings(
    op: Op, operands: Sequence[Any], params: dict[str, Any], results: Sequence[tuple[int, ...]]
) -> list[NamedSharding]:
    """The shardings of an op's results, of these shapes, where some operands are sharded."""
    shardings = [x._sharding if type(x) is ShardedArray else None for x in operands]
    mesh = mesh_of(shardings)
    assert mesh is not None
    shapes = [np.shape(x) for x in operands]
    splits = [split_of(s, mesh, len(shape)) for s, shape in zip(shardings, shapes, strict=True)]
    name = op.full_name.removeprefix("gnomon.")
    made = op.sharding.automatic(SplitUse(name, params, shapes, list(results), splits, mesh.shape))
    types = explicit_types(op, operands, params, results)
    if types is None:
        return [named(mesh, split) for split in made]
    return [named(mesh, typed_split(mesh, t._axes, s), t) for t, s in zip(types, made, strict=True)]
