"""Functions on shards: how `shard_map` and `pmap` trace them and apply them to whole arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray, explicit_sharding
from gnomon._config.current import config
from gnomon._sharding.axis_type import AxisType
from gnomon._sharding.mesh import AbstractMesh, Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec, axes_of
from gnomon._tracing.function import apply, trace_function, with_avals
from gnomon._tracing.stack import innermost_trace, named_axes
from gnomon._tracing.trace import is_tracer
from gnomon._tracing.unreduced import summed
from gnomon._transformations.mapped_shardings import device_mesh, give_shardings, place_operands
from gnomon._transformations.member_values import MemberValues
from gnomon._transformations.shard_map_checks import check_results, check_sums
from gnomon.dialects.shard_map import Spec
from gnomon.dialects.shard_map import shard_map as shard_map_op

__all__ = ["map_shards"]


def map_shards(
    call: Callable[[Sequence[Any]], Any],
    fun: Callable[..., Any],
    what: str,
    operands: Sequence[Array],
    in_specs: Sequence[PartitionSpec],
    out_specs: Callable[[Any], Sequence[PartitionSpec]],
    mesh: Mesh | AbstractMesh,
    axes: AbstractSet[Any],
    *,
    check_vma: bool,
) -> Any:
    """Trace a function on shards, and apply it to whole arrays.

    Args:
      call: takes the tracers of the shards; returns the result, a pytree.
      fun: the user's function, for its name.
      what: the transformation, for messages.
      operands: the whole arrays.
      in_specs: the specs of the operands, which have been checked.
      out_specs: takes the result of ``call``; returns the specs of its leaves.
      mesh: the mesh.
      axes: the axes to map over; those that are manual already are not mapped again.
      check_vma: see `shard_map`.
    """
    types = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    manual = [n for n in mesh.axis_names if n in axes and types[n] is not AxisType.Manual]
    placed = device_mesh(mesh, operands)
    if placed is not None:
        operands = place_operands(operands, in_specs, placed, manual, what)
    sizes = {str(name): mesh.shape[name] for name in manual}
    check_sums("in_specs", in_specs, mesh, check_vma=check_vma)

    members = MemberValues.of(
        operands, tuple(map(_spec_of, in_specs)), mesh, tuple(sizes), checked=check_vma
    )

    def traced_call(tracers: list[Any]) -> tuple[Any, Any]:
        trace = innermost_trace()
        if members is not None and trace is not None:
            trace.members = members
        with _manual_axes(mesh, manual), named_axes(sizes, checked=check_vma):
            out = call(tracers)
            specs = list(out_specs(out))
            check_sums("out_specs", specs, mesh, check_vma=check_vma)
            return _summed(out, specs), specs

    avals = [
        _local_aval(operand.aval, spec, mesh, manual, check_vma=check_vma)
        for operand, spec in zip(operands, in_specs, strict=True)
    ]
    traced = trace_function(traced_call, fun, what, avals, staging=False)
    specs: list[PartitionSpec] = traced.extra
    check_results(what, fun, traced, specs, list(sizes))
    results = apply(
        shard_map_op,
        traced,
        [*operands, *traced.captures],
        mesh_axes=tuple(str(name) for name in mesh.axis_names),
        mesh_sizes=tuple(mesh.axis_sizes),
        manual_axes=tuple(sizes),
        in_specs=(*map(_spec_of, in_specs), *(() for _ in traced.captures)),
        out_specs=tuple(map(_spec_of, specs)),
        check_vma=check_vma,
    )
    whole = [
        _whole_aval(aval, spec, mesh, sizes) for aval, spec in zip(traced.avals, specs, strict=True)
    ]
    results = with_avals(results, whole)
    if placed is not None:
        whole_specs = [
            _whole_spec(aval, spec, mesh, sizes)
            for aval, spec in zip(traced.avals, specs, strict=True)
        ]
        results = give_shardings(results, whole_specs, placed, manual)
    return tree_util.tree_unflatten(traced.tree, results)


def _summed(out: Any, specs: Sequence[PartitionSpec]) -> Any:
    """The results of a function on shards; varying ones become unreduced as their specs say."""
    if not any(spec.unreduced for spec in specs):
        return out
    leaves, tree = tree_util.tree_flatten(out)
    for i, spec in enumerate(specs):
        if is_tracer(leaves[i]):
            names = tuple(sorted(spec.unreduced & leaves[i].aval.vma))
            leaves[i] = summed(leaves[i]._trace, leaves[i], names) if names else leaves[i]
    return tree_util.tree_unflatten(tree, leaves)


def _inner_mesh(mesh: Mesh | AbstractMesh, manual: Sequence[Any]) -> AbstractMesh:
    """The abstract mesh with some axes manual."""
    return mesh.abstract_mesh.update_axis_types(dict.fromkeys(manual, AxisType.Manual))


@contextmanager
def _manual_axes(mesh: Mesh | AbstractMesh, manual: Sequence[Any]) -> Iterator[None]:
    """Set the context's mesh to this one with some axes manual."""
    before = config.mesh_context
    inner = _inner_mesh(mesh, manual)
    concrete = mesh if isinstance(mesh, Mesh) else before[0]
    config.set_mesh_context((concrete, inner, before[2]))
    try:
        yield
    finally:
        config.set_mesh_context(before)


