"""Shardings in types, over the explicit axes of a mesh.

`explicit_types` applies the facet ``sharding`` of an op to the types of its operands. The other
functions change the type of a value, traced or concrete: `retyped` sets the sharding in the type,
`automatic` removes axes from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gnomon._arrays.array import Array
from gnomon._arrays.aval import explicit_sharding
from gnomon._arrays.concrete import ConcreteArray
from gnomon._arrays.sharded import ShardedArray
from gnomon._config.current import config
from gnomon._diagnostics.errors import ShardingTypeError
from gnomon._diagnostics.source_location import user_frame
from gnomon._sharding.axis_type import AxisType
from gnomon._sharding.mesh import AbstractMesh, Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon._tracing.forbidden_collectives import check_types
from gnomon._tracing.partitioned import resharded
from gnomon._tracing.unreduced import sums_of_results, without_reduced
from gnomon.dialects.contract import Op
from gnomon.dialects.sharding_rules import Shape, ShardingRuleError, SplitUse

__all__ = [
    "automatic",
    "concrete_mesh",
    "explicit_types",
    "full_spec",
    "has_explicit_types",
    "retyped",
    "with_devices",
    "with_types_of",
]


def has_explicit_types(operands: Sequence[Any]) -> bool:
    """Whether the type of any operand has a sharding."""
    for x in operands:
        if isinstance(x, Array) and type(x) is not ConcreteArray and x.aval.explicit is not None:
            return True
    return False


def explicit_types(
    op: Op, operands: Sequence[Any], params: dict[str, Any], shapes: Sequence[Shape]
) -> list[NamedSharding] | None:
    """The shardings in the types of an op's results; None where no operand has one.

    Args:
      op, operands, params: the op, the arrays that it is applied to, and its parameters.
      shapes: the shapes of the results.
    Raises:
      ShardingTypeError: the operands disagree, or the result is ambiguous.
      ValueError: the operands are of different meshes.
    """
    operand_shardings = [getattr(getattr(x, "aval", None), "explicit", None) for x in operands]
    mesh = _mesh_of(operand_shardings)
    if mesh is None:
        return None
    splits = [
        ((),) * len(x.shape) if sharding is None else sharding._axes
        for x, sharding in zip(operands, operand_shardings, strict=True)
    ]
    name = op.full_name.removeprefix("gnomon.")
    use = SplitUse(name, params, [tuple(x.shape) for x in operands], shapes, splits, mesh.shape)
    try:
        made = op.sharding.explicit(use)
        unreduced, reduced = sums_of_results(use, operands, made)
    except ShardingRuleError as error:
        file, line = user_frame()
        raise ShardingTypeError(f"{error} ({file}:{line})") from None
    results = [
        NamedSharding(mesh, PartitionSpec(*split, unreduced=unreduced, reduced=reduced))
        for split in made
    ]
    check_types(name, operand_shardings, results)
    return results


def _mesh_of(shardings: Sequence[NamedSharding | None]) -> AbstractMesh | None:
    """The mesh of the shardings in the types of operands; None if there are no shardings."""
    mesh: AbstractMesh | None = None
    for sharding in shardings:
        if sharding is None:
            continue
        if mesh is None or (sharding.mesh.manual_axes and sharding.mesh.shape == mesh.shape):
            mesh = sharding.mesh
        elif mesh.manual_axes and sharding.mesh.shape == mesh.shape:
            continue  # A value from outside of the shard_map.
        elif sharding.mesh != mesh:
            raise ValueError(
                f"arrays are sharded over different meshes, {mesh} and {sharding.mesh}. Move "
                "them with gnomon.device_put, or with gnomon.sharding.reshard if a mesh is set"
            )
    return mesh


def full_spec(sharding: NamedSharding, ndim: int) -> NamedSharding:
    """A sharding whose spec has an entry for each dimension."""
    entries = (*sharding.spec.partitions, *(None,) * ndim)[:ndim]
    return sharding.update(spec=sharding.spec.update(partitions=entries))


def concrete_mesh(mesh: Mesh | AbstractMesh, x: Any = None) -> Mesh | None:
    """A mesh with devices for an abstract one: that of an array, or that of the context."""
    if isinstance(mesh, Mesh):
        return mesh
    candidates = [x._sharding.mesh if type(x) is ShardedArray else None, config.mesh_context[0]]
    for candidate in candidates:
        if isinstance(candidate, Mesh) and candidate.shape == mesh.shape:
            return candidate.update(axis_types=mesh.axis_types)
    return None


def with_devices(sharding: Any, x: Any = None) -> Any:
    """Replace an abstract mesh by that of the array or of the context, if one has its shape."""
    if not isinstance(sharding, NamedSharding) or isinstance(sharding.mesh, Mesh):
        return sharding
    mesh = concrete_mesh(sharding.mesh, x)
    return sharding if mesh is None else sharding.update(mesh=mesh)


def retyped(x: Any, sharding: NamedSharding | None) -> Any:
    """Set the sharding in the type of a value; a concrete array is resharded accordingly."""
    explicit = explicit_sharding(sharding, x.ndim)
    if not isinstance(x, ConcreteArray):
        if explicit == x.aval.explicit:
            return x
        return x._trace.tracer(x._ssa, x.weak_type, x._location, x.aval.vma, explicit)
    if explicit is None or (type(x) is ShardedArray and x.aval.explicit == explicit):
        return x
    mesh = concrete_mesh(explicit.mesh, x)
    if mesh is None or (type(x) is not ShardedArray and not _is_special(explicit)):
        return x
    return resharded(x, NamedSharding(mesh, explicit.spec))


def _is_special(sharding: NamedSharding) -> bool:
    """Whether a sharding in a type differs from that of a type without one."""
    return any(sharding._axes) or bool(sharding.spec.unreduced or sharding.spec.reduced)


def with_types_of(results: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    """Results with these shardings in their types; None leaves a result unchanged."""
    return [x if s is None else retyped(x, s) for x, s in zip(results, shardings, strict=True)]


def automatic(x: Any, axes: Callable[[Any], bool] = lambda name: True) -> Any:
    """Make the explicit axes for which a predicate holds automatic in the type of a value."""
    explicit = x.aval.explicit
    if explicit is None:
        return x
    chosen = {name: AxisType.Auto for name in explicit.mesh.explicit_axes if axes(name)}
    if unreduced := sorted(explicit.spec.unreduced.intersection(chosen)):
        raise ShardingTypeError(
            f"a value of type {x.aval} is unreduced over {unreduced}, so these axes cannot be made "
            "automatic. Sum it with gnomon.sharding.reshard"
        )
    if type(x) is ShardedArray:
        mesh = x._sharding.mesh
        types = mesh.abstract_mesh.update_axis_types(chosen).axis_types
        return resharded(x, without_reduced(x._sharding, chosen, mesh.update(axis_types=types)))
    mesh = explicit.mesh.update_axis_types(chosen)
    return retyped(x, without_reduced(explicit, chosen, mesh))