def _parts(spec: PartitionSpec, dimension: int, mesh: Mesh | AbstractMesh) -> int:
    if dimension >= len(spec):
        return 1
    return math.prod(mesh.shape[name] for name in axes_of(spec[dimension]))


def _local_aval(
    aval: ShapedArray,
    spec: PartitionSpec,
    mesh: Mesh | AbstractMesh,
    manual: Sequence[Any],
    *,
    check_vma: bool,
) -> ShapedArray:
    """The type of a shard."""
    shape = tuple(n // _parts(spec, d, mesh) for d, n in enumerate(aval.shape))
    varying = {name for names in _spec_of(spec) for name in names} if check_vma else ()
    local = aval.replicated().update(shape=shape, vma=aval.vma.union(varying))
    others = _other_explicit(aval, mesh, manual)
    if not (spec.unreduced or spec.reduced or any(others)):
        return local
    typed = spec.update(partitions=others)
    return local.update(sharding=NamedSharding(_inner_mesh(mesh, manual), typed))


def _other_explicit(
    aval: ShapedArray, mesh: Mesh | AbstractMesh, manual: Iterable[Any]
) -> list[tuple[Any, ...]]:
    """For each dimension, the explicit axes in a type that are not mapped over."""
    others = set(mesh.explicit_axes).difference(manual)
    return [tuple(axis for axis in axes if axis in others) for axes in aval.split]


def _whole_spec(
    aval: ShapedArray, spec: PartitionSpec, mesh: Mesh | AbstractMesh, manual: Mapping[str, int]
) -> PartitionSpec:
    """The spec of a result that is joined from shards, with the axes that are not mapped over."""
    others = _other_explicit(aval, mesh, manual)
    if not any(others):
        return spec
    return spec.update(
        partitions=[
            (*axes_of(entry), *axes)
            for entry, axes in zip_longest(spec.partitions, others, fillvalue=())
        ]
    )


def _whole_aval(
    aval: ShapedArray, spec: PartitionSpec, mesh: Mesh | AbstractMesh, manual: Mapping[str, int]
) -> ShapedArray:
    """The type of a result that is joined from shards."""
    shape = tuple(n * _parts(spec, d, mesh) for d, n in enumerate(aval.shape))
    whole_spec = _whole_spec(aval, spec, mesh, manual)
    sharding = explicit_sharding(NamedSharding(mesh, whole_spec), len(shape))
    whole = aval.replicated().update(shape=shape, sharding=sharding)
    return whole.update(vma=aval.vma.difference(manual))


def _spec_of(spec: PartitionSpec) -> Spec:
    """A spec as a parameter of the op."""
    return tuple(tuple(str(name) for name in axes_of(entry)) for entry in spec.partitions)
